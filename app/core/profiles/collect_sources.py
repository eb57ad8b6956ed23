"""What is collected from: logs line by line, inspections, environments, PCI addresses, request records; each
fact keeps the digest of the line it stood in (profile-contract §11.3, §14 G-7).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from app.core.canonical_json import ExactValue
from app.core.digest import Digest, RunningDigest, sha256
from app.core.profiles.log_lines import MAX_LINE_BYTES, LineValue, line_facts, line_rank, line_time

MOST_VALUES: Final = 64
"""Different values of one fact that are kept; samples of a measurement too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Where a fact stood: digest of the line without its end, file, number of the line from 1, time."""

    sha256: Digest
    rank: int
    at: str
    file: str
    line: int

    def to_object(self) -> dict[str, ExactValue]:
        """An entry of ``evidence`` (§18.7), with the place beside it."""
        return {
            "sha256": self.sha256,
            "rank": self.rank,
            "at": self.at,
            "file": self.file,
            "line": self.line,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One value where it stood."""

    value: LineValue
    proof: Proof


@dataclass(slots=True)
class Series:
    """The values of one name on one rank, in the order of the lines; first and last are always kept, and
    the sum of whole numbers."""

    first: Seen
    last: Seen
    count: int = 0
    total: int = 0
    kept: list[Seen] = field(default_factory=list)

    @property
    def values(self) -> list[LineValue]:
        """Different values, in the order they first came."""
        return list(dict.fromkeys(one.value for one in self.kept))

    def take(self, seen: Seen) -> None:
        """One more value."""
        self.last = seen
        self.count += 1
        self.total += seen.value if type(seen.value) is int else 0
        if len(self.kept) < MOST_VALUES:
            self.kept.append(seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSource:
    """A file that was read: kept beside the receipt under its digest, not in it."""

    rank: int
    kind: str
    file: str
    sha256: Digest
    byte_count: int

    def to_object(self) -> dict[str, ExactValue]:
        """As JSON."""
        return {
            "rank": self.rank,
            "kind": self.kind,
            "file": self.file,
            "sha256": self.sha256,
            "bytes": self.byte_count,
        }


class RankLog:
    """The facts of all logs of one rank.

    Attributes:
        series: by name. sources: the files read. foreign, too_long: lines of another rank, and lines that
            were too long to be read.
    """

    def __init__(self, rank: int, *, collected_at: str) -> None:
        self.rank = rank
        self.series: dict[str, Series] = {}
        self.sources: list[ReadSource] = []
        self.foreign = 0
        self.too_long = 0
        self._collected_at = collected_at

    def read(self, lines: Iterable[bytes], *, file: str) -> None:
        """Read a log to its end; a line that names another rank says nothing about this one.

        Args: lines: with their ends; of a line over 64 KiB its parts, the last with the end.
        """
        digest, byte_count, number, within = RunningDigest(), 0, 1, False
        for part in lines:
            digest.update(part)
            byte_count += len(part)
            whole = not within and len(part) <= MAX_LINE_BYTES
            ends = part.endswith(b"\n")
            if whole and (ends or len(part) < MAX_LINE_BYTES):
                self._line(part.removesuffix(b"\n").removesuffix(b"\r"), file=file, number=number)
            elif not within:
                self.too_long += 1
            within = not ends
            number += ends
        read = digest.digest()
        self.sources.append(
            ReadSource(rank=self.rank, kind="log", file=file, sha256=read, byte_count=byte_count)
        )

    def _line(self, raw: bytes, *, file: str, number: int) -> None:
        text = raw.decode("utf-8", "replace")
        facts = list(line_facts(text))
        if not facts:
            return
        if line_rank(text) not in (None, self.rank):
            self.foreign += 1
            return
        at = line_time(text) or self._collected_at
        proof = Proof(sha256=sha256(raw), rank=self.rank, at=at, file=file, line=number)
        for fact in facts:
            seen = Seen(value=fact.value, proof=proof)
            self.series.setdefault(fact.name, Series(first=seen, last=seen)).take(seen)


def file_lines(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines of a small file without their ends, numbered from 1."""
    for number, line in enumerate(raw.split(b"\n"), start=1):
        yield number, line.removesuffix(b"\r")


def proofs(series: Sequence[Series | None]) -> list[Proof]:
    """First and last line of each that is there."""
    found = [proof for one in series if one is not None for proof in (one.first.proof, one.last.proof)]
    return list(dict.fromkeys(found))
