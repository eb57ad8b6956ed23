"""Row entries: a row of each kind is a page of its own size, its slot a place for one token (§9.2, §10).

No document says how long a row is. The first chunk does, once it is authentic; every other chunk must agree.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from app.core.errors import FormatError, PlanError, Stage
from app.core.restore.content import RowChunk
from app.core.restore.heads import RowHead
from app.core.restore.plan import (
    CheckedStream,
    Piece,
    RestoreLimits,
    Schedule,
    Source,
    fill_packed,
    require_object_sizes,
)
from app.core.restore.schedule import Reads, assign_reads
from app.core.store.entry import Entry
from app.core.store.identity import CacheIdentity, RecordKind
from app.core.store.objects import subject_of
from app.core.store.rows import why_positions_are_unknown
from app.core.store.snapshot import PageGroup, PageLayer, PageLayout, ReusePolicy, layer_spans

# A boundary's hidden state belongs to no position: there is no row to put it in.
_ROW_KINDS = frozenset(RecordKind) - {RecordKind.BOUNDARY_HIDDEN}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPlan:
    """One rank's restore of rows before the first chunk is opened.

    Attributes:
        kinds: the records every chunk must have, in the order of their names; each is a destination.
        chunk_rows: for each chunk the positions this rank has rows of.
    """

    kinds: tuple[RecordKind, ...]
    chunk_rows: tuple[int, ...]
    limits: RestoreLimits
    head: RowHead
    sources: tuple[Source, ...]

    @property
    def heads(self) -> tuple[RowHead, ...]:
        """What must be read before a schedule can be made."""
        return (self.head,)

    @property
    def early_streams(self) -> tuple[CheckedStream, ...]:
        """None: rows are no stream, each record has a digest of its own."""
        return ()

    @property
    def beside_head(self) -> Source | None:
        """Nothing: what is read first decides what is read then."""
        return None

    def schedule(self, *, held: Collection[int], digested: Collection[int]) -> Schedule:
        """What to read, copy and submit, now that the first chunk has been read; see ``PagePlan``.

        Raises:
            FormatError: stage ``header``: a record of the first chunk is no whole rows.
        """
        row_bytes = self._row_bytes()
        reads = Reads(
            sources=self.sources,
            part_bytes=[tuple(rows * size for size in row_bytes) for rows in self.chunk_rows],
            stream_of={},
            held=held,
            digested=digested,
            limits=self.limits,
        )
        fillings = fill_packed(self._pieces(row_bytes), sources=self.sources, limits=self.limits)
        counts = (sum(self.chunk_rows),)
        layout = _layout(self.kinds, row_bytes=row_bytes)
        return Schedule(
            layout=layout,
            block_counts=counts,
            layers=layer_spans(layout, block_counts=counts, header_bytes=0),
            batches=tuple((one,) for one in assign_reads(fillings, reads=reads, stream=None)),
            streams=(),
            source_bytes=sum(filling.used_bytes for filling in fillings),
            payload_bytes=layout.payload_bytes(block_counts=counts),
            object_count=len(self.sources),
        )

    def _row_bytes(self) -> tuple[int, ...]:
        (sizes,) = self.head.parts
        rows = self.chunk_rows[0]
        for kind, size in zip(self.kinds, sizes, strict=True):
            if size == 0 or size % rows:
                raise FormatError(
                    f"{self.sources[0].subject} record {kind}",
                    expected=f"{rows} whole rows",
                    found=f"{size} bytes",
                    stage=Stage.HEADER,
                )
        return tuple(size // rows for size in sizes)

    def _pieces(self, row_bytes: tuple[int, ...]) -> Iterator[Piece]:
        done = 0
        for source, rows in enumerate(self.chunk_rows):
            for part, size in enumerate(row_bytes):
                yield Piece(
                    source=source,
                    part=part,
                    offset=0,
                    byte_count=rows * size,
                    destination=part,
                    destination_offset=done * size,
                )
            done += rows


def plan_rows(entry: Entry, *, limits: RestoreLimits | None = None) -> RowPlan:
    """Plan the restore of a legacy entry, row tail or alias as rows.

    Raises:
        PlanError: rows that cannot be placed although they can be read: it is not known which positions are
            this rank's (store-format §20.4), or a record is no rows; or a chunk larger than a buffer.
        FormatError: longer than the operator allows.
    """
    limits = limits or RestoreLimits()
    identity = entry.identity
    kinds = _restorable_kinds(identity)
    contents = [RowChunk(descriptor=chunk, identity=identity, kinds=kinds) for chunk in entry.chunks]
    sources = tuple(
        Source(
            index=index,
            descriptor=content.descriptor,
            subject=subject_of(content.descriptor, index=index),
            content=content,
        )
        for index, content in enumerate(contents)
    )
    total = sum(chunk.byte_count for chunk in entry.chunks)
    if total > limits.snapshot_bytes:
        raise FormatError(
            "entry",
            expected=f"at most the operator's limit of {limits.snapshot_bytes} bytes",
            found=f"{total}",
        )
    largest = min(limits.object_bytes, limits.batch_bytes)
    require_object_sizes(sources, largest=largest, takers="a buffer takes")
    return RowPlan(
        kinds=kinds,
        chunk_rows=tuple(content.rows for content in contents),
        limits=limits,
        head=RowHead(sources=sources),
        sources=sources,
    )


def _restorable_kinds(identity: CacheIdentity) -> tuple[RecordKind, ...]:
    reason = why_positions_are_unknown(identity)
    if reason is not None:
        raise PlanError("rows", expected="positions known to be this rank's", found=reason)
    kinds = identity.required_records
    if not kinds <= _ROW_KINDS:
        raise PlanError(
            "rows",
            expected="one row per position in every record",
            found=f"a record {RecordKind.BOUNDARY_HIDDEN}, readable but not restorable",
        )
    return tuple(sorted(kinds))


def _layout(kinds: tuple[RecordKind, ...], *, row_bytes: tuple[int, ...]) -> PageLayout:
    """One group in which a block is a token's rows."""
    layers = tuple(
        PageLayer(name=kind, dtype="torch.uint8", page_shape=(1, size), bytes_per_page=size)
        for kind, size in zip(kinds, row_bytes, strict=True)
    )
    group = PageGroup(block_size=1, reuse_policy=ReusePolicy.FULL, reuse_window_tokens=None, layers=layers)
    return PageLayout(groups=(group,))
