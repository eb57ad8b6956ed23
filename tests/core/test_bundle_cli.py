"""``sparkgate bundle``: a sample without a server, checked again; exit codes and JSON."""

import base64
import json
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import cli
from app.core.digest import sha256
from app.core.ledger.checkpoint import NoteVerifier
from app.core.ledger.proof import verify_inclusion_proof


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A sample bundle and the fingerprint on the last line."""
    file = tmp_path_factory.mktemp("sample") / "sample.tar"
    done = CliRunner().invoke(cli, ["bundle", "sample", str(file)])
    assert done.exit_code == 0, done.output
    return file, done.output.splitlines()[-1]


def test_a_sample_is_good_for_the_key_on_its_last_line(sample: tuple[Path, str]) -> None:
    file, key = sample
    done = CliRunner().invoke(cli, ["bundle", "verify", str(file), "--key", key])
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "outcome   good")
    spelled = CliRunner().invoke(cli, ["bundle", "verify", str(file), "--key", f" SHA256:{key.upper()}\n"])
    assert spelled.exit_code == 0
    assert CliRunner().invoke(cli, ["bundle", "verify", str(file)]).exit_code == 3


def test_json(sample: tuple[Path, str], tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["bundle", "sample", str(tmp_path / "x.tar"), "--receipts", "1", "--json"])
    made = json.loads(done.output)
    assert made["sha256"] == sha256((tmp_path / "x.tar").read_bytes())
    done = CliRunner().invoke(
        cli, ["bundle", "verify", str(tmp_path / "x.tar"), "--key", sample[1], "--json"]
    )
    said = json.loads(done.output)
    assert (done.exit_code, said["exit_code"], said["finding_count"]) == (1, 1, 1)
    assert said["findings"][0]["subject"] == "signer"
    assert said["bundle"]["key"] == made["fingerprint"]


def test_every_sample_has_a_key_of_its_own(sample: tuple[Path, str], tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["bundle", "sample", str(tmp_path / "x.tar"), "--receipts", "1"])
    assert done.output.splitlines()[-1] != sample[1]


def test_nothing_is_overwritten(sample: tuple[Path, str]) -> None:
    before = sample[0].read_bytes()
    done = CliRunner().invoke(cli, ["bundle", "sample", str(sample[0])])
    assert (done.exit_code, "expected nothing there" in done.output) == (2, True)
    assert sample[0].read_bytes() == before


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["bundle", "sample", str(tmp_path / "no" / "folder.tar")])
    assert (done.exit_code, "expected room for a bundle" in done.output) == (2, True)


def test_what_cannot_be_read_is_two(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["bundle", "verify", str(tmp_path / "none.tar")])
    assert (done.exit_code, "unreadable" in done.output) == (2, True)


def test_a_proof_is_taken_out_and_holds_without_the_bundle(sample: tuple[Path, str], tmp_path: Path) -> None:
    file, key = sample
    printed = CliRunner().invoke(cli, ["bundle", "proof", str(file), "3"])
    assert (printed.exit_code, printed.output.splitlines()[:2]) == (0, ["c2sp.org/tlog-proof@v1", "index 3"])
    out = tmp_path / "entry.tlog-proof"
    done = CliRunner().invoke(
        cli, ["bundle", "proof", str(file), "3", "--out", str(out), "--key", key.upper()]
    )
    assert (done.exit_code, "entry 3 under the head over 11 entries" in done.output) == (0, True)
    assert out.read_text() == printed.output
    again = CliRunner().invoke(cli, ["bundle", "proof", str(file), "3", "--out", str(out)])
    assert (again.exit_code, "expected room for a new file" in again.output) == (2, True)
    done = CliRunner().invoke(cli, ["bundle", "proof", str(file), "3", "--json"])
    said = json.loads(done.output)
    assert (said["proof"], said["index"], said["file"], said["fingerprint"]) == (printed.output, 3, None, key)
    entry = base64.b64decode(said["entry"])
    verifier = NoteVerifier.parse(said["vkey"])
    assert verify_inclusion_proof(out.read_bytes(), document=entry, verifier=verifier).size == said["size"]


def test_a_receipt_is_named_as_people_copy_it(sample: tuple[Path, str]) -> None:
    file, _ = sample
    with tarfile.open(file) as archive:
        digest = next(name[9:73] for name in archive.getnames() if name.startswith("receipts/"))
    done = CliRunner().invoke(cli, ["bundle", "proof", str(file), f"sha256:{digest.upper()}", "--json"])
    assert digest.encode() in base64.b64decode(json.loads(done.output)["entry"])


@pytest.mark.parametrize(
    ("given", "code", "told"),
    [
        (("99",), 2, "entry 99: expected one of this bundle's log"),
        (("0" * 64,), 2, "expected an entry that covers it"),
        (("third",), 2, "expected an index, or the digest of a receipt"),
        (("3", "--key", "0" * 64), 1, "signer: expected the key"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_no_proof_is_said_why(
    sample: tuple[Path, str], given: tuple[str, ...], code: int, told: str, as_json: bool
) -> None:
    flag = ["--json"] if as_json else []
    done = CliRunner().invoke(cli, ["bundle", "proof", str(sample[0]), *given, *flag])
    assert done.exit_code == code
    assert told in (json.loads(done.stdout)["error"] if as_json else done.stderr)


def test_no_proof_out_of_what_is_no_bundle(sample: tuple[Path, str], tmp_path: Path) -> None:
    other = tmp_path / "other.tar"
    for raw, code in ((b"no bundle", 2), (sample[0].read_bytes()[:-1], 1)):
        other.write_bytes(raw)
        assert CliRunner().invoke(cli, ["bundle", "proof", str(other), "3"]).exit_code == code
    for path in (tmp_path / "none.tar", tmp_path):
        done = CliRunner().invoke(cli, ["bundle", "proof", str(path), "3"])
        assert (done.exit_code, "expected a readable file" in done.stderr) == (2, True)
