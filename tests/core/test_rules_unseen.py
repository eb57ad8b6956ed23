"""Documents of known families as no corpus has them: malformed second places, unreadable values, words at
the places where every writer puts them (evidence-model §2.3, §5, §7.2, §7.4, Appendix B).

Every case here is one that was judged wrong once.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from app.core.qualify.facts import Capability
from app.core.qualify.findings import Outcome
from app.core.qualify.neighbours import Stored, surroundings_of
from app.core.qualify.values import Basis
from app.core.qualify.verdict import Verdict
from tests.core import evidence_documents as made
from tests.core.evidence_more import (
    failed_start,
    hybrid_cache,
    named_answer,
    release_qualification,
    split_page,
)
from tests.core.judging import codes, facts_of, judge

Members = dict[str, Any]
Change = Callable[[Members], object]


def after(document: Members, change: Change) -> Verdict:
    change(document)
    return judge(document)


def blocking(verdict: Verdict) -> set[str]:
    return {one.name for one in verdict.findings if one.row.blocks}


@pytest.mark.parametrize(
    "document", [made.composition, hybrid_cache, named_answer, split_page, made.connector_job]
)
def test_the_documents_this_page_changes_are_qualified(document: Callable[[], Members]) -> None:
    assert judge(document()).outcome is Outcome.QUALIFIED


@pytest.mark.parametrize(
    "result",
    [
        "The prompt was restored and returned OK:78; the post-restore canary returned OK:77.",
        "The prompt was restored and never returned OK:77; all ranks healthy.",
        "The prompt was restored and has not returned OK:77; all ranks healthy.",
        "The prompt should have returned OK:77; all ranks healthy.",
    ],
)
def test_a_sentence_about_another_answer_attests_nothing(result: str) -> None:
    assert "SEMANTIC_MISSING" in blocking(judge(made.composition(result)))


def test_evidence_without_its_status_word_is_silent() -> None:
    verdict = after(made.composition(), lambda d: d["evidence"].pop("status"))
    assert verdict.outcome is Outcome.INCOMPLETE
    assert "STATUS_ABSENT" in blocking(verdict)


@pytest.mark.parametrize("vector", [{"\u0660": 3.5, "\u0661": 4.5}, {"rank_\uff10": 3.5, "rank_\uff11": 4.5}])
def test_only_plain_digits_name_a_rank(vector: Members) -> None:
    verdict = after(made.composition(), lambda d: d["evidence"].update(restore_milliseconds_by_rank=vector))
    assert "NO_RANK_RESTORE_PROOF" in blocking(verdict)


@pytest.mark.parametrize("tokens", [None, "512", -1, 512.0])
def test_ranks_of_which_nothing_is_said_are_no_proof(tokens: object) -> None:
    document = hybrid_cache()
    for rank in document["runs"][0]["fixture_results"][0]["rank_restore_tokens"]:
        rank["tokens"] = tokens
    assert "NO_RANK_RESTORE_PROOF" in blocking(judge(document))


def test_a_run_without_a_fixture_is_a_hole_in_the_claim() -> None:
    document = hybrid_cache()
    document["runs"].append({**document["runs"][0], "tp": 4, "fixture_results": []})
    assert judge(document).outcome is Outcome.INCOMPLETE


def test_a_restore_of_no_tokens_restored_nothing() -> None:
    verdict = after(made.composition(), lambda d: d["evidence"].update(reusable_tokens=0))
    assert "PARTIAL_RANK_FAILURE" in blocking(verdict)


def test_four_workers_are_four_ranks() -> None:
    document = made.connector_job()
    assert judge(document).outcome is Outcome.QUALIFIED
    document["conditions"]["tensor_parallel_size"] = 8
    assert "RANK_MISSING" in blocking(judge(document))


def test_counters_may_be_written_as_fractions() -> None:
    document = made.connector_job()
    values = document["capture_retirement_cases"][0]["post_drain_values"]
    for name in (
        "sparkcache_capture_delayed_requests",
        "sparkcache_capture_delayed_rank_slots",
        "sparkcache_capture_oldest_delayed_ms",
        "sparkcache_capture_uncertain_ranks",
        "sparkcache_capture_busy_ranks",
        "sparkcache_publication_pending_rank_slots",
        "sparkcache_capture_retained_pages",
        "sparkcache_capture_pending_rank_slots",
    ):
        values[name] = 0.0
    values["sparkcache_ranks"] = 4.0
    assert judge(document, capability=Capability.CAPTURE).outcome is Outcome.QUALIFIED
    values["sparkcache_ranks"] = 0.0
    assert "GATE_MISSING:drain" in blocking(judge(document, capability=Capability.CAPTURE))


@pytest.mark.parametrize("passed", ["", "true", [], {}, 1.5, 1])
def test_an_attestation_that_cannot_be_read_is_a_hole(passed: object) -> None:
    document = made.selections()
    document["selections"] = document["selections"][:1]
    cases = document["selections"][0]["functional_cases"]
    cases.append({"kind": "long", "passed": True})
    assert judge(document).outcome is Outcome.QUALIFIED
    cases[1]["passed"] = passed
    assert "SEMANTIC_MISSING" in blocking(judge(document))


@pytest.mark.parametrize("last", [None, "0", -1, [0]])
def test_a_last_request_that_cannot_be_read_shows_no_isolation(last: object) -> None:
    document = made.isolation_run()
    probes = document["topologies"][0]["cases"]
    del probes[3]
    assert judge(document).outcome is Outcome.QUALIFIED
    probes[2]["cached_tokens"] = [512, last]
    assert "GATE_MISSING:isolation" in blocking(judge(document))


def test_fewer_exact_answers_than_requests_is_a_wrong_answer() -> None:
    document = split_page()
    assert judge(document).outcome is Outcome.QUALIFIED
    document["measurement"]["exact_response_count"] = 7
    assert "SEMANTIC_ORACLE_MISMATCH" in blocking(judge(document))


@pytest.mark.parametrize(
    ("at", "name", "outcome", "code"),
    [
        ("admission", "deployable", Outcome.RESEARCH_ONLY, "ADMISSION_DENIED"),
        ("admission", "qualified", Outcome.RESEARCH_ONLY, "ADMISSION_DENIED"),
        ("candidate", "qualified", Outcome.RESEARCH_ONLY, "ADMISSION_DENIED"),
        ("", "qualified", Outcome.INCOMPLETE, "STATUS_ABSENT"),
        ("", "serving_qualified", Outcome.INCOMPLETE, "STATUS_ABSENT"),
        ("", "full_model_qualification", Outcome.INCOMPLETE, "STATUS_ABSENT"),
        ("scope", "general_qualification", Outcome.INCOMPLETE, "STATUS_ABSENT"),
    ],
)
@pytest.mark.parametrize("document", [made.single_restore, made.composition, hybrid_cache])
def test_a_denial_counts_in_every_schema(
    document: Callable[[], Members], at: str, name: str, outcome: Outcome, code: str
) -> None:
    members = document()
    (members.setdefault(at, {}) if at else members)[name] = False
    verdict = judge(members)
    assert (verdict.outcome, verdict.deployable) == (outcome, False)
    assert code in blocking(verdict)


def test_admission_that_is_granted_raises_nothing() -> None:
    document = {**made.single_restore(), "admission": {"deployable": True, "qualified": True}}
    assert judge(document).outcome is Outcome.QUALIFIED
    assert judge({**document, "status": "research-only"}).outcome is Outcome.RESEARCH_ONLY


def test_a_rollback_whose_flag_denies_its_answer_contradicts_itself() -> None:
    document = {
        "schema": "sparkcache-glm53-flat-v2-reader-research/v1",
        "status": "research-only",
        "rollback": {"image_id": made.IMAGE, "expected": "red", "observed": "red", "passed": False},
    }
    verdict = judge(document)
    assert "SEMANTIC_CONTRADICTION" in blocking(verdict)
    assert "ROLLBACK_PASSED" not in codes(verdict)


@pytest.mark.parametrize(
    ("prompt", "answer", "outcome"),
    [
        ("What is 6 times 7? Reply with only 42.", "42", Outcome.QUALIFIED),
        ("What is 6 times 7? Reply with only 42.", "41", Outcome.REJECTED),
        ("What is 6 times 7? Reply with only the number.", "42", Outcome.INCOMPLETE),
        ('What is 6 times 7? Reply with only "42".', "42", Outcome.QUALIFIED),
    ],
)
def test_a_prompt_names_its_answer_by_one_word(prompt: str, answer: str, outcome: Outcome) -> None:
    verdict = after(named_answer(), lambda d: d["result"].update(prompt=prompt, answer=answer))
    assert verdict.outcome is outcome


def test_a_failed_start_counts_without_its_usual_field() -> None:
    assert "KNOWN_FAILURE" in blocking(
        after(release_qualification(), lambda d: d.update(startup_failure={"conclusion": "it hung"}))
    )
    assert "KNOWN_FAILURE" in blocking(
        after(release_qualification(), lambda d: d.update(startup_failure={"worker_symptom": "it hung"}))
    )


@pytest.mark.parametrize("nothing", [None, "", " ", False, [], {}])
def test_no_failure_is_no_failure(nothing: object) -> None:
    verdict = after(release_qualification(), lambda d: d.update(known_failure=nothing))
    assert "KNOWN_FAILURE" not in codes(verdict)


def test_many_annotated_sentences_do_not_hide_a_failure() -> None:
    document = release_qualification()
    document["profiles"] *= 1001
    document["known_failure"] = "it hung"
    assert "KNOWN_FAILURE" in codes(judge(document))


@pytest.mark.parametrize("gone", ["symptom", "time"])
def test_a_failure_of_an_image_needs_no_symptom(gone: str) -> None:
    observed = failed_start()
    observed["failure_observation"].pop(gone)
    own = Stored(facts=facts_of(made.single_restore()))
    verdict = judge(
        made.single_restore(), around=surroundings_of(own, [own, Stored(facts=facts_of(observed))])
    )
    assert "KNOWN_FAILURE" in blocking(verdict)


def test_the_order_of_members_changes_nothing() -> None:
    block = {
        "restart_restore_service_ms_by_physical_rank": [1.5, 2.5, 3.5, 4.5],
        "verified_restore_ranks": 4,
        "published_span_tokens": 512,
    }
    answered = {**block, "expected_visible_output": "TEAL", "observed_visible_output": "TEAL"}
    document = {
        "schema": "sparkring-glm53-jj-r8-gb10-live-image/v1",
        "status": "implemented-with-bounded-live-evidence",
        "image": {"image_id": made.IMAGE},
    }
    one = judge({**document, "dcp2": answered, "dcp4": block})
    other = judge({**document, "dcp4": block, "dcp2": answered})
    assert (one.outcome, one.evidence_grade, one.reason) == (
        other.outcome,
        other.evidence_grade,
        other.reason,
    )
    assert one.gates == other.gates


def test_escapes_and_blanks_change_nothing() -> None:
    document = made.single_restore()
    plain = judge(document)
    blank = judge(json.dumps(document, indent=5).encode())
    escaped = "".join(f"\\u{ord(one):04x}" for one in "qualified")
    written = json.dumps(document).replace('"qualified"', f'"{escaped}"', 1).encode()
    assert codes(judge(written)) == codes(blank) == codes(plain)
    assert plain.evidence_grade is Basis.DEMONSTRATED


@pytest.mark.parametrize(
    ("observed", "code"), [("blue", "SEMANTIC_CONTRADICTION"), ("", "SEMANTIC_CONTRADICTION")]
)
def test_a_flag_contradicts_an_answer_that_was_cut_too(observed: str, code: str) -> None:
    document = made.fenced_observation()
    document["observations"][0] |= {"observed_oracle": observed, "finish_reason": "length"}
    verdict = judge(document)
    assert (verdict.outcome, code in blocking(verdict)) == (Outcome.REJECTED, True)


@pytest.mark.parametrize(
    ("observed", "outcome"), [("t", "SEMANTIC_INCONCLUSIVE"), (" Te", "SEMANTIC_INCONCLUSIVE")]
)
def test_an_answer_that_was_cut_may_have_become_the_expected_one(observed: str, outcome: str) -> None:
    document = made.fenced_observation()
    cut = {"observed_oracle": observed, "finish_reason": "length", "oracle_match": False}
    document["observations"][0] |= cut
    assert outcome in blocking(judge(document))
    assert judge(document).outcome is Outcome.RESEARCH_ONLY


@pytest.mark.parametrize("observed", ["spark", "te a", "teal and more", "\u0442eal"])
def test_another_answer_is_wrong_wherever_it_was_cut(observed: str) -> None:
    """Requests for one token always stop by length: a wrong word is a wrong word."""
    document = made.fenced_observation()
    document["observations"][0] |= {
        "observed_oracle": observed,
        "finish_reason": "length",
        "oracle_match": False,
    }
    verdict = judge(document)
    assert (verdict.outcome, "SEMANTIC_ORACLE_MISMATCH" in blocking(verdict)) == (Outcome.REJECTED, True)


def test_a_profile_that_calls_itself_unsupported_speaks_for_itself() -> None:
    document = release_qualification()
    document["profiles"].append({**document["profiles"][0], "id": "model-tp8", "status": "unsupported"})
    verdict = judge(document)
    assert verdict.outcome is Outcome.QUALIFIED
    assert {"PARTLY_ESTABLISHED", "DECLARED_UNSUPPORTED"} <= codes(verdict)
    assert judge({**document, "status": "unsupported"}).outcome is Outcome.UNSUPPORTED
    for profile in document["profiles"]:
        profile["status"] = "unsupported"
    assert judge(document).outcome is Outcome.UNSUPPORTED


def test_a_wrong_answer_is_not_outvoted_by_a_profile_that_is_unsupported() -> None:
    document = made.selections()
    document["selections"][0]["functional_cases"][0]["passed"] = False
    document["selections"][1]["status"] = "unsupported"
    assert judge(document).outcome is Outcome.REJECTED


def answers(count: int, **first: object) -> Members:
    """What the clients of a split-page run recorded."""
    return {
        "schema": "sparkcache-glm53-small-shared-matrix/v1",
        "status": "verified",
        "model": "alias",
        "results": [
            {
                "expected_oracle": "teal",
                "observed_oracle": "teal",
                "oracle_match": True,
                "prompt_sha256": f"{number + 1:064x}",
                **(first if number == 0 else {}),
            }
            for number in range(count)
        ],
    }


def with_answers(clients: Members) -> Verdict:
    """A split-page receipt judged beside the document of its clients, which it pins."""
    stored = Stored(facts=facts_of(clients), repository="r", path="a/client-results.json", commit=made.COMMIT)
    document = split_page()
    document["measurement"] |= {
        "client_result_path": "client-results.json",
        "client_result_sha256": str(stored.facts.sha256),
    }
    own = Stored(facts=facts_of(document), repository="r", path="a/validation.json", commit=made.COMMIT)
    return judge(document, around=surroundings_of(own, [own, stored]))


def test_every_answer_that_is_counted_is_recorded() -> None:
    verdict = with_answers(answers(8))
    assert (verdict.outcome, verdict.evidence_grade) == (Outcome.QUALIFIED, Basis.DEMONSTRATED)
    assert "SEMANTIC_MISSING" in blocking(with_answers(answers(7)))


@pytest.mark.parametrize(
    ("first", "code"),
    [
        ({"observed_oracle": None}, "SEMANTIC_MISSING"),
        ({"observed_oracle": None, "oracle_match": None}, "SEMANTIC_MISSING"),
        ({"expected_oracle": None}, "SEMANTIC_MISSING"),
        ({"observed_oracle": "red", "oracle_match": False}, "SEMANTIC_ORACLE_MISMATCH"),
        ({"observed_oracle": "red"}, "SEMANTIC_CONTRADICTION"),
        (
            {"observed_oracle": "red", "oracle_match": False, "finish_reason": "length"},
            "SEMANTIC_ORACLE_MISMATCH",
        ),
    ],
)
def test_one_answer_of_eight_decides(first: Members, code: str) -> None:
    assert code in blocking(with_answers(answers(8, **first)))


@pytest.mark.parametrize("word", ["withdrawn", "unpublished", "pending", "Published"])
def test_only_what_is_published_is_published(word: str) -> None:
    assert "NOT_PUBLISHED" in codes(judge({**made.selections(), "publication_status": word}))
    assert "NOT_PUBLISHED" not in codes(judge(made.selections()))
