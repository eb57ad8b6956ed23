"""What every route keeps: problem+json, authentication, ETags, paging, methods."""

import asyncio
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from app.config import Settings
from app.db.session import Database, before_commit
from app.main import create_app
from app.web.body import CLIENTS_BODY_BYTES, LARGEST_BODY_BYTES, STRANGERS_BODY_BYTES
from app.web.problems import MEDIA_TYPE, PROBLEMS
from tests.app.conftest import RecordedMessages
from tests.app.ring import Ring

FORM = b"application/x-www-form-urlencoded"


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def api_operations(client: TestClient) -> list[tuple[str, str]]:
    paths: dict[str, Any] = client.get("/openapi.json").json()["paths"]
    return [
        (method.upper(), path.replace("{", "").replace("}", ""))
        for path, known in paths.items()
        for method in known
        if path.startswith("/api/")
    ]


def test_no_api_operation_answers_without_a_key(client: TestClient) -> None:
    asked = api_operations(client)
    assert len(asked) >= 25
    for method, path in asked:
        answer = client.request(method, path)
        assert answer.status_code == 401, (method, path)
        assert answer.headers["content-type"] == MEDIA_TYPE
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer x", "Bearer sgk_00000000_" + "A" * 51, "Basic YTpi", "Bearer " + "é" * 40],
)
def test_bad_keys_are_refused_alike(client: TestClient, header: str) -> None:
    answer = client.get("/api/v1/restores", headers={"Authorization": header.encode("latin-1")})  # type: ignore[dict-item]
    assert answer.status_code == 401


def test_scopes_are_checked(client: TestClient, keys: dict[str, str]) -> None:
    viewer = bearer(keys["viewer"])
    assert client.get("/api/v1/restores", headers=viewer).status_code == 200
    refused = client.post("/api/v1/restores", headers={**viewer, "Idempotency-Key": "k"}, json={})
    assert (refused.status_code, refused.json()["code"]) == (403, "scope-missing")
    worker = client.get("/api/v1/restores", headers=bearer(keys["worker"]))
    assert worker.status_code == 403
    operator = client.put("/api/v1/nodes/node-a", headers=bearer(keys["admin"]), json={})
    assert operator.status_code == 403


@pytest.mark.parametrize("path", ["/api", "/api/v1/nothing", "/api/v1/restores/not-a-uuid/x", "/%00"])
def test_unknown_routes_are_problems(client: TestClient, path: str) -> None:
    answer = client.get(path, headers={"Accept": "application/json"})
    assert answer.status_code == 404
    assert answer.headers["content-type"] == MEDIA_TYPE
    body = answer.json()
    assert (body["code"], body["status"], body["request_id"]) == (
        "not-found",
        404,
        answer.headers["x-request-id"],
    )


def test_wrong_method_is_405_with_allow(client: TestClient, keys: dict[str, str]) -> None:
    answer = client.delete("/api/v1/restores", headers=bearer(keys["operator"]))
    assert (answer.status_code, answer.json()["code"]) == (405, "method-not-allowed")
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}
    assert answer.json()["detail"] == "method: expected one of GET, HEAD, POST, found DELETE"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/context_digest"),
        ({"context_digest": "A" * 64, "layout_sha256": "0" * 64}, "/context_digest"),
        ({"context_digest": "0" * 64 + "\n", "layout_sha256": "0" * 64}, "/context_digest"),
        ({"context_digest": "0" * 64, "layout_sha256": 7}, "/layout_sha256"),
        ({"context_digest": "0" * 64, "layout_sha256": "0" * 64, "resident_s": 0}, "/resident_s"),
        ({"context_digest": "0" * 64, "layout_sha256": "0" * 64, "resident_s": "60"}, "/resident_s"),
        ({"context_digest": "0" * 64, "layout_sha256": "0" * 64, "colour": "red"}, "/colour"),
    ],
)
def test_wrong_parts_of_a_body_are_pointed_at(
    client: TestClient, keys: dict[str, str], body: dict[str, Any], pointer: str
) -> None:
    headers = {**bearer(keys["operator"]), "Idempotency-Key": str(uuid4())}
    answer = client.post("/api/v1/restores", headers=headers, json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "validation-failed")
    assert pointer in {part["pointer"] for part in answer.json()["errors"]}


