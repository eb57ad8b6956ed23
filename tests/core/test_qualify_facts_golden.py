"""The facts of the corpus: the golden table, the index of the corpus, and appendix B row by row."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.core.qualify.document import read_document
from app.core.qualify.facts import DocumentFacts, Kind
from app.core.qualify.pointer import matches
from app.core.qualify.schema_table import phrases, schema_entry, schema_names
from app.core.qualify.serialise import facts_document
from tests.data.evidence_facts import corpus_files, facts_of, golden_line, stored_lines

# Appendix B.1 names these places too; no fact is made of them, for the reason beside them.
UNREAD = {
    "/dcp1_kv_capacity_sweep/candidates/*/result": "a candidate's word: nested where its class is known",
    "/live_arm_state/*/status": "an arm's word: nested where its class is known",
    "/observations/*": "read only where the document has no profiles",
    "/conditions/tensor_parallel_degrees": "a list of degrees binds none; serving needs no degree",
    "/profiles/*/decode_context_parallel_size": "of the preferred profile only",
    "/limitations/*": "sentences and words: statements",
    "/finish_reason": "read as the reason why no answer can be compared, else shown",
    "/content_characters": "read as the reason why no answer can be compared, else shown",
    "/sparkcache_publication/ranks": "publication only: timings",
    "/rank_commits": "publication only: timings",
    "/result/explicit_persistent_restores_observed": "zero restores: the serving case has no ranks",
    "/checks/*/expected": "null where the check expects a refusal",
    "/restoration": "the state of the hosts afterwards; its limitation is annotated",
    "/runs/*/restart_scope": "a sentence without an annotation",
    "/validation/response_codewords": "readiness needs no answer",
    "/deep_context/snapshot/restart_restore_replayed": "false: there is no such restore case",
}
_SCHEMA_PREFIX = {"C": "sparkcache-", "R": "sparkring-"}


@pytest.fixture(scope="module")
def evidence(shared_dir: Path) -> Path:
    return shared_dir / "evidence"


@pytest.fixture(scope="module")
def corpus(evidence: Path) -> dict[str, DocumentFacts | None]:
    return {name: facts_of(evidence, name) for name in corpus_files(evidence)}


@pytest.fixture(scope="module")
def index(evidence: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((evidence / "INDEX.json").read_text(encoding="utf-8"))
    return {entry["file"]: entry for entry in read["files"]}


def test_the_golden_table_holds(corpus: dict[str, DocumentFacts | None]) -> None:
    stored = {line["file"]: line for line in stored_lines()}
    assert stored.keys() == corpus.keys(), "run python -m tests.data.evidence_facts and read the difference"
    for name, facts in corpus.items():
        line = golden_line(name, facts) if facts else {"file": name}
        assert json.loads(json.dumps(line)) == stored[name], name


def test_only_the_malformed_file_is_refused(corpus: dict[str, DocumentFacts | None]) -> None:
    assert [name.split("/")[0] for name, facts in corpus.items() if facts is None] == ["_malformed"]


def test_every_known_schema_has_an_entry(index: dict[str, Any]) -> None:
    named = {entry["schema"] for entry in index.values() if entry["schema"]}
    unknown = {name for name in named if not name.startswith("<") and schema_entry(name) is None}
    assert unknown == set()


def test_digests_are_those_of_the_index(
    corpus: dict[str, DocumentFacts | None], index: dict[str, Any]
) -> None:
    for name, facts in corpus.items():
        if facts is not None:
            assert facts.sha256 == index[name]["sha256"], name
            assert facts.byte_count == index[name]["bytes"], name
            assert facts.canonical_sha256 == index[name].get("canonical_sha256", facts.canonical_sha256), name


def test_capability_and_kind_are_those_of_the_labels(
    corpus: dict[str, DocumentFacts | None], index: dict[str, Any]
) -> None:
    for name, facts in corpus.items():
        label = index[name]["label"]
        if facts is None:
            continue
        assert facts.schema.capability.value == label["capability"], name
        assert facts.schema.kind is not Kind.UNKNOWN, name
        if label["outcome"] == "none":
            assert facts.schema.no_verdict in label["codes"], name
        else:
            assert facts.schema.no_verdict == "", name


def test_times_per_rank_are_those_of_the_index(
    corpus: dict[str, DocumentFacts | None], index: dict[str, Any]
) -> None:
    for name, facts in corpus.items():
        if facts is not None:
            known = {vector["at"] for vector in index[name].get("per_rank_timing", [])}
            assert {timing.pointer for timing in facts.timings} == known, name


def test_embedded_payload_digests_recompute(corpus: dict[str, DocumentFacts | None]) -> None:
    payloads = [payload for facts in corpus.values() if facts for payload in facts.payloads]
    assert len(payloads) == 8
    for payload in payloads:
        declared, computed = facts_document(payload)["declared"], facts_document(payload)["computed"]
        assert isinstance(declared, dict)
        assert isinstance(computed, dict)
        assert declared["value"] == computed["value"]


def test_every_phrase_is_found_in_the_corpus(corpus: dict[str, DocumentFacts | None]) -> None:
    used = {remark.phrase for facts in corpus.values() if facts for remark in facts.remarks}
    shipped = {phrase.name for name in schema_names() for phrase in phrases(name)}
    assert shipped == used - {""}


def test_every_place_of_appendix_b_is_read(
    shared_dir: Path, evidence: Path, corpus: dict[str, DocumentFacts | None], index: dict[str, Any]
) -> None:
    rows = dict(_rows((shared_dir / "spec" / "evidence-model.md").read_text(encoding="utf-8")))
    seen: set[str] = set()
    for name, facts in corpus.items():
        patterns = rows.get(index[name]["schema"] or "", [])
        if facts is None or not patterns:
            continue
        read = set(_pointers(facts_document(facts)))
        value = read_document((evidence / name).read_bytes()).value
        for pattern in patterns:
            places = [pointer for pointer, _ in matches(value, pattern)]
            unread = [pointer for pointer in places if not _is_read(pointer, read)]
            assert not unread or pattern in UNREAD, (name, pattern, unread)
            seen |= {pattern} if unread else set()
    assert seen == UNREAD.keys()


def _rows(page: str) -> Iterator[tuple[str, list[str]]]:
    table = page[page.index("### B.1 Gates") : page.index("### B.2")]
    for line in table.splitlines():
        if not line.startswith("| `"):
            continue
        first, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        prefix, names = re.match(r"`([CR]):([^`]+)`", first).groups()  # type: ignore[union-attr]
        stem, *versions = (part.strip() for part in names.split(","))
        patterns = [
            pattern.replace("<rank>", "*").replace("<n>", "*")
            for cell in cells
            for written in re.findall(r"`(/[^`]+)`", cell)
            for pattern in _expanded(written)
        ]
        for full in (stem, *(f"{stem.rpartition('/')[0]}/{version}" for version in versions)):
            yield _SCHEMA_PREFIX[prefix] + full, patterns


def _expanded(pattern: str) -> list[str]:
    found = re.search(r"\{([^{}]*)\}", pattern)
    if found is None:
        return [pattern]
    return [
        whole
        for part in found[1].split(",")
        for whole in _expanded(pattern[: found.start()] + part + pattern[found.end() :])
    ]


def _pointers(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, member in value.items():
            if name in ("statements", "timings"):
                continue
            yield from [member] if name in ("pointer", "vector") else _pointers(member)
    elif isinstance(value, list):
        for element in value:
            yield from [element] if isinstance(element, str) and element[:1] == "/" else _pointers(element)


def _is_read(pointer: str, read: set[str]) -> bool:
    """A fact stands at the place, inside it, or at the block the place is part of."""
    return any(
        one == pointer
        or one.startswith(pointer + "/")
        or (one.count("/") >= 2 and pointer.startswith(one + "/"))
        for one in read
    )
