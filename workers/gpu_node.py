"""Celery entry on a GPU node: one process per device, solo pool, the device's own queue.

    celery -A workers.gpu_node worker --pool solo --concurrency 1 --queues gpu.<node>.<device>

The process opens its device and its generation before it takes the first message. It imports no CuPy:
`open_device` does, late, in this very process.
"""

import logging
import time
from functools import cache
from typing import Any, Final

from celery.signals import worker_init

from app.config import settings
from app.queue import RANK_DISCARD, RANK_READBACK, RANK_RESTORE, create_queue
from workers.control_client import open_client
from workers.decision_calls import DecisionCalls
from workers.devices import open_device
from workers.rank_restore import RankWorker
from workers.runtime import measured_runtime

log = logging.getLogger(__name__)

# How long a worker that starts waits for the control plane before it gives up and is started anew.
START_PATIENCE_S: Final = 60.0
# However large a restore: no worker waits longer for its turn to speak.
LONGEST_TURN_S: Final = 60.0

celery = create_queue(settings())


@cache
def rank_worker() -> RankWorker:
    """This process's one rank worker, under a generation of its own."""
    chosen = settings()
    if chosen.device is None:
        raise ValueError("SPARKGATE_DEVICE: expected the name of this worker's device, found nothing")
    client = open_client(chosen)
    device = open_device(chosen.device, pool_bytes=chosen.pool_bytes)
    generation = client.start_worker(
        chosen.node, device=chosen.device, runtime=measured_runtime(), patience_s=START_PATIENCE_S
    )
    log.info("device %s/%s: generation %d", chosen.node, chosen.device, generation)
    calls = DecisionCalls(celery.conf.broker_url)
    calls.start()
    return RankWorker(chosen, client=client, device=device, generation=generation, listening=calls.listening)


@worker_init.connect
def _open(**_: Any) -> None:
    # One line per poll would bury everything else.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    rank_worker()


@celery.task(name=RANK_RESTORE)
def restore(attempt_id: str, pause_s: float = 0.0) -> None:
    time.sleep(min(pause_s, LONGEST_TURN_S))
    rank_worker().restore(attempt_id)


@celery.task(name=RANK_READBACK)
def read_back(attempt_id: str, readback_id: str) -> None:
    rank_worker().read_back(attempt_id, readback_id=readback_id)


@celery.task(name=RANK_DISCARD)
def discard(attempt_id: str, pause_s: float = 0.0) -> None:
    rank_worker().discard(attempt_id, pause_s=min(pause_s, LONGEST_TURN_S))
