"""SQL of the log: its end, its leaves, its nodes, its checkpoints."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import BigInteger, Executable, Integer, case, func, literal, select, text, tuple_
from sqlalchemy.dialects.postgresql import insert as insert_or_leave
from sqlalchemy.orm import Session

from app.core.ledger.merkle import Node
from app.db.together import Question, ask_together, look_up_by_keys, send_with_next
from app.ledger.repository.rows import microseconds
from app.models import LedgerCheckpoint, LedgerLeaf, LedgerNode

_LOCK: Final = 0x53504C47
_STREAMED: Final = 200
_HIGHEST: Final = 61
# So many leaves after the time of a row are looked through before many more are.
_NEAR: Final = 64
_SIZE: Final = text("SELECT coalesce(max(index) + 1, 0) FROM ledger_leaf")
_MENTIONING: Final = text(
    "SELECT index, document FROM ledger_leaf WHERE index >= :start AND index < :stop "
    "AND position(CAST(:text AS bytea) IN document) > 0 ORDER BY index"
)
_BISECTED: Final = text(
    "WITH RECURSIVE part (low, high) AS (SELECT CAST(0 AS bigint), CAST(:size AS bigint) UNION ALL "
    "SELECT CASE WHEN leaf.created_at < :at THEN leaf.index + 1 ELSE low END, "
    "CASE WHEN leaf.created_at < :at THEN high ELSE leaf.index END "
    "FROM part JOIN ledger_leaf AS leaf ON leaf.index = (low + high) / 2 WHERE low < high"
    ") SELECT low, high FROM part ORDER BY high - low LIMIT 1"
)

_WAIT: Final = Question(sql=f"SELECT pg_advisory_xact_lock({_LOCK})")
# The newest leaf, and the nodes of the right edge above it: one look-up by primary key each.
_EDGE: Final = Question(
    sql="""
    WITH newest AS (SELECT index, leaf_hash FROM ledger_leaf ORDER BY index DESC LIMIT 1),
         head AS (SELECT coalesce((SELECT index + 1 FROM newest), 0) AS size)
    SELECT clock_timestamp() AS now, head.size, 0 AS level, newest.leaf_hash AS hash
      FROM head LEFT JOIN newest ON true
    UNION ALL
    SELECT NULL, head.size, level, node.hash
      FROM head, generate_series(1, 62) AS level, LATERAL (
        SELECT hash FROM ledger_node
         WHERE ledger_node.level = level.level AND position = (head.size >> level.level) - 1 LIMIT 1
      ) AS node
     WHERE (head.size >> level.level) & 1 = 1
    """
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """The end of the log: database time, the number of leaves, the hashes of the right edge by level."""

    now: datetime
    size: int
    hashes: Mapping[int, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLeaf:
    """A leaf about to be written."""

    index: int
    kind: str
    document: bytes
    leaf_hash: bytes
    created_at: datetime


def ask_and_lock(session: Session, *questions: Question) -> tuple[list[list[Any]], Edge]:
    """The rows of these questions, and the end of the log once no other transaction appends.

    The lock is held until this transaction ends; it is always the last one taken. One trip: everybody who
    wants to append waits for it.
    """
    look_up_by_keys(session)
    *answers, _, rows = ask_together(session, *questions, _WAIT, _EDGE)
    hashes = {row.level: bytes.fromhex(row.hash) for row in rows if row.hash is not None}
    return answers, Edge(now=rows[0].now, size=rows[0].size, hashes=hashes)


# Leaves and the subtrees they complete in one statement: everybody waits until it is done.
_ADD: Final = """
    WITH leaves AS (
      INSERT INTO ledger_leaf (index, kind, document, leaf_hash, created_at)
      SELECT * FROM unnest(CAST(%(indexes)s AS bigint[]), CAST(%(kinds)s AS text[]),
                           CAST(%(documents)b AS bytea[]), CAST(%(leaf_hashes)s AS text[]),
                           CAST(%(instants)s AS timestamptz[]))
    )
    INSERT INTO ledger_node (level, position, hash)
    SELECT * FROM unnest(CAST(%(levels)s AS bigint[]), CAST(%(positions)s AS bigint[]),
                         CAST(%(hashes)s AS text[]))
