"""Identities and prompts of synthetic entries."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count

from app.core.digest import Digest, sha256
from app.core.store.context import context_digest, salt_v3
from app.core.store.identity import (
    BoundaryHiddenPolicy,
    CacheIdentity,
    DraftKvPolicy,
    PublicationSchema,
    RecordKind,
)
from app.core.store.snapshot import PageLayout

CHUNK_TOKENS = 256

_VOCABULARY = 151_552


def page_identity(
    layout: PageLayout, *, ranks: int, rank: int, publication: PublicationSchema | None = None
) -> CacheIdentity:
    """The identity of one tensor-parallel rank that stores pages of a layout."""
    return CacheIdentity(
        target_checkpoint=sha256(b"sparkgate synthetic target checkpoint"),
        draft_checkpoint=sha256(b"sparkgate synthetic draft checkpoint"),
        quantization_layout=f"sparkgate-synthetic-pages-v1:{layout.sha256}",
        rope_layout="sparkgate-synthetic-rope-v1",
        tp_degree=ranks,
        dcp_degree=1,
        cp_kv_cache_interleave_size=1,
        chunk_tokens=CHUNK_TOKENS,
        dcp_shard_rank=0,
        tp_shard_rank=rank,
        boundary_hidden_policy=BoundaryHiddenPolicy.LIVE_FORWARD,
        draft_kv_policy=DraftKvPolicy.COLOCATED_TARGET,
        record_schema=(RecordKind.TARGET_CKV, RecordKind.LOGICAL_POSITIONS),
        publication_schema=publication,
    )


def row_identity(*, ranks: int, rank: int, publication: PublicationSchema | None = None) -> CacheIdentity:
    """The identity of one context-parallel rank that stores rows of every ``ranks``-th position."""
    return CacheIdentity(
        target_checkpoint=sha256(b"sparkgate synthetic target checkpoint"),
        draft_checkpoint=sha256(b"sparkgate synthetic draft checkpoint"),
        quantization_layout="sparkgate-synthetic-rows-v1",
        rope_layout="sparkgate-synthetic-rope-v1",
        tp_degree=ranks,
        dcp_degree=ranks,
        cp_kv_cache_interleave_size=1,
        chunk_tokens=CHUNK_TOKENS,
        dcp_shard_rank=rank,
        tp_shard_rank=rank,
        boundary_hidden_policy=BoundaryHiddenPolicy.LIVE_FORWARD,
        draft_kv_policy=DraftKvPolicy.SEPARATE,
        publication_schema=publication,
    )


def prompt_digest(identity: CacheIdentity, *, span_tokens: int, seed: int) -> Digest:
    """The context digest of the first tokens of a prompt, equal on all ranks."""
    tokens = [(index * 7919 + 12345 + seed) % _VOCABULARY for index in range(span_tokens)]
    return context_digest(tokens, salt=salt_v3(replace(identity, dcp_shard_rank=0, tp_shard_rank=0)))


def numbered_names(process: int) -> Callable[[], str]:
    """A source of temporary names from a process number and a count."""
    numbers = count()
    return lambda: f"{process:016x}{next(numbers):016x}"
