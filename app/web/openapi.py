"""The OpenAPI document made complete: what every operation has in common is said once, here.

FastAPI knows schemas and routes. Added to that: the problems any operation can answer with an example each,
examples of requests and answers, headers that are required, and links from what was made to where it is read.
"""

from collections.abc import Iterator
from typing import Any, Final

from fastapi import FastAPI

from app.web.problems import MEDIA_TYPE, PROBLEMS, problem_responses

Node = dict[str, Any]
METHODS: Final = ("get", "post", "put", "patch", "delete")
_JSON: Final = "application/json"
_TEXTS: Final = {"uuid": "7e1c0000-0000-4000-8000-000000000000", "date-time": "2026-01-02T03:04:05Z"}


def install_openapi(app: FastAPI) -> None:
    """Have the application give out the completed document."""
    plain = app.openapi
    kept: list[Node] = []

    def completed() -> Node:
        if not kept:
            kept.append(complete(plain()))
        return kept[0]

    app.openapi = completed  # type: ignore[method-assign]


def complete(document: Node) -> Node:
    """The document with everything that FastAPI leaves out; it is changed in place."""
    for path, method, operation in operations(document):
        _say_required_headers(operation, method=method)
        _add_problems(operation, method=method)
        _add_examples(operation, document=document)
        if method == "post":
            _add_link(operation, path=path, document=document)
    return document


def operations(document: Node) -> Iterator[tuple[str, str, Node]]:
    """Path, method and operation, in the order of the document."""
    for path, item in document["paths"].items():
        yield from ((path, method, item[method]) for method in METHODS if method in item)


def _say_required_headers(operation: Node, *, method: str) -> None:
    """What we answer 400 or 428 without is optional for FastAPI, and `null` cannot be sent at all."""
    for parameter in operation.get("parameters", []):
        choices = [one for one in parameter["schema"].get("anyOf", []) if one.get("type") != "null"]
        if len(choices) == 1:
            rest = {name: value for name, value in parameter["schema"].items() if name != "anyOf"}
            parameter["schema"] = {**choices[0], **rest}
        if parameter["name"] == "Idempotency-Key" or (parameter["name"] == "If-Match" and method != "post"):
            parameter["required"] = True


def _add_problems(operation: Node, *, method: str) -> None:
    responses = operation["responses"]
    for status, response in problem_responses(*_general(operation, method=method), everywhere=False).items():
        examples = response["content"][MEDIA_TYPE]["examples"]
        place = responses.setdefault(str(status), {"description": response["description"], "content": {}})
        known = place.setdefault("content", {}).setdefault(MEDIA_TYPE, {}).setdefault("examples", {})
        known.update({code: example for code, example in examples.items() if code not in known})
    for status, response in responses.items():
        if status >= "400":
            response["content"].pop(_JSON, None)
            response["content"][MEDIA_TYPE]["schema"] = {"$ref": "#/components/schemas/ProblemBody"}


def _general(operation: Node, *, method: str) -> Iterator[str]:
    """The problems that follow from what kind of operation it is."""
    names = {parameter["name"] for parameter in operation.get("parameters", [])}
    if operation.get("security"):
        yield from ("unauthenticated", "key-refused", "scope-missing", "rate-limited", "validation-failed")
    if method != "get":
        yield "conflict"
    if "requestBody" in operation:
        yield from ("bad-request", "content-too-large", "refused", "unsupported-media-type")
    if "page_token" in names:
        yield from ("page-size-invalid", "page-token-invalid")
    if "Idempotency-Key" in names:
        yield from ("idempotency-key-missing", "idempotency-in-flight", "idempotency-key-reused")
    if "If-Match" in names:
        yield from ("precondition-failed", "precondition-required")[: 1 if method == "post" else 2]
    yield from ("internal-error", "database-unavailable")


def _add_examples(operation: Node, *, document: Node) -> None:
    answers = [response for status, response in operation["responses"].items() if status < "400"]
    for place in (operation.get("requestBody", {}), *answers):
        content = place.get("content", {}).get(_JSON)
        if content and content.get("schema") and not {"example", "examples"} & set(content):
            content["example"] = example_of(content["schema"], document=document)


def example_of(schema: Node, *, document: Node) -> Any:
    """A value that fits a schema: its own example where it has one, else one of the right shape."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    for name in ("examples", "enum"):
        if schema.get(name):
            return schema[name][0]
    for name in ("example", "const", "default"):
        if schema.get(name) is not None:
            return schema[name]
    either: list[Node] = schema.get("anyOf") or schema.get("allOf") or []
    choices = [one for one in either if one.get("type") != "null"]
    return example_of(choices[0], document=document) if choices else _plain(schema, document=document)


def _plain(schema: Node, *, document: Node) -> Any:
    match schema.get("type"):
        case "object":
            parts = schema.get("properties", {})
            return {name: example_of(part, document=document) for name, part in parts.items()}
        case "array":
            return [example_of(schema["items"], document=document)]
        case "integer":
            return int(schema.get("minimum", 1))
        case "number":
            return schema.get("minimum", 1.0)
        case "boolean":
            return False
        case "string":
            return _TEXTS.get(schema.get("format", ""), "text")
    return {}


def _add_link(operation: Node, *, path: str, document: Node) -> None:
    """From what a POST made to the GET that shows it."""
    for target, method, shown in operations(document):
        head, _, parameter = target.rpartition("/")
        if method != "get" or head != path or not parameter.startswith("{"):
            continue
        name = parameter.strip("{}")
        for status in ("200", "201", "202"):
            content = operation["responses"].get(status, {}).get("content", {})
            schema = content.get(_JSON, {}).get("schema", {})
            made = example_of(schema, document=document)
            field = name if name in made else "id"
            if field in made:
                operation["responses"][status]["links"] = {
                    "shown": {
                        "operationId": shown["operationId"],
                        "parameters": {name: f"$response.body#/{field}"},
                    }
                }


def problem_codes(operation: Node) -> set[str]:
    """The problem codes an operation says it can answer."""
    found = {
        code
        for response in operation["responses"].values()
        for code in response.get("content", {}).get(MEDIA_TYPE, {}).get("examples", {})
    }
    return found & set(PROBLEMS)
