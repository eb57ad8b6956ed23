"""The 28 worked cases of the evidence model (§13), each by name."""

from pathlib import Path

import pytest

from app.core.errors import DocumentError
from app.core.qualify.document import read_document
from app.core.qualify.facts import Capability
from app.core.qualify.findings import Gate, GateState, Outcome
from app.core.qualify.neighbours import Stored
from app.core.qualify.scope import scope_of
from app.core.qualify.values import Basis
from app.core.qualify.verdict import Verdict
from tests.data.evidence_verdicts import corpus_stored, corpus_verdicts, headline

FLASH = "sparkcache/evidence/glm53-flash-dflash7-bf16"
SAFE = "sparkring/performance/receipts/glm53-flash/dflash7-snapshot-v1-safe"
RECEIPTS = "sparkring/performance/receipts/glm53-flash"
RECORDS = "sparkring/performance/records"
JJ8 = "sparkring/runtime/glm53-flash-jj-r8-gb10"
RELEASES = "sparkring/runtime/releases"
RECIPES = "sparkring/recipes/sparkcache"


class Cases:
    """The corpus, judged on demand."""

    def __init__(self, evidence: Path) -> None:
        self.evidence = evidence
        self.stored: dict[str, Stored] = corpus_stored(evidence)

    def all(self, name: str, *, alone: bool = False) -> dict[Capability, Verdict]:
        return corpus_verdicts(self.stored, name, alone=alone)

    def of(self, name: str, *, alone: bool = False) -> Verdict:
        return headline(self.stored[name].facts, self.all(name, alone=alone))

    def versions(self, path: str) -> list[str]:
        """The file names of every version of a path, the newest first."""
        named = [name for name, one in self.stored.items() if name.endswith("/" + path)]
        return sorted(named, key=lambda name: (self.stored[name].age, name))


@pytest.fixture(scope="module")
def cases(shared_dir: Path) -> Cases:
    return Cases(shared_dir / "evidence")


def codes(verdict: Verdict) -> set[str]:
    return {found.name for found in verdict.findings}


def gate(verdict: Verdict, which: Gate) -> GateState:
    return next(one.state for one in verdict.gates if one.gate is which)


def basis(verdict: Verdict, which: Gate) -> Basis | None:
    return next(one.basis for one in verdict.gates if one.gate is which)


def test_case_1_four_readers_rejected_in_both_repositories(cases: Cases) -> None:
    own = cases.of(f"{FLASH}/flat-v2-four-reader-semantic-rejection-eabe7fd.json")
    copy = cases.of(f"{SAFE}/rejected-four-reader-eabe7fd.json")
    for verdict in (own, copy):
        assert verdict.outcome is Outcome.REJECTED
        assert verdict.deployable is False
        assert gate(verdict, Gate.STRUCTURAL) is GateState.ATTESTED
        assert gate(verdict, Gate.SEMANTIC) is GateState.FAILED
        assert gate(verdict, Gate.CONTROL) is GateState.DEMONSTRATED
        assert {"SEMANTIC_ORACLE_MISMATCH", "STRUCTURE_VERIFIED", "CONTROL_PASSED"} <= codes(verdict)
        assert "The restore path is implicated" in verdict.reason
    assert gate(own, Gate.ROLLBACK) is GateState.DEMONSTRATED
    assert {"ROLLBACK_PASSED", "ROLLBACK_RECHECK_PENDING"} <= codes(own)
    named = next(one for one in copy.findings if one.name == "ROLLBACK_NAMED")
    assert named.value.startswith("sha256:35b58a7b")


def test_case_2_event_fenced_stays_research_in_spite_of_two_exact_answers(cases: Cases) -> None:
    verdict = cases.of(f"{FLASH}/event-fenced-flat-restore-861a965.json")
    assert (verdict.outcome, verdict.deployable) == (Outcome.RESEARCH_ONLY, False)
    assert {"DECLARED_CEILING", "ADMISSION_DENIED", "SEMANTIC_DEMONSTRATED"} <= codes(verdict)
    assert gate(verdict, Gate.PLACEMENT) is GateState.DEMONSTRATED
    assert verdict.evidence_grade is Basis.DEMONSTRATED


