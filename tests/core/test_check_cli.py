"""``sparkgate store check``, ``ls``, ``diff``, ``damage``: their exit codes, their JSON, their words."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.cli.store import store_app

from .roots import WholeRoot, whole_root


@pytest.fixture
def root(shared_dir: Path, tmp_path: Path) -> WholeRoot:
    return whole_root(shared_dir, folder=tmp_path)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(store_app, [str(argument) for argument in arguments])


def test_a_clean_root(root: WholeRoot) -> None:
    result = run("check", root.path, "--depth", "full", "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["outcome"] == "clean"
    assert {finding["finding"] for finding in document["findings"]} == {"entry"}
    assert document["totals"]["restorable"] == 18
    assert "clean" in run("check", root.path).stdout


def test_a_damaged_root(root: WholeRoot) -> None:
    assert run("damage", root.path, "object-missing", "--yes-damage-this-root", "--json").exit_code == 0
    result = run("check", root.path, "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    (problem,) = [finding for finding in document["findings"] if finding["finding"] == "problem"]
    assert (problem["code"], problem["stage"], problem["leftover"]) == ("object-missing", "size", False)
    assert document["outcome"] == "problems"
    assert document["totals"]["problems"] == {"object-missing": 1}
    text = run("check", root.path)
    assert text.exit_code == 1
    assert "object-missing: chunks/" in text.stdout
    assert "not restorable: " in text.stdout


def test_a_name_that_breaks_lines_breaks_no_line(root: WholeRoot) -> None:
    (root.path / "chunks" / "a\nb").touch()
    (root.path / "chunks" / os.fsdecode(b"\xff")).touch()
    lines = run("check", root.path).stdout.splitlines()
    assert [line for line in lines if line.startswith("unknown-name: chunks/a\\x0ab:")]
    findings = json.loads(run("check", root.path, "--json").stdout)["findings"]
    paths = {finding["path"] for finding in findings if finding["finding"] == "problem"}
    assert paths == {"chunks/a\\x0ab", "chunks/\\xff"}


def test_ls(root: WholeRoot) -> None:
    result = run("ls", root.path, "--json")
    assert result.exit_code == 0
    entries = json.loads(result.stdout)["entries"]
    assert len(entries) == 18
    by_context = {entry["context_digest"]: entry for entry in entries}
    wanted = root.entries["page-delta-v3-1024"]
    found = by_context[wanted["context_digest"]]
    assert (found["kind"], found["span_tokens"], found["objects"]) == ("page_delta", 1024, 3)
    assert found["storage_key"] == wanted["storage_key"]
    lines = run("ls", root.path).stdout.splitlines()
    assert len(lines) == 19
    assert lines[0].split() == ["kind", "tokens", "rank", "objects", "bytes", "context", "storage", "key"]


def test_ls_says_what_it_could_not_list(root: WholeRoot) -> None:
    run("damage", root.path, "document-blank", "--yes-damage-this-root")
    result = run("ls", root.path, "--json")
    assert result.exit_code == 1
    assert len(json.loads(result.stdout)["entries"]) == 17
    assert "1 documents or folders are not sound" in result.stderr


@pytest.mark.parametrize("command", ["check", "ls"])
def test_what_is_no_folder_is_unreadable(command: str, tmp_path: Path) -> None:
    result = run(command, tmp_path / "none", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["outcome"] == "unreadable"


def test_diff(root: WholeRoot, shared_dir: Path) -> None:
    ranks = [shared_dir / "vectors" / "flat-v2-tp4" / f"rank{rank}" for rank in range(2)]
    same = run("diff", ranks[0], ranks[0], "--json")
    assert (same.exit_code, json.loads(same.stdout)["outcome"]) == (0, "equal")
    other = run("diff", *ranks, "--json")
    assert other.exit_code == 1
    (pair,) = json.loads(other.stdout)["entries"]
    assert {difference["fact"] for difference in pair["different"]} >= {"identity.tp_shard_rank", "objects"}
    text = run("diff", *ranks)
    assert "differs: identity.tp_shard_rank\n    a: 0\n    b: 1" in text.stdout
    empty = root.path / "prefix-index"
    assert json.loads(run("diff", empty, empty, "--json").stdout)["entries"] == []


def test_diff_usage(root: WholeRoot, tmp_path: Path) -> None:
    assert run("diff", root.path, tmp_path / "none").exit_code == 2
    assert run("diff", root.path, root.path, "--context", "0" * 64).exit_code == 2
    assert run("diff", root.path, root.path, "--context", "x").exit_code == 2
    assert run("diff", root.path, root.path, "--layout", tmp_path / "none").exit_code == 2


def test_damage_wants_consent(root: WholeRoot) -> None:
    result = run("damage", root.path, "object-missing")
    assert result.exit_code == 2
    assert "--yes-damage-this-root" in result.stderr
    assert root.check() == []


def test_damage_lists_and_refuses(root: WholeRoot) -> None:
    names = [fault["name"] for fault in json.loads(run("damage", "--list", "--json").stdout)["faults"]]
    assert len(names) == len(set(names)) == 36
    assert run("damage").exit_code == 2
    assert run("damage", root.path, "nonsense", "--yes-damage-this-root").exit_code == 2
    context = ("--context", "0" * 64)
    assert run("damage", root.path, "object-missing", *context, "--yes-damage-this-root").exit_code == 2
    assert root.check() == []
