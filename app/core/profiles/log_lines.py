"""What one line of a rank's log says: words ``name=value`` of a closed list, and a few whole forms
(profile-contract §8.1, §8.2, §11.3, §12.2).

The published specification gives names and numbers, hardly any literal line. What is read here is: the
names of §3.1, §8.1 and §11.1 as words; the record of mHC executions with its ``rows`` and ``owner_rows``;
the engine's lines about pool, graph capture, loader and drafted tokens as vLLM and the upstream guide name
them. A fact in any other form is not found, and that is told.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeAlias

MAX_LINE_BYTES: Final = 64 * 1024
"""Longer lines are no log lines; they are counted and not read."""

LineValue: TypeAlias = int | Decimal | bool | str | tuple[int, ...]

_INT: Final = re.compile(r"\d{1,18}")
_GROUPED: Final = re.compile(r"\d{1,3}(?:,\d{3}){0,5}|\d{1,18}")
_NUMBER: Final = re.compile(r"\d{1,15}(?:\.\d{1,9})?")
_VERSION: Final = re.compile(r"\d{1,4}(?:\.\d{1,4}){2,3}")
_INTS: Final = re.compile(r"\[\s*\d{1,9}(?:\s*,\s*\d{1,9}){0,1023}\s*\]")
_TIME: Final = re.compile(r"\s*(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:\.\d{1,9})?)(Z|[+-]\d\d:\d\d)(?=\s|$)")
_RANK: Final = re.compile(r"(?<![\w.])(?:(?<!local )rank[= ]|Worker_TP)(\d{1,4})(?!\d)")
_HCA: Final = re.compile(r"RouteFinal\b.{0,2000}?\bhca=([A-Za-z0-9_]{1,64})")
_POOL: Final = re.compile(r"GPU KV cache size:\s*([\d,]{1,24}) tokens")
_CAPTURE: Final = re.compile(
    r"Graph capturing finished in (\d{1,6}(?:\.\d+)?) secs?, took (\d{1,6}(?:\.\d+)?) GiB"
)
_LOADER: Final = re.compile(r"Loading safetensors using (InstantTensor|B12X) loader:?\s*(?:Completed|100%)")
_DRAFTED: Final = re.compile(r"SpecDecoding metrics:.{0,2000}?\bDrafted: (\d{1,18}) tokens")
_TIMEOUT: Final = re.compile(
    r"sample_tokens.{0,500}\btime(?:d )?out|\btime(?:d )?out.{0,500}sample_tokens", re.I
)
_FATAL: Final = re.compile(r"\bEngineDeadError\b|\bFATAL\b|\bCRITICAL\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFact:
    """One named value of a line."""

    name: str
    value: LineValue


def _int(text: str) -> LineValue | None:
    return int(text) if _INT.fullmatch(text) else None


def _grouped(text: str) -> LineValue | None:
    return int(text.replace(",", "")) if _GROUPED.fullmatch(text) else None


def _number(text: str) -> LineValue | None:
    return Decimal(text) if _NUMBER.fullmatch(text) else None


def _version(text: str) -> LineValue | None:
    return text if _VERSION.fullmatch(text) else None


def _boolean(text: str) -> LineValue | None:
    return {"true": True, "false": False}.get(text.lower())


def _ints(text: str) -> LineValue | None:
    return tuple(int(one) for one in _INT.findall(text)) if _INTS.fullmatch(text) else None


_WORDS: Final[dict[str, Callable[[str], LineValue | None]]] = {
    "tensor_parallel_size": _int,
    "decode_context_parallel_size": _int,
    "max_seq_len": _int,
    "max_model_len": _int,
    "kv_capacity_tokens": _grouped,
    "nccl_version": _version,
    "cudagraph_capture_sizes": _ints,
    "rows": _int,
    "owner_rows": _int,
    "instanttensor_allocations": _int,
    "managed_b12x_allocations": _int,
    "mtp_draft_tokens": _int,
    "continuation_coalesced_groups": _int,
    "sircl_collectives": _int,
    "rocenante_collectives": _int,
    "capture_jobs_completed": _int,
    "restores_completed": _int,
    "recoveries_after_fault": _int,
    "payload_correctness_passed": _boolean,
    "planned_restart_ms": _number,
    "fault_recovery_ms": _number,
    "prefill_tokens_per_second": _number,
    "decode_tokens_per_second": _number,
}
_WORD: Final = re.compile(
    r"(?<![\w.\-])['\"]?(" + "|".join(sorted(_WORDS, key=len, reverse=True)) + r")['\"]?\s{0,4}[=:]\s{0,4}"
    r"(\[[^\]]{0,8000}\]|[A-Za-z0-9.,]+)"
)


def line_facts(line: str) -> Iterator[LineFact]:
    """Every fact a line states, in no promised order."""
    words = dict(_words(line))
    if "rows" in words and "owner_rows" in words:
        yield LineFact(name="mhc", value=(_as_int(words["rows"]), _as_int(words["owner_rows"])))
    for name, value in words.items():
        if name not in ("rows", "owner_rows"):
            yield LineFact(name="max_model_len" if name == "max_seq_len" else name, value=value)
    yield from _forms(line)


def line_rank(line: str) -> int | None:
    """The rank a line names; none where it names none."""
    found = _RANK.search(line)
    return int(found[1]) if found else None


def line_time(line: str) -> str | None:
    """The time a line starts with, with its zone; none where there is none."""
    found = _TIME.match(line)
    return f"{found[1]}T{found[2]}{found[3]}" if found else None


def _words(line: str) -> Iterator[tuple[str, LineValue]]:
    """The first value of each name that has the name's form."""
    seen: set[str] = set()
    for found in _WORD.finditer(line):
        name = found[1]
        value = _WORDS[name](found[2].rstrip(".,"))
        if value is not None and name not in seen:
            seen.add(name)
            yield name, value


def _forms(line: str) -> Iterator[LineFact]:
    if found := _POOL.search(line):
        value = _grouped(found[1])
        if value is not None:
            yield LineFact(name="kv_capacity_tokens", value=value)
    if found := _CAPTURE.search(line):
        yield LineFact(name="graph_capture_seconds", value=Decimal(found[1]))
        yield LineFact(name="graph_capture_gib", value=Decimal(found[2]))
    if found := _LOADER.search(line):
        yield LineFact(name="loader_completed", value=found[1].lower())
    if found := _DRAFTED.search(line):
        yield LineFact(name="drafted", value=int(found[1]))
    if found := _HCA.search(line):
        yield LineFact(name="hca", value=found[1])
    if _TIMEOUT.search(line):
        yield LineFact(name="sample_tokens_timeout", value=True)
    if _FATAL.search(line):
        yield LineFact(name="fatal", value=True)


def _as_int(value: LineValue) -> int:
    return value if isinstance(value, int) else 0
