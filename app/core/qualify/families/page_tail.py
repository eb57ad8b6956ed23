"""``sparkcache-page-tail-qualification/v1``: the chain its own validator checks (evidence-model §4.1,
§10).
"""

from app.core.qualify.gates import ChainDelta, PageTailChain
from app.core.qualify.reading import Place, count, flag, hex64, name, number


def page_tail_chain(place: Place) -> PageTailChain:
    """Base, deltas, result and flags of the receipt."""
    return PageTailChain(
        runner=place.fact(("/runner",), name),
        base_context_digest=place.fact(("/base/context_digest",), hex64),
        base_committed_tokens=place.fact(("/base/committed_tokens",), count),
        base_snapshot_bytes=place.fact(("/base/snapshot_bytes",), count),
        deltas=tuple(_delta(delta) for delta in place.places("/deltas/*")),
        result_context_digest=place.fact(("/result/context_digest",), hex64),
        result_committed_tokens=place.fact(("/result/committed_tokens",), count),
        result_snapshot_sha256=place.fact(("/result/expected_snapshot_sha256",), hex64),
        unique_bytes=place.fact(("/unique_publication_bytes",), count),
        logical_bytes=place.fact(("/logical_snapshot_bytes",), count),
        lookup_reason=place.fact(("/corruption/lookup_reason",), name),
        byte_exact_restores=place.fact(("/validation/byte_exact_restores",), flag),
        complete_snapshot_equal=place.fact(("/validation/complete_snapshot_equal",), flag),
        corruption_rejected=place.fact(("/validation/corruption_rejected",), flag),
    )


def _delta(place: Place) -> ChainDelta:
    return ChainDelta(
        pointer=place.base,
        context_digest=place.fact(("context_digest",), hex64),
        manifest_schema=place.fact(("manifest_schema",), name),
        base_context_digest=place.fact(("base_context_digest",), hex64),
        base_committed_tokens=place.fact(("base_committed_tokens",), count),
        committed_tokens=place.fact(("committed_tokens",), count),
        base_snapshot_bytes=place.fact(("base_snapshot_bytes",), count),
        delta_encoded_bytes=place.fact(("delta_encoded_bytes",), count),
        result_snapshot_bytes=place.fact(("result_snapshot_bytes",), count),
        result_snapshot_sha256=place.fact(("result_snapshot_sha256",), hex64),
        commit_ms=place.fact(("commit_ms",), number),
    )
