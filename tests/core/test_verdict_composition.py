"""Many receipts of one scope (§7.5), and the surroundings of a document derived from its neighbours (§8)."""

from dataclasses import replace
from typing import Any

from app.core.digest import sha256
from app.core.qualify.composed_document import composed_gates
from app.core.qualify.composition import (
    MOST_NAMED,
    MOST_OF_A_SAYING,
    Composed,
    Receipt,
    compose,
    saying,
)
from app.core.qualify.facts import Capability
from app.core.qualify.findings import Outcome
from app.core.qualify.neighbours import Stored, surroundings_of
from app.core.qualify.scope import scope_of
from app.core.qualify.surroundings import PinState
from app.core.qualify.values import Basis
from app.core.qualify.verdict import judge_document
from tests.core import evidence_documents as made
from tests.core.judging import facts_of, judge

Members = dict[str, Any]


def receipt(document: Members, *, superseded_by: str = "") -> Receipt:
    return Receipt(sha256=facts_of(document).sha256, verdict=judge(document), superseded_by=superseded_by)


def composed(*receipts: Receipt) -> Composed:
    one = compose(receipts, scope=receipts[0].verdict.scope)
    assert one is not None
    return one


def wrong() -> Members:
    document = made.single_restore()
    document["case"].update(restore_oracle="blue")
    del document["case"]["restore_response_sha256"]
    return document


def other(**case: Any) -> Members:
    document = made.single_restore()
    document["case"].update(case)
    return document


def test_more_passing_receipts_never_outvote_one_mismatch() -> None:
    good = [receipt(other(committed_tokens=4096 + number)) for number in range(5)]
    assert composed(*good).outcome is Outcome.QUALIFIED
    bad = receipt(wrong())
    verdict = composed(*good, bad, *good)
    assert verdict.outcome is Outcome.REJECTED
    assert verdict.receipts == (bad.sha256,)
    assert set(verdict.beside) == {one.sha256 for one in good}
    assert verdict.deployable is False


def test_an_explicitly_superseded_mismatch_no_longer_counts() -> None:
    good = receipt(made.single_restore())
    bad = receipt(wrong(), superseded_by=good.sha256)
    verdict = composed(good, bad)
    assert verdict.outcome is Outcome.QUALIFIED
    assert verdict.superseded == (bad.sha256,)


def test_where_everything_is_superseded_it_still_counts() -> None:
    assert composed(receipt(wrong(), superseded_by="aa" * 32)).outcome is Outcome.REJECTED


def test_qualified_receipts_add_up_what_is_established_and_what_is_not() -> None:
    one, more = receipt(made.single_restore()), receipt(other(committed_tokens=8192))
    verdict = composed(one, more)
    assert verdict.outcome is Outcome.QUALIFIED
    assert {"context length reached: 4096 tokens", "context length reached: 8192 tokens"} <= set(
        verdict.established
    )
    assert "performance: unsupported" in verdict.not_established
    assert set(verdict.receipts) == {one.sha256, more.sha256}


def test_the_best_grade_of_the_qualified_ones_is_shown() -> None:
    weak = receipt(made.single_restore())
    weak = replace(weak, verdict=replace(weak.verdict, evidence_grade=Basis.ATTESTED))
    strong = receipt(other(committed_tokens=8192))
    assert composed(weak, strong).evidence_grade is Basis.DEMONSTRATED


def test_without_a_qualified_receipt_the_least_severe_counts() -> None:
    incomplete = made.single_restore()
    del incomplete["case"]["restore_oracle"]
    research = {**made.single_restore(), "status": "research-only"}
    implemented = {**made.single_restore(), "status": "implemented"}
    assert composed(receipt(incomplete)).outcome is Outcome.INCOMPLETE
    assert composed(receipt(incomplete), receipt(research)).outcome is Outcome.RESEARCH_ONLY
    assert (
        composed(receipt(incomplete), receipt(research), receipt(implemented)).outcome is Outcome.IMPLEMENTED
    )


def test_other_scopes_and_capabilities_are_not_looked_at() -> None:
    good, elsewhere = receipt(made.single_restore()), wrong()
    elsewhere["artifact"]["image_id"] = made.OTHER_IMAGE
    assert composed(good, receipt(elsewhere)).outcome is Outcome.QUALIFIED
    assert compose([good], scope=good.verdict.scope, capability=Capability.SERVING) is None
    assert compose([good], scope=receipt(elsewhere).verdict.scope) is None


