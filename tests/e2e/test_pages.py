"""Every page in headless Chromium, found by its links: no error, no overflow, legible, reached by Tab."""

import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright
from sqlalchemy import create_engine, text

from app.config import Settings
from app.db.migrate import upgrade
from app.db.session import Database, open_database
from app.embedded import DatabaseUrls, create_database
from app.main import create_app
from app.models import Base, Device, Readback, Restore
from tests.app import dashboard_rows as rows
from tests.conftest import database_urls
from tests.e2e import page_checks as checks

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# How many pages of one shape are visited: every state of a restore, otherwise the first few.
MOST_OF_A_SHAPE = {"/restores/{id}": 9, "/images?": 6} | dict.fromkeys(
    ("/receipts/{hex}?", "/images/compare?", "/declarations/new?", "/declarations/new", "/qualified?"), 1
)
FEW = 2
# The same with and without rows.
REFERENCE = frozenset({"/docs/api", "/docs/problems"})
EXPECTED_SHAPES = {
    "/",
    "/restores",
    "/restores?",
    "/restores/new",
    "/restores/new?",
    "/restores/{id}",
    "/restores/{id}/cancel",
    "/restores/{id}/ranks/{n}",
    "/snapshots",
    "/snapshots/{hex}.{hex}",
    "/images",
    "/images/{id}",
    "/images?",
    "/images/{hex}",
    "/images/compare",
    "/images/compare?",
    "/qualified",
    "/receipts",
    "/receipts/{hex}",
    "/receipts/{hex}?",
    "/declarations/new?",
    "/ledger",
    "/ledger/{n}",
    "/nodes/node-a",
    "/docs/api",
    "/docs/problems",
}


@dataclass
class RecordedMessages:
    """Rank workers that are not there."""

    sent: int = 0

    def restore(self, queue: str, *, attempt_id: UUID, pause_s: float = 0.0) -> None:
        self.sent += 1

    def readback(self, queue: str, *, attempt_id: UUID, readback_id: UUID) -> None:
        self.sent += 1

    def discard(self, queue: str, *, attempt_id: UUID, pause_s: float = 0.0) -> None:
        self.sent += 1

    def decided(self, *, restore_id: UUID) -> None:
        self.sent += 1


@dataclass(frozen=True)
class Site:
    """A running dashboard, its database and the restores in it."""

    address: str
    database: Database
    owner_url: str
    folder: Path

    def fill(self, *, with_rows: bool = True) -> dict[str, UUID]:
        """Start every test from the same rows, or from none but the people."""
        engine = create_engine(self.owner_url)
        names = ", ".join(f'"{table.name}"' for table in Base.metadata.sorted_tables)
        with engine.begin() as connection:
            connection.execute(text(f"TRUNCATE {names} RESTART IDENTITY CASCADE"))
        engine.dispose()
        with self.database.transaction() as session:
            if with_rows:
                return rows.add_everything(session, folder=self.folder)
            rows.add_people(session)
            return {}


@pytest.fixture(scope="module")
def site(
    postgres_server: DatabaseUrls, worker_id: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    name = f"pages_{worker_id}"
    create_database(postgres_server.admin, name=name)
    urls = database_urls(postgres_server, name=name)
    upgrade(urls.owner)
    settings = Settings.model_validate({"database_url": urls.app, "broker_url": "redis://127.0.0.1:1/0"})
    database = open_database(settings)
    app = create_app(settings, database=database, messages=RecordedMessages())
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="off")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    folder = tmp_path_factory.mktemp("store")
    yield Site(address=f"http://127.0.0.1:{port}", database=database, owner_url=urls.owner, folder=folder)
    server.should_exit = True
    thread.join(10)
    database.dispose()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("chromium: expected on the PATH, found none")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@dataclass
class Tab:
    """One page of the browser, logged in, with everything its console said."""

    page: Page
    site: Site
    said: list[str]

    def open(self, path: str) -> None:
        self.page.goto(self.site.address + path, wait_until="networkidle" if path == "/login" else "load")


