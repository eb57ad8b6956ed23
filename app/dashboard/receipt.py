"""One receipt: what was read from it beside its bytes, and what the rules make of it."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from sqlalchemy.orm import Session

from app.core.qualify.findings import Outcome
from app.core.qualify.rules.fault import is_drill
from app.dashboard import queries_answers, queries_evidence
from app.dashboard.access import ImagesVisitor
from app.dashboard.parsed_facts import fact_groups
from app.dashboard.proof import proof_of
from app.dashboard.rank_bars import PHASES, time_chart
from app.dashboard.raw_text import anchor_of, raw_link, raw_text
from app.dashboard.templating import page
from app.dashboard.verdict_view import VerdictView
from app.dashboard.verdict_words import CAUSES, GRADES, OUTCOMES, STATES, code_words
from app.ledger.api import SignerDep
from app.models import VerdictRow
from app.profiles.service.evidence import kind_of_schema
from app.receipts import service as receipts
from app.receipts.service import stored
from app.verdicts.service import current
from app.verdicts.service.rows import subject_key
from app.web.auth import Scope
from app.web.deps import ReadSession
from app.web.kept_bytes import downloaded_bytes

router = APIRouter(prefix="/receipts", include_in_schema=False)

Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$")]
WORDS = {"outcomes": OUTCOMES, "states": STATES, "grades": GRADES, "causes": CAUSES, "code": code_words}


@router.get("/{sha256}")
def show_receipt(
    sha256: Digest,
    request: Request,
    session: ReadSession,
    login: ImagesVisitor,
    signer: SignerDep,
    at: Annotated[str | None, Query(max_length=2000)] = None,
) -> Response:
    """`at` is a JSON pointer: the place is marked, or what is nearest to it."""
    receipt = receipts.get_receipt(session, sha256=sha256)
    raw = receipts.raw_bytes(session, sha256=sha256)
    facts = stored.facts_of(session, digests=[sha256])[sha256]
    verdicts = current.verdicts_of_receipt(session, sha256=sha256)
    return page(
        request,
        "receipt.html",
        login=login,
        now=login.now,
        receipt=receipt,
        drill=next((case.drill for case in facts.cases if is_drill(case)), None),
        restore=queries_answers.restore_of_receipt(session, sha256=sha256),
        text=raw_text(raw, asked=at),
        groups=fact_groups(facts),
        chart=time_chart(facts.timings),
        phases=PHASES,
        anchor=anchor_of,
        link=partial(raw_link, sha256),
        views=[VerdictView(row=row) for row in verdicts if row.kind == "receipt"],
        cases=[VerdictView(row=row) for row in verdicts if row.kind == "case"],
        scopes=_scopes(session, verdicts),
        declarations=queries_evidence.declarations_of_receipt(session, sha256=sha256),
        words=WORDS,
        proof=proof_of(session, receipt=receipt, signer=signer)
        if login.principal.may(Scope.EVIDENCE_EXPORT)
        else None,
        vkey=signer.verifier.vkey if signer else "",
        may_declare=login.principal.may(Scope.IMAGES_WRITE),
        is_of_profiles=kind_of_schema(receipt.schema_name) is not None
        and login.principal.may(Scope.PROFILES_READ),
    )


def _scopes(session: Session, verdicts: Sequence[VerdictRow]) -> list[VerdictRow]:
    """The verdicts over the scopes a receipt's verdicts are about."""
    scopes = {(row.scope_digest, row.capability) for row in verdicts if row.outcome != Outcome.NONE}
    keys = [str(subject_key("scope", of=digest, capability=one)) for digest, one in sorted(scopes)]
    return queries_evidence.current_under(session, keys=keys)


@router.get("/{sha256}/bytes")
def give_bytes(sha256: Digest, session: ReadSession, _login: ImagesVisitor) -> Response:
    """The bytes as they were submitted, to be kept: never shown as a page."""
    return downloaded_bytes(receipts.raw_bytes(session, sha256=sha256), file_name=f"{sha256}.json")
