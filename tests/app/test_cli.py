"""The command line as a whole: settings in words, refusals with their exit codes, no traceback."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from app.cli import cli
from app.cli.client import ApiError, open_api
from app.config import Settings

NOBODY = "00000000-0000-4000-8000-000000000000"
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
        (("restore", "show", NOBODY), "API key"),
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
    done = run("restore", "show", NOBODY, *arguments, home=tmp_path)
    assert done.returncode == 2
    assert "expected an answer, found" in json.loads(done.stdout)["error"]


def installed(home: Path, *, listens: str | None = None, **given: object) -> Settings:
    """A local installation with a key of its own, and where it says it listens."""
    (home / "credentials.json").write_text('{"api_key": "sgk_local"}')
    if listens is not None:
        (home / "up.json").write_text(json.dumps({"address": listens}))
    return Settings.model_validate({"home": home, **given})


@pytest.mark.parametrize(
    "url",
    [
        "http://gate.example",
        "https://127.0.0.1:9000",
        "http://127.0.0.1:8080",
        "http://127.0.0.2:9000",
        "http://127.0.0.1:9000@gate.example",
        "http://127.0.0.1.gate.example:9000",
        "http://127.0.0.1:9000/elsewhere",
        "http://gate.example:9000/http://127.0.0.1:9000",
    ],
)
@pytest.mark.parametrize("by", ["option", "setting"])
def test_the_local_key_goes_to_the_local_address_only(tmp_path: Path, url: str, by: str) -> None:
    named: dict[str, object] = {"control_url": url} if by == "setting" else {}
    settings = installed(tmp_path, listens="http://127.0.0.1:9000", **named)
    with pytest.raises(ApiError) as refused:
        open_api(settings, url=url if by == "option" else None, api_key_file=None)
    assert "expected --api-key-file" in str(refused.value)
    assert "http://127.0.0.1:9000" in str(refused.value)
    assert "sgk_local" not in str(refused.value)
    (tmp_path / "key").write_text("sgk_theirs")
    assert open_api(settings, url=url, api_key_file=tmp_path / "key").base_url == url


def test_without_up_json_the_local_key_goes_where_the_settings_say(tmp_path: Path) -> None:
    """As in a container: its settings and its key are of one installation, and nowhere is `sparkgate up`."""
    settings = installed(tmp_path, control_url="http://web:8080")
    assert open_api(settings, url=None, api_key_file=None).base_url == "http://web:8080"
    with pytest.raises(ApiError, match="expected --api-key-file"):
        open_api(settings, url="http://gate.example:8080", api_key_file=None)


@pytest.mark.parametrize(
    "url", [None, "http://127.0.0.1:9000", "http://127.0.0.1:9000/", "http://localhost:9000"]
)
@pytest.mark.parametrize("said_by", ["up.json", "PORT"])
def test_the_local_address_may_be_named(tmp_path: Path, url: str | None, said_by: str) -> None:
    settings = (
        installed(tmp_path, listens="http://127.0.0.1:9000")
        if said_by == "up.json"
        else installed(tmp_path, port=9000)
    )
    assert open_api(settings, url=url, api_key_file=None).base_url == "http://127.0.0.1:9000"


def test_what_is_no_address_is_told_as_that(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sgk_theirs")
    for key in (None, tmp_path / "key"):
        with pytest.raises(
            ApiError, match=r"expected the address of a control plane, found http://127\.0\.0\.1:9\.x"
        ):
            open_api(installed(tmp_path), url="http://127.0.0.1:9.x", api_key_file=key)


def commands(group: Any, *names: str) -> Iterator[tuple[str, str]]:
    """Every command below a group, with its help."""
    for name, one in group.commands.items():
        if hasattr(one, "commands"):
            yield from commands(one, *names, name)
        else:
            yield " ".join((*names, name)), one.help or ""


# They run until they are stopped, or are a step of setting up whose only code is whether it worked.
WITHOUT_CODES = {"up", "worker", "migrate", "bootstrap"}


def test_every_command_says_its_exit_codes() -> None:
    silent = {name for name, said in commands(typer.main.get_command(cli)) if "Exit codes: " not in said}
    assert silent == WITHOUT_CODES


@pytest.mark.parametrize("arguments", [("keys", "list"), ("accounts", "list"), ("keys", "revoke", "x")])
def test_a_database_that_is_away_is_said_without_a_traceback(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = run(*arguments, home=tmp_path, DATABASE_URL="postgresql+psycopg://nobody:secret@127.0.0.1:1/none")
    assert done.returncode == 2
    assert done.stderr.startswith("database: ")
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr
