"""Questions: registered once, listed, given out byte for byte, refused by name."""

import json
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.core.digest import Digest
from tests.app.asked import AskedRing

PATH = "/api/v1/oracles"


def test_a_question_is_kept_byte_for_byte_under_its_digest(asked: AskedRing, client: TestClient) -> None:
    headers, raw = asked.ring.operator_headers, asked.question.to_bytes()
    again = client.post(PATH, headers=headers, content=raw)
    assert (again.status_code, again.json()["sha256"]) == (200, asked.question.sha256)
    assert again.headers["Location"] == f"{PATH}/{asked.question.sha256}"
    assert again.json()["expected"] == "red"
    shown = client.get(again.headers["Location"], headers=headers)
    assert shown.json()["document"] == json.loads(raw)
    document = client.get(f"{again.headers['Location']}/document", headers=headers)
    assert document.content == raw
    assert "immutable" in document.headers["Cache-Control"]


def test_lists_are_newest_first_and_of_one_prefix_if_asked(asked: AskedRing, client: TestClient) -> None:
    elsewhere = replace(asked.question, context_digest=Digest("ab" * 32))
    assert asked.register(elsewhere).status_code == 201
    headers = asked.ring.operator_headers
    both = client.get(PATH, headers=headers).json()["oracles"]
    assert [one["sha256"] for one in both] == [elsewhere.sha256, asked.question.sha256]
    assert client.get(PATH, headers=headers).json()["total"] == {"count": 2, "is_exact": True}
    first = client.get(PATH, headers=headers, params={"page_size": 1}).json()
    assert [one["sha256"] for one in first["oracles"]] == [elsewhere.sha256]
    token = {"page_size": 1, "page_token": first["next_page_token"]}
    rest = client.get(PATH, headers=headers, params=token).json()
    assert [one["sha256"] for one in rest["oracles"]] == [asked.question.sha256]
    one = client.get(PATH, headers=headers, params={"context_digest": "ab" * 32}).json()["oracles"]
    assert [each["sha256"] for each in one] == [elsewhere.sha256]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"schema": "sparkgate-oracle/v9"}, "schema"),
        ({"expected": "yellow"}, "expected"),
        ({"ranks": 0}, "ranks"),
        ({"extra": 1}, "extra"),
    ],
)
def test_what_is_no_question_is_refused_by_name(
    asked: AskedRing, client: TestClient, change: dict[str, Any], named: str
) -> None:
    content = json.dumps(
        {**json.loads(asked.question.to_bytes()), **change}, separators=(",", ":"), sort_keys=True
    )
    answer = client.post(PATH, headers=asked.ring.operator_headers, content=content.encode())
    assert (answer.status_code, answer.json()["code"]) == (422, "document-refused")
    assert named in answer.json()["detail"]


def test_another_spelling_and_a_large_body_are_refused(asked: AskedRing, client: TestClient) -> None:
    headers = asked.ring.operator_headers
    pretty = json.dumps(json.loads(asked.question.to_bytes()), indent=1)
    assert client.post(PATH, headers=headers, content=pretty.encode()).status_code == 422
    assert client.post(PATH, headers=headers, content=b" " * 70_000).status_code == 413
    assert client.get(f"{PATH}/{'0' * 64}", headers=headers).status_code == 404