def open_tab(chromium: Browser, site: Site, **options: Any) -> Tab:
    context = chromium.new_context(**options)
    tab = Tab(page=context.new_page(), site=site, said=[])
    tab.page.on("console", lambda message: tab.said.append(f"{message.type}: {message.text}"))
    tab.page.on("pageerror", lambda error: tab.said.append(str(error)))
    tab.open("/login")
    tab.page.fill("#name", rows.NAME)
    tab.page.fill("#password", rows.PASSWORD)
    tab.page.click("main button")
    tab.page.wait_for_url(f"{site.address}/")
    return tab


def shape_of(path: str) -> str:
    """What kind of page an address is of."""
    plain, query, _ = path.partition("?")
    plain = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "{id}", plain)
    plain = re.sub(r"[0-9a-f]{64}", "{hex}", plain)
    return re.sub(r"(?<=/)\d+", "{n}", plain) + query


def check_page(tab: Tab, path: str) -> None:
    """Everything a page must be, whatever it shows."""
    page = tab.page
    assert page.evaluate(checks.TOO_WIDE_PX) == 0, f"{path} is too wide"
    assert page.evaluate(checks.OUTSIDE) == [], path
    assert page.evaluate(checks.OVERLAPPING) == [], path
    assert page.evaluate(checks.SQUEEZED) == [], path
    assert page.evaluate(checks.CONTRAST) == [], path
    assert page.locator("h1").count() == 1, f"{path}: expected one heading"
    assert page.title().endswith("· sparkgate"), path


def check_focus(tab: Tab, path: str, *, most: int) -> None:
    """Tab reaches the controls one after the other; each is seen and shows that it has the focus."""
    count = tab.page.evaluate(checks.WATCH_FOCUS, checks.FOCUSABLE)
    for _ in range(min(count, most)):
        tab.page.keyboard.press("Tab")
    focused = tab.page.evaluate(checks.FOCUSED)
    assert [at for at, _, _, _ in focused] == list(range(min(count, most))), f"{path}: {focused}"
    assert [name for _, outlined, _, name in focused if not outlined] == [], f"{path}: no outline"
    assert [name for _, _, seen, name in focused if not seen] == [], f"{path}: out of sight"


def walk(tab: Tab, *, most_tabs: int = 0, but: frozenset[str] = frozenset()) -> Counter[str]:
    """Visit the pages by their links from the overview on; returns how many of each shape were seen."""
    seen: Counter[str] = Counter()
    wanted, known = ["/"], {"/", *but}
    while wanted:
        path = wanted.pop(0)
        seen[shape_of(path)] += 1
        response = tab.page.goto(tab.site.address + path, wait_until="load")
        assert response is not None
        assert response.status == 200, f"{path}: {response.status}"
        check_page(tab, path)
        if most_tabs:
            check_focus(tab, path, most=most_tabs)
        for target in map(str, tab.page.evaluate(checks.LINKS)):
            link, _, place = target.partition("#")
            if place and link in ("", path.partition("?")[0]):
                assert tab.page.locator(f"[id='{unquote(place)}']").count() == 1, (
                    f"{path}: nothing is named {place}"
                )
            shape = shape_of(link)
            waiting = sum(shape_of(one) == shape for one in wanted)
            if not link or link in known or not link.startswith("/") or link == "/openapi.json":
                continue
            if seen[shape] + waiting < MOST_OF_A_SHAPE.get(shape, FEW):
                known.add(link)
                wanted.append(link)
    return seen


@pytest.mark.parametrize(("width", "scheme", "most_tabs"), [(390, "light", 25), (1280, "dark", 12)])
def test_every_page_is_clean_legible_and_reached_by_tab(
    site: Site, chromium: Browser, width: int, scheme: str, most_tabs: int
) -> None:
    site.fill()
    tab = open_tab(chromium, site, viewport={"width": width, "height": 900}, color_scheme=scheme)
    seen = walk(tab, most_tabs=most_tabs)
    assert EXPECTED_SHAPES - {re.sub(r"\?.*", "?", shape) for shape in seen} == set()
    assert seen["/restores/{id}"] == 7, "restored, corrupt, cancelled and those that are open"
    assert tab.said == []
    tab.page.context.close()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_every_page_without_anything_to_show_is_clean_too(
    site: Site, chromium: Browser, width: int, scheme: str
) -> None:
    site.fill(with_rows=False)
    tab = open_tab(chromium, site, viewport={"width": width, "height": 900}, color_scheme=scheme)
    seen = walk(tab, most_tabs=12 if width == 390 else 0, but=REFERENCE)
    assert {"/", "/restores", "/restores/new", "/snapshots", "/images", "/receipts", "/ledger"} <= set(seen)
    for path in ("/", "/restores", "/restores/new", "/snapshots", "/images", "/receipts", "/qualified"):
        tab.open(path)
        assert tab.page.locator(".empty").count() >= 1, f"{path} does not explain its emptiness"
    assert tab.said == []
    tab.page.context.close()


