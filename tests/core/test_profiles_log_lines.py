"""What a line of a log and a record of a request say, whatever stands in them (profile-contract §11.3)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.profiles.collect_inspection import read_inspection, read_pci
from app.core.profiles.collect_requests import read_requests, request_facts
from app.core.profiles.collect_sources import RankLog
from app.core.profiles.documents import ProfileDocumentError
from app.core.profiles.log_lines import MAX_LINE_BYTES, line_facts, line_rank, line_time
from tests.core.profile_rig import dump, put
from tests.core.profile_runs import NOW, inspection, request, requests

Json = dict[str, Any]


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        ("a (tensor_parallel_size=4, b)", {"tensor_parallel_size": 4}),
        ("decode_context_parallel_size=4", {"decode_context_parallel_size": 4}),
        ("{'max_seq_len': 1048576}", {"max_model_len": 1_048_576}),
        ('"kv_capacity_tokens": 8,364,901', {"kv_capacity_tokens": 8_364_901}),
        ("GPU KV cache size: 8,364,901 tokens", {"kv_capacity_tokens": 8_364_901}),
        ("rows=8192 owner_rows=2048", {"mhc": (8192, 2048)}),
        ("rows=8192", {}),
        ("cudagraph_capture_sizes=[4, 8,12]", {"cudagraph_capture_sizes": (4, 8, 12)}),
        ("cudagraph_capture_sizes=[4, x]", {}),
        ("nccl_version=2.31.2,", {"nccl_version": "2.31.2"}),
        ("TENSOR_PARALLEL_SIZE=4 my_tensor_parallel_size=4 x.rows=1", {}),
        ("tensor_parallel_size=four", {}),
        ("tensor_parallel_size=-4", {}),
        ("tensor_parallel_size=4.0", {}),
        ("payload_correctness_passed=True", {"payload_correctness_passed": True}),
        ("GPU KV cache size: 8,36 tokens", {}),
        ("tensor_parallel_size=2 tensor_parallel_size=4", {"tensor_parallel_size": 2}),
    ],
)  # fmt: skip
def test_what_a_line_says(line: str, facts: Json) -> None:
    assert {one.name: one.value for one in line_facts(line)} == facts


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("rank=3 x", 3),
        ("(Worker_TP2_EP2 pid=1) x", 2),
        ("global rank 1", 1),
        ("local rank 1", None),
        ("local_rank=1", None),
        ("TP4/DCP1", None),
    ],
)
def test_which_rank_a_line_names(line: str, rank: int | None) -> None:
    assert line_rank(line) == rank


def test_when_a_line_was_written() -> None:
    assert line_time("2026-09-11T18:00:00.123456789Z x") == "2026-09-11T18:00:00.123456789Z"
    assert line_time("2026-09-11 18:00:00+02:00 x") == "2026-09-11T18:00:00+02:00"
    assert line_time("INFO 09-11 18:00:00 x") is None


@given(line=st.text(max_size=200) | st.from_regex(r"(rows|hca|rank|tensor_parallel_size)[=:] ?.{0,20}"))
def test_any_line_is_read(line: str) -> None:
    assert all(one.name for one in line_facts(line))
    assert line_rank(line) is None or line_rank(line) >= 0  # type: ignore[operator]


def test_a_hostile_line_costs_linear_time() -> None:
    for text in ("RouteFinal " * 6_000, "sample_tokens " * 4_000, "'rows' : [" * 6_000, "Worker_TP" * 7_000):
        assert list(line_facts(text[:MAX_LINE_BYTES])) == []


def test_lines_that_are_too_long_are_counted_and_not_read() -> None:
    read = RankLog(0, collected_at=NOW)
    part = b"tensor_parallel_size=4 ".ljust(MAX_LINE_BYTES, b"x")
    read.read(
        [
            part,
            b"y" * 10 + b" tensor_parallel_size=2\n",
            b"nccl_version=2.31.2\n",
            b"rows=8192 owner_rows=2048",
        ],
        file="a.log",
    )
    assert read.too_long == 1
    assert set(read.series) == {"nccl_version", "mhc"}
    assert read.series["nccl_version"].first.proof.line == 2
    assert read.series["mhc"].first.proof.line == 3
    (source,) = read.sources
    assert source.byte_count == MAX_LINE_BYTES + 10 + 24 + 20 + 25


def test_what_is_kept_of_a_long_log_is_bounded() -> None:
    read = RankLog(0, collected_at=NOW)
    read.read((b"Drafted x SpecDecoding metrics: Drafted: 2 tokens\n" for _ in range(5_000)), file="a.log")
    series = read.series["drafted"]
    assert (series.count, series.total, len(series.kept)) == (5_000, 10_000, 64)


# -- requests -----------------------------------------------------------------------------------------------


def facts_of(*records: Json) -> Any:
    return request_facts(read_requests("\n".join(json.dumps(one) for one in records).encode(), file="r"))


def test_what_requests_show() -> None:
    facts = facts_of(*requests())
    assert (facts.prefill_decode_passed, facts.correctness_passed) == (True, True)
    assert (len(facts.long), facts.timeouts, facts.fatal_errors) == (2, 0, 0)
    wrong = facts_of(request(0), request(1, response_sha256="cd" * 32))
    assert wrong.correctness_passed is False
    nothing = facts_of()
    assert (nothing.prefill_decode_passed, nothing.correctness_passed, nothing.reused) == (None, None, None)
    lost = facts_of(
        request(0, error="timeout", response_sha256=None, completion_tokens=0), request(1, error="fatal")
    )
    assert (lost.prefill_decode_passed, lost.timeouts, lost.fatal_errors) == (False, 1, 1)
    # A prompt whose beginning was cached is no cold prefill.
    assert facts_of(request(0, cached_tokens=512)).long == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rank", True),
        ("at", "now"),
        ("prompt_tokens", 1.5),
        ("response_sha256", "x"),
        ("error", 1),
        ("more", 1),
    ],
)
def test_records_that_are_none_are_refused_with_their_line(name: str, value: Any) -> None:
    with pytest.raises(ProfileDocumentError) as refused:
        facts_of(request(0), put(request(1), f"/{name}", value))
    assert refused.value.pointer == f"/line/2/{name}"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*inspection(0), "StartedAt", "Hostname", "Env"]), inner, max_size=5
        )
    ),
    max_leaves=10,
)


@given(
    raw=st.binary(max_size=60)
    | JSON.map(lambda value: json.dumps(value).encode())
    | st.dictionaries(st.sampled_from(list(inspection(0))), JSON, max_size=3).map(
        lambda changes: json.dumps([inspection(0) | changes]).encode()
    )
)
def test_any_inspection_and_any_addresses(raw: bytes) -> None:
    for read in (read_inspection, read_pci):
        try:
            read(raw, file="f", rank=0, collected_at=NOW)
        except ProfileDocumentError as error:
            assert error.code  # noqa: PT017  # most bytes are refused, some are read


def test_an_inspection_of_many_variables_is_read() -> None:
    made = inspection(0)
    made["Config"]["Env"] += [f"K{number}={'x' * 400}" for number in range(12_000)]
    read, environment = read_inspection(dump(made), file="f", rank=0, collected_at=NOW)
    assert read.container_id == "00" * 32
    assert len(environment) > 12_000


@given(raw=st.binary(max_size=100))
def test_any_bytes_of_requests(raw: bytes) -> None:
    assert refused_or_read(raw)


def refused_or_read(raw: bytes) -> bool:
    try:
        read_requests(raw, file="r")
    except ProfileDocumentError as error:
        return error.pointer.startswith("/line/")
    return True
