"""Every page in headless Chromium: two widths, both colour schemes, no error, no overflow, legible."""

import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
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
from app.models import Base, Readback, Restore
from tests.app import dashboard_rows as rows
from tests.conftest import database_urls

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
WIDTHS = [1280, 390]
SCHEMES = ["light", "dark"]
NAMED = {
    "overview": "/",
    "restores": "/restores",
    "start": "/restores/new",
    "images": "/images",
    "snapshots": "/snapshots",
    "api": "/docs/api",
    "problems": "/docs/problems",
}
OF_RESTORES = ["restored", "corrupt", "running", "waiting"]

# Every text against what is painted behind it; letters on a bar against the bar.
CONTRAST = """
() => {
  const parse = text => { const n = text.match(/[\\d.]+/g).map(Number);
    return n.length < 4 ? [...n, 1] : n; };
  const over = (top, under) => [0, 1, 2].map(i => top[i] * top[3] + under[i] * (1 - top[3]));
  const light = rgb => { const [r, g, b] = rgb.map(v => { v /= 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = elt => { const layers = [];
    for (let e = elt; e; e = e.parentElement) {
      const style = getComputedStyle(e);
      if (!(e instanceof SVGElement) && style.backgroundColor) layers.push(parse(style.backgroundColor));
      const bar = e.closest && e.matches('g.bar') && e.querySelector(':scope > rect');
      const fill = bar && getComputedStyle(bar).fill;
      if (fill && fill.startsWith('rgb')) layers.push(parse(fill)); }
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]); };
  const bad = []; const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const elt = node.parentElement; const box = elt.getBoundingClientRect();
    const exempt = 'title, option, noscript, button:disabled, .skip';
    if (!node.data.trim() || !box.width || elt.closest(exempt)) continue;
    const style = getComputedStyle(elt);
    const ink = parse(elt instanceof SVGElement ? style.fill : style.color);
    const ground = behind(elt); const [a, b] = [light(over(ink, ground)), light(ground)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push(`${ratio.toFixed(2)} ${elt.tagName}.${elt.getAttribute('class')} ${node.data}`);
  }
  return bad;
}
"""
OUTSIDE = """
() => [...document.querySelectorAll('main *')].filter(elt => {
  const box = elt.getBoundingClientRect();
  const right = document.documentElement.clientWidth + 1;
  return box.width && box.right > right && !elt.closest('.scroll, pre, svg');
}).map(elt => `${elt.tagName}.${elt.getAttribute('class')} ${elt.getBoundingClientRect().right}`)
"""
TOO_WIDE_PX = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
FOCUSABLE = "a[href], button:not(:disabled), input:not([type=hidden]), select, [tabindex='0']"
FOCUSED = """
() => { const elt = document.activeElement; const style = getComputedStyle(elt);
  const outlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1;
  const at = [...document.querySelectorAll(SELECTOR)].indexOf(elt);
  return [at, outlined, elt.getBoundingClientRect().width > 0]; }
""".replace("SELECTOR", repr(FOCUSABLE).replace("'", '"').replace('"0"', "'0'"))


@dataclass
class RecordedMessages:
    """Rank workers that are not there."""

    sent: int = 0

    def restore(self, queue: str, *, attempt_id: UUID) -> None:
        self.sent += 1

    def readback(self, queue: str, *, attempt_id: UUID, readback_id: UUID) -> None:
        self.sent += 1

    def discard(self, queue: str, *, attempt_id: UUID) -> None:
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

    def fill(self) -> dict[str, UUID]:
        """Start every test from the same rows."""
        engine = create_engine(self.owner_url)
        names = ", ".join(f'"{table.name}"' for table in Base.metadata.sorted_tables)
        with engine.begin() as connection:
            connection.execute(text(f"TRUNCATE {names} RESTART IDENTITY CASCADE"))
        engine.dispose()
        with self.database.transaction() as session:
            return rows.add_everything(session, folder=self.folder)


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


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_is_clean_and_legible(
    site: Site, chromium: Browser, width: int, scheme: str, tmp_path: Path
) -> None:
    restores = site.fill()
    tab = open_tab(chromium, site, viewport={"width": width, "height": 900}, color_scheme=scheme)
    paths = NAMED | {name: f"/restores/{restores[name]}" for name in OF_RESTORES}
    paths["rank"] = f"/restores/{restores['restored']}/ranks/2"
    for name, path in paths.items():
        tab.open(path)
        tab.page.screenshot(path=tmp_path / f"{name}-{width}-{scheme}.png", full_page=True)
        wide = tab.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wide == 0, f"{name} is {wide} px too wide"
        assert tab.page.evaluate(OUTSIDE) == [], name
        assert tab.page.evaluate(CONTRAST) == [], name
    assert tab.said == []
    tab.page.context.close()


def test_the_checks_find_what_they_look_for(site: Site, chromium: Browser) -> None:
    restores = site.fill()
    tab = open_tab(chromium, site, viewport={"width": 390, "height": 900})
    tab.open(f"/restores/{restores['restored']}")
    tab.page.evaluate("document.querySelector('h1').style.color = '#999'")
    tab.page.evaluate("document.querySelector('.evidence').style.width = '500px'")
    tab.page.evaluate("setTimeout('1')")
    assert any(line.endswith("H1.null Engine self-test") for line in tab.page.evaluate(CONTRAST))
    assert any("DIV" in line for line in tab.page.evaluate(OUTSIDE))
    assert tab.page.evaluate(TOO_WIDE_PX) > 0
    assert any("Content Security Policy" in line for line in tab.said)
    tab.page.context.close()


@pytest.mark.parametrize("width", WIDTHS)
def test_everything_is_reached_by_tab_in_order_and_shows_it(
    site: Site, chromium: Browser, width: int
) -> None:
    restores = site.fill()
    tab = open_tab(chromium, site, viewport={"width": width, "height": 900})
    for path in ("/", "/restores/new", f"/restores/{restores['restored']}", "/docs/problems"):
        tab.open(path)
        count = tab.page.locator(FOCUSABLE).count()
        seen = []
        for _ in range(min(count, 40)):
            tab.page.keyboard.press("Tab")
            at, outlined, visible = tab.page.evaluate(FOCUSED)
            assert outlined, f"{path}: nothing shows the focus on element {at}"
            assert visible, f"{path}: element {at} has the focus and cannot be seen"
            seen.append(at)
        assert seen == list(range(min(count, 40))), path
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
        assert session.query(Restore).count() == 5, "a double click is one restore"
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
    tab.page.context.close()
