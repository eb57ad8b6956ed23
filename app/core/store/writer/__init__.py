"""Publish entries of every kind: objects first, root document last (store-format §12)."""

from app.core.store.writer.calls import SYSTEM_CALLS, FileCalls
from app.core.store.writer.flat import BATCH_OBJECTS, PublishedSnapshot, publish_flat

__all__ = ["BATCH_OBJECTS", "SYSTEM_CALLS", "FileCalls", "PublishedSnapshot", "publish_flat"]
