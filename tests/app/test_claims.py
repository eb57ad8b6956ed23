"""Claim documents posted as receipts: the receipt they speak of is judged again, whichever comes first."""

from typing import Any

import pytest

from app.core.digest import sha256
from tests.app.evidence_client import Evidence
from tests.app.evidence_documents import publication, raw, receipt

SUBJECT = sha256(raw(receipt()))


def claim(state: str, **changes: Any) -> dict[str, Any]:
    return {
        "schema": "sparkgate-claim/v1",
        "subject_sha256": SUBJECT,
        "pointer": "",
        "state": state,
        "author": "a person",
        "at": "2026-09-12T08:00:00Z",
        "reason": "misread",
        "replacement_sha256": None,
    } | changes


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        ("evidenced", "qualified"),
        ("amended", "qualified"),
        ("affected", "qualified"),
        ("withdrawn", "research-only"),
        ("superseded", "research-only"),
    ],
)
@pytest.mark.parametrize("claim_first", [False, True])
def test_a_claim_acts_on_the_verdict_and_on_the_scope(
    evidence: Evidence,
    state: str,
    outcome: str,
    claim_first: bool,
) -> None:
    documents = [receipt(), claim(state)]
    evidence.append(publication())
    for document in documents[::-1] if claim_first else documents:
        evidence.append(document)
    assert evidence.outcome(SUBJECT)[0] == outcome
    assert [one["outcome"] for one in evidence.scopes(capability="restore")] == [outcome]
    # The bytes stay, and are given out.
    path = f"/api/v1/receipts/{SUBJECT}/document"
    answer = evidence.client.get(path, headers=evidence.headers("viewer"))
    assert answer.content == raw(receipt())


def test_a_newer_claim_gives_the_capability_back(evidence: Evidence) -> None:
    evidence.append(receipt())
    evidence.append(publication())
    evidence.append(claim("withdrawn"))
    assert evidence.outcome(SUBJECT)[0] == "research-only"
    evidence.append(claim("evidenced", at="2026-09-13T08:00:00Z", reason="measured again"))
    assert evidence.outcome(SUBJECT)[0] == "qualified"


def test_a_withdrawal_is_not_hidden_behind_many_claims(evidence: Evidence) -> None:
    """More claims than are shown of a kind: the newest for the place still counts."""
    evidence.append(receipt())
    for number in range(20):
        evidence.append(claim("evidenced", reason=f"again {number}"))
    evidence.append(claim("withdrawn", at="2026-09-13T08:00:00Z"))
    assert evidence.outcome(SUBJECT)[0] == "research-only"


def test_a_claim_about_nothing_that_is_stored(evidence: Evidence) -> None:
    made = evidence.append(claim("withdrawn", subject_sha256="ab" * 32))
    assert evidence.get(f"receipts/{made['sha256']}")["kind"] == "no-verdict"
