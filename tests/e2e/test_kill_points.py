"""Kill every process at every message: one end, nothing lost, nothing doubled, nothing left behind.

A few points run in `make test`; all of them in `make soak ARGS=kill-points`.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from uuid import UUID

import pytest
import redis

from app.config import Settings
from app.core.store.layout import OBJECTS_FOLDER
from app.core.store.synth import SynthesizedSnapshot, synthesize_store
from app.embedded import make_home
from app.queue import CONTROL_QUEUE, create_queue, device_queue
from tests.e2e.kill_points import KillPoint, Traveller, all_points, pass_through, prove_empty
from tests.e2e.kill_ring import DEVICES, KillRing, quiet_port

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

POINTS = tuple(all_points())
BYTES_PER_RANK = 600_000
# Every process, every trip, every kind of wire once; where a kill is hardest to get right.
SOME = (
    "worker before http ready",
    "worker after http publish",
    "worker before broker take restore",
    "web after http order",
    "web after http claim",
    "web before http publish",
    "web after sql admission",
    "postgres before sql publish",
    "postgres after sql cancel",
    "valkey before broker send restore",
    "control before http failure",
    "web before broker send discard",
)


@pytest.fixture(scope="module")
def traveller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traveller]:
    home, stores = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("stores")
    make_home(home)
    good, bad = (_store(stores / name, seed=seed) for seed, name in enumerate(("good", "bad")))
    _flip_a_byte(bad.roots[1])
    # Room for the pages of one restore and not of two: a page left behind makes the next one fail.
    ring = KillRing(home, stores=stores, web_port=quiet_port(), pool_bytes=BYTES_PER_RANK * 3 // 2)
    try:
        ring.start()
        for store in (good, bad):
            ring.register_layout(store)
        traveller = Traveller(ring, good=good, bad=bad)
        prove_empty(traveller)
        yield traveller
    finally:
        ring.stop()
        shutil.rmtree(stores, ignore_errors=True)


def _store(folder: Path, *, seed: int) -> SynthesizedSnapshot:
    return synthesize_store(
        folder, ranks=len(DEVICES), bytes_per_rank=BYTES_PER_RANK, object_bytes=131_072, seed=seed
    )


def _flip_a_byte(root: Path) -> None:
    path = max((root / OBJECTS_FOLDER).iterdir(), key=lambda path: path.stat().st_size)
    content = bytearray(path.read_bytes())
    content[1234] ^= 1
    path.write_bytes(content)


def test_table_names_each_point_once_and_has_enough_of_them() -> None:
    names = [str(point) for point in POINTS]
    assert len(set(names)) == len(names) >= 60
    assert set(SOME) <= set(names)
    assert {point.target for point in POINTS} == {"worker", "control", "web", "valkey", "postgres"}


@pytest.mark.parametrize("point", [point for point in POINTS if str(point) in SOME], ids=str)
def test_kill(traveller: Traveller, point: KillPoint) -> None:
    pass_through(traveller, point)


TASKS = {
    "a task nobody knows": ("rank.nothing", {}),
    "wrong arguments": ("rank.restore", {"rank": 1}),
    "an attempt that is no UUID": ("rank.restore", {"attempt_id": "../../etc"}),
    "an attempt nobody knows": ("rank.restore", {"attempt_id": str(UUID(int=7))}),
    "pages nobody holds": ("rank.discard", {"attempt_id": str(UUID(int=7))}),
}


def test_poison_tasks_cost_no_restore_and_no_worker(traveller: Traveller) -> None:
    ring = traveller.ring
    workers = {name: ring.children[name].pid for name in DEVICES}
    celery = create_queue(Settings.model_validate({"broker_url": ring.broker_url}))
    for (task, arguments), name in product(TASKS.values(), DEVICES):
        celery.send_task(task, kwargs=arguments, queue=device_queue("ring", name))
    prove_empty(traveller)
    assert {name: ring.children[name].pid for name in DEVICES} == workers
    assert [ring.children[name].poll() for name in DEVICES] == [None, None]


def test_bytes_that_are_no_message_cost_no_worker_and_no_restore(traveller: Traveller) -> None:
    """Kombu ends a worker with them, and its resident pages; ours throws them away."""
    ring = traveller.ring
    workers = {name: ring.children[name].pid for name in DEVICES}
    no_task = b'{"body": "W10=", "headers": {"task": "rank.restore"}, "properties": {"delivery_tag": "x"}}'
    with redis.Redis.from_url(ring.broker_url) as broker:
        for queue in (device_queue("ring", "host0"), CONTROL_QUEUE):
            broker.lpush(queue, b"\x00\xff no message", b"{}", b"[]", no_task)
    prove_empty(traveller)
    assert {name: ring.children[name].pid for name in DEVICES} == workers
    assert [ring.children[name].poll() for name in DEVICES] == [None, None]


def test_soak_points_run_only_where_they_are_asked_for() -> None:
    """`-m e2e` replaces the `-m "not soak"` of the project."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "e2e", __file__]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "test_poison_tasks" in listed
    assert "test_every_kill" not in listed


@pytest.mark.soak
@pytest.mark.parametrize("point", POINTS, ids=str)
def test_every_kill(traveller: Traveller, point: KillPoint) -> None:
    pass_through(traveller, point)
