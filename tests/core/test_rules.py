"""Each rule on documents made for it: what blocks, what warns, what supports, and where it was read."""

from collections.abc import Callable
from typing import Any

import pytest

from app.core.qualify.findings import Outcome
from app.core.qualify.values import Basis
from app.core.qualify.verdict import Verdict
from tests.core import evidence_documents as made
from tests.core.judging import codes, judge

Members = dict[str, Any]
Change = Callable[[Members], None]


def after(document: Members, change: Change) -> Verdict:
    change(document)
    return judge(document)


def test_the_document_these_tests_start_from_is_qualified() -> None:
    verdict = judge(made.single_restore())
    assert verdict.outcome is Outcome.QUALIFIED
    assert verdict.evidence_grade is Basis.DEMONSTRATED
    assert [one.name for one in verdict.deciding] == ["QUALIFIED_EXACT_SCOPE"]
    assert judge(made.page_tail()).outcome is Outcome.QUALIFIED
    assert judge(made.composition()).outcome is Outcome.QUALIFIED


def _records(change: Callable[[Members], None]) -> Change:
    return lambda document: change(document["rank_restore_evidence"][1])


@pytest.mark.parametrize(
    ("change", "outcome", "code", "pointer"),
    [
        (lambda d: d.update(status="unsupported"), "unsupported", "DECLARED_UNSUPPORTED", "/status"),
        (lambda d: d.update(status="semantic-rejection"), "rejected", "GATE_DECLARED_FAILED", "/status"),
        (lambda d: d.update(status="fail"), "rejected", "GATE_DECLARED_FAILED", "/status"),
        (lambda d: d.update(status="research-only"), "research-only", "DECLARED_CEILING", "/status"),
        (lambda d: d.update(status="Experimental"), "research-only", "DECLARED_CEILING", "/status"),
        (lambda d: d.update(status="implemented"), "implemented", "DECLARED_CEILING", "/status"),
        (lambda d: d.update(status="pending"), "incomplete", "PENDING_CHECK", "/status"),
        (lambda d: d.update(status="unqualified"), "incomplete", "STATUS_WORD_UNKNOWN", "/status"),
        (lambda d: d.update(status="verified"), "incomplete", "STATUS_ABSENT", ""),
        (lambda d: d.update(status="accepted"), "incomplete", "STATUS_ABSENT", ""),
        (lambda d: d.update(status=True), "incomplete", "STATUS_ABSENT", ""),
        (lambda d: d.pop("status"), "incomplete", "STATUS_ABSENT", ""),
        (
            lambda d: d["artifact"].pop("image_id"),
            "incomplete",
            "IDENTITY_INCOMPLETE:image",
            "/artifact/image_id",
        ),
        (
            lambda d: d["profile"].pop("served_model"),
            "incomplete",
            "IDENTITY_INCOMPLETE:model",
            "/profile/served_model",
        ),
        (
            lambda d: d["profile"].pop("tensor_parallel_size"),
            "incomplete",
            "TOPOLOGY_UNBOUND:tp",
            "/profile/tensor_parallel_size",
        ),
        (
            lambda d: d["profile"].update(decode_context_parallel_size=True),
            "incomplete",
            "TOPOLOGY_UNBOUND:dcp",
            "/profile/decode_context_parallel_size",
        ),
        (
            lambda d: d["artifact"].update(sparkcache_commit="C3" * 20),
            "incomplete",
            "DIGEST_MALFORMED",
            "/artifact/sparkcache_commit",
        ),
        (
            lambda d: d["artifact"].update(sparkcache_commit="c3c3c3c3"),
            "incomplete",
            "DIGEST_MALFORMED",
            "/artifact/sparkcache_commit",
        ),
        (
            lambda d: d["artifact"].update(image_id="sha256:" + "0" * 64),
            "incomplete",
            "DIGEST_MALFORMED",
            "/artifact/image_id",
        ),
        (
            lambda d: d["case"].update(context_digest="0" * 64),
            "incomplete",
            "DIGEST_MALFORMED",
            "/case/context_digest",
        ),
        (
            lambda d: d["rank_restore_evidence"].pop(),
            "incomplete",
            "RANK_MISSING",
            "/rank_restore_evidence/0",
        ),
        (
            lambda d: d["rank_restore_evidence"].append({**d["rank_restore_evidence"][0]}),
            "incomplete",
            "RANK_MISSING",
            "/rank_restore_evidence/0",
        ),
        (_records(lambda r: r.update(rank=2)), "incomplete", "RANK_MISSING", "/rank_restore_evidence/0"),
        (_records(lambda r: r.update(rank=0)), "incomplete", "RANK_MISSING", "/rank_restore_evidence/0"),
        (_records(lambda r: r.update(rank=True)), "incomplete", "RANK_MISSING", "/rank_restore_evidence/1"),
        (
            _records(lambda r: r.update(outcome="recompute")),
            "incomplete",
            "PARTIAL_RANK_FAILURE",
            "/rank_restore_evidence/1/outcome",
        ),
        (
            _records(lambda r: r.pop("outcome")),
            "incomplete",
            "RANK_MISSING",
            "/rank_restore_evidence/1/outcome",
        ),
        (
            _records(lambda r: r.update(page_bytes=4097)),
            "rejected",
            "RANK_DIVERGENCE",
            "/rank_restore_evidence/0/page_bytes",
        ),
        (
            _records(lambda r: r.update(digest_prefix="0123456789ab")),
            "rejected",
            "RANK_DIVERGENCE",
            "/rank_restore_evidence/0/digest_prefix",
        ),
        (lambda d: d.update(rank_restore_evidence=[]), "incomplete", "NO_RANK_RESTORE_PROOF", ""),
        (
            lambda d: d["profile"].update(tensor_parallel_size=4),
            "incomplete",
            "RANK_MISSING",
            "/rank_restore_evidence/0",
        ),
        (
            lambda d: d["case"].update(restore_oracle="blue"),
            "rejected",
            "SEMANTIC_ORACLE_MISMATCH",
            "/case/restore_oracle",
        ),
        (
            lambda d: d["case"].update(expected_oracle="blue"),
            "rejected",
            "SEMANTIC_ORACLE_MISMATCH",
            "/case/restore_oracle",
        ),
        (
            lambda d: d["case"].update(publish_oracle="blue"),
            "rejected",
            "SEMANTIC_ORACLE_MISMATCH",
            "/case/publish_oracle",
        ),
        (
            lambda d: d["case"].update(restore_response_sha256="ab" * 32),
            "rejected",
            "SEMANTIC_CONTRADICTION",
            "/case/restore_response_sha256",
        ),
        (lambda d: d["case"].pop("restore_oracle"), "incomplete", "SEMANTIC_MISSING", "/case/restore_oracle"),
        (
            lambda d: d["case"].pop("expected_oracle"),
            "incomplete",
            "SEMANTIC_MISSING",
            "/case/expected_oracle",
        ),
        (lambda d: d["case"].update(restore_oracle="  "), "incomplete", "SEMANTIC_INCONCLUSIVE", "/case"),
        (lambda d: d.pop("schema"), "none", "SCHEMA_ABSENT", "/schema"),
        (
            lambda d: d.update(schema="sparkring-glm53-dflash7-snapshot-v1-safe-validation/v2"),
            "none",
            "SCHEMA_UNKNOWN",
            "/schema",
        ),
    ],
)
def test_one_change_one_outcome_one_code(change: Change, outcome: str, code: str, pointer: str) -> None:
    verdict = after(made.single_restore(), change)
    assert verdict.outcome.value == outcome
    assert (verdict.deployable, bool(verdict.deployable_reason)) == (False, True)
    found = [one for one in verdict.deciding if one.name == code]
    assert found, [one.name for one in verdict.deciding]
    assert pointer in [one.pointer for one in found]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda d: d["artifact"].pop("sparkcache_commit"), None),
        (lambda d: d["case"].pop("restore_response_sha256"), "RESPONSE_DIGEST_UNEXPLAINED"),
        (lambda d: d["case"].update(publish_oracle="Green", restore_oracle=" GREEN "), None),
        (lambda d: d["rank_restore_evidence"].reverse(), None),
        (lambda d: d["limitations"].update(performance="unqualified"), None),
        (lambda d: d.update(note="a person's words: unqualified, rejected, failed"), None),
    ],
)
def test_what_only_warns(change: Change, code: str | None) -> None:
    verdict = after(made.single_restore(), change)
    assert verdict.outcome is Outcome.QUALIFIED
    assert code is None or code in codes(verdict)


