"""Claims about stored documents: read strictly, and what they do to a verdict (profile-contract §18.8)."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import DocumentError
from app.core.qualify.claim import ClaimState, parse_claim, standing_claims
from app.core.qualify.composition import Receipt, compose
from app.core.qualify.document import read_document
from app.core.qualify.extract import document_facts
from app.core.qualify.facts import DocumentFacts
from app.core.qualify.findings import Outcome
from app.core.qualify.keys import receipt_keys, word
from app.core.qualify.neighbours import Stored, surroundings_of
from app.core.qualify.scope import scope_of
from app.core.qualify.values import Found, Missing
from app.core.qualify.verdict import Verdict, by_capability, joined_verdict, judge_document
from tests.core import evidence_documents as made
from tests.core.judging import codes, facts_of
from tests.core.profile_rig import DROP, activation, put

Members = dict[str, Any]


def claim(state: str = "withdrawn", **changes: Any) -> Members:
    return {
        "schema": "sparkgate-claim/v1",
        "subject_sha256": "ab" * 32,
        "pointer": "",
        "state": state,
        "author": "a person",
        "at": "2026-09-12T08:00:00Z",
        "reason": "the log line was misread",
        "replacement_sha256": None,
    } | changes


def raw_of(document: Members) -> bytes:
    return json.dumps(document).encode()


def facts_of_claim(document: Members) -> DocumentFacts:
    return document_facts(read_document(raw_of(document)))


def judge_beside(facts: DocumentFacts, *documents: Members) -> Verdict:
    """The verdict with these documents stored beside it."""
    others = [Stored(facts=facts_of_claim(one)) for one in documents]
    around = surroundings_of(Stored(facts=facts), others)
    group = by_capability(judge_document(facts, around=around))[facts.schema.capability]
    return joined_verdict(group, facts)


@pytest.fixture
def receipt() -> DocumentFacts:
    """A receipt that qualifies."""
    facts = facts_of(made.single_restore())
    assert judge_beside(facts).outcome is Outcome.QUALIFIED
    return facts


def test_a_claim_is_read() -> None:
    read = parse_claim(raw_of(claim("superseded", replacement_sha256="cd" * 32, pointer="/a~1b/0")))
    assert (read.state, read.pointer, read.replacement_sha256) == (
        ClaimState.SUPERSEDED,
        "/a~1b/0",
        "cd" * 32,
    )
    assert read.moment.isoformat() == "2026-09-12T08:00:00+00:00"
    assert [one.value for one in ClaimState if one.takes_out] == ["withdrawn", "superseded"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("schema", "sparkgate-claim/v2"),
        ("subject_sha256", "ab"),
        ("subject_sha256", DROP),
        ("pointer", "a"),
        ("pointer", "/a~2"),
        ("pointer", None),
        ("state", "revoked"),
        ("state", True),
        ("author", " "),
        ("author", DROP),
        ("at", "2026-09-12"),
        ("at", "2026-09-12T08:00:00"),
        ("at", "2026-02-30T08:00:00Z"),
        ("at", "0001-01-01T00:00:00+14:00"),
        ("reason", ""),
        ("reason", "x" * 4001),
        ("replacement_sha256", "none"),
        ("replacement_sha256", DROP),
        ("more", 1),
    ],
)
def test_what_is_no_claim_is_refused_where_it_is_wrong(name: str, value: Any) -> None:
    with pytest.raises(DocumentError) as refused:
        parse_claim(raw_of(put(claim(), f"/{name}", value)))
    assert refused.value.pointer == f"/{name}"


@given(
    changes=st.dictionaries(
        st.sampled_from([*claim(), "more"]),
        st.none() | st.booleans() | st.integers() | st.text(max_size=30) | st.lists(st.none(), max_size=2),
        max_size=3,
    )
)
def test_any_claim_is_read_or_refused_with_a_pointer(changes: Members) -> None:
    raw = raw_of(claim() | changes)
    facts = document_facts(read_document(raw))
    pointer = refused_at(raw)
    schema = changes.get("schema", "sparkgate-claim/v1")
    assert (facts.claim is None) == (pointer is not None)
    assert pointer is None or pointer[1:] in {*changes, ""}
    assert pointer is not None or schema == "sparkgate-claim/v1"


def refused_at(raw: bytes) -> str | None:
    try:
        parse_claim(raw)
    except DocumentError as error:
        return error.pointer
    return None


@given(raw=st.binary(max_size=60))
def test_any_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(DocumentError):
        parse_claim(raw)


def test_a_claim_is_no_receipt() -> None:
    facts = facts_of_claim(claim())
    (verdict,) = judge_document(facts)
    assert verdict.outcome is Outcome.NONE
    assert "NOT_A_RECEIPT:claim" in codes(verdict)
    assert receipt_keys(facts) == sorted(receipt_keys(facts))
    assert word("claim", "ab" * 32) in receipt_keys(facts)


@pytest.mark.parametrize(
    ("state", "outcome", "code"),
    [
        ("asserted", "qualified", None),
        ("evidenced", "qualified", None),
        ("amended", "qualified", "CLAIM_AMENDED"),
        ("affected", "qualified", "CLAIM_AFFECTED"),
        ("withdrawn", "research-only", "CLAIM_WITHDRAWN"),
        ("superseded", "research-only", "CLAIM_SUPERSEDED"),
    ],
)
def test_what_a_state_does(receipt: DocumentFacts, state: str, outcome: str, code: str | None) -> None:
    """Amended and affected change no result; withdrawn and superseded take the capability out."""
    about = claim(state, subject_sha256=receipt.sha256)
    verdict = judge_beside(receipt, about)
    assert verdict.outcome.value == outcome
    assert verdict.deployable is judge_beside(receipt).deployable or state in ("withdrawn", "superseded")
    told = [one for one in verdict.findings if one.code.startswith("CLAIM_")]
    assert [one.code for one in told] == ([code] if code else [])
    if code:
        assert told[0].document == read_document(raw_of(about)).sha256
        assert (told[0].pointer, told[0].value) == ("/reason", "the log line was misread")
        assert told[0].rule == "the-claim-still-stands"


def test_a_claim_about_another_document_does_nothing(receipt: DocumentFacts) -> None:
    assert judge_beside(receipt, claim()).outcome is Outcome.QUALIFIED


def test_the_newest_claim_about_a_place_counts(receipt: DocumentFacts) -> None:
    first = claim("withdrawn", subject_sha256=receipt.sha256)
    again = claim("evidenced", subject_sha256=receipt.sha256, at="2026-09-12T10:00:00+02:00")
    later = claim("evidenced", subject_sha256=receipt.sha256, at="2026-09-12T08:00:01Z")
    # The same moment, written in two zones: what takes away more counts.
    assert judge_beside(receipt, first, again).outcome is Outcome.RESEARCH_ONLY
    assert judge_beside(receipt, again, first).outcome is Outcome.RESEARCH_ONLY
    assert judge_beside(receipt, later, first).outcome is Outcome.QUALIFIED
    # Another place is another claim.
    elsewhere = claim("evidenced", subject_sha256=receipt.sha256, pointer="/a", at="2027-01-01T00:00:00Z")
    assert judge_beside(receipt, first, elsewhere).outcome is Outcome.RESEARCH_ONLY


def test_order_of_claims_is_their_own() -> None:
    claims = [parse_claim(raw_of(claim(state, reason=state))) for state in ("amended", "withdrawn")]
    for order in (claims, claims[::-1]):
        (standing,) = standing_claims(order)
        assert standing.state is ClaimState.WITHDRAWN


def test_a_malformed_claim_does_nothing(receipt: DocumentFacts) -> None:
    broken = claim("withdrawn", subject_sha256=receipt.sha256, at="yesterday")
    assert judge_beside(receipt, broken).outcome is Outcome.QUALIFIED


def test_a_claim_about_one_case_leaves_the_others() -> None:
    facts = facts_of(made.selections())
    pointers = [case.pointer for case in facts.cases]
    assert len(pointers) > 1
    about = claim("withdrawn", subject_sha256=facts.sha256, pointer=pointers[0])
    others = [Stored(facts=facts_of_claim(about))]
    around = surroundings_of(Stored(facts=facts), others)
    verdicts = {one.pointer: one for one in judge_document(facts, around=around)}
    assert "CLAIM_WITHDRAWN" in codes(verdicts[pointers[0]])
    assert "CLAIM_WITHDRAWN" not in codes(verdicts[pointers[1]])
    inside = claim("withdrawn", subject_sha256=facts.sha256, pointer=pointers[1] + "/anything")
    around = surroundings_of(Stored(facts=facts), [Stored(facts=facts_of_claim(inside))])
    told = [one.pointer for one in judge_document(facts, around=around) if "CLAIM_WITHDRAWN" in codes(one)]
    assert told == [pointers[1]]
    # In no case: about all of them.
    beside = claim("withdrawn", subject_sha256=facts.sha256, pointer="/nowhere")
    around = surroundings_of(Stored(facts=facts), [Stored(facts=facts_of_claim(beside))])
    assert all("CLAIM_WITHDRAWN" in codes(one) for one in judge_document(facts, around=around))


@pytest.mark.parametrize("state", ["withdrawn", "superseded"])
def test_a_composition_no_longer_rests_on_it(receipt: DocumentFacts, state: str) -> None:
    """One receipt alone: the scope is qualified, and after the claim it is not."""
    scope = scope_of(receipt.subject)
    before = compose([Receipt(sha256=receipt.sha256, verdict=judge_beside(receipt))], scope=scope)
    after = judge_beside(receipt, claim(state, subject_sha256=receipt.sha256))
    composed = compose([Receipt(sha256=receipt.sha256, verdict=after)], scope=scope)
    assert before is not None
    assert composed is not None
    assert (before.outcome, composed.outcome) == (Outcome.QUALIFIED, Outcome.RESEARCH_ONLY)
    # Bytes and facts stay as they are, and are shown.
    assert composed.receipts == (receipt.sha256,)


# -- activation receipts of our own, as evidence ------------------------------------------------------------


def test_our_own_activation_binds_the_topology() -> None:
    facts = facts_of(activation(own=True))
    topology = facts.subject.topology
    assert isinstance(topology.tp, Found)
    assert isinstance(topology.dcp, Found)
    assert (topology.tp.value, topology.dcp.value) == (4, 4)
    assert facts.activation is not None
    published = facts_of(activation())
    assert isinstance(published.subject.topology.dcp, Missing)


@pytest.mark.parametrize("value", [DROP, 1, 4.0, True, None])
def test_one_rank_that_says_otherwise_unbinds_it(value: Any) -> None:
    document = put(copy.deepcopy(activation(own=True)), "/ranks/2/observed_dcp", value)
    assert isinstance(facts_of(document).subject.topology.dcp, Missing)
