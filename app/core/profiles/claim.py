"""Claims about profile documents: read with a code, told as findings, and what they may not say
(profile-contract §13, §15, §18.8, §18.16).
"""

import re
from collections.abc import Iterable
from typing import Final

from app.core.canonical_json import JsonObject
from app.core.errors import DocumentError
from app.core.profiles.documents import DocumentKind, ProfileDocument, read_profile_document, refusal
from app.core.profiles.findings import CheckResult, ProfileFinding, finding
from app.core.qualify.claim import Claim, ClaimState, claim_of, standing_claims
from app.core.qualify.document import Document

NOT_CLAIMED: Final = {
    "a completed request of a million tokens": r"(?:million|1m|1 ?048 ?576) (?:tokens? )?requests?|"
    r"requests? of (?:a|one) million tokens|million tokens? completed|completed million tokens?",
    "multimodal correctness": r"multi ?modal",
    "a switched fabric": r"switched fabrics?",
    "other models": r"other models?",
    "sustained memory behaviour or soak": r"soaks?|sustained memory",
    "latency of three coordinated cold starts": r"cold starts? latency|latency of (?:\w+ ){0,2}cold starts?",
    "reproducible throughput or speed-up": r"throughput|speed ?ups?",
    "that tp4-dcp4 is qualified on its own": r"tp4 dcp4 (?:is )?qualified(?: on its own| alone)?|"
    r"qualified tp4 dcp4(?! sparkcache)",
    "that the contract's bytes are in the image": r"contract(?: s)? bytes (?:are )?in (?:the )?image",
    "raw output equivalence": r"(?:raw )?output equivalence|token for token",
}
"""What the record of the published qualification says it does not show (§13), and how that is recognised in
words of letters and digits."""
_SAYS: Final = {name: re.compile(rf"\b(?:{pattern})\b") for name, pattern in NOT_CLAIMED.items()}
_NO_WORD: Final = re.compile(r"[^a-z0-9]+")
_CODES: Final = {
    ClaimState.AMENDED: "CLM_AMENDED",
    ClaimState.AFFECTED: "CLM_AFFECTED",
    ClaimState.WITHDRAWN: "CLM_WITHDRAWN",
    ClaimState.SUPERSEDED: "CLM_SUPERSEDED",
}


def read_claim(source: bytes | ProfileDocument, *, subject: str = "claim") -> Claim:
    """Read a claim document.

    Raises:
        ProfileDocumentError: as ``read_profile_document``; ``DOC_FIELD`` with the pointer.
    """
    document = source
    if isinstance(document, bytes):
        document = read_profile_document(document, subject=subject, kind=DocumentKind.CLAIM)
    try:
        return claim_of(
            Document(sha256=document.sha256, byte_count=document.byte_count, value=document.value),
            subject=subject,
        )
    except DocumentError as error:
        raise refusal(
            subject,
            code="DOC_FIELD",
            expected=error.expected,
            found=error.found,
            pointer=error.pointer,
            sha256=document.sha256,
        ) from None


def claims_about(claims: Iterable[Claim], *, subject_sha256: str) -> tuple[Claim, ...]:
    """The newest claim for each place of a document."""
    return standing_claims(one for one in claims if one.subject_sha256 == subject_sha256)


def claim_findings(claims: Iterable[Claim]) -> tuple[ProfileFinding, ...]:
    """What standing claims say about their subjects: warnings, which change no result; and a claim that
    states what no record shows, which blocks.

    Of claims that are all asserted or evidenced nothing is found but that they say no more than they may.
    """
    found: list[ProfileFinding] = []
    for one in claims:
        code = _CODES.get(one.state)
        if code is not None:
            found.append(_told(code, one))
        found.append(_overreach(one))
    return tuple(found)


def takes_out(claims: Iterable[Claim]) -> bool:
    """Whether the standing claims take a capability of their subject out of a verdict's evidence."""
    return any(one.state.takes_out for one in claims)


def overreaching(claim: Claim) -> str:
    """What the claim states that nobody showed; empty where it says nothing of the kind.

    Its place and its reason are read. A claim that takes something away cannot say too much.
    """
    if claim.state not in (ClaimState.ASSERTED, ClaimState.EVIDENCED):
        return ""
    for text in (claim.pointer, claim.reason):
        words = _NO_WORD.sub(" ", text.lower())
        for name, pattern in _SAYS.items():
            if pattern.search(words):
                return name
    return ""


def claim_object(claim: Claim) -> JsonObject:
    """A claim as JSON, with its effect."""
    return {
        "sha256": claim.sha256,
        "subject_sha256": claim.subject_sha256,
        "pointer": claim.pointer,
        "state": claim.state.value,
        "author": claim.author,
        "at": claim.at,
        "reason": claim.reason,
        "replacement_sha256": claim.replacement_sha256,
        "takes_out": claim.state.takes_out,
    }


def _told(code: str, claim: Claim) -> ProfileFinding:
    return finding(
        code,
        CheckResult.FAIL,
        pointer=claim.pointer,
        detail=f"{claim.author}, {claim.at}: {claim.reason}"[:500],
        expected="no such claim",
        found=claim.state.value,
        document_sha256=claim.subject_sha256,
    )


def _overreach(claim: Claim) -> ProfileFinding:
    states = overreaching(claim)
    return finding(
        "CLM_OVERREACH",
        CheckResult.FAIL if states else CheckResult.PASS,
        pointer=claim.pointer,
        detail=f"claim {claim.sha256[:12]}",
        expected="nothing that the record leaves open" if states else "",
        found=states,
        document_sha256=claim.subject_sha256,
    )
