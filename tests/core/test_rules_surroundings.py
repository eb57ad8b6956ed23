"""What other documents, operators and questions change; what may be deployed."""

from dataclasses import replace
from typing import Any

import pytest

from app.core.qualify.facts import Capability
from app.core.qualify.findings import Outcome
from app.core.qualify.scope import ScopeKey, scope_of
from app.core.qualify.surroundings import (
    Declaration,
    Elsewhere,
    OtherIdentity,
    PinCheck,
    PinState,
    Surroundings,
)
from app.core.qualify.values import Basis
from tests.core import evidence_documents as made
from tests.core.judging import codes, facts_of, judge

Members = dict[str, Any]
ELSEWHERE = Elsewhere(document="aa" * 32, pointer="/there", value="stood there")


@pytest.mark.parametrize(
    ("around", "outcome", "code"),
    [
        (Surroundings(failures=(ELSEWHERE,)), "research-only", "KNOWN_FAILURE"),
        (Surroundings(withdrawals=(ELSEWHERE,)), "unsupported", "ARTIFACT_WITHDRAWN"),
        (Surroundings(claims_withdrawn=(ELSEWHERE,)), "research-only", "CLAIM_WITHDRAWN"),
        (Surroundings(claims_amended=(ELSEWHERE,)), "qualified", "CLAIM_AMENDED"),
        (Surroundings(superseded_by=(ELSEWHERE,)), "qualified", "SUPERSEDED_RECEIPT"),
        (Surroundings(path_reused=(ELSEWHERE,)), "qualified", "PATH_REUSED"),
        (Surroundings(unproven_pulls=(ELSEWHERE,)), "qualified", "CLEAN_PULL_UNPROVEN"),
        (
            Surroundings(pins=(PinCheck(pointer="/p", state=PinState.DIFFERS_SAME_COMMIT),)),
            "rejected",
            "PIN_MISMATCH",
        ),
        (
            Surroundings(pins=(PinCheck(pointer="/p", state=PinState.DIFFERS_OTHER_COMMIT),)),
            "qualified",
            "PIN_OTHER_COMMIT",
        ),
        (
            Surroundings(pins=(PinCheck(pointer="/p", state=PinState.ABSENT),)),
            "qualified",
            "PIN_TARGET_ABSENT",
        ),
        (
            Surroundings(pins=(PinCheck(pointer="/p", state=PinState.EQUAL),)),
            "qualified",
            "STRUCTURE_VERIFIED",
        ),
        (
            Surroundings(identities=(OtherIdentity(axis="commit", value="99" * 20, read_from=ELSEWHERE),)),
            "research-only",
            "IDENTITY_CONFLICT",
        ),
        (
            Surroundings(identities=(OtherIdentity(axis="commit", value=made.COMMIT, read_from=ELSEWHERE),)),
            "qualified",
            "STRUCTURE_VERIFIED",
        ),
        (Surroundings(asked=ScopeKey(image=made.OTHER_IMAGE)), "incomplete", "NOT_TRANSFERABLE"),
    ],
)
def test_what_stands_in_other_documents(around: Surroundings, outcome: str, code: str) -> None:
    verdict = judge(made.single_restore(), around=around)
    assert verdict.outcome.value == outcome
    assert code in codes(verdict)
    assert verdict.deployable is False


def test_the_asked_scope_must_be_equal_in_every_axis() -> None:
    document = made.single_restore()
    own = scope_of(facts_of(document).subject)
    assert judge(document, around=Surroundings(asked=own)).outcome is Outcome.QUALIFIED
    for axis, other in (
        ("dcp", "4"),
        ("tp", "4"),
        ("target", "alias=other"),
        ("publication_schema", "page-tail-cow-v1"),
        ("source", ""),
        ("draft", "x"),
        ("manifest_schema", "y"),
        ("image", "z"),
    ):
        asked = replace(own, **{axis: other})
        verdict = judge(document, around=Surroundings(asked=asked))
        assert verdict.outcome is Outcome.INCOMPLETE, axis
        found = [one for one in verdict.deciding if one.name == "NOT_TRANSFERABLE"]
        assert [one.value.partition(":")[0] for one in found] == [axis]


def test_a_registry_digest_elsewhere_makes_it_deployable() -> None:
    document = made.single_restore()
    assert judge(document).deployable_reason == "NO_REGISTRY_DIGEST"
    published = Surroundings(registry=(ELSEWHERE,))
    assert judge(document, around=published).deployable is True
    for more, reason in (
        ({"failures": (ELSEWHERE,)}, "KNOWN_FAILURE"),
        ({"unproven_pulls": (ELSEWHERE,)}, "CLEAN_PULL_UNPROVEN"),
        ({"withdrawals": (ELSEWHERE,)}, "ARTIFACT_WITHDRAWN"),
    ):
        assert judge(document, around=replace(published, **more)).deployable_reason == reason


def test_the_grade_asked_for_decides_what_is_deployable() -> None:
    published = Surroundings(registry=(ELSEWHERE,))
    for document, grade, deployable in (
        (made.composition(), Basis.ATTESTED, True),
        (made.composition(), Basis.SELF_CONSISTENT, False),
        (made.page_tail(), Basis.SELF_CONSISTENT, True),
        (made.page_tail(), Basis.DEMONSTRATED, False),
        (made.single_restore(), Basis.DEMONSTRATED, True),
    ):
        verdict = judge(document, around=published, grade=grade)
        assert verdict.outcome is Outcome.QUALIFIED
        assert verdict.deployable is deployable
        assert verdict.deployable_reason == ("" if deployable else "GRADE_TOO_LOW")


def _declaration(document: Members, **values: Any) -> Surroundings:
    filled = {
        "who": "A. Operator",
        "when": "2030-01-01T00:00:00Z",
        "reason": "run of the week",
        "receipts": (facts_of(document).sha256,),
        **values,
    }
    return Surroundings(declarations=(Declaration(**filled),))


def test_a_declaration_stands_in_for_a_missing_word_and_for_nothing_else() -> None:
    document = made.single_restore()
    del document["status"]
    assert judge(document).outcome is Outcome.INCOMPLETE
    verdict = judge(document, around=_declaration(document))
    assert verdict.outcome is Outcome.QUALIFIED
    found = next(one for one in verdict.findings if one.name == "DECLARED_BY_OPERATOR")
    assert "A. Operator" in found.value
    assert judge(document, around=_declaration(document, receipts=("ff" * 32,))).outcome is Outcome.INCOMPLETE
    serving = _declaration(document, capability=Capability.SERVING)
    assert judge(document, around=serving).outcome is Outcome.INCOMPLETE
    document["case"]["restore_oracle"] = "blue"
    assert judge(document, around=_declaration(document)).outcome is Outcome.REJECTED
    for word in ("research-only", "implemented", "unsupported", "pending", "weird"):
        claimed = {**made.single_restore(), "status": word}
        assert judge(claimed, around=_declaration(claimed)).outcome is judge(claimed).outcome, word


@pytest.mark.parametrize("missing", [{"who": " "}, {"when": ""}, {"reason": "\n"}, {"receipts": ()}])
def test_a_declaration_has_a_name_a_time_a_reason_and_receipts(missing: Members) -> None:
    filled = {"who": "A", "when": "now", "reason": "because", "receipts": ("aa" * 32,), **missing}
    with pytest.raises(ValueError, match="declaration: expected"):
        Declaration(**filled)