def test_one_line_says_what_was_expected_and_found(client: TestClient, keys: dict[str, str]) -> None:
    answer = client.get(
        "/api/v1/verdicts",
        headers=bearer(keys["viewer"]),
        params={"outcome": "qualified", "on": "2026-02-30"},
    )
    assert answer.status_code == 422
    detail = answer.json()["detail"]
    assert "/on: " in detail
    assert "date" in detail
    assert "found '2026-02-30'" in detail


def test_of_many_wrong_parts_the_line_names_three(client: TestClient, keys: dict[str, str]) -> None:
    headers = {**bearer(keys["operator"]), "Idempotency-Key": str(uuid4())}
    answer = client.post("/api/v1/restores", headers=headers, json=dict.fromkeys("abcde", 1))
    wrong = len(answer.json()["errors"])
    assert wrong > 3
    assert answer.json()["detail"].endswith(f"; and {wrong - 3} more")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"nonsense"])
def test_body_that_is_no_json_is_400(client: TestClient, keys: dict[str, str], content: bytes) -> None:
    headers = {
        **bearer(keys["operator"]),
        "Idempotency-Key": str(uuid4()),
        "Content-Type": "application/json",
    }
    answer = client.post("/api/v1/restores", headers=headers, content=content)
    assert answer.status_code in {400, 422}
    assert answer.headers["content-type"] == MEDIA_TYPE


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        (b"{bad", "body: expected JSON, found at character 1: Expecting property name"),
        (b'{"a": 1', "body: expected JSON, found at character 7: Expecting ',' delimiter"),
        (b"\xff", "body: expected JSON in UTF-8, found another encoding"),
        (b"[" * 100_000, "body: expected JSON in UTF-8, found another encoding, deep nesting"),
        (
            b"1" * 5000,
            "body: expected JSON in UTF-8, found another encoding, deep nesting or a number too long",
        ),
    ],
)
def test_what_is_no_json_is_told_where(
    client: TestClient, keys: dict[str, str], content: bytes, detail: str
) -> None:
    headers = {**bearer(keys["operator"]), "Idempotency-Key": "k", "Content-Type": "application/json"}
    answer = client.post("/api/v1/restores", headers=headers, content=content)
    assert (answer.status_code, answer.json()["code"], answer.json()["errors"]) == (400, "bad-request", [])
    assert answer.json()["detail"].startswith(detail)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml", None])
def test_json_that_is_not_said_to_be_json_is_415(
    client: TestClient, keys: dict[str, str], kind: str | None
) -> None:
    headers = {**bearer(keys["operator"]), "Idempotency-Key": "k"} | ({"Content-Type": kind} if kind else {})
    answer = client.post("/api/v1/restores", headers=headers, content=b"{}")
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported-media-type")
    assert answer.json()["detail"] == f"Content-Type: expected application/json, found {kind or 'none'}"


@pytest.mark.parametrize(
    ("body", "pointer", "detail"),
    [
        (b"[1]", "", "expected a JSON object"),
        (b"", "", "expected a value, found none"),
        (b'{"context_digest": 5}', "/context_digest", "expected a valid string, found 5"),
        (
            b'{"context_digest": "x"}',
            "/context_digest",
            "expected text that fits '^[0-9a-f]{64}$', found 'x'",
        ),
        (b"{}", "/layout_sha256", "expected a value, found none"),
        (b'{"a/b~": 1}', "/a~1b~0", "expected no field of this name"),
        (b'{"resident_s": 0}', "/resident_s", "expected greater than or equal to 1, found 0"),
    ],
)
def test_each_wrong_part_says_what_was_expected(
    client: TestClient, keys: dict[str, str], body: bytes, pointer: str, detail: str
) -> None:
    headers = {**bearer(keys["operator"]), "Idempotency-Key": "k", "Content-Type": "application/json"}
    answer = client.post("/api/v1/restores", headers=headers, content=body)
    assert answer.status_code == 422
    assert {"pointer": pointer, "detail": detail} in answer.json()["errors"]
    assert f"{pointer or 'body'}: " in answer.json()["detail"]


