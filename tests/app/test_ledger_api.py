"""The ledger over HTTP: what an auditor fetches proves itself with the core alone."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response
from sqlalchemy import Engine, text

from app.config import Settings
from app.core.ledger.checkpoint import Checkpoint, NoteSigner, NoteVerifier, verify_checkpoint
from app.core.ledger.merkle import EMPTY_ROOT, leaf_hash
from app.core.ledger.proof import verify_consistency_proof, verify_inclusion_proof
from app.db.session import Database
from app.ledger.service.signing import LedgerKeyError, create_key_file, load_signer
from app.main import create_app
from tests.app.conftest import RecordedMessages
from tests.app.test_ledger import add_layout

ROOT = "/api/v1/ledger"


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    """A control plane with a ledger key."""
    path = tmp_path / "ledger.key"
    create_key_file(path, origin="example.org/log")
    return Settings.model_validate({**settings.model_dump(exclude_unset=True), "ledger_key_file": path})


@pytest.fixture
def auditor(client: TestClient, keys: dict[str, str]) -> TestClient:
    client.headers["Authorization"] = f"Bearer {keys['auditor']}"
    return client


def problem(answer: Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def head(auditor: TestClient) -> dict[str, object]:
    return auditor.get(ROOT).raise_for_status().json()  # type: ignore[no-any-return]


def verifier(auditor: TestClient) -> NoteVerifier:
    return NoteVerifier.parse(str(head(auditor)["key"]))


def test_head_checkpoint_and_entries_agree(auditor: TestClient, database: Database) -> None:
    add_layout(database, 1)
    said = head(auditor)
    note = auditor.get(f"{ROOT}/checkpoint")
    assert note.headers["content-type"] == "text/plain; charset=utf-8"
    signed = verify_checkpoint(note.content, verifier=verifier(auditor))
    assert (signed.origin, signed.size, signed.root.hex()) == ("example.org/log", said["size"], said["root"])
    assert head(auditor)["latest_checkpoint"]["size"] == said["size"]  # type: ignore[index]
    listed = auditor.get(f"{ROOT}/entries").json()
    assert [entry["index"] for entry in listed["entries"]] == list(range(int(str(said["size"]))))
    last = listed["entries"][-1]
    assert last["kind"] == "layout-registered"
    assert last["leaf_hash"] == leaf_hash(base64.b64decode(last["document"])).hex()
    assert auditor.get(f"{ROOT}/entries/{last['index']}").json() == last


def test_every_entry_is_proven_at_every_size(auditor: TestClient, database: Database) -> None:
    for number in range(6):
        add_layout(database, number)
    size, key = int(str(head(auditor)["size"])), verifier(auditor)
    entries = auditor.get(f"{ROOT}/entries").json()["entries"]
    for at in range(1, size + 1):
        for index in range(at):
            proof = auditor.get(f"{ROOT}/proofs/inclusion", params={"index": index, "size": at})
            document = base64.b64decode(entries[index]["document"])
            assert verify_inclusion_proof(proof.content, document=document, verifier=key).size == at


def test_every_earlier_head_is_proven_to_be_a_prefix(auditor: TestClient, database: Database) -> None:
    key = verifier(auditor)
    seen: list[Checkpoint] = []
    for number in range(6):
        add_layout(database, number)
        seen.append(verify_checkpoint(auditor.get(f"{ROOT}/checkpoint").content, verifier=key))
    for old in seen:
        proof = auditor.get(f"{ROOT}/proofs/consistency", params={"from": old.size})
        assert verify_consistency_proof(proof.content, old=old, verifier=key) == seen[-1]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/entries?start=1000", (400, "ledger-out-of-range")),
        ("/entries/1000", (404, "not-found")),
        (f"/entries/{10**30}", (404, "not-found")),
        ("/checkpoint?size=1000", (400, "ledger-out-of-range")),
        (f"/checkpoint?size={10**30}", (400, "ledger-out-of-range")),
        ("/checkpoint?size=1", (404, "not-found")),
        ("/proofs/inclusion?index=1000", (400, "ledger-out-of-range")),
        ("/proofs/inclusion?index=0&size=1000", (400, "ledger-out-of-range")),
        ("/proofs/inclusion?index=1&size=1", (400, "ledger-out-of-range")),
        ("/proofs/inclusion?index=0&size=0", (400, "ledger-out-of-range")),
        ("/proofs/consistency?from=2&to=1", (400, "ledger-out-of-range")),
        ("/proofs/consistency?from=1&to=1000", (400, "ledger-out-of-range")),
        (f"/proofs/consistency?from={10**30}", (400, "ledger-out-of-range")),
        ("/proofs/consistency", (422, "validation-failed")),
        ("/proofs/inclusion?index=-1", (422, "validation-failed")),
        ("/entries?limit=0", (422, "validation-failed")),
    ],
)
def test_what_is_not_in_the_log_is_refused(
    auditor: TestClient, database: Database, path: str, expected: tuple[int, str]
) -> None:
    for number in range(3):
        add_layout(database, number)
    assert problem(auditor.get(ROOT + path)) == expected


def test_pages_are_honest(auditor: TestClient, database: Database) -> None:
    for number in range(5):
        add_layout(database, number)
    size, found, start = int(str(head(auditor)["size"])), [], 0
    while True:
        page = auditor.get(f"{ROOT}/entries", params={"start": start, "limit": 2}).json()
        found += [entry["index"] for entry in page["entries"]]
        assert page["size"] == size
        if page["next_start"] is None:
            break
        start = page["next_start"]
    assert found == list(range(size))
    empty = auditor.get(f"{ROOT}/entries", params={"start": size}).json()
    assert (empty["entries"], empty["next_start"]) == ([], None)


def test_an_empty_log_has_a_head(auditor: TestClient, owner_engine: Engine) -> None:
    with owner_engine.begin() as connection:
        connection.execute(text("TRUNCATE ledger_leaf, ledger_node"))
    assert head(auditor)["root"] == EMPTY_ROOT.hex()
    signed = verify_checkpoint(auditor.get(f"{ROOT}/checkpoint").content, verifier=verifier(auditor))
    assert (signed.size, signed.root) == (0, EMPTY_ROOT)


def test_answers_are_cached_as_far_as_they_last(auditor: TestClient, database: Database) -> None:
    add_layout(database, 1)
    size = head(auditor)["size"]
    auditor.get(f"{ROOT}/checkpoint").raise_for_status()
    lasting = (
        "/entries/0",
        f"/checkpoint?size={size}",
        f"/proofs/inclusion?index=0&size={size}",
        f"/proofs/consistency?from=1&to={size}",
    )
    for path in lasting:
        first = auditor.get(ROOT + path).raise_for_status()
        assert "immutable" in first.headers["cache-control"]
        again = auditor.get(ROOT + path, headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    for path in ("", "/checkpoint", "/entries", "/proofs/inclusion?index=0"):
        assert auditor.get(ROOT + path).headers["cache-control"] == "private, no-cache"


def test_nothing_is_signed_that_contradicts_an_earlier_checkpoint(
    auditor: TestClient, database: Database, owner_engine: Engine
) -> None:
    for number in range(4):
        add_layout(database, number)
    auditor.get(f"{ROOT}/checkpoint").raise_for_status()
    add_layout(database, 9)
    size = int(str(head(auditor)["size"]))
    with owner_engine.begin() as connection:
        connection.execute(text("UPDATE ledger_node SET hash = repeat('0', 64)"))
    assert problem(auditor.get(f"{ROOT}/checkpoint")) == (503, "ledger-inconsistent")
    assert problem(auditor.get(f"{ROOT}/proofs/inclusion?index=0&size=3")) == (503, "ledger-inconsistent")
    with owner_engine.begin() as connection:
        assert connection.execute(text("SELECT max(size) FROM ledger_checkpoint")).scalar_one() == size - 1


def test_without_a_node_nothing_is_signed(
    auditor: TestClient, database: Database, owner_engine: Engine
) -> None:
    for number in range(4):
        add_layout(database, number)
    auditor.get(f"{ROOT}/checkpoint").raise_for_status()
    add_layout(database, 9)
    with owner_engine.begin() as connection:
        connection.execute(text("DELETE FROM ledger_node"))
    assert problem(auditor.get(f"{ROOT}/checkpoint")) == (503, "ledger-inconsistent")


@pytest.fixture
def keyless(
    database: Database, messages: RecordedMessages, settings: Settings, keys: dict[str, str]
) -> Iterator[TestClient]:
    without = settings.model_copy(update={"ledger_key_file": None})
    with TestClient(create_app(without, database=database, messages=messages)) as opened:
        opened.headers["Authorization"] = f"Bearer {keys['auditor']}"
        yield opened


def test_without_a_key_the_log_is_readable_and_nothing_signed(
    keyless: TestClient, database: Database
) -> None:
    add_layout(database, 1)
    said = head(keyless)
    assert (said["key"], said["origin"]) == (None, None)
    assert problem(keyless.get(f"{ROOT}/checkpoint")) == (503, "ledger-key-missing")
    assert problem(keyless.get(f"{ROOT}/proofs/inclusion?index=0")) == (503, "ledger-key-missing")
    assert problem(keyless.get(f"{ROOT}/proofs/consistency?from=0")) == (503, "ledger-key-missing")
    assert keyless.get(f"{ROOT}/entries").status_code == 200


@pytest.mark.parametrize("preset", ["viewer", "operator", "worker"])
def test_only_who_may_export_evidence_reads_the_ledger(
    client: TestClient, keys: dict[str, str], preset: str
) -> None:
    headers = {"Authorization": f"Bearer {keys[preset]}"}
    for path in ("", "/checkpoint", "/entries", "/entries/0", "/proofs/inclusion?index=0"):
        assert problem(client.get(ROOT + path, headers=headers)) == (403, "scope-missing")


def test_a_key_file_others_can_read_is_refused(settings: Settings) -> None:
    path = settings.ledger_key_file
    assert path is not None
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    path.chmod(0o640)
    with pytest.raises(LedgerKeyError, match="expected mode 0600, found 0640"):
        load_signer(settings)


def test_a_key_file_is_made_once(settings: Settings, tmp_path: Path) -> None:
    path = settings.ledger_key_file
    assert path is not None
    before = path.read_text()
    assert create_key_file(path, origin="example.org/other") is False
    assert path.read_text() == before
    assert create_key_file(tmp_path / "own.key", origin=None)
    own = NoteSigner.parse((tmp_path / "own.key").read_text().strip())
    assert own.name.startswith("sparkgate.local/")


def test_two_processes_that_make_a_key_at_once_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second has looked before the first was done; its key would make the first one worthless."""
    path = tmp_path / "ledger.key"
    monkeypatch.setattr(Path, "exists", lambda _: False)
    assert create_key_file(path, origin=None)
    first = path.read_text()
    assert create_key_file(path, origin=None) is False
    assert path.read_text() == first
    assert [found.name for found in tmp_path.iterdir()] == ["ledger.key"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_key_of_another_log_and_no_key_are_refused(settings: Settings, tmp_path: Path) -> None:
    other = settings.model_copy(update={"ledger_origin": "example.org/other"})
    with pytest.raises(LedgerKeyError, match=r"expected the key of example\.org/other"):
        load_signer(other)
    wrong = tmp_path / "wrong.key"
    wrong.touch(mode=0o600)
    secret = "PRIVATE+KEY+example.org/log+00000000+" + base64.b64encode(b"\x01" + b"s" * 32).decode()
    for content in ("", "x", secret, secret[:-4]):
        wrong.write_text(content)
        with pytest.raises(LedgerKeyError, match=str(wrong)) as caught:
            load_signer(settings.model_copy(update={"ledger_key_file": wrong}))
        assert base64.b64encode(b"\x01ss").decode()[:3] not in str(caught.value)
    with pytest.raises(LedgerKeyError, match="expected a readable file"):
        load_signer(settings.model_copy(update={"ledger_key_file": tmp_path / "none"}))
