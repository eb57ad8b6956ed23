"""``sparkgate bundle``: a sample without a server, checked again; exit codes and JSON."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import cli
from app.core.digest import sha256


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
