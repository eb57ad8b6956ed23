"""A running dashboard with its rows, a browser, and what every page must be."""

import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright
from sqlalchemy import create_engine

from app.config import Settings
from app.db.migrate import upgrade
from app.db.session import Database, open_database
from app.embedded import DatabaseUrls, create_database
from app.main import create_app
from app.restores.dispatch import RankCall
from tests.app import dashboard_rows as rows
from tests.app.conftest import empty_tables
from tests.app.evidence_exports import with_key
from tests.conftest import database_urls
from tests.e2e import page_checks as checks

CHROMIUM = shutil.which("chromium")
DATE_STOPS = 4
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


@dataclass
class RecordedMessages:
    """Rank workers that are not there."""

    sent: int = 0

    def send(self, calls: Sequence[RankCall]) -> None:
        self.sent += len(calls)

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
    settings: Settings

    def fill(self, *, with_rows: bool = True) -> dict[str, UUID]:
        """Start every test from the same rows, or from none but the people."""
        engine = create_engine(self.owner_url)
        empty_tables(engine)
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
    given = {"database_url": urls.app, "broker_url": "redis://127.0.0.1:1/0"}
    settings = with_key(Settings.model_validate(given), tmp_path_factory.mktemp("keys"))
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
    address = f"http://127.0.0.1:{port}"
    yield Site(address=address, database=database, owner_url=urls.owner, folder=folder, settings=settings)
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


def check_page(tab: Tab, path: str) -> None:
    """Everything a page must be, whatever it shows."""
    page = tab.page
    assert page.evaluate(checks.TOO_WIDE_PX) == 0, f"{path} is too wide"
    assert page.evaluate(checks.OUTSIDE) == [], path
    assert page.evaluate(checks.OVERLAPPING) == [], path
    assert page.evaluate(checks.SQUEEZED) == [], path
    assert page.evaluate(checks.CUT_SHORT) == [], path
    assert page.evaluate(checks.CONTRAST) == [], path
    assert page.locator("h1").count() == 1, f"{path}: expected one heading"
    assert page.title().endswith("· sparkgate"), path


def check_focus(tab: Tab, path: str, *, most: int) -> None:
    """Tab reaches the controls one after the other; each is seen and shows that it has the focus."""
    wanted = min(tab.page.evaluate(checks.WATCH_FOCUS, checks.FOCUSABLE), most)
    # Chromium stops at day, month, year and picker of a date, which is one control.
    within = (DATE_STOPS - 1) * tab.page.locator("input[type=date]").count()
    for _ in range(wanted + within):
        tab.page.keyboard.press("Tab")
    focused = tab.page.evaluate(checks.FOCUSED)[:wanted]
    assert [at for at, _, _, _ in focused] == list(range(wanted)), f"{path}: {focused}"
    assert [name for _, outlined, _, name in focused if not outlined] == [], f"{path}: no outline"
    assert [name for _, _, seen, name in focused if not seen] == [], f"{path}: out of sight"
