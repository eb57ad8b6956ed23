"""Root documents as the nodes found them, and the snapshots they form.

A snapshot is named by its context digest and the storage key of its rank 0 identity (store format §6.1):
that pair is equal on all ranks while the storage keys differ.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from app.core.digest import Digest, sha256
from app.core.errors import IntegrityError
from app.core.store.entry import Entry
from app.core.store.manifest import FlatSnapshotManifest, LegacyManifest, PageRoot
from app.core.store.page_streams import parse_page_root
from app.db.session import database_time
from app.errors import Conflict, NotFound, Refused
from app.ledger import service as ledger
from app.manifests import repository
from app.manifests.repository.whereabouts import RankPlace as RankPlace
from app.manifests.repository.whereabouts import rank_places
from app.models import ManifestLocation, RootDocument, SnapshotRow
from app.nodes import service as nodes
from app.web.paging import Cursor, Total


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One root document as a node's inventory scan found it."""

    root_path: str
    storage_key: str
    context_digest: str
    root_document_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The ranks of one snapshot and where each of them is now."""

    context_digest: str
    rank_zero_storage_key: str
    rank_count: int
    span_tokens: int
    encoded_bytes: int
    object_count: int
    places: dict[int, tuple[ManifestLocation, ...]]
    away: frozenset[str]

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks that no node which is alive holds."""
        return tuple(rank for rank in range(self.rank_count) if not self.usable(rank))

    def usable(self, rank: int) -> tuple[ManifestLocation, ...]:
        """The places of a rank on nodes that are alive."""
        return tuple(place for place in self.places.get(rank, ()) if place.node.name not in self.away)


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """A snapshot as plain rows: the places of its ranks now."""

    first: RankPlace
    places: Mapping[int, Sequence[RankPlace]]

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks that no node which is alive holds."""
        ranks = range(self.first.rank_count)
        return tuple(rank for rank in ranks if all(one.is_away for one in self.places.get(rank, ())))


def record_document(
    session: Session, *, raw: bytes, expected_sha256: str, context_digest: str, by: str
) -> bool:
    """Keep the bytes of a root document with an index over them; True if they are new.

    Raises:
        FormatError, IncompatibleError: it is no root document of pages.
        IntegrityError: its bytes have another digest than said.
    """
    found = sha256(raw)
    if found != expected_sha256:
        raise IntegrityError("root document", expected=f"SHA-256 {expected_sha256}", found=found)
    manifest = parse_page_root(raw, context_digest=Digest(context_digest))
    created, snapshot_id = repository.add_document(session, values=_document_values(manifest, raw=raw))
    if created:
        rows: dict[str, list[ledger.RowKey]] = {"root_document": [str(found)]}
        if snapshot_id is not None:
            rows["snapshot"] = [snapshot_id]
        ledger.record(session, kind="root-documents-registered", by=by, rows=rows)
    return created


def _document_values(manifest: PageRoot, *, raw: bytes) -> dict[str, object]:
    identity = manifest.identity
    stated = manifest.snapshot_sha256 if isinstance(manifest, FlatSnapshotManifest) else None
    chunks = manifest.chunks if isinstance(manifest, LegacyManifest) else ()
    objects = list(Entry(document=manifest, chunks=chunks).references)
    return {
        "sha256": str(manifest.sha256),
        "document": raw,
        "kind": str(manifest.kind),
        "stream_sha256": None if stated is None else str(stated),
        "storage_key": str(identity.storage_key),
        "rank_zero_storage_key": str(identity.rank_zero_storage_key),
        "context_digest": str(manifest.context_digest),
        "rank": identity.rank,
        "rank_count": identity.rank_count,
        "span_tokens": manifest.committed_tokens,
        "encoded_bytes": sum(item.byte_count for item in objects),
        "object_count": len(objects),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the control plane still wants from a node about the root documents it sees.

    Attributes:
        missing: documents whose bytes are not here yet; their places are recorded only then.
        unpinned: documents that state a stream digest and nobody has checked completely yet.
    """

    missing: tuple[str, ...]
    unpinned: tuple[str, ...]


def record_inventory(
    session: Session, *, node_name: str, sightings: Sequence[Sighting], problems: Sequence[dict[str, Any]]
) -> Wanted:
    """Record where a node's scan found which root documents; what it no longer found is gone."""
    node = nodes.get_node(session, name=node_name)
    now = database_time(session)
    known = repository.document_names(session, digests={one.root_document_sha256 for one in sightings})
    for one in sightings:
        names = known.get(one.root_document_sha256)
        if names is not None:
            _check_names(one, names=names)
            _place(session, node_id=node.id, sighting=one, now=now)
    repository.mark_gone(session, node_id=node.id, seen_at=now)
    node.scan_problems = list(problems)
    node.scanned_at = now
    node.last_seen_at = now
    return Wanted(
        missing=tuple(sorted({one.root_document_sha256 for one in sightings} - known.keys())),
        unpinned=tuple(sorted(repository.unpinned_documents(session, digests=known.keys()))),
    )


def pin_document(
    session: Session, *, sha256: str, stream_sha256: str, node_name: str, root_path: str, by: str
) -> bool:
    """Keep that a node has checked everything a root document names; True if nobody had before.

    Raises:
        NotFound: the document is not known.
        Refused: the stream that was found is not the one the document names.
    """
    document = get_document(session, sha256=sha256)
    if document.stream_sha256 != stream_sha256:
        raise Refused(
            f"root document {sha256}: expected stream {document.stream_sha256}, found {stream_sha256}"
        )
    values: dict[str, object] = {
        "root_document_sha256": sha256,
        "stream_sha256": stream_sha256,
        "node_name": node_name,
        "root_path": root_path,
    }
    created = repository.add_pin(session, values=values)
    if created:
        ledger.record(session, kind="root-documents-pinned", by=by, rows={"manifest_pin": [sha256]})
    return created


