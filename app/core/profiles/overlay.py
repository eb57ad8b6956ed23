"""An unpacked image root with an overlay over it: every file the lock names, every file of the overlay, how
the container was started, and what this check does not cover (profile-contract §10, §18.5, §18.15).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from app.core.digest import Digest
from app.core.profiles.anchors import (
    OVERLAY_CONTRACT,
    OVERLAY_ENTRYPOINT_FILE,
    OVERLAY_VALIDATOR,
    Anchors,
)
from app.core.profiles.documents import (
    MAX_DOCUMENT_BYTES,
    ProfileDocumentError,
)
from app.core.profiles.findings import CheckResult, ProfileFinding, finding, overall
from app.core.profiles.launch import Launch
from app.core.profiles.overlay_bindings import OverlayIdentity, binding_findings, rank_findings
from app.core.profiles.overlay_files import (
    MOST_NAMED,
    FileLine,
    FileTally,
    Standing,
    extra_line,
    locked_line,
    overlay_line,
)
from app.core.profiles.overlay_launch import launch_findings
from app.core.profiles.overlay_verification import Verification, verification_findings
from app.core.profiles.root_files import (
    Observed,
    ReadProgress,
    Seen,
    observe_files,
    read_bounded,
    walk_names,
)
from app.core.profiles.source_lock import (
    BAKED_ENTRYPOINT,
    BAKED_VERIFIER,
    CHECKED_FOLDER,
    CONTRACT_FOLDER,
    OVERLAY_ENTRYPOINT,
    SOURCE_LOCK,
    SourceLock,
    is_in,
    parse_source_lock,
)

_LEFT_OUT: Final = frozenset({CONTRACT_FOLDER, SOURCE_LOCK, OVERLAY_ENTRYPOINT})
_OVERLAY_FOLDER: Final = "profiles"


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayOrder:
    """What is known beside the two folders.

    Attributes:
        lock_sha256: the digest the lock must have; none leaves that check open.
        anchors: release selections and registered lists.
        launch: how the container of this host was started.
        verification: what the image's own verifier said on this host.
        others: the same four digests as other ranks reported them.
        has_persisted_root: whether the site keeps the overlay's root; none where no site is given.
    """

    lock_sha256: Digest | None = None
    anchors: tuple[Anchors, ...] = ()
    launch: Launch | None = None
    verification: Verification | None = None
    others: tuple[OverlayIdentity, ...] = ()
    has_persisted_root: bool | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayResult:
    """Everything the check says. ``files`` are differences, and every file of the overlay.

    Attributes:
        files_left_out: differences counted and not named.
        checked_files, byte_count: of image and overlay together.
        not_covered: sentences.
    """

    identity: OverlayIdentity
    image_id: str
    findings: tuple[ProfileFinding, ...]
    files: tuple[FileLine, ...]
    files_left_out: int
    counts: dict[str, int]
    checked_files: int
    byte_count: int
    not_covered: tuple[str, ...]

    @property
    def result(self) -> CheckResult:
        """One word for all findings."""
        return overall(self.findings)


def check_overlay(
    image_root: Path,
    overlay: Path,
    *,
    order: OverlayOrder,
    progress: Callable[[ReadProgress], None] | None = None,
) -> OverlayResult:
    """Read and judge both folders.

    Args:
        overlay: the folder that holds ``profiles`` and ``image``.
        progress: told of the image's files as they are read.

    Raises:
        ResourceError: one of the folders cannot be opened.
    """
    lock, lock_found = _read_lock(image_root, expected=order.lock_sha256)
    image = FileTally(code="SL_FILE_DRIFT")
    if lock is not None:
        take_locked(image, observe_files(image_root, locked_paths(lock), progress=progress), lock=lock)
        take_extra(image, walk_names(image_root, below=CHECKED_FOLDER, leave_out=_LEFT_OUT), lock=lock)
    over = OverlayFiles(order.anchors, lock=lock)
    over.take(_observe_overlay(overlay))
    contract = read_bounded(overlay, OVERLAY_CONTRACT, limit=MAX_DOCUMENT_BYTES)
    identity = over.identity(lock)
    findings = [
        *lock_found,
        *image.findings(),
        *(() if lock is None else baked_findings(image, lock=lock)),
        *over.findings(),
        *binding_findings(contract if isinstance(contract, bytes) else None, identity=identity, lock=lock),
        *launch_findings(order.launch, lock=lock, rank=order.rank),
        *verification_findings(order.verification, lock=lock),
        *rank_findings(identity, others=order.others),
        _persisted(order.has_persisted_root),
    ]
    return OverlayResult(
        identity=identity,
        image_id=order.launch.image_id if order.launch else "",
        findings=tuple(findings),
        files=(*image.lines, *over.lines),
        files_left_out=image.left_out + over.tally.left_out,
        counts={one.value: image.counts[one] + over.tally.counts[one] for one in Standing},
        checked_files=image.files + over.tally.files,
        byte_count=image.byte_count + over.tally.byte_count,
        not_covered=tuple(not_covered(lock, order=order)),
    )


def locked_paths(lock: SourceLock) -> list[str]:
    """The files that must be as the lock says although an overlay stands over the contract's folder; sorted,
    so that a folder is entered once."""
    return sorted(path for path in lock.installed_files if not is_in(path, CONTRACT_FOLDER))


def take_locked(tally: FileTally, observed: Iterable[Observed], *, lock: SourceLock) -> None:
    """Count and keep what was seen of the files the lock names."""
    for one in observed:
        tally.take(locked_line(one, expected=lock.installed_files[one.path]), byte_count=one.byte_count)


def take_extra(tally: FileTally, observed: Iterable[Observed], *, lock: SourceLock) -> None:
    """Count and keep names that the lock does not have."""
    for one in observed:
        line = extra_line(one, lock=lock)
        if line is not None:
            tally.take(line)


def baked_findings(tally: FileTally, *, lock: SourceLock) -> Iterator[ProfileFinding]:
    """The image's own entrypoint and verifier stay as they are below an overlay (§10.2)."""
    differing = {line.path for line in tally.lines if not line.warns}
    for path in (BAKED_ENTRYPOINT, BAKED_VERIFIER):
        if path not in lock.installed_files:
            yield finding(
                "SL_FILE_DRIFT", CheckResult.NOT_TESTED, pointer=path, detail="the lock does not name it"
            )
        elif path not in differing and not tally.left_out:
            yield finding(
                "SL_FILE_DRIFT",
                CheckResult.PASS,
                pointer=path,
                detail="untouched",
                expected=lock.installed_files[path],
                found=lock.installed_files[path],
            )


