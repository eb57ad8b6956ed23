"""Trip 1 with real processes: REST, Celery, four rank workers, a real store."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from app.core.store.layout import OBJECTS_FOLDER
from app.core.store.synth import SynthesizedSnapshot
from tests.e2e.installation import LEASE_S, Installation

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


def ids(store: SynthesizedSnapshot) -> tuple[str, str]:
    return str(store.context_digest), str(store.layout.sha256)


def an_object(root: Path) -> Path:
    return max((root / OBJECTS_FOLDER).iterdir(), key=lambda path: path.stat().st_size)


def nothing_is_visible(installation: Installation, restore_id: str) -> None:
    answer = installation.api.post(f"/api/v1/restores/{restore_id}/readbacks")
    assert (answer.status_code, answer.json()["code"]) == (409, "not-published")


def test_upstream_store_restores_to_its_digests(installation: Installation, shared_dir: Path) -> None:
    vectors = shared_dir / "vectors"
    index = json.loads((vectors / "index.json").read_text())
    shutil.copytree(
        vectors / "flat-v2-tp4", installation.stores / "flat-v2-tp4", copy_function=shutil.copyfile
    )
    entries = [entry for entry in index["entries"] if entry["id"].startswith("flat-v2-tp4-rank")]
    layout = installation.register_layout(json.dumps(index["layouts"]["A"]["layout"]).encode())
    assert layout == index["layouts"]["A"]["sha256"]
    context = entries[0]["context_digest"]
    installation.wait_for_snapshot(context)
    restore_id = installation.start_restore(context, layout=layout)
    restore = installation.finish(restore_id)
    assert restore["outcome"] == "restored", restore["problem"]
    for attempt, entry in zip(restore["attempts"], entries, strict=True):
        assert attempt["report"]["bytes"] == entry["stream_bytes"]
        assert attempt["report"]["objects"] == entry["object_count"]
    expected = {
        rank: {layer["name"]: layer["sha256"] for layer in entry["layers"]}
        for rank, entry in enumerate(entries)
    }
    assert installation.read_back(restore_id) == expected
    installation.discard(restore_id)
    gone = installation.api.post(f"/api/v1/restores/{restore_id}/readbacks")
    assert gone.status_code == 410


def test_flipped_byte_in_one_rank_is_corrupt_and_named(
    installation: Installation, small_store: SynthesizedSnapshot
) -> None:
    path = an_object(small_store.roots[2])
    content = bytearray(path.read_bytes())
    content[1234] ^= 1
    path.write_bytes(content)
    context, layout = ids(small_store)
    restore_id = installation.start_restore(context, layout=layout)
    restore = installation.finish(restore_id)
    assert (restore["state"], restore["outcome"]) == ("finished", "corrupt")
    assert restore["problem"]["rank"] == 2
    assert path.stem in restore["problem"]["subject"]
    assert restore["problem"]["stage"] == "content"
    nothing_is_visible(installation, restore_id)
    assert installation.devices_free()


def test_rank_that_vanished_since_the_scan_makes_the_restore_incomplete(
    installation: Installation, small_store: SynthesizedSnapshot
) -> None:
    context, layout = ids(small_store)
    agent = installation.children["agent"].pid
    os.kill(agent, signal.SIGSTOP)
    try:
        small_store.roots[3].rename(small_store.path.parent.parent / "taken-away")
        restore = installation.finish(installation.start_restore(context, layout=layout))
    finally:
        os.kill(agent, signal.SIGCONT)
    assert restore["outcome"] == "incomplete"
    assert (restore["problem"]["rank"], restore["problem"]["code"]) == (3, "absent")
    nothing_is_visible(installation, restore["id"])


def test_rank_that_the_scan_misses_is_refused_by_name(
    installation: Installation, small_store: SynthesizedSnapshot
) -> None:
    context, layout = ids(small_store)
    small_store.roots[1].rename(small_store.path.parent.parent / "rank-1-taken-away")
    installation.wait_for(lambda: not installation.snapshot_complete(context), what="a scan without rank 1")
    answer = installation.post(context, layout=layout)
    assert (answer.status_code, answer.json()["code"]) == (409, "snapshot-incomplete")
    assert "found none for rank 1" in answer.json()["detail"]


def test_two_restores_together_on_the_same_devices_both_finish(
    installation: Installation, small_store: SynthesizedSnapshot
) -> None:
    context, layout = ids(small_store)
    both = [installation.start_restore(context, layout=layout) for _ in range(2)]
    assert [installation.finish(one)["outcome"] for one in both] == ["restored", "restored"]
    assert installation.devices_free()
    digests = [installation.read_back(one) for one in both]
    assert digests[0] == digests[1]
    assert len({tuple(layers.values()) for layers in digests[0].values()}) == 4


def test_killed_while_reading_ends_once_and_frees_the_devices(
    installation: Installation, large_store: SynthesizedSnapshot
) -> None:
    context, layout = ids(large_store)
    restore_id = installation.start_restore(context, layout=layout)

    def reading() -> bool:
        attempt = installation.restore(restore_id)["attempts"][1]
        return attempt["state"] == "running"

    installation.wait_for(reading, what="rank 1 at work")
    killed = installation.signal_worker("host1", signal.SIGKILL)
    restore = installation.finish(restore_id, within_s=4 * LEASE_S)
    assert restore["outcome"] == "incomplete"
    assert restore["attempts"][1]["state"] == "lost"
    assert {attempt["state"] for attempt in restore["attempts"]} <= {"lost", "cancelled", "reported"}
    nothing_is_visible(installation, restore_id)
    assert installation.devices_free()
    installation.wait_for(lambda: installation.worker_pid("host1") != killed, what="a new rank worker")
    again = installation.finish(installation.start_restore(context, layout=layout))
    assert again["outcome"] == "restored", again["problem"]
    assert installation.restore(restore_id)["outcome"] == "incomplete"


def test_killed_between_ready_and_publish_retracts_everywhere(
    installation: Installation, small_store: SynthesizedSnapshot
) -> None:
    context, layout = ids(small_store)
    installation.signal_worker("host3", signal.SIGSTOP)
    restore_id = installation.start_restore(context, layout=layout)
    for rank in (0, 1, 2):
        installation.wait_for(
            lambda rank=rank: installation.attempt_state(restore_id, rank) == "ready",
            what=f"rank {rank} ready",
        )
    stopped = installation.signal_worker("host0", signal.SIGSTOP)
    installation.signal_worker("host3", signal.SIGCONT)
    installation.wait_for(lambda: installation.restore(restore_id)["decision"] == "publish", what="decision")
    installation.signal_worker("host0", signal.SIGKILL)
    restore = installation.finish(restore_id, within_s=4 * LEASE_S)
    assert (restore["outcome"], restore["decision"], restore["epoch"]) == ("incomplete", "retract", 2)
    assert restore["attempts"][0]["state"] == "lost"
    nothing_is_visible(installation, restore_id)
    assert installation.devices_free()
    installation.wait_for(lambda: installation.worker_pid("host0") != stopped, what="a new rank worker")
