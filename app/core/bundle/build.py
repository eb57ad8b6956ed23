"""A bundle from the log, in bounded memory: what is derived is spooled, then everything is written once.

The log is taken once, in order. Receipts are asked for afterwards, some at a time, by ascending digest. The
archive appears under its name when it is complete and on disk; before that there is a folder beside it.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from app.core.bundle import layout
from app.core.bundle.archive import CHUNK_BYTES, ArchiveWriter
from app.core.bundle.derive import BundleRequest as BundleRequest
from app.core.bundle.derive import Derivation, Summary
from app.core.bundle.guide import guide_text
from app.core.bundle.log import CheckedHeads, Heads, LogReading, check_heads
from app.core.bundle.manifest import PAYLOAD_TYPE, FileEntry, LogExtent, Manifest, encode_manifest
from app.core.bundle.records import LONGEST_LINE, CheckedLeaf, Leaf, Subtree, entry_line, row_line
from app.core.bundle.report import report_page
from app.core.bundle.statements import PAYLOAD_TYPE as STATEMENT_TYPE
from app.core.digest import Digest, RunningDigest, sha256
from app.core.dsse import Sign, fingerprint, public_pem, seal
from app.core.errors import FormatError, IntegrityError

_BATCH: Final = 100
_LENGTH_BYTES: Final = 4
_SPOOL_BUFFER: Final = 256 * 1024
_Progress = Callable[[str, int], None]
ReadReceipts = Callable[[Sequence[str]], Mapping[str, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSigner:
    """Who signs.

    Attributes:
        sign: Ed25519 over the given bytes, with the key `public` (32 bytes) belongs to.
        ledger_vkey: the key of the log's checkpoints; it may be the same.
    """

    sign: Sign
    public: bytes
    ledger_vkey: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A finished bundle."""

    sha256: Digest
    byte_count: int
    manifest_sha256: Digest
    fingerprint: Digest
    counts: Mapping[str, int]
    receipts: int


def _no_progress(what: str, count: int) -> None:
    """Nobody wants to know."""


