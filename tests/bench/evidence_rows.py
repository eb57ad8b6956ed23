"""Receipts, verdicts and the newest of them in any number, by SQL: for plans and figures, not for judging."""

from sqlalchemy import Engine, text

# So many receipts are about one image.
PER_IMAGE = 20

_OUTCOME = (
    "(ARRAY['qualified','rejected','research-only','implemented','incomplete','incomplete','incomplete',"
    "'none','research-only','unsupported'])[1 + {n} % 10]"
)
_STATEMENTS = (
    """
    INSERT INTO receipt (sha256, document, canonical_sha256, byte_count, schema_name, kind, family,
                         capability, image_config_id, release, title, keys, created_at, created_by)
    SELECT encode(sha256(('r' || n)::bytea), 'hex'), convert_to('{"n": ' || n || '}', 'UTF8'),
           encode(sha256(('c' || n)::bytea), 'hex'), 10, 'schema-' || n % 50 || '/v1',
           CASE n % 5 WHEN 0 THEN 'publication-receipt' ELSE 'restore-receipt' END, 'restore', 'restore',
           encode(sha256(('i' || n / :per_image)::bytea), 'hex'), NULL, 'receipt ' || n,
           ARRAY['image:sha256:' || encode(sha256(('i' || n / :per_image)::bytea), 'hex'),
                 'release:r' || n / 1000, 'artifact:schema-' || n % 50],
           timestamptz '2026-01-01' + n * interval '1 second', 'bench'
      FROM generate_series(1, :rows) AS n
    """,
    """
    INSERT INTO receipt_origin (id, receipt_sha256, repository, path, commit, keys, created_at, created_by)
    SELECT gen_random_uuid(), encode(sha256(('r' || n)::bytea), 'hex'), 'r', 'p' || n, '',
           ARRAY['place:r' || chr(10) || 'p' || n],
           timestamptz '2026-01-01' + n * interval '1 second', 'bench'
      FROM generate_series(1, :rows) AS n
    """,
    """
    INSERT INTO verdict (id, kind, subject_key, receipt_sha256, case_name, capability, scope_digest,
                         image_config_id, source, target, draft, tp, dcp, publication_schema,
                         manifest_schema, outcome, decided_row, reason, deployable, deployable_reason,
                         evidence_grade, deployable_grade, codes, finding_codes, gates, document,
                         document_sha256, ruleset,
                         receipts, cause, cause_detail, created_at, created_by)
    SELECT md5('v' || kind || n)::uuid, kind, encode(sha256(('k' || kind || n)::bytea), 'hex'),
           CASE kind WHEN 'receipt' THEN encode(sha256(('r' || n)::bytea), 'hex') END, '', 'restore',
           encode(sha256(('s' || n / :per_image)::bytea), 'hex'),
           encode(sha256(('i' || n / :per_image)::bytea), 'hex'),
           'commit=' || md5((k % 1000)::text) || '01234567', 'model-' || k % 30 || ' rev', '',
           (ARRAY['1','2','4','8'])[1 + n / :per_image % 4], (ARRAY['1','4'])[1 + n / :per_image / 4 % 2],
           'snapshot-v1', 'm/v2', OUTCOME, 5, 'because', k % 10 = 0,
           'GRADE_TOO_LOW', 'attested', 'self-consistent', ARRAY['CODE_' || k % 40], ARRAY['CODE_' || k % 40],
           jsonb_build_object('semantic', jsonb_build_object(
             'state', (ARRAY['failed','demonstrated','not tested'])[1 + k % 3])), '\\x7b7d'::bytea,
           encode(sha256('{}'::bytea), 'hex'), repeat('a', 64), ARRAY[]::text[], 'receipt-imported', '',
           timestamptz '2026-01-01' + n * interval '1 second', 'bench'
      FROM generate_series(1, :rows) AS n, unnest(ARRAY['receipt','scope']) AS kind,
           LATERAL (SELECT CASE kind WHEN 'scope' THEN n / :per_image ELSE n END AS k) AS number
     WHERE kind = 'receipt' OR n % :per_image = 0
    """.replace("OUTCOME", _OUTCOME.format(n="k")),
    """
    INSERT INTO verdict_current (subject_key, verdict_id, document_sha256, created_at, kind, receipt_sha256,
                                 composes, capability, scope_digest, image_config_id, tp, dcp, outcome,
                                 deployable, evidence_grade, deployable_grade, saying, ruleset, terms, words)
    SELECT subject_key, id, document_sha256, created_at, kind, receipt_sha256, kind = 'receipt', capability,
           scope_digest, image_config_id, tp, dcp, outcome, deployable, evidence_grade, deployable_grade,
           CASE kind WHEN 'receipt' THEN md5(outcome) ELSE '' END, ruleset,
           ARRAY['capability:restore',
                 'code:' || codes[1], 'model:' || target, 'commit:' || substr(source, 8),
                 'model:' || split_part(target, ' ', 1), 'gate:semantic=' || (gates->'semantic'->>'state')],
           to_tsvector('simple', image_config_id || ' ' || target || ' ' || outcome)
      FROM verdict
    """,
    """
    INSERT INTO image (id, config_id, title, origin, created_at, created_by)
    SELECT md5('image' || n)::uuid,
           encode(sha256(((CASE WHEN n % 1000 = 0 THEN 'x' ELSE 'i' END) || n)::bytea), 'hex'),
           'image ' || n, 'registered', timestamptz '2026-01-01' + n * :per_image * interval '1 second',
           'bench'
      FROM generate_series(1, :images) AS n WHERE n % 10 <> 5
    """,
    """
    INSERT INTO image_unjudged (image_id, config_id, created_at) SELECT id, config_id, created_at FROM image
     WHERE NOT EXISTS (SELECT FROM verdict_current
                        WHERE kind = 'scope' AND verdict_current.image_config_id = image.config_id)
    """,
)


_TABLES = ("receipt", "receipt_origin", "verdict", "verdict_current", "image", "image_unjudged")
_INDEXES = text(
    "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = ANY(:tables) "
    "AND indexname NOT IN (SELECT conname FROM pg_constraint)"
)


def fill(engine: Engine, *, rows: int, images: int | None = None) -> None:
    """So many receipts, a verdict about each, and one about each image's scope; nine of ten images are
    registered, one of a thousand of them is another of which nothing is known, and so are those over the
    number of judged ones.

    Indexes are made afterwards; a superuser leaves out what references are checked with.
    """
    with engine.begin() as connection:
        connection.execute(text("SET LOCAL synchronous_commit = off"))
        connection.execute(text("SET LOCAL maintenance_work_mem = '512MB'"))
        if connection.execute(
            text("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        ).scalar_one():
            connection.execute(text("SET LOCAL session_replication_role = replica"))
        indexes = connection.execute(_INDEXES, {"tables": list(_TABLES)}).all()
        for index in indexes:
            connection.execute(text(f"DROP INDEX {index.indexname}"))
        for statement in _STATEMENTS:
            given = {"rows": rows, "per_image": PER_IMAGE, "images": images or rows // PER_IMAGE}
            connection.execute(text(statement), given)
        for index in indexes:
            connection.exec_driver_sql(index.indexdef)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))
