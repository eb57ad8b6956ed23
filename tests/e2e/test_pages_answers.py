"""Pages of restores that were asked, in headless Chromium: clean, legible, by Tab; a drill in the form."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Browser

from app.accounts import service as accounts
from app.core.oracle.synthesis import synthesize_oracle
from app.restores.service.receipt import write_receipts
from app.web.auth import PRESETS
from tests.app.asked import AskedRing
from tests.app.dashboard_rows import NAME
from tests.app.ring import NODE, Ring
from tests.e2e.page_site import Site, check_focus, check_page, open_tab

pytestmark = pytest.mark.browser


@pytest.fixture
def asked(site: Site, tmp_path: Path) -> Iterator[AskedRing]:
    """A ring that speaks to the running site; its snapshot's question is registered."""
    site.fill(with_rows=False)
    with site.database.transaction() as session:
        keys = {
            preset: accounts.create_key(
                session,
                account_name=NAME,
                label=preset,
                scopes=PRESETS[preset],
                node_name=NODE if preset == "worker" else None,
            )
            for preset in ("operator", "worker")
        }
    made = synthesize_oracle(tmp_path, ranks=4, object_bytes=65_536)
    with httpx2.Client(base_url=site.address, timeout=30.0) as client:
        ring = Ring(cast(TestClient, client), keys=keys, stored=made.snapshot)
        asked = AskedRing(ring.join(), made=made)
        asked.register().raise_for_status()
        yield asked


def healthy_and_drill(site: Site, asked: AskedRing) -> list[dict[str, Any]]:
    """Both restores with the receipts written of them."""
    done = [
        asked.follow(*asked.run(**changes))
        for changes in ({}, {"fault": {"name": "foreign-slots", "rank": 2}})
    ]
    write_receipts(site.database, settings=site.settings)
    return [asked.ring.restore(one["id"]) for one in done]


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_question_answer_and_drill_are_clean_and_legible(
    site: Site, chromium: Browser, asked: AskedRing, width: int, scheme: Any
) -> None:
    healthy, drill = healthy_and_drill(site, asked)
    tab = open_tab(chromium, site, viewport={"width": width, "height": 900}, color_scheme=scheme)
    for path in (
        *(f"/restores/{one['id']}" for one in (healthy, drill)),
        f"/restores/{drill['id']}/ranks/2",
        f"/receipts/{drill['receipt_sha256']}",
        "/restores",
        f"/snapshots/{drill['context_digest']}.{drill['rank_zero_storage_key']}",
        "/restores/new",
        "/",
    ):
        tab.open(path)
        check_page(tab, path)
        check_focus(tab, path, most=20)
    tab.open(f"/restores/{drill['id']}")
    assert "answer spark for red" in tab.page.inner_text("#answer .answer")
    bars = tab.page.locator(".vote-bar .missing")
    assert bars.count() == 1
    box = bars.first.bounding_box()
    assert box is not None
    assert box["width"] >= 3, "what is missing can be seen"
    assert tab.page.locator("#answer").get_by_text("rejected").count() == 1
    assert tab.said == []
    tab.page.context.close()


def test_a_drill_is_ordered_in_the_form_without_javascript(
    site: Site, chromium: Browser, asked: AskedRing
) -> None:
    tab = open_tab(chromium, site, java_script_enabled=False)
    tab.open("/restores/new")
    tab.page.select_option("#fault", "stale-generation")
    tab.page.fill("#fault_rank", "3")
    tab.page.click("main button.primary")
    assert "drill: stale-generation on rank 3" in tab.page.inner_text(".eyebrow")
    restore_id = tab.page.url.rsplit("/", 1)[1]
    assert asked.ring.restore(restore_id)["fault"] == {"name": "stale-generation", "rank": 3}
    tab.page.context.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_restores_are_limited_to_wrong_answers_and_drills_by_choosing(
    site: Site, chromium: Browser, asked: AskedRing, width: int
) -> None:
    healthy, drill = healthy_and_drill(site, asked)
    tab = open_tab(chromium, site, viewport={"width": width, "height": 900})
    tab.open("/restores")
    for name, value, address, left in (
        ("semantic", "right", "/restores?semantic=right", [healthy]),
        ("drill", "true", "/restores?semantic=right&drill=true", []),
        ("semantic", "wrong", "/restores?semantic=wrong&drill=true", [drill]),
        ("semantic", "", "/restores?drill=true", [drill]),
    ):
        tab.page.select_option(f"select[name={name}]", value)
        tab.page.click(".filters button")
        tab.page.wait_for_url(site.address + address)
        rows = tab.page.locator("tbody tr")
        assert rows.count() == len(left)
        for one in left:
            assert tab.page.locator(f"a[href='/restores/{one['id']}']").count() == 1
        check_page(tab, address)
        check_focus(tab, address, most=25)
    assert tab.said == []
    tab.page.context.close()
