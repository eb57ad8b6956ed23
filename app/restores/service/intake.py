"""Orders of one moment are written down together, in one transaction.

A storm of orders costs one commit, one turn at the ledger's lock and a few statements for all that have come
while the last ones were written; an order that comes alone is written at once, and alone. Few threads do it:
what an order costs is work of this process, so that more of them would only stand in each other's way, and in
the way of heartbeats.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from fastapi import Response
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

from app.db.session import Database
from app.restores.service.admission import Looks
from app.restores.service.request import Ordered, Refusal, Wish, request_restores
from app.web.idempotency import Answer, Asked, answer_together

# While one transaction waits for its commit, the next one is made ready.
WRITERS: Final = 2
# So many are written together at most: whoever comes first must not wait for all who come after.
TOGETHER: Final = 32
# The database is away: what befell one would befell every other.
_AWAY: Final = (OperationalError, InterfaceError, PoolTimeoutError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """An order as it was placed: who asked what under which key, and how the new restore is answered."""

    asked: Asked
    wish: Wish
    answer: Callable[[Ordered], Answer]


class Intake:
    """Takes orders and writes them down; for one process.

    An order that is refused, or whose row the database refuses, leaves the others alone.
    """

    def __init__(self, database: Database, *, looks: Looks, silence_s: float) -> None:
        self._database = database
        self._looks = looks
        self._silence_s = silence_s
        self._writers = ThreadPoolExecutor(WRITERS, thread_name_prefix="orders")
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Placed, Future[Response]]] = deque()
        self._is_called = False

    def place(self, placed: Placed) -> Future[Response]:
        """Have an order written; its answer, or the error it is refused with, once that is committed."""
        future: Future[Response] = Future()
        with self._lock:
            self._waiting.append((placed, future))
            self._call_writer()
        return future

    def _call_writer(self) -> None:
        """Have the waiting orders looked at, unless somebody is on the way; the lock is held."""
        if self._waiting and not self._is_called:
            self._is_called = True
            self._writers.submit(self._write_waiting)

    def _write_waiting(self) -> None:
        with self._lock:
            self._is_called = False
            taken = [self._waiting.popleft() for _ in range(min(TOGETHER, len(self._waiting)))]
            self._call_writer()
        # Whoever has gone before his order was begun has not ordered.
        begun = [(placed, future) for placed, future in taken if future.set_running_or_notify_cancel()]
        if begun:
            results = self._written([placed for placed, _ in begun])
            for (_, future), result in zip(begun, results, strict=True):
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)

    def _written(self, placed: Sequence[Placed]) -> Sequence[Response | Exception]:
        """The answer of each order, or its error; together, and one by one where that fails."""
        try:
            return self._write(placed)
        except Exception as error:  # noqa: BLE001  whatever it is, it is told to whom it befell
            if len(placed) == 1 or isinstance(error, _AWAY):
                return [error] * len(placed)
            return [result for one in placed for result in self._written([one])]

    def _write(self, placed: Sequence[Placed]) -> Sequence[Response | Exception]:
        with self._database.transaction() as session:
            return answer_together(
                session,
                [one.asked for one in placed],
                produce=lambda places: self._answers(session, [placed[place] for place in places]),
            )

    def _answers(self, session: Session, placed: Sequence[Placed]) -> list[Answer | Refusal]:
        made = request_restores(session, [one.wish for one in placed], silence_s=self._silence_s)
        if any(isinstance(one, Ordered) and one.may_start for one in made):
            self._looks.look_after(session)
        return [
            one.answer(ordered) if isinstance(ordered, Ordered) else ordered
            for one, ordered in zip(placed, made, strict=True)
        ]
