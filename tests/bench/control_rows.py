"""A database with a history: restores, attempts, reports, events, snapshots, images, sources, ledger leaves.

Filled by the server itself (INSERT … SELECT generate_series), in the mix of states a long life leaves behind:
nearly all restores are over, most of them restored, a few still hold pages, run or wait. Dates lie in the
past, so that what is measured meanwhile is newer.
"""

from typing import Final

from sqlalchemy import Engine, text

_HEX: Final = "encode(sha256(('{kind}' || n)::bytea), 'hex')"
_AT: Final = "timestamptz '2026-01-01' + n * interval '10 seconds'"
# Of a thousand restores: 900 restored, 60 incomplete, 30 corrupt, 10 failed; of a million some 300 are open.
_OUTCOME: Final = (
    "CASE WHEN mod(n, 1000) < 900 THEN 'restored' WHEN mod(n, 1000) < 960 THEN 'incomplete'"
    " WHEN mod(n, 1000) < 990 THEN 'corrupt' ELSE 'failed' END"
)
_STATE: Final = (
    "CASE WHEN mod(n, 10007) = 1 THEN 'waiting' WHEN mod(n, 10007) = 2 THEN 'running'"
    " WHEN mod(n, 10007) = 3 THEN 'resident' ELSE 'finished' END"
)
# Every other restore is asked. Nearly all wrong answers are those of drills: of a million restores 4,000 are
# drills, 20 of which answer right, and 20 that are none answer wrong.
_IS_ASKED: Final = "mod(n, 2) = 0"
_IS_DRILL: Final = "mod(n, 1000) IN (990, 992, 994, 996)"
_SEMANTIC: Final = (
    f"CASE WHEN NOT {_IS_ASKED} THEN 'not asked' WHEN {{outcome}} IS NULL THEN NULL"
    " WHEN {outcome} = 'restored' OR mod(n, 50000) = 990 THEN 'right'"
    f" WHEN {_IS_DRILL} OR mod(n, 50000) = 998 THEN 'wrong' ELSE 'unanswered' END"
)
_IS_OPEN: Final = "mod(n, 10007) IN (1, 2)"


def _hex(kind: str) -> str:
    return _HEX.format(kind=kind)


_SPREAD: Final = (
    "INSERT INTO layout (sha256, document, group_count, layer_count, created_by)"
    " VALUES (repeat('a', 64), '{}', 1, 1, 'bench') ON CONFLICT DO NOTHING",
    "INSERT INTO node (id, name, last_seen_at) VALUES (md5('old')::uuid, 'old', '2026-01-01')"
    " ON CONFLICT DO NOTHING",
    "INSERT INTO oracle_question (sha256, document, context_digest, layout_sha256, rank_count, span_tokens,"
    " expected, created_by) VALUES (repeat('c', 64), '{}', repeat('d', 64), repeat('a', 64), 1, 1, 'red',"
    " 'bench') ON CONFLICT DO NOTHING",
    "INSERT INTO device (id, node_id, name, kind, queue, pool_bytes)"
    " VALUES (md5('old')::uuid, md5('old')::uuid, 'old', 'host', 'gpu.old.old', 1) ON CONFLICT DO NOTHING",
)


