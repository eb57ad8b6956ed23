"""Source identities and the source-tree digest (evidence-model §9, §11.4), against a second computation."""

import hashlib
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.digest import Digest, sha256
from app.core.errors import CoreError, FormatError
from app.core.source_identity import (
    SEED,
    CommitId,
    SourceContent,
    SourceIdentity,
    TreeId,
    is_excluded,
    parse_path,
    source_tree_digest,
)

COMMIT, TREE, SOURCE = "a" * 40, "b" * 40, "c" * 64
KNOWN = {"repository": "example/code", "commit": COMMIT, "tree": TREE, "source_sha256": SOURCE}


def content(*chunks: bytes) -> Digest:
    running = SourceContent()
    for chunk in chunks:
        running.update(chunk)
    return running.digest()


def by_the_letter(files: dict[bytes, bytes]) -> str:
    """§11.4 written down again, with nothing of ours."""
    digest = hashlib.sha256(b"sparkcache-source-tree/v1\x00")
    for path in sorted(files):
        digest.update(struct.pack("<I", len(path)) + path)
        digest.update(hashlib.sha256(files[path].replace(b"\r\n", b"\n")).digest())
    return digest.hexdigest()


def test_empty_tree_is_the_digest_of_the_seed() -> None:
    assert source_tree_digest([]) == sha256(b"sparkcache-source-tree/v1\x00") == sha256(SEED)


def test_pinned_tree() -> None:
    """Made with `by_the_letter`; another value here would change every identity ever registered."""
    files = {"a/b.py": b"x = 1\r\ny = 2\r\n", "a-b.py": b"", "README.md": "ä\n".encode()}
    named = [(path, content(raw)) for path, raw in files.items()]
    expected = by_the_letter({path.encode(): raw for path, raw in files.items()})
    assert source_tree_digest(named) == expected
    assert expected == "2aeb41beac32087288d0e023acdd9d8113cdfa3de86943338478f2751c3b027f"


def test_order_is_that_of_the_path_bytes_not_of_their_parts() -> None:
    """`a-b` stands before `a/b` ("-" is 0x2d, "/" is 0x2f), which sorting by folders would turn round."""
    empty = content(b"")
    there, back = [("a/b", empty), ("a-b", empty)], [("a-b", empty), ("a/b", empty)]
    assert source_tree_digest(there) == source_tree_digest(back) == by_the_letter({b"a-b": b"", b"a/b": b""})


@given(
    st.dictionaries(
        st.from_regex(r"[a-z\-.]{1,4}(/[a-zäß☃]{1,3}){0,2}", fullmatch=True), st.binary(max_size=40)
    )
)
def test_any_tree_equals_the_second_computation(files: dict[str, bytes]) -> None:
    named = [(path, content(raw)) for path, raw in files.items()]
    assert source_tree_digest(named) == by_the_letter({path.encode(): raw for path, raw in files.items()})


@given(st.lists(st.sampled_from([b"\r", b"\n", b"\r\n", b"\r\r\n", b"a", b""]), max_size=12))
def test_line_ends_do_not_depend_on_where_a_read_ends(chunks: list[bytes]) -> None:
    assert content(*chunks) == sha256(b"".join(chunks).replace(b"\r\n", b"\n"))


def test_lone_carriage_return_stays() -> None:
    assert content(b"a\r", b"b\r") == sha256(b"a\rb\r")


def test_digest_may_be_asked_for_between_two_updates() -> None:
    running = SourceContent()
    running.update(b"a\r")
    assert running.digest() == sha256(b"a\r")
    running.update(b"\n")
    assert running.digest() == sha256(b"a\n")


def test_path_twice_is_refused() -> None:
    empty = content(b"")
    with pytest.raises(FormatError, match=r"source tree: expected every path once, found 'a' twice"):
        source_tree_digest([("a", empty), ("a", empty)])


