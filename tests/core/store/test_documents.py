"""The order that decides the reason, kind by kind, and what no vector decides (§8.3 – §11, §20)."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from app.core.canonical_json import encode_canonical
from app.core.digest import sha256
from app.core.errors import FormatError, IncompatibleError, IntegrityError, StoreError
from app.core.store.layout import MAX_OBJECT_BYTES
from app.core.store.lookup import Depth, LookupAnswer, LookupOutcome, lookup
from app.core.store.manifest import DeltaVersion
from app.core.store.snapshot import parse_page_layout

from .builders import SMALL_LAYOUT, Span, put_page_entry
from .rig import StoreVector

Document = dict[str, Any]
OTHER = sha256(b"another")


@dataclass
class Bench:
    """One entry whose document is edited and asked for again."""

    vector: StoreVector

    def document(self) -> Document:
        read: Document = json.loads(self.vector.memory[self.vector.document])
        return read

    def ask(self, document: Document, *, sign: bool = True) -> LookupAnswer:
        kept = self.vector.memory[self.vector.document]
        self.vector.memory[self.vector.document] = encode_canonical(signed(document) if sign else document)
        try:
            return self.vector.lookup(Depth.METADATA)
        finally:
            self.vector.memory[self.vector.document] = kept

    def refuse(self, kind: type[StoreError], match: str, *, sign: bool = True, **changes: Any) -> None:
        answer = self.ask(self.document() | changes, sign=sign)
        assert type(answer.problem) is kind, answer.detail
        assert match in str(answer.problem)


def signed(document: Document) -> Document:
    covered = {key: value for key, value in document.items() if key != "metadata_sha256"}
    return covered | {"metadata_sha256": sha256(encode_canonical(covered))}


@pytest.fixture
def bench(entries: dict[str, StoreVector]) -> Callable[[str], Bench]:
    return lambda name: Bench(entries[name].in_memory())


def other_identity(document: Document) -> Document:
    return document["identity"] | {"rope_layout": "other"}


class TestLegacy:
    NAME = "legacy-pages-chunks"

    def test_keys_come_before_the_identity(self, bench: Callable[[str], Bench]) -> None:
        bench(self.NAME).refuse(FormatError, "extra ['note']", sign=False, note=1, identity={})

    @pytest.mark.parametrize("schema", [None, "x", "sparkcache-prefix-alias/v1", 1, ["x"], {}])
    def test_an_unknown_schema_is_an_extra_key(self, bench: Callable[[str], Bench], schema: Any) -> None:
        bench(self.NAME).refuse(FormatError, "extra ['schema']", sign=False, schema=schema)

    def test_an_invalid_identity_comes_before_the_abi(self, bench: Callable[[str], Bench]) -> None:
        case = bench(self.NAME)
        identity = case.document()["identity"]
        for value in ("x", {}, identity | {"tp_degree": True}, identity | {"record_schema": []}):
            case.refuse(FormatError, "identity", sign=False, identity=value, format_abi=2)

    @pytest.mark.parametrize("size", [1.0, 2.5, True, 2])
    def test_the_interleave_size_is_checked_by_value_first(
        self, bench: Callable[[str], Bench], size: Any
    ) -> None:
        case = bench(self.NAME)
        identity = case.document()["identity"] | {"cp_kv_cache_interleave_size": size}
        case.refuse(IncompatibleError, "identity", sign=False, identity=identity, committed_tokens=0)

    @pytest.mark.parametrize("size", [0.5, 0, False, -1.0, "1", None])
    def test_and_must_be_at_least_one(self, bench: Callable[[str], Bench], size: Any) -> None:
        case = bench(self.NAME)
        identity = case.document()["identity"] | {"cp_kv_cache_interleave_size": size}
        case.refuse(FormatError, "interleave", sign=False, identity=identity, format_abi=2)

    @pytest.mark.parametrize("abi", [2, True, 1.0, "1", None])
    def test_the_abi_comes_before_the_geometry(self, bench: Callable[[str], Bench], abi: Any) -> None:
        bench(self.NAME).refuse(
            IncompatibleError, "format_abi", sign=False, format_abi=abi, committed_tokens=0
        )

    def test_an_identity_of_the_release_under_the_new_key(self, bench: Callable[[str], Bench]) -> None:
        case = bench(self.NAME)
        identity = case.document()["identity"]
        del identity["cp_kv_cache_interleave_size"]
        case.refuse(FormatError, "cp_kv_cache_interleave_size", sign=False, identity=identity)

    def test_a_new_identity_under_the_releases_key(self, bench: Callable[[str], Bench]) -> None:
        case = bench("release-0.1.0a2-chunks")
        for extra in ({"cp_kv_cache_interleave_size": 1}, {"publication_schema": "tail-cow-v1"}):
            case.refuse(FormatError, "extra", sign=False, identity=case.document()["identity"] | extra)

    @pytest.mark.parametrize(
        "change",
        [
            {"bytes": 0},
            {"bytes": 10**30},
            {"logical_start": 1},
            {"logical_end": 255},
            {"logical_end": 0},
            {"sha256": "x"},
            {"sha256": None},
        ],
    )
    def test_a_descriptor(self, bench: Callable[[str], Bench], change: Document) -> None:
        case = bench(self.NAME)
        chunks = case.document()["chunks"]
        chunks[0] |= change
        case.refuse(FormatError, "chunks[0]", sign=False, chunks=chunks)


class TestAlias:
    NAME = "legacy-rows-alias-4096"

    def test_digest_syntax_comes_before_the_identity(self, bench: Callable[[str], Bench]) -> None:
        case = bench(self.NAME)
        identity = other_identity(case.document())
        for key in ("tail_segment_sha256", "source_manifest_digest"):
            case.refuse(FormatError, key, identity=identity, **{key: "x"})
        case.refuse(FormatError, "metadata_sha256", sign=False, identity=identity, metadata_sha256="x")

    def test_the_schema_comes_before_the_identity(self, bench: Callable[[str], Bench]) -> None:
        case = bench(self.NAME)
        case.refuse(FormatError, "schema", identity=other_identity(case.document()), schema="x")

    def test_the_identity_comes_before_the_metadata_digest(self, bench: Callable[[str], Bench]) -> None:
        case = bench(self.NAME)
        identity = other_identity(case.document())
        case.refuse(IncompatibleError, "identity", sign=False, identity=identity)
        for change in ({"format_abi": True}, {"context_digest": "x"}, {"storage_mode": "block_pages_v1"}):
            case.refuse(IncompatibleError, next(iter(change)), sign=False, **change)

    def test_the_metadata_digest_comes_before_the_geometry(self, bench: Callable[[str], Bench]) -> None:
        bench(self.NAME).refuse(IntegrityError, "metadata_sha256", sign=False, chunk_count=0)

    @pytest.mark.parametrize("count", [0, True, 17, 65_537, 10**30, "16"])
    def test_another_count(self, bench: Callable[[str], Bench], count: Any) -> None:
        assert bench(self.NAME).ask(bench(self.NAME).document() | {"chunk_count": count}).outcome is (
            LookupOutcome.CORRUPT
        )

    def test_a_source_that_is_not_there_does_not_matter(self, bench: Callable[[str], Bench]) -> None:
        case = bench(self.NAME)
        answer = case.ask(case.document() | {"source_manifest_digest": OTHER})
        assert answer.outcome is LookupOutcome.HIT


class TestTail:
    NAME = "rows-tail-cow-tail"

    def test_digest_syntax_comes_before_the_metadata_digest(self, bench: Callable[[str], Bench]) -> None:
        case = bench(self.NAME)
        for key in ("base_context_digest", "base_manifest_sha256", "base_tail_segment_sha256"):
            case.refuse(FormatError, key, sign=False, **{key: "x"})

    def test_the_metadata_digest_comes_before_the_identity(self, bench: Callable[[str], Bench]) -> None:
        case = bench(self.NAME)
        case.refuse(IntegrityError, "metadata_sha256", sign=False, identity=other_identity(case.document()))

    def test_the_identity_comes_before_the_geometry(self, bench: Callable[[str], Bench]) -> None:
        case = bench(self.NAME)
        identity = other_identity(case.document())
        case.refuse(IncompatibleError, "identity", identity=identity, committed_tokens=0)
        case.refuse(IncompatibleError, "context_digest", context_digest="x", committed_tokens=0)
        case.refuse(IncompatibleError, "format_abi", format_abi=True, committed_tokens=0)

    def test_the_geometry_comes_before_the_chain(self, bench: Callable[[str], Bench]) -> None:
        case = bench(self.NAME)
        case.refuse(FormatError, "reused_tokens", reused_tokens=1281, base_tail_segment_sha256=OTHER)
        case.refuse(FormatError, "descriptor segment", base_tail_segment_sha256=OTHER)

    @pytest.mark.parametrize(
        "change",
        [
            {"base_committed_tokens": 0},
            {"base_committed_tokens": 1800},
            {"reused_tokens": 1536},
            {"reused_tokens": -256},
            {"base_chunk_count": 4},
            {"base_chunk_count": 5.0},
            {"base_tail_segment_sha256": None},
            {"base_chunk_count": 0, "reused_tokens": 0},
            {"tail_chunks": []},
        ],
    )
    def test_geometry(self, bench: Callable[[str], Bench], change: Document) -> None:
        bench(self.NAME).refuse(FormatError, next(iter(change)).split("_")[0], **change)

    def test_nothing_reused_needs_no_chain(self, bench: Callable[[str], Bench]) -> None:
        case = bench(self.NAME)
        base = json.loads(
            case.vector.memory[
                case.vector.document.replace(
                    case.vector.entry["context_digest"], case.document()["base_context_digest"]
                )
            ]
        )
        answer = case.ask(
            case.document()
            | {
                "reused_tokens": 0,
                "base_chunk_count": 0,
                "base_tail_segment_sha256": None,
                "tail_chunks": base["chunks"][:5] + case.document()["tail_chunks"],
            }
        )
        assert answer.outcome is LookupOutcome.HIT

    def test_a_base_that_is_not_there_does_not_matter(self, bench: Callable[[str], Bench]) -> None:
        case = bench(self.NAME)
        assert case.ask(case.document() | {"base_manifest_sha256": OTHER}).outcome is LookupOutcome.HIT


V1_V2 = ["page-delta-v1-768", "page-delta-v2-768", "page-delta-v2-1024"]
ALL_DELTAS = [*V1_V2, "page-delta-v3-1024"]


class TestDelta:
    @pytest.mark.parametrize("name", ALL_DELTAS)
    def test_keys_come_before_digest_syntax(self, bench: Callable[[str], Bench], name: str) -> None:
        bench(name).refuse(FormatError, "extra ['note']", note=1, layout_sha256="x")

    @pytest.mark.parametrize("key", ["base_context_digest", "base_root_sha256", "layout_sha256"])
    @pytest.mark.parametrize("name", ALL_DELTAS)
    def test_digest_syntax_comes_before_the_metadata_digest(
        self, bench: Callable[[str], Bench], name: str, key: str
    ) -> None:
        bench(name).refuse(FormatError, key, sign=False, **{key: "x"})

    def test_so_does_that_of_the_delta(self, bench: Callable[[str], Bench]) -> None:
        bench("page-delta-v2-768").refuse(FormatError, "delta_sha256", sign=False, delta_sha256="x")

    @pytest.mark.parametrize("name", ALL_DELTAS)
    def test_the_metadata_digest_comes_before_the_identity(
        self, bench: Callable[[str], Bench], name: str
    ) -> None:
        kind = IncompatibleError if "v3" in name else IntegrityError
        bench(name).refuse(kind, "metadata_sha256", sign=False, format_abi=2)

    @pytest.mark.parametrize("name", ALL_DELTAS)
    def test_the_identity_comes_before_the_geometry(self, bench: Callable[[str], Bench], name: str) -> None:
        case = bench(name)
        identity = other_identity(case.document())
        case.refuse(IncompatibleError, "identity", identity=identity, committed_tokens=0)
        case.refuse(IncompatibleError, "context_digest", context_digest="x", committed_tokens=0)

    @pytest.mark.parametrize("name", ALL_DELTAS)
    def test_the_base_is_the_one_that_is_named(self, bench: Callable[[str], Bench], name: str) -> None:
        kind = IncompatibleError if "v3" in name else IntegrityError
        bench(name).refuse(kind, "base_root_sha256", base_root_sha256=OTHER)

    @pytest.mark.parametrize(
        "change",
        [
            {"committed_tokens": 1000},
            {"committed_tokens": 256},
            {"base_committed_tokens": 0},
            {"base_block_counts": []},
            {"base_block_counts": [8, 2]},
            {"base_block_counts": [8, 2, 0]},
            {"base_block_counts": [8, 2, True]},
            {"result_block_counts": [1, 1, 1]},
            {"base_root": None},
            {"base_root": []},
        ],
    )
    @pytest.mark.parametrize("name", ALL_DELTAS)
    def test_geometry(self, bench: Callable[[str], Bench], name: str, change: Document) -> None:
        answer = bench(name).ask(bench(name).document() | change)
        assert type(answer.problem) is FormatError

    @pytest.mark.parametrize("name", ["page-delta-v2-768", "page-delta-v3-1024"])
    def test_chunk_tokens_are_the_identitys(self, bench: Callable[[str], Bench], name: str) -> None:
        for tokens in (128, 256.0, True):
            bench(name).refuse(FormatError, "logical_chunk_tokens", logical_chunk_tokens=tokens)

    @pytest.mark.parametrize("name", ALL_DELTAS)
    def test_a_wrong_base_is_answered_with_its_own_reason(
        self, bench: Callable[[str], Bench], name: str
    ) -> None:
        case = bench(name)
        base = case.document()["base_root"]
        self.embed(case, signed(base | {"committed_tokens": 0}), kind=FormatError)
        self.embed(case, base | {"metadata_sha256": OTHER}, kind=IntegrityError)
        self.embed(case, signed(base | {"format_abi": 2}), kind=IncompatibleError)
        self.embed(case, signed(base | {"context_digest": OTHER}), kind=IncompatibleError)
        self.embed(case, signed(base | {"schema": "sparkcache-tail-manifest/v1"}), kind=FormatError)

    @pytest.mark.parametrize("version", [DeltaVersion.V1, DeltaVersion.V2])
    def test_at_most_two_deltas_are_stacked(self, version: DeltaVersion) -> None:
        layout = parse_page_layout(SMALL_LAYOUT)
        spans = [
            Span(tokens=256 * pages, pages={"a": b"page" * pages}, reused=(pages - 1,))
            for pages in range(1, 5)
        ]
        for count, outcome in ((3, LookupOutcome.HIT), (4, LookupOutcome.CORRUPT)):
            files, identity = put_page_entry(spans[:count], layout=layout, version=version)
            context = spans[count - 1].context_digest
            answer = lookup(files, identity=identity, context_digest=context, depth=Depth.METADATA)
            assert answer.outcome is outcome
        assert "at most 2 stacked deltas" in (answer.detail or "")

    def test_no_delta_is_the_base_of_a_v3(
        self, bench: Callable[[str], Bench], entries: dict[str, StoreVector]
    ) -> None:
        case = bench("page-delta-v3-1024")
        inner = json.loads(
            entries["page-delta-v2-768"].in_memory().memory[entries["page-delta-v2-768"].document]
        )
        self.embed(case, inner, kind=FormatError)
        self.embed(case, case.document(), kind=FormatError)

    @pytest.mark.parametrize(
        "change", [{"layout_sha256": OTHER}, {"result_block_counts": [13, 2, 1]}, {"committed_tokens": 512}]
    )
    def test_a_nested_delta_must_fit(self, bench: Callable[[str], Bench], change: Document) -> None:
        case = bench("page-delta-v2-1024")
        self.embed(case, signed(case.document()["base_root"] | change), kind=FormatError)

    @staticmethod
    def embed(case: Bench, base: Document, *, kind: type[StoreError]) -> None:
        changes = {"base_root": base, "base_root_sha256": sha256(encode_canonical(base))}
        answer = case.ask(case.document() | changes)
        assert type(answer.problem) is kind, answer.detail


class TestStages:
    NAME = "page-delta-v3-1024"

    @pytest.mark.parametrize("at", [0, 1])
    @pytest.mark.parametrize(
        "change",
        [
            {"note": 1},
            {"context_digest": OTHER},
            {"context_digest": "x"},
            {"base_context_digest": OTHER},
            {"delta_sha256": "x"},
            {"committed_tokens": 1280},
            {"base_committed_tokens": 256},
            {"base_block_counts": [7, 2, 1]},
            {"result_block_counts": [17, 2, 1]},
            {"delta_object_bytes": MAX_OBJECT_BYTES - 1},
            {"delta_object_bytes": MAX_OBJECT_BYTES + 1},
            {"delta_encoded_bytes": 1},
            {"delta_objects": []},
        ],
    )
    def test_a_stage_out_of_place(self, bench: Callable[[str], Bench], at: int, change: Document) -> None:
        case = bench(self.NAME)
        stages = case.document()["delta_stages"]
        stages[at] |= change
        case.refuse(FormatError, "delta_stages", delta_stages=stages)

    def test_stages_in_another_order(self, bench: Callable[[str], Bench]) -> None:
        case = bench(self.NAME)
        case.refuse(FormatError, "delta_stages", delta_stages=list(reversed(case.document()["delta_stages"])))

    def test_more_stages_than_the_limit(self, bench: Callable[[str], Bench]) -> None:
        case = bench(self.NAME)
        stages = case.document()["delta_stages"][:1] * 4_097
        case.refuse(FormatError, "at most 4096 elements", delta_stages=stages)