def _check_names(sighting: Sighting, *, names: tuple[str, str]) -> None:
    found = (sighting.storage_key, sighting.context_digest)
    if found != names:
        raise Refused(
            f"root document {sighting.root_document_sha256} in {sighting.root_path}: expected under "
            f"{'/'.join(names)}, found under {'/'.join(found)}"
        )


def _place(session: Session, *, node_id: UUID, sighting: Sighting, now: datetime) -> None:
    values: dict[str, object] = {
        "node_id": node_id,
        "root_path": sighting.root_path,
        "storage_key": sighting.storage_key,
        "context_digest": sighting.context_digest,
        "root_document_sha256": sighting.root_document_sha256,
    }
    repository.upsert_location(session, values=values, now=now)


def get_document(session: Session, *, sha256: str) -> RootDocument:
    """A root document by digest.

    Raises:
        NotFound: none has it.
    """
    row = repository.get_document(session, sha256=sha256)
    if row is None:
        raise NotFound(f"root document {sha256}: not known")
    return row


def list_documents(
    session: Session, *, context_digest: str | None, after: Cursor | None, limit: int
) -> list[RootDocument]:
    """Root documents, newest first, of one context digest or of all."""
    return repository.list_documents(session, context_digest=context_digest, after=after, limit=limit)


def count_documents(session: Session, *, context_digest: str | None) -> Total:
    """How many root documents there are, of one context digest or of all, counted up to a bound."""
    return repository.count_documents(session, context_digest=context_digest)


def places_of(session: Session, *, sha256: str) -> list[ManifestLocation]:
    """Where a root document is now."""
    return repository.places_of(session, sha256=sha256)


def parsed(row: RootDocument) -> PageRoot:
    """The core's value of a stored root document."""
    return parse_page_root(row.document, context_digest=Digest(row.context_digest))


def get_snapshot(
    session: Session, *, context_digest: str, rank_zero_storage_key: str | None, silence_s: float
) -> Snapshot:
    """The one snapshot with this context digest.

    Raises:
        NotFound: no node holds any rank of it.
        Conflict: several identities share the digest and none was chosen.
    """
    found = repository.locations(
        session, context_digest=context_digest, rank_zero_storage_key=rank_zero_storage_key
    )
    places = [place for place, _ in found]
    require_one_identity(context_digest, keys={place.root_document.rank_zero_storage_key for place in places})
    return snapshot_of(places, now=found[0][1], silence_s=silence_s)


def require_one_identity(context_digest: str, *, keys: Collection[str]) -> None:
    """Return if the places of a snapshot are of one identity.

    Args:
        keys: the storage keys of rank 0 that were found.

    Raises:
        NotFound: there are none.
        Conflict: several identities share the digest and none was chosen.
    """
    if not keys:
        raise NotFound(f"snapshot {context_digest}: no node holds a rank of it")
    if len(keys) > 1:
        raise Conflict(
            f"snapshot {context_digest}: expected one identity, found {len(keys)}; say which "
            f"rank_zero_storage_key: {', '.join(sorted(keys))}",
            code="snapshot-ambiguous",
        )


def list_snapshots(session: Session, *, after: Cursor | None, limit: int) -> list[SnapshotRow]:
    """Snapshots of which at least one rank is somewhere now, newest first."""
    return repository.snapshots(session, after=after, limit=limit)


def count_snapshots(session: Session) -> Total:
    """How many snapshots are somewhere now, counted up to a bound."""
    return repository.count_snapshots(session)


def whereabouts(session: Session, *, rows: Sequence[SnapshotRow], silence_s: float) -> list[Whereabouts]:
    """Listed snapshots with the places of their ranks, in the order of the list."""
    found: dict[UUID, dict[int, list[RankPlace]]] = defaultdict(lambda: defaultdict(list))
    for place in rank_places(session, snapshot_ids=[row.id for row in rows], silence_s=silence_s):
        found[place.snapshot_id][place.rank].append(place)
    return [
        Whereabouts(first=next(iter(ranks.values()))[0], places=ranks)
        for row in rows
        if (ranks := found.get(row.id))
    ]


def whereabouts_of(
    session: Session, *, context_digest: str, rank_zero_storage_key: str | None, silence_s: float
) -> Whereabouts:
    """The one snapshot with this context digest, and where its ranks are.

    Raises: as `get_snapshot`.
    """
    rows = repository.snapshots_of(
        session, context_digest=context_digest, rank_zero_storage_key=rank_zero_storage_key
    )
    require_one_identity(context_digest, keys={row.rank_zero_storage_key for row in rows})
    return whereabouts(session, rows=rows, silence_s=silence_s)[0]


def snapshot_of(places: Sequence[ManifestLocation], *, now: datetime, silence_s: float) -> Snapshot:
    """A snapshot by all its places, at least one; those that are gone hold no rank.

    Args:
        silence_s: a node that was silent for so many seconds is away.
    """
    by_rank: dict[int, list[ManifestLocation]] = defaultdict(list)
    for place in places:
        if place.gone_at is None:
            by_rank[place.root_document.rank].append(place)
    first = places[0].root_document
    return Snapshot(
        context_digest=first.context_digest,
        rank_zero_storage_key=first.rank_zero_storage_key,
        rank_count=first.rank_count,
        span_tokens=first.span_tokens,
        encoded_bytes=first.encoded_bytes,
        object_count=first.object_count,
        places={rank: tuple(found) for rank, found in by_rank.items()},
        away=frozenset(
            place.node.name for place in places if nodes.is_away(place.node, now=now, silence_s=silence_s)
        ),
    )
