"""Name, contract, environment and command agree on the parallel degrees (profile-contract §5.1, §5.3).

Upstream compares name and DCP on the arm without a cache only; here both families are held to it. A variable
that is missing fails: the launcher would take 4 (§18.11).
"""

import re
from collections.abc import Iterator
from typing import Final

from app.core.digest import Digest
from app.core.profiles.contract import Contract
from app.core.profiles.findings import CheckResult, ProfileFinding, finding
from app.core.profiles.guards.case import RankCase
from app.core.profiles.profile_entry import ProfileEntry
from app.core.qualify.pointer import step

DCP_VARIABLE: Final = "DECODE_CONTEXT_PARALLEL_SIZE"
TP_VARIABLE: Final = "TENSOR_PARALLEL_SIZE"
DCP_FLAGS: Final = ("--decode-context-parallel-size", "-dcp")
TP_FLAGS: Final = ("--tensor-parallel-size", "-tp")
PERMITTED_DCP: Final = (1, 2, 4)
INTERLEAVE_FLAGS: Final = ("--dcp-kv-cache-interleave-size", "--cp-kv-cache-interleave-size")
_NAME: Final = re.compile(r"tp(?P<tp>[0-9]+)-dcp(?P<dcp>[0-9]+)(?P<cache>-sparkcache)?")
_INTERLEAVED_BLOCK: Final = 256
_DIVIDING: Final = "1, 2 or 4, dividing TP"


def degree_findings(case: RankCase) -> Iterator[ProfileFinding]:
    """GUARD_DCP_NAME and GUARD_DCP_DIVIDES of one rank."""
    entry = case.entry
    tp, dcp = str(entry.tensor_parallel_size), str(entry.decode_context_parallel_size)
    yield _name(entry, rank=case.observed.rank, document_sha256=case.observed.sha256)
    yield case.compared("GUARD_DCP_NAME", "SOURCE_IMAGE_PROFILE", entry.name, detail="profile in force")
    yield case.compared("GUARD_DCP_NAME", TP_VARIABLE, tp, detail="degree of the profile")
    missing = DCP_VARIABLE not in case.environment
    yield case.compared(
        "GUARD_DCP_NAME",
        DCP_VARIABLE,
        dcp,
        detail="missing: the launcher would take 4" if missing else "degree of the profile",
    )
    yield _argument(case, DCP_FLAGS, dcp)
    yield _argument(case, TP_FLAGS, tp)
    yield _divides(case)
    yield _interleave(case)


def named_degrees(name: str) -> tuple[int, int, bool] | None:
    """TP, DCP and whether there is a cache, as a profile's name says; none for another form of name."""
    found = _NAME.fullmatch(name)
    return (int(found["tp"]), int(found["dcp"]), found["cache"] is not None) if found else None


def flag_value(command: tuple[str, ...], flags: tuple[str, ...]) -> str | None:
    """The value of a flag, ``--flag value`` or ``--flag=value``; the last one counts."""
    found = None
    for index, argument in enumerate(command):
        name, equals, value = argument.partition("=")
        if name in flags:
            following = command[index + 1] if index + 1 < len(command) else ""
            found = value if equals else following
    return found


def entry_findings(contract: Contract, entry: ProfileEntry) -> Iterator[ProfileFinding]:
    """GUARD_DCP_NAME and GUARD_DCP_DIVIDES as far as the contract alone shows them."""
    at = f"/profiles{step(entry.name)}"
    yield _name(entry, at=at, document_sha256=contract.sha256)
    tp, dcp = entry.tensor_parallel_size, entry.decode_context_parallel_size
    yield finding(
        "GUARD_DCP_DIVIDES",
        CheckResult.PASS if _fits(dcp, tp=tp) else CheckResult.FAIL,
        pointer=f"{at}/decode_context_parallel_size",
        expected=_DIVIDING,
        found=f"DCP {dcp}, TP {tp}",
        document_sha256=contract.sha256,
    )


def _name(
    entry: ProfileEntry, *, at: str = "", rank: int | None = None, document_sha256: Digest
) -> ProfileFinding:
    said = named_degrees(entry.name)
    held = (entry.tensor_parallel_size, entry.decode_context_parallel_size, entry.sparkcache)
    same = CheckResult.PASS if said == held else CheckResult.FAIL
    says_none = f"the name {entry.name} says no degrees"
    return finding(
        "GUARD_DCP_NAME",
        CheckResult.NOT_APPLICABLE if said is None else same,
        pointer=at,
        detail=says_none if said is None else f"name {entry.name} and contract entry",
        expected="" if said is None else _told(said),
        found="" if said is None else _told(held),
        rank=rank,
        document_sha256=document_sha256,
    )


def _told(degrees: tuple[int, int, bool]) -> str:
    return f"TP {degrees[0]}, DCP {degrees[1]}, cache {'on' if degrees[2] else 'off'}"


def _argument(case: RankCase, flags: tuple[str, ...], expected: str) -> ProfileFinding:
    if case.observed.command is None:
        return case.untested("GUARD_DCP_NAME", f"not given: command with {flags[0]}")
    found = flag_value(case.observed.command, flags)
    if found is None:
        return case.untested("GUARD_DCP_NAME", f"not in the command: {flags[0]}")
    return case.result(
        "GUARD_DCP_NAME",
        CheckResult.PASS if found == expected else CheckResult.FAIL,
        detail=f"{flags[0]} of the command",
        expected=expected,
        found=found,
    )


def _divides(case: RankCase) -> ProfileFinding:
    """What the rank holds; of a variable that it lacks, what the contract says."""
    entry = case.entry
    held = case.environment.get(DCP_VARIABLE, str(entry.decode_context_parallel_size))
    over = case.environment.get(TP_VARIABLE, str(entry.tensor_parallel_size))
    dcp, tp = _degree(held), _degree(over)
    return case.result(
        "GUARD_DCP_DIVIDES",
        CheckResult.PASS if _fits(dcp, tp=tp) else CheckResult.FAIL,
        key=DCP_VARIABLE,
        expected=_DIVIDING,
        found=f"DCP {held}, TP {over}",
    )


def _degree(text: str) -> int:
    """A degree; 0, which is none, for what is no number."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0


def _fits(dcp: int, *, tp: int) -> bool:
    return dcp in PERMITTED_DCP and tp > 0 and tp % dcp == 0


def _interleave(case: RankCase) -> ProfileFinding:
    """It must divide 256 and, above DCP 1, be a multiple of 4; no variable for it is published."""
    found = flag_value(case.observed.command or (), INTERLEAVE_FLAGS)
    if found is None:
        return case.untested("GUARD_DCP_DIVIDES", "name not published: variable of the DCP interleave")
    dcp = case.entry.decode_context_parallel_size
    number = _degree(found)
    holds = number > 0 and _INTERLEAVED_BLOCK % number == 0 and (dcp == 1 or number % 4 == 0)
    return case.result(
        "GUARD_DCP_DIVIDES",
        CheckResult.PASS if holds else CheckResult.FAIL,
        detail="interleave of the command",
        expected="a divisor of 256, a multiple of 4 above DCP 1",
        found=found,
    )
