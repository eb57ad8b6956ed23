"""``sparkgate restore start --fault``: what it orders, what it prints, and how it ends."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from app.cli import demo_drill
from app.cli import restore as command
from tests.app.asked import AskedRing
from tests.app.test_cli_restore import OverTestClient


@pytest.fixture
def api(asked: AskedRing, monkeypatch: pytest.MonkeyPatch) -> OverTestClient:
    """The command line's client; whatever is ordered is run to its end before it is followed."""
    api = OverTestClient(asked.ring.client, api_key=asked.ring.keys["operator"])
    monkeypatch.setattr(command, "open_api", lambda *_, **__: api)

    def run_then_show(_: Any, *, restore_id: str, **__: Any) -> dict[str, Any]:
        restore = asked.ring.restore(restore_id)
        ranks = asked.ring.claim_all(restore)
        for rank in ranks:
            asked.ready(rank).raise_for_status()
        return asked.follow(restore, ranks)

    monkeypatch.setattr(command, "follow", run_then_show)
    return api


def start(asked: AskedRing, *more: str) -> Result:
    snapshot = asked.made.snapshot
    named = ("--context", str(snapshot.context_digest), "--layout", str(snapshot.layout.sha256))
    return CliRunner().invoke(command.restore_app, ["start", *named, *more])


def test_a_drill_that_is_caught_ends_well(asked: AskedRing, api: OverTestClient) -> None:
    done = start(asked, "--fault", "swap-pages", "--fault-rank", "2")
    assert done.exit_code == 0, done.output
    assert "drill: swap-pages put in on purpose on rank 2" in done.stdout
    assert "every hash right on 4 ranks; answer spark, expected red: wrong" in done.stdout
    assert "question, after it" in done.stdout


def test_the_json_of_a_drill_has_everything(asked: AskedRing, api: OverTestClient) -> None:
    done = start(asked, "--fault", "stale-batch", "--fault-rank", "1", "--json")
    assert done.exit_code == 0
    restore = json.loads(done.stdout)
    assert restore["fault"] == {"name": "stale-batch", "rank": 1}
    assert restore["answer"]["diagnosis"] == "stale-batch"


def test_a_drill_that_is_not_caught_is_an_error_of_its_own(
    asked: AskedRing, api: OverTestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = asked.said
    monkeypatch.setattr(asked, "said", lambda rank, *, fault=None: said(rank))
    done = start(asked, "--fault", "swap-pages", "--fault-rank", "2")
    assert done.exit_code == command.NOT_CAUGHT
    assert "a drill publishes nothing" in done.stdout


def test_asked_and_not_asked(asked: AskedRing, api: OverTestClient) -> None:
    right = start(asked)
    assert right.exit_code == 0
    assert "answer red, expected red: right" in right.stdout
    refused = start(asked, "--oracle", "none", "--fault", "swap-pages", "--json")
    assert refused.exit_code == 2
    assert "422 refused" in json.loads(refused.stdout)["error"]


def test_the_fault_of_the_demo_is_one_that_can_be_put_in(asked: AskedRing) -> None:
    restore, _ = asked.run(fault={"name": str(demo_drill.FAULT), "rank": demo_drill.FAULT_RANK})
    assert command.is_caught(restore)
