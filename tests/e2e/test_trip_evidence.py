"""Evidence taken away: through real processes into a file, verified by the file's own program, offline."""

import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from app.core.dsse import fingerprint
from app.core.store.synth import SynthesizedSnapshot
from app.ledger.service.signing import read_signer
from app.processes import inherited_environment
from tests.app.evidence_rows import own_papers
from tests.e2e.installation import Installation

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def evidence(installation: Installation) -> Installation:
    for paper in own_papers():
        place = {"repository": paper.repository, "path": paper.path}
        installation.api.post("/api/v1/receipts", params=place, content=paper.raw).raise_for_status()
    return installation


def export(installation: Installation, *arguments: str) -> tuple[int, dict[str, Any]]:
    """`sparkgate evidence export --json` as a person would run it."""
    key = installation.home / "key.txt"
    key.write_text(installation.api.headers["authorization"].removeprefix("Bearer "))
    command = ["-c", "from app.cli import main; main()", "evidence", "export", "--json"]
    whom = ["--url", installation.settings.control_url, "--api-key-file", str(key)]
    done = subprocess.run(
        [sys.executable, *command, *whom, *arguments],
        env={**inherited_environment(), "SPARKGATE_HOME": str(installation.home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def verify(bundle: Path, *, program: Path, arguments: tuple[str, ...] = ()) -> tuple[int, dict[str, Any]]:
    """Without our environment, our packages and the network: the program and the file are all there is."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(program), str(bundle), "--json", *arguments],
        env={},
        cwd=program.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.startswith("{"), done.stderr
    return done.returncode, json.loads(done.stdout)


def unpacked_program(bundle: Path, *, folder: Path) -> Path:
    with tarfile.open(bundle) as archive:
        archive.extract("verify.pyz", path=folder, filter="data")
    return folder / "verify.pyz"


def own_fingerprint(installation: Installation) -> str:
    path = installation.settings.ledger_key_file
    assert path is not None
    return str(fingerprint(read_signer(path).verifier.public))


def test_a_bundle_verifies_itself_and_every_changed_byte_is_seen(
    evidence: Installation, small_store: SynthesizedSnapshot, tmp_path: Path
) -> None:
    restore_id = evidence.start_restore(
        str(small_store.context_digest), layout=str(small_store.layout.sha256)
    )
    assert evidence.finish(restore_id)["outcome"] == "restored"
    evidence.wait_for(
        lambda: evidence.api.get("/api/v1/receipts", params={"kind": "restore-receipt"}).json()["receipts"],
        what="the receipt of the restore",
    )
    bundle = tmp_path / "bundle.tar"
    code, said = export(evidence, "--out", str(bundle))
    assert (code, said["file"], said["export"]["state"]) == (0, str(bundle), "finished")
    program = unpacked_program(bundle, folder=tmp_path)
    key = ("--key", own_fingerprint(evidence))
    code, found = verify(bundle, program=program, arguments=key)
    assert code == 0, found
    assert verify(bundle, program=program)[0] == 3
    assert verify(bundle, program=program, arguments=("--key", "0" * 64))[0] == 1
    raw = bundle.read_bytes()
    for place in range(0, len(raw), len(raw) // 12 + 1):
        changed = tmp_path / "changed.tar"
        changed.write_bytes(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])
        assert verify(changed, program=program, arguments=key)[0] in {1, 2}, place


def test_the_same_size_again_is_the_same_file_and_a_kept_checkpoint_is_its_beginning(
    evidence: Installation, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.txt"
    kept.write_bytes(evidence.api.get("/api/v1/ledger/checkpoint").raise_for_status().content)
    first, second, later = (tmp_path / name for name in ("first.tar", "second.tar", "later.tar"))
    code, said = export(evidence, "--out", str(first))
    assert code == 0
    size = str(said["export"]["ledger_size"])
    assert export(evidence, "--out", str(later))[0] == 0
    assert export(evidence, "--out", str(second), "--ledger-size", size)[0] == 0
    assert first.read_bytes() == second.read_bytes() != later.read_bytes()
    program = unpacked_program(later, folder=tmp_path)
    arguments = ("--key", own_fingerprint(evidence), "--checkpoint", str(kept))
    assert verify(later, program=program, arguments=arguments)[0] == 0
    kept.write_bytes(kept.read_bytes().replace(b"example.org/ring\n", b"example.org/other\n", 1))
    assert verify(later, program=program, arguments=arguments)[0] in {1, 2}


def test_what_is_asked_for_while_no_worker_runs_is_built_by_the_next(evidence: Installation) -> None:
    evidence.children.pop("control").stop()
    headers = {"Idempotency-Key": "while nobody works"}
    asked = evidence.api.post("/api/v1/evidence", json={}, headers=headers).raise_for_status()
    path = asked.headers["location"]
    assert evidence.api.get(path).json()["state"] == "waiting"
    evidence.start_child("control")
    evidence.wait_for(lambda: evidence.api.get(path).json()["state"] == "finished", what="the bundle")


def test_what_cannot_be_exported_is_refused_with_a_sentence(evidence: Installation) -> None:
    code, said = export(evidence, "--image", "0" * 64)
    assert (code, "found " + "0" * 64 in said["error"]) == (2, True)
    code, said = export(evidence, "--from", "yesterday")
    assert (code, "period: expected YYYY-MM-DD" in said["error"]) == (2, True)
