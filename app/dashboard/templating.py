"""The template environment: autoescaped, strict about names, with filters for sizes, times and digests."""

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from app.core.printable import printable_page
from app.dashboard.assets import HTMX, asset_url

SHORT_DIGEST: Final = 12
# Pictures and words that depend on their arguments alone; a list of fifty images shows a thousand of them.
_MARKS: Final = {
    "marks.html": ("brand", "icon", "sign", "badge", "state_mark", "grade_mark"),
    "cells.html": ("scope_words", "deployable_cell", "warnings_cell", "gate_cells"),
}
_SIZES: Final = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_SPANS: Final = (("day", 86_400), ("h", 3_600), ("min", 60))


def milliseconds(ns: int | None) -> str:
    """Nanoseconds as milliseconds with one decimal: 1234567890 is "1,234.6"."""
    return "–" if ns is None else f"{ns / 1e6:,.1f}"


def size(count: int | None) -> Markup | str:
    """A number of bytes in the largest binary unit that fits, with the exact number as its title."""
    if count is None:
        return "–"
    unit, factor = next((pair for pair in _SIZES if count >= pair[1]), ("B", 1))
    shown = f"{count / factor:,.1f} {unit}" if factor > 1 else f"{count:,} B"
    return Markup('<span title="{:,} bytes">{}</span>').format(count, shown)


def rate(count: int, ns: int) -> str:
    """Bytes in nanoseconds as GB/s (decimal, as storage is sold)."""
    return f"{count / ns:,.2f}" if ns > 0 else "–"


def short(digest: str | None) -> Markup | str:
    """The first characters of a digest, the whole of it as title."""
    if not digest:
        return Markup('<span class="muted">not known</span>')
    if len(digest) <= SHORT_DIGEST + 4:
        return Markup(f"<code>{escape(digest)}</code>")
    return Markup(f'<code title="{escape(digest)}">{escape(digest[:SHORT_DIGEST])}…</code>')


def distance(moment: datetime, *, now: datetime) -> str:
    """How far away a moment is, coarse enough to stay the same for a while."""
    seconds = (now - moment).total_seconds()
    unit, factor = next((pair for pair in _SPANS if abs(seconds) >= pair[1]), ("", 0))
    if not factor:
        return "just now" if seconds >= 0 else "in less than a minute"
    count = int(abs(seconds) // factor)
    text = f"{count} {unit}s" if unit == "day" and count != 1 else f"{count} {unit}"
    return f"{text} ago" if seconds >= 0 else f"in {text}"


def absolute(moment: datetime) -> str:
    """A moment in UTC to the second."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def last_instant(end: datetime) -> str:
    """A period's end, which is not in it: the last whole day before it, or the instant itself."""
    whole = (end.hour, end.minute, end.second, end.microsecond) == (0, 0, 0, 0)
    return f"{end - timedelta(days=1):%Y-%m-%d}" if whole else absolute(end)


@pass_context
def when(context: Context, moment: datetime | None) -> Markup | str:
    """A moment relative to now, the absolute time as title."""
    if moment is None:
        return "–"
    # Nothing of it is anybody's text, and a list has fifty.
    relative = distance(moment, now=context["now"])
    return Markup(f'<time datetime="{moment.isoformat()}" title="{absolute(moment)}">{relative}</time>')


@pass_context
def instant(context: Context, moment: datetime | None) -> Markup | str:
    """A moment in full: absolute, then relative."""
    if moment is None:
        return "–"
    return Markup('<time datetime="{}">{} <span class="muted">({})</span></time>').format(
        moment.isoformat(), absolute(moment), distance(moment, now=context["now"])
    )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("app.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "ms": milliseconds,
        "size": size,
        "short": short,
        "when": when,
        "instant": instant,
        "absolute": absolute,
        "last_instant": last_instant,
    }
    environment.globals |= {"asset": asset_url, "htmx_file": HTMX, "rate": rate}
    # Whoever imports a mark takes it from its template's module, which Jinja keeps.
    for template, names in _MARKS.items():
        marks = environment.get_template(template).module
        for name in names:
            setattr(marks, name, lru_cache(maxsize=256)(getattr(marks, name)))
    return environment


_ENVIRONMENT: Final = _environment()


def render(request: Request, template: str, **context: Any) -> str:
    """A template as text; every template sees the path it stands on.

    What documents and people call things may hold characters that hide, or that turn around what follows.
    """
    return printable_page(_ENVIRONMENT.get_template(template).render(path=request.url.path, **context))


def page(
    request: Request, template: str, *, status: int = 200, login: Any = None, **context: Any
) -> Response:
    """A whole page, never kept by a cache where it belongs to somebody."""
    body = render(request, template, login=login, **context)
    cached = "no-cache" if login is None else "private, no-store"
    return HTMLResponse(body, status_code=status, headers={"Cache-Control": cached})
