"""``sparkgate-restore-receipt/v1``: what is in it, and what the rules make of it (§7.6)."""

import json
from dataclasses import replace
from typing import Any

import pytest

from app.core.canonical_json import decode_canonical, encode_canonical
from app.core.digest import Digest, sha256
from app.core.errors import FormatError
from app.core.oracle.partials import CheckedLayer, Finding, RankPartials, SemanticFault
from app.core.qualify.document import read_document
from app.core.qualify.findings import Gate, GateState, Outcome
from app.core.qualify.own_receipt import (
    Asked,
    ControlAnswer,
    FinishedRank,
    FinishedRestore,
    RestoredAnswer,
    RestoredSnapshot,
    restore_receipt,
)
from app.core.qualify.surroundings import Declaration, Surroundings
from app.core.qualify.verdict import Verdict
from app.core.restore.device import LayerDigest, PlacementStats
from app.core.restore.report import RankOutcome, RankReport, StreamDigestState
from app.core.restore.timeline import Interval, Phase
from app.core.runtime import NONE, UNKNOWN, Runtime
from app.core.store.identity import BoundaryHiddenPolicy, CacheIdentity, DraftKvPolicy
from tests.core.judging import codes, facts_of, judge

CONTEXT = Digest("ab" * 32)
MEASURED = "a1" * 32
IMAGE = f"sha256:{MEASURED}"
PROMPT = sha256(b"prompt")
STATISTICS = PlacementStats(
    source_bytes=4096,
    slabs_submitted=1,
    scatter_kernel_launches=1,
    slot_uploads=1,
    destination_table_uploads=1,
    staged_host_to_device_bytes=4096,
    device_error=0,
)


def runtime(**facts: Any) -> Runtime:
    known: dict[str, Any] = {
        "engine": "sparkgate",
        "engine_sha256": Digest("cd" * 32),
        "engine_files": 10,
        "source_sha256": Digest("ef" * 32),
        "source_files": 20,
        "image_config_id": MEASURED,
        "python": "3.11",
        "numpy": "2",
        "cupy": "none",
        "machine": "aarch64",
        "system": "Linux 6",
    }
    # Through its own document: only what a worker can really measure.
    return Runtime.parse(Runtime(**{**known, **facts}).to_document())


def report(**values: Any) -> RankReport:
    known: dict[str, Any] = {
        "outcome": RankOutcome.RESTORED,
        "problem": None,
        "manifest_sha256": Digest("12" * 32),
        "objects": 3,
        "bytes": 4096,
        "intervals_ns": (Interval(phase=Phase.PRIOR_DEVICE_WORK, start_ns=10, end_ns=30),),
        "service_ns": 100,
        "reader_work": (),
        "readers": 1,
        "stream_digest": StreamDigestState.RECOMPUTED,
        "submissions": 1,
        "statistics": STATISTICS,
        "layers": (LayerDigest(name="l0", pages=1, bytes=4096, sha256=Digest("34" * 32)),),
    }
    return RankReport(**{**known, **values})


def rank(number: int, **values: Any) -> FinishedRank:
    known: dict[str, Any] = {
        "rank": number,
        "runtime": runtime(),
        "report": report(),
        "context_digest": CONTEXT,
        "end_to_end_ns": 150 + number,
    }
    return FinishedRank(**{**known, **values})


def restore(**values: Any) -> FinishedRestore:
    identity = CacheIdentity(
        target_checkpoint=Digest("56" * 32),
        draft_checkpoint=Digest("78" * 32),
        quantization_layout="fp8",
        rope_layout="neox",
        tp_degree=2,
        dcp_degree=1,
        cp_kv_cache_interleave_size=1,
        chunk_tokens=256,
        dcp_shard_rank=0,
        tp_shard_rank=0,
        boundary_hidden_policy=BoundaryHiddenPolicy.LIVE_FORWARD,
        draft_kv_policy=DraftKvPolicy.COLOCATED_TARGET,
    )
    snapshot = RestoredSnapshot(
        root="/cache",
        identity=identity,
        context_digest=CONTEXT,
        span_tokens=4096,
        publication_schema="snapshot-v1",
        manifest_schema="sparkcache-page-snapshot-manifest/v2",
    )
    answer = RestoredAnswer(prompt_sha256=PROMPT, expected="teal", observed=b" Teal", finish_reason="stop")
    known: dict[str, Any] = {
        "restore_id": "r-1",
        "decision_epoch": 7,
        "decided_at_ns": 1_900_000_000_000_000_000,
        "purpose": "qualification",
        "snapshot": snapshot,
        "ranks": (rank(1), rank(0)),
        "answer": answer,
        "processes_replaced": True,
    }
    return FinishedRestore(**{**known, **values})


