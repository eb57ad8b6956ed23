"""``sparkgate store``: its JSON keys, its exit codes, and never a traceback."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from app.cli.store import store_app
from app.core.restore.report import parse_report
from tests.gpu.schedules import Eager
from tests.gpu.stream_model import ModelDriver
from workers.gpu.cuda_device import CudaDevice

from .rig import Vector, flip_byte

SIZE = 60_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store")
    assert run("synth", path, "--ranks", 2, "--bytes", SIZE, "--object-bytes", 8191).exit_code == 0
    return path


@pytest.fixture
def root(store: Path, tmp_path: Path) -> Path:
    shutil.copytree(store / "rank0", tmp_path / "rank0")
    return tmp_path / "rank0"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(store_app, [str(argument) for argument in arguments])


def context_of(root: Path) -> str:
    (path,) = root.glob("manifests/*/*.json")
    return path.stem


def restored(root: Path, *options: object, layout: Path) -> Result:
    return run("restore", root, "--context", context_of(root), "--layout", layout, *options)


def test_the_keys_of_a_restore(root: Path, store: Path) -> None:
    result = restored(root, "--json", "--device", "host", "--readers", 2, layout=store / "layout.json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["outcome"] == "restored"
    assert document["objects"] == 8
    assert document["bytes"] == SIZE
    assert document["readers"] == 2
    assert {frozenset(item) for item in document["intervals_ns"]} == {
        frozenset({"phase", "start_ns", "end_ns"})
    }
    assert sum(document["phases_ns"].values()) + document["unattributed_ns"] == document["service_ns"]
    assert {frozenset(item) for item in document["layers"]} == {
        frozenset({"name", "pages", "bytes", "sha256"})
    }
    assert parse_report(document).service_ns == document["service_ns"]


def test_a_vector_restores_to_its_digests(vectors: dict[str, Vector], tmp_path: Path) -> None:
    vector = vectors["flat-v2-tp4-rank1"]
    layout = tmp_path / "layout.json"
    layout.write_bytes(vector.layout.canonical)
    context = vector.entry["context_digest"]
    result = run("restore", vector.root, "--context", context, "--layout", layout, "--json")
    assert [layer["sha256"] for layer in json.loads(result.stdout)["layers"]] == vector.layer_digests


def test_without_json_a_person_can_read_it(root: Path, store: Path) -> None:
    result = restored(root, layout=store / "layout.json")
    assert result.exit_code == 0
    for word in ("restored", "read_authenticate", "unattributed", "service", "linear_attn.state"):
        assert word in result.stdout


def damaged(root: Path) -> None:
    flip_byte(sorted(root.glob("chunks/*"))[3])


def emptied(root: Path) -> None:
    (path,) = root.glob("manifests/*/*.json")
    path.write_bytes(b"")


def filed_under_another_key(root: Path) -> None:
    (folder,) = root.glob("manifests/*")
    folder.rename(folder.with_name("0" * 64))


@pytest.mark.parametrize(
    ("damage", "code", "outcome"),
    [(damaged, 1, "corrupt"), (emptied, 1, "corrupt"), (filed_under_another_key, 4, "incompatible")],
)
@pytest.mark.parametrize("as_json", [True, False])
def test_what_is_wrong_with_a_store_has_its_code(
    root: Path, store: Path, damage: Any, code: int, outcome: str, as_json: bool
) -> None:
    damage(root)
    result = restored(root, *(["--json"] if as_json else []), layout=store / "layout.json")
    assert result.exit_code == code
    assert outcome in result.stdout
    if as_json:
        assert json.loads(result.stdout)["problem"]["detail"]


def test_what_is_not_there_is_absent(root: Path, store: Path) -> None:
    arguments = ("restore", root, "--context", "0" * 64, "--layout", store / "layout.json")
    for options in ((), ("--storage-key", "0" * 64)):
        result = run(*arguments, *options, "--json")
        assert result.exit_code == 3
        assert json.loads(result.stdout)["outcome"] == "absent"
    plain = run(*arguments)
    assert plain.exit_code == 3
    assert plain.stderr.startswith("absent: ")


def test_a_context_under_two_keys_is_ambiguous(root: Path, store: Path) -> None:
    (folder,) = root.glob("manifests/*")
    shutil.copytree(folder, folder.with_name("0" * 64))
    result = restored_one_of_two(root, store)
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert folder.name in error
    assert "0" * 64 in error
    assert restored_one_of_two(root, store, "--storage-key", folder.name).exit_code == 0


def restored_one_of_two(root: Path, store: Path, *options: object) -> Result:
    context = next(root.glob("manifests/*/*.json")).stem
    return run("restore", root, "--context", context, "--layout", store / "layout.json", "--json", *options)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("{root}", "--context", "xyz", "--layout", "{layout}"), "--context"),
        (("{root}", "--context", "{zero}", "--layout", "{layout}", "--storage-key", "x"), "--storage-key"),
        (("{root}", "--context", "{zero}", "--layout", "{root}/nowhere"), "No such file"),
        (("{root}", "--context", "{zero}", "--layout", "{root}"), "directory"),
        (("{root}/nowhere", "--context", "{zero}", "--layout", "{layout}"), "expected a folder"),
        (
            ("{root}", "--context", "{zero}", "--layout", "{layout}", "--device", "gpu"),
            "expected host, or cuda0 and so on",
        ),
    ],
)
def test_unusable_input_is_named(root: Path, store: Path, arguments: tuple[str, ...], said: str) -> None:
    values = {"root": root, "layout": store / "layout.json", "zero": "0" * 64}
    result = run("restore", *(argument.format(**values) for argument in arguments), "--json")
    assert result.exit_code == 2
    assert said in json.loads(result.stdout)["error"]
    plain = run("restore", *(argument.format(**values) for argument in arguments))
    assert plain.exit_code == 2
    assert said in plain.stderr


def test_another_device_is_found_by_its_entry_point(
    root: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a model in place of a GPU: the same pages, through the same command."""
    opened: list[str] = []

    class Plug:
        def load(self) -> Callable[..., CudaDevice]:
            def open_device(name: str, *, pool_bytes: int, arena_bytes: int) -> CudaDevice:
                opened.append(name)
                driver = ModelDriver(Eager())
                return CudaDevice(name, driver=driver, pool_bytes=pool_bytes, arena_bytes=arena_bytes)

            return open_device

    plugs = {"cuda": [Plug()]}
    monkeypatch.setattr(
        "app.cli.store_restore.metadata.entry_points", lambda *, group, name: plugs.get(name, [])
    )
    layout = store / "layout.json"
    found = restored(root, "--json", "--device", "cuda7", layout=layout)
    expected = restored(root, "--json", layout=layout)
    assert (found.exit_code, opened) == (0, ["cuda7"])
    assert json.loads(found.stdout)["layers"] == json.loads(expected.stdout)["layers"]
    plugs.clear()
    missing = restored(root, "--json", "--device", "cuda0", layout=layout)
    assert missing.exit_code == 5
    assert "an entry point cuda in sparkgate.devices" in json.loads(missing.stdout)["error"]