def test_body_over_the_limit_is_413(client: TestClient, keys: dict[str, str]) -> None:
    answer = client.post("/api/v1/layouts", headers=bearer(keys["operator"]), content=b"x" * 4_200_000)
    assert (answer.status_code, answer.json()["code"]) == (413, "content-too-large")


@pytest.mark.parametrize(
    ("sender", "limit"),
    [
        (None, STRANGERS_BODY_BYTES),
        ("sgk_00000000_" + "A" * 51, STRANGERS_BODY_BYTES),
        ("operator", CLIENTS_BODY_BYTES),
        ("worker", LARGEST_BODY_BYTES),
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/restores", "/api/v1/sources", "/login"])
def test_no_route_reads_more_than_its_sender_may_send(
    client: TestClient, keys: dict[str, str], path: str, sender: str | None, limit: int
) -> None:
    """Driven as ASGI, since the test client collects a body before it sends it."""
    read, answers, step = 0, [], 100_000

    async def receive() -> dict[str, Any]:
        nonlocal read
        read += step
        return {"type": "http.request", "body": b" " * step, "more_body": read < 200_000_000}

    async def send(message: dict[str, Any]) -> None:
        answers.append(message)

    key = [(b"authorization", f"Bearer {keys.get(sender, sender)}".encode())] if sender else []
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"content-type", b"application/json" if "api" in path else FORM), *key],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "scheme": "http",
    }
    asyncio.run(client.app(scope, receive, send))  # type: ignore[arg-type]
    # A form's own parser refuses a field over 1 MB.
    assert answers[0]["status"] == (400 if path == "/login" and limit > STRANGERS_BODY_BYTES else 413)
    assert read <= limit + step


def test_get_has_a_strong_etag_and_304(ring: Ring) -> None:
    restore = ring.start_restore()
    for path in (f"/api/v1/restores/{restore['id']}", "/api/v1/restores", "/api/v1/layouts", "/api/v1/nodes"):
        first = ring.client.get(path, headers=ring.operator_headers)
        assert first.headers["etag"].startswith('"')
        headers = {**ring.operator_headers, "If-None-Match": first.headers["etag"]}
        again = ring.client.get(path, headers=headers)
        assert (again.status_code, again.content) == (304, b"")


def test_lists_page_by_key_to_the_end(client: TestClient, keys: dict[str, str]) -> None:
    headers = bearer(keys["operator"])
    for number in (1, 2, 3, 4, 5):
        body = {"repository": "example/code", "commit": f"{number:040d}"}
        assert client.post("/api/v1/sources", headers=headers, json=body).status_code == 201
    seen, token = [], ""
    while True:
        params = {"page_size": 2, **({"page_token": token} if token else {})}
        answer = client.get("/api/v1/sources", headers=headers, params=params).json()
        seen += [source["commit"] for source in answer["sources"]]
        token = answer["next_page_token"]
        if not token:
            break
    assert seen == [f"{number:040d}" for number in (5, 4, 3, 2, 1)]


@pytest.mark.parametrize("token", ["x", "AAAA", "é", "A" * 60])
def test_forged_page_token_is_400(client: TestClient, keys: dict[str, str], token: str) -> None:
    answer = client.get("/api/v1/sources", headers=bearer(keys["viewer"]), params={"page_token": token})
    assert (answer.status_code, answer.json()["code"]) == (400, "page-token-invalid")


def test_page_token_fits_its_own_list_and_filters_only(client: TestClient, keys: dict[str, str]) -> None:
    headers = bearer(keys["operator"])
    for number in (1, 2):
        client.post("/api/v1/sources", headers=headers, json={"repository": "r", "commit": f"{number:040d}"})
    listed = client.get("/api/v1/sources", headers=headers, params={"page_size": 1}).json()
    params = {"page_token": listed["next_page_token"]}
    assert client.get("/api/v1/sources", headers=headers, params=params).status_code == 200
    assert client.get("/api/v1/images", headers=headers, params=params).status_code == 400
    restores = client.get("/api/v1/restores", headers=headers, params={**params, "state": "waiting"})
    assert (restores.status_code, restores.json()["code"]) == (400, "page-token-invalid")


