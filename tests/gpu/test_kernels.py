"""The kernels: the source on the CPU, its NumPy twin, and the formula of the contract say the same (§4.3)."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.restore.kernels import (
    SPAN_RECORD,
    KernelFault,
    scatter,
)
from app.core.restore.plan import MAX_SUBMISSION_SPANS
from workers.gpu.cuda_kernels import (
    GATHER,
    SOURCE,
    SPAN_RECORD_BYTES,
    TILE_BYTES,
    count_tiles,
    encode_table,
    shift_to_align,
    table_bytes,
)

from .cases import span
from .compiled import COMPILER, run_compiled
from .machines import LONG_PAGE_BYTES, OWNER, Machine, compare_with_twin, machines, outcome, spans_over
from .source_mutants import CAUGHT, SOURCE_MUTANTS
from .twin import run_twin

REPOSITORY = Path(__file__).resolve().parents[2]
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="the CUDA source on the CPU: no g++ here")


@settings(max_examples=150)
@given(st.data())
def test_the_twin_is_the_formula_of_the_contract(data: st.DataObject) -> None:
    machine, sizes = data.draw(machines())
    spans = data.draw(spans_over(sizes))
    expected = machine.copied()
    for one in spans:
        layer = machine.layers[one.destination]
        group = machine.groups[layer["group"]]
        first, count = int(group["first_slot"]), int(group["slot_count"])
        scatter(
            np,
            source=machine.linear[one.arena_offset : one.arena_offset + one.byte_count],
            pool=expected.pools[one.destination],
            slots=machine.slots[first : first + count].tolist(),
            bytes_per_page=int(layer["page_bytes"]),
            offset=one.destination_offset,
        )
    run_twin(machine.launch(encode_table(spans), used_bytes=sum(sizes)))
    assert outcome(machine) == outcome(expected)
    gathered = machine.copied()
    gathered.linear[:] = 0
    run_twin(gathered.launch(encode_table(spans), used_bytes=sum(sizes), kernel=GATHER))
    assert gathered.linear.tobytes() == machine.linear.tobytes()


@needs_compiler
@settings(max_examples=200)
@given(st.data())
def test_the_source_moves_the_twins_bytes(data: st.DataObject) -> None:
    compare_with_twin(data, source=SOURCE)


@needs_compiler
@settings(max_examples=20)
@given(st.data())
def test_the_source_moves_spans_of_many_tiles(data: st.DataObject) -> None:
    compare_with_twin(data, source=SOURCE, page_bytes_of=LONG_PAGE_BYTES)


@needs_compiler
@pytest.mark.parametrize("name", [None, *SOURCE_MUTANTS])
def test_a_mutant_of_the_source_is_caught(name: str | None) -> None:
    """By its bytes, or by an access that a GPU would refuse; in a process of its own, which may die of it."""
    command = [sys.executable, "-m", "tests.gpu.source_mutants", *filter(None, [name])]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    if name is None:
        assert result.returncode == 0, result.stderr
    else:
        assert result.returncode == CAUGHT or result.returncode < 0, result.stderr


FAULTS = {
    "slot 0": KernelFault.SLOT_BOUNDS,
    "slot beyond": KernelFault.SLOT_BOUNDS,
    "foreign page": KernelFault.FOREIGN_PAGE,
    "page of nobody": KernelFault.FOREIGN_PAGE,
    "past the used bytes": KernelFault.SPAN_BOUNDS,
    "arena offset beyond": KernelFault.SPAN_BOUNDS,
    "sum that overflows": KernelFault.SPAN_BOUNDS,
    "no bytes": KernelFault.SPAN_BOUNDS,
    "flags": KernelFault.SPAN_BOUNDS,
    "past the layer": KernelFault.DESTINATION_BOUNDS,
    "offset beyond the layer": KernelFault.DESTINATION_BOUNDS,
    "unknown layer": KernelFault.RECORD_BOUNDS,
    "unknown group": KernelFault.RECORD_BOUNDS,
    "pages of no bytes": KernelFault.RECORD_BOUNDS,
    "pages longer than their stride": KernelFault.RECORD_BOUNDS,
}


def break_tables(machine: Machine, *, fault: str, span: Any) -> None:
    """Damage what the host has checked: the span, or the tables of its layer."""
    layer = machine.layers[span["destination"]]
    group = machine.groups[layer["group"]]
    page = int(group["first_slot"]) + int(span["destination_offset"]) // int(layer["page_bytes"])
    owner = int(group["first_owner"]) + int(machine.slots[page])
    match fault:
        case "slot 0":
            machine.slots[page] = 0
        case "slot beyond":
            machine.slots[page] = layer["pages"]
        case "foreign page":
            machine.owners[owner] = OWNER + 1
        case "page of nobody":
            machine.owners[owner] = 0
        case "past the used bytes":
            span["byte_count"] += machine.linear.size
        case "arena offset beyond":
            span["arena_offset"] = machine.linear.size + 1
        case "sum that overflows":
            span["arena_offset"] = 2**64 - 1
        case "no bytes":
            span["byte_count"] = 0
        case "flags":
            span["flags"] = 1
        case "past the layer":
            span["destination_offset"] += int(group["slot_count"]) * int(layer["page_bytes"])
        case "offset beyond the layer":
            span["destination_offset"] = 2**64 - 1
        case "unknown layer":
            span["destination"] = len(machine.layers)
        case "unknown group":
            layer["group"] = len(machine.groups)
        case "pages of no bytes":
            layer["page_bytes"] = 0
        case "pages longer than their stride":
            layer["page_bytes"] = layer["stride"] + 1


@needs_compiler
@pytest.mark.parametrize("fault", FAULTS)
@settings(max_examples=25)
@given(data=st.data())
def test_what_is_refused_moves_nothing_and_the_first_error_wins(data: st.DataObject, fault: str) -> None:
    twin, sizes = data.draw(machines())
    spans = data.draw(spans_over(sizes))
    table = encode_table(spans).copy()
    records = table[: len(spans) * SPAN_RECORD_BYTES].view(SPAN_RECORD)
    chosen = data.draw(st.integers(0, len(spans) - 1))
    untouched = data.draw(st.booleans())
    break_tables(twin, fault=fault, span=records[chosen])
    if untouched:
        twin.error[0] = 9
    compiled, before = twin.copied(), twin.copied()
    launches = [machine.launch(table, used_bytes=sum(sizes)) for machine in (twin, compiled)]
    run_twin(launches[0])
    run_compiled(launches[1])
    assert outcome(compiled) == outcome(twin)
    assert int(twin.error[0]) == (9 if untouched else FAULTS[fault])
    if len(spans) == 1 and FAULTS[fault] not in {KernelFault.SLOT_BOUNDS, KernelFault.FOREIGN_PAGE}:
        assert outcome(compiled)[0] == outcome(before)[0]


@needs_compiler
def test_a_long_span_is_cut_into_tiles_that_end_where_units_do() -> None:
    """Every block's bytes put together are the span's, from any start."""
    for lead in (0, 1, 15):
        one = span(0, offset=lead, count=3 * TILE_BYTES)
        assert count_tiles(encode_table([one])) == (3 if lead == 0 else 4)
    assert count_tiles(encode_table([span(0, count=1)])) == 1
    assert count_tiles(encode_table([])) == 0
    assert encode_table([]).size == table_bytes(0)
    many = encode_table([span(0, count=1)] * MAX_SUBMISSION_SPANS)
    assert (many.size, count_tiles(many)) == (table_bytes(MAX_SUBMISSION_SPANS), MAX_SUBMISSION_SPANS)


def test_staged_bytes_are_moved_to_where_their_pages_lie() -> None:
    """A stream's header has any length: its payload lies by as much beside its pages' words."""
    spans = [span(0, at=203, count=4096), span(1, at=4299, offset=5, count=64)]
    shift = shift_to_align(spans)
    assert (shift + 203) % 16 == 0
    assert shift_to_align([span(0, at=0, offset=13, count=16)]) == 13
    assert shift_to_align([]) == 0
