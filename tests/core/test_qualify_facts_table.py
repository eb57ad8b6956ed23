"""The declarative table: every name in it is one that an extractor reads, every pattern a pointer
(appendix A).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import app.core.qualify.schema_table as schema_table
from app.core.canonical_json import decode_strict
from app.core.qualify.facts import Capability, Kind, Meaning, StatusClass
from app.core.qualify.gates import Agreement, AnswerOf, RestartKind
from app.core.qualify.pointer import matches
from app.core.qualify.schema_table import schema_names
from app.core.qualify.subject import ImageRole

_FOLDER = Path(schema_table.__file__).parent
_COMPARE = {
    "at",
    "expected",
    "observed",
    "flag",
    "response_sha256",
    "prompt_sha256",
    "finish_reason",
    "prompt",
}
_MODEL = {"repository", "revision", "reference", "digests", "alias"}
_RANK = {"at", "rank", "outcome", "tokens", "bytes", "objects", "restores", "context", "new_process", "fence"}
_RECORDS = _RANK | {"fence_ns", "payload", "payload_sha256"}
_SUBJECT = {
    *(
        "image",
        "image_again",
        "manifest",
        "same",
        "commit",
        "tree",
        "source_sha256",
        "wheel_sha256",
        "uncommitted",
    ),
    *("builder", "topology", "tp", "dcp", "pp", "dcp_of_name", "said_twice", "publication_schema"),
    *("configured_schema", "manifest_schema", "storage_mode", "kv_dtype", "speculation", "cache_enabled"),
}
_FAULT = {
    *(
        "kind",
        "rank",
        "rejected",
        "reason",
        "reason_rejects",
        "recoveries",
        "recovered",
        "recovery",
        "rescheduled",
    ),
    *("engine_error", "fallback_tokens", "fallback_expected", "attested"),
}
_SUBJECT_NAMES: dict[str, Any] = {
    **dict.fromkeys(_SUBJECT),
    "target": dict.fromkeys(_MODEL),
    "draft": dict.fromkeys(_MODEL),
    "rank_images": dict.fromkeys(("at", "rank", "image", "source_sha256")),
}
# Section to the names it may hold; a dictionary is a section of its own.
NAMES: dict[str, Any] = {
    **dict.fromkeys(("kind", "capability", "family", "ceilings", "no_verdict", "sparkcache", "validator")),
    "capability_of_case": None,
    "subject": _SUBJECT_NAMES,
    "status": {
        **dict.fromkeys(("document", "fallback", "accepted", "flags", "checks", "admission")),
        **dict.fromkeys(("flags_anywhere", "admission_anywhere")),
    },
    "admission": dict.fromkeys(
        ("deployable", "qualified", "reason", "published", "published_digest", "clean_pull")
    ),
    "lifecycle": {
        **dict.fromkeys(("release", "supersedes_schema", "supersedes_reason", "measurements_changed")),
        "withdrawal": dict.fromkeys(("manifest", "reason", "replacement_release", "replacement")),
    },
    "mentions": dict.fromkeys(role.value for role in ImageRole),
    "labels_only": dict.fromkeys(("runtime", "child", "layers", "configuration")),
    "registry": dict.fromkeys(("manifest", "image")),
    "pins": dict.fromkeys(("at", "path", "sibling", "sibling_after", "canonical")),
    "remarks": dict.fromkeys(("meaning", "at", "first_of", "is", "class", "image")),
    "statements": dict.fromkeys(("established", "not_established")),
    "cases": {
        **dict.fromkeys(("at", "when", "unless", "not_named", "id_contains", "capability", "status")),
        "equals": dict.fromkeys(("at", "is")),
        "subject": _SUBJECT_NAMES,
        "span": dict.fromkeys(("context", "prompt", "prompt_tokens", "restored", "cached", "concurrency")),
        "ranks": {
            **dict.fromkeys(("vectors", "equal_vectors", "listed", "summaries", "counted")),
            **dict.fromkeys(("all_verified", "verified_ranks")),
            "records": dict.fromkeys(_RECORDS),
            "headlines": dict.fromkeys(("value", "vector", "blocking")),
        },
        "oracle": {
            **dict.fromkeys(("of", "agreement", "attested", "attested_counts", "suffix_if_annotated")),
            "compare": dict.fromkeys(_COMPARE),
            "right_of_all": dict.fromkeys(("right", "requests", "listed")),
            "published": dict.fromkeys(_COMPARE),
            "same": dict.fromkeys(("reference", "values", "last")),
            "policy": dict.fromkeys(("at", "exact", "else")),
            "inconclusive": dict.fromkeys(("null", "false", "cut", "empty")),
            "elsewhere": dict.fromkeys(("path", "sibling", "sha256")),
        },
        "control": {
            **dict.fromkeys(("relationship", "restored", "recomputed")),
            "compare": dict.fromkeys(_COMPARE),
        },
        "rollback": {
            **dict.fromkeys(("image", "recomputed", "recheck", "live_tested")),
            "compare": dict.fromkeys(_COMPARE),
        },
        "restart": dict.fromkeys(("kind", "happened", "noted", "noted_count", "image_unchanged")),
        "fault": {**dict.fromkeys(_FAULT), "compare": dict.fromkeys(_COMPARE)},
        "drill": dict.fromkeys(("noted", "fault", "rank")),
        "isolation": {
            **dict.fromkeys(("at", "name", "cached")),
            "ranks": {"records": dict.fromkeys(_RECORDS)},
        },
        "drain": dict.fromkeys(("zero", "observed")),
        "readiness": dict.fromkeys(("zero", "observed")),
    },
}
# Names whose values are words of an enumeration or texts, not patterns.
_WORDS: dict[str, set[str] | None] = {
    "kind": {*(kind.value for kind in Kind), *(kind.value for kind in RestartKind)},
    "capability": {one.value for one in Capability},
    "meaning": {one.value for one in Meaning},
    "class": {one.value for one in StatusClass},
    "of": {one.value for one in AnswerOf},
    "agreement": {one.value for one in Agreement},
    "else": {one.value for one in Agreement},
    "family": {"page-tail", "activation", "composition", "claim", "declared"},
    **dict.fromkeys(
        ("ceilings", "no_verdict", "validator", "id_contains", "is", "exact", "sibling_after", "not_named")
    ),
}
_PATTERN = re.compile(r"(?:\.\./)*[A-Za-z0-9_.*|~-]+(?:/[A-Za-z0-9_.*|~-]+)*|(?:/[A-Za-z0-9_.*|~-]+)+|")


def table() -> dict[str, Any]:
    read = decode_strict((_FOLDER / "schemas.json").read_bytes(), subject="schemas.json")
    assert isinstance(read, dict)
    return read


@pytest.mark.parametrize("name", schema_names())
def test_an_entry_has_only_names_that_are_read(name: str) -> None:
    assert list(_unknown(table()["schemas"][name], NAMES, "")) == []


def test_the_defaults_have_only_names_that_are_read() -> None:
    for members in table()["defaults"].values():
        assert list(_unknown(members, NAMES, "")) == []


@pytest.mark.parametrize("name", schema_names())
def test_an_entry_has_only_patterns_and_known_words(name: str) -> None:
    assert list(_wrong(table()["schemas"][name], "")) == []


def test_patterns_find_what_they_say() -> None:
    value: Any = {"a": [{"b": 1}, {"b": 2}], "x_restore": 3, "y_restore": 4, "s/t": {"~": 5}, "*": 6}
    found = {
        pattern: list(matches(value, pattern))
        for pattern in ("/a/*/b", "/*_restore", "/a|y_restore", "/a/1/b")
    }
    assert found["/a/*/b"] == [("/a/0/b", 1), ("/a/1/b", 2)]
    assert found["/*_restore"] == [("/x_restore", 3), ("/y_restore", 4)]
    assert [at for at, _ in found["/a|y_restore"]] == ["/a", "/y_restore"]
    assert found["/a/1/b"] == [("/a/1/b", 2)]
    assert list(matches(value, "/s~1t/~0")) == [("/s~1t/~0", 5)]
    assert [at for at, _ in matches(value, "/s~1t/*")] == ["/s~1t/~0"]
    assert (
        list(matches(value, "/a/7"))
        == list(matches(value, "/a/01x"))
        == list(matches(value, "/nothing/at"))
        == []
    )
    assert list(matches(value, "")) == [("", value)]


def _unknown(value: Any, names: Any, at: str) -> Iterator[str]:
    if isinstance(value, list):
        for element in value:
            yield from _unknown(element, names, at)
    elif isinstance(value, dict):
        for key, member in value.items():
            if not isinstance(names, dict) or key not in names:
                yield f"{at}/{key}"
            elif names[key] is None and isinstance(member, dict):
                yield f"{at}/{key} is no section"
            else:
                yield from _unknown(member, names[key], f"{at}/{key}")


def _wrong(value: Any, key: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, member in value.items():
            # "kind" of a fault is a pattern, of an entry and a restart a word.
            yield from _wrong(member, "pattern" if (key, name) == ("fault", "kind") else name)
    elif isinstance(value, list):
        for element in value:
            yield from _wrong(element, key)
    elif isinstance(value, str):
        allowed = _WORDS.get(key, False)
        if allowed is False and _PATTERN.fullmatch(value) is None:
            yield f"{key}: {value}"
        if isinstance(allowed, set) and value not in allowed:
            yield f"{key}: {value}"
