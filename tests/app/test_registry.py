"""Layouts, sources, images and inventories as registered over REST."""

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from app.core.store.synth import SynthesizedSnapshot
from tests.app.ring import NODE, Ring

SOURCE = {"repository": "example/code", "commit": "a" * 40, "tree": "b" * 40, "source_sha256": "c" * 64}


@pytest.fixture
def headers(keys: dict[str, str]) -> dict[str, str]:
    return {"Authorization": f"Bearer {keys['operator']}"}


def test_layout_is_kept_under_its_digest_in_any_spelling(
    client: TestClient, headers: dict[str, str], stored: SynthesizedSnapshot
) -> None:
    pretty = json.dumps(json.loads(stored.layout.canonical), indent=2).encode()
    first = client.post("/api/v1/layouts", headers=headers, content=pretty)
    assert (first.status_code, first.json()["sha256"]) == (201, str(stored.layout.sha256))
    again = client.post("/api/v1/layouts", headers=headers, content=stored.layout.canonical)
    assert (again.status_code, again.json()) == (200, first.json())
    shown = client.get(first.headers["location"], headers=headers).json()
    assert shown["document"] == json.loads(stored.layout.canonical)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'{"groups":[]}', b'{"groups":[],"groups":[]}', b"\xef\xbb\xbf{}", b"[" * 100_000],
)
def test_what_is_no_layout_is_refused(client: TestClient, headers: dict[str, str], content: bytes) -> None:
    answer = client.post("/api/v1/layouts", headers=headers, content=content)
    assert (answer.status_code, answer.json()["code"]) == (422, "document-refused")
    assert "expected" in answer.json()["detail"]


def test_source_identity_again_is_the_same_row(client: TestClient, headers: dict[str, str]) -> None:
    first = client.post("/api/v1/sources", headers=headers, json=SOURCE)
    again = client.post("/api/v1/sources", headers=headers, json=SOURCE)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    bare = {"repository": SOURCE["repository"], "commit": SOURCE["commit"]}
    other = [client.post("/api/v1/sources", headers=headers, json=bare) for _ in range(2)]
    assert [answer.status_code for answer in other] == [201, 200]
    assert other[0].json()["id"] != first.json()["id"]


def post_image(client: TestClient, headers: dict[str, str], **changes: Any) -> Any:
    body = {"title": "an image", "config_id": "1" * 64, **changes}
    return client.post("/api/v1/images", headers=headers, json=body)


def test_image_is_known_by_any_of_its_digests(client: TestClient, headers: dict[str, str]) -> None:
    digests = {"config_id": "1" * 64, "manifest_digest": "2" * 64, "index_digest": "3" * 64}
    first = post_image(client, headers, **digests)
    assert first.status_code == 201
    assert post_image(client, headers, **digests).status_code == 200
    clash = post_image(client, headers, config_id="1" * 64, manifest_digest="4" * 64)
    assert (clash.status_code, clash.json()["code"]) == (409, "conflict")


@pytest.mark.parametrize(
    ("changes", "status", "text"),
    [
        ({"config_id": None}, 422, "none of them"),
        ({"manifest_digest": "1" * 64}, 422, "the same value in config_id and manifest_digest"),
        ({"config_id": "sha256:" + "1" * 64}, 422, "/config_id"),
        ({"origin": "imported-record"}, 422, "record"),
        ({"record": "text"}, 422, "record"),
        ({"title": "two\nlines"}, 422, "/title"),
        ({"source_id": "00000000-0000-0000-0000-000000000000"}, 404, "source"),
    ],
)
def test_wrong_images_are_refused(
    client: TestClient, headers: dict[str, str], changes: dict[str, Any], status: int, text: str
) -> None:
    answer = post_image(client, headers, **changes)
    assert answer.status_code == status
    assert text in answer.text


def test_imported_record_stays_a_record(client: TestClient, headers: dict[str, str]) -> None:
    source = client.post("/api/v1/sources", headers=headers, json=SOURCE).json()
    record = {"origin": "imported-record", "record": "answered spark", "source_id": source["id"]}
    image = post_image(client, headers, **record).json()
    assert (image["origin"], image["source"]["commit"]) == ("imported-record", "a" * 40)
    assert client.get(f"/api/v1/images/{image['id']}", headers=headers).json() == image


