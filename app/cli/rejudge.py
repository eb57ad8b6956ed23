"""``sparkgate rejudge``: judge again what was judged with other rules; beside the database."""

import json
from typing import Annotated

import typer
from sqlalchemy.exc import SQLAlchemyError

from app.cli.client import fail
from app.cli.progress import progress_line
from app.config import Settings
from app.core.qualify.ruleset import ruleset_version
from app.core.qualify.values import Basis
from app.db.session import open_database
from app.verdicts.service.rejudge import rejudge_part


def rejudge(
    reason: Annotated[str, typer.Option(help="Why the rules or the grade changed; kept with every row.")],
    by: Annotated[str, typer.Option(help="Who says so.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Judge again what was judged with another rule set or another SPARKGATE_DEPLOYABLE_GRADE.

    New rows, the old ones stay; cut off, it goes on where it was. The control worker does the same by itself,
    a part at a time. Exit codes: 0 done, 2 usage or no database.
    """
    settings = Settings()
    judged = 0
    try:
        database = open_database(settings)
        with progress_line("judging again") as say:
            while part := rejudge_part(
                database, grade=Basis(settings.deployable_grade), by=by, reason=reason
            ):
                judged += part
                say(str(judged))
        database.dispose()
    except (SQLAlchemyError, ValueError) as error:
        fail(error, as_json=as_json, status=2)
    if as_json:
        typer.echo(json.dumps({"judged": judged, "ruleset": str(ruleset_version())}))
    else:
        typer.echo(f"judged again: {judged}; rule set {ruleset_version()[:12]}")