def test_every_axis_of_the_scope_keeps_receipts_apart() -> None:
    own = scope_of(facts_of(made.single_restore()).subject)
    keys = {own.digest()}
    for change in (
        lambda d: d["artifact"].update(image_id=made.OTHER_IMAGE),
        lambda d: d["artifact"].update(sparkcache_commit="aa" * 20),
        lambda d: d["artifact"].update(sparkcache_tree="aa" * 20),
        lambda d: d["artifact"].update(sparkcache_source_sha256="aa" * 32),
        lambda d: d["profile"].update(served_model="another"),
        lambda d: d["profile"].update(tensor_parallel_size=4),
        lambda d: d["profile"].update(decode_context_parallel_size=4),
        lambda d: d["profile"].update(publication_schema="page-tail-cow-v1"),
    ):
        document = made.single_restore()
        change(document)
        keys.add(scope_of(facts_of(document).subject).digest())
    assert len(keys) == 9


def stored(document: Members, **place: Any) -> Stored:
    return Stored(facts=facts_of(document), **{"repository": "lab/one", "path": "a/b.json", **place})


def test_a_failure_with_an_image_is_that_images() -> None:
    document = {
        "schema": "sparkring-glm53-dflash-jit-readiness/v1",
        "status": "qualified",
        "runtime": {"image_id": made.OTHER_IMAGE},
        "failure_observation": {"image_id": made.IMAGE, "symptom": "it stopped"},
    }
    own, noted = stored(made.single_restore()), stored(document, path="other.json")
    (failure,) = surroundings_of(own, [noted]).failures
    assert (failure.document, failure.pointer) == (noted.facts.sha256, "/failure_observation/symptom")
    assert surroundings_of(stored(made.isolation_run()), []).failures == ()


def test_a_withdrawal_reaches_the_release_and_the_manifest_digest() -> None:
    digest = "sha256:" + "77" * 32
    withdrawal = {
        "schema": "sparkring-prerelease-withdrawal/v1",
        "status": "unsupported",
        "release": "shared-2030.01.0",
        "registry_manifest_digest": digest,
        "cause": "layers are missing",
    }
    gone = stored(withdrawal, path="withdrawal.json")
    assert judge(withdrawal).outcome is Outcome.UNSUPPORTED
    by_release = stored(made.selections())
    assert surroundings_of(by_release, [gone]).withdrawals[0].value == "layers are missing"
    document = made.single_restore()
    document["artifact"]["registry"] = f"registry.example/x@{digest}"
    assert len(surroundings_of(stored(document), [gone]).withdrawals) == 1
    assert surroundings_of(stored(made.single_restore()), [gone]).withdrawals == ()


def test_a_registry_digest_reaches_the_labels_only_child_only_if_equality_is_recorded() -> None:
    child = "sha256:" + "88" * 32
    publication = {
        "schema": "sparkring-shared-image-publication/v1",
        "image_config_id": child,
        "registry_manifest_digest": "sha256:" + "77" * 32,
        "runtime_build_config_id": made.IMAGE,
        "runtime_layers_unchanged": True,
        "runtime_configuration_except_labels_unchanged": True,
    }
    own = stored(made.single_restore())
    assert len(surroundings_of(own, [stored(publication, path="p.json")]).registry) == 1
    for name in ("runtime_layers_unchanged", "runtime_configuration_except_labels_unchanged"):
        for value in (False, None):
            weaker = stored({**publication, name: value}, path="p.json")
            assert surroundings_of(own, [weaker]).registry == (), (name, value)


def test_supersession_needs_path_image_and_family_and_a_reused_path_is_none() -> None:
    old = stored(made.single_restore(), age=1)
    newer = stored(other(committed_tokens=9000))
    assert [one.document for one in surroundings_of(old, [newer]).superseded_by] == [newer.facts.sha256]
    assert surroundings_of(newer, [old]).superseded_by == ()
    moved = stored(other(committed_tokens=9000), path="elsewhere.json")
    assert surroundings_of(old, [moved]).superseded_by == ()
    document = made.single_restore()
    document["artifact"]["image_id"] = made.OTHER_IMAGE
    reused = stored(document)
    around = surroundings_of(old, [reused])
    assert (around.superseded_by, len(around.path_reused)) == ((), 1)


def test_pins_are_compared_within_one_commit() -> None:
    target = stored({"kind": "x"}, path="a/publish.json", commit="c" * 40)
    document = made.single_restore()
    document["input_sha256"] = {"repository_publish_json": target.facts.sha256}
    own = stored(document, commit="c" * 40)
    assert [one.state for one in surroundings_of(own, [target]).pins] == [PinState.EQUAL]
    changed = stored({"kind": "y"}, path="a/publish.json", commit="c" * 40)
    assert [one.state for one in surroundings_of(own, [changed]).pins] == [PinState.DIFFERS_SAME_COMMIT]
    older = stored({"kind": "y"}, path="a/publish.json", commit="d" * 40)
    assert [one.state for one in surroundings_of(own, [older]).pins] == [PinState.DIFFERS_OTHER_COMMIT]
    assert [one.state for one in surroundings_of(own, []).pins] == [PinState.ABSENT]
    both = surroundings_of(own, [older, target])
    assert [one.state for one in both.pins] == [PinState.EQUAL]


