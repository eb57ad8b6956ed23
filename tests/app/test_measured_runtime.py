"""The runtime of a rank worker: registered with its generation, repeated and compared with every report."""

from typing import Any

import pytest

from tests.app.ring import NODE, RUNTIME, Ring, failed_report, wire

WORDS = ["ready", "failure"]


def report(ring: Ring, rank: int, *, word: str) -> dict[str, Any]:
    whole = ring.report(rank)
    return whole if word == "ready" else failed_report(whole)


def test_worker_registers_exactly_the_facts_of_the_schema(ring: Ring) -> None:
    path = f"/api/v1/nodes/{NODE}/devices/host0/workers"
    for runtime, text in (
        ({"engine": "sparkgate"}, "runtime.schema: expected 'sparkgate-runtime/v1'"),
        ({**RUNTIME, "note": "x"}, "runtime: expected exactly the facts of its schema"),
        ({**RUNTIME, "image_config_id": "latest"}, "runtime.image_config_id"),
    ):
        answer = ring.client.post(path, headers=ring.worker_headers, json={"runtime": runtime})
        assert (answer.status_code, answer.json()["code"]) == (422, "document-refused")
        assert text in answer.json()["detail"]


@pytest.mark.parametrize("word", WORDS)
def test_report_with_the_registered_runtime_is_kept_with_it(ring: Ring, word: str) -> None:
    restore = ring.start_restore()
    rank = ring.claim_all(restore)[2]
    for _ in range(2):
        assert rank.say(word, content=wire(report(ring, 2, word=word))).status_code == 200
    assert ring.restore(restore["id"])["attempts"][2]["runtime"] == RUNTIME


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"engine_sha256": "0" * 64}, f"runtime.engine_sha256: expected '{'e' * 64}', found '{'0' * 64}'"),
        ({"image_config_id": "1" * 64}, f"runtime.image_config_id: expected 'none', found '{'1' * 64}'"),
        ({"more": 1}, "runtime.more: expected None, found 1"),
    ],
)
def test_report_of_another_runtime_is_refused(
    ring: Ring, word: str, changes: dict[str, Any], detail: str
) -> None:
    restore = ring.start_restore()
    rank = ring.claim_all(restore)[2]
    content = wire(report(ring, 2, word=word), runtime={**RUNTIME, **changes})
    answer = rank.say(word, content=content)
    assert (answer.status_code, answer.json()["code"]) == (409, "runtime-differs")
    assert answer.json()["detail"] == f"attempt {rank.attempt_id}, generation 1: {detail}"
    attempt = ring.restore(restore["id"])["attempts"][2]
    assert (attempt["state"], attempt["report"], attempt["runtime"]) == ("claimed", None, RUNTIME)


@pytest.mark.parametrize("word", WORDS)
def test_report_without_a_runtime_is_refused(ring: Ring, word: str) -> None:
    rank = ring.claim_all(ring.start_restore())[2]
    content = wire(report(ring, 2, word=word)).replace(b'"runtime"', b'"walltime"')
    answer = rank.say(word, content=content)
    assert (answer.status_code, answer.json()["code"]) == (422, "document-refused")


def test_runtime_of_an_attempt_is_that_of_the_generation_that_claimed_it(ring: Ring) -> None:
    """The next worker of the device may be another build; what ran stays what it was."""
    restore = ring.start_restore()
    rank = ring.claim_all(restore)[2]
    assert rank.ready().status_code == 200
    path = f"/api/v1/nodes/{NODE}/devices/{restore['attempts'][2]['device']}/workers"
    newer = {**RUNTIME, "engine_sha256": "0" * 64}
    ring.client.post(path, headers=ring.worker_headers, json={"runtime": newer}).raise_for_status()
    assert ring.restore(restore["id"])["attempts"][2]["runtime"] == RUNTIME
