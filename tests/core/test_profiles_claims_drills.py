"""Claims told as findings, and the bar of a drill (profile-contract §12, §13, §18.8, §18.9)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.canonical_json import encode_canonical
from app.core.profiles.claim import (
    NOT_CLAIMED,
    claim_findings,
    claim_object,
    claims_about,
    overreaching,
    read_claim,
    takes_out,
)
from app.core.profiles.documents import ProfileDocumentError
from app.core.profiles.drill import drill_object, parse_drill
from app.core.profiles.drill_bar import drill_findings
from app.core.profiles.findings import CheckResult, blocking, overall
from tests.core.profile_rig import DROP, put
from tests.core.test_claims import claim, raw_of

Json = dict[str, Any]


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("asserted", None),
        ("evidenced", None),
        ("amended", "CLM_AMENDED"),
        ("affected", "CLM_AFFECTED"),
        ("withdrawn", "CLM_WITHDRAWN"),
        ("superseded", "CLM_SUPERSEDED"),
    ],
)
def test_states_are_told_as_warnings(state: str, code: str | None) -> None:
    read = read_claim(raw_of(claim(state)))
    found = claim_findings([read])
    assert blocking(found) == ()
    warned = [one for one in found if one.result is CheckResult.FAIL]
    assert [one.code for one in warned] == ([code] if code else [])
    assert [one.document_sha256 for one in warned] == ([read.subject_sha256] if code else [])
    assert takes_out([read]) is (state in ("withdrawn", "superseded"))
    encode_canonical(claim_object(read))


def test_only_the_newest_claim_about_a_place_is_told() -> None:
    every = [
        read_claim(raw_of(claim("withdrawn"))),
        read_claim(raw_of(claim("evidenced", at="2026-09-13T00:00:00Z"))),
        read_claim(raw_of(claim("amended", pointer="/serving"))),
        read_claim(raw_of(claim("withdrawn", subject_sha256="cd" * 32))),
    ]
    about = claims_about(every, subject_sha256="ab" * 32)
    assert {(one.pointer, one.state.value) for one in about} == {("", "evidenced"), ("/serving", "amended")}


@pytest.mark.parametrize(
    ("reason", "pointer", "states"),
    [
        ("a completed one-million-token request", "", "a completed request of a million tokens"),
        ("1,048,576-token requests complete", "", "a completed request of a million tokens"),
        ("", "/capabilities/multimodal_correctness", "multimodal correctness"),
        ("works on a switched fabric", "", "a switched fabric"),
        ("holds for other models", "", "other models"),
        ("survived a soak of 24 h", "", "sustained memory behaviour or soak"),
        ("cold-start latency is 4 min", "", "latency of three coordinated cold starts"),
        ("", "/throughput/decode_c4", "reproducible throughput or speed-up"),
        ("speed-up of 3.16", "", "reproducible throughput or speed-up"),
        ("tp4-dcp4 is qualified on its own", "", "that tp4-dcp4 is qualified on its own"),
        ("the contract bytes are in the image", "", "that the contract's bytes are in the image"),
        ("token-for-token equality", "", "raw output equivalence"),
        ("tp4-dcp4-sparkcache restored 6,144 tokens on every rank", "/sparkcache", ""),
        ("every rank restored from disk", "/restart_restore", ""),
    ],
)
def test_what_nobody_showed_may_not_be_claimed(reason: str, pointer: str, states: str) -> None:
    for state in ("asserted", "evidenced"):
        read = read_claim(raw_of(claim(state, reason=reason or "so it is", pointer=pointer)))
        assert overreaching(read) == states
        codes = [one.code for one in blocking(claim_findings([read]))]
        assert codes == (["CLM_OVERREACH"] if states else [])
    taken = read_claim(raw_of(claim("withdrawn", reason=reason or "so it is", pointer=pointer)))
    assert overreaching(taken) == ""


def test_every_boundary_of_the_record_is_known() -> None:
    assert len(NOT_CLAIMED) == 10


def test_a_claim_that_is_none_names_code_and_place() -> None:
    with pytest.raises(ProfileDocumentError) as refused:
        read_claim(raw_of(claim("revoked")))
    assert (refused.value.code, refused.value.pointer) == ("DOC_FIELD", "/state")
    with pytest.raises(ProfileDocumentError) as refused:
        read_claim(b'{"schema":"sparkgate-drill/v1"}')
    assert refused.value.code == "DOC_SCHEMA_UNKNOWN"


# -- drills -------------------------------------------------------------------------------------------------


def drill(kind: str = "restart") -> Json:
    """Upstream's own 8K case: 6,144 tokens offered, and restored on every rank."""
    times = (50_600_000, 52_900_000, 54_800_000, 52_400_000)
    return {
        "schema": "sparkgate-drill/v1",
        "kind": kind,
        "node_ids": [f"node-{rank}" for rank in range(4)],
        "snapshot": {"context_digest": "ab" * 32, "offered_tokens": 6144},
        "before": [
            {
                "rank": rank,
                "generation": f"container-{rank}-a",
                "restore_ns": 0,
                "tokens": 6144,
                "source": None,
                "cache_state": "committed",
            }
            for rank in range(4)
        ],
        "after": [
            {
                "rank": rank,
                "generation": f"container-{rank}-b",
                "restore_ns": times[rank],
                "tokens": 6144,
                "source": "disk",
                "cache_state": "cold",
            }
            for rank in range(4)
        ],
        "exit_status": [137] * 4 if kind == "sigkill" else [0] * 4,
        "answers": [{"expected": "OK:77", "observed": "OK:77"}],
        "prefix_cases": [
            {
                "name": f"suffix {suffix}",
                "offered_tokens": 32_256,
                "found_tokens": 28_672,
                "restored_tokens": 28_672,
                "answer": {"expected": "OK", "observed": "OK"},
            }
            for suffix in (515, 513, 531, 1027, 512, 2048)
        ],
    }


