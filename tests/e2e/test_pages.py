"""Every page in headless Chromium, found by its links: no error, no overflow, legible, reached by Tab."""

import re
from collections import Counter
from urllib.parse import unquote

import pytest
from playwright.sync_api import Browser

from app.models import Device, Readback, Restore
from tests.e2e import page_checks as checks
from tests.e2e.page_site import Site, Tab, check_focus, check_page, open_tab

pytestmark = pytest.mark.browser

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


def shape_of(path: str) -> str:
    """What kind of page an address is of."""
    plain, query, _ = path.partition("?")
    plain = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "{id}", plain)
    plain = re.sub(r"[0-9a-f]{64}", "{hex}", plain)
    return re.sub(r"(?<=/)\d+", "{n}", plain) + query


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