def test_page_sizes(client: TestClient, keys: dict[str, str]) -> None:
    headers = bearer(keys["operator"])
    for number in (1, 2, 3):
        client.post("/api/v1/sources", headers=headers, json={"repository": "r", "commit": f"{number:040d}"})

    def ask(size: object) -> Any:
        return client.get("/api/v1/sources", headers=headers, params={"page_size": size})

    assert [len(ask(size).json()["sources"]) for size in (0, 2, 10**30)] == [3, 2, 3]
    assert (ask(-1).status_code, ask(-1).json()["code"]) == (400, "page-size-invalid")
    assert (ask("x").status_code, ask("x").json()["code"]) == (422, "validation-failed")


def test_unknown_query_parameter_is_refused_by_name(client: TestClient, keys: dict[str, str]) -> None:
    answer = client.get("/api/v1/sources", headers=bearer(keys["viewer"]), params={"page_sizes": "3"})
    assert (answer.status_code, answer.json()["code"]) == (422, "validation-failed")
    assert answer.json()["errors"][0]["pointer"] == "/page_sizes"
    assert "expected one of page_size, page_token" in answer.json()["detail"]
    assert client.get("/api/v1/sources", params={"page_sizes": "3"}).status_code == 401
    twice = client.get("/api/v1/sources?page_size=1&page_size=2", headers=bearer(keys["viewer"]))
    assert (twice.status_code, twice.json()["errors"][0]["pointer"]) == (422, "/page_size")
    assert "expected page_size once, found 2 times" in twice.json()["detail"]


@pytest.mark.parametrize("path", ["/health", "/api/v1/sources", "/login", "/openapi.json"])
def test_head_is_get_without_a_body(client: TestClient, keys: dict[str, str], path: str) -> None:
    got = client.get(path, headers=bearer(keys["viewer"]))
    head = client.head(path, headers=bearer(keys["viewer"]))
    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-type", "content-length", "etag"):
        assert head.headers.get(name) == got.headers.get(name)


def test_every_problem_an_operation_declares_exists_and_has_an_example(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    for path, known in document["paths"].items():
        for method, operation in known.items():
            if not path.startswith("/api/"):
                continue
            assert operation["operationId"]
            problems = [
                (int(status), example["value"])
                for status, response in operation["responses"].items()
                for example in response.get("content", {}).get(MEDIA_TYPE, {}).get("examples", {}).values()
            ]
            assert {value["code"] for _, value in problems} >= {"unauthenticated", "scope-missing"}, (
                method,
                path,
            )
            for status, value in problems:
                assert PROBLEMS[value["code"]][0] == status == value["status"]


def test_client_is_never_told_of_a_row_that_was_not_committed(
    settings: Settings, database: Database, keys: dict[str, str], messages: RecordedMessages
) -> None:
    """FastAPI's default ends a dependency after the response is sent: then this would answer 201."""

    class FailsAtCommit(Database):
        def transaction(self) -> Any:
            return self._failing(super().transaction())

        @staticmethod
        def _failing(inner: Any) -> Any:
            def fail(_session: Session) -> None:
                raise OperationalError("COMMIT", {}, Exception("connection lost"))

            @contextmanager
            def run() -> Any:
                with inner as session:
                    yield session
                    before_commit(session, fail)

            return run()

    app = create_app(settings, database=FailsAtCommit(database.engine), messages=messages)
    with TestClient(app, raise_server_exceptions=False) as client:
        body = {"repository": "r", "commit": "1" * 40}
        answer = client.post("/api/v1/sources", headers=bearer(keys["operator"]), json=body)
    assert (answer.status_code, answer.json()["code"]) == (503, "database-unavailable")


def test_database_that_is_away_is_503_not_500(settings: Settings, messages: RecordedMessages) -> None:
    away = settings.model_copy(
        update={"database_url": type(settings.database_url)("postgresql+psycopg://x@127.0.0.1:1/x")}
    )  # type: ignore[misc]
    with TestClient(create_app(away, messages=messages), raise_server_exceptions=False) as client:
        assert client.get("/health").status_code == 200
        answer = client.get("/api/v1/restores", headers=bearer("sgk_00000000_" + "A" * 51))
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")


def test_security_headers_are_on_every_answer(client: TestClient) -> None:
    for path in ("/health", "/api/v1/restores", "/nothing"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
