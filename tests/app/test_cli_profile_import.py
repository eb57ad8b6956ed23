"""``sparkgate profile import`` against the real API: folders, indexes, templates, refusals, again."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.db.session import Database
from app.models import ProfileDocument, ProfilePlace
from tests.app import profile_rows as rows
from tests.app.test_cli_import import OverTestClient, run
from tests.core import profile_rig as rig

command = importlib.import_module("app.cli.profile_import")


@pytest.fixture
def api(client: TestClient, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> OverTestClient:
    opened = OverTestClient(client, api_key=keys["operator"])
    monkeypatch.setattr(command, "open_api", lambda *_, **__: opened)
    return opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A contract with what belongs to it, two documents of no use, a broken one, and links out."""
    place = tmp_path / "spark"
    for paper in rows.everything():
        (place / paper.path).parent.mkdir(parents=True, exist_ok=True)
        (place / paper.path).write_bytes(paper.raw)
    (place / "notes.json").write_text('{"schema": "notes/v1"}')
    (place / "README.md").write_text("no document")
    (place / "broken.env").write_text("A=1\nA=2\n")
    (tmp_path / "outside.json").write_bytes(rows.contract(__status="research-only").raw)
    (place / "link.json").symlink_to(tmp_path / "outside.json")
    (place / "up").symlink_to(tmp_path, target_is_directory=True)
    return place


def test_a_folder_is_imported_with_counts_and_reasons(
    api: OverTestClient, folder: Path, database: Database
) -> None:
    done = run("profile", "import", str(folder), "--repository", "example/spark", "--json")
    told: dict[str, Any] = json.loads(done.stdout)
    papers = len(rows.everything())
    assert done.exit_code == 1
    assert {name: told[name] for name in ("files", "new", "known", "unknown", "refused")} == {
        "files": papers + 2,
        "new": papers,
        "known": 0,
        "unknown": 1,
        "refused": 1,
    }
    assert told["kinds"]["template"] == 3
    (refusal,) = told["refusals"]
    assert (Path(refusal["file"]).name, refusal["pointer"]) == ("broken.env", "/A")
    assert refusal["detail"].startswith("TPL_DUP_KEY")
    with database.reading() as session:
        places = {(one.repository, one.path) for one in session.query(ProfilePlace)}
    assert ("example/spark", rows.CONTRACT_PATH) in places
    (folder / "broken.env").unlink()
    again = run("profile", "import", str(folder))
    assert again.exit_code == 0
    assert f"{papers + 1} files: 0 new, {papers} known, 0 refused, 1 of kinds" in again.stdout


def test_an_index_says_where_its_files_stand_and_leads_nowhere_else(
    api: OverTestClient, tmp_path: Path, database: Database
) -> None:
    paper = rows.contract()
    (tmp_path / "c.json").write_bytes(paper.raw)
    listed = {"path": "c.json", "repo": "example/spark", "repo_path": paper.path, "commit": "c" * 40}
    (tmp_path / "INDEX.json").write_bytes(rig.dump({"files": [listed]}))
    assert run("profile", "import", str(tmp_path)).exit_code == 0
    with database.reading() as session:
        (place,) = session.query(ProfilePlace)
        assert (place.repository, place.path, place.commit) == ("example/spark", paper.path, "c" * 40)
    (tmp_path / "INDEX.json").write_bytes(rig.dump({"files": [{"path": "../../../etc/passwd"}]}))
    refused = run("profile", "import", str(tmp_path), "--json")
    assert (refused.exit_code, "outside the folder" in refused.stdout) == (2, True)
    with database.reading() as session:
        assert session.query(ProfileDocument).count() == 1


@pytest.mark.skipif(not rows.REAL.is_dir(), reason=f"the real documents are not at {rows.REAL}")
def test_the_real_folder_is_imported_whole(api: OverTestClient) -> None:
    done = run("profile", "import", str(rows.REAL), "--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["refused"], told["unknown"]) == (0, 0, 11)
    assert told["kinds"]["contract"] == 2
    assert told["kinds"]["template_set"] == 1
    missing = run("profile", "import", "/nowhere", "--json")
    assert missing.exit_code == 2


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
        said = run("profile", "import", *given)
        assert (said.exit_code, said.stdout) == (2, "")
        assert f"no documents found in {empty}" in said.stderr
        told = run("profile", "import", *given, "--json")
        assert told.exit_code == 2
        assert json.loads(told.stdout)["error"].startswith(f"no documents found in {empty}")
    with database.reading() as session:
        assert session.query(ProfileDocument).count() == 0
