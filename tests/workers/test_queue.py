"""The queues as workers consume them."""

from app.config import Settings
from app.queue import CONTROL_QUEUE, create_queue


def test_no_queue_of_a_worker_has_acknowledgements() -> None:
    """With them, a broker that dies before one arrives leaves the worker deaf for ever (see `_queues`)."""
    settings = {"broker_url": "redis://127.0.0.1:1/0", "node": "ring", "device": "host0"}
    celery = create_queue(Settings.model_validate(settings))
    consumed = {name: queue.no_ack for name, queue in celery.amqp.queues.items()}
    assert consumed == {CONTROL_QUEUE: True, "gpu.ring.host0": True}
