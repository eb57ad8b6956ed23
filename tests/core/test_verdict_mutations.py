"""Mutations of the documents that came out qualified, and of the rejected one (evidence-model §13).

The golden table names outcome and code of every mutation that shows. What is not in it left the verdict as
it was, and must be a fact that no needed gate reads.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.core.qualify.facts import StatusClass
from app.core.qualify.findings import Outcome
from app.core.qualify.neighbours import Stored
from app.core.qualify.schema_table import status_class
from tests.data.evidence_mutations import (
    Examined,
    dropped,
    examine,
    judged,
    leaves,
    mutation_line,
    raw,
    replaced,
    stored_mutations,
)
from tests.data.evidence_verdicts import corpus_stored, qualified_names

# Facts that may change without a word of the verdict, and why.
FREE = {
    r"/pins.*": "a digest of a private file proves retention, no link; of a stored one it is PIN_MISMATCH",
    r"/cases/\*/span/.*": "what was restored bounds what is established; it is no gate",
    r"/cases/\*/ranks/vectors/\*/values/\*": "a vector counts by its length; its values are times",
    r"/cases/\*/ranks/headlines/\*/value.*": "a commit time nobody binds (§10), a warning already",
    r"/chain/deltas/\*/commit_ms.*": "the same",
    r"/chain/unique_bytes.*": "upstream's validator does not bind it",
    r"(/cases/\*)?/subject/workload/(kv_dtype|storage_mode|speculation).*": "no axis of the scope key",
    r"(/cases/\*)?/subject/workload/(configured_schema|cache_enabled).*": "no axis of the scope key",
    r"/subject/topology/pp.*": "no axis of the scope key",
    r"(/cases/\*)?/subject/target/alias.*": "an alias beside an identity",
    r"/subject/builder_commit.*": "the builder is no axis of the scope key",
    r"/subject/same_on_every_rank.*": "said or not, ranks name no other image; identity is then attested",
    r"(/cases/\*)?/subject/manifest_digest.*": "publication: deployable, not the outcome",
    r"/registry.*": "publication: deployable, not the outcome",
    r"/admission/(published|clean_pull).*": "publication: deployable, not the outcome",
    r"/lifecycle/.*": "releases and other images",
    r"/remarks.*": "a remark of another image, or its text",
    r"/carriers.*": "words of other keys of the map, of parts, and a word said twice",
    r"/cases/\*/(control|fault|restart)/.*": "gates that a restore does not need",
    r"/cases/\*/isolation/\*/cached_tokens.*": "API cached tokens are no evidence of a restore",
    r"/cases/\*/readiness/observed/value": "more than nothing was observed",
    r"/cases/\*/oracle/attested/\*/text": "a sentence that still fits, a count that is above zero",
    r"/cases/\*/oracle/(attested|basis|form|unsaid)": "a count beside answers that are joined",
    r"/cases/\*/oracle/comparisons/\*/(prompt_sha256|finish_reason).*": "describes the request",
    r"/cases/\*/oracle/published/.*": "the side before the restore; unequal is a contradiction",
}
# Facts of another case than the judged capability's, by file: its own verdict changes.
OTHER_CASES = {
    "releases/shared-2026.09.2": r"/cases(/\*/(subject|ranks)/.*)?",
    "releases/shared-2026.09.3": r"/cases(/\*/(subject|ranks)/.*)?",
    "request-cache-isolation-qualification": r"/cases/\*/subject/topology/tp.*",
}


@pytest.fixture(scope="module")
def evidence(shared_dir: Path) -> Path:
    return shared_dir / "evidence"


@pytest.fixture(scope="module")
def stored(evidence: Path) -> dict[str, Stored]:
    return corpus_stored(evidence)


@pytest.fixture(scope="module")
def examined(evidence: Path, stored: dict[str, Stored]) -> Callable[[str], list[Examined]]:
    """The mutations of a document, judged once."""
    known: dict[str, list[Examined]] = {}

    def of(name: str) -> list[Examined]:
        if name not in known:
            known[name] = examine(evidence, name, stored)
        return known[name]

    return of


@pytest.mark.parametrize("name", qualified_names())
def test_every_mutation_comes_to_what_the_table_names(
    examined: Callable[[str], list[Examined]], name: str
) -> None:
    line = mutation_line(name, examined(name))
    assert json.loads(json.dumps(line)) == stored_mutations()[name], (
        "run python -m tests.data.evidence_mutations and read the difference"
    )


@pytest.mark.parametrize("name", qualified_names())
def test_what_changes_nothing_is_read_by_no_needed_gate(
    examined: Callable[[str], list[Examined]], name: str
) -> None:
    more = [pattern for part, pattern in OTHER_CASES.items() if part in name]
    free = [re.compile(pattern) for pattern in (*FREE, *more)]
    for one in examined(name):
        for path in one.facts:
            assert any(pattern.fullmatch(path) for pattern in free), (one.kind, one.pointer, path)


def test_every_reason_is_needed(examined: Callable[[str], list[Examined]]) -> None:
    paths = {path for name in qualified_names() for one in examined(name) for path in one.facts}
    assert {one for one in FREE if any(re.fullmatch(one, path) for path in paths)} == FREE.keys()


@pytest.mark.parametrize("name", qualified_names())
def test_a_rank_less_is_never_qualified(evidence: Path, stored: dict[str, Stored], name: str) -> None:
    """Every list of ranks, every record and every vector loses its last member, one at a time."""
    own, others = stored[name], list(stored.values())
    facts, before = judged((evidence / name).read_bytes(), own, others)
    document = json.loads((evidence / name).read_text(encoding="utf-8"))
    for pointer in _rank_places(facts, before.capability.value):
        path = _path(document, pointer)
        _, after = judged(raw(dropped(document, path)), own, others)
        assert after.outcome is Outcome.INCOMPLETE, pointer
        assert "RANK_MISSING" in {one.code for one in after.findings}, pointer


CASE_1 = "sparkcache/evidence/glm53-flash-dflash7-bf16/flat-v2-four-reader-semantic-rejection-eabe7fd.json"
_BETTER: dict[str, Any] = {
    "/status": "qualified",
    "/conclusion": "qualified",
    "/semantic_restore/observed": "red",
    "/semantic_restore/passed": True,
    "/admission/deployable": True,
    "/admission/qualified": True,
}


def test_no_single_word_makes_the_rejected_record_good(evidence: Path, stored: dict[str, Stored]) -> None:
    own, others = stored[CASE_1], list(stored.values())
    document = json.loads((evidence / CASE_1).read_text(encoding="utf-8"))
    for pointer, value in _BETTER.items():
        changed = replaced(document, _path(document, pointer), value)
        _, after = judged(raw(changed), own, others)
        assert after.outcome is Outcome.REJECTED, pointer
        assert after.deployable is False
        if pointer in ("/semantic_restore/observed", "/semantic_restore/passed"):
            assert "SEMANTIC_CONTRADICTION" in {one.name for one in after.deciding}


def test_all_words_together_stop_at_the_ceiling_of_the_schema(
    evidence: Path, stored: dict[str, Stored]
) -> None:
    own, others = stored[CASE_1], list(stored.values())
    document = json.loads((evidence / CASE_1).read_text(encoding="utf-8"))
    for pointer, value in _BETTER.items():
        document = replaced(document, _path(document, pointer), value)
    _, after = judged(raw(document), own, others)
    assert (after.outcome, after.deployable) == (Outcome.RESEARCH_ONLY, False)
    assert "SCHEMA_CEILING" in {one.name for one in after.deciding}


def test_a_word_never_raises_anything(evidence: Path, stored: dict[str, Stored]) -> None:
    """Every string that is a known status word becomes ``qualified``: no document becomes qualified."""
    for name, own in stored.items():
        if own.facts.schema.no_verdict or own.facts.schema.ceilings:
            document = json.loads((evidence / name).read_text(encoding="utf-8"))
            better = _mapped(
                document,
                lambda text: "qualified" if status_class(text) is not StatusClass.UNKNOWN else text,
            )
            _, after = judged(raw(better), own, [])
            assert after.outcome is not Outcome.QUALIFIED, name


def test_another_digit_of_the_image_is_another_scope(evidence: Path, stored: dict[str, Stored]) -> None:
    for name in qualified_names():
        own, others = stored[name], list(stored.values())
        facts, before = judged((evidence / name).read_bytes(), own, others)
        pointer = facts.subject.image.pointer
        document = json.loads((evidence / name).read_text(encoding="utf-8"))
        path = _path(document, pointer)
        image = str(_at(document, path))
        other = image[:-1] + ("0" if image[-1] != "0" else "1")
        _, after = judged(raw(replaced(document, path, other)), own, others)
        assert after.scope != before.scope, name
        assert after.outcome is not Outcome.QUALIFIED or after.scope.image == other


@pytest.mark.parametrize(
    "bad",
    [
        lambda image: image.upper().replace("SHA256", "sha256"),
        lambda image: image[:-1],
        lambda image: "sha256:" + "0" * 64,
        lambda image: image[:19],
        lambda image: 7,
        lambda image: None,
    ],
    ids=["upper case", "short", "zero", "prefix", "number", "null"],
)
def test_an_image_that_is_none_is_never_qualified(
    evidence: Path, stored: dict[str, Stored], bad: Callable[[str], Any]
) -> None:
    for name in qualified_names():
        own, others = stored[name], list(stored.values())
        facts, _ = judged((evidence / name).read_bytes(), own, others)
        document = json.loads((evidence / name).read_text(encoding="utf-8"))
        path = _path(document, facts.subject.image.pointer)
        _, after = judged(raw(replaced(document, path, bad(str(_at(document, path))))), own, others)
        assert after.outcome is Outcome.INCOMPLETE, name
        assert "IDENTITY_INCOMPLETE:image" in {one.name for one in after.deciding}


def _rank_places(facts: Any, capability: str) -> list[str]:
    """One place per set of ranks: the last record, the last number of a vector, the last of a list."""
    places = []
    for case in facts.cases:
        if case.capability.value != capability or capability != "restore":
            continue
        if "128k" in case.name:
            continue  # pr30: not established in the first place
        if case.ranks.records:
            places.append(case.ranks.records[-1].pointer)
        places += [f"{one.pointer}/{len(one.ranks) - 1}" for one in case.ranks.vectors]
        places += [f"{one.pointer}/{len(one.value) - 1}" for one in case.ranks.listed]
    return places


def _path(document: Any, pointer: str) -> tuple[str | int, ...]:
    path: list[str | int] = []
    for step in pointer.split("/")[1:]:
        key: str | int = int(step) if isinstance(document, list) else step
        if isinstance(document, dict) and key not in document:
            key = list(document)[int(step)]
        path.append(key)
        document = document[key]
    return tuple(path)


def _at(document: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: member if key == "schema" else _mapped(member, change) for key, member in value.items()}
    if isinstance(value, list):
        return [_mapped(element, change) for element in value]
    return change(value) if isinstance(value, str) else value


def test_leaves_are_all_values() -> None:
    assert set(leaves({"a": [1, {"b": None}], "c": {}})) == {("a", 0), ("a", 1, "b"), ("c",)}
