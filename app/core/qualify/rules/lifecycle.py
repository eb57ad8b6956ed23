"""What was learned later: withdrawals, failures, supersession, waivers (evidence-model §7.5, §8, B.3)."""

from collections.abc import Iterator
from itertools import islice

from app.core.qualify.claim import ClaimState
from app.core.qualify.facts import Kind, Meaning, Remark
from app.core.qualify.findings import Finding, Gate
from app.core.qualify.rules.rule import Judged, elsewhere, found, rule
from app.core.qualify.rules.whole import MOST_SHOWN
from app.core.qualify.surroundings import Elsewhere
from app.core.qualify.values import Found

_SAME_NAME = {
    Meaning.OPEN_DEFECTS: "OPEN_DEFECTS",
    Meaning.RAW_EVIDENCE_NOT_RETAINED: "RAW_EVIDENCE_NOT_RETAINED",
    Meaning.PENDING_CHECK: "PENDING_CHECK",
    Meaning.WAIVED_FAILURE: "WAIVED_FAILURE",
    Meaning.CONFIG_FAILS_CLOSED: "CONFIG_FAILS_CLOSED",
    Meaning.CLAIM_WITHDRAWN: "CLAIM_WITHDRAWN",
    Meaning.CLAIM_AMENDED: "CLAIM_AMENDED",
}


_OF_STATE = {
    ClaimState.AMENDED: "CLAIM_AMENDED",
    ClaimState.AFFECTED: "CLAIM_AFFECTED",
    ClaimState.WITHDRAWN: "CLAIM_WITHDRAWN",
    ClaimState.SUPERSEDED: "CLAIM_SUPERSEDED",
}


@rule(
    Gate.LIFECYCLE,
    question="Was the artifact withdrawn?",
    needs="a withdrawal of the same release or registry manifest digest",
    leaves_open="other artifacts of the release",
    codes=("ARTIFACT_WITHDRAWN",),
)
def it_is_not_withdrawn(judged: Judged) -> Iterator[Finding]:
    own = judged.facts.lifecycle.withdrawal
    if own is not None and judged.facts.schema.kind is Kind.WITHDRAWAL:
        yield found(
            "ARTIFACT_WITHDRAWN", own.reason if isinstance(own.reason, Found) else own.manifest_digest
        )
    for one in judged.around.withdrawals:
        yield _there("ARTIFACT_WITHDRAWN", one)


@rule(
    Gate.LIFECYCLE,
    question="Did this very image fail?",
    needs="a failure on record in this or another document",
    leaves_open="why",
    codes=("KNOWN_FAILURE",),
)
def no_failure_is_known(judged: Judged) -> Iterator[Finding]:
    own = (one for one in judged.facts.remarks if one.meaning is Meaning.KNOWN_FAILURE)
    for remark in islice((one for one in own if _is_about(one, judged)), MOST_SHOWN):
        yield found("KNOWN_FAILURE", at=remark.pointer, value=remark.text)
    for one in judged.around.failures:
        yield _there("KNOWN_FAILURE", one)


@rule(
    Gate.LIFECYCLE,
    question="What do annotated sentences and fields say about the claim?",
    needs="a field made for it, or an annotation that names pointer and sentence",
    leaves_open="all other prose, which is never read",
    codes=tuple(_SAME_NAME.values()),
)
def remarks_are_heard(judged: Judged) -> Iterator[Finding]:
    ours = (one for one in judged.facts.remarks if one.meaning in _SAME_NAME and _is_of_case(one, judged))
    for remark in islice(ours, MOST_SHOWN):
        yield found(_SAME_NAME[remark.meaning], at=remark.pointer, value=remark.text)


@rule(
    Gate.LIFECYCLE,
    question="What became of the claim?",
    needs="another receipt that supersedes, amends or withdraws it, or a claim document about it",
    leaves_open="the bytes: they stay valid while a claim in them is withdrawn",
    codes=(
        "SUPERSEDED_RECEIPT",
        "PATH_REUSED",
        "CLAIM_WITHDRAWN",
        "CLAIM_SUPERSEDED",
        "CLAIM_AMENDED",
        "CLAIM_AFFECTED",
    ),
    version=2,
)
def the_claim_still_stands(judged: Judged) -> Iterator[Finding]:
    for code, every in (
        ("SUPERSEDED_RECEIPT", judged.around.superseded_by),
        ("PATH_REUSED", judged.around.path_reused),
        ("CLAIM_WITHDRAWN", judged.around.claims_withdrawn),
        ("CLAIM_AMENDED", judged.around.claims_amended),
    ):
        for one in every:
            yield _there(code, one)
    for claim in judged.around.claims:
        if claim.state in _OF_STATE and _concerns(claim.pointer, judged):
            yield _there(_OF_STATE[claim.state], claim.read_from)


@rule(
    Gate.LIFECYCLE,
    question="Is a pull into an empty store proven?",
    needs="a pull whose layers were not there before",
    leaves_open="whether the image works",
    codes=("CLEAN_PULL_UNPROVEN",),
)
def the_pull_was_clean(judged: Judged) -> Iterator[Finding]:
    pulled = judged.facts.admission.clean_pull
    if isinstance(pulled, Found) and not pulled.value:
        yield found("CLEAN_PULL_UNPROVEN", pulled)
    for one in judged.around.unproven_pulls:
        yield _there("CLEAN_PULL_UNPROVEN", one)


def _is_about(remark: Remark, judged: Judged) -> bool:
    """A failure of another image is that image's; a failed replay is the restores', not the serving's."""
    own = judged.subject.image
    if isinstance(remark.image, Found):
        return isinstance(own, Found) and remark.image.value == own.value
    return True


def _is_of_case(remark: Remark, judged: Judged) -> bool:
    """A remark inside the place of a case is about that one, else about all."""
    own = judged.case.pointer
    if own and remark.pointer.startswith(own + "/"):
        return True
    return not any(
        remark.pointer.startswith(case.pointer + "/") for case in judged.facts.cases if case.pointer
    )


def _concerns(pointer: str, judged: Judged) -> bool:
    """A claim about a place is about the cases in and around it; about all, if it is in none."""
    cases = [case.pointer for case in judged.facts.cases if _overlap(case.pointer, pointer)]
    return not cases or judged.case.pointer in cases


def _overlap(one: str, other: str) -> bool:
    return one == other or one.startswith(other + "/") or other.startswith(one + "/")


def _there(code: str, one: Elsewhere) -> Finding:
    return elsewhere(code, one.document, at=one.pointer, value=one.value)
