"""What commands share that work beside the database: one transaction, refusals in words."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.config import Settings
from app.db.session import open_database
from app.errors import AppError

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@contextmanager
def beside() -> Iterator[Session]:
    """One transaction on the database of the settings; what is refused ends the command with a sentence."""
    try:
        database = open_database(Settings())
    except ValueError as error:
        refuse(str(error))
    try:
        with database.transaction() as session:
            yield session
    except AppError as error:
        refuse(error.detail)
    except SQLAlchemyError as error:
        refuse(f"database: {str(error).splitlines()[0]}")
    finally:
        database.dispose()


def say(line: str) -> None:
    """Print one line to stdout."""
    Console(highlight=False, markup=False, soft_wrap=True).print(line)


def refuse(line: str) -> NoReturn:
    """Print one line to stderr and leave with 2."""
    Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(line)
    raise typer.Exit(2)
