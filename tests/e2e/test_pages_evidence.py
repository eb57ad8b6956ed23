"""Pages of evidence in headless Chromium: without JavaScript, and with real documents."""

import pytest
from playwright.sync_api import Browser
from sqlalchemy import select

from app.models import ReceiptRow
from tests.app import evidence_rows as evidence
from tests.e2e.page_site import Site, check_page, open_tab

pytestmark = pytest.mark.browser


def test_from_a_finding_to_its_characters_and_to_a_declaration_without_javascript(
    site: Site, chromium: Browser
) -> None:
    site.fill()
    tab = open_tab(chromium, site, java_script_enabled=False)
    tab.open("/images?tab=rejected")
    tab.page.fill("[name=code]", "SEMANTIC_ORACLE_MISMATCH")
    tab.page.click("form.filters button")
    tab.page.click(f"a[href='/images/{evidence.BAD}']")
    tab.page.locator("tr", has_text="SEMANTIC_ORACLE_MISMATCH").locator("td a").click()
    assert tab.page.locator(":target").inner_text() == '"restore_oracle": "amber"'
    tab.page.click("text=Declare")
    tab.page.fill("#reason", "no script")
    tab.page.click("main button.primary")
    assert "no script" in tab.page.inner_text("blockquote")
    assert tab.page.locator(".badge.is-rejected").count() >= 1, "no word raises it"
    tab.page.context.close()


REAL = ("event-fenced-flat-restore", "snapshot-v1-safe", "flat-v2-four-reader", "glm53-flash-dcp4-page-tail/")


@pytest.mark.skipif(not evidence.CORPUS.is_dir(), reason=f"the real documents are not at {evidence.CORPUS}")
@pytest.mark.parametrize("width", [390, 1280])
def test_real_documents_are_clean_and_legible_too(site: Site, chromium: Browser, width: int) -> None:
    site.fill(with_rows=False)
    papers = [one for one in evidence.corpus() if any(name in one.path for name in REAL)]
    with site.database.transaction() as session:
        digests = dict.fromkeys(done.sha256 for done in evidence.add_papers(session, papers))
        named = select(ReceiptRow.image_config_id).where(ReceiptRow.sha256.in_(digests))
        images = set(session.scalars(named)) - {None}
        paths = [f"/receipts/{one}" for one in digests]
    assert len(images) >= 4
    tab = open_tab(chromium, site, viewport={"width": width, "height": 900})
    for path in (
        *paths,
        *(f"/images/{one}" for one in sorted(filter(None, images))),
        "/images",
        "/qualified",
    ):
        tab.open(path)
        check_page(tab, path)
    assert tab.said == []
    tab.page.context.close()
