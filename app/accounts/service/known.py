"""Keys recognised a moment ago: a worker that speaks five times a second is looked up once.

A key that is revoked, or whose account is changed, through this process is refused at once; through another
process, or by its expiry, within `REMEMBERED_S`.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError

from app.accounts import repository
from app.accounts.service.changes import changes
from app.accounts.service.keys import authenticate_key
from app.core.digest import sha256
from app.db.session import Database
from app.web.auth import Principal

# In seconds; the longest that a revocation beside this process may go unnoticed.
REMEMBERED_S: Final = 1.0
# The bound only keeps the memory small: a process knows a few keys per node.
_MOST_KNOWN: Final = 4096

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    principal: Principal
    until_s: float
    changes: int


class KnownKeys:
    """Recognises the keys of one application; safe to use from several threads."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._uses = KeyUses(database)
        # By digest: the texts of keys stay nowhere.
        self._known: dict[str, _Known] = {}

    def remembered(self, text: str) -> Principal | None:
        """The principal of a key that was recognised within the last `REMEMBERED_S`; asks nobody."""
        known = self._known.get(_name(text))
        if known is None or known.changes != changes() or known.until_s < self._clock():
            return None
        return known.principal

    def recognise(self, text: str) -> Principal | None:
        """The principal behind a key, asked of the database unless another request just did."""
        principal = self.remembered(text)
        if principal is not None:
            return principal
        # Both read before the question: an answer must not outlive a change made while it was on its way.
        until_s, seen = self._clock() + REMEMBERED_S, changes()
        with self._database.reading() as session:
            principal = authenticate_key(session, text=text)
        if principal is None:
            return None
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[_name(text)] = _Known(principal=principal, until_s=until_s, changes=seen)
        if principal.key_id is not None:
            self._uses.note(principal.key_id)
        return principal


def _name(text: str) -> str:
    return str(sha256(text.encode("utf-8", "surrogatepass")))


class KeyUses:
    """Notes when each key was last used: to the minute, written at most once a minute, and by a request that
    succeeds whether that write does or not."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._noted: dict[UUID, int] = {}
        self._lock = threading.Lock()

    def note(self, key_id: UUID) -> None:
        """Note that a key is used now; the session that authenticated it is closed by then."""
        minute = int(time.monotonic() // 60)
        with self._lock:
            if self._noted.get(key_id) == minute:
                return
            self._noted[key_id] = minute
        try:
            with self._database.transaction() as session:
                repository.note_use(session, key_id=key_id)
        except SQLAlchemyError as error:
            log.warning("key %s: its use was not noted: %s", key_id, type(error).__name__)
