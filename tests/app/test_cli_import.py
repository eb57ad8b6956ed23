"""``sparkgate import`` and ``declare`` against the real API: counts, refusals, again, cut off."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner, Result

from app.cli import cli
from app.cli import client as cli_client
from app.db.session import Database
from app.models import ReceiptOrigin, ReceiptRow
from tests.app.evidence_documents import publication, raw, receipt

# `app.cli` holds the commands under the names of their modules.
import_command = importlib.import_module("app.cli.import_documents")
declare_command = importlib.import_module("app.cli.declare")


class OverTestClient(cli_client.ApiClient):
    """The command line's client, its requests answered in this process."""

    def __init__(self, http: TestClient, *, api_key: str) -> None:
        self.base_url = "http://control"
        self._headers = {"Authorization": f"Bearer {api_key}"}
        self._test_client = http

    def _response(self, method: str, path: str, **arguments: Any) -> Any:
        headers = {**self._headers, **arguments.pop("headers", {})}
        return self._test_client.request(method, path, headers=headers, **arguments)


@pytest.fixture
def api(client: TestClient, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> OverTestClient:
    opened = OverTestClient(client, api_key=keys["operator"])
    for command in (import_command, declare_command):
        monkeypatch.setattr(command, "open_api", lambda *_, **__: opened)
    return opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two receipts, a publication and a broken file, in folders."""
    place = tmp_path / "evidence"
    (place / "deep").mkdir(parents=True)
    (place / "a.json").write_bytes(raw(receipt()))
    (place / "deep" / "b.json").write_bytes(raw(receipt(case__restore_oracle="spark")))
    (place / "deep" / "c.json").write_bytes(raw(publication()))
    (place / "deep" / "broken.json").write_bytes(b'{"a": 1, "a": 2}')
    (place / "notes.txt").write_text("no document")
    (place / "link.json").symlink_to(place / "a.json")
    return place


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def test_a_folder_is_imported_with_counts_and_reasons(
    api: OverTestClient, folder: Path, database: Database
) -> None:
    done = run("import", str(folder), "--repository", "example/engine", "--commit", "c" * 40, "--json")
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert {name: told[name] for name in ("files", "new", "known", "refused")} == {
        "files": 4,
        "new": 3,
        "known": 0,
        "refused": 1,
    }
    assert told["outcomes"] == {"implemented": 1, "qualified": 1, "rejected": 1}
    (refusal,) = told["refusals"]
    assert (refusal["code"], refusal["pointer"]) == ("document-refused", "/a")
    assert refusal["file"].endswith("deep/broken.json")
    with database.reading() as session:
        places = {(one.repository, one.path, one.commit) for one in session.query(ReceiptOrigin)}
    assert places == {("example/engine", path, "c" * 40) for path in ("a.json", "deep/b.json", "deep/c.json")}


def test_an_import_again_changes_nothing(api: OverTestClient, folder: Path, database: Database) -> None:
    run("import", str(folder))
    again = run("import", str(folder), "--jobs", "1")
    assert again.exit_code == 1
    assert "4 documents: 0 new, 3 known, 1 refused" in again.stdout
    with database.reading() as session:
        assert session.query(ReceiptRow).count() == 3


def test_an_index_names_the_places_and_replaced_versions_come_first(
    api: OverTestClient, tmp_path: Path, database: Database
) -> None:
    (tmp_path / "new.json").write_bytes(raw(receipt()))
    (tmp_path / "old.json").write_bytes(raw(receipt(case__restore_oracle="spark")))
    entries = [
        {"file": "new.json", "repo": "r", "path": "v.json", "commit": "b" * 40},
        {"file": "old.json", "repo": "r", "path": "v.json", "commit": "a" * 40, "superseded": True},
    ]
    (tmp_path / "INDEX.json").write_text(json.dumps({"files": entries}))
    done = run("import", str(tmp_path), "--json")
    assert (done.exit_code, json.loads(done.stdout)["new"]) == (0, 2)
    with database.reading() as session:
        rows = session.query(ReceiptOrigin).order_by(ReceiptOrigin.created_at).all()
        assert [one.commit[0] for one in rows] == ["a", "b"]


def test_an_index_names_nothing_outside_its_folder(api: OverTestClient, tmp_path: Path) -> None:
    (tmp_path / "INDEX.json").write_text(json.dumps({"files": [{"file": "../secret.json"}]}))
    done = run("import", str(tmp_path))
    assert done.exit_code == 2
    assert "outside the folder" in done.output


@pytest.mark.parametrize("index", ["[]", "{", '{"files": [1]}', '{"files": [{"file": 1}]}'])
def test_an_index_that_is_none_is_named(api: OverTestClient, tmp_path: Path, index: str) -> None:
    (tmp_path / "INDEX.json").write_text(index)
    done = run("import", str(tmp_path))
    assert done.exit_code == 2
    assert "INDEX.json" in done.output


def test_what_is_not_there_is_named(api: OverTestClient, tmp_path: Path) -> None:
    done = run("import", str(tmp_path / "nowhere"))
    assert done.exit_code == 2
    assert "expected a file or a folder, found nothing" in done.output


def test_a_key_without_the_scope_ends_the_import(
    client: TestClient, keys: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer = OverTestClient(client, api_key=keys["viewer"])
    monkeypatch.setattr(import_command, "open_api", lambda *_, **__: viewer)
    done = run("import", str(folder))
    assert done.exit_code == 2
    assert "403 scope-missing" in done.output


def test_a_declaration_prints_what_the_rules_made_of_it(api: OverTestClient, database: Database) -> None:
    made = api.post("/api/v1/receipts", content=raw(receipt()))
    done = run("declare", made["sha256"], "--reason", "compared by hand")
    assert done.exit_code == 0
    assert "declared by ada/operator" in done.stdout
    unknown = run("declare", "0" * 64, "--reason", "r", "--json")
    assert unknown.exit_code == 2
    assert "404 not-found" in json.loads(unknown.stdout)["error"]


@pytest.mark.parametrize("index", [None, '{"files": []}'])
def test_a_folder_without_documents_is_said_to_be_one(
    api: OverTestClient, folder: Path, tmp_path: Path, database: Database, index: str | None
) -> None:
    """Also beside one that has some: then nothing is sent, so that what was mistyped is not missed."""
    empty = tmp_path / "empty"
    (empty / "deep").mkdir(parents=True)
    (empty / "deep" / "notes.txt").write_text("no document")
    if index is not None:
        (empty / "INDEX.json").write_text(index)
    for given in ([str(empty)], [str(folder), str(empty)]):
        said = run("import", *given)
        assert (said.exit_code, said.stdout) == (2, "")
        assert f"no documents found in {empty}" in said.stderr
        told = run("import", *given, "--json")
        assert told.exit_code == 2
        assert json.loads(told.stdout)["error"].startswith(f"no documents found in {empty}")
    with database.reading() as session:
        assert session.query(ReceiptRow).count() == 0
