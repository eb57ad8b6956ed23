"""KEY=VALUE files read literally, and placeholders (profile-contract §4.1, §18.12).

No trimming, no quoting, no expansion. The first ``=`` ends the key; the value may start with another one.
"""

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from app.core.digest import Digest, sha256
from app.core.errors import shown
from app.core.profiles.documents import ProfileDocument, check_size
from app.core.profiles.fields import Fields, Problems
from app.core.qualify.pointer import step

MAX_TEMPLATE_KEYS: Final = 2_000
MAX_TEMPLATE_LINES: Final = 100_000
"""Ours: the longest template known has some sixty; sixteen million empty ones would take seconds."""
_KEY = re.compile(r"[A-Z][A-Z0-9_]*")
_BYTE_ORDER_MARK: Final = "\ufeff"
_PLACEHOLDER_SIGNS: Final = ("<", ">", "${")
# Characters no environment can hold or no line should: NUL, carriage return and the other controls.
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\u0085\u2028\u2029]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """One file of assignments, in its order.

    Attributes:
        name: its file name.
        lines: line of each key, counted from 1.
        sha256: of the bytes; none where only keys and values are known.
        published_sha256: the digest the original bytes are said to have, where only keys and values are
            known.
    """

    name: str
    pairs: Mapping[str, str]
    lines: Mapping[str, int]
    sha256: Digest | None = None
    published_sha256: Digest | None = None


def is_placeholder(value: str) -> bool:
    """Whether a renderer has still to supply the value (§4.1)."""
    return any(sign in value for sign in _PLACEHOLDER_SIGNS)


def is_variable(name: str) -> bool:
    """Whether a name is that of a variable (§4.1)."""
    return _KEY.fullmatch(name) is not None


def has_control(value: str) -> bool:
    """Whether a value holds a line end or another control character: it cannot stand in one line."""
    return _CONTROL.search(value) is not None


def read_template(raw: bytes, *, name: str) -> Template:
    """Read a file of assignments.

    Args: raw: the bytes, at most 16 MiB. name: its file name, for messages and provenance.

    Raises: ProfileDocumentError: DOC_TOO_LARGE (bytes, over 2,000 keys or 100,000 lines), TPL_VALUE
    (no UTF-8, byte-order mark, carriage return, control character, a line that starts with a blank),
    TPL_SYNTAX (no ``=``, bad key), TPL_DUP_KEY; every offence is told, with the line.
    """
    check_size(len(raw), subject=name)
    digest = sha256(raw)
    lines = _Lines(problems=Problems(subject=name, sha256=digest))
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        lines.wrong(raw.count(b"\n", 0, error.start) + 1, "TPL_VALUE", "UTF-8", error.reason)
        text = ""
    _read_lines(text, lines)
    lines.problems.refuse()
    return Template(name=name, pairs=lines.pairs, lines=lines.places, sha256=digest)


def read_template_set(document: ProfileDocument) -> dict[str, Template]:
    """Templates that are known as keys and values only, by file name.

    Raises: ProfileDocumentError: DOC_FIELD for a wrong shape, TPL_SYNTAX, TPL_DUP_KEY, TPL_VALUE,
    DOC_TOO_LARGE as for a file.
    """
    problems = Problems(subject="templates", sha256=document.sha256)
    listed = Fields.of(document.value, problems=problems).named("templates")
    templates = {name: _from_fields(name, fields) for name, fields in listed.items()}
    problems.refuse()
    return templates


@dataclass(slots=True, kw_only=True)
class _Lines:
    problems: Problems
    pairs: dict[str, str] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)

    def wrong(self, number: int, code: str, expected: str, found: str, *, key: str = "") -> None:
        pointer = step(key) if key else ""
        told = f"{self.problems.subject} line {number}: {found}"
        self.problems.add(pointer, code=code, expected=expected, found=told)

    def take(self, number: int, key: str, value: str) -> None:
        """One assignment."""
        if not is_variable(key):
            # Not shown: in a rank's file it may be the second line of a secret.
            self.wrong(number, "TPL_SYNTAX", "a key of A-Z, 0-9 and _", "another one")
        elif key in self.pairs:
            self.wrong(number, "TPL_DUP_KEY", "every key once", f"{key} again", key=key)
        elif has_control(value):
            self.wrong(number, "TPL_VALUE", "a value without control characters", "one of them", key=key)
        else:
            self.pairs[key] = value
            self.places[key] = number


def _read_lines(text: str, lines: _Lines) -> None:
    if text.startswith(_BYTE_ORDER_MARK):
        lines.wrong(1, "TPL_VALUE", "no byte-order mark", "one in front")
        text = text[1:]
    # By line feed only: ``str.splitlines`` knows nine other ends, and a list of all lines may be large.
    for number, ended in enumerate(io.StringIO(text, newline="\n"), start=1):
        line = ended.removesuffix("\n")
        if number > MAX_TEMPLATE_LINES:
            lines.wrong(number, "DOC_TOO_LARGE", f"at most {MAX_TEMPLATE_LINES} lines", "more")
            return
        if not line or line.startswith("#"):
            continue
        if len(lines.pairs) >= MAX_TEMPLATE_KEYS:
            lines.wrong(number, "DOC_TOO_LARGE", f"at most {MAX_TEMPLATE_KEYS} keys", "more")
            return
        key, equals, value = line.partition("=")
        if line.endswith("\r"):
            lines.wrong(number, "TPL_VALUE", "lines that end in a line feed alone", "a carriage return")
        elif line[0].isspace():
            lines.wrong(number, "TPL_VALUE", "a line that starts with its key or with #", "a blank in front")
        elif not equals:
            lines.wrong(number, "TPL_SYNTAX", "KEY=VALUE", "a line without =")
        else:
            lines.take(number, key, value)
        if lines.problems.is_full:
            return


def _from_fields(name: str, fields: Fields) -> Template:
    problems = fields.problems
    lines = _Lines(problems=problems)
    assignments = fields.raw("assignments")
    if not isinstance(assignments, list):
        problems.add(fields.place("assignments"), expected="a list", found=shown(assignments))
        assignments = []
    if len(assignments) > MAX_TEMPLATE_KEYS:
        expected, found = f"at most {MAX_TEMPLATE_KEYS} keys", f"{len(assignments)}"
        problems.add(fields.place("assignments"), code="DOC_TOO_LARGE", expected=expected, found=found)
        assignments = []
    for number, pair in enumerate(assignments, start=1):
        if (
            isinstance(pair, list)
            and len(pair) == 2
            and isinstance(pair[0], str)
            and isinstance(pair[1], str)
        ):
            lines.take(number, pair[0], pair[1])
        else:
            place = fields.place("assignments") + step(number - 1)
            problems.add(place, expected="a list of key and value", found=shown(pair))
    published = fields.digest("original_sha256") if fields.has("original_sha256") else None
    return Template(name=name, pairs=lines.pairs, lines=lines.places, published_sha256=published)
