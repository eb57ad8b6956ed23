"""``sparkgate store restore``: one rank of a root, here and now, and where the time went."""

import os
import re
import time
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Column, Table

from app.cli.store_console import (
    ExitCode,
    InputError,
    Mode,
    errors_shown,
    print_json,
    print_pairs,
    read_layout,
)
from app.core.digest import Digest
from app.core.errors import AbsentError, CoreError, DeviceError
from app.core.restore.buffers import BufferPool
from app.core.restore.conditions import CacheMode, Conditions
from app.core.restore.device import Device
from app.core.restore.execute import RankOrder, restore_rank
from app.core.restore.host_device import HostDevice
from app.core.restore.lookup import RankPlan, find_ordered, plan_entry
from app.core.restore.page_cache import prepare_cache
from app.core.restore.page_plan import PagePlan
from app.core.restore.plan import RestoreLimits
from app.core.restore.reader import BoundedReader, RootReader, list_documents
from app.core.restore.report import RankOutcome, RankReport
from app.core.store.layout import MAX_OBJECT_BYTES, DocumentName

RESTORE_HELP = """Restore one rank into pages or rows of a device and show where the time went.

Exit codes: 0 restored, 1 corrupt, 2 usage or unreadable input, 3 absent, 4 incompatible, 5 failed.
"""

HOST: Final = "host"
CUDA_NAME: Final = re.compile(r"cuda[0-9]{1,3}")
DEVICE_PLUGS: Final = "sparkgate.devices"

_EXIT_CODES = {
    RankOutcome.RESTORED: ExitCode.SUCCESS,
    RankOutcome.CORRUPT: ExitCode.CORRUPT,
    RankOutcome.ABSENT: ExitCode.ABSENT,
    RankOutcome.INCOMPATIBLE: ExitCode.INCOMPATIBLE,
    RankOutcome.CANCELLED: ExitCode.FAILED,
    RankOutcome.FAILED: ExitCode.FAILED,
}


class Cache(StrEnum):
    """What to do to the page cache beforehand, in a person's words."""

    COLD = "cold"
    WARM = "warm"
    AS_IS = "as-is"

    @property
    def mode(self) -> CacheMode:
        """The word the report has for it."""
        return CacheMode[self.name]


