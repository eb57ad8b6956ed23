"""Pages of evidence exports in headless Chromium: from looking to the download, narrow and wide."""

import pytest
from playwright.sync_api import Browser

from app.core.digest import sha256
from app.core.image import ConfigId, ImageDigests
from app.images import service as images
from app.images.service import ImageStatement
from app.ledger.service.signing import load_signer
from tests.app import evidence_rows as evidence
from tests.e2e.page_site import Site, Tab, check_focus, check_page, open_tab
from workers.bundle_builder import BundleBuilder

pytestmark = pytest.mark.browser

UNTESTED = (
    "an image nobody has tried yet, with a title so long that it has to be broken somewhere in the middle"
)


def add_image_without_evidence(site: Site) -> None:
    statement = ImageStatement(
        digests=ImageDigests(config_id=ConfigId("c" * 64)), title=UNTESTED, origin="registered"
    )
    with site.database.transaction() as session:
        images.register_image(session, statement=statement, by="dana")


def builder(site: Site) -> BundleBuilder:
    return BundleBuilder(site.database, settings=site.settings, signer=load_signer(site.settings))


def check_order(tab: Tab) -> None:
    """Tab reaches the button that exports; a field for a day is several stops."""
    names = []
    for _ in range(40):
        tab.page.keyboard.press("Tab")
        names.append(tab.page.evaluate("document.activeElement.name || document.activeElement.innerText"))
    wanted = ["from", "to", "tp", "dcp", "images", "Look", "Export everything"]
    assert [name for name in dict.fromkeys(names) if name in wanted] == wanted


@pytest.mark.parametrize("width", [390, 1280])
def test_from_looking_to_the_download(site: Site, chromium: Browser, width: int) -> None:
    site.fill()
    add_image_without_evidence(site)
    tab = open_tab(chromium, site, viewport={"width": width, "height": 900}, accept_downloads=True)
    page = tab.page
    for path in ("/evidence", "/evidence/new?from=2001-01-01&to=2001-01-02", "/evidence/new?tp=x&dcp=1"):
        tab.open(path)
        check_page(tab, path)
    tab.open("/evidence")
    page.click("text=Export evidence")
    assert UNTESTED in page.inner_text("main")
    check_page(tab, "/evidence/new")
    check_order(tab)
    page.fill("[name=images]", f"{evidence.GOOD} {evidence.BAD}")
    page.click("form.filters button")
    page.click("button.primary")
    page.wait_for_url(f"{site.address}/evidence/*-*")
    check_page(tab, "waiting")
    at_work = builder(site)
    at_work.tend()
    at_work.wait(60)
    page.wait_for_selector("a[download]", timeout=10_000)
    check_page(tab, "finished")
    check_focus(tab, "finished", most=25)
    with page.expect_download() as waited:
        page.click("a[download]")
    raw = waited.value.path().read_bytes()
    assert sha256(raw) in page.inner_text("main")
    assert page.locator("#live[hx-get]").count() == 0, "it goes on asking"
    tab.open("/evidence")
    check_page(tab, "/evidence")
    assert sha256(raw)[:12] in page.inner_text("table")
    assert tab.said == [one for one in tab.said if "400" in one or "422" in one]
    page.context.close()


def test_a_receipt_and_its_proof(site: Site, chromium: Browser) -> None:
    site.fill()
    for width in (390, 1280):
        tab = open_tab(chromium, site, viewport={"width": width, "height": 900}, accept_downloads=True)
        tab.open("/receipts")
        tab.page.locator("tbody th a").first.click()
        with tab.page.expect_download() as waited:
            tab.page.click("text=The proof under the head of now")
        assert waited.value.path().read_text().startswith("c2sp.org/tlog-proof@v1\n")
        tab.page.reload()
        for summary in tab.page.locator("section:has-text('Its proof') summary").all():
            summary.click()
        check_page(tab, "a receipt with its proof")
        assert tab.said == []
        tab.page.context.close()


def test_an_export_without_javascript(site: Site, chromium: Browser) -> None:
    site.fill()
    tab = open_tab(chromium, site, java_script_enabled=False)
    tab.open("/evidence/new")
    tab.page.click("button.primary")
    tab.page.wait_for_url(f"{site.address}/evidence/*-*")
    assert "Waiting" in tab.page.inner_text(".verdict")
    tab.page.click("text=Call it off")
    assert "Called off" in tab.page.inner_text(".verdict")
    tab.page.context.close()
