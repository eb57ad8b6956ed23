"""A question asked of real processes: right and resident; with a fault put in wrong, named, never visible."""

import subprocess
import sys
from typing import Any

import pytest

from app.core.oracle.synthesis import SynthesizedOracle, synthesize_oracle
from app.processes import inherited_environment
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


def test_the_demo_shows_both_side_by_side(installation: Installation) -> None:
    key = installation.home / "demo.key"
    key.write_text(installation.api.headers["Authorization"].removeprefix("Bearer "))
    command = [sys.executable, "-c", "from app.cli import main; main()", "demo", "--bytes", "8000000"]
    where = ["--store", str(installation.stores / "demo"), "--url", installation.settings.control_url]
    done = subprocess.run(
        [*command, *where, "--api-key-file", str(key)],
        env={**inherited_environment(), "COLUMNS": "160", "SPARKGATE_HOME": str(installation.home)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for said in ("red (right)", "spark (wrong)", "right on 4 of 4 ranks", "qualified", "rejected"):
        assert said in done.stdout, done.stdout
