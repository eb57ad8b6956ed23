"""``sparkgate restore cancel`` and ``retry`` against the real API, with simulated rank workers."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from fastapi.testclient import TestClient
from typer.testing import CliRunner, Result

from app.cli import client as cli_client
from app.cli import restore as command
from app.config import Settings
from tests.app.ring import Ring


class OverTestClient(cli_client.ApiClient):
    """The command line's client, its requests answered in this process."""

    def __init__(self, http: TestClient, *, api_key: str) -> None:
        self.base_url = "http://control"
        self._headers = {"Authorization": f"Bearer {api_key}"}
        self._test_client = http

    def _answer(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        headers = {**self._headers, **arguments.pop("headers", {})}
        response = self._test_client.request(method, path, headers=headers, **arguments)
        if response.is_success:
            return response.json()  # type: ignore[no-any-return]
        raise cli_client.ApiError(f"{response.status_code} {response.json()['code']}")


@pytest.fixture
def ring_api(ring: Ring, monkeypatch: pytest.MonkeyPatch) -> Ring:
    api = OverTestClient(ring.client, api_key=ring.keys["operator"])
    monkeypatch.setattr(command, "open_api", lambda *_, **__: api)
    return ring


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command.restore_app, list(arguments))


def test_cancel_says_how_far_it_came_and_which_ranks_hold_it_up(ring_api: Ring) -> None:
    restore = ring_api.start_restore()
    ring_api.claim_all({**restore, "attempts": restore["attempts"][:2]})
    done = run("cancel", restore["id"], "--reason", "wrong snapshot", "--no-wait")
    assert done.exit_code == 0
    assert f"restore {restore['id']}: retracting" in done.stdout
    assert "cancellation by ada/operator: requested; not stopped: rank 0, 1" in done.stdout


def test_cancel_that_comes_too_late_is_refused_with_its_code(ring_api: Ring) -> None:
    restore_id, _ = ring_api.run_to_resident()
    done = run("cancel", restore_id, "--json")
    assert done.exit_code == 2
    assert "409 cancel-too-late" in json.loads(done.stdout)["error"]


def test_cancelled_restore_is_retried_and_both_name_each_other(ring_api: Ring) -> None:
    restore = ring_api.start_restore()
    cancelled = run("cancel", restore["id"], "--json")
    assert cancelled.exit_code == 0
    assert json.loads(cancelled.stdout)["outcome"] == "incomplete"
    retried = run("retry", restore["id"], "--no-wait", "--json")
    assert retried.exit_code == 0
    newer = json.loads(retried.stdout)
    assert (newer["retry_of"], newer["try_number"]) == (restore["id"], 2)
    shown = run("show", restore["id"])
    assert f"tried again as {newer['id']}" in shown.stdout
    assert f"try 2 after {restore['id']}" in run("show", newer["id"]).stdout
    again = run("retry", restore["id"])
    assert again.exit_code == 2


@pytest.mark.parametrize(
    ("content", "found"),
    [(b"", "nothing"), (b"\n", "nothing"), (b"sgk_a\nb", "something else"), (b"sgk_\xff", "something else")],
)
def test_a_file_that_holds_no_key_is_named_and_not_repeated(
    tmp_path: Path, content: bytes, found: str
) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(cli_client.ApiError) as refused:
        cli_client.open_api(Settings(), url=None, api_key_file=path)
    said = f"API key file {path}: expected one line with an API key (sgk_…), found {found}"
    assert str(refused.value) == said


def test_an_id_that_is_none_is_no_path() -> None:
    refused = run("show", "../accounts")
    assert refused.exit_code == 2
    assert "UUID" in refused.output


def test_nothing_of_an_error_is_obeyed_by_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        cli_client.fail(cli_client.ApiError("file a\x1b[31m\udcff: none\n  /b"), status=2)
    assert capsys.readouterr().err == "file a\\x1b[31m\\udcff: none\n  /b\n"
