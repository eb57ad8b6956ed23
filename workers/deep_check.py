"""Check everything a root document names, beside the node's other work and at the lowest priority.

What passes is pinned: restores of that document need not compute the serial stream digest again.
"""

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Final

from app.core.digest import Digest
from app.core.errors import CoreError
from app.core.store.files import RootFiles
from app.core.store.manifest import parse_flat_manifest
from app.core.store.verify import VerifyOutcome, verify
from workers.inventory import Found

log = logging.getLogger(__name__)

LOWEST_PRIORITY: Final = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What one complete check found: the digest of the stream, or why there is none."""

    found: Found
    stream_sha256: Digest | None
    problem: str | None


def check(found: Found) -> Checked:
    """Read every object of a root document, and the stream they form.

    The document that was found is checked, not whatever lies in its place meanwhile.
    """
    try:
        manifest = parse_flat_manifest(found.raw, identity=None, context_digest=found.name.context_digest)
        verified = verify(
            RootFiles(found.root), identity=manifest.identity, context_digest=found.name.context_digest
        )
    except CoreError as error:
        return Checked(found=found, stream_sha256=None, problem=str(error))
    if verified.outcome is not VerifyOutcome.VERIFIED or verified.entry is None:
        return Checked(found=found, stream_sha256=None, problem=verified.detail)
    if verified.entry.sha256 != found.sha256:
        problem = f"root document {found.name.path}: changed while it was checked"
        return Checked(found=found, stream_sha256=None, problem=problem)
    return Checked(found=found, stream_sha256=verified.stream_sha256, problem=None)


class DeepChecker:
    """One thread that checks what it is given, each document once."""

    def __init__(self, *, check: Callable[[Found], Checked] = check) -> None:
        self._check = check
        self._given: set[Digest] = set()
        self._waiting: SimpleQueue[Found] = SimpleQueue()
        self._done: SimpleQueue[Checked] = SimpleQueue()
        self._problems: dict[str, str] = {}
        threading.Thread(target=self._run, name="deep-check", daemon=True).start()

    @property
    def problems(self) -> dict[str, str]:
        """Why documents were not pinned, by path; shown with the inventory."""
        return dict(self._problems)

    def give(self, found: Found) -> None:
        """Have a document checked, unless it was given before."""
        if found.sha256 not in self._given:
            self._given.add(found.sha256)
            self._waiting.put(found)

    def take(self) -> list[Checked]:
        """The checks that passed since the last call."""
        passed = []
        while not self._done.empty():
            checked = self._done.get()
            if checked.problem is None:
                passed.append(checked)
            else:
                self._problems[str(checked.found.root / checked.found.name.path)] = checked.problem
        return passed

    def again(self, found: Found) -> None:
        """Forget that a document was given: its result could not be told."""
        self._given.discard(found.sha256)

    def _run(self) -> None:
        with suppress(OSError):
            # On Linux the priority is the thread's own.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
        while True:
            found = self._waiting.get()
            self._done.put(self._check(found))
            log.info("root document %s: checked", found.sha256)
