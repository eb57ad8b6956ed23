"""``sparkgate source identify``: what it refuses, that it runs nothing of a checkout, and the command."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from app.cli import cli, source_git
from app.cli import source as source_command
from app.cli.client import ApiError
from app.cli.source_git import Git, GitError, without_credentials
from app.core.source_tree import digest_folder
from tests.app.checkouts import append, changes, git, link, look, make_checkout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return make_checkout(tmp_path)


def test_repository_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "new")
    (tmp_path / "new/x").write_text("")
    found = look(tmp_path / "new")
    assert (found.commit, found.dirty, changes(found)) == (None, None, {"untracked": ["x"]})
    assert "HEAD: no commit yet" in found.notes
    git(tmp_path, "init", "-q", "--bare", "empty")
    assert look(tmp_path / "empty").problems.count == 1


def test_part_of_a_checkout_is_refused_unless_git_is_left_out(checkout: Path) -> None:
    with pytest.raises(
        GitError, match=r"code: is a part of the checkout .*/clone, whose commit says nothing"
    ):
        look(checkout / "code")
    found = look(checkout / "code", plain=True)
    assert (found.kind, found.source_sha256) == ("folder", digest_folder(checkout / "code").sha256)


def test_metadata_that_speak_of_other_files_are_refused(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    git(checkout, "config", "core.worktree", str(tmp_path / "elsewhere"))
    with pytest.raises(GitError, match=r"expected its own files, found metadata that speak of .*elsewhere"):
        look(checkout)


def test_broken_metadata_are_told(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x/.git").write_text("gitdir: /nowhere\n")
    with pytest.raises(GitError, match=r"x: no git metadata that git accepts: .*nowhere"):
        look(tmp_path / "x")


def test_longer_object_ids_are_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256", "new")
    with pytest.raises(GitError, match=r"expected object ids of 40 digits, found .* format sha256"):
        look(tmp_path / "new")


def test_checkout_of_another_user_is_explained(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git's own switch for its tests makes every owner another one."""
    monkeypatch.setitem(source_git._ENVIRONMENT, "GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(GitError, match=r"clone: belongs to another user, .* safe\.directory '/"):
        look(checkout)


def test_git_that_is_not_installed(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitError, match="git: expected the program on the PATH, found none"):
        look(checkout)
    assert look(checkout, plain=True).source_sha256 is not None


def test_partial_clone_names_what_it_lacks_and_asks_nobody(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--bare", "--filter=blob:none", f"file://{checkout}", "partial")
    found = look(tmp_path / "partial")
    assert found.problems.count == 6
    assert all("expected a file's content in the repository" in text for text in found.problems.first)


def test_replacement_of_an_object_deceives_nobody(checkout: Path) -> None:
    before = look(checkout)
    git(checkout, "replace", "HEAD", "HEAD^")
    assert look(checkout).to_document() == before.to_document()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["source", "identify", *arguments])


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("https://me:secret@host/x", "https://host/x"),
        ("https://token@host/x", "https://host/x"),
        ("ssh://git:secret@host/x", "ssh://git@host/x"),
        ("ssh://git@host/x", "ssh://git@host/x"),
        ("git@host:x/y", "git@host:x/y"),
        ("/srv/x", "/srv/x"),
    ],
)
def test_credentials_of_a_remote_are_left_out(address: str, kept: str) -> None:
    assert without_credentials(address) == kept


TRAPS = (
    "core.fsmonitor",
    "core.sshCommand",
    "core.editor",
    "core.pager",
    "core.askPass",
    "core.gitProxy",
    "core.alternateRefsCommand",
    "diff.external",
    "filter.trap.clean",
    "filter.trap.smudge",
    "filter.trap.process",
    "diff.trap.textconv",
    "diff.trap.command",
    "merge.trap.driver",
    "gpg.program",
    "credential.helper",
    "alias.rev-parse",
    "alias.ls-files",
    "remote.origin.uploadpack",
    "uploadpack.packObjectsHook",
)


@pytest.fixture
def trapped(checkout: Path, tmp_path: Path) -> Path:
    """A checkout whose configuration, hooks and attributes name a program wherever they can."""
    script = tmp_path / "trap"
    script.write_text(f'#!/bin/sh\necho "$0 $@" >> {tmp_path}/sprung\ncat\n')
    script.chmod(0o755)
    (checkout / ".gitattributes").write_text("* filter=trap diff=trap merge=trap\n")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "-m", "attributes")
    for name in TRAPS:
        git(checkout, "config", name, ("!" if name.startswith("alias") else "") + str(script))
    for hook in ("post-index-change", "post-checkout", "reference-transaction", "fsmonitor-watchman"):
        (checkout / ".git/hooks" / hook).write_text(script.read_text())
        (checkout / ".git/hooks" / hook).chmod(0o755)
    append(checkout)
    return checkout