def test_case_3_snapshot_v1_safe_is_qualified_for_one_case(cases: Cases) -> None:
    verdict = cases.of(f"{SAFE}/validation.json")
    assert verdict.outcome is Outcome.QUALIFIED
    assert "context length reached: 131072 tokens" in verdict.established
    words = (": research-only", ": unsupported", ": not qualified")
    limits = [text for text in verdict.not_established if any(word in text for word in words)]
    assert len(limits) == 6


@pytest.mark.parametrize("version", [0, 1])
def test_case_3b_pr146_has_sixteen_rank_records_and_no_answer(cases: Cases, version: int) -> None:
    name = cases.versions("pr146-recurrent-publication/validation.json")[version]
    verdict = cases.of(name)
    assert verdict.outcome is Outcome.INCOMPLETE
    assert {"SEMANTIC_MISSING", "CANARY_UNRELATED", "STRUCTURE_VERIFIED"} <= codes(verdict)
    assert {"DECLARED_ABOVE_EVIDENCE", "PREDECESSOR_EVIDENCE_EXCLUDED"} <= codes(verdict)
    records = [record for case in cases.stored[name].facts.cases for record in case.ranks.records]
    assert len(records) == 12, (
        "the other four stand in the block of shared prefixes, which is no restore case"
    )
    assert ("CLAIM_WITHDRAWN" in codes(verdict)) is (version == 1)


def test_case_3b_pr30_is_qualified_for_256k_only(cases: Cases) -> None:
    name = f"{RECEIPTS}/dflash7-python-overlay-pr30/validation.json"
    verdict = cases.of(name)
    assert (verdict.outcome, verdict.evidence_grade) == (Outcome.QUALIFIED, Basis.SELF_CONSISTENT)
    partly = next(one for one in verdict.findings if one.name == "PARTLY_ESTABLISHED")
    assert "128k" in partly.value
    assert "256k" not in partly.value


def test_case_4_page_tail_v1_old_and_new(cases: Cases) -> None:
    new, old = cases.versions("glm53-flash-dcp4-page-tail/qualification.json")
    before, after = cases.of(old), cases.of(new)
    assert before.outcome is Outcome.INCOMPLETE
    assert {"RANK_VALUE_UNBOUND", "SEMANTIC_MISSING"} <= codes(before)
    assert after.outcome is Outcome.QUALIFIED
    assert {"STATUS_ABSENT_VALIDATOR_PASSED", "COMMIT_MS_UNBOUND", "FAULT_RECOVERED"} <= codes(after)


def test_case_5_a_failure_of_the_same_image_and_nothing_for_the_other(cases: Cases) -> None:
    name = "sparkcache/evidence/glm53-flash-dcp4-page-tail-v2/qualification.json"
    assert cases.of(name, alone=True).outcome is Outcome.QUALIFIED
    beside = cases.of(name)
    assert (beside.outcome, beside.deployable_reason) == (Outcome.RESEARCH_ONLY, "KNOWN_FAILURE")
    other = cases.of(f"{JJ8}/page-tail-v2-public-image-receipt.json")
    assert other.outcome is Outcome.IMPLEMENTED
    assert other.scope.image != beside.scope.image
    assert cases.of(f"{JJ8}/dflash-jit-readiness-validation.json").outcome is Outcome.QUALIFIED


def test_case_6_2026_09_0_incomplete_then_research_only(cases: Cases) -> None:
    new, old = cases.versions("releases/shared-2026.09.0/qualification.json")
    assert cases.of(old).outcome is Outcome.INCOMPLETE
    assert "STATUS_ABSENT" in codes(cases.of(old))
    assert cases.of(new).outcome is Outcome.RESEARCH_ONLY
    assert cases.of(old).scope.image == cases.of(new).scope.image


def test_case_7_2026_09_1_a_good_retry_changes_nothing(cases: Cases) -> None:
    verdict = cases.of(f"{RELEASES}/shared-2026.09.1/qualification.json")
    assert verdict.outcome is Outcome.RESEARCH_ONLY
    assert "KNOWN_FAILURE" in codes(verdict)


