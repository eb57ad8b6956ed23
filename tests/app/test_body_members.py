"""A member given twice in a body: refused by its pointer, whichever operation it is sent to."""

from uuid import uuid4

import pytest
from fastapi.testclient import TestClient

from app.web.openapi import operations


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize(
    ("content", "pointers"),
    [
        ('{"context_digest": "a", "context_digest": "b"}', ["/context_digest"]),
        ('{"fault": {"kind": "a", "kind": "a"}}', ["/fault/kind"]),
        ('{"a": [{}, {"b/~": 1, "c": 2, "b/~": 1, "b/~": 1}]}', ["/a/1/b~1~0"]),
        ('{"a": 1, "\\u0061": 2}', ["/a"]),
        ('{"b": {"c": 1, "c": 2}, "a": 1, "b": 2}', ["/b", "/b/c"]),
        ("{" + '"a": 1, ' * 2 + ", ".join(f'"{n}": 1, "{n}": 1' for n in range(50)) + "}", None),
    ],
)
def test_a_member_given_twice_is_pointed_at(
    client: TestClient, keys: dict[str, str], content: str, pointers: list[str] | None
) -> None:
    """Of an order with two snapshots neither is restored: nobody knows which was meant."""
    headers = {"Idempotency-Key": str(uuid4()), "Content-Type": "application/json"}
    asked = {"headers": {**headers, **bearer(keys["operator"])}, "content": content}
    answer = client.post("/api/v1/restores", **asked)
    assert (answer.status_code, answer.json()["code"]) == (422, "validation-failed")
    found = [part["pointer"] for part in answer.json()["errors"]]
    assert sorted(found) == pointers if pointers is not None else len(found) == 10
    assert "once, found" in answer.json()["detail"]
    assert client.post("/api/v1/restores", headers=headers, content=content).status_code == 401


def test_no_operation_takes_the_last_of_two_members(client: TestClient, keys: dict[str, str]) -> None:
    """Every body that FastAPI parses; those of documents the core reads, as strictly."""
    asked = 0
    for path, method, operation in operations(client.get("/openapi.json").json()):
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        if not content.get("schema", {}).keys() & {"$ref", "anyOf"}:
            continue
        said = {"Idempotency-Key": str(uuid4()), "If-Match": "*", "Content-Type": "application/json"}
        answer = client.request(
            method,
            path.replace("{", "").replace("}", ""),
            headers={**bearer(keys["admin"]), **said},
            content=b'{"a": 1, "a": 2}',
        )
        assert answer.status_code == 422, (method, path)
        assert answer.json()["errors"] == [{"pointer": "/a", "detail": "expected a once, found 2 times"}]
        asked += 1
    assert asked >= 20
