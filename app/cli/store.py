"""``sparkgate store``: restore one rank of a root here and now, and make stores to try it on."""

import os
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from app.cli.store_check import CHECK_HELP, check_root
from app.cli.store_console import (
    ExitCode,
    InputError,
    errors_shown,
    print_json,
    print_pairs,
    read_layout,
)
from app.cli.store_damage import DAMAGE_HELP, damage
from app.cli.store_diff import DIFF_HELP, diff
from app.cli.store_lookup import LOOKUP_HELP, look_up
from app.cli.store_ls import LS_HELP, list_entries
from app.cli.store_synth import SYNTH_HELP, synthesize
from app.cli.store_verify import VERIFY_HELP, verify_entry
from app.core.digest import Digest
from app.core.errors import AbsentError, CoreError
from app.core.restore.buffers import BufferPool
from app.core.restore.execute import RankOrder, restore_rank
from app.core.restore.host_device import HostDevice
from app.core.restore.host_placement import HostProducer
from app.core.restore.page_plan import plan_restore
from app.core.restore.reader import BoundedReader, list_documents, read_document
from app.core.restore.report import RankOutcome, RankReport
from app.core.store.layout import MAX_OBJECT_BYTES, DocumentName
from app.core.store.manifest import FlatSnapshotManifest, parse_flat_manifest
from app.core.store.snapshot import PageLayout

store_app = typer.Typer(
    no_args_is_help=True, help="Look into SparkCache stores: look up, verify, restore and synthesise."
)
store_app.command("lookup", help=LOOKUP_HELP)(look_up)
store_app.command("synth", help=SYNTH_HELP)(synthesize)
store_app.command("verify", help=VERIFY_HELP)(verify_entry)
store_app.command("check", help=CHECK_HELP)(check_root)
store_app.command("ls", help=LS_HELP)(list_entries)
store_app.command("diff", help=DIFF_HELP)(diff)
store_app.command("damage", help=DAMAGE_HELP)(damage)

_EXIT_CODES = {
    RankOutcome.RESTORED: ExitCode.SUCCESS,
    RankOutcome.CORRUPT: ExitCode.CORRUPT,
    RankOutcome.ABSENT: ExitCode.ABSENT,
    RankOutcome.INCOMPATIBLE: ExitCode.INCOMPATIBLE,
    RankOutcome.CANCELLED: ExitCode.FAILED,
    RankOutcome.FAILED: ExitCode.FAILED,
}
_RESTORE_HELP = """Restore one rank into pages of a device and show where the time went.

Exit codes: 0 restored, 1 corrupt, 2 usage or unreadable input, 3 absent, 4 incompatible, 5 failed.
"""


@store_app.command(help=_RESTORE_HELP)
def restore(
    path: Annotated[Path, typer.Argument(help="The rank-local root.")],
    context: Annotated[str, typer.Option(help="Context digest of the prefix, 64 hex characters.")],
    layout: Annotated[Path, typer.Option(help="The page layout document.")],
    storage_key: Annotated[str | None, typer.Option(help="Storage key, if PATH holds several.")] = None,
    device: Annotated[str, typer.Option(help="Where to: host.")] = "host",
    readers: Annotated[int, typer.Option(min=1, max=32, help="Concurrent reads; at most 4 are used.")] = 4,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Restore, print, and leave with the outcome's code."""
    with errors_shown(as_json=as_json):
        if device != "host":
            raise InputError(f"device {device}: not available in this build, expected host")
        page_layout = read_layout(layout)
        name = _find_document(path, context=context, storage_key=storage_key)
        report = _restore(path, name=name, layout=page_layout, readers=readers)
        if as_json:
            print_json(report.to_document())
        else:
            _print_report(report, name=name)
        raise typer.Exit(_EXIT_CODES[report.outcome])


def _restore(path: Path, *, name: DocumentName, layout: PageLayout, readers: int) -> RankReport:
    order = RankOrder(
        identity=None,
        storage_key=name.storage_key,
        context_digest=name.context_digest,
        layout=layout,
    )
    manifest = _peek(path, name=name)
    object_bytes = MAX_OBJECT_BYTES if manifest is None else manifest.object_bytes
    with (
        BoundedReader(path, readers=readers, buffers=BufferPool(buffer_bytes=object_bytes)) as reader,
        HostDevice("host0", pool_bytes=_half_of_memory(), arena_bytes=object_bytes) as device,
    ):
        _prepare_pool(device, manifest=manifest, layout=layout)
        restored = restore_rank(
            order, reader=reader, device=device, clock=time.monotonic_ns, producer=HostProducer()
        )
        if restored.pages is None:
            return restored.report
        return replace(restored.report, layers=device.digest(restored.pages))


def _peek(path: Path, *, name: DocumentName) -> FlatSnapshotManifest | None:
    """The sizes to prepare for; what is wrong with the document is for the restore to say."""
    try:
        raw = read_document(path, name=name)
        return parse_flat_manifest(raw, identity=None, context_digest=name.context_digest)
    except CoreError:
        return None


def _prepare_pool(device: HostDevice, *, manifest: FlatSnapshotManifest | None, layout: PageLayout) -> None:
    """A serving runtime has its pool before it restores; what is in the way is for the restore to say."""
    if manifest is not None:
        with suppress(CoreError):
            device.prepare_pool(layout, block_counts=plan_restore(manifest, layout=layout).block_counts)


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
    print_pairs(rows)
    _print_phases(report)
    if report.layers:
        _print_layers(report)


def _print_phases(report: RankReport) -> None:
    table = Table("phase", Column("ms", justify="right"))
    for phase, spent_ns in report.phases_ns.items():
        table.add_row(phase, f"{spent_ns / 1e6:.3f}")
    table.add_row("unattributed", f"{report.unattributed_ns / 1e6:.3f}")
    table.add_section()
    table.add_row("service", f"{report.service_ns / 1e6:.3f}")
    Console().print(table)


def _print_layers(report: RankReport) -> None:
    table = Table("layer", Column("pages", justify="right"), Column("bytes", justify="right"), "sha256")
    for layer in report.layers:
        table.add_row(layer.name, str(layer.pages), f"{layer.bytes:,}", f"{layer.sha256[:16]}…")
    Console().print(table)
