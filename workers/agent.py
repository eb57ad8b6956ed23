"""The node agent: says that the node is there, keeps one rank worker per device running, scans the stores.

python -m workers.agent
"""

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from app.config import KeyFileError, Settings, settings
from app.processes import Child, ChildSpec, inherited_environment, reap_leftovers
from app.queue import device_queue
from workers.control_client import ControlClient, ControlError, ControlUnreachableError, open_client
from workers.deep_check import DeepChecker
from workers.devices import device_kind
from workers.inventory import scan

log = logging.getLogger(__name__)

TICK_S: Final = 0.5
FIRST_RESTART_S: Final = 0.5
LONGEST_RESTART_S: Final = 30.0
# A worker that ran for so long was well: its next restart is quick again.
WELL_AFTER_S: Final = 60.0
MOST_PROBLEMS: Final = 1000


@dataclass(slots=True)
class Supervised:
    """One rank worker and when it may be started again."""

    device: str
    child: Child | None = None
    started_s: float = 0.0
    not_before_s: float = 0.0
    pause_s: float = FIRST_RESTART_S


class Agent:
    """Everything a node does besides its ranks."""

    def __init__(
        self, chosen: Settings, *, client: ControlClient, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = chosen
        self._client = client
        self._clock = clock
        self._checker = DeepChecker()
        self._workers = [Supervised(device=device) for device in chosen.devices]
        self._next_scan_s = 0.0
        self._registered = False

    def tick(self) -> None:
        """One round: register or scan when it is time, then look after the workers."""
        if self._clock() >= self._next_scan_s:
            self._next_scan_s = self._clock() + self._settings.scan_s
            self._report()
        if self._registered:
            for worker in self._workers:
                self._look_after(worker)

    def stop(self) -> None:
        """End every rank worker."""
        children = [worker.child for worker in self._workers if worker.child is not None]
        for child in children:
            child.ask_to_stop()
        for child in children:
            child.stop()

    def _report(self) -> None:
        try:
            self._client.register_node(self._settings.node, devices=self._devices())
            self._registered = True
            self._report_inventory()
        except (ControlError, ControlUnreachableError) as error:
            log.warning("node %s: not reported: %s", self._settings.node, error)

    def _devices(self) -> list[dict[str, Any]]:
        return [
            {"name": name, "kind": device_kind(name), "pool_bytes": self._settings.pool_bytes}
            for name in self._settings.devices
        ]

    def _report_inventory(self) -> None:
        """Tell the scan; send the documents that are not known yet, then tell it again."""
        result = scan(self._settings.store_roots)
        manifests = [found.to_wire() for found in result.found]
        told = [*result.problems, *self._checker.problems.items()][:MOST_PROBLEMS]
        problems = [{"path": path, "detail": detail[:2000]} for path, detail in told]
        node = self._settings.node
        wanted = self._client.record_inventory(node, manifests=manifests, problems=problems)
        for found in {one.sha256: one for one in result.found if one.sha256 in wanted.missing}.values():
            self._client.send_document(
                node, sha256=found.sha256, context_digest=found.name.context_digest, raw=found.raw
            )
        if wanted.missing:
            wanted = self._client.record_inventory(node, manifests=manifests, problems=problems)
        for found in result.found:
            if found.sha256 in wanted.unpinned:
                self._checker.give(found)
        self._pin_checked()

    def _pin_checked(self) -> None:
        for checked in self._checker.take():
            found = checked.found
            try:
                self._client.pin_document(
                    self._settings.node,
                    sha256=found.sha256,
                    root_path=str(found.root),
                    stream_sha256=str(checked.stream_sha256),
                )
            except ControlUnreachableError:
                self._checker.again(found)
                raise

    def _look_after(self, worker: Supervised) -> None:
        now_s = self._clock()
        status = worker.child.poll() if worker.child is not None else None
        if worker.child is not None and status is None:
            return
        if worker.child is not None:
            self._note_end(worker, status=status, now_s=now_s)
        if now_s >= worker.not_before_s:
            worker.child = Child.start(
                worker_spec(self._settings, device=worker.device), home=_home(self._settings)
            )
            worker.started_s = now_s

    def _note_end(self, worker: Supervised, *, status: int | None, now_s: float) -> None:
        if worker.child is None:
            return
        lines = "\n  ".join(worker.child.last_lines(count=5))
        log.error("rank worker of %s ended with status %s\n  %s", worker.device, status, lines)
        worker.child.stop()
        worker.child = None
        well = now_s - worker.started_s > WELL_AFTER_S
        worker.pause_s = FIRST_RESTART_S if well else min(worker.pause_s * 2, LONGEST_RESTART_S)
        worker.not_before_s = now_s + worker.pause_s


def _home(chosen: Settings) -> Path:
    return chosen.home / f"node-{chosen.node}"


def worker_spec(chosen: Settings, *, device: str) -> ChildSpec:
    """How to start the rank worker of one device; secrets travel in the environment, never as arguments."""
    environment = {
        # The ranks of a node share its cores: arithmetic that takes all of them in each would only wait.
        "OPENBLAS_NUM_THREADS": "1",
        **inherited_environment(),
        "SPARKGATE_NODE": chosen.node,
        "SPARKGATE_DEVICE": device,
        "SPARKGATE_CONTROL_URL": chosen.control_url,
        "SPARKGATE_API_KEY_FILE": str(chosen.api_key_file),
        "SPARKGATE_BROKER_URL": chosen.broker_url.get_secret_value() if chosen.broker_url else "",
        "SPARKGATE_STORE_ROOTS": ",".join(str(path.resolve()) for path in chosen.store_roots),
        "SPARKGATE_POOL_BYTES": str(chosen.pool_bytes),
    }
    if chosen.readers is not None:
        environment["SPARKGATE_READERS"] = str(chosen.readers)
    queue = device_queue(chosen.node, device)
    return ChildSpec(
        name=f"rank-worker-{device}",
        argv=(
            *(sys.executable, "-m", "celery", "--app", "workers.gpu_node", "worker"),
            *("--pool", "solo", "--concurrency", "1", "--prefetch-multiplier", "1"),
            *("--queues", queue, "--hostname", f"{queue}@%h", "--loglevel", "INFO"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        ),
        env=environment,
        cwd=Path.cwd(),
        stop_timeout_s=5.0,
    )


def main() -> int:
    """Run until SIGTERM or SIGINT."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    chosen = settings()
    try:
        client = open_client(chosen)
    except KeyFileError as error:
        log.error("%s", error)
        return 2
    for finding in reap_leftovers(_home(chosen)):
        log.warning("%s", finding)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    agent = Agent(chosen, client=client)
    try:
        while not ended.wait(TICK_S):
            agent.tick()
    finally:
        agent.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