def test_without_any_source_it_warns_and_is_another_scope() -> None:
    document = made.single_restore()
    for name in ("sparkcache_commit", "sparkcache_tree", "sparkcache_source_sha256"):
        del document["artifact"][name]
    verdict = judge(document)
    assert verdict.outcome is Outcome.QUALIFIED
    assert "IDENTITY_INCOMPLETE_WARN:source" in codes(verdict)
    assert verdict.scope.source == ""


def test_answers_are_compared_after_strip_and_lower_only() -> None:
    for observed, outcome in (
        (" Green\n", Outcome.QUALIFIED),
        ("green.", Outcome.REJECTED),
        ("gre en", Outcome.REJECTED),
    ):
        document = made.single_restore()
        document["case"].update(restore_oracle=observed)
        for name in ("restore_response_sha256", "publish_response_sha256"):
            del document["case"][name]
        assert judge(document).outcome is outcome, observed


@pytest.mark.parametrize("spelling", ["green", " green", "Green", " Green", "GREEN", " GREEN"])
def test_the_usual_spellings_explain_a_response_digest(spelling: str) -> None:
    document = made.single_restore()
    digest = made.response_digest(spelling)
    document["case"].update(restore_response_sha256=digest, publish_response_sha256=digest)
    assert "RESPONSE_DIGEST_UNEXPLAINED" not in codes(judge(document))
    digest = made.response_digest(spelling + "!")
    document["case"].update(restore_response_sha256=digest, publish_response_sha256=digest)
    assert "RESPONSE_DIGEST_UNEXPLAINED" in codes(judge(document))