def test_the_checks_find_what_they_look_for(site: Site, chromium: Browser) -> None:
    restores = site.fill()
    tab = open_tab(chromium, site, viewport={"width": 390, "height": 900})
    tab.open(f"/restores/{restores['restored']}")
    change = "(elt => {{ elt.style.{} }})(document.querySelector('{}'))"
    tab.page.evaluate(change.format("color = '#999'", "h1"))
    tab.page.evaluate(change.format("width = '500px'", ".evidence"))
    tab.page.evaluate(change.format("outline = 'none'", "nav a"))
    tab.page.evaluate("document.querySelector('[data-label]').dataset.label = 'far too long for its column'")
    tab.page.evaluate("setTimeout('1')")
    assert any(line.endswith("H1.null Engine self-test") for line in tab.page.evaluate(checks.CONTRAST))
    assert any("DIV" in line for line in tab.page.evaluate(checks.OUTSIDE))
    assert tab.page.evaluate(checks.OVERLAPPING) == ["far too long for its column"]
    assert tab.page.evaluate(checks.TOO_WIDE_PX) > 0
    tab.page.evaluate(change.format("width = '1ch'", ".standing"))
    assert len(tab.page.evaluate(checks.SQUEEZED)) == 1
    assert any("Content Security Policy" in line for line in tab.said)
    with pytest.raises(AssertionError, match="no outline"):
        check_focus(tab, "here", most=5)
    tab.open("/")
    tab.page.evaluate(change.format("fill = '#777'", ".ring-text"))
    tab.page.evaluate(change.format("fill = '#bbb'", ".ring-count"))
    found = tab.page.evaluate(checks.CONTRAST)
    assert [line.split()[1] for line in found] == ["text.ring-text", "text.ring-count"]
    tab.page.context.close()


def test_an_open_restore_follows_by_itself_and_stops(site: Site, chromium: Browser) -> None:
    restore_id = site.fill()["waiting"]
    tab = open_tab(chromium, site)
    answers: list[int] = []
    tab.open(f"/restores/{restore_id}")
    tab.page.on("response", lambda answer: answers.append(answer.status) if "/live" in answer.url else None)
    tab.page.wait_for_timeout(2500)
    assert answers[:2] == [304, 304], "what has not changed is not sent again"
    tab.page.focus("footer a")
    with site.database.transaction() as session:
        restore = session.get_one(Restore, restore_id)
        restore.state, restore.outcome, restore.ended_at = "finished", "failed", restore.created_at
    tab.page.wait_for_selector(".verdict.is-failed", timeout=5000)
    assert tab.page.evaluate("document.activeElement.textContent") == "API"
    asked = len(answers)
    tab.page.wait_for_timeout(2000)
    assert len(answers) == asked, "a finished restore is not asked for again"
    assert tab.said == []
    tab.page.context.close()


def test_reading_back_is_asked_for_and_shown_without_reloading(site: Site, chromium: Browser) -> None:
    restore_id = site.fill()["restored"]
    tab = open_tab(chromium, site)
    tab.open(f"/restores/{restore_id}")
    tab.page.click("#read-back")
    tab.page.wait_for_selector("text=0 of 4 ranks have answered")
    assert tab.page.is_disabled("#read-back")
    with site.database.transaction() as session:
        readback = session.query(Readback).filter(Readback.ended_at.is_(None)).one()
        readback.ended_at, readback.problem = readback.created_at, {"code": "rank-silent", "detail": "only 2"}
    tab.page.wait_for_selector("text=only 2", timeout=5000)
    assert tab.page.is_enabled("#read-back")
    assert tab.said == []
    tab.page.context.close()


