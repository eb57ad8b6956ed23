"""Source identities over REST: kept once by content, listed in pages, a wrong part refused by name."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

PATH = "/api/v1/sources"
COMMIT, TREE, SOURCE = "a" * 40, "b" * 40, "c" * 64
BODY = {"repository": "example/code", "commit": COMMIT, "tree": TREE, "source_sha256": SOURCE}


@pytest.fixture
def headers(keys: dict[str, str]) -> dict[str, str]:
    return {"Authorization": f"Bearer {keys['operator']}"}


@pytest.fixture
def registered(client: TestClient, headers: dict[str, str]) -> dict[str, Any]:
    return post(client, headers).json()  # type: ignore[no-any-return]


def post(client: TestClient, headers: dict[str, str], **changes: Any) -> Response:
    return client.post(PATH, headers=headers, json={**BODY, **changes})


def test_content_decides_what_is_new(client: TestClient, headers: dict[str, str]) -> None:
    first = post(client, headers)
    assert (first.status_code, first.headers["location"]) == (201, f"{PATH}/{first.json()['id']}")
    again = post(client, headers, dirty=False)
    assert (again.status_code, again.json(), again.headers["location"]) == (
        200,
        first.json(),
        first.headers["location"],
    )
    # An unknown part is a value: another identity, and the same one when it is said again.
    for changes in ({"tree": None}, {"source_sha256": None}, {"commit": "d" * 40}, {"repository": "fork"}):
        codes = [post(client, headers, **changes).status_code for _ in range(2)]
        assert codes == [201, 200], changes


def test_source_is_read_and_not_sent_twice(
    client: TestClient, headers: dict[str, str], registered: dict[str, Any]
) -> None:
    path = f"{PATH}/{registered['id']}"
    answer = client.get(path, headers=headers)
    assert {name: answer.json()[name] for name in BODY} == BODY
    known = client.get(path, headers={**headers, "If-None-Match": answer.headers["etag"]})
    assert (known.status_code, known.content) == (304, b"")
    missing = client.get(f"{PATH}/00000000-0000-0000-0000-000000000000", headers=headers)
    assert (missing.status_code, missing.json()["code"]) == (404, "not-found")


def test_list_is_paged_newest_first(client: TestClient, headers: dict[str, str]) -> None:
    ids = [post(client, headers, commit=f"{number:x}" * 40).json()["id"] for number in range(1, 6)]
    seen: list[str] = []
    token: str | None = ""
    while token is not None:
        shown = client.get(PATH, headers=headers, params={"page_size": 2, "page_token": token}).json()
        seen += [source["id"] for source in shown["sources"]]
        token = shown["next_page_token"] or None
    assert seen == ids[::-1]


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_fact_is_not_changed(
    client: TestClient, headers: dict[str, str], registered: dict[str, Any], method: str
) -> None:
    answer = client.request(method, f"{PATH}/{registered['id']}", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (405, "method-not-allowed")
    assert answer.headers["allow"].startswith("GET")


@pytest.mark.parametrize(
    ("changes", "pointer", "words"),
    [
        ({"commit": SOURCE}, "/commit", "found 64 digits, the length of a SHA-256 such as source_sha256"),
        ({"tree": SOURCE}, "/tree", "found 64 digits, the length of a SHA-256 such as source_sha256"),
        ({"source_sha256": COMMIT}, "/source_sha256", "found 40 digits, the length of a git object id"),
        ({"tree": COMMIT}, "", "found the same id in both"),
    ],
)
def test_mixed_up_digests_are_explained(
    client: TestClient, headers: dict[str, str], changes: dict[str, str], pointer: str, words: str
) -> None:
    answer = post(client, headers, **changes)
    assert (answer.status_code, answer.json()["code"]) == (422, "digests-mixed")
    assert words in answer.json()["detail"]
    assert [part["pointer"] for part in answer.json()["errors"]] == [pointer]


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"commit": "a" * 7}, "/commit"),
        ({"commit": "A" * 40}, "/commit"),
        ({"commit": "0" * 40}, "/commit"),
        ({"commit": None}, "/commit"),
        ({"tree": "x"}, "/tree"),
        ({"source_sha256": "sha256:" + SOURCE}, "/source_sha256"),
        ({"repository": "https://me:secret@example/code"}, "/repository"),
        ({"repository": "two\nlines"}, "/repository"),
        ({"repository": ""}, "/repository"),
        ({"commit": "a" * 10_000}, "/commit"),
        ({"dirty": "yes"}, "/dirty"),
        ({"more": 1}, "/more"),
    ],
)
def test_wrong_part_is_named(
    client: TestClient, headers: dict[str, str], changes: dict[str, Any], pointer: str
) -> None:
    answer = post(client, headers, **changes)
    assert (answer.status_code, answer.json()["code"]) == (422, "validation-failed")
    assert [part["pointer"] for part in answer.json()["errors"]] == [pointer]


def test_credentials_in_an_address_are_not_repeated(client: TestClient, headers: dict[str, str]) -> None:
    answer = post(client, headers, repository="https://me:hunter2@example/code")
    assert "hunter2" not in answer.text


def test_dirty_checkout_is_no_identity(client: TestClient, headers: dict[str, str]) -> None:
    answer = post(client, headers, dirty=True)
    assert (answer.status_code, answer.json()["code"]) == (422, "source-dirty")
    assert client.get(PATH, headers=headers).json()["sources"] == []


def test_image_points_at_its_source(
    client: TestClient, headers: dict[str, str], registered: dict[str, Any]
) -> None:
    body = {"title": "an image", "config_id": "1" * 64, "source_id": registered["id"]}
    image = client.post("/api/v1/images", headers=headers, json=body).json()
    assert image["source"] == registered
    shown = client.get(f"/api/v1/images/{image['id']}", headers=headers).json()
    assert shown["source"] == registered