@pytest.mark.parametrize(
    ("path", "excluded"),
    [
        ("app/main.py", False),
        ("app/__pycache__/main.cpython-311.pyc", True),
        ("main.pyc", True),
        ("main.pyo", True),
        (".git/config", True),
        (".git", True),
        ("sub/.git", True),
        (".gitignore", False),
        (".github/workflows/ci.yml", False),
        ("build/lib/x.py", True),
        ("a/build/x.py", True),
        ("build", False),
        ("build.py", False),
        ("rebuild/x.py", False),
        ("dist/x.whl", True),
        ("code.egg-info/PKG-INFO", True),
        (".mypy_cache/x", True),
        (".cache/x", True),
        ("cache/x", False),
        ("context_cache/x.py", False),
        ("x_cache.py", False),
    ],
)
def test_what_is_left_out(path: str, excluded: bool) -> None:
    """A file called `build` is a source; a folder called so is not."""
    assert is_excluded(path) == excluded


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "expected a path"),
        (b"/a", "expected a path"),
        (b"a//b", "expected a path"),
        (b"a/../b", "expected a path"),
        (b"./a", "expected a path"),
        (b"a/", "expected a path"),
        (b"a\x00b", "expected a path"),
        (b"a/\xff.py", r"path b'a/\\xff.py': expected UTF-8"),
        ("\udcff", None),
    ],
)
def test_what_is_no_path_is_refused(raw: bytes | str, message: str | None) -> None:
    if isinstance(raw, str):
        with pytest.raises(FormatError, match="expected UTF-8"):
            source_tree_digest([(raw, content(b""))])
        return
    with pytest.raises(FormatError, match=message):
        parse_path(raw)


def test_identity_is_read_and_written_in_one_form() -> None:
    identity = SourceIdentity.of(**KNOWN)
    raw = identity.encode()
    assert (
        raw
        == (
            f'{{"commit":"{COMMIT}","repository":"example/code","schema":"sparkgate-source-identity/v1",'
            f'"source_sha256":"{SOURCE}","tree":"{TREE}"}}'
        ).encode()
    )
    assert SourceIdentity.parse(raw) == identity


def test_unknown_part_is_a_value() -> None:
    bare = SourceIdentity.of(repository="example/code", commit=COMMIT, tree=None, source_sha256=None)
    assert b'"tree":null' in bare.encode()
    assert SourceIdentity.parse(bare.encode()) == bare
    assert bare != SourceIdentity.of(**KNOWN)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"commit": "C" * 40}, "commit: expected 40 lower-case hexadecimal digits"),
        ({"commit": SOURCE}, "commit: expected 40 .* found 64 digits, the length of a SHA-256"),
        ({"tree": SOURCE}, "tree: expected 40 .* found 64 digits, the length of a SHA-256"),
        ({"source_sha256": COMMIT}, "source_sha256: expected 64 .* found 40 digits, the length of a git"),
        ({"commit": "abc1234"}, "commit: expected 40 .* found 7 digits: an abbreviation names"),
        ({"commit": "0" * 40}, "commit: expected .* found forty zeros"),
        ({"source_sha256": f"sha256:{SOURCE}"}, "source_sha256: expected 64 lower-case .* found 'sha256:"),
        ({"tree": COMMIT}, "expected two different objects as commit and tree, found the same id in both"),
        ({"repository": ""}, "repository: expected"),
        ({"repository": "two\nlines"}, "repository: expected"),
        ({"repository": "x" * 501}, "repository: expected"),
        ({"repository": "https://me:secret@host/x"}, "repository: expected no credentials"),
        ({"repository": "https://token@host/x"}, "repository: expected no credentials"),
        ({"commit": 1}, "commit: expected 40"),
        (dict.fromkeys(KNOWN), "expected at least one known part"),
    ],
)
def test_wrong_part_is_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        SourceIdentity.of(**{**KNOWN, **changes})  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("repository", ["git@host:a/b", "ssh://git@host/a/b", "https://host/@a/b", "a/b"])
def test_login_name_of_ssh_is_no_credential(repository: str) -> None:
    assert SourceIdentity.of(**{**KNOWN, "repository": repository}).repository == repository


@pytest.mark.parametrize("raw", [b"{}", b"[]", b'{"schema":"x"}'])
def test_other_documents_are_refused(raw: bytes) -> None:
    with pytest.raises(CoreError):
        SourceIdentity.parse(raw)


def test_commit_and_tree_are_two_types() -> None:
    assert type(CommitId(COMMIT)) is not type(TreeId(COMMIT))


def test_peer_package_has_no_function_to_compare_with() -> None:
    """sparkcache 0.1.0a2 ships no source-tree digest; should a later one, compare with it here."""
    sparkcache = pytest.importorskip("sparkcache")
    texts = [path.read_bytes() for path in Path(sparkcache.__file__).parent.rglob("*.py")]
    assert texts
    assert not any(b"sparkcache-source-tree" in text for text in texts)