def test_case_8_2026_09_2_and_3_serve_and_restore_without_answers(cases: Cases) -> None:
    new, old = cases.versions("releases/shared-2026.09.2/qualification.json")
    assert cases.of(old).outcome is Outcome.IMPLEMENTED
    assert "PENDING_CHECK" in codes(cases.of(old))
    for name in (
        new,
        f"{RELEASES}/shared-2026.09.2/correctness.json",
        f"{RELEASES}/shared-2026.09.3/correctness.json",
    ):
        verdicts = cases.all(name)
        assert verdicts[Capability.SERVING].outcome is Outcome.QUALIFIED
        assert verdicts[Capability.SERVING].deployable is True
        assert verdicts[Capability.RESTORE].outcome is Outcome.INCOMPLETE
        assert "SEMANTIC_MISSING" in codes(verdicts[Capability.RESTORE])
        assert "RESTORE_ANSWER_NOT_RECORDED" in codes(verdicts[Capability.SERVING])
    answers = cases.of("sparkcache/docs/qwen38-tp4-cache-qualification.json")
    assert answers.scope.image == cases.of(f"{RELEASES}/shared-2026.09.3/correctness.json").scope.image
    assert answers.outcome is Outcome.QUALIFIED


@pytest.mark.parametrize(
    "recipe",
    ["deepseek-v4-flash-0731-tp2-dcp1", "deepseek-v4-flash-0731-tp4-dcp1", "glm52-exl3-r7-3.5bpw-tp4-dcp4"],
)
def test_case_8b_compositions_incomplete_until_a_sentence_states_the_answer(
    cases: Cases, recipe: str
) -> None:
    outcomes = [cases.of(name).outcome for name in cases.versions(f"recipes/sparkcache/{recipe}.json")]
    assert sorted(outcomes) == [Outcome.INCOMPLETE] * 2 + [Outcome.QUALIFIED] * 2
    newest = cases.of(f"{RECIPES}/{recipe}.json")
    assert newest.outcome is Outcome.QUALIFIED
    assert {"SEMANTIC_ATTESTED_ONLY", "ORACLE_OBSERVED_NOT_RECORDED"} <= codes(newest)


def test_case_9_a_withdrawn_release_is_unsupported_in_all_its_documents(cases: Cases) -> None:
    folder = f"{RELEASES}/shared-2026.09.4-rc.1"
    for name in ("publication", "verification", "qualification", "withdrawal"):
        verdict = cases.of(f"{folder}/{name}.json")
        assert verdict.outcome is Outcome.UNSUPPORTED, name
        assert "ARTIFACT_WITHDRAWN" in codes(verdict)
    assert "CLEAN_PULL_UNPROVEN" in codes(cases.of(f"{folder}/verification.json"))


def test_case_10_one_image_three_models_no_transfer(cases: Cases) -> None:
    names = (
        f"{RECORDS}/qwen38-flash-next/shared-22da81ca-tp2-tp4-cache-20260918.json",
        f"{RECORDS}/glm53-flash/shared-22da81ca-tp2-tp4-cache-20260918.json",
        f"{RECORDS}/deepseek-v4-flash/shared-22da81ca-tp2-smoke-20260918.json",
    )
    qwen, glm, deepseek = (cases.of(name) for name in names)
    assert (qwen.outcome, qwen.capability) == (Outcome.QUALIFIED, Capability.RESTORE)
    assert glm.outcome is Outcome.RESEARCH_ONLY
    assert (deepseek.outcome, deepseek.capability) == (Outcome.QUALIFIED, Capability.SERVING)
    assert {one.scope.image for one in (qwen, glm, deepseek)} == {qwen.scope.image}
    assert len({scope_of(cases.stored[name].facts.subject).target for name in names}) == 3


def test_case_11_the_combined_image_is_implemented_although_the_evidence_is_complete(cases: Cases) -> None:
    verdict = cases.of(f"{RECORDS}/qwen38-flash-next/combined-image-tp2-sparkcache.json")
    assert verdict.outcome is Outcome.IMPLEMENTED
    assert {"DECLARED_CEILING", "STRUCTURE_VERIFIED", "SEMANTIC_ATTESTED_ONLY"} <= codes(verdict)
    assert not [one for one in verdict.findings if one.row in (5, 6)]


