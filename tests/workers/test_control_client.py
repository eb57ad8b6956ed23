"""The client of a GPU node: patience with silence, none with refusals, secrets in headers only."""

from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from app.config import KeyFileError, Settings
from workers import agent, control_client
from workers.control_client import Claimed, ControlClient, ControlError, ControlUnreachableError

DECISION = {"decision": None, "epoch": 0, "outcome": None}


class FakeTime:
    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def clock(self) -> float:
        return self.now


def open_client(
    answer: Callable[[httpx2.Request], httpx2.Response], time: FakeTime | None = None
) -> ControlClient:
    time = time or FakeTime()
    transport = httpx2.MockTransport(answer)
    return ControlClient(
        "http://control", api_key="sgk_secret", transport=transport, sleep=time.sleep, clock=time.clock
    )


def claimed() -> Claimed:
    return Claimed(
        attempt_id="a",
        restore_id="r",
        token=7,
        lease_s=30.0,
        rank=0,
        root_path=Path("/stores"),
        storage_key="0" * 64,
        context_digest="1" * 64,
        root_document_sha256="2" * 64,
        span_tokens=256,
        layout={},
    )


def test_every_word_carries_key_and_token() -> None:
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json=DECISION)

    client = open_client(answer)
    client.publish(claimed(), epoch=1, patience_s=0)
    assert seen[0].headers["authorization"] == "Bearer sgk_secret"
    assert seen[0].headers["fencing-token"] == "7"
    assert (seen[0].method, seen[0].url.path) == ("PUT", "/api/v1/attempts/a/publish")
    assert "sgk" not in str(seen[0].url)


def test_silence_is_borne_for_as_long_as_the_call_may_take() -> None:
    time, calls = FakeTime(), []

    def answer(request: httpx2.Request) -> httpx2.Response:
        calls.append(time.now)
        if len(calls) < 4:
            raise httpx2.ConnectError("refused")
        return httpx2.Response(200, json=DECISION)

    assert open_client(answer, time).publish(claimed(), epoch=1, patience_s=10).epoch == 0
    assert len(calls) == 4
    assert calls == sorted(calls)


@pytest.mark.parametrize("status", [502, 503, 504])
def test_patience_has_an_end(status: int) -> None:
    time, calls = FakeTime(), []

    def answer(request: httpx2.Request) -> httpx2.Response:
        calls.append(time.now)
        return httpx2.Response(status)

    with pytest.raises(ControlUnreachableError, match=str(status)):
        open_client(answer, time).ready(claimed(), document={}, patience_s=5)
    assert time.now == pytest.approx(5.0)
    assert len(calls) > 3


def test_refusal_is_not_tried_again() -> None:
    calls = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        calls.append(request)
        return httpx2.Response(409, json={"code": "lease-lost", "detail": "gone"})

    with pytest.raises(ControlError, match="lease-lost") as raised:
        open_client(answer).publish(claimed(), epoch=1, patience_s=60)
    assert (raised.value.status, raised.value.code, len(calls)) == (409, "lease-lost", 1)


def test_answer_that_is_no_problem_document_is_still_an_error() -> None:
    client = open_client(lambda _: httpx2.Response(418, text="<html>"))
    with pytest.raises(ControlError, match="418 unknown"):
        client.decision(claimed())


@pytest.mark.parametrize(
    ("content", "found"),
    [(b"", "nothing"), (b"sgk_a\nb", "something else"), (b"sgk_\xff", "something else")],
)
def test_a_file_that_holds_no_key_is_named_and_not_repeated(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    content: bytes,
    found: str,
) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    settings = Settings.model_validate({"home": tmp_path, "api_key_file": path})
    said = f"API key file {path}: expected one line with an API key (sgk_…), found {found}"
    with pytest.raises(KeyFileError) as refused:
        control_client.open_client(settings)
    assert str(refused.value) == said
    monkeypatch.setattr(agent, "settings", lambda: settings)
    assert agent.main() == 2
    assert said in caplog.text
    assert "Traceback" not in caplog.text


def test_a_node_without_a_key_says_which_setting_it_wants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    missing = tmp_path / "key"
    for given, said in (
        ({}, "SPARKGATE_API_KEY_FILE: expected the path of the node's key, found nothing"),
        ({"api_key_file": missing}, f"API key file {missing}: No such file or directory"),
    ):
        settings = Settings.model_validate({"home": tmp_path, **given})
        monkeypatch.setattr(agent, "settings", lambda chosen=settings: chosen)
        assert agent.main() == 2
        assert said in caplog.text
