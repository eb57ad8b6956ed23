"""Every code a rule may give: its row of §7.3, its gate and what it says (evidence-model §5, §7, B.3).

The row decides what a code does; moving one changes the version of the rule set. Codes marked [ours] are
not in §7 of the evidence model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from app.core.qualify.findings import Gate, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """``says`` is one sentence; ``detail`` tells what stands behind the colon, if anything."""

    name: str
    row: Row
    gate: Gate
    says: str
    detail: str = ""


def _codes(row: Row, gate: Gate, **says: str) -> tuple[Code, ...]:
    return tuple(_code(name, row, gate, text) for name, text in says.items())


def _code(name: str, row: Row, gate: Gate, text: str) -> Code:
    what, bar, sentence = text.partition(" | ")
    return Code(name=name, row=row, gate=gate, says=sentence if bar else text, detail=what if bar else "")


_ALL: Final = (
    *_codes(
        Row.NO_VERDICT,
        Gate.KIND,
        INVALID_JSON="The bytes are no strict JSON document: there is no receipt.",
        SCHEMA_UNKNOWN="The schema is not known here: kept and shown, never counted.",
        SCHEMA_ABSENT="The document names no schema: kept and shown, never counted.",
        NOT_A_RECEIPT="kind | The document exists, chooses or pins something; it records no run.",
        INPUT_DOCUMENT="The document is the input of a receipt and judged with that one.",
        CATALOGUE_STATEMENT="A catalogue says what is offered; its words are not evidence.",
        HOST_READINESS_ONLY="Only that the hosts were ready.",
        EQUIVALENCE_IS_NOT_QUALIFICATION="Equal files in two images transfer nothing.",
    ),
    *_codes(
        Row.UNSUPPORTED,
        Gate.LIFECYCLE,
        ARTIFACT_WITHDRAWN="The artifact was withdrawn and must not be used.",
    ),
    *_codes(
        Row.UNSUPPORTED,
        Gate.DECLARED,
        DECLARED_UNSUPPORTED="The document itself says that this is not supported.",
        CONFIG_FAILS_CLOSED="The configuration refuses to start.",
    ),
    *_codes(
        Row.REJECTED,
        Gate.SEMANTIC,
        SEMANTIC_ORACLE_MISMATCH="The answer is not the expected one.",
        SEMANTIC_CONTRADICTION="A flag of the record contradicts the values beside it.",
    ),
    *_codes(Row.REJECTED, Gate.FAULT, CORRUPTION_NOT_REJECTED="Corrupt content was not refused."),
    *_codes(Row.REJECTED, Gate.ISOLATION, SCOPE_LEAK="Another scope restored what is not its own."),
    *_codes(Row.REJECTED, Gate.STRUCTURAL, RANK_DIVERGENCE="The ranks restored different content."),
    *_codes(
        Row.REJECTED,
        Gate.DECLARED,
        GATE_DECLARED_FAILED="The record declares that its own deciding check failed.",
        GATE_FAILED="gate | Numbers that must be zero are not.",
    ),
    *_codes(
        Row.REJECTED,
        Gate.INTEGRITY,
        PAYLOAD_DIGEST_MISMATCH="A digest inside the document does not cover what it claims to cover.",
        PIN_MISMATCH="A document pinned by this one, of the same commit, has another digest.",
    ),
    *_codes(
        Row.DECLARED,
        Gate.DECLARED,
        DECLARED_CEILING="The document claims no more than this.",
    ),
    *_codes(Row.DECLARED, Gate.ADMISSION, ADMISSION_DENIED="The record itself denies admission."),
    *_codes(
        Row.CEILING,
        Gate.KIND,
        CONSTRUCTION_ONLY="Shows that an image was built as meant, not that it works.",
        PUBLICATION_ONLY="Shows that a registry serves these bytes, not that they work.",
        SOURCE_CONTRACT_ONLY="Shows that sources are the pinned ones.",
        GPU_FREE_ONLY="Tests without the hardware that serves.",
        PERFORMANCE_ONLY="Times and rates admit nothing.",
        SCHEMA_CEILING="A research or rejection schema: never above research-only.",
    ),
    *_codes(
        Row.INCOMPLETE,
        Gate.DECLARED,
        STATUS_WORD_UNKNOWN="A status word that is not known here counts as no word.",
        STATUS_ABSENT="The document claims no status.",
        PENDING_CHECK="A check was pending when the document was written.",
    ),
    *_codes(
        Row.INCOMPLETE,
        Gate.IDENTITY,
        IDENTITY_INCOMPLETE="axis | Not said which one it was.",
        TOPOLOGY_UNBOUND="axis | The parallel degree is not recorded.",
        DIGEST_MALFORMED="A digest or commit that cannot be one.",
        NOT_TRANSFERABLE="Evidence about another scope than the asked one.",
    ),
    *_codes(
        Row.INCOMPLETE,
        Gate.STRUCTURAL,
        RANK_MISSING="The ranks recorded are not exactly 0 … TP−1, each once.",
        RANK_VALUE_UNBOUND="A headline value is no rank's value.",
        NO_RANK_RESTORE_PROOF="Nothing at all is said per rank.",
        PARTIAL_RANK_FAILURE="A rank did not restore.",
    ),
    *_codes(
        Row.INCOMPLETE,
        Gate.SEMANTIC,
        SEMANTIC_MISSING="No answer of this request is recorded.",
        SEMANTIC_INCONCLUSIVE="The request ran and its answer cannot be compared.",
    ),
    *_codes(
        Row.INCOMPLETE,
        Gate.KIND,
        VALIDATOR_FAILED="rule | The schema's own validator refuses the document.",
        GATE_MISSING="gate | The capability needs this gate and nothing is recorded for it.",
    ),
    *_codes(
        Row.INCOMPLETE,
        Gate.INTEGRITY,
        ACT_CHECK="rule | A rule that every activation of its profile keeps refuses a value.",
    ),
    *_codes(
        Row.RESEARCH,
        Gate.SEMANTIC,
        ORACLE_NOT_EXACT="The answer was compared by its end only.",
    ),
    *_codes(
        Row.RESEARCH,
        Gate.IDENTITY,
        EVIDENCE_OTHER_IMAGE="The evidence was taken on another image.",
        PREDECESSOR_EVIDENCE="The evidence is that of a predecessor image.",
        IMAGE_NOT_UNIFORM="The ranks ran different images or runtimes.",
        UNCOMMITTED_SOURCE="The source held changes that no commit has.",
        IDENTITY_CONFLICT="Two places give one image different identities.",
    ),
    *_codes(
        Row.RESEARCH,
        Gate.FAULT,
        INJECTED_FAULT="A fault was put in on purpose: a drill shows what the checks catch, nothing else.",
    ),
    *_codes(
        Row.RESEARCH,
        Gate.LIFECYCLE,
        KNOWN_FAILURE="A failure of this very image is on record; a later success does not remove it.",
        WAIVED_FAILURE="A check failed and was waived.",
        CLAIM_WITHDRAWN="The claim was withdrawn; the measurements stand.",
        CLAIM_SUPERSEDED="Another claim took the place of this one; the bytes stand.",
        OPEN_DEFECTS="The record names defects of this artifact that are not fixed.",
    ),
    *_codes(
        Row.QUALIFIED,
        Gate.DECLARED,
        QUALIFIED_EXACT_SCOPE="Qualified for exactly this scope and nothing else.",
    ),
    *_codes(
        Row.SUPPORT,
        Gate.SEMANTIC,
        SEMANTIC_DEMONSTRATED="Expected and observed answer are recorded and equal.",
    ),
    *_codes(Row.SUPPORT, Gate.STRUCTURAL, STRUCTURE_VERIFIED="Every rank verified what it restored."),
    *_codes(
        Row.SUPPORT,
        Gate.CONTROL,
        CONTROL_PASSED="The control prompt, recomputed on the same image, was answered right.",
        NEGATIVE_CONTROLS="Requests that must not restore did not.",
    ),
    *_codes(
        Row.SUPPORT,
        Gate.ROLLBACK,
        ROLLBACK_PASSED="The image to go back to recomputed the prompt and answered right.",
    ),
    *_codes(
        Row.SUPPORT,
        Gate.FAULT,
        FAULT_RECOVERED="A fault was refused and the answer was right all the same.",
        RECOVERED_BY_RECOMPUTE="What could not be restored was computed again.",
    ),
    *_codes(
        Row.SUPPORT,
        Gate.DECLARED,
        STATUS_ABSENT_VALIDATOR_PASSED="No status word; the schema's own validator passed on a live run.",
        DECLARED_BY_OPERATOR="A person declared this receipt meant for qualification.",
    ),
    *_codes(
        Row.WARNING,
        Gate.SEMANTIC,
        SEMANTIC_ATTESTED_ONLY="The answer is attested, not recorded.",
        ORACLE_SELF_CONSISTENT="Two answers of one run agree; which is right is not recorded.",
        ORACLE_CONTAINS="The answer contains the expected text.",
        ORACLE_OBSERVED_NOT_RECORDED="The expected answer is recorded, the observed one is not.",
        RESPONSE_DIGEST_UNEXPLAINED="No usual spelling of the answer has the recorded digest.",
        RESTORE_ANSWER_NOT_RECORDED="Restores are recorded, their answers are not.",
        SEMANTIC_NOT_TESTED="The capability needs no answer and none was checked.",
        CONTROL_FAILED="The control prompt was answered wrong: model or prompt are implicated.",
        CONTROL_MISSING="Without a control the cause of the wrong answer is unknown.",
    ),
    *_codes(
        Row.WARNING,
        Gate.STRUCTURAL,
        RANK_SUMMARY_ONLY="One value or a range speaks for all ranks.",
        COMMIT_MS_UNBOUND="A headline commit time is no rank's time.",
    ),
    *_codes(
        Row.WARNING,
        Gate.IDENTITY,
        IDENTITY_ALIAS_ONLY="The model is named by an alias, which identifies nothing.",
        IDENTITY_INCOMPLETE_WARN="axis | Not said which one it was; not needed for the outcome.",
        IDENTITY_CONFLICT_WARN="axis | Two documents give one image different builders.",
        WRITER_OTHER_IMAGE="The stored entries were written by another image.",
        ENGINE_SELF_TEST="Evidence about this engine build and this snapshot, about no image.",
    ),
    *_codes(
        Row.WARNING,
        Gate.LIFECYCLE,
        RAW_EVIDENCE_NOT_RETAINED="The raw logs were not kept.",
        PATH_REUSED="The same path held a receipt of another image.",
        SUPERSEDED_RECEIPT="A later receipt of the same image and family replaces this one.",
        CLAIM_AMENDED="A claim of this receipt was amended later.",
        CLAIM_AFFECTED="Something found later may have touched what this receipt measured.",
        CLEAN_PULL_UNPROVEN="No pull into an empty store is proven.",
    ),
    *_codes(
        Row.WARNING,
        Gate.DECLARED,
        PARTLY_ESTABLISHED="Some cases of the document are not established.",
        DECLARED_ABOVE_EVIDENCE="The document claims more than its evidence carries.",
        STATUS_PHRASE="A sentence stands where a status word should.",
    ),
    *_codes(Row.WARNING, Gate.CONTROL, CONTROL_NOT_TESTED="No control prompt."),
    *_codes(Row.WARNING, Gate.ROLLBACK, ROLLBACK_NOT_TESTED="No rollback was tried."),
    *_codes(Row.WARNING, Gate.RESTART, RESTART_NOT_TESTED="No process was replaced before the restore."),
    *_codes(Row.WARNING, Gate.FAULT, FAULT_NOT_TESTED="No fault was put in."),
    *_codes(
        Row.WARNING,
        Gate.ADMISSION,
        NO_REGISTRY_DIGEST="No registry manifest digest names this config id.",
        NOT_PUBLISHED="The record says that the image is not published.",
        CAPABILITY_NOT_DEPLOYABLE="Only restore and serving verdicts can be deployable.",
        GRADE_TOO_LOW="The grade of the evidence is below what deployment asks for.",
    ),
    *_codes(
        Row.WARNING,
        Gate.INTEGRITY,
        PIN_OTHER_COMMIT="The pinned document is stored as of another commit and differs.",
        PIN_TARGET_ABSENT="A pinned document is not stored.",
        NO_EVIDENCE_DIGESTS="The record names no raw evidence by digest.",
        ACT_FIXTURE_LIKE="The counters equal those of the validator's own test.",
    ),
    *_codes(
        Row.NOTE,
        Gate.KIND,
        NOT_SPARKCACHE="Another cache than SparkCache, or none.",
        POINTER_CLAIMS="Words about other documents, which alone carry the evidence.",
        NO_CACHE_EVIDENCE="Served without a persistent cache: nothing about restores.",
    ),
    *_codes(
        Row.NOTE,
        Gate.DECLARED,
        NESTED_REJECTION="what | A part of the document was rejected; shown, not judged.",
    ),
    *_codes(
        Row.NOTE,
        Gate.SEMANTIC,
        CANARY_UNRELATED="The answer belongs to another prompt than the restored one.",
    ),
    *_codes(
        Row.NOTE,
        Gate.IDENTITY,
        PREDECESSOR_EVIDENCE_EXCLUDED="A predecessor image is named so that its evidence stays out.",
        PARENT_NOT_UPGRADED="The parent image gets nothing from this receipt.",
    ),
    *_codes(
        Row.NOTE,
        Gate.ROLLBACK,
        ROLLBACK_NAMED="An image to go back to is named.",
        ROLLBACK_RECHECK_PENDING="The image to go back to recomputed; it did not restore again.",
    ),
    *_codes(Row.NOTE, Gate.STRUCTURAL, RANK_VALUES_PRESENT="Values per rank stand beside a lower claim."),
)

CODES: Final[Mapping[str, Code]] = MappingProxyType({code.name: code for code in _ALL})
