"""Root documents of every kind of pages are taken and planned; rows are refused with the reason."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.core.canonical_json import encode_canonical
from app.core.digest import sha256
from tests.app.ring import NODE, Ring


@pytest.fixture
def index(shared_dir: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((shared_dir / "vectors" / "index.json").read_bytes())
    return document


@pytest.mark.parametrize(
    ("name", "kind", "pinnable"),
    [
        ("page-delta-v1-768", "page_delta", False),
        ("page-delta-v2-1024", "page_delta", False),
        ("page-delta-v3-1024", "page_delta", False),
        ("legacy-pages-chunks", "manifest", False),
        ("flat-v2-single", "page_snapshot", True),
    ],
)
def test_pages_of_every_kind_can_be_restored(
    ring: Ring, index: dict[str, Any], shared_dir: Path, name: str, kind: str, pinnable: bool
) -> None:
    entry = next(entry for entry in index["entries"] if entry["id"] == name)
    root = shared_dir / "vectors" / entry["root"]
    ring.report_inventory((root,))
    document = send(ring, raw=(root / entry["manifest"]).read_bytes(), context=entry["context_digest"]).json()
    assert (document["kind"], document["span_tokens"]) == (kind, entry["span_tokens"])
    layout = encode_canonical(index["layouts"][entry["layout"]]["layout"])
    answer = ring.client.post("/api/v1/layouts", headers=ring.operator_headers, content=layout)
    changes = {"context_digest": entry["context_digest"], "layout_sha256": answer.json()["sha256"]}
    ordered = ring.post_restore(**changes)
    assert ordered.status_code == 202, ordered.text
    wrong = ring.post_restore(context_digest=entry["context_digest"])
    # A legacy document names no length and no layout: only its chunks tell, on the device.
    assert wrong.status_code == (202 if kind == "manifest" else 422)
    assert (document["sha256"] in unpinned(ring, root=root, entry=entry)) is pinnable


def test_rows_are_refused_with_the_reason(ring: Ring, index: dict[str, Any], shared_dir: Path) -> None:
    for name in ("legacy-rows", "rows-tail-cow-tail"):
        entry = next(entry for entry in index["entries"] if entry["id"] == name)
        raw = (shared_dir / "vectors" / entry["root"] / entry["manifest"]).read_bytes()
        answer = send(ring, raw=raw, context=entry["context_digest"])
        assert answer.status_code == 422
        assert "per-token rows" in answer.json()["detail"]


def send(ring: Ring, *, raw: bytes, context: str) -> Any:
    path = f"/api/v1/nodes/{NODE}/documents/{sha256(raw)}?context_digest={context}"
    return ring.client.put(path, headers=ring.worker_headers, content=raw)


def unpinned(ring: Ring, *, root: Path, entry: dict[str, Any]) -> list[str]:
    sighting = {
        "root_path": str(root),
        "storage_key": entry["storage_key"],
        "context_digest": entry["context_digest"],
        "root_document_sha256": entry["manifest_sha256"],
    }
    body = {"manifests": [sighting], "problems": []}
    answer = ring.client.put(f"/api/v1/nodes/{NODE}/inventory", headers=ring.worker_headers, json=body)
    listed: list[str] = answer.raise_for_status().json()["unpinned_documents"]
    return listed