def test_a_layout_that_is_none_is_unusable(root: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{}")
    result = restored(root, "--json", layout=tmp_path / "bad.json")
    assert result.exit_code == 2
    assert "groups" in json.loads(result.stdout)["error"]


def test_the_codes_are_documented() -> None:
    said = " ".join(run("restore", "--help").stdout.split())
    assert "0 restored, 1 corrupt, 2 usage or unreadable input, 3 absent, 4 incompatible, 5 failed." in said


def test_synth_says_what_it_made(tmp_path: Path) -> None:
    result = run("synth", tmp_path, "--ranks", 1, "--bytes", SIZE, "--json")
    document = json.loads(result.stdout)
    assert document["bytes_per_rank"] == SIZE
    assert document["objects_per_rank"] == 1
    assert document["ranks"][0]["root"] == str(tmp_path / "rank0")
    again = run("synth", tmp_path, "--ranks", 1, "--bytes", SIZE)
    assert again.exit_code == 0
    assert "layout_sha256" in again.stdout


def test_synth_refuses_what_it_cannot_make(tmp_path: Path) -> None:
    result = run("synth", tmp_path / "a", "--bytes", 10, "--json")
    assert result.exit_code == 2
    assert "expected at least" in json.loads(result.stdout)["error"]
    assert run("synth", tmp_path / "a").exit_code == 2


def test_synth_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / "layout.json").write_text("mine")
    assert run("synth", tmp_path, "--ranks", 1, "--bytes", SIZE).exit_code == 2
    assert (tmp_path / "layout.json").read_text() == "mine"
    (path,) = tmp_path.glob("rank0/manifests/*/*.json")
    path.write_text("mine")
    result = run("synth", tmp_path, "--ranks", 1, "--bytes", SIZE, "--json")
    assert result.exit_code == 5
    assert path.read_text() == "mine"


@pytest.mark.parametrize("cache", ["cold", "warm", "as-is"])
def test_the_page_cache_is_prepared_and_measured(root: Path, store: Path, cache: str) -> None:
    result = restored(root, "--cache", cache, "--json", layout=store / "layout.json")
    assert result.exit_code == 0
    conditions = json.loads(result.stdout)["conditions"]
    assert conditions["cores"] >= 1
    assert conditions["cache"]["mode"] == cache.replace("-", "_")
    if cache == "warm":
        assert conditions["cache"]["resident_bytes"] == conditions["cache"]["object_bytes"] > 0
    assert "bytes resident" in " ".join(
        restored(root, "--cache", cache, layout=store / "layout.json").stdout.split()
    )


def test_deltas_and_legacy_pages_restore(entries: dict[str, Vector], tmp_path: Path) -> None:
    for name in ("page-delta-v2-1024", "page-delta-v1-768", "legacy-pages-chunks"):
        vector = entries[name]
        layout = tmp_path / f"{name}.json"
        layout.write_bytes(vector.layout.canonical)
        context = vector.entry["context_digest"]
        result = run("restore", vector.root, "--context", context, "--layout", layout, "--json")
        assert [layer["sha256"] for layer in json.loads(result.stdout)["layers"]] == vector.layer_digests


def test_rows_restore_without_a_layout(entries: dict[str, Vector]) -> None:
    for name in ("legacy-rows", "rows-tail-cow-tail", "legacy-rows-alias-4096"):
        vector = entries[name]
        arguments = (
            "--context",
            vector.entry["context_digest"],
            "--storage-key",
            vector.entry["storage_key"],
        )
        result = run("restore", vector.root, *arguments, "--mode", "rows", "--json")
        layers = {layer["name"]: layer["sha256"] for layer in json.loads(result.stdout)["layers"]}
        assert layers == vector.entry["records_sha256"]


def test_pages_without_a_layout_fail_with_that_reason(root: Path) -> None:
    result = run("restore", root, "--context", context_of(root), "--json")
    assert result.exit_code == 5
    assert "page layout" in json.loads(result.stdout)["problem"]["detail"]
