"""The identity of a cache entry and the storage key derived from it (store-format §5).

An identity has two wire forms. Release 0.1.0a2 wrote eleven fields; everything since writes twelve. They
never hash alike, so an entry of the release is found only by asking in the release's own form (§5.4).
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from app.core.canonical_json import (
    JsonObject,
    JsonValue,
    encode_canonical,
    expect_int,
    expect_list,
    expect_object,
    expect_text,
)
from app.core.digest import Digest, sha256
from app.core.errors import FormatError, shown

NOT_SHARDED = -1

Choice = TypeVar("Choice", bound=StrEnum)

# The one field that came after the release.
INTERLEAVE_KEY = "cp_kv_cache_interleave_size"

_RELEASE_KEYS = frozenset(
    {
        "target_checkpoint",
        "draft_checkpoint",
        "quantization_layout",
        "rope_layout",
        "tp_degree",
        "dcp_degree",
        "chunk_tokens",
        "dcp_shard_rank",
        "tp_shard_rank",
        "boundary_hidden_policy",
        "draft_kv_policy",
    }
)


class IdentityForm(StrEnum):
    """Which fields an identity's wire object has (store-format §5.4)."""

    RELEASE_0_1_0A2 = "release-0.1.0a2"
    CURRENT = "current"


_REQUIRED_KEYS = {
    IdentityForm.RELEASE_0_1_0A2: _RELEASE_KEYS,
    IdentityForm.CURRENT: _RELEASE_KEYS | {INTERLEAVE_KEY},
}
# Left out when empty (store-format §5.1).
_OPTIONAL_KEYS = {
    IdentityForm.RELEASE_0_1_0A2: frozenset({"record_schema"}),
    IdentityForm.CURRENT: frozenset({"record_schema", "publication_schema"}),
}


class RecordKind(StrEnum):
    """What a record of an entry holds (store-format §4)."""

    TARGET_CKV = "target_ckv"
    SPARSE_INDEXER = "sparse_indexer"
    MTP_DRAFT_KV = "mtp_draft_kv"
    BOUNDARY_HIDDEN = "boundary_hidden"
    LOGICAL_POSITIONS = "logical_positions"


# What an identity of page mode requires, no more and no less (store-format §4).
PAGE_RECORDS = frozenset({RecordKind.TARGET_CKV, RecordKind.LOGICAL_POSITIONS})


class BoundaryHiddenPolicy(StrEnum):
    """Whether the hidden state at the boundary is stored or computed again."""

    PERSISTED = "persisted"
    LIVE_FORWARD = "live_forward"


class DraftKvPolicy(StrEnum):
    """Whether the draft model's cache is a record of its own."""

    SEPARATE = "separate"
    COLOCATED_TARGET = "colocated_target"


class PublicationSchema(StrEnum):
    """How extensions of an entry are published."""

    TAIL_COW_V1 = "tail-cow-v1"
    PAGE_TAIL_COW_V1 = "page-tail-cow-v1"
    PAGE_TAIL_COW_V2 = "page-tail-cow-v2"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheIdentity:
    """Everything two runtimes must agree on before one may read the other's entries.

    ``record_schema`` and ``publication_schema`` are ``None`` where the wire object leaves them out. In the
    form of release 0.1.0a2 the interleave size is 1, as that release worked, and is not on the wire.
    """

    target_checkpoint: Digest
    draft_checkpoint: Digest
    quantization_layout: str
    rope_layout: str
    tp_degree: int
    dcp_degree: int
    cp_kv_cache_interleave_size: int
    chunk_tokens: int
    dcp_shard_rank: int
    tp_shard_rank: int
    boundary_hidden_policy: BoundaryHiddenPolicy
    draft_kv_policy: DraftKvPolicy
    record_schema: tuple[RecordKind, ...] | None = None
    publication_schema: PublicationSchema | None = None
    form: IdentityForm = IdentityForm.CURRENT

    def to_wire(self) -> JsonObject:
        """The JSON object that is hashed and stored (store-format §5.1)."""
        wire: JsonObject = {key: getattr(self, key) for key in sorted(_REQUIRED_KEYS[self.form])}
        if self.record_schema is not None:
            wire["record_schema"] = list(self.record_schema)
        if self.publication_schema is not None:
            wire["publication_schema"] = self.publication_schema
        return wire

    @property
    def storage_key(self) -> Digest:
        """The folder name of this identity's root documents (store-format §5.2)."""
        return sha256(encode_canonical(self.to_wire()))

    @property
    def rank_zero_storage_key(self) -> Digest:
        """``K0``: the storage key with both shard ranks set to 0, equal on all ranks (store-format §6.1)."""
        return replace(self, dcp_shard_rank=0, tp_shard_rank=0).storage_key

    @property
    def rank(self) -> int:
        """The tensor-parallel rank that wrote the entry, 0 where it is not sharded."""
        return 0 if self.tp_shard_rank == NOT_SHARDED else self.tp_shard_rank

    @property
    def rank_count(self) -> int:
        """How many tensor-parallel ranks make up the whole snapshot."""
        return 1 if self.tp_shard_rank == NOT_SHARDED else self.tp_degree

    @property
    def stores_pages(self) -> bool:
        """Whether an entry of this identity may hold pages: it requires exactly their two records (§4)."""
        return self.required_records == PAGE_RECORDS

    @property
    def required_records(self) -> frozenset[RecordKind]:
        """The record kinds an entry of this identity must have (store-format §5.1, last paragraph)."""
        if self.record_schema is not None:
            return frozenset(self.record_schema)
        left_out = set()
        if self.boundary_hidden_policy is BoundaryHiddenPolicy.LIVE_FORWARD:
            left_out.add(RecordKind.BOUNDARY_HIDDEN)
        if self.draft_kv_policy is DraftKvPolicy.COLOCATED_TARGET:
            left_out.add(RecordKind.MTP_DRAFT_KV)
        return frozenset(RecordKind) - left_out


