"""May an image be used for this in operation: deployable for exactly this scope, or allowed by a person.

The scope is what a restore knows of itself before it runs: model, topology and schemas of its snapshot.
Nothing transfers: an axis that a verdict does not name equals no named one.
"""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy.orm import Session

from app.core.canonical_json import decode_strict, encode_canonical
from app.core.digest import Digest, sha256
from app.db.session import database_time
from app.errors import Conflict, FieldProblem, NotFound, Refused
from app.ledger import service as ledger
from app.manifests import service as manifests
from app.models import OperationalException, OperationalExceptionEnd, RootDocument, VerdictRow
from app.verdicts import repository
from app.verdicts.repository import exceptions
from app.web.paging import Cursor, Total

LONGEST_EXCEPTION: Final = timedelta(days=30)
_OMITTED: Final = "snapshot-v1"
"""The publication schema that an identity leaves out (store-format §5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotScope:
    """What is restored: checkpoints as the cache identity has them, and the two schemas in effect."""

    target: str
    draft: str
    tp: int
    dcp: int
    publication_schema: str
    manifest_schema: str

    def digest(self) -> Digest:
        """The name of the scope."""
        return sha256(encode_canonical(asdict(self)))

    def __str__(self) -> str:
        return (
            f"TP{self.tp}/DCP{self.dcp}, {self.publication_schema}, {self.manifest_schema}, "
            f"target {self.target[:12]}, draft {self.draft[:12]}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What allows an operational restore: a verdict or an exception."""

    verdict_id: UUID | None = None
    exception_id: UUID | None = None


def scope_of_snapshot(document: RootDocument) -> SnapshotScope:
    """The scope of a snapshot, by one of its root documents."""
    identity = manifests.parsed(document).identity
    value = decode_strict(document.document, subject=f"root document {document.sha256[:12]}")
    schema = value.get("schema") if isinstance(value, dict) else None
    return SnapshotScope(
        target=str(identity.target_checkpoint),
        draft=str(identity.draft_checkpoint),
        tp=identity.tp_degree,
        dcp=identity.dcp_degree,
        publication_schema=identity.publication_schema.value if identity.publication_schema else _OMITTED,
        manifest_schema=schema if isinstance(schema, str) else "legacy",
    )


def allowance(session: Session, *, image_config_id: str, scope: SnapshotScope) -> Allowance:
    """What allows operational restores of this scope by this image now.

    Raises:
        Conflict: nothing does; what stands against it is said.
    """
    found = repository.deployable_scopes(
        session, image_config_id=image_config_id, tp=str(scope.tp), dcp=str(scope.dcp)
    )
    for row in found:
        if not _differences(row, scope):
            return Allowance(verdict_id=row.id)
    exception = exceptions.open_exception(
        session,
        image_config_id=image_config_id,
        scope_digest=scope.digest(),
        now=database_time(session),
    )
    if exception is not None:
        return Allowance(exception_id=exception.id)
    raise Conflict(
        f"image {image_config_id}: expected deployable for exactly {scope}, or an exception that has not "
        f"expired, found {_instead(session, found, image_config_id=image_config_id, scope=scope)}",
        code="image-not-deployable",
    )


def grant_exception(
    session: Session,
    *,
    image_config_id: str,
    scope: SnapshotScope,
    reason: str,
    expires_at: datetime,
    by: str,
) -> OperationalException:
    """Allow operational restores of an image that is not deployable, until a time.

    Raises:
        Refused: the time is over, or more than 30 days ahead.
    """
    now = database_time(session)
    if not now < expires_at <= now + LONGEST_EXCEPTION:
        detail = f"expires_at: expected within {LONGEST_EXCEPTION.days} days from now, found {expires_at}"
        raise Refused(detail, errors=(FieldProblem(pointer="/expires_at", detail=detail),))
    row = OperationalException(
        image_config_id=image_config_id,
        scope_digest=scope.digest(),
        scope=asdict(scope),
        reason=reason,
        expires_at=expires_at,
        created_at=now,
        created_by=by,
    )
    exceptions.add_exception(session, exception=row)
    ledger.record(
        session,
        kind="exception-granted",
        by=by,
        rows={"operational_exception": [row]},
        facts={"image": image_config_id},
    )
    return row


def end_exception(session: Session, *, exception_id: UUID, reason: str, by: str) -> OperationalException:
    """End an exception before its time. Restores it has allowed already go on; the next is refused.

    Raises:
        NotFound: none has this id.
        Conflict: it is over already.
    """
    row = get_exception(session, exception_id=exception_id)
    now = database_time(session)
    if row.expires_at <= now:
        raise _is_over(row, f"expired at {row.expires_at:%Y-%m-%dT%H:%M:%SZ}")
    end = OperationalExceptionEnd(exception_id=row.id, reason=reason, created_at=now, created_by=by)
    is_first = row.end is None and exceptions.add_exception_end(session, end=end)
    row = get_exception(session, exception_id=exception_id)
    if not is_first and row.end is not None:
        raise _is_over(row, f"ended by {row.end.created_by} at {row.end.created_at:%Y-%m-%dT%H:%M:%SZ}")
    ledger.record(
        session,
        kind="exception-ended",
        by=by,
        rows={"operational_exception_end": [row.id]},
        facts={"image": row.image_config_id, "exception": str(row.id)},
    )
    return row


def _is_over(row: OperationalException, how: str) -> Conflict:
    return Conflict(f"exception {row.id}: expected one that still holds, found one that {how}")


def get_exception(session: Session, *, exception_id: UUID) -> OperationalException:
    """An exception, expired or not.

    Raises:
        NotFound: none has this id.
    """
    row = exceptions.get_exception(session, exception_id=exception_id)
    if row is None:
        raise NotFound(f"exception {exception_id}: not found")
    return row


def list_exceptions(session: Session, *, after: Cursor | None, limit: int) -> list[OperationalException]:
    """Exceptions, newest first, expired ones too."""
    return exceptions.list_exceptions(session, after=after, limit=limit)


def count_exceptions(session: Session) -> Total:
    """How many there are, counted up to a bound."""
    return exceptions.count_exceptions(session)


def _differences(row: VerdictRow, scope: SnapshotScope) -> list[str]:
    """Axes in which a verdict is about something else than a snapshot."""
    equal = {
        "target": scope.target in row.target.split(),
        "draft": scope.draft in row.draft.split(),
        "tp": row.tp == str(scope.tp),
        "dcp": row.dcp == str(scope.dcp),
        "publication_schema": row.publication_schema == scope.publication_schema,
        "manifest_schema": row.manifest_schema == scope.manifest_schema,
    }
    return [axis for axis, same in equal.items() if not same]


def _instead(
    session: Session, deployable: list[VerdictRow], *, image_config_id: str, scope: SnapshotScope
) -> str:
    if deployable:
        axes = ", ".join(_differences(deployable[0], scope))
        return f"deployable for another {axes} only (verdict {deployable[0].id})"
    every = repository.scopes_of_image(session, image_config_id=image_config_id, limit=200)
    restores = [row for row in every if row.capability == "restore"]
    if not restores:
        return "no restore evidence about this image"
    nearest = min(restores, key=lambda row: (len(_differences(row, scope)), str(row.id)))
    return f"{nearest.outcome}, {nearest.deployable_reason or 'another scope'} (verdict {nearest.id})"
