"""Under which circumstances a restore was measured: whose page cache, how many cores."""

from dataclasses import dataclass
from enum import StrEnum

from app.core.canonical_json import JsonObject, JsonValue, expect_int, expect_object
from app.core.errors import FormatError, shown

_SUBJECT = "rank report.conditions"
_MAX_NUMBER = 2**63 - 1
_CACHE_KEYS = frozenset({"mode", "resident_bytes", "object_bytes"})


class CacheMode(StrEnum):
    """What was done to the objects' pages before the service began; what came of it was measured."""

    COLD = "cold"
    WARM = "warm"
    AS_IS = "as_is"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheState:
    """The page cache just before the service began.

    Attributes:
        resident_bytes: bytes of the entry's objects, in whole pages, that were in memory.
        object_bytes: all bytes of its objects, in whole pages; each file counts once.
    """

    mode: CacheMode
    resident_bytes: int
    object_bytes: int

    def to_wire(self) -> JsonObject:
        """The state as it stands in a report."""
        return {
            "mode": self.mode,
            "resident_bytes": self.resident_bytes,
            "object_bytes": self.object_bytes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What the caller of a restore knows of the machine; ``None`` is not known.

    Attributes:
        cores: processors the process may use.
    """

    cache: CacheState | None = None
    cores: int | None = None

    def to_wire(self) -> JsonObject:
        """The conditions as they stand in a report."""
        return {"cache": None if self.cache is None else self.cache.to_wire(), "cores": self.cores}


def parse_conditions(value: JsonValue) -> Conditions:
    """Take conditions from another process.

    Raises:
        FormatError: keys, types or ranges are wrong.
    """
    wire = expect_object(value, subject=_SUBJECT, keys=frozenset({"cache", "cores"}))
    cores = wire["cores"]
    return Conditions(
        cache=None if wire["cache"] is None else _parse_cache(wire["cache"]),
        cores=None
        if cores is None
        else expect_int(cores, subject=f"{_SUBJECT}.cores", minimum=1, maximum=_MAX_NUMBER),
    )


def _parse_cache(value: JsonValue) -> CacheState:
    subject = f"{_SUBJECT}.cache"
    wire = expect_object(value, subject=subject, keys=_CACHE_KEYS)
    mode = next((mode for mode in CacheMode if wire["mode"] == mode.value), None)
    if mode is None:
        raise FormatError(
            f"{subject}.mode", expected=f"one of {', '.join(CacheMode)}", found=shown(wire["mode"])
        )
    total = expect_int(
        wire["object_bytes"], subject=f"{subject}.object_bytes", minimum=0, maximum=_MAX_NUMBER
    )
    resident = expect_int(
        wire["resident_bytes"], subject=f"{subject}.resident_bytes", minimum=0, maximum=total
    )
    return CacheState(mode=mode, resident_bytes=resident, object_bytes=total)