def meant(raw: bytes) -> Surroundings:
    declaration = Declaration(who="A", when="2030-01-01", reason="run", receipts=(facts_of(raw).sha256,))
    return Surroundings(declarations=(declaration,))


def verdicts(one: FinishedRestore) -> tuple[Verdict, Verdict]:
    """Without and with a person's declaration."""
    raw = restore_receipt(one)
    return judge(raw), judge(raw, around=meant(raw))


def test_it_is_canonical_and_holds_no_fraction() -> None:
    raw = restore_receipt(restore())
    decode_canonical(raw, subject="receipt")
    assert read_document(raw).schema == "sparkgate-restore-receipt/v1"
    assert b"." not in json.dumps(_numbers(json.loads(raw))).encode("ascii")
    assert restore_receipt(restore()) == raw
    document = json.loads(raw)
    assert [one["rank"] for one in document["ranks"]] == [0, 1]
    assert document["ranks"][0]["phases_ns"] == {"prior_device_work": 20}
    assert document["ranks"][0]["unattributed_ns"] == 80
    assert document["semantic"]["response_sha256"] == sha256(b" Teal")
    assert "image" not in document


def test_qualified_only_with_an_answer_every_rank_and_a_person() -> None:
    alone, declared = verdicts(restore())
    assert (alone.outcome, "STATUS_ABSENT" in codes(alone)) == (Outcome.INCOMPLETE, True)
    assert declared.outcome is Outcome.QUALIFIED
    assert declared.evidence_grade is not None
    assert declared.evidence_grade.value == "demonstrated"
    assert {"DECLARED_BY_OPERATOR", "STRUCTURE_VERIFIED", "SEMANTIC_DEMONSTRATED"} <= codes(declared)
    assert declared.deployable_reason == "NO_REGISTRY_DIGEST"
    assert declared.scope.image == IMAGE


@pytest.mark.parametrize(
    ("changes", "outcome", "code"),
    [
        ({"answer": None}, "incomplete", "SEMANTIC_MISSING"),
        ({"ranks": (rank(0),)}, "incomplete", "RANK_MISSING"),
        ({"ranks": (rank(0), rank(2))}, "incomplete", "RANK_MISSING"),
        ({"ranks": (rank(0), rank(1, report=None))}, "incomplete", "PARTIAL_RANK_FAILURE"),
        (
            {"ranks": (rank(0), rank(1, report=report(outcome=RankOutcome.CORRUPT)))},
            "incomplete",
            "PARTIAL_RANK_FAILURE",
        ),
        ({"ranks": (rank(0), rank(1, context_digest=Digest("99" * 32)))}, "rejected", "RANK_DIVERGENCE"),
        (
            {"ranks": (rank(0), rank(1, runtime=runtime(image_config_id="b2" * 32)))},
            "research-only",
            "IMAGE_NOT_UNIFORM",
        ),
        (
            {"ranks": (rank(0), rank(1, runtime=runtime(engine_sha256=Digest("99" * 32))))},
            "research-only",
            "IMAGE_NOT_UNIFORM",
        ),
        (
            {"ranks": (rank(0), rank(1, runtime=runtime(image_config_id=NONE)))},
            "research-only",
            "IMAGE_NOT_UNIFORM",
        ),
        (
            {"ranks": tuple(rank(one, runtime=runtime(image_config_id=UNKNOWN)) for one in (0, 1))},
            "incomplete",
            "IDENTITY_INCOMPLETE:image",
        ),
    ],
)
def test_a_declaration_replaces_no_gate(changes: dict[str, Any], outcome: str, code: str) -> None:
    _, declared = verdicts(restore(**changes))
    assert declared.outcome.value == outcome, codes(declared)
    assert code in {one.name for one in declared.deciding}