def test_a_session_that_ends_takes_the_page_to_the_login(site: Site, chromium: Browser) -> None:
    restore_id = site.fill()["waiting"]
    tab = open_tab(chromium, site)
    tab.open(f"/restores/{restore_id}")
    tab.page.context.clear_cookies()
    tab.page.wait_for_url(f"{site.address}/login?next=/restores/{restore_id}", timeout=5000)
    tab.page.context.close()


def test_choosing_another_snapshot_renews_the_form(site: Site, chromium: Browser) -> None:
    site.fill()
    tab = open_tab(chromium, site)
    tab.open("/restores/new")
    once = tab.page.input_value("[name=once]")
    tab.page.dispatch_event("#snapshot", "change")
    tab.page.wait_for_function("old => document.querySelector('[name=once]').value !== old", arg=once)
    assert tab.page.input_value("#layout") != ""
    tab.page.dblclick("main button.primary", no_wait_after=True)
    tab.page.wait_for_selector(".verdict")
    with site.database.reading() as session:
        assert session.query(Restore).count() == 8, "a double click is one restore"
    assert tab.said == []
    tab.page.context.close()


def test_a_cancellation_is_followed_to_its_end(site: Site, chromium: Browser) -> None:
    restore_id = site.fill()["cancelling"]
    tab = open_tab(chromium, site, viewport={"width": 390, "height": 900})
    tab.open(f"/restores/{restore_id}")
    with site.database.transaction() as session:
        restore = session.get_one(Restore, restore_id)
        restore.attempts[2].retract_heard_at = restore.cancel_requested_at
    tab.page.wait_for_selector("text=every rank that had begun was told", timeout=5000)
    with site.database.transaction() as session:
        restore = session.get_one(Restore, restore_id)
        restore.state, restore.outcome, restore.ended_at = "finished", "incomplete", restore.created_at
    tab.page.wait_for_selector("text=no rank holds a page of it", timeout=5000)
    assert tab.page.locator("#live[hx-get]").count() == 0, "what is over is not asked for again"
    check_page(tab, "the end of a cancellation")
    assert tab.said == []
    tab.page.context.close()


def test_the_overview_follows_and_stops(site: Site, chromium: Browser) -> None:
    site.fill()
    tab = open_tab(chromium, site)
    assert tab.page.locator(".ring-device.is-held").count() == 4
    with site.database.transaction() as session:
        for device in session.query(Device):
            device.held_by = None
        for restore in session.query(Restore).filter(Restore.state != "finished"):
            restore.state, restore.outcome = "finished", restore.outcome or "failed"
            restore.ended_at = restore.created_at
    tab.page.wait_for_selector(".ring-device.is-held", state="detached", timeout=5000)
    assert tab.page.locator("#live[hx-get]").count() == 0
    assert "does not follow by itself" in tab.page.inner_text("main")
    assert tab.said == []
    tab.page.context.close()


def test_without_javascript_everything_is_there(site: Site, chromium: Browser) -> None:
    restores = site.fill()
    tab = open_tab(chromium, site, java_script_enabled=False)
    tab.open(f"/restores/{restores['restored']}")
    assert tab.page.locator("svg.lane-chart").count() == 5
    assert tab.page.locator("table.times tbody tr").count() > 20
    assert tab.page.locator("noscript").inner_html().startswith('<meta http-equiv="refresh"')
    tab.page.click("#discard")
    assert "discarded by dana" in tab.page.inner_text("main")
    tab.open("/")
    assert tab.page.locator("svg.ring .ring-circle").count() == 5
    tab.open("/restores")
    tab.page.select_option("[name=outcome]", "corrupt")
    tab.page.click("form.filters button")
    assert tab.page.url.endswith("/restores?outcome=corrupt")
    tab.open(f"/restores/{restores['waiting']}")
    tab.page.click("#cancel")
    tab.page.fill("#reason", "no script")
    tab.page.click("main button.primary")
    assert "cancelled by dana: no script" in tab.page.inner_text("main")
    tab.page.context.close()