def judged(document: Json) -> list[tuple[str, str]]:
    findings = drill_findings(parse_drill(json.dumps(document).encode()))
    return [(one.code, one.pointer) for one in findings if one.result is CheckResult.FAIL]


@pytest.mark.parametrize("kind", ["restart", "sigkill"])
def test_a_drill_that_passes(kind: str) -> None:
    read = parse_drill(json.dumps(drill(kind)).encode())
    findings = drill_findings(read)
    assert overall(findings) is CheckResult.PASS
    assert judged(drill(kind)) == []
    assert encode_canonical(drill_object(read))
    statuses = [one.result.value for one in findings if one.code == "RST_EXIT_STATUS"]
    assert statuses == (["pass"] if kind == "sigkill" else ["not_applicable"])


BAR: dict[str, tuple[str, Any, list[tuple[str, str]]]] = {
    "one rank lost": ("/after/3", DROP, [("RST_RANK_MISSING", "/after")]),
    "one rank twice": ("/after/3/rank", 2, [("RST_RANK_MISSING", "/after")]),
    "fewer ranks than nodes": (
        "/node_ids/3",
        DROP,
        [("RST_RANK_MISSING", "/before"), ("RST_RANK_MISSING", "/after")],
    ),
    "fewer tokens on one rank": (
        "/after/1/tokens",
        4096,
        [("RST_TOKENS_DIFFER", "/after/1/tokens"), ("RST_TOKENS_DIFFER", "/after")],
    ),
    "more offered than the ranks had": (
        "/snapshot/offered_tokens",
        8192,
        [("RST_TOKENS_DIFFER", f"/after/{rank}/tokens") for rank in range(4)],
    ),
    "from the engine": ("/after/2/source", "in_engine", [("RST_SOURCE_GPU", "/after/2/source")]),
    "from the GPU": ("/after/2/source", "gpu_snapshot", [("RST_SOURCE_GPU", "/after/2/source")]),
    "the same one": ("/after/0/generation", "container-0-a", [("RST_RECREATED", "/after/0/generation")]),
    "another answer": ("/answers/0/observed", "OK:78", [("RST_ANSWER", "/answers/0")]),
    "almost the answer": ("/answers/0/observed", "OK:77 ", [("RST_ANSWER", "/answers/0")]),
    "no answer at all": ("/answers", [], [("RST_ANSWER", "/answers")]),
    "an empty answer": ("/answers/0/observed", "", [("RST_ANSWER", "/answers/0")]),
    "no hit": (
        "/prefix_cases/3/found_tokens",
        0,
        [("PFX_ZERO_HIT", "/prefix_cases/3"), ("RST_TOKENS_DIFFER", "/prefix_cases/3/restored_tokens")],
    ),
    "found and not restored": (
        "/prefix_cases/3/restored_tokens",
        0,
        [("PFX_ZERO_HIT", "/prefix_cases/3"), ("RST_TOKENS_DIFFER", "/prefix_cases/3/restored_tokens")],
    ),
    "the engine's own zero": ("/prefix_cases/3/cached_tokens", 0, [("PFX_ZERO_HIT", "/prefix_cases/3")]),
    "a case answered wrong": (
        "/prefix_cases/0/answer/observed",
        "NO",
        [("RST_ANSWER", "/prefix_cases/0/answer")],
    ),
}


