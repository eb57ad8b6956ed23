"""The release package in a process of its own: ``python -m tests.core.peer`` answers one JSON request.

Nothing of sparkgate is imported here; what is said is said by ``sparkcache`` as it was released.
"""

import json
import sys
from hashlib import sha256
from typing import Any

from sparkcache import __version__
from sparkcache.spark_context_cache_codec import context_digest
from sparkcache.spark_context_cache_hybrid import (
    PageGroup,
    PageLayer,
    PageLayout,
    decode_page_snapshot,
    encode_page_snapshot,
    split_snapshot,
)
from sparkcache.spark_context_cache_store import (
    CacheIdentity,
    CapacityPolicy,
    ContextChunk,
    ManifestStore,
)


def main() -> None:
    """One request on standard input, one answer on standard output."""
    request = json.load(sys.stdin)
    answer = {"read": read, "write": write, "maintain": maintain}[request.pop("do")](**request)
    json.dump(answer | {"version": __version__}, sys.stdout)


def read(
    *, root: str, identity: dict[str, Any], context: str, layout: dict[str, Any] | None, counts: list[int]
) -> dict[str, Any]:
    """Look an entry up in full, restore it, and take a page stream apart."""
    store, asked = ManifestStore(root), identity_of(identity)
    found = store.lookup(asked, context)
    answer: dict[str, Any] = {
        "storage_key": asked.storage_key,
        "reason": found.reason,
        "manifest_sha256": found.manifest_digest,
    }
    if not found.is_hit:
        return answer
    chunks = store.restore(found)
    if chunks is None:
        return answer | {"restored": False}
    kinds = sorted({kind for chunk in chunks for kind in chunk.records}, key=str)
    records = {kind: b"".join(chunk.records[kind] for chunk in chunks) for kind in kinds}
    answer |= {
        "restored": True,
        "ranges": [[chunk.logical_start, chunk.logical_end] for chunk in chunks],
        "records": {kind.value: sha256(content).hexdigest() for kind, content in records.items()},
    }
    if layout is not None:
        stream = records[next(kind for kind in kinds if kind.value == "target_ckv")]
        layers = decode_page_snapshot(layout_of(layout), stream, counts)
        answer["layers"] = {name: sha256(content).hexdigest() for name, content in layers.items()}
    return answer


def write(
    *,
    root: str,
    identity: dict[str, Any],
    tokens: list[int],
    chunks: list[tuple[int, int, dict[str, str]]],
    layout: dict[str, Any] | None,
    counts: list[int],
    layers: dict[str, str],
) -> dict[str, Any]:
    """Commit an entry: chunks of records as given, or a page stream cut over them."""
    asked = identity_of(identity)
    context = context_digest(tokens, asked.storage_key)
    if layout is not None:
        pages = {name: bytes.fromhex(content) for name, content in layers.items()}
        stream = encode_page_snapshot(layout_of(layout), counts, pages)
        parts = split_snapshot(stream, len(chunks))
        chunks = [
            (start, end, records | {"target_ckv": part.hex()})
            for (start, end, records), part in zip(chunks, parts, strict=True)
        ]
    receipt = ManifestStore(root).commit(
        identity=asked,
        context_digest=context,
        chunks=[
            ContextChunk(start, end, {kind: bytes.fromhex(content) for kind, content in records.items()})
            for start, end, records in chunks
        ],
        span_tokens=len(tokens),
    )
    return {"context": context, "manifest_sha256": receipt.manifest_digest}


def maintain(*, root: str) -> dict[str, Any]:
    """One maintenance pass, which removes what no document refers to."""
    report = ManifestStore(root).maintain(CapacityPolicy(max_bytes=1 << 40, low_watermark_bytes=1 << 39))
    return {"busy": report.skipped_busy, "orphans": report.orphan_chunks_deleted}


def identity_of(wire: dict[str, Any]) -> CacheIdentity:
    """The release's own identity; it refuses a field it does not know."""
    return CacheIdentity(**(wire | {"record_schema": tuple(wire.get("record_schema", ()))}))


def layout_of(wire: dict[str, Any]) -> PageLayout:
    """The release's own layout."""
    return PageLayout(
        groups=tuple(
            PageGroup(
                block_size=group["block_size"],
                layers=tuple(
                    PageLayer(**(layer | {"page_shape": tuple(layer["page_shape"])}))
                    for layer in group["layers"]
                ),
                reuse_policy=group["reuse_policy"],
                reuse_window_tokens=group["reuse_window_tokens"],
            )
            for group in wire["groups"]
        )
    )


if __name__ == "__main__":
    main()