def restore(
    path: Annotated[Path, typer.Argument(help="The rank-local root.")],
    context: Annotated[str, typer.Option(help="Context digest of the prefix, 64 hex characters.")],
    layout: Annotated[Path | None, typer.Option(help="The page layout document; rows need none.")] = None,
    storage_key: Annotated[
        str | None, typer.Option(help="Storage key, if PATH holds several; an alias needs it.")
    ] = None,
    mode: Annotated[Mode | None, typer.Option(help="How to read a legacy entry; rows tries aliases.")] = None,
    device: Annotated[str, typer.Option(help="Where to: host, or cuda0 and so on.")] = HOST,
    readers: Annotated[
        int | None,
        typer.Option(min=1, max=32, help="Concurrent reads, at most 4; else what suits the cores."),
    ] = None,
    cache: Annotated[Cache, typer.Option(help="Drop or read the objects' pages beforehand.")] = Cache.AS_IS,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Restore, print, and leave with the outcome's code."""
    with errors_shown(as_json=as_json):
        if device != HOST and CUDA_NAME.fullmatch(device) is None:
            raise InputError(f"device {device}: expected host, or cuda0 and so on")
        page_layout = None if layout is None else read_layout(layout)
        name = _find_document(path, context=context, storage_key=storage_key)
        order = RankOrder(
            identity=None,
            storage_key=name.storage_key,
            context_digest=name.context_digest,
            layout=page_layout,
            mode=None if mode is None else mode.storage,
        )
        report = _restore(path, order=order, readers=readers, mode=cache.mode, where=device)
        if as_json:
            print_json(report.to_document())
        else:
            _print_report(report, name=name)
        raise typer.Exit(_EXIT_CODES[report.outcome])


def _restore(path: Path, *, order: RankOrder, readers: int | None, mode: CacheMode, where: str) -> RankReport:
    plan = _peek(path, order=order)
    sizes = [MAX_OBJECT_BYTES] if plan is None else [item.descriptor.byte_count for item in plan.sources]
    arena_bytes = max(max(sizes), min(MAX_OBJECT_BYTES, sum(sizes)))
    with _open_device(where, arena_bytes=arena_bytes) as device:
        buffers = BufferPool(buffer_bytes=max(sizes), allocate=device.host_memory)
        with BoundedReader(path, readers=readers, buffers=buffers) as reader:
            _prepare_pool(device, plan=plan)
            restored = restore_rank(
                order,
                reader=reader,
                device=device,
                clock=time.monotonic_ns,
                producer=device.producer(),
                conditions=_prepare_conditions(reader, plan=plan, mode=mode),
            )
        if restored.pages is None:
            return restored.report
        return replace(restored.report, layers=device.digest(restored.pages))


def _open_device(name: str, *, arena_bytes: int) -> AbstractContextManager[Device]:
    """The host's memory, or what is plugged in for other devices: the workers, who know them, are no part of
    the app.

    Raises:
        DeviceError: nothing is plugged in, or it cannot open this one.
    """
    if name == HOST:
        return HostDevice("host0", pool_bytes=_half_of_memory(), arena_bytes=arena_bytes)
    plugs = metadata.entry_points(group=DEVICE_PLUGS, name="cuda")
    if not plugs:
        raise DeviceError(
            f"device {name}",
            expected=f"an entry point cuda in {DEVICE_PLUGS}, which `make install` brings",
            found="none",
        )
    opening = next(iter(plugs)).load()
    opened: AbstractContextManager[Device] = opening(
        name, pool_bytes=_half_of_memory(), arena_bytes=arena_bytes
    )
    return opened


def _peek(path: Path, *, order: RankOrder) -> RankPlan | None:
    """What to prepare for; what is wrong with the entry is for the restore to say."""
    try:
        entry = find_ordered(order, reader=RootReader(path))
        return plan_entry(entry, order=order, limits=RestoreLimits())
    except CoreError:
        return None


def _prepare_pool(device: Device, *, plan: RankPlan | None) -> None:
    """A serving runtime has its pool before it restores; what is in the way is for the restore to say."""
    if isinstance(plan, PagePlan):
        with suppress(CoreError):
            device.prepare_pool(plan.layout, block_counts=plan.block_counts)


def _prepare_conditions(reader: BoundedReader, *, plan: RankPlan | None, mode: CacheMode) -> Conditions:
    cores = len(os.sched_getaffinity(0))
    if plan is None:
        return Conditions(cores=cores)
    try:
        state = prepare_cache(reader.files, sources=plan.sources, mode=mode)
    except CoreError:
        # A missing object is for the restore to say.
        return Conditions(cores=cores)
    return Conditions(cache=state, cores=cores)


def _half_of_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _find_document(path: Path, *, context: str, storage_key: str | None) -> DocumentName:
    try:
        wanted = Digest.parse(context, subject="--context")
        key = None if storage_key is None else Digest.parse(storage_key, subject="--storage-key")
    except CoreError as error:
        raise InputError(str(error)) from None
    if not path.is_dir():
        raise InputError(f"root {path}: expected a folder, found none")
    if key is not None:
        return DocumentName(storage_key=key, context_digest=wanted)
    found = [name for name in list_documents(path) if name.context_digest == wanted]
    if not found:
        raise AbsentError(f"root {path}", expected=f"an entry for context {wanted}", found="none")
    if len(found) > 1:
        keys = ", ".join(name.storage_key for name in found)
        raise InputError(
            f"context {wanted}: expected one storage key, found {keys}; choose with --storage-key"
        )
    return found[0]


def _print_report(report: RankReport, *, name: DocumentName) -> None:
    rows = {"outcome": report.outcome.value, "context": str(name.context_digest)}
    if report.problem is not None:
        stage = "" if report.problem.stage is None else f" (stage {report.problem.stage})"
        rows["problem"] = f"{report.problem.detail}{stage}"
    rows |= {
        "objects": str(report.objects),
        "bytes": f"{report.bytes:,}",
        "readers": str(report.readers),
        "stream digest": report.stream_digest.value,
    }
    print_pairs(rows | _conditions(report))
    _print_phases(report)
    if report.layers:
        _print_layers(report)


def _conditions(report: RankReport) -> dict[str, str]:
    cores, cache = report.conditions.cores, report.conditions.cache
    rows = {} if cores is None else {"cores": str(cores)}
    if cache is not None:
        rows["page cache"] = (
            f"{cache.mode}: {cache.resident_bytes:,} of {cache.object_bytes:,} bytes resident"
        )
    return rows


def _print_phases(report: RankReport) -> None:
    table = Table("phase", Column("ms", justify="right"), Column("MB/s", justify="right"))
    for phase, spent_ns in report.phases_ns.items():
        rate = report.bytes_per_second.get(phase)
        table.add_row(phase, f"{spent_ns / 1e6:.3f}", "" if rate is None else f"{rate / 1e6:,.0f}")
    table.add_row("unattributed", f"{report.unattributed_ns / 1e6:.3f}", "")
    table.add_section()
    table.add_row("service", f"{report.service_ns / 1e6:.3f}", "")
    table.add_row("readers, overlapping", f"{report.reader_work_ns / 1e6:.3f}", "")
    Console().print(table)


def _print_layers(report: RankReport) -> None:
    table = Table("layer", Column("pages", justify="right"), Column("bytes", justify="right"), "sha256")
    for layer in report.layers:
        table.add_row(layer.name, str(layer.pages), f"{layer.bytes:,}", f"{layer.sha256[:16]}…")
    Console().print(table)
