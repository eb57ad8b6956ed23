"""The OpenAPI document says everything: ids, examples, every problem, closed lists, bounded integers."""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from fastapi.testclient import TestClient

from app.web.openapi import operations
from app.web.problems import MEDIA_TYPE, PROBLEMS

WITHOUT_KEY = {"health", "ready"}
# A number beyond this cannot be told from its neighbour in JavaScript; larger ones would have to be strings.
EXACT = 2**53 - 1
# Texts with a closed list of values, wherever they stand.
CLOSED = {"state", "outcome", "decision"}


@pytest.fixture
def document(client: TestClient) -> dict[str, Any]:
    return client.get("/openapi.json").json()  # type: ignore[no-any-return]


def test_every_operation_has_a_stable_id_a_summary_and_a_tag(document: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(ids) == len(set(ids)) >= 50
    for _, _, operation in operations(document):
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", operation["operationId"])
        assert operation["summary"], operation["operationId"]
        assert operation["tags"], operation["operationId"]


def test_every_operation_but_health_wants_a_key(document: dict[str, Any]) -> None:
    free = {op["operationId"] for _, _, op in operations(document) if not op.get("security")}
    assert free == WITHOUT_KEY


def test_every_operation_answers_problems_with_examples(document: dict[str, Any]) -> None:
    general = {"unauthenticated", "key-refused", "scope-missing", "rate-limited", "validation-failed"}
    for path, method, operation in operations(document):
        found = set()
        for status, response in operation["responses"].items():
            if status < "400":
                continue
            assert set(response["content"]) == {MEDIA_TYPE}, (path, method, status)
            content = response["content"][MEDIA_TYPE]
            assert content["schema"] == {"$ref": "#/components/schemas/ProblemBody"}
            assert content["examples"], (path, method, status)
            for code, example in content["examples"].items():
                assert example["value"]["code"] == code
                assert PROBLEMS[code][0] == int(status) == example["value"]["status"], (path, method, code)
                check(document, content["schema"], example["value"])
                found.add(code)
        assert {"internal-error", "database-unavailable"} <= found
        assert operation["operationId"] in WITHOUT_KEY or general <= found, (path, method, general - found)


def check(document: dict[str, Any], schema: dict[str, Any], value: Any) -> None:
    complete = {**schema, "components": document["components"]}
    jsonschema_rs.validator_for(complete, validate_formats=True).validate(value)


def test_every_problem_type_resolves_to_our_page(client: TestClient) -> None:
    page = client.get("/docs/problems", headers={"Accept": "text/html"})
    assert page.status_code == 200
    for code in PROBLEMS:
        assert f'id="{code}"' in page.text, code


def test_every_answer_that_is_a_text_has_an_example(document: dict[str, Any]) -> None:
    texts = {
        operation["operationId"]: answer["content"]["text/plain"]
        for _, _, operation in operations(document)
        for status, answer in operation["responses"].items()
        if status < "400" and "text/plain" in answer.get("content", {})
    }
    assert len(texts) >= 3
    assert [name for name, content in texts.items() if not content.get("example")] == []


def test_every_body_and_every_good_answer_has_an_example_that_fits(document: dict[str, Any]) -> None:
    for _, _, operation in operations(document):
        good = [one for status, one in operation["responses"].items() if status < "400"]
        assert good, operation["operationId"]
        for place in (operation.get("requestBody", {}), *good):
            content = place.get("content", {}).get("application/json")
            if content is not None:
                assert "example" in content, operation["operationId"]
                check(document, content["schema"], content["example"])


def test_no_operation_advertises_errors_of_another_shape(document: dict[str, Any]) -> None:
    assert "HTTPValidationError" not in str(document["paths"])


def parts(schema: Any, *, name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema within a schema, with the name of the property it belongs to."""
    if isinstance(schema, dict):
        if "type" in schema or "anyOf" in schema or "enum" in schema:
            yield name, schema
        for key, value in schema.items():
            if key == "properties":
                for field, part in value.items():
                    yield from parts(part, name=field)
            elif key not in {"examples", "example", "default"}:
                yield from parts(value, name=name if key in {"anyOf", "items"} else key)
    elif isinstance(schema, list):
        for part in schema:
            yield from parts(part, name=name)


def test_states_and_outcomes_are_closed_lists(document: dict[str, Any]) -> None:
    for name, schema in parts(document["components"]["schemas"]):
        if name in CLOSED and schema.get("type") == "string":
            assert "enum" in schema or "const" in schema, (name, schema)


def test_integers_that_come_in_are_bounded(document: dict[str, Any]) -> None:
    """An unbounded one reaches the database, which has 64 bits, and is no number in other languages."""
    incoming = {name: one for name, one in document["components"]["schemas"].items() if name.endswith("Body")}
    parameters = [
        {**parameter["schema"], "title": f"{operation['operationId']} {parameter['name']}"}
        for _, _, operation in operations(document)
        for parameter in operation.get("parameters", [])
        if parameter["name"] != "page_size"
    ]
    for name, schema in [*parts(incoming), *parts(parameters)]:
        if schema.get("type") == "integer" and name != "status":
            assert "minimum" in schema or "exclusiveMinimum" in schema, (name, schema)
            assert schema.get("maximum", EXACT + 1) <= EXACT, (name, schema)


def test_what_was_made_links_to_where_it_is_read(document: dict[str, Any]) -> None:
    linked = {
        operation["operationId"]: link["operationId"]
        for _, _, operation in operations(document)
        for response in operation["responses"].values()
        for link in response.get("links", {}).values()
    }
    assert linked == {
        "create_account": "get_account",
        "create_key": "get_key",
        "register_layout": "get_layout",
        "register_oracle": "get_oracle",
        "register_source": "get_source",
        "register_image": "get_image",
        "add_profile_document": "get_profile_document",
        "append_receipt": "get_receipt",
        "declare_receipts": "get_declaration",
        "grant_exception": "get_exception",
        "request_restore": "get_restore",
        "request_readback": "get_readback",
        "request_evidence": "get_evidence",
    }