def test_case_12_a_cpu_record_is_implemented_although_it_says_qualified(cases: Cases) -> None:
    verdict = cases.of("sparkcache/docs/evidence/connector-job-integration-cpu.json")
    assert verdict.outcome is Outcome.IMPLEMENTED
    assert {"GPU_FREE_ONLY", "DECLARED_ABOVE_EVIDENCE"} <= codes(verdict)


def test_case_13_the_sircl_public_image_is_incomplete_although_it_says_qualified(cases: Cases) -> None:
    verdict = cases.of(f"{JJ8}/glm53-dcp4-sircl-public-image-receipt.json")
    assert verdict.outcome is Outcome.INCOMPLETE
    assert {"SEMANTIC_MISSING", "RANK_SUMMARY_ONLY", "DECLARED_ABOVE_EVIDENCE"} <= codes(verdict)


def test_case_14_async_store_completion_has_no_exact_image(cases: Cases) -> None:
    verdict = cases.of("sparkcache/evidence/glm53-flash-dcp4-page-tail-v2/async-store-completion.json")
    assert verdict.outcome is Outcome.INCOMPLETE
    assert "IDENTITY_INCOMPLETE:image" in codes(verdict)
    twin = cases.of(f"{JJ8}/async-store-completion-public-image-receipt.json")
    assert twin.outcome is Outcome.IMPLEMENTED


def test_case_15_the_recovery_canary_asked_nothing(cases: Cases) -> None:
    verdict = cases.of(f"{FLASH}/hotlease-2b86fb9-recovery-canary.json")
    assert verdict.outcome is Outcome.INCOMPLETE
    assert {"PARTIAL_RANK_FAILURE", "RECOVERED_BY_RECOMPUTE", "SEMANTIC_MISSING"} <= codes(verdict)
    assert len([one for one in verdict.findings if one.name == "PARTIAL_RANK_FAILURE"]) == 1


def test_case_16_a_flipped_byte_restores_nothing_and_the_answer_is_right(cases: Cases) -> None:
    verdicts = cases.all("sparkcache/docs/qwen38-tp4-cache-qualification.json")
    assert verdicts[Capability.RESTORE].outcome is Outcome.QUALIFIED
    assert verdicts[Capability.RECOVERY].outcome is Outcome.QUALIFIED
    assert "FAULT_RECOVERED" in codes(verdicts[Capability.RESTORE])


def test_case_17_split_page_health_is_not_readiness_and_an_alias_no_identity(cases: Cases) -> None:
    verdict = cases.of(f"{RECEIPTS}/split-page-shared-base-c8-20260830/validation.json")
    assert (verdict.outcome, verdict.evidence_grade) == (Outcome.QUALIFIED, Basis.DEMONSTRATED)
    assert "RECOVERED_BY_RECOMPUTE" in codes(verdict)
    assert verdict.scope.source.startswith("commit=59ac0b04")
    assert "sc78" not in verdict.scope.target
    alone = cases.of(f"{RECEIPTS}/split-page-shared-base-c8-20260830/validation.json", alone=True)
    assert alone.evidence_grade is Basis.ATTESTED, "without the pinned results only a count speaks"


def test_case_18_four_image_ids_on_four_ranks(cases: Cases) -> None:
    verdict = cases.of(f"{FLASH}/hotlease-2b86fb9-runtime.json")
    assert verdict.outcome is Outcome.INCOMPLETE
    assert {"IMAGE_NOT_UNIFORM", "SEMANTIC_MISSING", "STATUS_ABSENT"} <= codes(verdict)


def test_case_19_a_suffix_oracle_never_qualifies(cases: Cases) -> None:
    recipe = cases.of(f"{RECIPES}/glm53-flash-nvfp4-dflash2-bf16-tp4-dcp1.json")
    assert recipe.outcome is Outcome.RESEARCH_ONLY
    assert "ORACLE_NOT_EXACT" in codes(recipe)
    requests = [
        name for name, one in cases.stored.items() if "qualification-request/v1" in str(one.facts.schema)
    ]
    assert len(requests) == 7
    for name in requests:
        assert cases.of(name).outcome is Outcome.INCOMPLETE, name


