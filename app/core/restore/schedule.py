"""Which object is read when, and how long its buffer is kept (restore-contract §3.8, §9). No I/O.

A submission reads each object it needs once. What the next submission needs again is kept as long as a buffer
stays free to read through; what must be read for its digests only is read where its stream's order has it.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from app.core.restore.plan import Fetch, Filling, RestoreLimits, Source, Submission, Take


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """What the order of reads depends on, besides the fillings.

    Attributes:
        part_bytes: for each source the lengths of its content's parts.
        stream_of: for each source of a stream that is digested as it is read, the stream's number; all of
            them are read, whether a filling needs them or not.
        held: sources whose buffers were kept from reading headers.
        digested: sources that are in their stream's digest already.
    """

    sources: Sequence[Source]
    part_bytes: Sequence[tuple[int, ...]]
    stream_of: Mapping[int, int]
    held: Collection[int]
    digested: Collection[int]
    limits: RestoreLimits


@dataclass(slots=True)
class _Read:
    """A fetch in the making."""

    source: int
    held: bool = False
    first: bool = False
    uses: int = 0


@dataclass(slots=True)
class _Orders:
    """Reads in order, and for each filling the reads it takes from."""

    reads: list[_Read] = field(default_factory=list)
    taken: list[list[int]] = field(default_factory=list)


def assign_reads(fillings: Sequence[Filling], *, reads: Reads, stream: int | None) -> list[Submission]:
    """Turn fillings into submissions that say what they take from which read.

    Args:
        fillings: in submission order.
        reads: what the order of reads depends on.
        stream: the stream whose digests the fillings themselves go into, if any.
    """
    needs = list(_needs(fillings, reads=reads))
    orders = _order(needs, reads=reads)
    fetches = [_fetch(number, read=read, reads=reads) for number, read in enumerate(orders.reads)]
    return [
        Submission(
            index=index,
            takes=tuple(
                Take(fetch=fetches[number], copies=tuple(filling.copies.get(orders.reads[number].source, ())))
                for number in taken
            ),
            spans=tuple(filling.spans),
            used_bytes=filling.used_bytes,
            stream=stream,
        )
        for index, (filling, taken) in enumerate(zip(fillings, orders.taken, strict=True))
    ]


def _needs(fillings: Sequence[Filling], *, reads: Reads) -> Iterator[list[int]]:
    """The sources of each filling, and before them those only their stream's digests need."""
    unread: dict[int, deque[int]] = {stream: deque() for stream in reads.stream_of.values()}
    for source, stream in sorted(reads.stream_of.items()):
        unread[stream].append(source)
    last = len(fillings) - 1
    for number, filling in enumerate(fillings):
        needed: dict[int, None] = {}
        for source in filling.copies:
            waiting = unread.get(reads.stream_of.get(source, -1), deque())
            while waiting and waiting[0] <= source:
                needed[waiting.popleft()] = None
            needed[source] = None
        if number == last:
            needed.update(dict.fromkeys(source for waiting in unread.values() for source in waiting))
        yield list(needed)


def _order(needs: Sequence[Sequence[int]], *, reads: Reads) -> _Orders:
    """Kept reads are taken from first, so that their buffers come free for the others."""
    orders = _Orders()
    kept: dict[int, int] = {}
    seen = set(reads.digested)
    for source in sorted(reads.held):
        if source in needs[0]:
            kept[source] = len(orders.reads)
            orders.reads.append(_Read(source=source, held=True))
    for index, needed in enumerate(needs):
        taken = [*kept.values()]
        for source in needed:
            if source not in kept:
                taken.append(len(orders.reads))
                orders.reads.append(_Read(source=source))
        for number in taken:
            read = orders.reads[number]
            read.first = read.first or read.source not in seen
            seen.add(read.source)
            read.uses += 1
        orders.taken.append(taken)
        following = needs[index + 1] if index + 1 < len(needs) else ()
        kept = _keep(taken, orders=orders, following=frozenset(following), reads=reads)
    return orders


def _keep(
    taken: Sequence[int], *, orders: _Orders, following: frozenset[int], reads: Reads
) -> dict[int, int]:
    """The largest objects that are needed again; at least one buffer stays free."""
    again = [number for number in taken if orders.reads[number].source in following]
    again.sort(key=lambda number: -reads.sources[orders.reads[number].source].descriptor.byte_count)
    return {orders.reads[number].source: number for number in again[: reads.limits.buffers - 1]}


def _fetch(number: int, *, read: _Read, reads: Reads) -> Fetch:
    return Fetch(
        number=number,
        source=reads.sources[read.source],
        part_bytes=reads.part_bytes[read.source],
        uses=read.uses,
        stream=reads.stream_of.get(read.source) if read.first else None,
        held=read.held,
    )
