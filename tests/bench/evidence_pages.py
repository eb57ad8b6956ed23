"""Pages and lists of evidence through HTTP: a real uvicorn, every request as a browser sends it."""

from datetime import timedelta
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from sqlalchemy import text

from app.accounts import service as accounts
from app.core.digest import sha256
from app.core.qualify.values import Basis
from app.dashboard.access import COOKIE
from app.db.session import Database, open_database
from app.receipts.service import Submission
from app.receipts.service.stored import facts_of_bytes
from app.verdicts.service.submit import submit_many
from app.web.paging import Cursor, Page
from tests.app.evidence_documents import raw, receipt
from tests.bench.control_figures import Record, spread
from tests.bench.control_site import Site

DEPTHS: Final = (0.1, 0.5, 0.9, 0.999)
# Receipts that are really judged, over the rows that are only loaded: pages show these.
REAL_IMAGES: Final = 20
REAL_PER_IMAGE: Final = 20
DAY: Final = "2026-01-05"

Asked = tuple[str, str]
"""The name of a figure, and the address."""


def image_of(name: str) -> str:
    return str(sha256(name.encode()))


def add_real(database: Database) -> list[str]:
    """Receipts that are judged as any other; their digests."""
    made = []
    for number in range(REAL_IMAGES):
        documents = [
            raw(
                receipt(
                    artifact__image_id=f"sha256:{image_of(f'real{number}')}",
                    profile__profile_id=f"real{one}",
                    case__restore_oracle="red" if number % 3 else "blue",
                )
            )
            for one in range(REAL_PER_IMAGE)
        ]
        given = [Submission(raw=one, facts=facts_of_bytes(one)) for one in documents]
        with database.transaction() as session:
            done = submit_many(session, submissions=given, by="bench", grade=Basis.SELF_CONSISTENT)
        made += [one.sha256 for one in done]
    return made


def single_pages(digests: list[str], *, rows: int) -> list[Asked]:
    """Pages of one thing."""
    one, other = image_of("real1"), image_of("real3")
    many, few = image_of("i77"), image_of(f"i{rows // 40}")
    return [
        ("image page", f"/images/{one}"),
        ("image page, rejected", f"/images/{other}"),
        ("compare page", f"/images/compare?{urlencode({'a': one, 'b': other})}"),
        ("compare API", f"/api/v1/verdicts/comparison?{urlencode({'left': many, 'right': few})}"),
        ("receipt page", f"/receipts/{digests[7]}"),
        ("receipt API", f"/api/v1/receipts/{digests[9]}"),
        ("receipt bytes", f"/api/v1/receipts/{digests[9]}/document"),
    ]


def lists(rows: int) -> list[tuple[str, str, str, str, str]]:
    """Name, address, and what the list walks: table, key, condition."""
    scopes = ("verdict_current", "verdict_id", "kind = 'scope'")
    every = {
        "page of images": ("/images?tab=qualified", f"{scopes[2]} AND outcome = 'qualified'"),
        "page of images, rejected": ("/images?tab=rejected", f"{scopes[2]} AND outcome = 'rejected'"),
        "page of images, research only": (
            "/images?tab=research-only",
            f"{scopes[2]} AND outcome IN ('research-only', 'implemented')",
        ),
        "page of images, other": ("/images?tab=other", scopes[2]),
        "page of images, topology": ("/images?tab=qualified&topology=tp1-dcp4", scopes[2]),
        "page of images, model": ("/images?tab=qualified&model=model-20", scopes[2]),
        "page of images, gate": ("/images?tab=rejected&gate=semantic", scopes[2]),
        "page of images, code": ("/images?tab=other&code=CODE_5", scopes[2]),
        "page of images, commit": (
            "/images?tab=qualified&commit=a87ff679a2f3e71d9181a67b7542122c01234567",
            scopes[2],
        ),
        "page of images, text": (f"/images?tab=qualified&text={image_of('i70')[:12]}", scopes[2]),
        "page of images, frequent word": ("/images?tab=qualified&text=qualified", scopes[2]),
        "page of images, no word": ("/images?tab=qualified&text=nobody", scopes[2]),
        "verdicts API": ("/api/v1/verdicts", scopes[2]),
        "verdicts API, qualified": (
            "/api/v1/verdicts?outcome=qualified",
            f"{scopes[2]} AND outcome = 'qualified'",
        ),
        "verdicts API, receipts": ("/api/v1/verdicts?kind=receipt", "kind = 'receipt'"),
        "verdicts API, text": ("/api/v1/verdicts?q=rejected+model", scopes[2]),
        "verdicts API, gate": ("/api/v1/verdicts?gate=semantic=failed", scopes[2]),
        "verdicts API, code of receipts": ("/api/v1/verdicts?kind=receipt&code=CODE_7", "kind = 'receipt'"),
    }
    found = [(name, path, *scopes[:2], where) for name, (path, where) in every.items()]
    found += [
        ("page of receipts", "/receipts", "receipt", "sha256", "true"),
        ("page of receipts, kind", "/receipts?kind=publication-receipt", "receipt", "sha256", "true"),
        ("page of receipts, capability", "/receipts?capability=restore", "receipt", "sha256", "true"),
        ("page of receipts, rare capability", "/receipts?capability=serving", "receipt", "sha256", "true"),
        (
            "page of receipts, schema and kind",
            "/receipts?kind=publication-receipt&schema=schema-5/v1",
            "receipt",
            "sha256",
            "true",
        ),
        ("receipts API", "/api/v1/receipts", "receipt", "sha256", "true"),
        ("receipts API, image", f"/api/v1/receipts?image={image_of('i77')}", "receipt", "sha256", "true"),
        ("page of images, no evidence", "/images?tab=no-evidence", "image", "id", "true"),
        ("page of images, registered", "/images?tab=registered", "image", "id", "true"),
        ("images API", "/api/v1/images", "image", "id", "true"),
    ]
    day = f"kind = 'scope' AND created_at < timestamptz '{DAY}' + interval '1 day'"
    for name, path in (
        ("qualified on a day", f"/qualified?on={DAY}"),
        ("qualified on a day, topology", f"/qualified?on={DAY}&tp=4&dcp=4"),
        ("verdicts API on a day", f"/api/v1/verdicts?on={DAY}&outcome=qualified"),
        ("verdicts API on a day, code", f"/api/v1/verdicts?on={DAY}&code=CODE_10"),
    ):
        found.append((name, path, "verdict", "id", day))
    return found