def test_answers_are_joined_only_from_the_document_of_the_named_digest() -> None:
    answers = {
        "schema": "sparkcache-glm53-small-shared-matrix/v1",
        "results": [
            {
                "expected_oracle": word,
                "observed_oracle": word,
                "oracle_match": True,
                "prompt_sha256": "ab" * 32,
            }
            for word in ("teal", "pink")
        ],
    }
    held = stored(answers, path="a/client.json")
    own = stored(_pointing(held.facts.sha256))
    (verdict,) = judge_document(own.facts, around=surroundings_of(own, [held]))
    assert (verdict.outcome, verdict.evidence_grade) == (Outcome.QUALIFIED, Basis.DEMONSTRATED)
    (alone,) = judge_document(own.facts)
    assert (alone.outcome, alone.evidence_grade) == (Outcome.QUALIFIED, Basis.ATTESTED)
    answers["results"][0]["observed_oracle"] = "grey"
    swapped = stored(answers, path="a/client.json")
    (other_digest,) = judge_document(own.facts, around=surroundings_of(own, [swapped]))
    assert other_digest.evidence_grade is Basis.ATTESTED
    named = stored(_pointing(swapped.facts.sha256))
    (mismatch,) = judge_document(named.facts, around=surroundings_of(named, [swapped]))
    assert mismatch.outcome is Outcome.REJECTED


def _pointing(digest: str) -> Members:
    return {
        "schema": "sparkring-glm53-split-page-shared-base-c8-validation/v1",
        "status": {"external_restores": "qualified"},
        "artifact": {
            "image_id": made.IMAGE,
            "image_id_on_every_rank": True,
            "sparkcache_commit": made.COMMIT,
        },
        "conditions": {
            "target": {"repository": "lab/model", "revision": made.COMMIT},
            "topology": {"tensor_parallel_size": 2, "decode_context_parallel_size": 1},
        },
        "measurement": {
            "client_result_path": "client.json",
            "client_result_sha256": digest,
            "exact_response_count": 2,
            "external_restore": {"per_rank": {"base_read_ms": [1.5, 2.5]}},
        },
    }


def test_a_few_of_each_saying_decide_as_all_of_them() -> None:
    """What is left out of a large scope could change nothing that decides, and no code, gate or name."""
    incomplete, research = made.single_restore(), {**made.single_restore(), "status": "research-only"}
    del incomplete["case"]["restore_oracle"]
    attested = receipt(made.single_restore())
    kinds = [
        receipt(incomplete),
        receipt(research),
        receipt(other(committed_tokens=8192)),
        replace(attested, verdict=replace(attested.verdict, evidence_grade=Basis.ATTESTED)),
        replace(attested, verdict=replace(attested.verdict, deployable=True, deployable_reason="")),
        receipt(wrong()),
    ]
    for kept in range(1, len(kinds) + 1):
        every = sorted(
            (
                replace(kinds[number % kept], sha256=sha256(f"{kept}:{number}".encode()))
                for number in range(MOST_OF_A_SAYING * kept + 40 * kept)
            ),
            key=lambda one: one.sha256,
        )
        told: dict[str, list[Receipt]] = {}
        for one in every:
            told.setdefault(saying(one.verdict), []).append(one)
        assert len(told) == kept
        few = sorted(
            (one for same in told.values() for one in same[:MOST_OF_A_SAYING]), key=lambda one: one.sha256
        )
        assert len(few) < len(every)
        whole, part = composed(*every), composed(*few)
        for name in ("outcome", "row", "reason", "deployable", "deployable_reason", "evidence_grade"):
            assert getattr(whole, name) == getattr(part, name), (kept, name)
        assert {one.name for one in whole.findings} == {one.name for one in part.findings}
        assert composed_gates(whole, every) == composed_gates(part, few)
        for name in ("receipts", "beside"):
            assert getattr(whole, name)[:MOST_NAMED] == getattr(part, name)[:MOST_NAMED]
            assert (len(getattr(whole, name)) > MOST_NAMED) == (len(getattr(part, name)) > MOST_NAMED)


def test_sayings_sort_as_they_decide() -> None:
    bad, good = receipt(wrong()), receipt(made.single_restore())
    weak = replace(good.verdict, evidence_grade=Basis.ATTESTED)
    deployable = replace(good.verdict, deployable=True, deployable_reason="")
    order = [
        bad.verdict,
        deployable,
        good.verdict,
        weak,
        receipt({**made.single_restore(), "status": "research-only"}).verdict,
    ]
    assert [saying(one) for one in order] == sorted(saying(one) for one in order)
