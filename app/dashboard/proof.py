"""The proof of one receipt, for its page and to be taken away."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Path, Response
from sqlalchemy.orm import Session

from app.core.ledger.checkpoint import NoteSigner
from app.dashboard.access import LedgerVisitor
from app.errors import AppError
from app.ledger.api import TEXT, SignerDep
from app.ledger.service import proofs
from app.models import ReceiptRow
from app.receipts import service as receipts
from app.receipts.service import reading
from app.web.deps import WriteSession

router = APIRouter(prefix="/receipts", include_in_schema=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofShown:
    """Where a receipt stands in the ledger, and the proof under a checkpoint that was handed out.

    Attributes:
        text: empty where no checkpoint covers it yet: one is signed when the proof is taken away.
        trouble: why there is no proof.
    """

    index: int | None
    text: str = ""
    trouble: str = ""


def proof_of(session: Session, *, receipt: ReceiptRow, signer: NoteSigner | None) -> ProofShown:
    """The proof as far as it can be had without signing anything."""
    try:
        index = reading.leaf_of(session, receipt=receipt)
        latest = proofs.head(session).latest
        if signer is None or latest is None or latest.size <= index:
            return ProofShown(index=index)
        text = proofs.inclusion(session, index=index, size=latest.size, signer=signer)
        return ProofShown(index=index, text=text.decode())
    except AppError as error:
        return ProofShown(index=None, trouble=error.detail)


@router.get("/{sha256}/proof")
def give_proof(
    sha256: Annotated[str, Path(pattern="^[0-9a-f]{64}$")],
    session: WriteSession,
    _login: LedgerVisitor,
    signer: SignerDep,
) -> Response:
    """Under the head of now, which is signed for it if it is new."""
    index = receipts.leaf_of_receipt(session, sha256=sha256)
    text = proofs.inclusion(session, index=index, size=None, signer=signer)
    headers = {
        "Content-Disposition": f'attachment; filename="{sha256}.tlog-proof"',
        "Cache-Control": "private, no-store",
    }
    return Response(text, media_type=TEXT, headers=headers)
