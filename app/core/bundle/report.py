"""REPORT.html: the cover for people. A letter, never the evidence; it refers to nothing outside itself."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from app.core.bundle.csv_text import digest_text
from app.core.bundle.derive import BundleRequest, Summary
from app.core.bundle.tables import COVERAGE_HEADER, HEADERS
from app.core.ledger.checkpoint import Checkpoint
from app.core.printable import printable

_STYLE: Final = """
body{font:11pt/1.4 Georgia,serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#111;background:#fff}
h1{font-size:1.6em;overflow-wrap:anywhere}h2{font-size:1.2em;margin-top:2em;border-bottom:1px solid #999}
table{border-collapse:collapse;width:100%;font-size:.8em}
th,td{border:1px solid #bbb;padding:.2em .4em;text-align:left;vertical-align:top;overflow-wrap:break-word}
.long{overflow-wrap:anywhere}th{background:#eee}code{font:.85em/1.3 monospace;overflow-wrap:anywhere}
dt{font-weight:bold}dd{margin:0 0 .4em 1.5em;overflow-wrap:anywhere}
.wide{overflow-x:auto}th,td{min-width:6.5em}.long{min-width:11em}
thead{display:table-header-group}tr{break-inside:avoid}h2{break-after:avoid}
@media print{.wide{overflow:visible}th,td{min-width:0}.long{min-width:8em}
body{margin:0;max-width:none;font-size:9pt}
@page{size:A4 landscape;margin:12mm}}
"""
_COVERED: Final = (
    "image",
    "title",
    "capability",
    "target",
    "tp",
    "dcp",
    "outcome",
    "deployable",
    "deployable_reason",
)
_EXCEPTED: Final = ("id", "image", "scope", "reason", "expires_at", "created_by")
_ENDED: Final = ("exception", "reason", "created_at", "created_by")
_FOUND: Final = ("code", "receipt", "image", "says", "value", "created_at")
_MOST_NAMED: Final = 200
_LONG_WORD: Final = 20


def report_page(
    request: BundleRequest,
    summary: Summary,
    *,
    head: Checkpoint,
    fingerprint: str,
    receipts: int,
    outside: int,
) -> bytes:
    """The page.

    Args:
        receipts: how many files of receipts there are. outside: rows the entries name that are not there.
    """
    parts = (
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8"><title>Evidence bundle</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>Evidence bundle of {escape(printable(request.name))}</h1>",
        "<p>This page is a summary. The evidence is the log, the receipts and the rows beside it; "
        "<code>VERIFY.md</code> says how to check them without the server that made them.</p>",
        *_scope(request, head=head, fingerprint=fingerprint),
        *_population(summary, receipts=receipts, outside=outside),
        *_coverage(summary),
        *_named(summary),
        *_open(summary),
        *_shown("Exceptions", "exceptions", _EXCEPTED, summary),
        *_shown("Exceptions ended early", "exception_ends", _ENDED, summary),
        *_shown("Withdrawals, amendments, known failures", "withdrawals", _FOUND, summary),
        *_shown("Conflicts", "conflicts", _FOUND, summary),
        "<h2>Not in this bundle</h2><p>Raw logs that a receipt names by digest only; rows of accounts and "
        "keys, which the log holds by digest; the contents of snapshots.</p>",
        "</body></html>\n",
    )
    return "\n".join(parts).encode("utf-8")


def _scope(request: BundleRequest, *, head: Checkpoint, fingerprint: str) -> Iterator[str]:
    period = f"{request.period_from or 'the beginning'} to {request.period_to or 'the head of the log'}"
    facts = {
        "Asked for": "everything" if request.everything else period,
        "Images": ", ".join(request.images) or "all",
        "Topology": request.topology or "all",
        "Entries of the log": f"{request.start} to {request.size - 1}" if request.size else "none",
        "Size of the log": str(head.size),
        "Root of the log": head.root.hex(),
        "Signed by the key": fingerprint,
    }
    yield "<h2>What was asked for</h2><dl>"
    yield from (f"<dt>{name}</dt><dd>{escape(printable(text))}</dd>" for name, text in facts.items())
    yield "</dl>"


def _population(summary: Summary, *, receipts: int, outside: int) -> Iterator[str]:
    yield "<h2>Population</h2>"
    counted = {
        "files of receipts": receipts,
        **{f"lines of tables/{name}.csv": summary.counts[name] for name in sorted(HEADERS)},
        "rows": summary.counts["rows"],
        "rows as context only": summary.counts["context"],
        "rows the entries name, outside the selection": outside,
    }
    yield from _table(("what", "count"), [[name, str(count)] for name, count in counted.items()])


def _coverage(summary: Summary) -> Iterator[str]:
    yield "<h2>Outcomes of scopes</h2>"
    yield from _table(("outcome", "scopes"), [[name, str(count)] for name, count in summary.outcomes.items()])
    yield from _shown("Coverage", "coverage", _COVERED, summary)


def _named(summary: Summary) -> Iterator[str]:
    yield "<h2>Images without evidence</h2>"
    images = summary.without_evidence
    if not images:
        yield "<p>None: a scope of every registered image was judged.</p>"
        return
    yield from _table(
        ("image", "title"), [[digest_text(name), title] for name, title in images[:_MOST_NAMED]]
    )
    yield from _more(len(images), shown=min(len(images), _MOST_NAMED), name="coverage")


def _open(summary: Summary) -> Iterator[str]:
    yield "<h2>Not established</h2>"
    if not summary.not_established:
        yield "<p>No verdict names anything.</p>"
        return
    lines = [[str(count), text] for count, text in summary.not_established]
    yield from _table(("scopes", "what was not shown"), lines)


def _shown(title: str, name: str, columns: Sequence[str], summary: Summary) -> Iterator[str]:
    yield f"<h2>{title}</h2>"
    lines = summary.shown[name]
    if not lines:
        yield "<p>None.</p>"
        return
    header = list(COVERAGE_HEADER if name == "coverage" else HEADERS[name])
    places = [header.index(column) for column in columns]
    yield from _table(columns, [[line[place] for place in places] for line in lines])
    yield from _more(summary.counts[name], shown=len(lines), name=name)


def _more(count: int, *, shown: int, name: str) -> Iterator[str]:
    if count > shown:
        yield f"<p>{shown} of {count}; all of them in <code>tables/{name}.csv</code>.</p>"


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> Iterator[str]:
    names = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in header)
    yield f'<div class="wide"><table><thead><tr>{names}</tr></thead><tbody>'
    yield from (f"<tr>{''.join(map(_cell, line))}</tr>" for line in lines)
    yield "</tbody></table></div>"


def _cell(text: str) -> str:
    """A cell; only in a word no column is wide enough for a line may break anywhere."""
    longest = max(map(len, text.split()), default=0)
    kind = ' class="long"' if longest > _LONG_WORD else ""
    return f"<td{kind}>{escape(printable(text))}</td>"
