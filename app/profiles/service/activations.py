"""Activations judged: those that are stored, and bytes that are not."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy.orm import Session

from app.core.digest import sha256
from app.core.errors import DocumentError
from app.core.profiles.activation import ActivationJudgement, is_pinned, judge_activation
from app.core.profiles.activation_terms import RuleSet
from app.core.profiles.claim import claim_findings
from app.core.profiles.contract import Contract
from app.core.profiles.documents import DocumentKind, ProfileDocument, read_profile_document
from app.core.profiles.findings import CheckResult, ProfileFinding, finding, overall
from app.core.profiles.release import read_release_selection
from app.core.qualify.keys import word
from app.errors import NotFound
from app.profiles import repository
from app.profiles.service.claims import standing_about
from app.profiles.service.contracts import get_contract, text_of
from app.profiles.service.documents import offences, refusal
from app.profiles.service.keys import PINS
from app.profiles.service.parsed import read_many
from app.profiles.service.reading import get_document, list_documents, raw_bytes

# Activations of one contract are looked through from the newest on, so many at most.
MOST_ACTIVATIONS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedActivation:
    """An activation with everything the rules say; `judgement` is None where no contract could be used.

    Attributes:
        said: what the document calls its contract, whether stored or not.
        pinned: whether a stored release selection names the bytes, or the caller says so.
    """

    sha256: str
    said: str | None
    contract: Contract | None
    pinned: bool
    rules: RuleSet
    schema: str | None
    profile: str | None
    judgement: ActivationJudgement | None
    findings: tuple[ProfileFinding, ...]

    @property
    def result(self) -> CheckResult:
        return overall(self.findings)


def judge_bytes(
    session: Session, *, raw: bytes, contract_sha256: str | None, pinned: bool | None, rules: RuleSet
) -> JudgedActivation:
    """Judge an activation against a stored contract.

    Args: contract_sha256: the contract; None: the one the document names. pinned: None: whether a stored
    release selection pins these bytes.

    Raises:
        NotFound: the contract that is asked for is not stored.
        Refused: the bytes are no activation that could be judged.
    """
    wanted = None if contract_sha256 is None else get_contract(session, sha256=contract_sha256)
    try:
        return _judged(session, raw, contract=wanted, pinned=pinned, rules=rules)
    except DocumentError as error:
        raise refusal(error) from None


def judge_stored(session: Session, *, sha256: str, contract_sha256: str | None = None) -> JudgedActivation:
    """Judge a stored activation by all rules, and by what claims say of it.

    One that cannot be read fails by what is wrong with it.

    Raises:
        NotFound: no activation has this digest; the contract that is asked for is not stored.
    """
    stored = get_document(session, sha256=sha256, kind=DocumentKind.ACTIVATION)
    wanted = None if contract_sha256 is None else get_contract(session, sha256=contract_sha256)
    raw = raw_bytes(session, sha256=sha256)
    said = claim_findings(standing_about(session, sha256=sha256))
    try:
        judged = _judged(session, raw, contract=wanted, pinned=None, rules=RuleSet.STRICT)
        return replace(judged, findings=(*judged.findings, *said))
    except DocumentError as error:
        return JudgedActivation(
            sha256=sha256,
            said=None,
            contract=wanted,
            pinned=False,
            rules=RuleSet.STRICT,
            schema=stored.schema_name,
            profile=None,
            judgement=None,
            findings=(*offences(error), *said),
        )


def pins_of(session: Session, *, sha256: str) -> list[str]:
    """Digests of the stored release selections that name these bytes, the newest first."""
    rows = repository.under_keys(session, keys=[word(PINS, sha256)], limit=20)
    return [row.sha256 for row in rows if row.kind == DocumentKind.RELEASE_SELECTION]


def activations_of(session: Session, *, contracts: Sequence[str]) -> tuple[list[ProfileDocument], bool]:
    """The newest activations that name one of these contracts, and whether all there are were looked at."""
    listed = list_documents(
        session, kind=DocumentKind.ACTIVATION, text=None, after=None, limit=MOST_ACTIVATIONS + 1
    )
    found = read_many(session, digests=[one.sha256 for one in listed[:MOST_ACTIVATIONS]])
    wanted = set(contracts)
    of = [one for one in found.values() if text_of(one, "profile_contract_sha256") in wanted]
    return of, len(listed) <= MOST_ACTIVATIONS


def _judged(
    session: Session, raw: bytes, *, contract: Contract | None, pinned: bool | None, rules: RuleSet
) -> JudgedActivation:
    document = _read(raw, rules=rules)
    said = text_of(document, "profile_contract_sha256")
    contract = contract or _contract(session, said=said)
    digest = sha256(raw)
    if contract is None:
        return _without_contract(digest, document=document, said=said, pinned=bool(pinned), rules=rules)
    judgement = judge_activation(raw, contract=contract, rules=rules, pinned=bool(pinned))
    if pinned is None and _is_pinned(session, judgement, contract=contract):
        judgement = judge_activation(raw, contract=contract, rules=rules, pinned=True)
    return JudgedActivation(
        sha256=digest,
        said=said,
        contract=contract,
        pinned=judgement.pinned,
        rules=rules,
        schema=judgement.schema,
        profile=judgement.profile,
        judgement=judgement,
        findings=judgement.findings,
    )


def _is_pinned(session: Session, judgement: ActivationJudgement, *, contract: Contract) -> bool:
    found = read_many(session, digests=pins_of(session, sha256=judgement.sha256)).values()
    return is_pinned(judgement, contract=contract, selections=[read_release_selection(one) for one in found])


def _read(raw: bytes, *, rules: RuleSet) -> ProfileDocument | None:
    """The document, as far as it can be decoded: the published rules let pass what is no strict JSON."""
    try:
        return read_profile_document(raw, subject="activation", kind=DocumentKind.ACTIVATION)
    except DocumentError:
        if rules is RuleSet.UPSTREAM:
            return None
        raise


def _contract(session: Session, *, said: str | None) -> Contract | None:
    try:
        return None if said is None else get_contract(session, sha256=said)
    except NotFound:
        return None


def _without_contract(
    digest: str, *, document: ProfileDocument | None, said: str | None, pinned: bool, rules: RuleSet
) -> JudgedActivation:
    detail = f"contract {said} is not stored" if said else "the document names no contract"
    missing = finding(
        "ACT_CONTRACT_BINDING",
        CheckResult.NOT_TESTED,
        pointer="/profile_contract_sha256",
        detail=detail,
        expected="a contract that is stored here",
        found=said or "nothing",
        document_sha256=None if document is None else document.sha256,
    )
    return JudgedActivation(
        sha256=digest,
        said=said,
        contract=None,
        pinned=pinned,
        rules=rules,
        schema=None if document is None else document.schema,
        profile=text_of(document, "profile"),
        judgement=None,
        findings=(missing,),
    )
