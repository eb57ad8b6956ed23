"""What this process remembers of keys ends with every change that may make it untrue."""

import threading

from sqlalchemy.orm import Session

from app.db.session import after_commit

_lock = threading.Lock()
_count = 0


def changes() -> int:
    """How often keys or accounts were changed through this process; what was read before is void."""
    return _count


def note_change(session: Session) -> None:
    """Have everything remembered forgotten once the transaction of `session` is committed."""
    after_commit(session, _note)


def _note() -> None:
    global _count
    with _lock:
        _count += 1