class OverlayFiles:
    """The files of an overlay as they are seen."""

    def __init__(self, anchors: Sequence[Anchors], *, lock: SourceLock | None) -> None:
        self.tally = FileTally(code="OV_UNANCHORED")
        self._anchors = anchors
        self._lock = lock
        self._seen: dict[str, Observed] = {}
        self._anchored: list[FileLine] = []

    @property
    def lines(self) -> list[FileLine]:
        """Every file that was kept, anchored or not."""
        return [*self._anchored, *self.tally.lines]

    def take(self, observed: Iterable[Observed]) -> None:
        """Hold each file against what anchors it."""
        named = {path for one in self._anchors if not one.is_selection for path in one.files}
        for one in observed:
            line = overlay_line(one, anchors=self._anchors, lock=self._lock)
            if one.path in (OVERLAY_CONTRACT, OVERLAY_VALIDATOR, OVERLAY_ENTRYPOINT_FILE):
                self._seen[one.path] = one
            # What must be there and is not has a code of its own; what a list names and is not there is
            # looked for below.
            if one.seen is Seen.MISSING:
                continue
            named.discard(one.path)
            self.tally.take(line, byte_count=one.byte_count)
            if line.standing is Standing.SAME and len(self._anchored) < MOST_NAMED:
                self._anchored.append(line)
        for path in sorted(named):
            absent = Observed(path=path, seen=Seen.MISSING, detail="a registered list names it")
            self.tally.take(overlay_line(absent, anchors=self._anchors, lock=self._lock))

    def identity(self, lock: SourceLock | None) -> OverlayIdentity:
        """The four digests that must be equal on every rank (§10.4)."""
        return OverlayIdentity(
            contract=self._digest(OVERLAY_CONTRACT),
            validator=self._digest(OVERLAY_VALIDATOR),
            entrypoint=self._digest(OVERLAY_ENTRYPOINT_FILE),
            source_lock=lock.sha256 if lock else None,
        )

    def findings(self) -> Iterator[ProfileFinding]:
        """What must be there, then each file that nothing anchors."""
        for code, path in (
            ("OV_ROOT", OVERLAY_CONTRACT),
            ("OV_ROOT", OVERLAY_VALIDATOR),
            ("OV_ENTRYPOINT_MISSING", OVERLAY_ENTRYPOINT_FILE),
        ):
            seen = self._seen.get(path)
            there = seen is not None and seen.seen is Seen.FILE
            yield finding(
                code,
                CheckResult.PASS if there else CheckResult.FAIL,
                pointer=path,
                expected="a file",
                found=seen.seen.value if seen else Seen.MISSING.value,
                detail=seen.detail if seen else "",
            )
        yield from self.tally.findings()

    def _digest(self, path: str) -> Digest | None:
        seen = self._seen.get(path)
        return seen.sha256 if seen and seen.seen is Seen.FILE else None


