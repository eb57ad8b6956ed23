"""Objects in the order they are wanted: read ahead into free buffers, handed out once they are authentic."""

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import Future, wait

from app.core.restore.buffers import PooledBuffer
from app.core.restore.content import require_part_bytes
from app.core.restore.plan import Fetch, Schedule, Source
from app.core.restore.reader import BoundedReader, Load
from app.core.restore.report import ReaderWork
from app.core.restore.stream import StreamCheck
from app.core.restore.timeline import Clock, Phase, Timeline


class Feed:
    """The reads of one restore.

    First the heads, one after the other; then, by a schedule, everything.

    Args:
        reader: the rank's root and its stock of buffers.
        clock: monotonic ns.
        timeline: waiting for buffers and for readers is charged to it.
        check: follows the streams' bytes.
    """

    def __init__(
        self, reader: BoundedReader, *, clock: Clock, timeline: Timeline, check: StreamCheck
    ) -> None:
        self._reader = reader
        self._clock = clock
        self._timeline = timeline
        self._check = check
        self._loads: list[Load] = []
        self._held: dict[int, Load] = {}
        self._beside: dict[int, Load] = {}
        self._full = False
        self._upcoming: deque[Fetch] = deque()
        self._started: dict[int, Load] = {}
        self._authentic: set[int] = set()

    @property
    def held(self) -> Collection[int]:
        """Sources read as heads whose buffers are kept."""
        return self._held.keys()

    def read_heads(
        self, sources: Sequence[Source], *, stream: int | None, beside: Source | None = None
    ) -> list[Load]:
        """Authentic loads of these sources, as many as there are buffers at most.

        Args:
            sources: what to read at once.
            stream: the stream whose digests they go into already.
            beside: what to read meanwhile if a buffer is free; nobody waits for it or looks at it before
                there is a schedule (decision 0006).

        Raises:
            StoreError, ResourceError: as ``BoundedReader.read_load``.
        """
        loads = []
        for source in sources:
            with self._timeline.phase(Phase.BUFFER_WAIT):
                buffer = self._reader.buffers.take(
                    source.descriptor.byte_count, holders=1 if stream is None else 2
                )
                loads.append(self._start(source, buffer=buffer, stream=stream))
        if beside is not None:
            with self._timeline.phase(Phase.BUFFER_WAIT):
                self._read_beside(beside)
        self._await(loads)
        return loads

    @property
    def room(self) -> int:
        """Buffers that no kept head occupies."""
        return self._reader.buffers.count - len(self._held)

    def keep(self, loads: Iterable[Load], *, is_last: bool) -> None:
        """Keep the buffers of heads for the first submission, as long as the other heads can be read.

        What is kept is never behind what is not: the streams' digests take it as it comes.
        """
        for load in loads:
            self._full = self._full or self.room == (0 if is_last else 1)
            if self._full:
                load.buffer.let_go()
            else:
                self._held[load.source.index] = load

    def follow(self, schedule: Schedule) -> None:
        """From here on reads are those of the schedule; heads it has no use for are let go."""
        fetches = {
            take.fetch.number: take.fetch for batch in schedule.batches for one in batch for take in one.takes
        }
        for number in sorted(fetches):
            fetch = fetches[number]
            if fetch.held:
                self._reuse(fetch, load=self._held.pop(fetch.source.index))
                self._authentic.add(number)
            elif fetch.source.index in self._beside:
                self._reuse(fetch, load=self._beside.pop(fetch.source.index))
            else:
                self._upcoming.append(fetch)
        for load in (*self._held.values(), *self._beside.values()):
            load.buffer.let_go()
        self._held.clear()
        self._beside.clear()

    def authenticate(self, fetches: Sequence[Fetch]) -> None:
        """Read what is not read yet; all of it is authentic, or none of it goes any further (§3.8).

        Raises:
            StoreError, ResourceError: as ``BoundedReader.read_load``; also content of another length.
        """
        for fetch in fetches:
            if fetch.number not in self._started:
                with self._timeline.phase(Phase.BUFFER_WAIT):
                    size = fetch.source.descriptor.byte_count
                    buffer = self._reader.buffers.take(size, holders=_holders(fetch))
                    self._start_next(buffer)
        self._await([self._started[fetch.number] for fetch in fetches])
        for fetch in fetches:
            parts = self._started[fetch.number].parts
            require_part_bytes(parts, wanted=fetch.part_bytes, subject=fetch.source.subject)
            self._authentic.add(fetch.number)

    def take(self, fetch: Fetch) -> Load:
        """The authentic load of one fetch.

        Raises:
            StoreError, ResourceError: as ``authenticate``.
        """
        if fetch.number not in self._authentic:
            self.authenticate([fetch])
        return self._started[fetch.number]

    def read_ahead(self) -> None:
        """Start what buffers are free for, in order; placement goes on meanwhile (§3.8)."""
        if not self._upcoming:
            return
        with self._timeline.phase(Phase.BUFFER_WAIT):
            while self._upcoming:
                fetch = self._upcoming[0]
                size = fetch.source.descriptor.byte_count
                buffer = self._reader.buffers.take_if_free(size, holders=_holders(fetch))
                if buffer is None:
                    return
                self._start_next(buffer)

    def stop(self) -> None:
        """No reader is left running; reads that had not begun never will (restore-contract §6)."""
        for load in self._loads:
            if load.authentic.cancel():
                load.readable.set()
        wait([load.authentic for load in self._loads])

    def drop(self) -> None:
        """Give every buffer back, whoever held it; nobody may read one any more."""
        for load in self._loads:
            load.buffer.drop()

    def work(self) -> tuple[ReaderWork, ...]:
        """What readers did, in the order the reads were asked for."""
        began = ((load, load.began_ns) for load in self._loads)
        return tuple(self._work(load, began_ns=began_ns) for load, began_ns in began if began_ns is not None)

    def _work(self, load: Load, *, began_ns: int) -> ReaderWork:
        service_ns = self._timeline.elapsed_ns()
        start_ns = min(self._timeline.since_start(began_ns), service_ns)
        end_ns = min(self._timeline.since_start(load.ended_ns), service_ns)
        return ReaderWork(
            object=load.source.descriptor.sha256,
            start_ns=start_ns,
            end_ns=max(start_ns, end_ns),
            bytes=load.source.descriptor.byte_count,
        )

    def _read_beside(self, source: Source) -> None:
        buffer = self._reader.buffers.take_if_free(source.descriptor.byte_count, holders=1)
        if buffer is not None:
            self._beside[source.index] = self._start(source, buffer=buffer, stream=None)

    def _reuse(self, fetch: Fetch, *, load: Load) -> None:
        load.buffer.hold(_holders(fetch))
        load.buffer.let_go()
        self._started[fetch.number] = load
        if fetch.stream is not None:
            self._check.follow(load, stream=fetch.stream)

    def _start_next(self, buffer: PooledBuffer) -> None:
        fetch = self._upcoming.popleft()
        self._started[fetch.number] = self._start(fetch.source, buffer=buffer, stream=fetch.stream)

    def _start(self, source: Source, *, buffer: PooledBuffer, stream: int | None) -> Load:
        load = self._reader.start(source, buffer=buffer, clock=self._clock)
        self._loads.append(load)
        if stream is not None:
            self._check.follow(load, stream=stream)
        return load

    def _await(self, loads: Sequence[Load]) -> None:
        """Wait for all of them, and meanwhile keep reading ahead into whatever buffer comes free."""
        wanted = [load.authentic for load in loads]
        with self._timeline.phase(Phase.READ_AUTHENTICATE):
            if self._upcoming:
                self._read_on(wanted)
            wait(wanted)
            for one in wanted:
                one.result()

    def _read_on(self, wanted: Sequence["Future[None]"]) -> None:
        """Without it a reader that is done rests until the last of the batch is, with a buffer free.

        Once an object of the batch is wrong, nothing that follows has any use.
        """
        for one in wanted:
            one.add_done_callback(lambda _: self._reader.buffers.wake())
        while self._upcoming:
            fetch = self._upcoming[0]
            buffer = self._reader.buffers.take_unless(
                lambda: _is_decided(wanted),
                byte_count=fetch.source.descriptor.byte_count,
                holders=_holders(fetch),
            )
            if buffer is None:
                return
            self._start_next(buffer)


def _is_decided(wanted: Sequence["Future[None]"]) -> bool:
    """Whether a batch is all authentic, or certain not to be."""
    ended = [one for one in wanted if one.done()]
    return len(ended) == len(wanted) or any(one.exception() is not None for one in ended)


def _holders(fetch: Fetch) -> int:
    """A buffer is held for each submission that copies from it, and for the digest of its stream."""
    return fetch.uses + (fetch.stream is not None)