def build_bundle(
    target: Path,
    *,
    request: BundleRequest,
    signer: BundleSigner,
    log: Iterable[Leaf | Subtree],
    read_receipts: ReadReceipts,
    checkpoint: bytes,
    previous: bytes | None,
    consistency: bytes | None,
    verifier: bytes,
    progress: _Progress = _no_progress,
) -> Built:
    """Write a bundle to `target`; the same input gives the same bytes.

    Args:
        log: entries 0 … `request.size` - 1 without a gap, those from `request.start` on in full.
        read_receipts: the bytes of receipts by digest.
        checkpoint: signed, of `request.size` entries.
        previous: an earlier signed checkpoint, and `consistency` the proof from it; or neither.
        verifier: the archive of the offline verifier.

    Raises:
        FormatError: an entry, a row or a checkpoint in another form.
        IntegrityError: the log does not come to its root; a row or a receipt is not what was recorded.
        OSError: there is no room, or no right; nothing is left behind.
    """
    heads = check_heads(
        Heads(checkpoint=checkpoint, previous=previous, consistency=consistency), vkey=signer.ledger_vkey
    )
    covered, asked = (heads.checkpoint.origin, heads.checkpoint.size), (request.name, request.size)
    if covered != asked:
        raise IntegrityError("checkpoint", expected=f"log and size {asked} as asked for", found=str(covered))
    clear_leftovers(target)
    folder = _leftovers(target)
    folder.mkdir(mode=0o700)
    try:
        texts = {
            layout.CHECKPOINT: checkpoint,
            layout.VERIFIER: verifier,
            layout.LEDGER_KEY: f"{signer.ledger_vkey}\n".encode(),
            layout.KEY: public_pem(signer.public),
            **({} if previous is None else {layout.PREVIOUS: previous}),
            **({} if consistency is None else {layout.CONSISTENCY: consistency}),
        }
        building = _Building(
            folder, request=request, signer=signer, heads=heads, texts=texts, progress=progress
        )
        building.take_log(log)
        built = building.write(folder / "archive", read_receipts=read_receipts)
        rename_for_good(folder / "archive", target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return built


def clear_leftovers(target: Path) -> None:
    """Remove what a process that was killed while it wrote `target` has left beside it."""
    shutil.rmtree(_leftovers(target), ignore_errors=True)


def _leftovers(target: Path) -> Path:
    return target.with_name(f".{target.name}.unfinished")


def rename_for_good(source: Path, target: Path) -> None:
    """Give a file its name in a folder; when this returns, the name outlives a power failure.

    Raises:
        OSError: it cannot be renamed.
    """
    source.replace(target)
    descriptor = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Spool:
    """A file of the bundle that grows line by line, with its digest."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._path = path
        self._digest = RunningDigest()
        self._byte_count = 0

    def write(self, line: bytes) -> None:
        self._file.write(line)
        self._digest.update(line)
        self._byte_count += len(line)

    def entry(self, path: str) -> FileEntry:
        return FileEntry(path=path, byte_count=self._byte_count, sha256=self._digest.digest())

    def chunks(self) -> Iterator[bytes]:
        with self._path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk


class _Building:
    """One bundle on its way. Spools are open for as long as the log is taken."""

    def __init__(
        self,
        folder: Path,
        *,
        request: BundleRequest,
        signer: BundleSigner,
        heads: CheckedHeads,
        texts: dict[str, bytes],
        progress: _Progress,
    ) -> None:
        self._folder = folder
        self._request = request
        self._signer = signer
        self._heads = heads
        self._texts = texts
        self._progress = progress
        self._fingerprint = fingerprint(signer.public)
        self._spools: dict[str, _Spool] = {}
        # Digest and four bytes of length: there may be many.
        self._receipts: list[bytes] = []

    def take_log(self, log: Iterable[Leaf | Subtree]) -> None:
        """Spool everything that follows from the log."""
        with ExitStack() as stack:
            for path in (
                layout.ENTRIES,
                layout.ROWS,
                layout.RUNS,
                layout.VERDICTS,
                *map(layout.table_path, layout.TABLES),
            ):
                place = self._folder / path.replace("/", "-")
                file = stack.enter_context(place.open("wb", buffering=_SPOOL_BUFFER))
                self._spools[path] = _Spool(file, place)
            derivation = Derivation(self._request, sink=self)
            reading = LogReading(start=self._request.start, heads=self._heads)
            for leaf in reading.read(self._spooled(log)):
                if not isinstance(leaf, CheckedLeaf):
                    raise leaf
                self._take_rows(leaf)
                derivation.take(leaf)
                if leaf.index % 1000 == 999:
                    self._progress("entries", leaf.index + 1)
            summary = derivation.finish()
            self._files = [spool.entry(path) for path, spool in self._spools.items()]
        self._progress("entries", self._request.size)
        self._finish(summary, reading)

    def table(self, name: str, line: bytes) -> None:
        """A line of a table."""
        self._spools[layout.table_path(name)].write(line)

    def statement(self, path: str, payload: bytes) -> None:
        """A statement, signed."""
        sealed = seal(
            payload, payload_type=STATEMENT_TYPE, sign=self._signer.sign, public=self._signer.public
        )
        self._spools[path].write(sealed + b"\n")

    def write(self, place: Path, *, read_receipts: ReadReceipts) -> Built:
        """Write the archive."""
        small = self._texts
        paths = sorted([*small, *self._spools])
        before = [path for path in paths if path < "receipts/"]
        with place.open("wb", buffering=_SPOOL_BUFFER) as file:
            archive = ArchiveWriter(file)
            for path in before:
                self._add(archive, path)
            for digest, raw in self._receipt_bytes(read_receipts):
                archive.add(layout.receipt_path(digest), byte_count=len(raw), chunks=(raw,))
            for path in paths[len(before) :]:
                self._add(archive, path)
            digest = archive.finish()
            file.flush()
            os.fsync(file.fileno())
        self._progress("bytes", archive.byte_count)
        return Built(
            sha256=digest,
            byte_count=archive.byte_count,
            manifest_sha256=sha256(small[layout.MANIFEST]),
            fingerprint=self._fingerprint,
            counts=self._counts,
            receipts=len(self._receipts),
        )

    def _spooled(self, log: Iterable[Leaf | Subtree]) -> Iterator[Leaf | Subtree]:
        for entry in log:
            self._line(layout.ENTRIES, entry_line(entry), subject=f"entry {entry.index}")
            yield entry

    def _take_rows(self, leaf: CheckedLeaf) -> None:
        for row in leaf.rows:
            subject = f"entry {leaf.index}: row {row.view} {row.key}"
            self._line(layout.ROWS, row_line(row, leaf=leaf.index), subject=subject)
            if row.view == "receipt":
                length = int(row.text("byte_count")).to_bytes(_LENGTH_BYTES)
                self._receipts.append(bytes.fromhex(row.text("sha256")) + length)

    def _line(self, path: str, line: bytes, *, subject: str) -> None:
        if len(line) > LONGEST_LINE:
            raise FormatError(
                subject, expected=f"a line of at most {LONGEST_LINE} bytes", found=str(len(line))
            )
        self._spools[path].write(line)

    def _finish(self, summary: Summary, reading: LogReading) -> None:
        """Texts that need the whole log, the list of digests, the manifest and its signature."""
        self._receipts.sort()
        self._counts = summary.counts
        head, request = self._heads.checkpoint, self._request
        self._texts[layout.GUIDE] = guide_text(request, fingerprint=self._fingerprint)
        self._texts[layout.REPORT] = report_page(
            request,
            summary,
            head=head,
            fingerprint=self._fingerprint,
            receipts=len(self._receipts),
            outside=reading.outside,
        )
        self._files += [
            FileEntry(path=path, byte_count=len(raw), sha256=sha256(raw)) for path, raw in self._texts.items()
        ]
        self._spool_sums()
        previous = self._heads.previous
        manifest = Manifest(
            request=request,
            key=self._fingerprint,
            log=LogExtent(
                size=head.size,
                root=head.root.hex(),
                vkey=self._signer.ledger_vkey,
                previous_size=None if previous is None else previous.size,
                full=reading.full,
                outside=reading.outside,
            ),
            counts=summary.counts,
            files=sorted(self._files, key=lambda file: file.path),
            receipt_count=len(self._receipts),
            receipt_bytes=sum(_named(one)[1] for one in self._receipts),
        )
        raw = encode_manifest(manifest)
        self._texts[layout.MANIFEST] = raw
        self._texts[layout.ENVELOPE] = seal(
            raw, payload_type=PAYLOAD_TYPE, sign=self._signer.sign, public=self._signer.public
        )

    def _spool_sums(self) -> None:
        place = self._folder / layout.SUMS
        files = sorted((file.path, str(file.sha256)) for file in self._files)
        with place.open("wb", buffering=_SPOOL_BUFFER) as file:
            spool = _Spool(file, place)
            for line in layout.sums_lines(files, (_named(one)[0] for one in self._receipts)):
                spool.write(line)
            self._files.append(spool.entry(layout.SUMS))
        self._spools[layout.SUMS] = spool

    def _add(self, archive: ArchiveWriter, path: str) -> None:
        if path in self._texts:
            raw = self._texts[path]
            archive.add(path, byte_count=len(raw), chunks=(raw,))
        else:
            spool = self._spools[path]
            archive.add(path, byte_count=spool.entry(path).byte_count, chunks=spool.chunks())

    def _receipt_bytes(self, read_receipts: ReadReceipts) -> Iterator[tuple[str, bytes]]:
        for start in range(0, len(self._receipts), _BATCH):
            batch = [_named(one) for one in self._receipts[start : start + _BATCH]]
            found = read_receipts([digest for digest, _ in batch])
            for digest, byte_count in batch:
                raw = found.get(digest, b"")
                if len(raw) != byte_count or sha256(raw) != digest:
                    raise IntegrityError(
                        f"receipt {digest}",
                        expected=f"its {byte_count} bytes",
                        found=f"{len(raw)} bytes of digest {sha256(raw)}",
                    )
                yield digest, raw
            self._progress("receipts", min(start + _BATCH, len(self._receipts)))


def _named(kept: bytes) -> tuple[str, int]:
    """Digest and length of a receipt."""
    return kept[:-_LENGTH_BYTES].hex(), int.from_bytes(kept[-_LENGTH_BYTES:])
