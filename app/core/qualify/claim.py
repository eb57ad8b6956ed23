"""A claim about a stored document: ``sparkgate-claim/v1`` (profile-contract §13, §18.8).

The document it speaks of stays as it is; what a claim does to a verdict is said by the rules.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from app.core.canonical_json import ExactValue
from app.core.digest import Digest
from app.core.errors import DocumentError, FormatError, shown
from app.core.qualify.document import Document, read_document
from app.core.qualify.pointer import step

CLAIM_SCHEMA: Final = "sparkgate-claim/v1"
MOST_TEXT: Final = 4_000
"""Characters of a reason or an author."""
_FIELDS: Final = (
    "schema",
    "subject_sha256",
    "pointer",
    "state",
    "author",
    "at",
    "reason",
    "replacement_sha256",
)
_POINTER: Final = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)")


class ClaimState(StrEnum):
    """What is said of the claim; in the order of how much it takes away."""

    ASSERTED = "asserted"
    EVIDENCED = "evidenced"
    AMENDED = "amended"
    AFFECTED = "affected"
    WITHDRAWN = "withdrawn"
    SUPERSEDED = "superseded"

    @property
    def takes_out(self) -> bool:
        """Whether the capability no longer counts in a verdict; all others change no result."""
        return self in (ClaimState.WITHDRAWN, ClaimState.SUPERSEDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim; ``sha256`` is the claim document's own, ``pointer`` a place in the subject (empty: all of
    it), ``at`` the time as written."""

    sha256: str
    subject_sha256: Digest
    pointer: str
    state: ClaimState
    author: str
    at: str
    reason: str
    replacement_sha256: Digest | None

    @property
    def moment(self) -> datetime:
        """``at`` in UTC."""
        return datetime.fromisoformat(self.at).astimezone(UTC)


def parse_claim(raw: bytes, *, subject: str = "claim") -> Claim:
    """Read a claim document.

    Raises:
        DocumentError: no strict JSON, or as ``claim_of``.
    """
    return claim_of(read_document(raw, subject=subject), subject=subject)


def claim_of(document: Document, *, subject: str = "claim") -> Claim:
    """Take a decoded document as a claim.

    Raises:
        DocumentError: not an object with exactly the members of a claim, each in its form; with the pointer.
    """
    value = document.value
    if not isinstance(value, dict):
        raise _refused(subject, "", expected="an object", found=value)
    for name in _FIELDS:
        if name not in value:
            raise _refused(subject, step(name), expected="a value", found=None)
    for name in value:
        if name not in _FIELDS:
            raise _refused(subject, step(name), expected=f"one of {', '.join(_FIELDS)}", found=name)
    if value["schema"] != CLAIM_SCHEMA:
        raise _refused(subject, "/schema", expected=CLAIM_SCHEMA, found=value["schema"])
    replacement = value["replacement_sha256"]
    return Claim(
        sha256=document.sha256,
        subject_sha256=_digest(value["subject_sha256"], at="/subject_sha256", subject=subject),
        pointer=_pointer(value["pointer"], subject=subject),
        state=_state(value["state"], subject=subject),
        author=_text(value["author"], at="/author", subject=subject),
        at=_time(value["at"], subject=subject),
        reason=_text(value["reason"], at="/reason", subject=subject),
        replacement_sha256=None
        if replacement is None
        else _digest(replacement, at="/replacement_sha256", subject=subject),
    )


def standing_claims(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """Of claims about one document the newest for each place; of equally old ones the one that takes away
    more."""
    states = list(ClaimState)
    ordered = sorted(claims, key=lambda one: (one.moment, states.index(one.state), one.sha256))
    return tuple({one.pointer: one for one in ordered}.values())


def _refused(subject: str, pointer: str, *, expected: str, found: object) -> DocumentError:
    told = "nothing" if found is None else shown(found)
    return DocumentError(subject, expected=expected, found=told, pointer=pointer)


def _digest(value: ExactValue, *, at: str, subject: str) -> Digest:
    try:
        return Digest.parse(value, subject=at)
    except FormatError as error:
        raise DocumentError(subject, expected=error.expected, found=error.found, pointer=at) from None


def _pointer(value: ExactValue, *, subject: str) -> str:
    if not isinstance(value, str) or _POINTER.fullmatch(value) is None:
        raise _refused(subject, "/pointer", expected="a JSON pointer, empty for all of it", found=value)
    return value


def _state(value: ExactValue, *, subject: str) -> ClaimState:
    if not isinstance(value, str) or value not in list(ClaimState):
        raise _refused(subject, "/state", expected=" or ".join(ClaimState), found=value)
    return ClaimState(value)


def _text(value: ExactValue, *, at: str, subject: str) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > MOST_TEXT:
        raise _refused(subject, at, expected=f"text of at most {MOST_TEXT} characters", found=value)
    return value


def _time(value: ExactValue, *, subject: str) -> str:
    """A date and time that exist, in a year whose neighbours exist in every zone."""
    fits = isinstance(value, str) and _TIME.fullmatch(value) is not None
    try:
        if isinstance(value, str) and fits and datetime.fromisoformat(value).astimezone(UTC):
            return value
    except (ValueError, OverflowError):
        pass
    raise _refused(subject, "/at", expected="a time of RFC 3339 with its zone", found=value)
