"""The page of exceptions: granted, ended, refused; who may not, and what is wrong is said."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from app.db.session import Database
from tests.app import dashboard_rows as rows
from tests.app.browser import form_token, text_of
from tests.app.dashboard_rows import NAME, PASSWORD
from tests.app.ring import Ring

IMAGE = "1a" * 32


@pytest.fixture
def browser(ring: Ring, database: Database) -> TestClient:
    """dana's browser beside a node that holds a whole snapshot."""
    ring.join()
    with database.transaction() as session:
        rows.add_people(session)
    ring.client.headers["Accept"] = "text/html"
    ring.client.follow_redirects = False
    ring.client.post("/login", data={"name": NAME, "password": PASSWORD})
    return ring.client


def send(browser: TestClient, path: str, **fields: Any) -> Response:
    token = form_token(browser.get("/exceptions").text)
    return browser.post(path, data={"form_token": token, **fields})


def granted(browser: TestClient, ring: Ring, **changes: Any) -> Response:
    fields = {
        "image": f"sha256:{IMAGE}",
        "snapshot": str(ring.stored.context_digest),
        "days": "3",
        "reason": "ticket 4711",
    }
    return send(browser, "/exceptions", **{**fields, **changes})


def test_an_exception_is_granted_and_ended_on_the_page(browser: TestClient, ring: Ring) -> None:
    assert "Nobody has made an exception" in text_of(browser.get("/exceptions").text)
    answer = granted(browser, ring)
    assert (answer.status_code, answer.headers["location"]) == (303, "/exceptions")
    said = text_of(browser.get("/exceptions").text)
    assert "ends in" in " ".join(said.split())
    assert "ticket 4711" in said
    listed = browser.get("/api/v1/exceptions", headers=ring.operator_headers).json()["exceptions"]
    assert [one["scope"]["tp"] for one in listed] == [4]
    path = f"/exceptions/{listed[0]['id']}/end"
    assert "Reason: expected why" in text_of(send(browser, path, reason=" ").text)
    assert send(browser, path, reason="pulled again").status_code == 303
    said = " ".join(text_of(browser.get("/exceptions").text).split())
    assert "holds until" not in said
    assert "pulled again" in said
    late = send(browser, path, reason="again")
    assert late.status_code == 409
    assert "found one that ended by" in text_of(late.text)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"image": "abc"}, "Image: expected the 64 digits of a config id, found abc"),
        ({"image": ""}, "Image: expected the 64 digits of a config id, found nothing"),
        ({"snapshot": "x"}, "Snapshot: expected the 64 digits of a context, found x"),
        ({"days": "31"}, "Days: expected 1 to 30, found 31"),
        ({"days": "\u00b2"}, "Days: expected 1 to 30, found \u00b2"),
        ({"reason": ""}, "Reason: expected why"),
        ({"reason": "r" * 2001}, "Reason: expected at most 2000 characters, found 2001"),
    ],
)
def test_what_is_wrong_is_said_and_the_rest_is_kept(
    browser: TestClient, ring: Ring, changes: dict[str, str], expected: str
) -> None:
    answer = granted(browser, ring, **changes)
    assert answer.status_code == 422
    assert expected in text_of(answer.text)
    if "reason" not in changes:
        assert "ticket 4711" in answer.text


def test_an_unknown_snapshot_is_said_to_be_none(browser: TestClient, ring: Ring) -> None:
    answer = granted(browser, ring, snapshot="0" * 64)
    assert answer.status_code == 404
    assert "Snapshot: " in text_of(answer.text)
