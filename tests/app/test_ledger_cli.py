"""``sparkgate ledger``: an auditor with a role that only reads, a key and an earlier checkpoint."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from app.core.dsse import fingerprint
from app.core.ledger.checkpoint import NoteSigner, verify_checkpoint
from app.core.ledger.leaf import parse_leaf
from app.db.session import Database
from app.embedded import DatabaseUrls
from app.ledger.service.signing import create_key_file
from tests.app.test_cli import run
from tests.app.test_ledger import add_layout


@pytest.fixture
def variables(database: Database, postgres_urls: DatabaseUrls, tmp_path: Path) -> dict[str, str]:
    for number in range(5):
        add_layout(database, number)
    create_key_file(tmp_path / "ledger.key", origin="example.org/log")
    return {"DATABASE_URL": postgres_urls.app, "LEDGER_KEY_FILE": str(tmp_path / "ledger.key")}


@pytest.fixture
def kept(variables: dict[str, str], tmp_path: Path) -> Path:
    """A checkpoint of five entries, fetched earlier."""
    done = run("ledger", "checkpoint", home=tmp_path, **variables)
    assert done.returncode == 0, done.stderr
    path = tmp_path / "kept.txt"
    path.write_text(done.stdout)
    return path


def vkey(variables: dict[str, str]) -> str:
    return NoteSigner.parse(Path(variables["LEDGER_KEY_FILE"]).read_text().strip()).verifier.vkey


def audit(*arguments: str, home: Path, url: str) -> tuple[int, dict[str, Any]]:
    done = run("ledger", "audit", "--json", *arguments, home=home, DATABASE_URL=url)
    return done.returncode, json.loads(done.stdout)


def test_checkpoint_and_entries(variables: dict[str, str], kept: Path, tmp_path: Path) -> None:
    verifier = NoteSigner.parse(Path(variables["LEDGER_KEY_FILE"]).read_text().strip()).verifier
    head = verify_checkpoint(kept.read_bytes(), verifier=verifier)
    said = json.loads(run("ledger", "checkpoint", "--json", home=tmp_path, **variables).stdout)
    assert (said["size"], said["root"], said["note"]) == (5, head.root.hex(), kept.read_text())
    listed = json.loads(run("ledger", "entries", "--json", "--start", "3", home=tmp_path, **variables).stdout)
    assert (listed["size"], [entry["index"] for entry in listed["entries"]]) == (5, [3, 4])
    assert parse_leaf(base64.b64decode(listed["entries"][0]["document"]), subject="leaf").by == "ada"
    shown = run("ledger", "entries", home=tmp_path, **variables).stdout
    assert "layout-registered" in shown
    assert "5 of 5 entries" in shown


def test_a_checkpoint_is_kept_in_a_file_and_not_written_over(
    variables: dict[str, str], kept: Path, tmp_path: Path
) -> None:
    public = NoteSigner.parse(Path(variables["LEDGER_KEY_FILE"]).read_text().strip()).verifier.public
    path = tmp_path / "head.txt"
    done = run("ledger", "checkpoint", "--out", str(path), home=tmp_path, **variables)
    assert (done.returncode, path.read_bytes()) == (0, kept.read_bytes())
    assert f"5 entries; key fingerprint {fingerprint(public)}" in done.stdout
    again = run("ledger", "checkpoint", "--out", str(path), home=tmp_path, **variables)
    assert (again.returncode, "expected a new file, found File exists" in again.stderr) == (2, True)
    said = json.loads(run("ledger", "checkpoint", "--json", home=tmp_path, **variables).stdout)
    assert said["fingerprint"] == fingerprint(public)


def test_audit_by_the_reader_role(
    variables: dict[str, str], kept: Path, tmp_path: Path, postgres_urls: DatabaseUrls, owner_engine: Engine
) -> None:
    arguments = ("--key", vkey(variables), "--against", str(kept))
    code, said = audit(*arguments, home=tmp_path, url=postgres_urls.reader)
    assert (code, said["outcome"], said["findings"], said["against_size"]) == (0, "good", [], 5)
    assert said["totals"]["signatures"] == 1
    with owner_engine.begin() as connection:
        connection.execute(text("UPDATE layout SET created_by = 'eve' WHERE layer_count = 3"))
    code, said = audit(*arguments, home=tmp_path, url=postgres_urls.reader)
    assert (code, said["outcome"]) == (1, "findings")
    assert [(one["code"], one["subject"]) for one in said["findings"]] == [
        ("row-changed", f"layout {3:064x}")
    ]
    done = run("ledger", "audit", home=tmp_path, DATABASE_URL=postgres_urls.reader)
    assert done.returncode == 1
    assert f"row-changed: layout {3:064x}" in done.stdout
    assert "none given" in done.stdout
    assert "not judged" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--key", "x"), "vkey"),
        (("--against", "nowhere"), "expected a readable file"),
        (("--against", "key"), "checkpoint"),
    ],
)
def test_what_cannot_be_read_is_code_two(
    variables: dict[str, str],
    tmp_path: Path,
    postgres_urls: DatabaseUrls,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    (tmp_path / "key").write_text("no checkpoint")
    given = tuple(str(tmp_path / part) if part in {"nowhere", "key"} else part for part in arguments)
    done = run("ledger", "audit", *given, home=tmp_path, DATABASE_URL=postgres_urls.reader)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_checkpoint_of_another_key_is_not_taken(
    variables: dict[str, str], kept: Path, tmp_path: Path, postgres_urls: DatabaseUrls
) -> None:
    other = NoteSigner(name="example.org/log", seed=b"o" * 32).verifier.vkey
    arguments = ("ledger", "audit", "--key", other, "--against", str(kept))
    done = run(*arguments, home=tmp_path, DATABASE_URL=postgres_urls.reader)
    assert (done.returncode, "expected one signature" in done.stderr) == (2, True)


def test_without_a_key_or_a_database_the_reason_is_told(variables: dict[str, str], tmp_path: Path) -> None:
    done = run("ledger", "checkpoint", home=tmp_path, DATABASE_URL=variables["DATABASE_URL"])
    assert (done.returncode, "SPARKGATE_LEDGER_KEY_FILE" in done.stderr) == (2, True)
    done = run("ledger", "audit", home=tmp_path)
    assert (done.returncode, "SPARKGATE_DATABASE_URL" in done.stderr) == (2, True)
    done = run("ledger", "audit", home=tmp_path, DATABASE_URL="postgresql+psycopg://a:b@127.0.0.1:1/x")
    assert (done.returncode, "database: expected" in done.stderr) == (2, True)
