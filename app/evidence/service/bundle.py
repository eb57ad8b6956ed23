"""A bundle written: the log streamed from one snapshot of the database into the core's builder.

One snapshot, so that nothing that comes meanwhile is half in it; server-side cursors, so that memory does not
grow with the log.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from sqlalchemy.orm import Session

from app.core.bundle.build import Built, BundleRequest, BundleSigner, build_bundle
from app.core.bundle.code_archive import verifier_archive
from app.core.bundle.records import EXPORTED, WITH_DOCUMENT, Leaf, RowRecord
from app.core.bundle.request import Selection
from app.core.ledger.checkpoint import NoteSigner, verify_checkpoint
from app.core.ledger.leaf import instant_text
from app.core.signature import sign
from app.evidence.service.order import BundleOrder
from app.ledger.service import proofs
from app.ledger.service.contents import Content, entries_with_rows
from app.receipts import service as receipts

# Views whose rows are proven by the bytes themselves.
_RAW: Final = dict.fromkeys(WITH_DOCUMENT, "document")
# Is told what is counted and how many of it there are by now; may raise to stop.
Progress = Callable[[str, int], None]


def write_bundle(
    session: Session, *, order: BundleOrder, target: Path, signer: NoteSigner, progress: Progress
) -> Built:
    """Write the bundle of an order; the file is there whole or not at all.

    Args:
        session: one snapshot (`Database.reading`).

    Raises:
        OSError: the disk is full, or the folder cannot be written.
        CoreError: a row is not what its leaf says, a checkpoint is not of this log or this key.
        AppError: a checkpoint of the request is not there any more.
    """
    asked = _request(order, signer=signer)
    selection = Selection(asked)
    if selection.limits:
        selection.learn(_rows(session, order=order, views=selection.deciding))
        selection.learn_attempts(_rows(session, order=order, views=selection.attempts))
    checkpoint = proofs.checkpoint(session, size=order.ledger_size, signer=signer)
    verify_checkpoint(checkpoint, verifier=signer.verifier, subject=f"checkpoint of size {order.ledger_size}")
    previous, consistency = _previous(session, order=order, signer=signer)
    return build_bundle(
        target,
        request=asked,
        signer=BundleSigner(
            sign=lambda message: sign(message, seed=signer.seed),
            public=signer.verifier.public,
            ledger_vkey=signer.verifier.vkey,
        ),
        log=_log(session, order=order, selection=selection),
        read_receipts=lambda digests: _bytes_of(session, digests),
        checkpoint=checkpoint,
        previous=previous,
        consistency=consistency,
        verifier=verifier_archive(),
        progress=progress,
    )


def _request(order: BundleOrder, *, signer: NoteSigner) -> BundleRequest:
    is_period = bool(order.period_from or order.period_until)
    return BundleRequest(
        name=signer.name,
        everything=not (is_period or order.image_config_ids or order.topology),
        start=order.first_index,
        size=order.ledger_size,
        period_from=instant_text(order.period_from) if order.period_from else "",
        period_to=instant_text(order.period_until) if order.period_until else "",
        images=tuple(sorted(order.image_config_ids)),
        topology="TP{}/DCP{}".format(*order.topology) if order.topology else "",
    )


def _previous(
    session: Session, *, order: BundleOrder, signer: NoteSigner
) -> tuple[bytes | None, bytes | None]:
    """The checkpoint at the beginning of the range, and the proof that the range goes on from there."""
    if order.first_index == 0:
        return None, None
    previous = proofs.checkpoint(session, size=order.first_index, signer=signer)
    consistency = proofs.consistency(
        session, first=order.first_index, second=order.ledger_size, signer=signer
    )
    return previous, consistency


def _rows(session: Session, *, order: BundleOrder, views: Collection[str]) -> Iterator[Content]:
    for entry in entries_with_rows(session, size=order.ledger_size, views=views, raw={}):
        yield from entry.rows


def _log(session: Session, *, order: BundleOrder, selection: Selection) -> Iterator[Leaf]:
    """Every leaf from the first one on: what is judged is judged with its whole past."""
    for entry in entries_with_rows(session, size=order.ledger_size, views=EXPORTED, raw=_RAW):
        rows = tuple(
            RowRecord(
                view=row.view,
                key=row.key,
                columns=row.columns,
                document=row.document,
                selected=selection.takes(entry.index, row),
            )
            for row in entry.rows
        )
        yield Leaf(index=entry.index, document=entry.document, rows=rows)


def _bytes_of(session: Session, digests: Sequence[str]) -> Mapping[str, bytes]:
    return receipts.many_raw_bytes(session, digests=digests)
