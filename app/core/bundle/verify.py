"""Check a bundle without anybody: hashes and signature, the log to its root, tables and report derived again,
every verdict made again.

Exit codes: 0 good, 1 findings, 2 unreadable, 3 consistent but the signer was not established.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from app.core.bundle import layout
from app.core.bundle.contents import Contents, begins_as_bundle, check_manifest, csv_records, read_contents
from app.core.bundle.derive import Derivation, Summary
from app.core.bundle.guide import guide_text
from app.core.bundle.log import CheckedHeads, Heads, LogReading, check_heads, joined
from app.core.bundle.manifest import LogExtent, Manifest
from app.core.bundle.outcome import Verification as Verification
from app.core.bundle.records import (
    LONGEST_LINE,
    CheckedLeaf,
    Leaf,
    RowRecord,
    Subtree,
    parse_entry,
    parse_row,
    rows_by_leaf,
)
from app.core.bundle.replay import Replay
from app.core.bundle.report import report_page
from app.core.bundle.request import Answered, Selection
from app.core.bundle.statements import PAYLOAD_TYPE as STATEMENT_TYPE
from app.core.canonical_json import JsonObject
from app.core.digest import Digest, RunningDigest
from app.core.dsse import fingerprint, open_envelope
from app.core.errors import CoreError, FormatError, IntegrityError, shown
from app.core.ledger.checkpoint import Checkpoint, NoteVerifier, verify_checkpoint

_BENT: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_LONGEST_ENVELOPE: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """What the auditor brings: the fingerprint of the key that must have signed, and a checkpoint kept from
    earlier, as it was signed."""

    key: str | None = None
    checkpoint: bytes | None = None


def verify_bundle(path: Path, *, options: VerifyOptions) -> Verification:
    """Check the bundle in a file; nothing is written and nothing else is read."""
    verification = Verification()
    try:
        with path.open("rb") as file:
            verify_file(file, options=options, verification=verification)
    except OSError as error:
        verification.readable = False
        verification.report(
            FormatError(str(path), expected="a readable file", found=error.strerror or "an error")
        )
    except MemoryError:
        # Not a finding: with more of it the same file may be good.
        verification.readable = False
        verification.report(FormatError(str(path), expected="memory to check it in", found="too little"))
    return verification


def verify_file(file: BinaryIO, *, options: VerifyOptions, verification: Verification) -> None:
    """The same for an open file.

    Raises:
        OSError: it cannot be read.
    """
    try:
        contents = read_contents(file, report=verification.report)
    except CoreError as error:
        verification.readable = begins_as_bundle(file)
        verification.report(error)
        return
    try:
        manifest, public = check_manifest(contents, report=verification.report)
    except CoreError as error:
        verification.report(error)
        return
    _check_signer(fingerprint(public), options=options, verification=verification)
    verification.facts = _facts(manifest)
    if verification.finding_count:
        # What is not what was signed need not be judged; which entry is missing is said.
        _report_gap(contents, manifest, verification=verification)
        return
    try:
        _Checking(contents, manifest, public=public, verification=verification).check(options.checkpoint)
    except CoreError as error:
        verification.report(error)
    except _BENT as error:
        verification.report(_bent("bundle", error))


def _report_gap(contents: Contents, manifest: Manifest, *, verification: Verification) -> None:
    """The first entry that a changed log lacks, as far as it can be read."""
    named = {file.path: file.sha256 for file in manifest.files}
    if (
        layout.ENTRIES not in contents.members
        or named.get(layout.ENTRIES) == contents.digests[layout.ENTRIES]
    ):
        return
    size = 0
    try:
        for place, line in contents.lines(layout.ENTRIES, longest=LONGEST_LINE):
            entry = parse_entry(line, subject=f"{layout.ENTRIES} at byte {place}")
            if entry.index != size:
                break
            size += 1 << entry.level if isinstance(entry, Subtree) else 1
    except (CoreError, *_BENT):
        return  # that it was changed is said already
    if size < manifest.log.size:
        verification.report(IntegrityError(f"log entry {size}", expected="it, as signed", found="none"))


def _bent(subject: str, error: Exception) -> CoreError:
    """What is signed and covered by the log may still be in no form that any program of ours writes."""
    return FormatError(
        subject, expected="rows as the server writes them", found=f"{type(error).__name__}: {error}"
    )


def _check_signer(found: Digest, *, options: VerifyOptions, verification: Verification) -> None:
    if options.key is None:
        return
    if options.key == found:
        verification.established = True
    else:
        verification.report(
            IntegrityError("signer", expected=f"the key {shown(options.key)}", found=f"the key {found}")
        )


def _facts(manifest: Manifest) -> JsonObject:
    return {
        "log": manifest.request.name,
        "size": manifest.log.size,
        "root": manifest.log.root,
        "start": manifest.request.start,
        "everything": manifest.request.everything,
        "period_from": manifest.request.period_from,
        "period_to": manifest.request.period_to,
        "images": list(manifest.request.images),
        "topology": manifest.request.topology,
        "key": str(manifest.key),
        "vkey": manifest.log.vkey,
    }


class _Checking:
    """What the files say, made again. Also what takes derived lines, to compare them."""

    def __init__(
        self, contents: Contents, manifest: Manifest, *, public: bytes, verification: Verification
    ) -> None:
        self._contents = contents
        self._manifest = manifest
        self._public = public
        self._verification = verification
        self._report = verification.report
        self._tables = {name: RunningDigest() for name in layout.TABLES}
        self._statements = {
            path: contents.lines(path, longest=_LONGEST_ENVELOPE) for path in (layout.RUNS, layout.VERDICTS)
        }
        self._seen: set[str] = set()

    def check(self, kept: bytes | None) -> None:
        """Everything behind the manifest.

        Raises:
            CoreError: the log cannot be followed any further.
        """
        heads = self._heads()
        kept_head = self._kept(kept)
        request = self._manifest.request
        reading = LogReading(start=request.start, heads=heads, kept=kept_head)
        answered = Answered(request, selection=self._selection())
        for finding in answered.begin():
            self._report(finding)
        derivation = Derivation(request, sink=self)
        replay = Replay(
            read_receipt=self._contents.receipt,
            read_row=self._row_at,
            is_whole=lambda: not reading.pruned and reading.outside == 0,
        )
        for leaf in reading.read(self._log()):
            self._take(leaf, answered, derivation, replay)
        for finding in replay.finish():
            self._report(finding)
        summary = derivation.finish()
        self._check_kept(kept_head, reading)
        self._check_tables(summary)
        self._check_rest(summary, reading, heads)
        self._verification.counts = {
            **summary.counts,
            "entries": reading.full,
            "outside": reading.outside,
            **{f"verdicts_{name}": count for name, count in replay.counts.items() if name != "receipts"},
            "receipt_files": len(self._contents.receipts),
        }

    def table(self, name: str, line: bytes) -> None:
        """A line that a table must have next."""
        self._tables[name].update(line)

    def statement(self, path: str, payload: bytes) -> None:
        """A statement that must come next, signed."""
        place, line = next(self._statements[path], (-1, b""))
        subject = f"{path} at byte {place}"
        if place < 0:
            self._report(IntegrityError(path, expected="one more statement", found="the end"))
            return
        try:
            said = open_envelope(line, payload_type=STATEMENT_TYPE, public=self._public, subject=subject)
        except CoreError as error:
            self._report(error)
            return
        if said != payload:
            self._report(IntegrityError(subject, expected=shown(payload), found=shown(said)))

    def _heads(self) -> CheckedHeads:
        """Both checkpoints; they are those the manifest names."""
        present = self._contents.members
        vkey = self._manifest.log.vkey
        if self._contents.text(layout.LEDGER_KEY) != f"{vkey}\n".encode():
            raise IntegrityError(layout.LEDGER_KEY, expected=vkey, found="another key")
        return check_heads(
            Heads(
                checkpoint=self._contents.text(layout.CHECKPOINT),
                previous=self._contents.text(layout.PREVIOUS) if layout.PREVIOUS in present else None,
                consistency=self._contents.text(layout.CONSISTENCY)
                if layout.CONSISTENCY in present
                else None,
            ),
            vkey=vkey,
        )

    def _kept(self, kept: bytes | None) -> Checkpoint | None:
        if kept is None:
            return None
        try:
            verifier = NoteVerifier.parse(self._manifest.log.vkey)
            return verify_checkpoint(kept, verifier=verifier, subject="kept checkpoint")
        except CoreError as error:
            self._report(error)
            return None

    def _log(self) -> Iterator[Leaf | Subtree]:
        entries = (
            parse_entry(line, subject=f"{layout.ENTRIES} at byte {place}")
            for place, line in self._contents.lines(layout.ENTRIES, longest=LONGEST_LINE)
        )
        rows = rows_by_leaf(self._contents.lines(layout.ROWS, longest=LONGEST_LINE), subject=layout.ROWS)
        return joined(entries, rows)

    def _row_at(self, place: int) -> RowRecord:
        _, line = next(self._contents.lines(layout.ROWS, longest=LONGEST_LINE, start=place))
        return parse_row(line, place=place, subject=f"{layout.ROWS} at byte {place}")[1]

    def _selection(self) -> Selection:
        """What was asked for, as the rows themselves have it."""
        selection = Selection(self._manifest.request)
        if selection.limits:
            selection.learn(self._rows_of(selection.deciding))
            selection.learn_attempts(self._rows_of(selection.attempts))
        return selection

    def _rows_of(self, views: Collection[str]) -> Iterator[RowRecord]:
        """Rows of some views, in order; the last member of a line says which view it is of."""
        ends = tuple(f'"view":"{view}"}}'.encode("ascii") for view in views)
        for place, line in self._contents.lines(layout.ROWS, longest=LONGEST_LINE):
            if line.endswith(ends):
                yield parse_row(line, place=place, subject=f"{layout.ROWS} at byte {place}")[1]

    def _take(
        self, leaf: CheckedLeaf | CoreError, answered: Answered, derivation: Derivation, replay: Replay
    ) -> None:
        if not isinstance(leaf, CheckedLeaf):
            self._report(leaf)
            return
        try:
            for finding in answered.take(leaf):
                self._report(finding)
            derivation.take(leaf)
            for row in leaf.rows:
                if row.view == "receipt":
                    self._receipt(row)
            for finding in replay.take(leaf):
                self._report(finding)
        except CoreError as error:
            self._report(error)
        except _BENT as error:
            self._report(_bent(f"entry {leaf.index}", error))

    def _receipt(self, row: RowRecord) -> None:
        digest = row.text("sha256")
        self._seen.add(digest)
        found = self._contents.receipts.get(digest)
        if found is None or str(found[1]) != row.text("byte_count"):
            expected = f"a file of {row.text('byte_count')} bytes"
            observed = "none" if found is None else f"{found[1]} bytes"
            self._report(IntegrityError(layout.receipt_path(digest), expected=expected, found=observed))

    def _check_kept(self, kept: Checkpoint | None, reading: LogReading) -> None:
        if kept is None or reading.kept_holds:
            return
        if reading.kept_holds is None:
            size = self._manifest.log.size
            found = f"nothing to compare with: the log of {size} entries shows no root of that size"
        else:
            found = "another root: history was changed, or this is another copy of the log"
        self._report(
            IntegrityError(
                "kept checkpoint", expected=f"root {kept.root.hex()} at size {kept.size}", found=found
            )
        )

    def _check_tables(self, summary: Summary) -> None:
        """Counts in three places, and every line."""
        for name, digest in self._tables.items():
            path = layout.table_path(name)
            places = {
                "manifest": self._manifest.counts.get(name, -1),
                "table": csv_records(self._contents, path),
                "log": summary.counts[name],
            }
            if len(set(places.values())) > 1:
                said = ", ".join(f"{where} {count}" for where, count in places.items())
                self._report(
                    IntegrityError(f"count of {name}", expected="the same in three places", found=said)
                )
            if digest.digest() != self._contents.digests[path]:
                self._report(
                    IntegrityError(
                        path, expected="the lines that receipts and rows give", found="other lines"
                    )
                )
        for path, lines in self._statements.items():
            if next(lines, None) is not None:
                self._report(
                    IntegrityError(path, expected="no statement beyond the verdicts", found="one more")
                )

    def _check_rest(self, summary: Summary, reading: LogReading, heads: CheckedHeads) -> None:
        manifest, head, previous = self._manifest, heads.checkpoint, heads.previous
        extent = LogExtent(
            size=head.size,
            root=head.root.hex(),
            vkey=manifest.log.vkey,
            previous_size=None if previous is None else previous.size,
            full=reading.full,
            outside=reading.outside,
        )
        self._same(f"{layout.MANIFEST}.log", extent, manifest.log)
        self._same(f"{layout.MANIFEST}.counts", dict(summary.counts), dict(manifest.counts))
        self._same(f"{layout.MANIFEST}.request.size", head.size, manifest.request.size)
        self._same(f"{layout.MANIFEST}.request.name", head.origin, manifest.request.name)
        for digest in sorted(self._contents.receipts.keys() - self._seen):
            path = layout.receipt_path(digest)
            self._report(IntegrityError(path, expected="an entry of the log that covers it", found="none"))
        page = report_page(
            manifest.request,
            summary,
            head=head,
            fingerprint=manifest.key,
            receipts=len(self._contents.receipts),
            outside=reading.outside,
        )
        guide = guide_text(manifest.request, fingerprint=manifest.key)
        for path, made in ((layout.REPORT, page), (layout.GUIDE, guide)):
            if made != self._contents.text(path):
                self._report(IntegrityError(path, expected="what the rows give", found="another text"))

    def _same(self, subject: str, expected: object, found: object) -> None:
        if expected != found:
            self._report(IntegrityError(subject, expected=shown(expected), found=shown(found)))