def not_covered(lock: SourceLock | None, *, order: OverlayOrder) -> Iterator[str]:
    """What may differ without this check noticing (§10.4)."""
    if lock is None:
        yield "every file of the image: there is no lock to hold them against"
    else:
        baked = sum(1 for path in lock.installed_files if is_in(path, CONTRACT_FOLDER))
        yield f"the {baked} contract files inside the image, which the overlay hides"
        yield f"every file of the image beside the {len(lock.installed_files)} that the lock names"
    yield f"files outside /{CHECKED_FOLDER} that the lock does not name"
    yield "modes, owners, extended attributes and times of files"
    if order.verification is None:
        yield "the Python closure (213 distributions) and its 57,008 payload files"
        yield "version and mapping of NCCL, the link to its library, and the media tools"
    if order.lock_sha256 is None:
        yield "the lock itself: no expected digest was given"
    if order.launch is None:
        yield "how the container is started: no launch document was given"
    else:
        yield "whether the bytes mounted are those of the folder that was checked"
    yield "what the validator of the overlay does before the files are checked"


def _read_lock(
    image_root: Path, *, expected: Digest | None
) -> tuple[SourceLock | None, list[ProfileFinding]]:
    raw = read_bounded(image_root, SOURCE_LOCK, limit=MAX_DOCUMENT_BYTES)
    if isinstance(raw, Observed):
        failed = finding(
            "SL_HASH",
            CheckResult.FAIL,
            pointer=SOURCE_LOCK,
            detail=raw.detail,
            expected=expected or "a source lock",
            found=raw.seen.value,
        )
        return None, [failed]
    try:
        lock = parse_source_lock(raw, subject=SOURCE_LOCK)
    except ProfileDocumentError as error:
        failed = finding(
            "SL_HASH", CheckResult.FAIL, pointer=SOURCE_LOCK, expected="a source lock", found=str(error)
        )
        return None, [failed, *error.findings]
    return lock, [_lock_finding(lock, expected=expected)]


def _lock_finding(lock: SourceLock, *, expected: Digest | None) -> ProfileFinding:
    if expected is None:
        return finding(
            "SL_HASH",
            CheckResult.NOT_TESTED,
            pointer=SOURCE_LOCK,
            detail="expected digest of the lock",
            found=lock.sha256,
        )
    return finding(
        "SL_HASH",
        CheckResult.PASS if lock.sha256 == expected else CheckResult.FAIL,
        pointer=SOURCE_LOCK,
        expected=expected,
        found=lock.sha256,
        document_sha256=lock.sha256,
    )


def _observe_overlay(overlay: Path) -> Iterator[Observed]:
    """Every file of the mounted folder, and the entrypoint beside it; three names are looked for anyhow."""
    sought = (OVERLAY_CONTRACT, OVERLAY_VALIDATOR, OVERLAY_ENTRYPOINT_FILE)
    unread: list[Observed] = []

    def named() -> Iterator[str]:
        for one in walk_names(overlay, below=_OVERLAY_FOLDER):
            if one.seen in (Seen.FILE, Seen.LOST_LINK):
                yield from () if one.path in sought else (one.path,)
            elif one.seen is not Seen.MISSING:
                unread.append(one)

    return chain(observe_files(overlay, chain(sought, named())), unread)


def _persisted(known: bool | None) -> ProfileFinding:
    if known is None:
        return finding("OV_NOT_PERSISTED", CheckResult.NOT_TESTED, detail="site document")
    return finding(
        "OV_NOT_PERSISTED",
        CheckResult.PASS if known else CheckResult.FAIL,
        pointer="/r33_profile_contract_roots",
        expected="a root per rank, kept by the site",
        found="one" if known else "none",
    )