def test_case_20_evidence_of_another_image_and_two_source_commits(cases: Cases) -> None:
    versions = cases.versions("recipes/sparkcache/glm53-flash-nvfp4-dflash2-bf16-tp4.json")
    assert len(versions) == 2
    for name in versions:
        verdict = cases.of(name)
        assert verdict.outcome is Outcome.RESEARCH_ONLY
        assert {"EVIDENCE_OTHER_IMAGE", "IDENTITY_CONFLICT"} <= codes(verdict)


def test_case_21_a_memory_preflight_carries_no_verdict(cases: Cases) -> None:
    verdict = cases.of(f"{JJ8}/glm53-memory-preflight-live-validation.json")
    assert verdict.outcome is Outcome.NONE
    assert "HOST_READINESS_ONLY" in codes(verdict)


def test_case_22_api_cached_tokens_are_no_restores(cases: Cases) -> None:
    verdict = cases.of(f"{RECORDS}/glm53-flash/mtp3-cache-checkpoints-serving-smoke-20260906.json")
    assert verdict.outcome is Outcome.RESEARCH_ONLY
    assert verdict.capability is Capability.SERVING
    assert Capability.RESTORE not in cases.all(
        f"{RECORDS}/glm53-flash/mtp3-cache-checkpoints-serving-smoke-20260906.json"
    )


def test_case_23_the_waiver_is_shown(cases: Cases) -> None:
    for name in (
        "sparkring/docs/configurations/glm52-exl3-r7-mtp4-q40-block8-20260812.json",
        f"{RECORDS}/glm-3.5bpw/mtp4-q40-block8-20260812.json",
    ):
        verdict = cases.of(name)
        assert verdict.outcome is Outcome.RESEARCH_ONLY
        assert "WAIVED_FAILURE" in codes(verdict)


def test_case_24_merge_markers_are_no_receipt(cases: Cases) -> None:
    (name,) = (cases.evidence / "_malformed").rglob("*.json")
    with pytest.raises(DocumentError):
        read_document(name.read_bytes())


def test_case_25_the_activation_receipt_alone_is_incomplete(cases: Cases) -> None:
    folder = "sparkring/runtime/sparkring/jovian-r33/profiles/evidence"
    verdict = cases.of(f"{folder}/tp4-dcp4-sparkcache-activation-20260911.json")
    assert verdict.outcome is Outcome.INCOMPLETE
    assert {"STATUS_ABSENT", "TOPOLOGY_UNBOUND:dcp", "NO_EVIDENCE_DIGESTS", "ACT_FIXTURE_LIKE"} <= codes(
        verdict
    )
    publication = cases.of("sparkring/runtime/sparkring/jovian-r33/publication.json")
    assert publication.outcome is Outcome.IMPLEMENTED
    assert "POINTER_CLAIMS" in codes(publication)


def test_case_26_the_lmcache_restart_gate_is_rejected_and_not_sparkcache(cases: Cases) -> None:
    verdict = cases.of("sparkring/docs/configurations/glm52-exl3-lmcache-post-firmware-20260809.json")
    assert verdict.outcome is Outcome.REJECTED
    assert {"GATE_DECLARED_FAILED", "SEMANTIC_ORACLE_MISMATCH", "NOT_SPARKCACHE"} <= codes(verdict)


def test_case_27_request_scope_is_qualified_for_isolation_and_the_parent_unchanged(cases: Cases) -> None:
    verdict = cases.of("sparkcache/docs/request-cache-isolation-qualification.json")
    assert (verdict.outcome, verdict.capability) == (Outcome.QUALIFIED, Capability.ISOLATION)
    assert verdict.scope.image.startswith("sha256:c7a92265")
    parent = next(one for one in verdict.findings if one.name == "PARENT_NOT_UPGRADED")
    assert parent.value.startswith("sha256:bc16a981")
    assert (verdict.deployable, verdict.deployable_reason) == (False, "CAPABILITY_NOT_DEPLOYABLE")


def test_case_28_equal_files_are_no_evidence(cases: Cases) -> None:
    verdict = cases.of("sparkring/runtime/glm53-spark-mtp3-mesh/compute-image-equivalence.json")
    assert verdict.outcome is Outcome.NONE
    assert "EQUIVALENCE_IS_NOT_QUALIFICATION" in codes(verdict)
