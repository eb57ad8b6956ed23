"""Publications to be interrupted, small and the same at every run."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from app.core.digest import sha256, squeeze
from app.core.store.identity import CacheIdentity, parse_identity
from app.core.store.writer import FileCalls, publish_flat

Publish = Callable[[Path, FileCalls, str], None]

OBJECT_BYTES = 512
CONTEXT = sha256(b"crash test context")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What stands in the root before, and the publication that is interrupted."""

    publish: Publish
    prepare: Publish | None = None


def identity_of(**changes: object) -> CacheIdentity:
    """An identity of pages, or what the changes make of it."""
    wire = {
        "target_checkpoint": sha256(b"crash test target"),
        "draft_checkpoint": sha256(b"crash test draft"),
        "quantization_layout": "crash-test-v1",
        "rope_layout": "crash-test-v1",
        "tp_degree": 1,
        "dcp_degree": 1,
        "cp_kv_cache_interleave_size": 1,
        "chunk_tokens": 256,
        "dcp_shard_rank": 0,
        "tp_shard_rank": 0,
        "boundary_hidden_policy": "live_forward",
        "draft_kv_policy": "colocated_target",
        "record_schema": ["target_ckv", "logical_positions"],
    }
    return parse_identity({key: value for key, value in (wire | changes).items() if value is not None})


def tokens_for(tag: str) -> Callable[[], str]:
    """Names for temporary files that no other run uses."""
    numbers = count()
    return lambda: sha256(f"{tag}/{next(numbers)}".encode())[:32]


def flat(root: Path, calls: FileCalls, tag: str, *, context: str = "a", tail: bytes = b"") -> None:
    """Three objects, the last of them short, in two batches."""
    stream = memoryview(squeeze(b"crash test flat", byte_count=2 * OBJECT_BYTES + 77) + tail)
    objects = [stream[at : at + OBJECT_BYTES] for at in range(0, len(stream), OBJECT_BYTES)]
    publish_flat(
        root,
        identity=identity_of(),
        context_digest=sha256(context.encode()),
        committed_tokens=512,
        object_bytes=OBJECT_BYTES,
        batches=[objects[:2], objects[2:]],
        new_id=tokens_for(tag),
        calls=calls,
    )


def flat_beside(root: Path, calls: FileCalls, tag: str) -> None:
    """A second entry that shares two objects with the first."""
    flat(root, calls, tag, context="b", tail=b"other")


SCENARIOS = {
    "flat": Scenario(publish=flat),
    "flat-beside": Scenario(publish=flat_beside, prepare=flat),
}
