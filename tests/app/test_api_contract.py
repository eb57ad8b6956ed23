"""Schemathesis over the whole OpenAPI document: no 5xx, no undeclared status, no answer of another shape.

Each operation gets generated requests, good and bad; then chains follow the document's links. Longer, and
every time with other requests: `SPARKGATE_CONTRACT_EXAMPLES=200 pytest tests/app/test_api_contract.py`.
"""

import os
import random
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis.errors import FlakyStrategyDefinition, Unsatisfiable
from schemathesis import GenerationMode, checks
from schemathesis.specs.openapi import checks as openapi_checks

from app.config import Settings
from app.db.session import Database
from app.ledger.service.signing import create_key_file
from app.main import create_app
from app.web.openapi import operations
from tests.app.conftest import RecordedMessages
from tests.app.ring import Ring

EXAMPLES: Final = int(os.environ.get("SPARKGATE_CONTRACT_EXAMPLES", "4"))
# What holds for every answer, whatever was asked. Not that what fits is accepted: a digest that fits its
# schema names nothing.
CHECKS: Final = [
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
]
# Words of a rank worker, which only its node's key may say.
WORKER_TAGS: Final = {"rank workers"}
WORKER_OPERATIONS: Final = {
    "register_node",
    "start_rank_worker",
    "record_inventory",
    "record_root_document",
    "pin_root_document",
}


def generated(examples: int, *, steps: int = 1) -> hypothesis_settings:
    """Always the same requests in `make test`; a longer run searches on."""
    return hypothesis_settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=EXAMPLES <= 4,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    """With a key that signs the ledger's checkpoints: without one they are a 503, as declared."""
    path = tmp_path / "ledger.key"
    create_key_file(path, origin="example.org/log")
    return Settings.model_validate({**settings.model_dump(exclude_unset=True), "ledger_key_file": path})


@pytest.fixture
def schema(ring: Ring) -> Any:
    """The document of an application whose ring has one running restore."""
    ring.start_restore()
    return schemathesis.openapi.from_asgi("/openapi.json", ring.client.app)


def headers_for(ring: Ring, definition: dict[str, Any]) -> dict[str, str]:
    by_worker = definition["operationId"] in WORKER_OPERATIONS or WORKER_TAGS & set(definition["tags"])
    return {
        "Authorization": f"Bearer {ring.keys['worker' if by_worker else 'admin']}",
        "Idempotency-Key": str(uuid4()),
        "If-Match": "*",
        "Fencing-Token": "1",
    }


def send(ring: Ring, case: Any, *, found: list[str]) -> None:
    """Ask, check, and keep what was wrong: a failure that is raised is asked again, in another state."""
    response = case.call(headers=headers_for(ring, case.operation.definition.raw))
    keep_failures(case, response, found=found)


def keep_failures(case: Any, response: Any, *, found: list[str]) -> None:
    try:
        case.validate_response(response, checks=CHECKS)
    except BaseExceptionGroup as failures:
        found.append(f"{case.operation.label}: {[str(one)[:400] for one in failures.exceptions]}")


def test_every_operation_keeps_its_contract(ring: Ring, schema: Any) -> None:
    asked, found = set(), list[str]()
    for result in schema.get_all_operations():
        operation = result.ok()
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

            @generated(EXAMPLES)
            @given(case=operation.as_strategy(generation_mode=mode))
            def ask(case: Any) -> None:
                send(ring, case, found=found)

            try:
                ask()
            except Unsatisfiable:
                # Nothing can be wrong with a request that has no parts.
                assert mode is GenerationMode.NEGATIVE
                assert "requestBody" not in operation.definition.raw
        asked.add(operation.definition.raw["operationId"])
    document = ring.client.get("/openapi.json").json()
    assert asked == {operation["operationId"] for _, _, operation in operations(document)}
    assert found == []


def test_chains_of_linked_operations_keep_their_contract(ring: Ring, schema: Any) -> None:
    answered: set[str] = set()
    found: list[str] = []

    class Chains(schema.as_state_machine()):  # type: ignore[misc]
        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            return {"headers": headers_for(ring, case.operation.definition.raw)}

        def validate_response(self, response: Any, case: Any, **_: Any) -> None:
            if response.status_code < 300:
                answered.add(case.operation.definition.raw["operationId"])
            keep_failures(case, response, found=found)

    for number in range(EXAMPLES * 4):
        random.seed(number)
        try:
            Chains.run(settings=hypothesis_settings(generated(EXAMPLES, steps=6), derandomize=False))
        except FlakyStrategyDefinition:
            # What can follow depends on what was answered before, and the database remembers; what was wrong
            # stands in `found` all the same.
            continue
    assert found == []
    assert len(answered) >= 10


def test_the_document_is_one_for_every_application(
    settings: Settings, database: Database, ring: Ring
) -> None:
    other = create_app(settings, database=database, messages=RecordedMessages())
    assert other.openapi() == ring.client.app.openapi()  # type: ignore[attr-defined]