def form_of(value: JsonValue) -> IdentityForm:
    """The form an identity object is in: what has no interleave size is the release's (store-format §5.4)."""
    release = isinstance(value, dict) and INTERLEAVE_KEY not in value
    return IdentityForm.RELEASE_0_1_0A2 if release else IdentityForm.CURRENT


def parse_identity(
    value: JsonValue, *, subject: str = "identity", form: IdentityForm = IdentityForm.CURRENT
) -> CacheIdentity:
    """Judge an identity object by itself (store-format §5.1).

    Args:
        value: the wire object, as decoded.
        subject: what carries it, for messages.
        form: the fields it must have.

    Raises:
        FormatError: a key is missing, additional, of another type or outside its range, or an optional key
            is present although empty.
    """
    present = value.keys() & _OPTIONAL_KEYS[form] if isinstance(value, dict) else frozenset()
    wire = expect_object(value, subject=subject, keys=_REQUIRED_KEYS[form] | present)
    tp_degree = _take_int(wire, key="tp_degree", subject=subject, minimum=1)
    dcp_degree = _take_int(wire, key="dcp_degree", subject=subject, minimum=1)
    return CacheIdentity(
        target_checkpoint=_take_digest(wire, key="target_checkpoint", subject=subject),
        draft_checkpoint=_take_digest(wire, key="draft_checkpoint", subject=subject),
        quantization_layout=_take_text(wire, key="quantization_layout", subject=subject),
        rope_layout=_take_text(wire, key="rope_layout", subject=subject),
        tp_degree=tp_degree,
        dcp_degree=dcp_degree,
        cp_kv_cache_interleave_size=_take_interleave(wire, subject=subject),
        chunk_tokens=_take_int(wire, key="chunk_tokens", subject=subject, minimum=1),
        dcp_shard_rank=_take_shard(wire, key="dcp_shard_rank", subject=subject, degree=dcp_degree),
        tp_shard_rank=_take_shard(wire, key="tp_shard_rank", subject=subject, degree=tp_degree),
        boundary_hidden_policy=_take_choice(
            wire, key="boundary_hidden_policy", subject=subject, choices=BoundaryHiddenPolicy
        ),
        draft_kv_policy=_take_choice(wire, key="draft_kv_policy", subject=subject, choices=DraftKvPolicy),
        record_schema=_take_records(wire, subject=subject),
        publication_schema=_take_publication(wire, subject=subject),
        form=form,
    )


def _take_digest(wire: JsonObject, *, key: str, subject: str) -> Digest:
    return Digest.parse(wire[key], subject=f"{subject}.{key}")


def _take_text(wire: JsonObject, *, key: str, subject: str) -> str:
    return expect_text(wire[key], subject=f"{subject}.{key}")


def _take_int(wire: JsonObject, *, key: str, subject: str, minimum: int) -> int:
    return expect_int(wire[key], subject=f"{subject}.{key}", minimum=minimum)


def _take_interleave(wire: JsonObject, *, subject: str) -> int:
    if INTERLEAVE_KEY not in wire:
        return 1
    return _take_int(wire, key=INTERLEAVE_KEY, subject=subject, minimum=1)


def _take_shard(wire: JsonObject, *, key: str, subject: str, degree: int) -> int:
    return expect_int(wire[key], subject=f"{subject}.{key}", minimum=NOT_SHARDED, maximum=degree - 1)


def _take_choice(wire: JsonObject, *, key: str, subject: str, choices: type[Choice]) -> Choice:
    return _choose(wire[key], subject=f"{subject}.{key}", choices=choices)


def _take_records(wire: JsonObject, *, subject: str) -> tuple[RecordKind, ...] | None:
    if "record_schema" not in wire:
        return None
    subject = f"{subject}.record_schema"
    kinds = tuple(
        _choose(item, subject=subject, choices=RecordKind)
        for item in expect_list(wire["record_schema"], subject=subject, maximum=len(RecordKind))
    )
    if len(set(kinds)) != len(kinds) or RecordKind.LOGICAL_POSITIONS not in kinds:
        raise FormatError(
            subject, expected="each kind once, logical_positions among them", found=", ".join(kinds)
        )
    return kinds


def _take_publication(wire: JsonObject, *, subject: str) -> PublicationSchema | None:
    if "publication_schema" not in wire:
        return None
    return _choose(
        wire["publication_schema"], subject=f"{subject}.publication_schema", choices=PublicationSchema
    )


def _choose(value: JsonValue, *, subject: str, choices: type[Choice]) -> Choice:
    for choice in choices:
        if value == choice.value:
            return choice
    raise FormatError(subject, expected=f"one of {', '.join(choices)}", found=shown(value))
