"""Other people's programs on our bundle: sha256sum, tar, OpenSSL, securesystemslib, csv."""

import base64
import csv
import io
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer._key import SSlibKey

from app.core.bundle import layout
from app.core.bundle.manifest import PAYLOAD_TYPE
from app.core.bundle.statements import PAYLOAD_TYPE as STATEMENT_TYPE
from app.core.dsse import pre_authentication
from tests.core.bundle import rig


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"the program {name} is not installed here")
    return found


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """A bundle as tar unpacks it."""
    (tmp_path / "bundle.tar").write_bytes(rig.small())
    folder = tmp_path / "unpacked"
    folder.mkdir()
    subprocess.run([_program("tar"), "-xf", "../bundle.tar"], cwd=folder, check=True)
    return folder


def _run(*argv: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)


def test_sha256sum_checks_every_file(unpacked: Path) -> None:
    done = _run(_program("sha256sum"), "-c", "--strict", layout.SUMS, cwd=unpacked)
    files = [path for path in unpacked.rglob("*") if path.is_file()]
    assert (done.returncode, done.stdout.count(": OK"), done.stderr) == (0, len(files) - 3, "")
    (unpacked / layout.REPORT).write_bytes(b"another report")
    assert _run(_program("sha256sum"), "-c", layout.SUMS, cwd=unpacked).returncode == 1


def test_openssl_verifies_the_signature_and_prints_the_fingerprint(unpacked: Path) -> None:
    openssl = _program("openssl")
    envelope = json.loads((unpacked / layout.ENVELOPE).read_bytes())
    signed = pre_authentication(PAYLOAD_TYPE, (unpacked / layout.MANIFEST).read_bytes())
    (unpacked / "pae").write_bytes(signed)
    (unpacked / "sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    argv = (
        openssl,
        "pkeyutl",
        "-verify",
        "-pubin",
        "-inkey",
        layout.KEY,
        "-rawin",
        "-in",
        "pae",
        "-sigfile",
        "sig",
    )
    done = _run(*argv, cwd=unpacked)
    assert (done.returncode, "Verified Successfully" in done.stdout) == (0, True)
    (unpacked / "pae").write_bytes(signed + b" ")
    assert _run(*argv, cwd=unpacked).returncode == 1
    der = subprocess.run(
        [openssl, "pkey", "-pubin", "-in", layout.KEY, "-outform", "DER"],
        cwd=unpacked,
        capture_output=True,
        check=True,
    )
    digest = subprocess.run([_program("sha256sum")], input=der.stdout, capture_output=True, check=True)
    assert digest.stdout.decode().split()[0] == rig.key()


def test_the_commands_of_the_guide_work_as_they_stand(unpacked: Path) -> None:
    """The indented lines of VERIFY.md from the signature on, given to a shell."""
    _program("openssl")
    text = (unpacked / layout.GUIDE).read_text()
    part = text.partition("over the exact bytes")[2].partition("`log/checkpoint.txt`")[0]
    script = "\n".join(line[4:] for line in part.splitlines() if line.startswith("    "))
    done = _run("sh", "-e", "-c", script, cwd=unpacked)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Verified Successfully" in done.stdout
    assert rig.key() in done.stdout


def _envelopes() -> list[tuple[str, bytes]]:
    files = rig.unpack(rig.small())
    statements = [line for path in (layout.RUNS, layout.VERDICTS) for line in files[path].splitlines()]
    return [(PAYLOAD_TYPE, files[layout.ENVELOPE]), *((STATEMENT_TYPE, line) for line in statements)]


def test_securesystemslib_verifies_every_envelope() -> None:
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    public = load_pem_public_key(rig.unpack(rig.small())[layout.KEY])
    key = SSlibKey.from_crypto(public, keyid=rig.key())
    envelopes = _envelopes()
    assert len(envelopes) > 5
    for kind, raw in envelopes:
        envelope = Envelope.from_dict(json.loads(raw))
        assert envelope.payload_type == kind
        assert list(envelope.verify([key], threshold=1)) == [rig.key()]
        envelope.payload += b" "
        with pytest.raises(VerificationError):
            envelope.verify([key], threshold=1)


def test_statements_are_in_toto_statements() -> None:
    kinds = set()
    for kind, raw in _envelopes()[1:]:
        assert kind == "application/vnd.in-toto+json"
        said = json.loads(base64.b64decode(json.loads(raw)["payload"]))
        assert said["_type"] == "https://in-toto.io/Statement/v1"
        assert all(one["name"] and one["digest"] for one in said["subject"])
        kinds.add(said["predicateType"])
        predicate = said["predicate"]
        if "verificationResult" in predicate:
            assert predicate["verificationResult"] in ("PASSED", "FAILED")
            assert predicate["timeVerified"].endswith("Z")
        else:
            assert predicate["result"] in ("PASSED", "WARNED", "FAILED")
    assert kinds == {
        "https://in-toto.io/attestation/test-result/v0.1",
        "https://slsa.dev/verification_summary/v1",
    }


def test_csv_reads_the_tables_and_finds_as_many_lines_as_the_manifest() -> None:
    files = rig.unpack(rig.small())
    counts = json.loads(files[layout.MANIFEST])["counts"]
    for name in layout.TABLES:
        text = files[layout.table_path(name)].decode()
        header, *records = csv.reader(io.StringIO(text, newline=""), strict=True)
        assert len(records) == counts[name], name
        assert all(len(record) == len(header) for record in records)
        assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for one in records for cell in one)
    declared = files[layout.table_path("declarations")].decode()
    assert '\'=sample, ""quoted""' in declared
