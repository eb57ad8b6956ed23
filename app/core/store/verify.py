"""All that can be said of an entry: lookup at level *full*, then header, stream and decoding (§13.3)."""

from dataclasses import dataclass
from enum import StrEnum

from app.core.digest import Digest, RunningDigest
from app.core.errors import FormatError, IncompatibleError, Stage, StoreError
from app.core.store.authenticate import authenticate_streams
from app.core.store.decode import PageDecoding
from app.core.store.entry import Entry, find_entry
from app.core.store.files import StoreFiles
from app.core.store.identity import CacheIdentity, RecordKind
from app.core.store.lookup import Depth, missing_judged, outcome_of, verify_entry
from app.core.store.manifest import LegacyManifest, PrefixAlias, RowTailManifest, StorageMode
from app.core.store.rows import decode_rows, why_positions_are_unknown
from app.core.store.snapshot import PageLayout

# store-format §19 leaves the longest stream to the operator: 1 TiB unless told otherwise.
DEFAULT_ENTRY_BYTES = 1 << 40


class VerifyOutcome(StrEnum):
    """``verified`` says: of these bytes; whether they are the right answer is not a store's to say."""

    VERIFIED = "verified"
    ABSENT = "absent"
    INCOMPATIBLE = "incompatible"
    CORRUPT = "corrupt"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedLayer:
    """Digest over all pages of one layer, in stream order."""

    name: str
    pages: int
    byte_count: int
    sha256: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedRecord:
    """Digest over one kind of record, concatenated in chunk order."""

    kind: RecordKind
    byte_count: int
    sha256: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What was found.

    Attributes:
        stage: the check that decided; for a verified entry the last one that was made.
        entry: what was found; where the lookup was a hit.
        problem: why it is not verified.
        stream_sha256: digest of the entry's page stream, where it was computed.
        layers: of a page entry, if a layout was given.
        records: of a row entry, by kind.
        note: what was not checked, or stands against a restore although nothing is wrong.
    """

    outcome: VerifyOutcome
    stage: Stage
    entry: Entry | None = None
    problem: StoreError | None = None
    stream_sha256: Digest | None = None
    layers: tuple[DecodedLayer, ...] = ()
    records: tuple[DecodedRecord, ...] = ()
    note: str | None = None

    @property
    def detail(self) -> str | None:
        """Object, expected and found as one sentence; ``None`` for a verified entry."""
        return None if self.problem is None else str(self.problem)


def verify(
    files: StoreFiles,
    *,
    identity: CacheIdentity,
    context_digest: str,
    mode: StorageMode | None = None,
    layout: PageLayout | None = None,
    entry_bytes: int = DEFAULT_ENTRY_BYTES,
) -> Verification:
    """Look an entry up, read every byte of it and take it apart.

    Args:
        files: the root.
        identity: the asked identity.
        context_digest: the asked digest, as it came from outside.
        mode: how a legacy entry is to be read; else pages if its identity has exactly their two records.
            Row mode also tries an alias.
        layout: needed to cut a page stream into layers; without it streams are made sure of, not cut.
        entry_bytes: the most bytes of objects the operator allows.

    Raises:
        ResourceError: the machine, not the store, stood in the way; there is no answer.
    """
    entry: Entry | None = None
    try:
        wanted = Digest.parse(context_digest, subject="context digest")
        entry = find_entry(files, identity=identity, context_digest=wanted, mode=mode)
        _verify_allowed(entry, entry_bytes=entry_bytes)
        verify_entry(files, entry=entry, depth=Depth.FULL)
        with missing_judged(entry):
            if _is_pages(entry, mode=mode):
                return _verify_pages(files, entry=entry, layout=layout)
            return _verify_rows(files, entry=entry)
    except StoreError as error:
        return Verification(
            outcome=VerifyOutcome(outcome_of(error)), stage=error.stage, entry=entry, problem=error
        )


def _verify_allowed(entry: Entry, *, entry_bytes: int) -> None:
    total = sum(descriptor.byte_count for descriptor in entry.references)
    if total > entry_bytes:
        raise FormatError(
            "entry", expected=f"at most the operator's limit of {entry_bytes} bytes", found=f"{total} bytes"
        )


def _is_pages(entry: Entry, *, mode: StorageMode | None) -> bool:
    """Only a legacy entry can be either; aliases and tails are rows, everything else is pages (§4)."""
    document = entry.document
    if isinstance(document, PrefixAlias | RowTailManifest):
        return False
    if not isinstance(document, LegacyManifest):
        return True
    if mode is StorageMode.PAGES and not document.identity.stores_pages:
        raise IncompatibleError(
            "root document.identity",
            expected="exactly the records target_ckv and logical_positions, as pages have",
            found=", ".join(sorted(document.identity.required_records)),
        )
    return mode is not StorageMode.ROWS and document.identity.stores_pages


def _verify_pages(files: StoreFiles, *, entry: Entry, layout: PageLayout | None) -> Verification:
    if layout is None:
        return Verification(
            outcome=VerifyOutcome.VERIFIED,
            stage=Stage.STREAM,
            entry=entry,
            stream_sha256=authenticate_streams(files, entry=entry),
            note="without a page layout no pages were cut, and no delta was applied",
        )
    decoding = PageDecoding(files, entry=entry, layout=layout)
    digests = [RunningDigest() for _ in decoding.layers]
    for block in decoding.blocks():
        digests[block.layer.index].update(block.memory)
    return Verification(
        outcome=VerifyOutcome.VERIFIED,
        stage=Stage.STREAM,
        entry=entry,
        stream_sha256=decoding.stream_sha256,
        layers=tuple(
            DecodedLayer(
                name=layer.name,
                pages=layer.pages,
                byte_count=layer.end - layer.start,
                sha256=digest.digest(),
            )
            for layer, digest in zip(decoding.layers, digests, strict=True)
        ),
    )


def _verify_rows(files: StoreFiles, *, entry: Entry) -> Verification:
    digests: dict[RecordKind, RunningDigest] = {}
    sizes: dict[RecordKind, int] = {}
    for block in decode_rows(files, entry=entry):
        digests.setdefault(block.kind, RunningDigest()).update(block.memory)
        sizes[block.kind] = sizes.get(block.kind, 0) + len(block.memory)
    return Verification(
        outcome=VerifyOutcome.VERIFIED,
        stage=Stage.HEADER,
        entry=entry,
        records=tuple(
            DecodedRecord(kind=kind, byte_count=sizes[kind], sha256=digests[kind].digest())
            for kind in sorted(digests)
        ),
        note=why_positions_are_unknown(entry.identity),
    )
