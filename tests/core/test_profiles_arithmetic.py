"""Namespaces and their collisions, rows, pool window and buffers: the numbers of profile-contract §7, §8."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import FormatError
from app.core.profiles.budget import (
    budget_object,
    buffer_finding,
    buffer_plan,
    buffer_plan_object,
    memory_finding,
    pool_finding,
    rows_finding,
    split_rows,
)
from app.core.profiles.documents import ProfileDocumentError
from app.core.profiles.findings import CheckResult
from app.core.profiles.namespace import (
    Deployment,
    collisions,
    deployment_object,
    derive_namespace,
    isolated_finding,
    ranks_finding,
    read_deployments,
)
from app.core.qualify.activation_bounds import RECEIPTED_POOL, pool_window
from tests.core import profile_folder as made

IMAGE = "sha256:3c7779ad71dd0d5d6fae4c98e04b94c377429306158c2259fc44635892b8b8e4"
PASS, FAIL, UNTESTED = CheckResult.PASS, CheckResult.FAIL, CheckResult.NOT_TESTED


def test_the_namespace_of_the_qualified_set() -> None:
    derived = derive_namespace(IMAGE, "tp4-dcp4-sparkcache")
    assert derived == "sparkring-r33-3c7779ad71dd-tp4-dcp4-sparkcache"


@pytest.mark.parametrize(
    ("image", "profile"),
    [(IMAGE[7:], "a"), (IMAGE + "0", "a"), (IMAGE.upper(), "a"), ("", "a"), (IMAGE, ""), (IMAGE, "../a")],
)
def test_what_is_no_image_id_or_name_has_no_namespace(image: str, profile: str) -> None:
    with pytest.raises(FormatError):
        derive_namespace(image, profile)


def deployment(**changes: Any) -> Deployment:
    members: dict[str, Any] = {
        "name": "one",
        "host": "spark-r0",
        "namespace": "n",
        "image_id": IMAGE,
        "tensor_parallel_size": 4,
        "decode_context_parallel_size": 4,
        "model_revision": "ab" * 20,
    }
    return Deployment(**(members | changes))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("image_id", "sha256:" + "00" * 32),
        ("tensor_parallel_size", 2),
        ("decode_context_parallel_size", 1),
        ("model_revision", "cd" * 20),
    ],
)
def test_one_namespace_and_other_settings_collide(name: str, value: Any) -> None:
    (found,) = collisions([deployment(), deployment(name="two", **{name: value})])
    assert (found.code, found.result) == ("NS_DCP_COLLISION", FAIL)
    assert str(value) in found.found
    assert "two" in found.found


@pytest.mark.parametrize(("name", "one", "two"), [("kv_dtype", "fp8", "bf16"), ("block_size", 256, 512)])
def test_what_an_operator_said_is_compared(name: str, one: Any, two: Any) -> None:
    def result(left: Any, right: Any) -> CheckResult:
        pair = [deployment(**{name: left}), deployment(name="two", **{name: right})]
        return collisions(pair)[0].result

    assert result(one, two) is FAIL
    assert result(one, one) is PASS
    assert result(one, None) is CheckResult.INDETERMINATE
    assert result(None, None) is PASS


def test_other_hosts_and_namespaces_do_not_collide() -> None:
    found = collisions(
        [
            deployment(),
            deployment(host="spark-r1", decode_context_parallel_size=1),
            deployment(namespace="m", decode_context_parallel_size=1),
            deployment(namespace="", decode_context_parallel_size=1),
        ]
    )
    assert [one.result for one in found] == [PASS, PASS, PASS]


def test_deployments_are_read_with_their_places() -> None:
    told = deployment_object(deployment(kv_dtype="fp8", block_size=256))
    flat = {**told, **dict(told.pop("operator_supplied"))}  # type: ignore[arg-type]
    assert read_deployments({"deployments": [flat]}) == (
        deployment(kv_dtype="fp8", block_size=256, pointer="/deployments/0"),
    )


@pytest.mark.parametrize(
    "value", [None, {}, {"deployments": 1}, {"deployments": []}, {"deployments": [{"name": "a"}]}]
)
def test_deployments_of_another_shape_are_refused(value: Any) -> None:
    with pytest.raises(ProfileDocumentError) as caught:
        read_deployments(value)
    assert caught.value.code == "DOC_FIELD"


def test_ranks_share_one_namespace() -> None:
    assert ranks_finding({0: "a", 1: "a"}).result is PASS
    assert ranks_finding({0: None, 1: None}).result is PASS
    assert ranks_finding({0: "a", 1: None}).result is FAIL
    assert ranks_finding({0: "a"}).result is UNTESTED


def test_a_diagnostic_namespace_is_another() -> None:
    assert isolated_finding(derived="a", diagnostic="b").result is PASS
    assert isolated_finding(derived="a", diagnostic="a").result is FAIL
    assert isolated_finding(derived="a", diagnostic=None).result is CheckResult.NOT_APPLICABLE


@pytest.mark.parametrize(("rows", "tp", "owner"), [(8192, 4, 2048), (4096, 2, 2048), (8192, 2, 4096)])
def test_rows_are_split_over_tp(rows: int, tp: int, owner: int) -> None:
    assert split_rows(rows, tensor_parallel_size=tp) == owner
    assert owner * tp == rows


@pytest.mark.parametrize("profile", ["tp4-dcp1", "tp4-dcp4"])
def test_dcp_does_not_split_rows_again(profile: str) -> None:
    entry = made.contract().profiles[profile]
    told = budget_object(entry, step_rows=(8192,))
    assert told["rows"] == [{"rows": 8192, "owner_rows_per_rank": 2048}]
    assert told["kv_cache_bytes_all_ranks"] == 103_079_215_104


@pytest.mark.parametrize(("rows", "tp"), [(8191, 4), (0, 4), (-4, 4), (8, 0)])
def test_rows_that_cannot_be_split_are_refused(rows: int, tp: int) -> None:
    with pytest.raises(FormatError):
        split_rows(rows, tensor_parallel_size=tp)


@pytest.mark.parametrize(
    ("owner_rows", "result"),
    [
        ([2048], PASS),
        ([512, 2048], FAIL),
        ([2048, 2048], FAIL),
        ([512], FAIL),
        ([8192], FAIL),
        ([], FAIL),
        (2048, FAIL),
        ([Decimal("2048.0")], FAIL),
        ([True], FAIL),
        (None, FAIL),
    ],
)
def test_owner_rows_are_exactly_the_split(owner_rows: Any, result: CheckResult) -> None:
    assert rows_finding(owner_rows, rows=8192, tensor_parallel_size=4).result is result


def pool(tokens: int, *, dcp: int = 4, **more: Any) -> CheckResult:
    return pool_finding(tokens, tensor_parallel_size=4, decode_context_parallel_size=dcp, **more).result


def test_the_pool_is_within_ten_percent_of_the_receipted_one() -> None:
    assert pool_window(8_364_901) == (7_528_411, 9_201_391)
    assert [pool(one) for one in (7_528_410, 7_528_411, 9_201_391, 9_201_392)] == [FAIL, PASS, PASS, FAIL]
    assert pool(4_321_618) is FAIL


def test_no_window_without_a_receipt() -> None:
    assert (4, 1) not in RECEIPTED_POOL
    assert pool(2_280_000, dcp=1) is UNTESTED
    assert pool(8_364_901, dcp=1, receipted={(4, 1): 2_280_000}) is FAIL


def test_a_pool_outside_warns_or_blocks() -> None:
    degrees = {"tensor_parallel_size": 4, "decode_context_parallel_size": 4}
    assert not pool_finding(1, **degrees).blocks
    assert pool_finding(1, blocks=True, **degrees).blocks


@given(st.integers(1, 10**12))
def test_the_window_is_the_exact_ten_percent(receipted: int) -> None:
    least, most = pool_window(receipted)
    assert least * 10 >= receipted * 9 > (least - 1) * 10
    assert most * 10 <= receipted * 11 < (most + 1) * 10


def test_the_buffer_plan_of_the_published_values() -> None:
    values = made.rank_values("tp4-dcp4-sparkcache")
    entry = made.contract().profiles["tp4-dcp4-sparkcache"]
    told = buffer_plan_object(buffer_plan(values, entry))
    assert told["restore_payload_bytes_per_rank"] == 268_435_456
    assert told["capture_payload_bytes_per_rank"] == 1_073_741_824
    assert told["sparkcache_payload_bytes_per_rank"] == 1_342_177_280
    assert told["kv_and_payload_bytes_per_rank"] == 27_111_981_056
    assert told["kv_and_payload_bytes_all_ranks"] == 108_447_924_224
    assert told["within_buffer_budget"] is True


@pytest.mark.parametrize(
    ("changes", "payload"),
    [
        ({"SPARKCACHE_ACCESS_MODE": "write-only"}, 1_073_741_824),
        ({"SPARKCACHE_ASYNC_PAGE_CAPTURE": "0"}, 268_435_456),
        ({"SPARKCACHE_LOAD_THREADS": "50"}, 8 * 2 * 67_108_864 + 1_073_741_824),
    ],
)
def test_lanes_and_slots_count_only_where_they_are_used(changes: dict[str, str], payload: int) -> None:
    values = made.rank_values("tp4-dcp4-sparkcache") | changes
    entry = made.contract().profiles["tp4-dcp4-sparkcache"]
    assert buffer_plan(values, entry).payload_bytes_per_rank == payload


@pytest.mark.parametrize(
    ("budget", "result"),
    [("1342177280", PASS), ("1342177279", FAIL), ("0", PASS), ("", CheckResult.INDETERMINATE)],
)
def test_a_budget_is_met_exactly_or_not_at_all(budget: str, result: CheckResult) -> None:
    values = made.rank_values("tp4-dcp4-sparkcache") | {"SPARKCACHE_BUFFER_BUDGET_BYTES": budget}
    entry = made.contract().profiles["tp4-dcp4-sparkcache"]
    assert buffer_finding(values, entry).result is result


def test_without_a_cache_there_is_no_buffer() -> None:
    entry = made.contract().profiles["tp4-dcp4"]
    assert buffer_finding({}, entry).result is CheckResult.NOT_APPLICABLE
    assert buffer_plan({}, entry).payload_bytes_per_rank == 0


@pytest.mark.parametrize(
    ("free", "floor", "result"),
    [(None, 1, UNTESTED), (99, 100, FAIL), (100, 100, PASS)],
)
def test_the_memory_gate(free: int | None, floor: int, result: CheckResult) -> None:
    assert memory_finding(free, floor_bytes=floor).result is result


def test_the_receipted_pool_is_never_computed() -> None:
    told = budget_object(made.contract().profiles["tp4-dcp1"], step_rows=())
    assert told["receipted_pool_tokens"] is None