def test_a_wrong_answer_rejects_and_its_flag_says_so_too() -> None:
    answer = RestoredAnswer(prompt_sha256=PROMPT, expected="teal", observed=b" pink", finish_reason="stop")
    alone, declared = verdicts(restore(answer=answer))
    assert alone.outcome is declared.outcome is Outcome.REJECTED
    assert "SEMANTIC_CONTRADICTION" not in codes(alone)


CONTROL = ControlAnswer(
    prompt_sha256=sha256(b"control"), prompt_tokens=4096, expected="pink", observed=b" Pink"
)
WRONG = RestoredAnswer(
    prompt_sha256=PROMPT, expected="teal", observed=b"spark", finish_reason="stop", prompt_tokens=4096
)
QUESTION = Digest("ad" * 32)


def partials(rank_number: int, *, wrong: int) -> RankPartials:
    right = CheckedLayer(name="k", pages=8, wrong=0, expected_sha256=CONTEXT, found_sha256=CONTEXT)
    bad = replace(right, wrong=wrong, found_sha256=Digest("ba" * 32)) if wrong else right
    swapped = Finding(fault=SemanticFault.SWAP_PAGES, blocks=(2, 6), detail="blocks 2 and 6")
    return RankPartials(
        question_sha256=QUESTION,
        rank=rank_number,
        restored={"teal": 3, "spark": -1},
        control={"teal": 1, "spark": 0},
        most=4,
        layers=(bad, replace(right, name="v")),
        wrong_pages=wrong,
        finding=swapped if wrong else None,
    )


def asked(*, wrong: int = 0, **values: Any) -> FinishedRestore:
    """A restore that was asked a question, with wrong pages on rank 1 or none."""
    diagnosis = {"fault": "swap-pages", "ranks": (1,), "detail": "rank 1: blocks 2 and 6"} if wrong else {}
    known: dict[str, Any] = {
        "ranks": tuple(rank(one, partials=partials(one, wrong=wrong * one)) for one in (0, 1)),
        "control": CONTROL,
        "asked": Asked(question_sha256=QUESTION, **diagnosis),
    }
    return restore(**{**known, **values})


def gates_of(verdict: Verdict) -> dict[Gate, GateState]:
    return {one.gate: one.state for one in verdict.gates}


def test_a_question_its_control_and_the_pages_are_in_the_receipt() -> None:
    document = json.loads(restore_receipt(asked(wrong=2, answer=WRONG)))
    assert document["oracle"] == {
        "question_sha256": QUESTION,
        "diagnosis": {"fault": "swap-pages", "ranks": [1], "detail": "rank 1: blocks 2 and 6"},
    }
    assert document["control"] == {
        "relationship": "one token changed, equal length, recomputed by the ranks that restored",
        "prompt_sha256": CONTROL.prompt_sha256,
        "prompt_tokens": 4096,
        "expected": "pink",
        "observed": " Pink",
        "normalisation": "strip-lower/v1",
        "passed": True,
        "response_sha256": sha256(b" Pink"),
    }
    written = partials(1, wrong=2)
    assert document["ranks"][1]["partials"] == {
        "sha256": sha256(encode_canonical(written.to_document())),
        "wrong_pages": 2,
        "layers": [layer.to_document() for layer in written.layers],
    }
    assert "right pages on every rank" in document["not_established"]
    plain = json.loads(restore_receipt(restore()))
    assert (plain["oracle"], plain["control"], plain["ranks"][0]["partials"]) == (None, None, None)


def test_right_answers_of_restore_and_control_demonstrate_both_gates_and_the_fence() -> None:
    _, declared = verdicts(asked())
    assert declared.outcome is Outcome.QUALIFIED
    assert {"SEMANTIC_DEMONSTRATED", "CONTROL_PASSED", "STRUCTURE_VERIFIED"} <= codes(declared)
    gates = gates_of(declared)
    assert gates[Gate.SEMANTIC] is gates[Gate.CONTROL] is GateState.DEMONSTRATED
    assert gates[Gate.PLACEMENT] is GateState.DEMONSTRATED


