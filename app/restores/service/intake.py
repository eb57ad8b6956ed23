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
from functools import partial
from typing import Final, NamedTuple

from fastapi import Response
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

from app.db.session import Database
from app.restores.service.admission import Looks
from app.restores.service.request import Ordered, Refusal, Wish, request_restores
from app.web.idempotency import Answer, Asked, answer_together
from app.web.lanes import WRITERS

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


class _Waiting(NamedTuple):
    placed: Placed
    future: Future[Response]


_Result = Response | BaseException


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
        self._waiting: deque[_Waiting] = deque()
        self._is_called = False

    def place(self, placed: Placed) -> Future[Response]:
        """Have an order written; its answer, or the error it is refused with, once that is committed."""
        future: Future[Response] = Future()
        with self._lock:
            self._waiting.append(_Waiting(placed, future))
            self._call_writer()
        return future

    def _call_writer(self) -> None:
        """Have the waiting orders written, unless somebody is on the way; the lock is held."""
        if self._waiting and not self._is_called:
            self._is_called = True
            begun: list[_Waiting] = []
            self._submit(partial(self._write_waiting, begun), orders=begun)

    def _submit(self, write: Callable[[], Sequence[_Result]], *, orders: Sequence[_Waiting]) -> None:
        """Write in a thread of the writers, which catches whatever is raised, and tell who has ordered."""
        self._writers.submit(write).add_done_callback(partial(self._tell, orders))

    def _write_waiting(self, begun: list[_Waiting]) -> Sequence[_Result]:
        """Begin all that wait by now, up to a bound."""
        with self._lock:
            self._is_called = False
            taken = [self._waiting.popleft() for _ in range(min(TOGETHER, len(self._waiting)))]
            self._call_writer()
        # Whoever has gone before his order was begun has not ordered.
        begun += [one for one in taken if one.future.set_running_or_notify_cancel()]
        return self._write([one.placed for one in begun]) if begun else ()

    def _tell(self, orders: Sequence[_Waiting], done: Future[Sequence[_Result]]) -> None:
        """The answer of each order, or its error; where they failed together, each is written alone."""
        error = done.exception()
        if error is not None and len(orders) > 1 and not isinstance(error, _AWAY):
            for one in orders:
                self._submit(partial(self._write, [one.placed]), orders=[one])
            return
        results = done.result() if error is None else [error] * len(orders)
        for one, result in zip(orders, results, strict=True):
            if isinstance(result, BaseException):
                one.future.set_exception(result)
            else:
                one.future.set_result(result)

    def _write(self, placed: Sequence[Placed]) -> Sequence[_Result]:
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
