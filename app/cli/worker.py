"""``sparkgate worker``: become the node agent of this machine."""

import os
import sys


def worker() -> None:
    """Run the node agent: registers this node, scans its stores, keeps one rank worker per device running.

    Reads SPARKGATE_NODE, SPARKGATE_DEVICES, SPARKGATE_STORE_ROOTS, SPARKGATE_CONTROL_URL,
    SPARKGATE_API_KEY_FILE and SPARKGATE_BROKER_URL.
    """
    # The app never imports the workers: the agent replaces this process.
    os.execv(sys.executable, [sys.executable, "-m", "workers.agent"])
