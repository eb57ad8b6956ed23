"""Activation receipts of our own schema, and whatever else may stand in a receipt (profile-contract §14,
§18.7).
"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.canonical_json import encode_canonical
from app.core.profiles.activation import activation_object, judge_activation
from app.core.profiles.activation_terms import RuleSet
from app.core.profiles.findings import CheckResult, finding_object
from tests.core.profile_rig import DROP, activation, dump, put
from tests.core.test_profiles_activation import MADE, Json, first, warned

UPSTREAM = RuleSet.UPSTREAM


def evidenced(profile: str = "tp4-dcp4-sparkcache") -> Json:
    made = activation(profile, own=True)
    entry = {"sha256": "ab" * 32, "at": "2026-09-11T18:29:00Z"}
    made["evidence"] = {f"/ranks/{one['rank']}": [entry | {"rank": one["rank"]}] for one in made["ranks"]}
    blocks = ("serving", "sparkcache", "long_prefill_sample_tokens", "prefix_reuse", "restart_restore")
    made["evidence"] |= {f"/{name}": [entry | {"rank": 0}] for name in blocks if name in made}
    return made


@pytest.mark.parametrize("profile", MADE.profiles)
def test_a_receipt_of_our_own_binds_itself(profile: str) -> None:
    """No pin is needed: every rank names the degrees its engine ran with."""
    judged = judge_activation(dump(evidenced(profile)), contract=MADE)
    assert (first(judged), warned(judged)) == (None, set())
    assert first(judge_activation(dump(evidenced(profile)), contract=MADE, rules=UPSTREAM)) == "ACT_SCHEMA"


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("own", [True, False])
def test_a_receipt_relabelled_to_another_degree_fails(own: bool, pinned: bool) -> None:
    made = (evidenced() if own else activation()) | {"profile": "tp4-dcp1-sparkcache"}
    judged = judge_activation(dump(made), contract=MADE, pinned=pinned)
    assert judged.result is CheckResult.FAIL
    assert first(judged) == ("GUARD_DCP_NAME" if own else "KV_POOL_WINDOW")


def test_a_bound_receipt_outside_the_window_only_warns() -> None:
    raw = dump(put(evidenced(), "/serving/kv_capacity_tokens", 4_321_618))
    judged = judge_activation(raw, contract=MADE)
    assert (first(judged), warned(judged)) == (None, {"KV_POOL_WINDOW"})


OWN: dict[str, tuple[str, Any, str]] = {
    "one rank without a degree": ("/ranks/2/observed_dcp", DROP, "ACT_DCP_UNBOUND"),
    "a degree as a boolean": ("/ranks/2/observed_dcp", True, "GUARD_DCP_NAME"),
    "a degree as a fraction": ("/ranks/2/observed_tp", 4.0, "GUARD_DCP_NAME"),
    "one rank of another degree": ("/ranks/2/observed_tp", 2, "GUARD_DCP_NAME"),
    "no host": ("/ranks/1/host_id", DROP, "ACT_SCHEMA"),
    "an empty container": ("/ranks/1/container_id", "", "ACT_SCHEMA"),
    "two ranks in one container": ("/ranks/1/container_id", "00" * 32, "ACT_RANK_DUP"),
    "two ranks on one host": ("/ranks/1/host_id", "host-0", "ACT_RANK_DUP"),
    "a start without zone": ("/ranks/1/started_at", "2026-09-11T18:20:00", "ACT_SCHEMA"),
    "no evidence at all": ("/evidence", DROP, "ACT_SCHEMA"),
    "evidence as a list": ("/evidence", [], "ACT_SCHEMA"),
    "evidence of nothing": ("/evidence/~1serving", [], "ACT_SCHEMA"),
    "activity as a word": ("/host_activity", "none", "ACT_SCHEMA"),
    "activity of no rank": ("/host_activity/0/rank", 9, "ACT_SCHEMA"),
    "activity without an end": ("/host_activity/0/to", None, "ACT_SCHEMA"),
    "a domain twice": (
        "/ranks/0/nccl_host_domains",
        ["primary", "secondary", "primary"],
        "ACT_RANK_DOMAINS",
    ),
    "tokens as a fraction": ("/long_prefill_sample_tokens/prompt_tokens", 37032.0, "ACT_LONG_PREFILL"),
    "rows of a step that is not full": ("/ranks/0/mhc_owner_rows", [2048, 1066], "ROWS_SPLIT"),
}


@pytest.mark.parametrize("name", OWN)
def test_what_a_receipt_of_our_own_must_hold(name: str) -> None:
    pointer, value, code = OWN[name]
    if pointer == "/evidence/~1serving":
        made = evidenced()
        made["evidence"]["/serving"] = value
    else:
        made = put(evidenced(), pointer, value)
    assert first(judge_activation(dump(made), contract=MADE)) == code


@pytest.mark.parametrize(
    ("key", "entries"),
    [
        ("/nowhere", [{"sha256": "ab" * 32, "rank": 0, "at": "2026-09-11T18:29:00Z"}]),
        ("/ranks/*", [{"sha256": "ab" * 32, "rank": 0, "at": "2026-09-11T18:29:00Z"}]),
        ("serving", [{"sha256": "ab" * 32, "rank": 0, "at": "2026-09-11T18:29:00Z"}]),
        ("/serving", [{"sha256": "AB" * 32, "rank": 0, "at": "2026-09-11T18:29:00Z"}]),
        ("/serving", [{"sha256": "ab" * 32, "rank": 7, "at": "2026-09-11T18:29:00Z"}]),
        ("/serving", [{"sha256": "ab" * 32, "rank": 0, "at": "yesterday"}]),
        ("/serving", [{"sha256": "ab" * 32, "rank": True, "at": "2026-09-11T18:29:00Z"}]),
        ("/serving", ["ab" * 32]),
        ("/serving", {}),
    ],
)
def test_evidence_that_is_none(key: str, entries: Any) -> None:
    made = evidenced()
    made["evidence"][key] = entries
    judged = judge_activation(dump(made), contract=MADE)
    assert first(judged) == "ACT_SCHEMA"
    assert judged.first is not None
    assert judged.first.pointer.startswith("/evidence/")


def test_fields_without_evidence_are_named() -> None:
    made = evidenced()
    del made["evidence"]["/serving"]
    # Evidence of another rank is none for this one.
    made["evidence"]["/ranks/1"][0]["rank"] = 2
    judged = judge_activation(dump(made), contract=MADE)
    assert (first(judged), warned(judged)) == (None, {"ACT_NO_EVIDENCE"})
    lacking = {one.pointer for one in judged.warnings}
    assert "/serving/kv_capacity_tokens" in lacking
    assert "/ranks/1/mhc_owner_rows" in lacking
    assert not any(one.startswith("/ranks/0") for one in lacking)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from([0, 1, 2048, "primary", "2.31.2"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from([*activation()["ranks"][0], "enabled", "/serving"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)
PLACES = [
    *(f"/{name}" for name in evidenced()),
    *(f"/ranks/1/{name}" for name in evidenced()["ranks"][1]),
    *(f"/serving/{name}" for name in activation()["serving"]),
    *(f"/sparkcache/{name}" for name in activation()["sparkcache"]),
    *(f"/long_prefill_sample_tokens/{name}" for name in activation()["long_prefill_sample_tokens"]),
    *(f"/image/{name}" for name in activation()["image"]),
    "/image/sources/vllm_status_lines",
    "/image/runtime_capabilities/document",
    "/restart_restore/planned_restart_ms_per_rank",
]


@given(
    own=st.booleans(),
    profile=st.sampled_from(list(MADE.profiles)),
    changes=st.dictionaries(st.sampled_from(PLACES), JSON, min_size=1, max_size=3),
    rules=st.sampled_from(RuleSet),
)
def test_any_value_anywhere_is_judged(own: bool, profile: str, changes: Json, rules: RuleSet) -> None:
    made = activation(profile, own=own)
    for pointer, value in changes.items():
        try:
            made = put(made, pointer, value)
        except (KeyError, IndexError, TypeError, ValueError):
            continue
    judged = judge_activation(json.dumps(made).encode(), contract=MADE, rules=rules)
    encode_canonical(activation_object(judged))
    assert all(one.pointer == "" or one.pointer.startswith("/") for one in judged.findings)


@given(raw=st.binary(max_size=100) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_judged(raw: bytes) -> None:
    for rules in RuleSet:
        judged = judge_activation(raw, contract=MADE, rules=rules)
        assert judged.first is not None


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "DOC_JSON_INVALID"),
        (b'{"a":1,"a":1}', "DOC_JSON_INVALID"),
        (b"<<<<<<< ours\n{}\n", "DOC_JSON_INVALID"),
        (b"[" * 100 + b"]" * 100, "DOC_TOO_LARGE"),
        (b" " * (16 * 1024 * 1024 + 1), "DOC_TOO_LARGE"),
        (b"[]", "DOC_SCHEMA_UNKNOWN"),
    ],
)
def test_bytes_that_are_no_receipt(raw: bytes, code: str) -> None:
    judged = judge_activation(raw, contract=MADE)
    assert first(judged) == code
    assert [one.code for one in judged.findings] == [code]
    assert finding_object(judged.findings[0])["result"] == "fail"
