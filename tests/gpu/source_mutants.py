"""Is a broken CUDA source told from the right one? `python -m tests.gpu.source_mutants [NAME]`."""

import sys
from collections.abc import Sequence
from typing import Final

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from workers.gpu.cuda_kernels import SOURCE

from .machines import LONG_PAGE_BYTES, PAGE_BYTES, compare_with_twin

CAUGHT: Final = 3
SOURCE_MUTANTS: Final = {
    "a shifted word too few": ("unit.w = __funnelshift_r(unit.w, last, shift);", ""),
    "no bytes before the first unit": ("(u32)(-offset) & (sizeof(Unit) - 1)", "0 * (u32)offset"),
    "no bytes behind the last unit": ("if (tail) move_units", "if (0) move_units"),
    "pages one after the other": ("(u64)slot * layer.stride", "(u64)slot * layer.page_bytes"),
    "the group's first slot forgotten": ("slots[group.first_slot + page]", "slots[page]"),
    "the group's first owner forgotten": ("owners[group.first_owner + slot]", "owners[slot]"),
    "tiles that do not end where units do": ("(u64)number * TILE - lead", "(u64)number * TILE"),
    "the first span for every tile": ("if (first_tiles[middle] <= tile) low", "if (false) low"),
    "one unit of a batch lost": ("if (unit >= units) continue;", "if (unit >= units || item == 3) continue;"),
    "wide stores wherever pages lie": ("if ((fit & 15) == 0)", "if (true)"),
}


def main(name: str | None = None) -> int:
    """0 if the source says what its twin says."""
    old, new = ("", "") if name is None else SOURCE_MUTANTS[name]
    if name is not None and SOURCE.count(old) != 1:
        raise ValueError(f"mutant {name}: expected its text once, found {SOURCE.count(old)}")
    mutant = SOURCE.replace(old, new) if old else SOURCE

    try:
        compare(mutant, page_bytes_of=PAGE_BYTES, examples=100)
        compare(mutant, page_bytes_of=LONG_PAGE_BYTES, examples=20)
    except AssertionError:
        return CAUGHT
    return 0


def compare(source: str, *, page_bytes_of: Sequence[int], examples: int) -> None:
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def run(data: st.DataObject) -> None:
        compare_with_twin(data, source=source, page_bytes_of=page_bytes_of)

    run()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