@pytest.mark.parametrize("name", BAR)
def test_the_bar_of_a_restart(name: str) -> None:
    pointer, value, told = BAR[name]
    document = put(drill(), pointer, value)
    assert judged(document) == told
    assert blocking(drill_findings(parse_drill(json.dumps(document).encode())))


def test_nothing_restored_anywhere_is_no_restore() -> None:
    document = drill() | {"snapshot": "a name"}
    for name in ("before", "after"):
        for rank in range(4):
            document = put(document, f"/{name}/{rank}/tokens", 0)
    assert ("RST_TOKENS_DIFFER", "/after") in judged(document)


@pytest.mark.parametrize("statuses", [[137, 137, 137], [137, 137, 137, 0], [137, 137, 137, None], []])
def test_a_kill_leaves_its_status_and_missing_it_warns(statuses: list[int | None]) -> None:
    findings = drill_findings(parse_drill(json.dumps(drill("sigkill") | {"exit_status": statuses}).encode()))
    failed = [one for one in findings if one.result is CheckResult.FAIL]
    assert [(one.code, one.severity.value) for one in failed] == [("RST_EXIT_STATUS", "W")]
    assert overall(findings) is CheckResult.PASS


def test_prefix_cases_alone() -> None:
    document = drill("prefix") | {"before": [], "after": [], "exit_status": [], "answers": []}
    assert judged(document) == []
    assert judged(document | {"prefix_cases": []}) == [("PFX_ZERO_HIT", "/prefix_cases")]


def test_a_case_that_nobody_answered_leaves_its_answer_open() -> None:
    document = put(drill("prefix"), "/prefix_cases/2/answer", DROP) | {"answers": []}
    findings = drill_findings(parse_drill(json.dumps(document).encode()))
    left = [one.pointer for one in findings if (one.code, one.result.value) == ("RST_ANSWER", "not_tested")]
    assert left == ["/prefix_cases/2"]


def test_generations_and_nodes_may_be_numbers() -> None:
    document = put(drill(), "/after/0/generation", 2) | {"node_ids": [0, 1, 2, 3]}
    assert judged(document) == []
    assert parse_drill(json.dumps(document).encode()).node_ids == ("0", "1", "2", "3")


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/kind", "walk"),
        ("/node_ids", []),
        ("/node_ids", ["a", "a", "b", "c"]),
        ("/snapshot", 1),
        ("/snapshot/offered_tokens", 0),
        ("/after/0/rank", True),
        ("/after/0/tokens", 6144.0),
        ("/after/0/tokens", -1),
        ("/after/0/source", None),
        ("/after/0/source", "tape"),
        ("/after/0/more", 1),
        ("/after/0/restore_ns", "50"),
        ("/exit_status", [256]),
        ("/exit_status", [True]),
        ("/exit_status", "none"),
        ("/answers/0/expected", DROP),
        ("/answers/0/observed", 1),
        ("/prefix_cases/0/found_tokens", 40_000),
        ("/prefix_cases/0/name", ""),
        ("/more", 1),
        ("/before", DROP),
    ],
)
def test_what_is_no_drill_is_refused_where_it_is_wrong(pointer: str, value: Any) -> None:
    with pytest.raises(ProfileDocumentError) as refused:
        parse_drill(json.dumps(put(drill(), pointer, value)).encode())
    places = [one.pointer for one in refused.value.findings]
    assert any(one.startswith(pointer) or pointer.startswith(one) for one in places)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*drill()["after"][0], "expected", "observed", "name"]), inner, max_size=4
        )
    ),
    max_leaves=10,
)


@given(changes=st.dictionaries(st.sampled_from([*drill(), "more"]), JSON, max_size=3), tokens=JSON)
def test_any_drill_is_judged_or_refused_with_a_pointer(changes: Json, tokens: Any) -> None:
    document = put(drill(), "/after/0/tokens", tokens) | changes
    outcome = outcome_of(json.dumps(document).encode())
    assert outcome is None or all(one == "" or one.startswith("/") for one in outcome)


def outcome_of(raw: bytes) -> list[str] | None:
    try:
        findings = drill_findings(parse_drill(raw))
    except ProfileDocumentError as error:
        return [one.pointer for one in error.findings]
    assert findings
    return None
