"""``sparkgate demo``: make a store, restore it on all ranks, show times and answer; then with a fault."""

import json
import shutil
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import uuid4

import typer
from rich.console import Console

from app.cli.client import ApiClient, ApiError, fail, open_api
from app.cli.demo_drill import run_drill
from app.cli.demo_records import IMPORTED_RECORDS
from app.cli.progress import progress_bar
from app.cli.restore import follow, print_restore
from app.cli.waiting import wait_for
from app.config import Settings
from app.core.errors import CoreError
from app.core.oracle.synthesis import synthesize_oracle
from app.core.store.layout import MAX_OBJECT_BYTES

# The rank size of the record the demo retells: 131,072 tokens of GLM-5.3 on TP4, 13 objects of 64 MiB.
RECORD_BYTES: Final = 813_068_464
RANKS: Final = 4
# The healthy restore's pages stay while the drill takes its own.
PAGE_SETS: Final = 2
# What a rank worker holds besides its pages: four buffers and two arenas of 64 MiB, and itself.
_WORKER_BYTES: Final = 6 * MAX_OBJECT_BYTES + 150_000_000
_SMALLEST_BYTES: Final = 8_000_000
_FOUND_WITHIN_S: Final = 120.0
_MARK: Final = "demo.json"


def demo(
    byte_count: Annotated[
        int, typer.Option("--bytes", min=_SMALLEST_BYTES, help="Encoded bytes per rank.")
    ] = RECORD_BYTES,
    store: Annotated[Path | None, typer.Option(help="Where to make the store; a node must serve it.")] = None,
    url: Annotated[str | None, typer.Option(help="The control plane.")] = None,
    api_key_file: Annotated[Path | None, typer.Option(help="File with an API key.")] = None,
) -> None:
    """Make a four-rank store, restore it through REST and Celery, read the pages back; then a drill.

    Exit codes: 0 restored, and the drill's fault was caught; 1 it was not, or something was refused or did
    not answer; 2 usage.
    """
    settings = Settings()
    console = Console(highlight=False, markup=False, soft_wrap=True)
    folder = (store or _served_folder(settings)).absolute()
    try:
        api = open_api(settings, url=url, api_key_file=api_key_file)
        made = _make_store(console, folder, byte_count=byte_count)
        context = made["context_digest"]
        _register(api, made=made)
        _wait_until_found(console, api, context=context)
        _discard_earlier(console, api, context=context)
        order = {"context_digest": context, "layout_sha256": made["layout"]["sha256"]}
        healthy = _restore(console, api, order=order)
        if "oracle" in made:
            run_drill(console, api, order=order, healthy=healthy)
    except (ApiError, CoreError, OSError, TimeoutError) as error:
        fail(error)


def _served_folder(settings: Settings) -> Path:
    served = settings.store_roots[0] if settings.store_roots else settings.home / "stores"
    return served / "demo"


def _make_store(console: Console, folder: Path, *, byte_count: int) -> dict[str, Any]:
    """Make the store, or take the one that is there; one made by an earlier version has no question."""
    mark = folder / _MARK
    if mark.is_file():
        known = json.loads(mark.read_text())
        console.print(
            f"store                {known['bytes_per_rank']:,} bytes per rank, made before: {folder}"
        )
        return dict(known)
    folder.mkdir(parents=True, exist_ok=True)
    size = _affordable(console, folder, wanted=byte_count)
    with progress_bar("making a store for four ranks", total=RANKS * size) as tell:
        asked = synthesize_oracle(folder, ranks=RANKS, bytes_per_rank=size, progress=tell)
    made = asked.snapshot
    known = {
        "context_digest": str(made.context_digest),
        "layout": {"sha256": str(made.layout.sha256), "document": made.layout.canonical.decode("ascii")},
        "bytes_per_rank": size,
        "oracle": asked.question.to_bytes().decode("ascii"),
    }
    mark.write_text(json.dumps(known))
    console.print(
        f"store                {size:,} bytes in {made.objects_per_rank} objects per rank: {folder}"
    )
    return known


def _affordable(console: Console, folder: Path, *, wanted: int) -> int:
    """The wanted size, or what disk and memory leave room for, said aloud."""
    disk = int(shutil.disk_usage(folder).free * 0.8) // RANKS
    memory = (int(_available_memory() * 0.8) // RANKS - _WORKER_BYTES) // PAGE_SETS
    size = min(wanted, disk, memory)
    if size < wanted:
        least = "disk" if disk < memory else "memory"
        size = max(size, _SMALLEST_BYTES)
        console.print(
            f"store                {wanted:,} bytes per rank wanted, {size:,} made: little {least} here"
        )
    return size


def _available_memory() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 8 * 10**9


def _register(api: ApiClient, *, made: dict[str, Any]) -> None:
    """Layout and question, and the images of the record that is retold: neither run nor judged here."""
    api.post("/api/v1/layouts", content=made["layout"]["document"].encode("ascii"))
    if "oracle" in made:
        api.post("/api/v1/oracles", content=made["oracle"].encode("ascii"))
    for record in IMPORTED_RECORDS:
        source = api.post("/api/v1/sources", body=record["source"])
        api.post("/api/v1/images", body={**record["image"], "source_id": source["id"]})


def _wait_until_found(console: Console, api: ApiClient, *, context: str) -> None:
    def found() -> bool:
        try:
            return bool(api.get(f"/api/v1/snapshots/{context}")["complete"])
        except ApiError:
            return False

    with console.status("waiting until the node has found the store and its devices are there"):
        wait_for(found, within_s=_FOUND_WITHIN_S, what=f"all ranks of snapshot {context} on a node")


def _discard_earlier(console: Console, api: ApiClient, *, context: str) -> None:
    """Make room in the pools: the pages of demos before this one."""
    listed = api.get("/api/v1/restores?state=resident&page_size=200")["restores"]
    for restore in listed:
        if restore["context_digest"] == context:
            api.post(f"/api/v1/restores/{restore['id']}/discard")
            console.print(f"pages of an earlier demo given back: restore {restore['id']}")


def _restore(console: Console, api: ApiClient, *, order: dict[str, str]) -> dict[str, Any]:
    restore = api.post("/api/v1/restores", body=order, key=str(uuid4()))
    with console.status("restoring on four ranks"):
        restore = follow(api, restore_id=restore["id"])
    print_restore(console, restore)
    if restore["outcome"] == "restored":
        _read_back(console, api, restore_id=restore["id"])
    console.print(f"{api.base_url}/restores/{restore['id']} shows where every millisecond went")
    if restore["outcome"] != "restored":
        raise typer.Exit(1)
    return restore


def _read_back(console: Console, api: ApiClient, *, restore_id: str) -> None:
    """Digest what is really in the pages of every rank."""
    path = f"/api/v1/restores/{restore_id}/readbacks"
    path = f"{path}/{api.post(path)['id']}"
    with console.status("reading the pages back on every rank"):
        wait_for(
            lambda: bool(api.get(path)["done"]), within_s=_FOUND_WITHIN_S, what="the readback of all ranks"
        )
    answer = api.get(path)
    for rank in answer["ranks"]:
        total = sum(layer["bytes"] for layer in rank["layers"])
        first = rank["layers"][0]
        console.print(
            f"rank {rank['rank']}: {len(rank['layers'])} layers, {total:,} bytes read back; "
            f"{first['name']} {first['sha256'][:16]}…"
        )
