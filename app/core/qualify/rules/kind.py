"""What a kind of document can carry at most (evidence-model §3, §7.3 row 4, Appendix B.2)."""

from collections.abc import Iterator

from app.core.qualify.facts import Capability, Kind, StatusClass
from app.core.qualify.findings import Finding, Gate
from app.core.qualify.gates import RankForm
from app.core.qualify.rules.rule import Judged, found, rule
from app.core.qualify.values import Found

CEILINGS = (
    "CONSTRUCTION_ONLY",
    "PUBLICATION_ONLY",
    "SOURCE_CONTRACT_ONLY",
    "GPU_FREE_ONLY",
    "PERFORMANCE_ONLY",
    "SCHEMA_CEILING",
)
NO_VERDICT = (
    "SCHEMA_UNKNOWN",
    "SCHEMA_ABSENT",
    "NOT_A_RECEIPT",
    "INPUT_DOCUMENT",
    "CATALOGUE_STATEMENT",
    "HOST_READINESS_ONLY",
    "EQUIVALENCE_IS_NOT_QUALIFICATION",
)


@rule(
    Gate.KIND,
    question="Is this a record of a run at all?",
    needs="a schema string that is known",
    leaves_open="everything: such a document carries no verdict",
    codes=NO_VERDICT,
)
def it_is_a_receipt(judged: Judged) -> Iterator[Finding]:
    code, _, detail = judged.facts.schema.no_verdict.partition(":")
    if code:
        yield found(code, judged.facts.schema.schema, detail=detail)


@rule(
    Gate.KIND,
    question="What can a document of this kind show at most?",
    needs="the schema's ceiling: whatever words stand in the document",
    leaves_open="what the document really shows",
    codes=CEILINGS,
)
def the_kind_has_no_ceiling(judged: Judged) -> Iterator[Finding]:
    for code in judged.facts.schema.ceilings:
        yield found(code, judged.facts.schema.schema)


@rule(
    Gate.KIND,
    question="Is it evidence about SparkCache?",
    needs="the schema, and for serving whether there are restores",
    leaves_open="nothing: it is shown",
    codes=("NOT_SPARKCACHE", "NO_CACHE_EVIDENCE"),
)
def it_is_about_the_cache(judged: Judged) -> Iterator[Finding]:
    if not judged.facts.schema.sparkcache:
        yield found("NOT_SPARKCACHE", judged.facts.schema.schema)
    elif judged.capability is Capability.SERVING and not _has_restores(judged):
        yield found("NO_CACHE_EVIDENCE", judged.subject.workload.cache_enabled)


@rule(
    Gate.KIND,
    question="Does it repeat claims of other documents?",
    needs="nested claims of qualification in a publication",
    leaves_open="whether those documents carry them",
    codes=("POINTER_CLAIMS",),
)
def claims_of_others_are_pointers(judged: Judged) -> Iterator[Finding]:
    if judged.facts.schema.kind is not Kind.PUBLICATION_RECEIPT:
        return
    for one in judged.whole.pointer_claims[:1]:
        yield found("POINTER_CLAIMS", at=one.pointer, value=one.word)


@rule(
    Gate.STRUCTURAL,
    question="Do values per rank stand beside a claim below qualified?",
    needs="rank records or vectors",
    leaves_open="nothing: they are shown",
    codes=("RANK_VALUES_PRESENT",),
)
def values_beside_a_lower_claim(judged: Judged) -> Iterator[Finding]:
    words = {one.status for one in judged.whole.words}
    lower = words & {StatusClass.IMPLEMENTED, StatusClass.RESEARCH}
    if lower and judged.case.ranks.form in (RankForm.RECORDS, RankForm.VECTOR):
        yield found("RANK_VALUES_PRESENT", at=judged.case.pointer, value=judged.case.ranks.form.value)


def _has_restores(judged: Judged) -> bool:
    commit, enabled = judged.subject.source.commit, judged.subject.workload.cache_enabled
    if isinstance(enabled, Found) and not enabled.value:
        return False
    return isinstance(commit, Found) or bool(judged.whole.restores)
