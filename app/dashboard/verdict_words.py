"""The words of verdicts on the pages: what an outcome, a gate, a state and a basis is called and means."""

import re
from typing import Final

from app.core.qualify.codes import CODES
from app.core.qualify.findings import Gate, GateState, Outcome
from app.core.qualify.values import Basis, Gap

OUTCOMES: Final[dict[str, str]] = {
    Outcome.QUALIFIED: "right for exactly this scope, and for nothing else",
    Outcome.REJECTED: "a check that decides went wrong",
    Outcome.RESEARCH_ONLY: "works or was measured; not offered for use",
    Outcome.IMPLEMENTED: "exists and was built as meant; whether it restores right is not shown",
    Outcome.UNSUPPORTED: "must not be used",
    Outcome.INCOMPLETE: "claims more than its evidence says; something is missing",
    Outcome.NONE: "carries no verdict",
}
# The tabs over the images, with the outcomes each holds.
TABS: Final[dict[str, tuple[str, ...]]] = {
    "qualified": (Outcome.QUALIFIED,),
    "rejected": (Outcome.REJECTED,),
    "research-only": (Outcome.RESEARCH_ONLY,),
    "other": (Outcome.UNSUPPORTED, Outcome.INCOMPLETE, Outcome.IMPLEMENTED),
}
NO_EVIDENCE: Final = "no-evidence"

STATES: Final[dict[str, str]] = {
    GateState.DEMONSTRATED: "the values are recorded and can be checked again",
    GateState.ATTESTED: "a statement says so; nothing to check it against",
    GateState.FAILED: "it went wrong",
    GateState.INCONCLUSIVE: "tried, and nothing can be concluded",
    GateState.NOT_TESTED: "nobody tried, or nobody wrote it down",
    GateState.NOT_APPLICABLE: "there is nothing to try",
}
GATES: Final[dict[str, str]] = {
    Gate.IDENTITY: "Which image, code, model and topology was it?",
    Gate.STRUCTURAL: "Did every rank verify what it restored?",
    Gate.PLACEMENT: "Was earlier GPU work done before pages were written?",
    Gate.SEMANTIC: "Was the answer after the restore the right one?",
    Gate.CONTROL: "Is a prompt with one token changed answered right without the cache?",
    Gate.ROLLBACK: "Does the image to go back to answer right?",
    Gate.RESTART: "Were processes replaced between publication and restore?",
    Gate.FAULT: "Is damage refused, and the answer still right?",
    Gate.ISOLATION: "Does another scope restore nothing?",
    Gate.DRAIN: "Are all counters zero after the drain?",
    Gate.READINESS: "Does it stay ready once it says so?",
    Gate.ADMISSION: "Is it published, and not denied by its own record?",
}
# What a list has room for, in the order in which a restore passes them.
LISTED_GATES: Final = (Gate.STRUCTURAL, Gate.PLACEMENT, Gate.SEMANTIC, Gate.CONTROL, Gate.ROLLBACK)
GRADES: Final[dict[str, str]] = {
    Basis.DEMONSTRATED: "the right answer is recorded and can be compared again",
    Basis.SELF_CONSISTENT: "two answers of the same run agree; which one is right is not recorded",
    Basis.ATTESTED: "somebody says that the answer was right",
}
CAUSES: Final[dict[str, str]] = {
    "receipt-imported": "a receipt came in",
    "place-added": "a receipt was found at another place too",
    "declared": "somebody declared receipts meant for qualification",
    "rules-changed": "the rules changed",
    "judged-again": "judged again",
}
_LONG_DIGEST: Final = re.compile(r"[0-9a-f]{40,64}")
# What stands in a finding where there is no value to show.
_GAPS: Final = frozenset(map(str, Gap)) | {"", "none"}


def code_words(code: str) -> str:
    """What a code says, its detail in front; the code itself where it is not known here."""
    name, _, detail = code.partition(":")
    known = CODES.get(name)
    if known is None:
        return {**OUTCOMES, "": ""}.get(code, code)
    return f"{detail}: {known.says}" if detail else known.says


def why(outcome: str, *, reason: str, value: str) -> str:
    """The first thing a tired operator reads: what was found, in one or two sentences.

    Args:
        reason: the verdict's own.
        value: what stood where the deciding finding was read, put into the first sentence.
    """
    if outcome == Outcome.QUALIFIED:
        value = ""
    first, stop, rest = (reason or OUTCOMES.get(outcome, "")).partition(". ")
    first = first.removesuffix(".")
    shown = f"{first}: {value}" if value not in _GAPS and value not in first else first
    return f"{shown}. {rest}" if stop else f"{shown}."


def model_words(text: str) -> str:
    """A model as a list has room for it: long digests cut, an alias named as one."""
    return short_words(text).replace("alias=", "alias ") or "model not said"


def short_words(text: str) -> str:
    """A text with its long digests cut: ``commit=0123…`` becomes ``commit 01234567…``."""
    return " ".join(_LONG_DIGEST.sub(lambda found: f"{found[0][:8]}…", part) for part in text.split())


def topology(tp: str, dcp: str) -> str:
    """``TP 4 · DCP 1``; what is not recorded is said to be so."""
    return f"TP {tp or 'not said'} · DCP {dcp or 'not said'}"