class Visitor:
    """A browser that is logged in and an operator's client, both over one connection each."""

    def __init__(self, site: Site, database: Database) -> None:
        if site.credentials is None:
            raise RuntimeError("site: expected one that was started")
        self.record = Record()
        self._client = site.client(self.record)
        with database.transaction() as session:
            login = accounts.log_in(
                session,
                name=site.credentials.login_name,
                password=site.credentials.password,
                life=timedelta(hours=1),
            )
        if login is None:
            raise RuntimeError("login: expected one, found none")
        self._cookie = f"{COOKIE}={login.token}"
        self._secret = (site.settings.secret_key_file or site.home).read_bytes().strip()

    def look(self, kind: str, path: str) -> None:
        """One request; anything but 200 ends the measurement."""
        status, _ = self._client.ask_bytes(kind, "GET", path, cookie=self._cookie)
        if status != 200:
            raise RuntimeError(f"GET {path}: expected 200, found {status}")

    def deep(self, path: str, cursor: Cursor) -> str:
        """The address of the page after a row."""
        plain, _, query = path.partition("?")
        filters = sorted(parse_qsl(query))
        page = Page(size=50, after=None, secret=self._secret, scope=f"{plain}?{filters}")
        return f"{path}{'&' if query else '?'}{urlencode({'page_token': page.token(cursor)})}"


def measure_pages(site: Site, *, rows: int, rounds: int) -> dict[str, Any]:
    """Every page and list, each `rounds` times; lists also far down."""
    database = open_database(site.settings)
    try:
        digests = add_real(database)
        visitor = Visitor(site, database)
    finally:
        database.dispose()
    for kind, path in single_pages(digests, rows=rows):
        for _ in range(rounds + 1):
            visitor.look(kind, path)
    for kind, path, table, key, where in lists(rows):
        for _ in range(rounds + 1):
            visitor.look(kind, path)
        cursors = [_row_at(site, table=table, key=key, where=where, depth=depth) for depth in DEPTHS]
        for number in range(rounds):
            cursor = cursors[number % len(cursors)]
            if cursor is not None:
                visitor.look(f"{kind}, deep", visitor.deep(path, cursor))
    return {kind: _figures(samples) for kind, samples in visitor.record.samples.items()}


def _figures(samples: list[Any]) -> dict[str, Any]:
    """Without the first, which finds everything cold."""
    server, client = ([getattr(one, name) for one in samples[1:]] for name in ("server_ms", "client_ms"))
    told = {"asked": len(server), "first_ms": samples[0].client_ms}
    for name, values in (("server", spread(server)), ("client", spread(client))):
        told |= {f"{name}_p50_ms": values["p50"], f"{name}_p95_ms": values["p95"]}
    return told


def _row_at(site: Site, *, table: str, key: str, where: str, depth: float) -> Cursor | None:
    query = text(
        f"SELECT created_at, {key} FROM {table} WHERE {where} ORDER BY created_at DESC, {key} DESC"
        f" OFFSET (SELECT (count(*) * {depth})::bigint FROM {table} WHERE {where}) LIMIT 1"
    )
    with site.engine.connect() as connection:
        row = connection.execute(query).one_or_none()
    return None if row is None else Cursor(created_at=row[0], id=row[1])
