"""A synthetic store of every kind is sound on every rank, and the command makes it (store-format §7)."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from app.cli.store import store_app
from app.core.errors import PlanError
from app.core.store.entry import find_entry
from app.core.store.files import RootFiles
from app.core.store.identity import parse_identity
from app.core.store.manifest import (
    DeltaVersion,
    PageDeltaManifest,
    PrefixAlias,
    RootKind,
    StorageMode,
    chain_of,
)
from app.core.store.snapshot import parse_page_layout
from app.core.store.synth import StoreKind, SynthesizedStore, synthesize_kind
from app.core.store.verify import VerifyOutcome, verify

PAGES = RootKind.PAGE_SNAPSHOT
DELTA = RootKind.PAGE_DELTA
# What a reader finds, shortest prefix first; an exact entry wins over an alias of the same prefix.
FOUND = {
    StoreKind.LEGACY_PAGES: [RootKind.MANIFEST],
    StoreKind.LEGACY_ROWS: [RootKind.MANIFEST],
    StoreKind.ROWS_TAIL: [RootKind.MANIFEST, RootKind.MANIFEST],
    StoreKind.ALIAS: [RootKind.PREFIX_ALIAS, RootKind.MANIFEST, RootKind.MANIFEST],
    StoreKind.PAGE_DELTA_V1: [PAGES, DELTA],
    StoreKind.PAGE_DELTA_V2: [PAGES, DELTA, DELTA, DELTA],
    StoreKind.PAGE_DELTA_V3: [PAGES, DELTA, DELTA],
}


def verified(made: SynthesizedStore, *, rank: int) -> tuple[list[RootKind], set[str]]:
    """The kinds of a rank's entries, and every digest of their content."""
    kinds, digests = [], set[str]()
    for entry in made.entries:
        found = verify(
            RootFiles(made.roots[rank]),
            identity=made.identities[rank],
            context_digest=entry.context_digest,
            mode=None if made.kind.stores_pages else StorageMode.ROWS,
            layout=made.layout,
        )
        assert found.outcome is VerifyOutcome.VERIFIED, found.detail
        assert found.entry is not None
        assert found.entry.committed_tokens == entry.span_tokens
        kinds.append(found.entry.kind)
        digests |= {layer.sha256 for layer in found.layers}
        digests |= {record.sha256 for record in found.records if record.kind != "logical_positions"}
        assert digests
    return kinds, digests


@pytest.mark.parametrize("kind", StoreKind)
def test_every_entry_verifies_on_every_rank_and_no_two_ranks_are_equal(
    tmp_path: Path, kind: StoreKind
) -> None:
    made = synthesize_kind(tmp_path, kind=kind, ranks=2, object_bytes=4096)
    first, second = (verified(made, rank=rank) for rank in range(2))
    assert first[0] == second[0] == FOUND[kind]
    assert first[1].isdisjoint(second[1])


@pytest.mark.parametrize("kind", [StoreKind.LEGACY_ROWS, StoreKind.ROWS_TAIL])
def test_each_of_64_ranks_owns_rows_of_every_chunk(tmp_path: Path, kind: StoreKind) -> None:
    made = synthesize_kind(tmp_path, kind=kind, ranks=64)
    assert verified(made, rank=63)[0] == FOUND[kind]


def test_the_third_extension_of_v2_starts_from_the_bottom_again(tmp_path: Path) -> None:
    made = synthesize_kind(tmp_path, kind=StoreKind.PAGE_DELTA_V2, ranks=1)
    depths = []
    for entry in made.entries[1:]:
        found = find_entry(
            RootFiles(made.roots[0]), identity=made.identities[0], context_digest=entry.context_digest
        ).document
        assert isinstance(found, PageDeltaManifest)
        assert found.version is DeltaVersion.V2
        depths.append(len(chain_of(found)))
    assert depths == [1, 2, 1]


def test_the_second_extension_of_v3_has_two_stages_on_the_flat_base(tmp_path: Path) -> None:
    made = synthesize_kind(tmp_path, kind=StoreKind.PAGE_DELTA_V3, ranks=1)
    found = find_entry(
        RootFiles(made.roots[0]),
        identity=made.identities[0],
        context_digest=made.entries[-1].context_digest,
    ).document
    assert isinstance(found, PageDeltaManifest)
    assert [stage.base.committed_tokens for stage in found.stages] == [512, 768]
    assert found.base.kind is PAGES


