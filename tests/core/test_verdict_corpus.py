"""The verdicts of the corpus: the golden table, the labels of the index, what holds for every document."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.core.qualify.codes import CODES
from app.core.qualify.document import canonical_digest, read_document
from app.core.qualify.findings import Outcome, Row
from app.core.qualify.neighbours import Stored
from app.core.qualify.ruleset import RULES, ruleset_version
from app.core.qualify.values import Basis
from app.core.qualify.verdict import SEVERITY, Verdict, judge_document
from tests.data.evidence_mutations import judged, raw, retimed, without_times
from tests.data.evidence_verdicts import (
    corpus_index,
    corpus_stored,
    corpus_verdicts,
    headline,
    stored_lines,
    verdict_line,
)
from tests.data.rules_page import DIFFERENCES


@pytest.fixture(scope="module")
def evidence(shared_dir: Path) -> Path:
    return shared_dir / "evidence"


@pytest.fixture(scope="module")
def stored(evidence: Path) -> dict[str, Stored]:
    return corpus_stored(evidence)


@pytest.fixture(scope="module")
def labels(evidence: Path) -> dict[str, dict[str, Any]]:
    return {entry["file"]: entry["label"] for entry in corpus_index(evidence)}


def test_the_golden_table_holds(stored: dict[str, Stored]) -> None:
    version, lines = stored_lines()
    assert lines.keys() == stored.keys()
    for name, one in stored.items():
        line = verdict_line(name, one.facts, corpus_verdicts(stored, name))
        assert json.loads(json.dumps(line)) == lines[name], name
    assert version == ruleset_version(), "run python -m tests.data.evidence_verdicts and read the difference"


def test_outcome_and_deployable_are_those_of_the_labels(
    stored: dict[str, Stored], labels: dict[str, dict[str, Any]]
) -> None:
    for name, one in stored.items():
        label, verdicts = labels[name], corpus_verdicts(stored, name)
        main = headline(one.facts, verdicts)
        assert main.outcome.value == label["outcome"], name
        assert main.deployable is bool(label.get("deployable")), (name, main.deployable_reason)
        assert {found.name for found in main.deciding} & set(label["codes"]), name
        for capability, outcome in label.get("other_capabilities", {}).items():
            assert {key.value: each.outcome.value for key, each in verdicts.items()}[capability] == outcome


def test_without_the_others_the_outcome_is_the_one_the_labels_give(
    stored: dict[str, Stored], labels: dict[str, dict[str, Any]]
) -> None:
    alone = {
        name: label["outcome_without_other_receipts"]
        for name, label in labels.items()
        if "outcome_without_other_receipts" in label
    }
    assert len(alone) == 4, alone
    for name, outcome in alone.items():
        main = headline(stored[name].facts, corpus_verdicts(stored, name, alone=True))
        assert main.outcome.value == outcome, name


def test_the_only_file_without_a_receipt_is_the_malformed_one(
    stored: dict[str, Stored], labels: dict[str, dict[str, Any]]
) -> None:
    refused = labels.keys() - stored.keys()
    assert [labels[name]["codes"] for name in refused] == [["INVALID_JSON"]]


def test_every_code_of_a_label_that_is_not_given_is_explained(
    stored: dict[str, Stored], labels: dict[str, dict[str, Any]]
) -> None:
    found: dict[str, int] = {}
    for name, one in stored.items():
        given = {each.name for each in headline(one.facts, corpus_verdicts(stored, name)).findings}
        for code in labels[name]["codes"]:
            if code not in given:
                found[code] = found.get(code, 0) + 1
    assert found == {code: explained.documents for code, explained in DIFFERENCES.items()}


def test_with_the_default_grade_nothing_attested_is_deployable(stored: dict[str, Stored]) -> None:
    deployable = []
    for name, one in stored.items():
        main = headline(one.facts, corpus_verdicts(stored, name, grade=Basis.SELF_CONSISTENT))
        attested = headline(one.facts, corpus_verdicts(stored, name))
        assert main.outcome is attested.outcome
        if main.deployable:
            deployable.append(name)
        elif attested.deployable:
            assert main.deployable_reason == "GRADE_TOO_LOW"
    assert [name.rpartition("/")[2] for name in deployable] == ["shared-22da81ca-tp2-smoke-20260918.json"]


def test_every_verdict_is_whole(stored: dict[str, Stored]) -> None:
    for name, one in stored.items():
        for verdict in corpus_verdicts(stored, name).values():
            assert verdict.ruleset == ruleset_version()
            assert verdict.reason, name
            assert verdict.deciding, name
            assert all(found.code in CODES for found in verdict.findings)
            assert verdict.deployable is (verdict.deployable_reason == "")
            blocking = [found.row for found in verdict.findings if found.row.blocks]
            if verdict.outcome is Outcome.QUALIFIED and len(one.facts.cases) < 2:
                assert blocking == [], name


def test_every_rule_and_code_has_been_seen_or_is_named_here(stored: dict[str, Stored]) -> None:
    """Codes the corpus does not give have tests of their own in test_rules.py."""
    seen = {
        found.code
        for name in stored
        for verdict in corpus_verdicts(stored, name).values()
        for found in verdict.findings
    }
    declared = {code for rule in RULES for code in rule.codes}
    assert seen <= declared | {"QUALIFIED_EXACT_SCOPE", "DECLARED_ABOVE_EVIDENCE", "PARTLY_ESTABLISHED"}


def test_changing_every_time_changes_no_verdict(evidence: Path, stored: dict[str, Stored]) -> None:
    others, moved = list(stored.values()), []
    for name, own in stored.items():
        document = json.loads((evidence / name).read_text(encoding="utf-8"))
        _, before = judged(raw(document), own, others)
        _, after = judged(raw(retimed(document)), own, others)
        if [each.name for each in before.findings] != [each.name for each in after.findings]:
            moved.append((name, after.deciding[0].name))
    assert [(name.rpartition("/")[2], code) for name, code in moved] == [
        ("event-fenced-flat-restore-861a965.json", "PAYLOAD_DIGEST_MISMATCH"),
    ], "a digest covers the times of the event-fenced receipt; nothing else may move"


def test_times_covered_by_recomputed_digests_change_nothing(
    evidence: Path, stored: dict[str, Stored]
) -> None:
    (name,) = [name for name in stored if name.endswith("event-fenced-flat-restore-861a965.json")]
    document = retimed(json.loads((evidence / name).read_text(encoding="utf-8")))
    for observation in document["observations"]:
        for record in observation["rank_records"]:
            payload = read_document(raw(record["payload"])).value
            record["canonical_payload_sha256"] = canonical_digest(payload)
    _, after = judged(raw(document), stored[name], list(stored.values()))
    assert verdict_names(after) == verdict_names(headline(stored[name].facts, corpus_verdicts(stored, name)))


def verdict_names(verdict: Verdict) -> list[str]:
    return [verdict.outcome.value, *(one.name for one in verdict.findings)]


def test_stripping_times_can_only_lower(evidence: Path, stored: dict[str, Stored]) -> None:
    others, lowered = list(stored.values()), set()
    for name, own in stored.items():
        document = json.loads((evidence / name).read_text(encoding="utf-8"))
        _, before = judged(raw(document), own, others)
        _, after = judged(raw(without_times(document)), own, others)
        if after.outcome is Outcome.REJECTED and before.outcome is not Outcome.REJECTED:
            assert after.deciding[0].name == "PAYLOAD_DIGEST_MISMATCH", name
        elif SEVERITY.index(after.outcome) > SEVERITY.index(before.outcome):
            raise AssertionError(f"{name}: {before.outcome} became {after.outcome}")
        if after.outcome is not before.outcome and not name.startswith("_superseded/"):
            lowered.add(f"{own.path.split('/')[-2]} {after.outcome.value}")
    assert lowered == {
        "glm53-flash-dcp4-page-tail incomplete",
        "glm53-flash-dcp4-page-tail-v2 incomplete",
        "glm53-flash-dflash7-bf16 rejected",
        "dflash7-python-overlay-pr30 incomplete",
        "split-page-shared-base-c8-20260830 incomplete",
        "sparkcache incomplete",
        "glm53-flash-jj-r8-gb10 incomplete",
    }


def test_judging_twice_is_judging_once(stored: dict[str, Stored]) -> None:
    for name in list(stored)[::7]:
        assert judge_document(stored[name].facts) == judge_document(stored[name].facts)


def test_rows_decide_in_their_order() -> None:
    assert [row.name for row in Row if row.blocks] == [
        "NO_VERDICT",
        "UNSUPPORTED",
        "REJECTED",
        "DECLARED",
        "CEILING",
        "INCOMPLETE",
        "RESEARCH",
    ]
