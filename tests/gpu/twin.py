"""One launch by the kernels' NumPy twin, over memory of this process found by its addresses."""

import ctypes

import numpy as np

from app.core.restore.kernels import (
    GROUP_RECORD,
    LAYER_RECORD,
    SPAN_RECORD,
    Bytes,
    PageTables,
    Records,
    move_spans,
)
from workers.gpu.cuda_kernels import GATHER
from workers.gpu.driver import Launch, PageAddresses


def view(address: int, byte_count: int) -> Bytes:
    """Memory of this process as an array."""
    if byte_count == 0:
        return np.zeros(0, dtype=np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * byte_count).from_address(address))


def run_twin(launch: Launch) -> None:
    """What the kernel does, first error included."""
    error = view(launch.pages.error, 4).view("<u4")
    fault = move_spans(
        np,
        linear=view(launch.linear, launch.used_bytes),
        used_bytes=launch.used_bytes,
        spans=view(launch.spans, launch.span_count * SPAN_RECORD.itemsize).view(SPAN_RECORD),
        tables=read_tables(launch.pages),
        gather=launch.kernel == GATHER,
    )
    if fault and not error[0]:
        error[0] = fault


def layer_records(pages: PageAddresses) -> Records:
    """The layers of a page set, as a kernel finds them."""
    return view(pages.layers, pages.layer_count * LAYER_RECORD.itemsize).view(LAYER_RECORD)


def read_tables(pages: PageAddresses) -> PageTables:
    """The tables of a page set, as a kernel finds them."""
    layers = layer_records(pages)
    groups = view(pages.groups, pages.group_count * GROUP_RECORD.itemsize).view(GROUP_RECORD)
    slots = int(groups["slot_count"].sum())
    owners = max(
        (
            int(groups[int(layer["group"])]["first_owner"]) + int(layer["pages"])
            for layer in layers
            if layer["group"] < len(groups)
        ),
        default=0,
    )
    return PageTables(
        layers=layers,
        groups=groups,
        slots=view(pages.slots, slots * 4).view("<u4"),
        owners=view(pages.owners, owners * 4).view("<u4"),
        owner=pages.owner,
        pools=[
            view(int(layer["base"]), int(layer["pages"]) * int(layer["stride"])).reshape(
                int(layer["pages"]), int(layer["stride"])
            )
            for layer in layers
        ],
    )