def test_a_wrong_answer_rejects_although_every_hash_is_right_and_the_control_passed() -> None:
    for verdict in verdicts(asked(wrong=2, answer=WRONG)):
        assert verdict.outcome is Outcome.REJECTED
        assert "SEMANTIC_ORACLE_MISMATCH" in {one.name for one in verdict.deciding}
        assert {"CONTROL_PASSED", "STRUCTURE_VERIFIED"} <= codes(verdict)
        assert gates_of(verdict)[Gate.SEMANTIC] is GateState.FAILED


def test_a_wrong_control_is_said_and_a_missing_one_leaves_the_cause_open() -> None:
    bad = replace(CONTROL, observed=b"spark")
    for control, code, state in (
        (bad, "CONTROL_FAILED", GateState.FAILED),
        (None, "CONTROL_MISSING", GateState.NOT_TESTED),
    ):
        _, declared = verdicts(asked(wrong=2, answer=WRONG, control=control))
        assert code in codes(declared)
        assert declared.outcome is Outcome.REJECTED
        assert gates_of(declared)[Gate.CONTROL] is state
    assert "CONTROL_NOT_TESTED" in codes(verdicts(asked(control=None))[1])


def test_a_right_answer_over_wrong_pages_is_none() -> None:
    one = asked(wrong=2)
    document = json.loads(restore_receipt(one))
    assert document["semantic"] is None
    assert {"the answer of the restored request", "right pages on every rank"} <= set(
        document["not_established"]
    )
    _, declared = verdicts(one)
    assert declared.outcome is Outcome.INCOMPLETE
    assert "SEMANTIC_MISSING" in codes(declared)


def test_its_times_are_facts_by_rank() -> None:
    later = report(intervals_ns=(Interval(phase=Phase.ARENA_WAIT, start_ns=5, end_ns=9),))
    facts = facts_of(restore_receipt(restore(ranks=(rank(0), rank(1, report=later), rank(2, report=later)))))
    times = {one.pointer: (one.unit, one.ranks, one.values) for one in facts.timings}
    assert times == {
        "/ranks/*/end_to_end_ns": ("ns", (0, 1, 2), (150, 151, 152)),
        "/ranks/*/service_ns": ("ns", (0, 1, 2), (100, 100, 100)),
        "/ranks/*/unattributed_ns": ("ns", (0, 1, 2), (80, 96, 96)),
        "/ranks/*/phases_ns/arena_wait": ("ns", (1, 2), (4, 4)),
    }


def test_outside_a_container_it_is_a_self_test_of_the_engine() -> None:
    outside = tuple(rank(one, runtime=runtime(image_config_id=NONE)) for one in (0, 1))
    alone, declared = verdicts(restore(ranks=outside))
    assert "ENGINE_SELF_TEST" in codes(alone)
    assert declared.outcome is Outcome.QUALIFIED
    assert (declared.deployable, declared.deployable_reason) == (False, "ENGINE_SELF_TEST")
    assert (declared.scope.image, declared.scope.source) == ("", f"sha256={'cd' * 32}")


def test_times_change_nothing() -> None:
    slow = replace(rank(0), end_to_end_ns=10**12, report=report(service_ns=10**12))
    before = verdicts(restore())[1]
    after = verdicts(restore(ranks=(slow, rank(1))))[1]
    assert before.outcome is after.outcome
    assert codes(before) == codes(after)


def test_no_rank_a_rank_twice_and_an_answer_that_is_no_text_are_refused() -> None:
    with pytest.raises(FormatError, match=r"receipt\.ranks"):
        restore_receipt(restore(ranks=()))
    with pytest.raises(FormatError, match=r"receipt\.ranks"):
        restore_receipt(restore(ranks=(rank(0), rank(0))))
    bad = RestoredAnswer(prompt_sha256=PROMPT, expected="x", observed=b"\xff", finish_reason="stop")
    with pytest.raises(FormatError, match=r"receipt\.semantic\.observed: expected UTF-8"):
        restore_receipt(restore(answer=bad))
    with pytest.raises(FormatError, match=r"receipt\.control\.observed: expected UTF-8"):
        restore_receipt(asked(control=replace(CONTROL, observed=b"\xff")))


def _numbers(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [number for member in value.values() for number in _numbers(member)]
    if isinstance(value, list):
        return [number for element in value for number in _numbers(element)]
    return [value] if isinstance(value, int | float) else []
