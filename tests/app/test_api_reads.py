"""What clients read: nodes and devices, layouts, snapshots and their root documents, images by digest."""

from typing import Any

import pytest
from sqlalchemy import Engine, text

from app.core.digest import sha256
from tests.app.ring import NODE, Ring


def get(ring: Ring, path: str, **params: Any) -> Any:
    return ring.client.get(f"/api/v1/{path}", headers=ring.operator_headers, params=params)


def test_device_tells_generation_last_task_and_who_has_it(ring: Ring) -> None:
    free = get(ring, f"nodes/{NODE}/devices/host0").json()
    assert (free["generation"], free["busy"], free["held_by"], free["last_task_at"]) == (1, False, None, None)
    restore = ring.start_restore()
    held = get(ring, f"nodes/{NODE}/devices/host2").json()["held_by"]
    attempt = next(one for one in restore["attempts"] if one["device"] == "host2")
    assert held == {
        "attempt_id": attempt["id"],
        "restore_id": restore["id"],
        "rank": attempt["rank"],
        "lease_expires_at": None,
    }
    ring.claim_all(restore)
    devices = get(ring, f"nodes/{NODE}/devices").json()["devices"]
    assert [device["name"] for device in devices] == ["host0", "host1", "host2", "host3"]
    assert all(device["held_by"]["lease_expires_at"] and device["last_task_at"] for device in devices)
    assert get(ring, f"nodes/{NODE}").json()["devices"] == devices
    assert get(ring, f"nodes/{NODE}/devices/host9").status_code == 404
    assert get(ring, "nodes/node-z/devices").status_code == 404


def test_nodes_page_to_the_end(ring: Ring, owner_engine: Engine) -> None:
    with owner_engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO node (id, name, last_seen_at) SELECT gen_random_uuid(), 'n' || i, now() "
                "FROM generate_series(1, 6) i"
            )
        )
    assert paged(ring, "nodes", name="nodes", key="name", size=3) == {NODE, *(f"n{i}" for i in range(1, 7))}


def paged(ring: Ring, path: str, *, name: str, key: str, size: int) -> set[str]:
    seen: list[str] = []
    token = ""
    while True:
        page = get(ring, path, page_size=size, **({"page_token": token} if token else {})).json()
        assert len(page[name]) <= size
        seen += [one[key] for one in page[name]]
        token = page["next_page_token"]
        if not token:
            assert len(seen) == len(set(seen))
            return set(seen)


def test_root_documents_are_listed_shown_and_given_out_byte_for_byte(ring: Ring) -> None:
    digests = {str(one.manifest_sha256) for one in ring.stored.published}
    assert paged(ring, "manifests", name="manifests", key="sha256", size=3) == digests
    context = str(ring.stored.context_digest)
    assert len(get(ring, "manifests", context_digest=context).json()["manifests"]) == 4
    assert get(ring, "manifests", context_digest="0" * 64).json()["manifests"] == []
    one = ring.stored.published[2].manifest_sha256
    shown = get(ring, f"manifests/{one}").json()
    assert (shown["rank"], shown["kind"]) == (2, "page_snapshot")
    assert [(place["node"], place["root_path"], place["away"]) for place in shown["places"]] == [
        (NODE, str(ring.stored.roots[2]), False)
    ]
    answer = get(ring, f"manifests/{one}/document")
    assert sha256(answer.content) == one
    assert "immutable" in answer.headers["cache-control"]
    assert get(ring, f"manifests/{'0' * 64}").status_code == 404


def test_layouts_page_to_the_end(ring: Ring, owner_engine: Engine) -> None:
    with owner_engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO layout (sha256, document, group_count, layer_count, created_by) "
                "SELECT lpad(i::text, 64, '0'), '{}', 1, 1, 'x' FROM generate_series(1, 4) i"
            )
        )
    assert len(paged(ring, "layouts", name="layouts", key="sha256", size=2)) == 5


def test_snapshot_is_complete_only_on_nodes_that_are_alive(ring: Ring, owner_engine: Engine) -> None:
    path = f"snapshots/{ring.stored.context_digest}"
    assert get(ring, path).json()["complete"]
    with owner_engine.begin() as connection:
        connection.execute(text("UPDATE node SET last_seen_at = last_seen_at - interval '1 hour'"))
    snapshot = get(ring, path).json()
    assert (snapshot["complete"], snapshot["missing_ranks"]) == (False, [0, 1, 2, 3])
    assert all(place["away"] for rank in snapshot["ranks"] for place in rank["places"])


@pytest.fixture
def image(ring: Ring) -> dict[str, Any]:
    body = {"title": "an image", "config_id": "1" * 64, "manifest_digest": "2" * 64}
    answer = ring.client.post("/api/v1/images", headers=ring.operator_headers, json=body)
    return answer.raise_for_status().json()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("digests", "found"),
    [({"config_id": "1" * 64}, 1), ({"manifest_digest": "2" * 64}, 1), ({"index_digest": "9" * 64}, 0)],
)
def test_image_is_found_by_a_digest_of_the_right_kind(
    ring: Ring, image: dict[str, Any], digests: dict[str, str], found: int
) -> None:
    listed = get(ring, "images", **digests).json()
    assert listed["images"] == [image][:found]
    assert listed["total"]["count"] == found


@pytest.mark.parametrize(
    ("kind", "value", "other"),
    [
        ("manifest_digest", "1", "config_id"),
        ("index_digest", "1", "config_id"),
        ("config_id", "2", "manifest_digest"),
        ("index_digest", "2", "manifest_digest"),
    ],
)
def test_a_digest_of_another_kind_is_a_422_that_explains(
    ring: Ring, image: dict[str, Any], kind: str, value: str, other: str
) -> None:
    body = {"title": "another", kind: value * 64}
    answers = [
        get(ring, "images", **{kind: value * 64}),
        ring.client.post("/api/v1/images", headers=ring.operator_headers, json=body),
    ]
    for answer in answers:
        assert (answer.status_code, answer.json()["code"]) == (422, "digests-mixed")
        assert f"which is the {other}" in answer.json()["detail"]
        assert image["id"] in answer.json()["detail"]
        assert answer.json()["errors"][0]["pointer"] == f"/{kind}"
