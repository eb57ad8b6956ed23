"""What is kept is kept for good and shown to whoever may read, so nothing that holds a secret is taken."""

from collections.abc import Iterator
from typing import Final

from app.core.profiles.kinds import AnyDocument
from app.core.profiles.launch import Launch
from app.core.profiles.secrets import is_masked, is_secret_name
from app.core.profiles.template import Template, is_placeholder
from app.core.qualify.pointer import step
from app.errors import FieldProblem, Refused

MOST_NAMED: Final = 20


def check_no_secret(document: AnyDocument) -> None:
    """Return if no variable of a template or launch document has a value that its name says is secret.

    Raises:
        Refused: one has; the places are named, the values are not.
    """
    places = list(_places(document))
    if places:
        parts = tuple(
            FieldProblem(pointer=pointer, detail=f"{name}: expected no value, found one that is not repeated")
            for pointer, name in places[:MOST_NAMED]
        )
        names = ", ".join(name for _, name in places[:MOST_NAMED])
        detail = f"document: expected no secrets, found values of {names}; take them out and send it again"
        raise Refused(detail, code="document-holds-secret", errors=parts)


def _places(document: AnyDocument) -> Iterator[tuple[str, str]]:
    if isinstance(document.parsed, Launch):
        for one in document.parsed.environment:
            if _is_secret(one.name, one.value):
                yield one.pointer, one.name
    elif isinstance(document.parsed, Template):
        for name, value in document.parsed.pairs.items():
            if _is_secret(name, value):
                yield step(name), name


def _is_secret(name: str, value: str) -> bool:
    """A password in a URL is one too, whatever the variable is called."""
    if not value or is_placeholder(value):
        return False
    return is_secret_name(name) or is_masked(name, value)
