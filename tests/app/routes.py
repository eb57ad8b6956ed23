"""Every route of the application, walked through the routers it includes."""

from collections.abc import Iterable, Iterator
from typing import Any


def walk(routes: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """(method, path) of every route; FastAPI keeps an included router as one route with its own inside."""
    for route in routes:
        included = getattr(route, "original_router", None)
        if included is not None:
            yield from walk(included.routes)
        else:
            yield from ((method, route.path) for method in sorted(route.methods - {"HEAD"}))
