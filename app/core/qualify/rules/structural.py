"""Structural gate: did every rank restore the same, verified content (evidence-model §5)?"""

from collections.abc import Iterator

from app.core.qualify.facts import Capability
from app.core.qualify.findings import Finding, Gate, GateResult, GateState
from app.core.qualify.gates import RankForm, RankProof
from app.core.qualify.rules.joined import rank_proof
from app.core.qualify.rules.ranks import divergences, failed_ranks, is_bound, is_complete, rank_gaps
from app.core.qualify.rules.rule import Judged, found, rule
from app.core.qualify.values import Basis, Found, Missing

_RESTORES = (Capability.RESTORE, Capability.RECOVERY)


@rule(
    Gate.STRUCTURAL,
    question="Is there something about every rank 0 … TP−1, each once?",
    needs="rank records, a vector or map of full length, or a list of ranks",
    leaves_open="whether what came back is the right content",
    codes=("RANK_MISSING", "NO_RANK_RESTORE_PROOF", "RANK_SUMMARY_ONLY"),
    version=2,
)
def every_rank_is_there(judged: Judged) -> Iterator[Finding]:
    proof = rank_proof(judged)
    if proof.form is RankForm.SUMMARY:
        yield found("RANK_SUMMARY_ONLY", at=proof.summaries[0])
    if judged.capability is not Capability.RESTORE:
        return
    for gap in rank_gaps(proof, judged.subject.topology.tp):
        yield found("RANK_MISSING", at=gap.pointer, value=gap.says)
    if proof.form is RankForm.NONE:
        yield found("NO_RANK_RESTORE_PROOF", at=judged.case.pointer, value="nothing per rank")


@rule(
    Gate.STRUCTURAL,
    question="Did every rank restore what it was to restore?",
    needs="an outcome, a count of restores or restored tokens per rank, or a statement about all",
    leaves_open="the content",
    codes=("PARTIAL_RANK_FAILURE",),
    version=2,
)
def no_rank_failed(judged: Judged) -> Iterator[Finding]:
    if judged.capability not in _RESTORES:
        return
    proof = rank_proof(judged)
    for pointer, value in failed_ranks(proof.records):
        yield found("PARTIAL_RANK_FAILURE", at=pointer, value=value)
    if isinstance(proof.all_verified, Found) and not proof.all_verified.value:
        yield found("PARTIAL_RANK_FAILURE", proof.all_verified)
    span = judged.case.span.restored_tokens
    if judged.capability is Capability.RESTORE and isinstance(span, Found) and span.value == 0:
        yield found("PARTIAL_RANK_FAILURE", span)


@rule(
    Gate.STRUCTURAL,
    question="Did every rank restore the same span, bytes, objects and context?",
    needs="the values per rank",
    leaves_open="whether the bytes are right: equal wrong bytes are equal",
    codes=("RANK_DIVERGENCE",),
    version=2,
)
def ranks_do_not_diverge(judged: Judged) -> Iterator[Finding]:
    if judged.capability is not Capability.RESTORE:
        return
    proof = rank_proof(judged)
    for pointer, value in divergences(proof):
        yield found("RANK_DIVERGENCE", at=pointer, value=value)
    yield from _other_context(judged, proof)


@rule(
    Gate.STRUCTURAL,
    question="Is every headline value the value of some rank?",
    needs="the vector the headline speaks of",
    leaves_open="the values themselves: times prove nothing",
    codes=("RANK_VALUE_UNBOUND", "COMMIT_MS_UNBOUND"),
    version=2,
)
def headlines_are_bound(judged: Judged) -> Iterator[Finding]:
    others = tuple((one.pointer, one.values) for one in judged.facts.timings)
    for headline in judged.case.ranks.headlines:
        if isinstance(headline.value, Missing) or is_bound(headline, judged.case.ranks, others):
            continue
        yield found("RANK_VALUE_UNBOUND" if headline.blocking else "COMMIT_MS_UNBOUND", headline.value)


@rule(
    Gate.STRUCTURAL,
    question="Is the structure of this restore in order?",
    needs="every rank, nothing against one",
    leaves_open="the answer: structure alone never qualifies",
    codes=("STRUCTURE_VERIFIED",),
    version=2,
)
def the_structure_is_verified(judged: Judged) -> Iterator[Finding]:
    if judged.capability is Capability.RESTORE and structural_gate(judged).state.holds:
        proof = rank_proof(judged)
        if proof.form is not RankForm.SUMMARY:
            yield found("STRUCTURE_VERIFIED", at=_place(proof) or judged.case.pointer, value=proof.form.value)


def structural_gate(judged: Judged) -> GateResult:
    """Records with outcomes demonstrate; vectors, lists, ranges and booleans attest."""
    proof = rank_proof(judged)
    if proof.form is RankForm.NONE:
        return GateResult(gate=Gate.STRUCTURAL, state=GateState.NOT_TESTED, says="nothing per rank")
    if _is_bad(judged, proof):
        return GateResult(gate=Gate.STRUCTURAL, state=GateState.FAILED, pointer=_place(proof))
    if proof.form is not RankForm.SUMMARY and not is_complete(proof, judged.subject.topology.tp):
        return GateResult(gate=Gate.STRUCTURAL, state=GateState.INCONCLUSIVE, pointer=_place(proof))
    records = proof.form is RankForm.RECORDS
    return GateResult(
        gate=Gate.STRUCTURAL,
        state=GateState.DEMONSTRATED if records else GateState.ATTESTED,
        basis=Basis.DEMONSTRATED if records else Basis.ATTESTED,
        pointer=_place(proof),
        says=f"{proof.form.value} for {_how_many(proof)}",
    )


def _is_bad(judged: Judged, proof: RankProof) -> bool:
    denied = isinstance(proof.all_verified, Found) and not proof.all_verified.value
    diverges = any(divergences(proof)) or any(_other_context(judged, proof))
    return denied or diverges or any(failed_ranks(proof.records))


def _other_context(judged: Judged, proof: RankProof) -> Iterator[Finding]:
    """A rank that restored another context or span than the case names."""
    span = judged.case.span
    for record in proof.records:
        own, whole = record.context_prefix, span.context_digest
        if isinstance(own, Found) and isinstance(whole, Found) and own.value[:12] != whole.value[:12]:
            yield found("RANK_DIVERGENCE", own)
        tokens, restored = record.restored_tokens, span.restored_tokens
        if isinstance(tokens, Found) and isinstance(restored, Found) and tokens.value != restored.value:
            yield found("RANK_DIVERGENCE", tokens)


def _place(proof: RankProof) -> str:
    if proof.records:
        return proof.records[0].pointer
    if proof.vectors:
        return proof.vectors[0].pointer
    if proof.listed:
        return proof.listed[0].pointer
    return proof.summaries[0] if proof.summaries else ""


def _how_many(proof: RankProof) -> str:
    number = max(
        len(proof.records),
        max((len(one.ranks) for one in proof.vectors), default=0),
        max((len(one.value) for one in proof.listed), default=0),
        proof.counted.value if isinstance(proof.counted, Found) else 0,
    )
    return f"{number} ranks" if number else "all ranks together"
