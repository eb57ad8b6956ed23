"""``sparkgate store lookup`` and ``verify``: keys, exit codes, and never a traceback."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from app.cli.store import store_app

from .rig import StoreVector, content_of

ALIAS = "legacy-rows-alias-4096"


class Shell:
    """A copy of one entry's root beside its identity and layout as files."""

    def __init__(self, vector: StoreVector, *, folder: Path) -> None:
        self.vector = vector
        self.root = folder / "root"
        self.identity = folder / "identity.json"
        self.layout = folder / "layout.json"
        shutil.copytree(vector.root, self.root)
        for path in (self.root, *self.root.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        self.identity.write_text(json.dumps(vector.entry["identity"], indent=2))
        if vector.layout is not None:
            self.layout.write_bytes(vector.layout.canonical)

    def run(self, command: str, *options: object, **changes: Any) -> Result:
        values: dict[str, Any] = {
            "root": self.root,
            "identity": self.identity,
            "context": self.vector.entry["context_digest"],
        }
        asked = values | changes
        arguments = [command, asked["root"], "--identity", asked["identity"], "--context", asked["context"]]
        return CliRunner().invoke(store_app, [str(argument) for argument in (*arguments, *options)])

    def ask(self, command: str, *options: object, **changes: Any) -> tuple[int, dict[str, Any]]:
        result = self.run(command, "--json", *options, **changes)
        return result.exit_code, json.loads(result.stdout)


@pytest.fixture
def shell(entries: dict[str, StoreVector], tmp_path: Path, request: pytest.FixtureRequest) -> Shell:
    return Shell(entries[getattr(request, "param", "page-delta-v2-1024")], folder=tmp_path)


def test_the_keys_of_a_hit(shell: Shell) -> None:
    code, answer = shell.ask("lookup")
    assert code == 0
    assert answer == {
        "outcome": "hit",
        "depth": "full",
        "kind": "page_delta",
        "sha256": shell.vector.entry["manifest_sha256"],
        "span_tokens": 1024,
        "objects": 11,
        "bytes": answer["bytes"],
        "stage": None,
        "detail": None,
    }


def test_the_keys_of_a_verification(shell: Shell) -> None:
    code, found = shell.ask("verify", "--layout", shell.layout)
    assert code == 0
    assert set(found) == {
        "outcome",
        "stage",
        "kind",
        "sha256",
        "span_tokens",
        "stream_sha256",
        "detail",
        "note",
        "layers",
        "records",
    }
    assert (found["outcome"], found["stage"], found["records"]) == ("verified", "stream", [])
    assert found["stream_sha256"] == shell.vector.entry["stream_sha256"]
    assert {item["name"]: item["sha256"] for item in found["layers"]} == content_of(shell.vector.verify())
    assert {frozenset(item) for item in found["layers"]} == {frozenset({"name", "pages", "bytes", "sha256"})}


def test_without_a_layout_it_says_what_was_not_done(shell: Shell) -> None:
    code, found = shell.ask("verify")
    assert (code, found["layers"], found["stream_sha256"]) == (0, [], None)
    assert "without a page layout" in found["note"]


@pytest.mark.parametrize("shell", [ALIAS], indirect=True)
def test_an_alias_needs_its_mode(shell: Shell) -> None:
    assert shell.ask("lookup")[0] == 3
    code, answer = shell.ask("lookup", "--mode", "rows")
    assert (code, answer["kind"], answer["objects"]) == (0, "prefix_alias", 16)
    code, found = shell.ask("verify", "--mode", "rows")
    assert {item["kind"]: item["sha256"] for item in found["records"]} == shell.vector.entry["records_sha256"]


@pytest.mark.parametrize("shell", ["release-0.1.0a2-chunks"], indirect=True)
def test_an_identity_in_the_releases_form(shell: Shell) -> None:
    assert shell.ask("lookup")[0] == 0
    assert shell.ask("verify", "--layout", shell.layout)[0] == 0
    shell.identity.write_text(json.dumps(shell.vector.entry["identity"] | {"cp_kv_cache_interleave_size": 1}))
    assert shell.ask("lookup")[0] == 3


@pytest.mark.parametrize(("depth", "code"), [("metadata", 0), ("size", 0), ("full", 1)])
def test_a_flipped_byte_is_seen_where_contents_are(shell: Shell, depth: str, code: int) -> None:
    document = json.loads((shell.root / shell.vector.document).read_bytes())
    path = shell.root / "chunks" / f"{document['delta_objects'][0]['sha256']}.spcc"
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)
    found, answer = shell.ask("lookup", "--depth", depth)
    assert (found, answer["stage"]) == (code, "content" if code else None)


def test_every_outcome_has_its_code(shell: Shell) -> None:
    for command in ("lookup", "verify"):
        assert shell.ask(command, context="0" * 64)[0] == 3
        assert shell.ask(command, context="X" * 64)[0] == 1
        document = shell.root / shell.vector.document
        other = document.with_name(f"{'1' * 64}.json")
        other.write_bytes(document.read_bytes())
        code, answer = shell.ask(command, context="1" * 64)
        assert (code, answer["outcome"], answer["stage"]) == (4, "incompatible", "metadata")
        other.write_bytes(b"{}")
        assert shell.ask(command, context="1" * 64)[0] == 1


def test_input_that_cannot_be_used(shell: Shell, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"tp_degree": 1}')
    for changes in (
        {"root": tmp_path / "none"},
        {"identity": tmp_path / "none"},
        {"identity": wrong},
        {"identity": shell.layout},
    ):
        for command in ("lookup", "verify"):
            code, answer = shell.ask(command, **changes)
            assert (code, answer["outcome"]) == (2, "unreadable")
    assert shell.ask("verify", "--layout", wrong)[0] == 2
    assert shell.run("lookup", "--depth", "deep").exit_code == 2
    assert shell.run("verify", "--mode", "columns").exit_code == 2


@pytest.mark.parametrize("shell", ["flat-v2-single", "legacy-rows"], indirect=True)
def test_a_person_can_read_it(shell: Shell) -> None:
    layout = () if shell.vector.layout is None else ("--layout", shell.layout)
    for result in (shell.run("lookup"), shell.run("verify", *layout), shell.run("lookup", context="0" * 64)):
        assert "Traceback" not in result.output
    verified = shell.run("verify", *layout)
    assert verified.exit_code == 0
    for name, digest in content_of(shell.vector.verify()).items():
        assert name in verified.stdout
        assert digest[:20] in verified.stdout
    absent = shell.run("lookup", context="0" * 64)
    assert absent.exit_code == 3
    assert "absent" in absent.stdout


def test_nothing_in_the_root_is_touched(shell: Shell) -> None:
    before = {path: path.stat() for path in shell.root.rglob("*")}
    shell.run("lookup")
    shell.run("verify", "--layout", shell.layout)
    after = {path: path.stat() for path in shell.root.rglob("*")}
    assert {path: (s.st_mtime_ns, s.st_ctime_ns, s.st_size) for path, s in after.items()} == {
        path: (s.st_mtime_ns, s.st_ctime_ns, s.st_size) for path, s in before.items()
    }