def _statements(rows: int) -> list[str]:
    """Snapshots have four ranks, so a quarter as many; a restore has one attempt, report and two events."""
    series = f"generate_series(1, {rows}) AS n"
    quarter = f"generate_series(1, {rows // 4}) AS n"
    outcome = f"CASE WHEN {_IS_OPEN} THEN NULL WHEN mod(n, 10007) = 3 THEN 'restored' ELSE {_OUTCOME} END"
    return [
        *_SPREAD,
        "INSERT INTO root_document (sha256, document, kind, storage_key, rank_zero_storage_key,"
        " context_digest, rank, rank_count, span_tokens, encoded_bytes, object_count, created_at)"
        f" SELECT encode(sha256(('doc' || n || '/' || r)::bytea), 'hex'), '{{}}', 'page_snapshot',"
        f" encode(sha256(('key' || n || '/' || r)::bytea), 'hex'), {_hex('zero')}, {_hex('context')},"
        f" r, 4, 1024, 65536, 4, {_AT} FROM {quarter}, generate_series(0, 3) AS r",
        "INSERT INTO snapshot (id, context_digest, rank_zero_storage_key, created_at)"
        f" SELECT md5('snapshot' || n)::uuid, {_hex('context')}, {_hex('zero')}, {_AT} FROM {quarter}",
        "INSERT INTO manifest_location (id, node_id, root_path, storage_key, context_digest,"
        " root_document_sha256, last_seen_at, gone_at)"
        " SELECT gen_random_uuid(), md5('old')::uuid, '/srv/rank' || rank, storage_key, context_digest,"
        " sha256, created_at, CASE WHEN sha256 < '2' THEN created_at END FROM root_document"
        " WHERE created_at < '2026-11-01'",
        "INSERT INTO restore (id, created_at, created_by, context_digest, rank_zero_storage_key,"
        " layout_sha256, rank_count, span_tokens, resident_s, state, outcome, semantic, question_sha256,"
        " fault_name, fault_rank, problem, resident_until)"
        f" SELECT md5('restore' || n)::uuid, {_AT}, 'bench', {_hex('context')}, {_hex('zero')},"
        f" repeat('a', 64), 1, 1024, 600, {_STATE}, {outcome}, {_SEMANTIC.format(outcome=f'({outcome})')},"
        f" CASE WHEN {_IS_ASKED} THEN repeat('c', 64) END,"
        f" CASE WHEN {_IS_DRILL} THEN 'swap-pages' END, CASE WHEN {_IS_DRILL} THEN 0 END,"
        " CASE WHEN mod(n, 1000) >= 900"
        " THEN jsonb_build_object('code', 'rank-lost', 'detail', 'rank 0 was lost')"
        f" END, timestamptz '2030-01-01' FROM {series}",
        "INSERT INTO rank_attempt (id, restore_id, rank, device_id, root_document_sha256, root_path,"
        " pages_bytes, created_at, state, outcome, ended_at, pages_released_at)"
        f" SELECT md5('attempt' || n)::uuid, md5('restore' || n)::uuid, 0, md5('old')::uuid,"
        f" encode(sha256(('doc' || mod(n - 1, {rows // 4}) + 1 || '/0')::bytea), 'hex'), '/srv/rank0', 65536,"
        f" {_AT}, CASE WHEN {_IS_OPEN} THEN 'waiting' ELSE 'reported' END,"
        f" CASE WHEN {_IS_OPEN} THEN NULL ELSE 'restored' END,"
        f" CASE WHEN {_IS_OPEN} THEN NULL ELSE {_AT} END, {_AT} FROM {series}",
        "INSERT INTO rank_report (attempt_id, document, sha256, service_start_ns, claim_round_trip_ns,"
        f" pool_commit_ns) SELECT md5('attempt' || n)::uuid, '{{}}', {_hex('report')}, 1, 1, 1 FROM {series}"
        f" WHERE NOT {_IS_OPEN}",
        "INSERT INTO restore_event (restore_id, at, kind, detail)"
        f" SELECT md5('restore' || n)::uuid, {_AT}, kind, 'of the bench' FROM {series},"
        " (VALUES ('requested'), ('restored')) AS kinds (kind)",
        "INSERT INTO source_identity (id, repository, commit, source_sha256, created_at, created_by)"
        f" SELECT md5('source' || n)::uuid, 'example/cache', left({_hex('commit')}, 40), {_hex('source')},"
        f" {_AT}, 'bench' FROM {series}",
        "INSERT INTO image (id, config_id, title, origin, source_id, created_at, created_by)"
        f" SELECT md5('image' || n)::uuid, {_hex('config')}, 'image ' || n, 'registered',"
        f" md5('source' || n)::uuid, {_AT}, 'bench' FROM {series}",
        "INSERT INTO ledger_leaf (index, kind, document, leaf_hash, created_at)"
        f" SELECT n + (SELECT coalesce(max(index), -1) FROM ledger_leaf), 'bench', '{{}}', {_hex('leaf')},"
        f" {_AT} FROM {series}",
    ]


def fill(engine: Engine, *, rows: int, checked: bool = True) -> None:
    """`rows` restores, images, sources, root documents and places, reports; twice as many events.

    Args:
        checked: False, as a superuser only: the rows fit together, so foreign keys need not be looked up.
    """
    with engine.begin() as connection:
        if not checked:
            connection.execute(text("SET LOCAL session_replication_role = replica"))
        connection.execute(text("SET LOCAL synchronous_commit = off"))
        for statement in _statements(rows):
            connection.exec_driver_sql(statement)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM ANALYZE")