def test_snapshot_names_ranks_and_places(ring: Ring) -> None:
    answer = ring.client.get(f"/api/v1/snapshots/{ring.stored.context_digest}", headers=ring.operator_headers)
    snapshot = answer.json()
    assert (snapshot["complete"], snapshot["rank_count"], snapshot["missing_ranks"]) == (True, 4, [])
    assert [rank["places"][0]["root_path"] for rank in snapshot["ranks"]] == [
        str(root) for root in ring.stored.roots
    ]
    listed = ring.client.get("/api/v1/snapshots", headers=ring.operator_headers).json()["snapshots"]
    assert listed == [snapshot]


def test_inventory_replaces_what_the_scan_before_said(ring: Ring) -> None:
    path = f"/api/v1/snapshots/{ring.stored.context_digest}"
    ring.report_inventory(ring.stored.roots[1:])
    snapshot = ring.client.get(path, headers=ring.operator_headers).json()
    assert (snapshot["complete"], snapshot["missing_ranks"]) == (False, [0])
    ring.report_inventory(ring.stored.roots)
    assert ring.client.get(path, headers=ring.operator_headers).json()["complete"]


def test_root_document_with_other_bytes_is_refused(ring: Ring) -> None:
    context = ring.stored.context_digest
    path = f"/api/v1/nodes/{NODE}/documents/{'0' * 64}?context_digest={context}"
    answer = ring.client.put(path, headers=ring.worker_headers, content=b"{}")
    assert (answer.status_code, answer.json()["code"]) == (422, "document-refused")


def test_sighting_under_a_foreign_storage_key_is_refused(ring: Ring) -> None:
    published = ring.stored.published[0]
    sighting = {
        "root_path": str(ring.stored.roots[0]),
        "storage_key": "f" * 64,
        "context_digest": str(ring.stored.context_digest),
        "root_document_sha256": str(published.manifest_sha256),
    }
    path = f"/api/v1/nodes/{NODE}/inventory"
    answer = ring.client.put(
        path, headers=ring.worker_headers, json={"manifests": [sighting], "problems": []}
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "refused")
    snapshots = ring.client.get("/api/v1/snapshots", headers=ring.operator_headers).json()["snapshots"]
    assert snapshots[0]["complete"]


def test_node_that_fell_silent_takes_its_ranks_with_it(ring: Ring, owner_engine: Any) -> None:
    with owner_engine.begin() as connection:
        connection.execute(text("UPDATE node SET last_seen_at = last_seen_at - interval '1 hour'"))
    answer = ring.post_restore()
    assert (answer.status_code, answer.json()["code"]) == (409, "snapshot-incomplete")
    nodes = ring.client.get("/api/v1/nodes", headers=ring.operator_headers).json()["nodes"]
    assert nodes[0]["away"]


def test_snapshot_with_more_ranks_than_devices_is_refused(ring: Ring, owner_engine: Any) -> None:
    with owner_engine.begin() as connection:
        connection.execute(text("DELETE FROM device WHERE name = 'host3'"))
    answer = ring.post_restore()
    assert (answer.status_code, answer.json()["code"]) == (409, "devices-missing")
    assert "rank 3" in answer.json()["detail"]


def test_pinned_document_is_restored_without_the_serial_digest(ring: Ring) -> None:
    assert ring.pin(1).json()["pinned"]
    assert ring.pin(1).status_code == 200
    path = f"/api/v1/snapshots/{ring.stored.context_digest}"
    ranks = ring.client.get(path, headers=ring.operator_headers).json()["ranks"]
    assert [rank["places"][0]["pinned"] for rank in ranks] == [False, True, False, False]
    claims = [rank.claim["stream_pinned"] for rank in ring.claim_all(ring.start_restore())]
    assert claims == [False, True, False, False]


def test_pin_of_another_stream_is_refused(ring: Ring) -> None:
    answer = ring.pin(0, stream_sha256="0" * 64)
    assert (answer.status_code, answer.json()["code"]) == (422, "refused")
    assert "expected stream" in answer.json()["detail"]
