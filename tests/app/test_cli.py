"""The command line as a whole: settings in words, refusals with their exit codes, no traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-c", "from app.cli import main; main()"]


def run(*arguments: str, home: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    env = {name: value for name, value in os.environ.items() if not name.startswith("SPARKGATE_")}
    env |= {"SPARKGATE_HOME": str(home), **{f"SPARKGATE_{name}": value for name, value in variables.items()}}
    return subprocess.run([*COMMAND, *arguments], env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("PORT", "abc", "SPARKGATE_PORT: Input should be a valid integer"),
        ("PORT", "70000", "SPARKGATE_PORT: Input should be less than or equal to 65535"),
        ("LEASE_S", "0", "SPARKGATE_LEASE_S: Input should be greater than or equal to 1"),
        ("NODE", "Bad Name", "SPARKGATE_NODE: String should match pattern"),
    ],
)
def test_setting_that_cannot_be_used_is_named(
    tmp_path: Path, variable: str, value: str, expected: str
) -> None:
    done = run("up", home=tmp_path, **{variable: value})
    assert done.returncode == 2
    assert expected in done.stderr
    assert f"found {value!r}" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("demo",), "API key"),
        (("restore", "show", "x"), "API key"),
        (("keys", "create", "x"), "SPARKGATE_DATABASE_URL"),
        (("keys", "create", "x", "--preset", "king"), "expected one of viewer"),
        (("migrate",), "SPARKGATE_OWNER_DATABASE_URL"),
    ],
)
def test_command_without_what_it_needs_says_what(
    tmp_path: Path, arguments: tuple[str, ...], text: str
) -> None:
    done = run(*arguments, home=tmp_path)
    assert done.returncode in {1, 2}
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_control_plane_that_is_not_there_is_told_as_json(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sgk_00000000_x")
    arguments = ("--url", "http://127.0.0.1:1", "--api-key-file", str(tmp_path / "key"), "--json")
    done = run("restore", "show", "x", *arguments, home=tmp_path)
    assert done.returncode == 2
    assert "expected an answer, found" in json.loads(done.stdout)["error"]
