"""A question asked of real processes: right and resident; with a fault put in wrong, named, never visible."""

from typing import Any

import pytest

from app.core.oracle.synthesis import SynthesizedOracle, synthesize_oracle
from tests.e2e.installation import Installation

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def asked(installation: Installation) -> SynthesizedOracle:
    made = synthesize_oracle(installation.stores / "asked", ranks=4, object_bytes=65_536)
    installation.register_layout(made.snapshot.layout.canonical)
    registered = installation.api.post("/api/v1/oracles", content=made.question.to_bytes())
    assert (registered.status_code, registered.json()["sha256"]) == (201, made.question.sha256)
    installation.wait_for_snapshot(str(made.snapshot.context_digest))
    return made


def run(installation: Installation, made: SynthesizedOracle, **more: Any) -> dict[str, Any]:
    context, layout = str(made.snapshot.context_digest), str(made.snapshot.layout.sha256)
    return installation.finish(installation.start_restore(context, layout=layout, **more))


def verdict_of(installation: Installation, restore_id: str) -> dict[str, Any]:
    """What the rules say of the receipt that the timetable writes."""
    sha256 = installation.wait_for(
        lambda: installation.restore(restore_id)["receipt_sha256"], what=f"receipt of {restore_id}"
    )
    return installation.api.get(f"/api/v1/receipts/{sha256}").raise_for_status().json()["verdicts"][0]  # type: ignore[no-any-return]


def test_healthy_beside_a_drill(installation: Installation, asked: SynthesizedOracle) -> None:
    healthy = run(installation, asked)
    assert (healthy["outcome"], healthy["semantic"]) == ("restored", "right"), healthy["problem"]
    assert healthy["answer"]["observed"] == "red"
    read = installation.read_back(healthy["id"])

    drill = run(installation, asked, fault={"name": "swap-pages", "rank": 2})
    assert (drill["outcome"], drill["semantic"], drill["decision"]) == ("failed", "wrong", "retract")
    assert (drill["answer"]["observed"], drill["answer"]["diagnosis"]) == ("spark", "swap-pages")
    for one in (healthy, drill):
        assert {attempt["report"]["outcome"] for attempt in one["attempts"]} == {"restored"}
        assert all(attempt["report"]["oracle_ns"] > 0 for attempt in one["attempts"])
    refused = installation.api.post(f"/api/v1/restores/{drill['id']}/readbacks")
    assert (refused.status_code, refused.json()["code"]) == (409, "not-published")
    assert installation.devices_free()

    verdict = verdict_of(installation, drill["id"])
    assert verdict["outcome"] == "rejected"
    assert "put in on purpose" in verdict["reason"]
    # Without a person's declaration the healthy one claims nothing; its answer stands in it.
    assert verdict_of(installation, healthy["id"])["outcome"] == "incomplete"
    # The fault of one restore touches no page of another.
    assert installation.read_back(healthy["id"]) == read
    again = run(installation, asked)
    assert (again["outcome"], again["semantic"]) == ("restored", "right")