def test_aliases_stand_beside_their_source(tmp_path: Path) -> None:
    made = synthesize_kind(tmp_path, kind=StoreKind.ALIAS, ranks=1)
    assert [(entry.span_tokens, entry.is_alias) for entry in made.entries] == [
        (4096, True),
        (5120, True),
        (5120, False),
    ]
    found = find_entry(
        RootFiles(made.roots[0]),
        identity=made.identities[0],
        context_digest=made.entries[0].context_digest,
        mode=StorageMode.ROWS,
    ).document
    assert isinstance(found, PrefixAlias)
    assert found.chunk_count == 16


@pytest.mark.parametrize("kind", StoreKind)
def test_it_repeats_itself_and_a_seed_changes_it(tmp_path: Path, kind: StoreKind) -> None:
    first = synthesize_kind(tmp_path / "a", kind=kind, ranks=1)
    assert synthesize_kind(tmp_path / "a", kind=kind, ranks=1) == first
    again = synthesize_kind(tmp_path / "b", kind=kind, ranks=1)
    assert again.entries == first.entries
    assert files_below(tmp_path / "a") == files_below(tmp_path / "b")
    other = synthesize_kind(tmp_path / "a", kind=kind, ranks=1, seed=1)
    assert {entry.context_digest for entry in other.entries}.isdisjoint(
        {entry.context_digest for entry in first.entries}
    )


def files_below(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "changes",
    [{"ranks": 0}, {"object_bytes": 511}, {"bytes_per_rank": 10}, {"object_bytes": 64 * 1024 * 1024 + 1}],
)
def test_a_store_that_cannot_be(tmp_path: Path, changes: dict[str, int]) -> None:
    with pytest.raises(PlanError):
        synthesize_kind(tmp_path / "root", **({"kind": StoreKind.PAGE_DELTA_V2, "ranks": 1} | changes))
    assert not (tmp_path / "root").exists()


def run(*arguments: object) -> Result:
    return CliRunner().invoke(store_app, ["synth", *(str(argument) for argument in arguments)])


@pytest.mark.parametrize("kind", StoreKind)
def test_the_command_says_what_it_made_and_what_its_readers_need(tmp_path: Path, kind: StoreKind) -> None:
    result = run(tmp_path, "--kind", kind, "--ranks", 2, "--json")
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    assert document["kind"] == kind
    assert document["context_digest"] == document["entries"][-1]["context_digest"]
    layout = None
    if kind.stores_pages:
        layout = parse_page_layout(Path(document["layout"]).read_bytes())
        assert layout.sha256 == document["layout_sha256"]
    for number, rank in enumerate(document["ranks"]):
        identity = parse_identity(json.loads((tmp_path / f"rank{number}.identity.json").read_bytes()))
        assert identity.storage_key == rank["storage_key"]
        for entry in document["entries"]:
            assert (Path(rank["root"]) / entry["paths"][number]).is_file()
        found = verify(
            RootFiles(Path(rank["root"])),
            identity=identity,
            context_digest=document["context_digest"],
            layout=layout,
        )
        assert found.outcome is VerifyOutcome.VERIFIED, found.detail


def test_the_size_of_a_page_stores_base_is_met(tmp_path: Path) -> None:
    result = run(tmp_path, "--kind", "page-delta-v3", "--ranks", 1, "--bytes", 70_000, "--object-bytes", 8192)
    assert result.exit_code == 0
    documents = [json.loads(path.read_bytes()) for path in tmp_path.glob("rank0/manifests/*/*.json")]
    sizes = [item["snapshot_encoded_bytes"] for item in documents if "snapshot_encoded_bytes" in item]
    assert sizes == [70_000]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--kind", "flat"), "expected the size of the flat snapshot"),
        (("--kind", "alias", "--bytes", 1000), "expected none for alias"),
        (("--kind", "page-delta-v1", "--bytes", 10), "expected at least"),
    ],
)
def test_usage_errors_are_named(tmp_path: Path, options: tuple[object, ...], said: str) -> None:
    result = run(tmp_path / "a", *options, "--json")
    assert result.exit_code == 2
    assert said in json.loads(result.stdout)["error"]
    assert not (tmp_path / "a").exists()


def test_a_flat_store_has_its_identities_beside_it(tmp_path: Path) -> None:
    assert run(tmp_path, "--ranks", 2, "--bytes", 60_000).exit_code == 0
    keys = {path.name for path in tmp_path.glob("rank*/manifests/*")}
    identities = [parse_identity(json.loads(path.read_bytes())) for path in tmp_path.glob("*.identity.json")]
    assert {identity.storage_key for identity in identities} == keys


def test_another_identity_beside_a_store_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "rank0.identity.json").write_text("mine")
    assert run(tmp_path, "--kind", "legacy-rows", "--ranks", 1).exit_code == 2
    assert (tmp_path / "rank0.identity.json").read_text() == "mine"