def snapshot(folder: Path) -> dict[str, tuple[int, str]]:
    return {
        str(path): (path.lstat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in [folder, *folder.rglob("*")]
        if path.is_file()
    } | {str(path): (path.stat().st_mtime_ns, "") for path in [folder, *folder.rglob("*")] if path.is_dir()}


def test_nothing_of_the_checkout_is_run_and_nothing_is_written(trapped: Path, tmp_path: Path) -> None:
    before = snapshot(trapped)
    command = [sys.executable, "-c", "from app.cli import main; main()", "source", "identify", str(trapped)]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["changes"]["modified"]["first"] == ["code/a.py"]
    assert snapshot(trapped) == before
    assert not (tmp_path / "sprung").exists()
    git(trapped, "status")
    assert (tmp_path / "sprung").exists(), "the traps work"


def test_variables_of_the_caller_do_not_lead_elsewhere(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = look(checkout).to_document()
    for name in ("DIR", "WORK_TREE", "INDEX_FILE", "OBJECT_DIRECTORY", "NAMESPACE", "CONFIG_PARAMETERS"):
        monkeypatch.setenv(f"GIT_{name}", "'core.bare'='true'" if "CONFIG" in name else str(tmp_path))
    assert look(checkout).to_document() == before
    assert not Git(checkout).is_bare


def test_command_prints_an_object_or_lines(checkout: Path, tmp_path: Path) -> None:
    done = run(str(checkout), "--json", "--repository", "example/code")
    document = json.loads(done.stdout)
    assert (done.exit_code, document["schema"], document["repository"]) == (
        0,
        "sparkgate-source/v1",
        "example/code",
    )
    assert document == {**look(checkout).to_document(), "repository": "example/code"}
    (checkout / "odd\x1b[31m name").write_text("")
    lines = run(str(checkout)).stdout
    assert f"commit         {document['commit']}" in lines
    assert "state          dirty" in lines
    assert "untracked: odd\\x1b[31m name" in lines


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (("none",), 2, "none: expected a folder, found none"),
        (("clone/code",), 2, "is a part of the checkout"),
        (("clone", "--only", "../x"), 2, "expected a path below the root"),
        (("clone", "--repository", "https://a:b@c"), 2, "expected no credentials"),
        (("clone", "--only", "code", "--register"), 2, "register: expected the digest of all files"),
        (("clone", "--plain", "--register"), 2, "register: expected every part known, found no repository"),
        (("clone", "--register"), 2, "API key"),
    ],
)
def test_command_says_what_is_wrong(
    checkout: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    status: int,
    text: str,
) -> None:
    monkeypatch.setenv("SPARKGATE_HOME", str(tmp_path / "home"))
    path, *rest = arguments
    for more in ([], ["--json"]):
        done = run(str(tmp_path / path), *rest, *more)
        assert done.exit_code == status
        assert text in (json.loads(done.stdout)["error"] if more else done.stderr)
        assert isinstance(done.exception, SystemExit)


def test_problem_is_an_exit_code_and_the_rest_is_still_told(checkout: Path, tmp_path: Path) -> None:
    link(checkout)
    done = run(str(checkout), "--json")
    document = json.loads(done.stdout)
    assert (done.exit_code, document["source_sha256"], document["problems"]["count"]) == (1, None, 1)
    assert document["commit"] == git(checkout, "rev-parse", "HEAD")


@dataclass
class DirectApi:
    """What the command would reach over the network."""

    client: TestClient
    key: str

    def post(self, path: str, *, body: object) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.key}"}
        answer = self.client.post(path, headers=headers, json=body)
        if not answer.is_success:
            raise ApiError(answer.json()["detail"])
        return answer.json()  # type: ignore[no-any-return]


@pytest.fixture
def register(
    checkout: Path, client: TestClient, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Result]:
    """Identify and register the checkout at the control plane."""
    api = DirectApi(client=client, key=keys["operator"])
    monkeypatch.setattr(source_command, "open_api", lambda *_, **__: api)
    arguments = ["source", "identify", str(checkout), "--json", "--register", "--repository", "example/code"]
    return lambda: CliRunner().invoke(cli, arguments)


def test_clean_checkout_is_registered_once(
    register: Callable[[], Result], checkout: Path, client: TestClient, keys: dict[str, str]
) -> None:
    first, again = (json.loads(register().stdout)["registered"] for _ in range(2))
    assert first == again
    headers = {"Authorization": f"Bearer {keys['operator']}"}
    assert client.get("/api/v1/sources", headers=headers).json()["sources"] == [first]
    found = look(checkout)
    assert (first["commit"], first["tree"], first["source_sha256"]) == (
        found.commit,
        found.tree,
        found.source_sha256,
    )


def test_dirty_checkout_is_not_registered(register: Callable[[], Result], checkout: Path) -> None:
    append(checkout)
    done = register()
    assert done.exit_code == 2
    assert "expected a checkout without changes, found a dirty one" in done.stdout
