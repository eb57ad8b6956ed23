"""The whole corpus through the API comes out as without a server: outcome, codes, grade, deployable."""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.cli.import_folder import FoundFile, Place
from app.cli.import_sending import parts_of
from app.config import Settings
from app.db.session import Database
from app.main import create_app
from tests.app.conftest import RecordedMessages
from tests.app.test_cli_import import OverTestClient
from tests.data.evidence_verdicts import corpus_index, corpus_stored, stored_lines

# `app.cli` holds the commands under the names of their modules.
import_documents = importlib.import_module("app.cli.import_documents")


@pytest.fixture
def evidence(shared_dir: Path) -> Path:
    folder = shared_dir / "evidence"
    if not (folder / "INDEX.json").is_file():
        pytest.skip(f"evidence corpus: expected {folder}/INDEX.json, found none; set SPARKGATE_SHARED")
    return folder


@pytest.fixture
def attested(settings: Settings, database: Database) -> TestClient:
    """A server with the grade that the labels of the corpus were made for."""
    own = settings.model_copy(update={"deployable_grade": "attested"})
    return TestClient(create_app(own, database=database, messages=RecordedMessages()))


def append(client: TestClient, key: str, raw: bytes, entry: dict[str, Any]) -> Any:
    place = {"repository": entry["repo"], "path": entry["path"]}
    if entry.get("commit"):
        place["commit"] = entry["commit"]
    headers = {"Authorization": f"Bearer {key}"}
    return client.post("/api/v1/receipts", params=place, content=raw, headers=headers)


def one_by_one(client: TestClient, key: str, evidence: Path, entries: list[Any]) -> Iterator[tuple[Any, int]]:
    for entry in entries:
        answer = append(client, key, (evidence / entry["file"]).read_bytes(), entry)
        yield entry, answer.status_code


def together(client: TestClient, key: str, evidence: Path, entries: list[Any]) -> Iterator[tuple[Any, int]]:
    """The way `sparkgate import` sends them."""
    api = OverTestClient(client, api_key=key)
    found = [
        FoundFile(
            path=evidence / entry["file"],
            place=Place(repository=entry["repo"], path=entry["path"], commit=entry.get("commit") or ""),
        )
        for entry in entries
    ]
    of_file = dict(zip([one.path for one in found], entries, strict=True))
    for part in parts_of(iter(found)):
        for file, status, _ in import_documents._send(api, part):
            yield of_file[file.path], status


@pytest.mark.parametrize("sent", [one_by_one, together])
def test_the_corpus_comes_out_as_without_a_server(
    evidence: Path, attested: TestClient, keys: dict[str, str], sent: Any
) -> None:
    entries = sorted(corpus_index(evidence), key=lambda one: not one.get("superseded"))
    refused = []
    for entry, status in sent(attested, keys["operator"], evidence, entries):
        assert status in (200, 201, 422)
        if status == 422:
            refused.append(entry["file"])
    assert all("_malformed/" in file for file in refused)
    assert refused
    _, lines = stored_lines()
    headers = {"Authorization": f"Bearer {keys['viewer']}"}
    different = []
    for name, own in corpus_stored(evidence).items():
        line = lines[name]
        shown = attested.get(f"/api/v1/receipts/{own.facts.sha256}", headers=headers).json()
        found = [one for one in shown["verdicts"] if one["kind"] == "receipt"]
        main = next(one for one in found if one["capability"] == line["capability"])
        document = attested.get(f"/api/v1/verdicts/{main['id']}", headers=headers).json()["document"]
        result = {
            "outcome": main["outcome"],
            "deployable": main["deployable"],
            "deployable_reason": main["deployable_reason"],
            "grade": main["evidence_grade"],
            "blocking": sorted({one["code"] for one in document["findings"] if one["blocks"]}),
            "beside": sorted({one["code"] for one in document["findings"] if one["row"] > 7}),
            "others": {one["capability"]: one["outcome"] for one in found if one is not main},
        }
        expected = {**{key: line[key] for key in result if key != "others"}, "others": line.get("others", {})}
        if result != expected:
            different.append(
                (name, {k: (result[k], expected[k]) for k in result if result[k] != expected[k]})
            )
    assert not different, json.dumps(different[:10], indent=1)
