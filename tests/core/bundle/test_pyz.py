"""verify.pyz on a Python with nothing installed: standard library alone, any directory, no network."""

import ast
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from app.core.bundle.code_archive import import_closure, verifier_archive
from app.core.bundle.verify import VerifyOptions, verify_bundle
from app.core.qualify.ruleset import ruleset_version
from tests.core.bundle import rig

POISON = "raise ImportError('poisoned: the verifier must not import this')\n"
POISONED = ("numpy", "cryptography", "app_settings", "sqlalchemy", "pydantic", "typer")


@pytest.fixture(scope="module")
def auditor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the bundle, the program out of it, and poison."""
    folder = tmp_path_factory.mktemp("auditor")
    raw = rig.build(rig.small_sample(), verifier=verifier_archive())
    (folder / "bundle.tar").write_bytes(raw)
    (folder / "verify.pyz").write_bytes(rig.unpack(raw)["verify.pyz"])
    sample = rig.small_sample()
    (folder / "kept.txt").write_bytes(sample.checkpoint(2))
    for name in POISONED:
        (folder / f"{name}.py").write_text(POISON)
    return folder


def _verify(
    folder: Path, *given: str, python: str = sys.executable, flags: tuple[str, ...] = ("-S", "-I", "-B")
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, *flags, "verify.pyz", *given],
        cwd=folder,
        env={"PATH": os.defpath, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def _at_hand() -> dict[tuple[int, int], str]:
    """Every Python of this machine by its version: those that can be called, and those of pyenv."""
    names = ["python2", "python3", *(f"python3.{minor}" for minor in range(4, 20))]
    called = [path for name in names if (path := shutil.which(name))]
    kept = [str(path) for path in sorted(Path.home().glob(".pyenv/versions/*/bin/python"))]
    found: dict[tuple[int, int], str] = {sys.version_info[:2]: sys.executable}
    for path in (*called, *kept):
        asked = subprocess.run(
            [path, "-c", "import sys; print('%d %d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        if asked.returncode == 0:
            major, minor = map(int, asked.stdout.split())
            found.setdefault((major, minor), path)
    return found


AT_HAND = _at_hand()
NEW = {version: path for version, path in sorted(AT_HAND.items()) if version >= (3, 11)}
OLD = {version: path for version, path in sorted(AT_HAND.items()) if version < (3, 11)}


@pytest.mark.parametrize("version", sorted({min(NEW), max(NEW)}))
def test_it_runs_on_the_oldest_and_the_newest_python_at_hand(auditor: Path, version: tuple[int, int]) -> None:
    given = ("bundle.tar", "--key", rig.key(), "--checkpoint", "kept.txt")
    done = _verify(auditor, *given, python=NEW[version])
    assert (done.returncode, done.stderr) == (0, "")
    assert "by the routine in this program" in done.stdout
    assert done.stdout.endswith("outcome   good\n")


@pytest.mark.parametrize("version", sorted(OLD) or [None])
def test_an_older_python_gets_a_sentence(auditor: Path, version: tuple[int, int] | None) -> None:
    if version is None:
        pytest.skip("no Python older than 3.11 is installed here")
    done = _verify(auditor, "bundle.tar", python=OLD[version], flags=("-S", "-E", "-B"))
    told = f"verify.pyz: expected Python 3.11 or newer, found {version[0]}.{version[1]}\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)


def test_nothing_installed_is_imported_although_it_lies_there(auditor: Path) -> None:
    """Without -I the poisoned modules are the first that Python would find."""
    done = _verify(auditor, "bundle.tar", "--json", flags=("-S", "-B"))
    assert (done.returncode, done.stderr) == (3, "")
    said = json.loads(done.stdout)
    assert said["outcome"] == "consistent, signer not established"
    assert said["counts"]["verdicts_judged"] == said["counts"]["verdicts"]


@pytest.mark.parametrize(
    ("given", "code", "told"),
    [
        (("bundle.tar",), 3, "signer not established"),
        (("bundle.tar", "--key", "ab" * 32), 1, "finding   signer: expected the key"),
        (("nothing.tar",), 2, "expected a readable file"),
        (("verify.pyz",), 2, "unreadable"),
        (("bundle.tar", "--checkpoint", "nothing.txt"), 2, "checkpoint nothing.txt"),
        (("bundle.tar", "--checkpoint", "verify.pyz"), 1, "kept checkpoint"),
        (("changed.tar", "--key", rig.key()), 1, "finding"),
        ((".",), 2, "Is a directory"),
    ],
)
def test_exit_codes(auditor: Path, given: tuple[str, ...], code: int, told: str) -> None:
    changed = bytearray((auditor / "bundle.tar").read_bytes())
    changed[len(changed) // 2] ^= 4
    (auditor / "changed.tar").write_bytes(changed)
    done = _verify(auditor, *given)
    assert (done.returncode, done.stderr) == (code, "")
    assert told in done.stdout


@pytest.mark.parametrize(
    ("output", "told"),
    [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor"), ("| true", "")],
)
def test_an_answer_nobody_gets_is_none(auditor: Path, output: str, told: str) -> None:
    """Neither good nor a traceback, which would leave with 1 as findings do."""
    program = f"{sys.executable} -S -I -B verify.pyz bundle.tar --key {rig.key()}"
    script = f"({program}; echo $? >&2) {output}"
    done = subprocess.run(
        ["sh", "-c", script], cwd=auditor, capture_output=True, text=True, check=False, timeout=60
    )
    assert (told in done.stderr, "Traceback" in done.stderr) == (True, False)
    assert done.stderr.splitlines()[-1] == "2" or not told


def test_too_little_memory_is_no_finding(auditor: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_given: object, **_named: object) -> None:
        raise MemoryError

    monkeypatch.setattr("app.core.bundle.verify.read_contents", exhausted)
    found = verify_bundle(auditor / "bundle.tar", options=VerifyOptions())
    assert (
        found.exit_code,
        rig.said(found).endswith("expected memory to check it in, found too little"),
    ) == (2, True)


def test_usage_is_two(auditor: Path) -> None:
    assert _verify(auditor).returncode == 2
    assert "0 good, 1 findings, 2 unreadable" in _verify(auditor, "--help").stdout


def test_it_is_the_same_bytes_every_time_and_holds_sources_only() -> None:
    raw = verifier_archive()
    verifier_archive.cache_clear()
    assert verifier_archive() == raw
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        names = archive.namelist()
        assert names == sorted(names)
        assert {Path(name).suffix for name in names} == {".py", ".json"}
        assert {one.date_time for one in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        for name in names:
            assert archive.read(name) == (
                Path(name).read_bytes() if name != "__main__.py" else archive.read(name)
            )


def test_the_first_file_is_readable_for_any_python() -> None:
    """Only what Python 2 and the first of 3 understand stands before the question for the version."""
    with zipfile.ZipFile(io.BytesIO(verifier_archive())) as archive:
        first = archive.read("__main__.py").decode("ascii")
    tree = ast.parse(first, feature_version=(3, 4))
    kinds = [type(node).__name__ for node in tree.body]
    assert kinds == ["Import", "If", "ImportFrom", "Expr"]
    assert 'f"' not in first
    old = first.replace("import sys\n", "import sys\nsys.version_info = (3, 6, 0)\n")
    done = subprocess.run([sys.executable, "-c", old], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "verify.pyz: expected Python 3.11 or newer, found 3.6\n"


def test_only_the_core_without_builder_and_numpy_is_in_it() -> None:
    closure = import_closure("app.core.bundle.__main__")
    assert "app.core.bundle.build" not in closure
    assert not any(name.startswith(("app.core.restore", "app.core.store")) for name in closure)
    assert all(name == "app" or name.startswith("app.core") for name in closure)


def test_it_judges_with_the_rules_of_this_version(auditor: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            *("-S", "-I", "-B", "-c"),
            "import sys; sys.path.insert(0, 'verify.pyz')\n"
            "from app.core.qualify.ruleset import ruleset_version; print(ruleset_version())",
        ],
        cwd=auditor,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == ruleset_version()
