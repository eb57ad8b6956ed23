"""The one question a store is asked: is the entry of this identity and prefix there, and sound? (§13.1)"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from app.core.digest import Digest
from app.core.errors import (
    AbsentError,
    FormatError,
    IncompatibleError,
    IntegrityError,
    Stage,
    StoreError,
)
from app.core.store.entry import Entry, find_entry
from app.core.store.files import MissingObjectError, StoreFiles
from app.core.store.identity import CacheIdentity
from app.core.store.manifest import RootKind, StorageMode
from app.core.store.objects import verify_contents, verify_sizes


class Depth(StrEnum):
    """How much of an entry is looked at (store-format §13.1, levels)."""

    METADATA = "metadata"
    SIZE = "size"
    FULL = "full"


class LookupOutcome(StrEnum):
    """The four answers; there are no others."""

    HIT = "hit"
    ABSENT = "absent"
    INCOMPATIBLE = "incompatible"
    CORRUPT = "corrupt"


_OUTCOMES: dict[type[StoreError], LookupOutcome] = {
    AbsentError: LookupOutcome.ABSENT,
    IncompatibleError: LookupOutcome.INCOMPATIBLE,
    FormatError: LookupOutcome.CORRUPT,
    IntegrityError: LookupOutcome.CORRUPT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupAnswer:
    """What a store says.

    Attributes:
        depth: the level that was asked for.
        entry: what was found; for a hit only.
        problem: why it is no hit, and at which stage that was seen.
    """

    outcome: LookupOutcome
    depth: Depth
    entry: Entry | None = None
    problem: StoreError | None = None

    @property
    def kind(self) -> RootKind | None:
        """What kind of document answered; for a hit only."""
        return None if self.entry is None else self.entry.kind

    @property
    def sha256(self) -> Digest | None:
        """Digest of the root document, or of the alias that led to the entry; for a hit only."""
        return None if self.entry is None else self.entry.sha256

    @property
    def stage(self) -> Stage | None:
        """How far the reader had to go to say no; ``None`` for a hit."""
        return None if self.problem is None else self.problem.stage

    @property
    def detail(self) -> str | None:
        """Object, expected and found as one sentence; ``None`` for a hit."""
        return None if self.problem is None else str(self.problem)


def lookup(
    files: StoreFiles,
    *,
    identity: CacheIdentity,
    context_digest: str,
    depth: Depth,
    mode: StorageMode | None = None,
) -> LookupAnswer:
    """Ask a store for an entry (store-format §13.1).

    Args:
        files: the root.
        identity: the asked identity, in the form it was written in (§5.4).
        context_digest: the asked digest, as it came from outside.
        depth: how far to look.
        mode: in row mode an alias is tried where no exact document exists; ``None`` is not row mode.

    Raises:
        ResourceError: the machine, not the store, stood in the way; there is no answer.
    """
    try:
        wanted = Digest.parse(context_digest, subject="context digest")
        entry = find_entry(files, identity=identity, context_digest=wanted, mode=mode)
        verify_entry(files, entry=entry, depth=depth)
    except StoreError as error:
        return LookupAnswer(outcome=outcome_of(error), depth=depth, problem=error)
    return LookupAnswer(outcome=LookupOutcome.HIT, depth=depth, entry=entry)


def verify_entry(files: StoreFiles, *, entry: Entry, depth: Depth) -> None:
    """Look at an entry's objects as far as ``depth`` says.

    Raises:
        AbsentError: an object below an alias is missing (store-format §10.3).
        FormatError, IntegrityError: corrupt, at stage ``size``, ``content`` or ``header``.
        ResourceError: out of descriptors or memory.
    """
    if depth is Depth.METADATA:
        return
    with missing_judged(entry):
        # All sizes come before the first content: what is cheap to see is said first.
        verify_sizes(files, descriptors=entry.references)
        if depth is Depth.FULL:
            verify_contents(files, descriptors=entry.references, required=entry.identity.required_records)


@contextmanager
def missing_judged(entry: Entry) -> Iterator[None]:
    """An object that is not there is a miss below an alias and damage everywhere else (store-format §10.3).

    Raises:
        AbsentError: an object below an alias is missing.
        FormatError: an object of another entry is.
    """
    try:
        yield
    except MissingObjectError as error:
        if entry.kind is not RootKind.PREFIX_ALIAS:
            raise
        raise AbsentError(
            error.subject, expected=error.expected, found=error.found, stage=error.stage
        ) from None


def outcome_of(error: StoreError) -> LookupOutcome:
    """Which of the three refusals an error is."""
    return next(outcome for kind, outcome in _OUTCOMES.items() if isinstance(error, kind))