"""


def add(session: Session, *, leaves: Sequence[NewLeaf], nodes: Sequence[tuple[Node, bytes]]) -> None:
    """Write leaves and the subtrees they complete, in the trip that commits."""
    given: dict[str, Any] = {
        "indexes": [leaf.index for leaf in leaves],
        "kinds": [leaf.kind for leaf in leaves],
        "documents": [leaf.document for leaf in leaves],
        "leaf_hashes": [leaf.leaf_hash.hex() for leaf in leaves],
        "instants": [leaf.created_at for leaf in leaves],
        "levels": [node.level for node, _ in nodes],
        "positions": [node.position for node, _ in nodes],
        "hashes": [hashed.hex() for _, hashed in nodes],
    }
    send_with_next(session, Question(sql=_ADD, given=given))


def size(session: Session) -> int:
    """The number of leaves."""
    return int(session.execute(_SIZE).scalar_one())


def hashes(session: Session, *, nodes: Sequence[Node]) -> dict[Node, bytes]:
    """The hashes of these complete subtrees, single leaves included, in one question.

    One that somebody made unreadable is left out.
    """
    found = {node: bytes_of(hashed) for node, hashed in texts(session, nodes=nodes).items()}
    return {node: hashed for node, hashed in found.items() if isinstance(hashed, bytes)}


def texts(session: Session, *, nodes: Sequence[Node]) -> dict[Node, str]:
    """The same as they are stored."""
    leaves = [node.position for node in nodes if node.level == 0]
    above = [(node.level, node.position) for node in nodes if node.level > 0]
    of_leaves = select(literal(0).label("level"), LedgerLeaf.index, LedgerLeaf.leaf_hash).where(
        LedgerLeaf.index.in_(leaves)
    )
    row = LedgerNode
    of_nodes = select(row.level, row.position, row.hash).where(tuple_(row.level, row.position).in_(above))
    found = session.execute(of_leaves.union_all(of_nodes))
    return {Node(level, position): hashed for level, position, hashed in found}


def entries(session: Session, *, start: int, limit: int) -> list[LedgerLeaf]:
    query = select(LedgerLeaf).where(LedgerLeaf.index >= start).order_by(LedgerLeaf.index).limit(limit)
    return list(session.scalars(query))


def entry(session: Session, *, index: int) -> LedgerLeaf | None:
    return session.get(LedgerLeaf, index)


def bisected(session: Session, *, at: datetime, size: int) -> tuple[int, int]:
    """The first of the log's first `size` leaves that is written at `at` or later, by halves: where they end,
    low and high; both are the same unless the leaf between them is not there."""
    found = session.execute(_BISECTED, {"at": at, "size": size}).one()
    return found.low, found.high


def mentioning(session: Session, *, text: str, start: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Index and bytes of the leaves from `start` up to `size` that hold a text, in their order, in bounded
    memory.

    Near ones are looked for first: what a row is kept by stands mostly there, and none need read the rest.
    """
    most = _NEAR
    while start < size:
        given = {"text": text.encode(), "start": start, "stop": min(start + most, size)}
        yield from _streamed(session, _MENTIONING, given)
        start, most = start + most, most * _NEAR


def checkpoint(session: Session, *, size: int) -> LedgerCheckpoint | None:
    return session.get(LedgerCheckpoint, size)


def latest_checkpoint(session: Session) -> LedgerCheckpoint | None:
    query = select(LedgerCheckpoint).order_by(LedgerCheckpoint.size.desc()).limit(1)
    return session.scalars(query).one_or_none()


def neighbours(session: Session, *, size: int) -> list[LedgerCheckpoint]:
    """The stored checkpoints next to this size: the largest below it, the smallest above it."""
    row = LedgerCheckpoint
    below = select(row).where(row.size < size).order_by(row.size.desc()).limit(1)
    above = select(row).where(row.size > size).order_by(row.size).limit(1)
    return [*session.scalars(below), *session.scalars(above)]


def add_checkpoint(session: Session, *, size: int, root: bytes, note: bytes) -> None:
    """Keep a checkpoint; two requests that sign the same size sign the same bytes."""
    values = {"size": size, "root": root.hex(), "note": note}
    session.execute(insert_or_leave(LedgerCheckpoint).values(**values).on_conflict_do_nothing())


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLeaf:
    """A leaf as it stands in the table, whatever somebody wrote there; `created_us` since 1970, as a text."""

    index: int
    kind: str
    document: bytes
    leaf_hash: str
    created_us: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCheckpoint:
    """A checkpoint as it stands in the table."""

    size: int
    root: str
    note: bytes


def stream_leaves(session: Session) -> Iterator[StoredLeaf]:
    """Every leaf by index, in bounded memory."""
    row = LedgerLeaf
    at = microseconds(row.__table__.c.created_at)
    query = select(row.index, row.kind, row.document, row.leaf_hash, at).order_by(row.index)
    for index, kind, document, hashed, created_us in _streamed(session, query):
        yield StoredLeaf(index=index, kind=kind, document=document, leaf_hash=hashed, created_us=created_us)


def stream_first(session: Session, *, size: int) -> Iterator[tuple[int, bytes]]:
    """Index and bytes of the first `size` leaves, in bounded memory."""
    query = select(LedgerLeaf.index, LedgerLeaf.document).where(LedgerLeaf.index < size)
    yield from _streamed(session, query.order_by(LedgerLeaf.index))


def stream_nodes(session: Session) -> Generator[tuple[Node, str], None, None]:
    """Every stored node in the order in which a growing tree completes them; impossible ones last."""
    position = LedgerNode.position
    level = func.least(func.greatest(LedgerNode.level, 0), _HIGHEST).cast(Integer)
    largest = literal(2**_HIGHEST, BigInteger).op(">>")(level)
    fits = LedgerNode.level.between(1, _HIGHEST) & position.between(0, largest - 1)
    end = case((fits, (position + 1).op("<<")(level)), else_=literal(2**63 - 1, BigInteger))
    query = select(LedgerNode.level, position, LedgerNode.hash).order_by(end, LedgerNode.level, position)
    for found_level, found_position, hashed in _streamed(session, query):
        yield Node(found_level, found_position), hashed


def stream_checkpoints(session: Session) -> Generator[StoredCheckpoint, None, None]:
    """Every stored checkpoint by size, in bounded memory."""
    row = LedgerCheckpoint
    query = select(row.size, row.root, row.note).order_by(row.size)
    for found, root, note in _streamed(session, query):
        yield StoredCheckpoint(size=found, root=root, note=note)


def _streamed(
    session: Session, query: Executable, given: Mapping[str, Any] | None = None
) -> Generator[Any, None, None]:
    """Rows from a cursor of the server's, which is closed with the iterator."""
    with session.execute(query.execution_options(yield_per=_STREAMED), given) as rows:
        yield from rows


def bytes_of(hashed: str) -> bytes | str:
    """A stored hash as bytes, or the text itself where somebody wrote something else."""
    try:
        return bytes.fromhex(hashed)
    except ValueError:
        return hashed
