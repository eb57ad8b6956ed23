"""Pages of profiles in headless Chromium: clean, legible, reached by Tab; made documents and real ones."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.app import profile_rows as rows
from tests.e2e.page_site import Site, check_focus, check_page, open_tab

pytestmark = pytest.mark.browser

EMPTY = ("/profiles", "/profiles/documents", "/profiles/compare", "/profiles/namespaces", "/profiles/claims")
REAL_CONTRACT = "20a4168a73ce7c9361a9875a21380c8e283d396e7b9025fbc5301bacbb6c9d8e"
REAL_ACTIVATION = "d35a111e53fed5074197f2072f512e8a1e4bc02347bc853436b974abe53902ce"
# Documents of the folder that profiles have no use for.
REAL_UNKNOWN = 11


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_pages_of_profiles_are_clean_and_reached_by_tab(
    site: Site, chromium: Browser, tmp_path: Path, width: int, scheme: str
) -> None:
    site.fill(with_rows=False)
    tab = open_tab(chromium, site, viewport={"width": width, "height": 900}, color_scheme=scheme)
    for path in EMPTY:
        tab.open(path)
        check_page(tab, path)
        assert tab.page.locator(".empty").count() == 1, path
    own, check = rows.contract(), rows.overlay_check(tmp_path)
    bad = rows.activation(__profile="tp4-dcp1-sparkcache")
    newer = rows.contract(__model__revision="ee" * 20)
    papers = [*rows.everything(), check, bad, rows.claim(bad), newer]
    with site.database.transaction() as session:
        rows.add_papers(session, papers)
    both = f"left={own.sha256}&left_profile=tp4-dcp4&right={newer.sha256}&right_profile=tp4-dcp1-sparkcache"
    for path in (
        *EMPTY,
        f"/profiles/{own.sha256}/tp4-dcp4-sparkcache",
        f"/profiles/compare?{both}",
        f"/profiles/documents/{check.sha256}",
        f"/profiles/documents/{bad.sha256}?at=/serving/kv_capacity_tokens",
        f"/profiles/documents/{rows.templates()[0].sha256}?at=/NODE_COUNT",
    ):
        tab.open(path)
        check_page(tab, path)
        check_focus(tab, path, most=20)
    assert tab.said == []
    tab.page.context.close()


def test_from_a_status_to_the_word_it_was_read_from_without_javascript(site: Site, chromium: Browser) -> None:
    site.fill(with_rows=False)
    with site.database.transaction() as session:
        rows.add_papers(session, rows.everything())
    tab = open_tab(chromium, site, java_script_enabled=False)
    tab.open("/")
    tab.page.click("nav >> text=Profiles")
    tab.page.click("text=deployment made-tp4-dcp4-sparkcache: retired")
    assert tab.page.locator(":target").inner_text() == '"recommendation": "retired"'
    tab.open("/profiles")
    tab.page.click("text=activation receipt: pass")
    tab.page.click("text=As a receipt")
    assert tab.page.locator("h1").inner_text() == "sparkring-r33-activation-receipt/v1"
    tab.page.click("text=Among the profiles")
    assert tab.page.locator("h1").inner_text() == "Activation"
    tab.page.context.close()


@pytest.mark.skipif(not rows.REAL.is_dir(), reason=f"the real documents are not at {rows.REAL}")
@pytest.mark.parametrize("width", [390, 1280])
def test_real_documents_are_clean_and_say_what_is_published(
    site: Site, chromium: Browser, width: int
) -> None:
    site.fill(with_rows=False)
    unknown = rows.add_real(site.database)
    assert unknown == REAL_UNKNOWN
    tab = open_tab(chromium, site, viewport={"width": width, "height": 900})
    for path in (
        f"/profiles?contract={REAL_CONTRACT}",
        f"/profiles/{REAL_CONTRACT}/tp4-dcp4-sparkcache",
        f"/profiles/documents/{REAL_ACTIVATION}",
        "/profiles/namespaces",
    ):
        tab.open(path)
        check_page(tab, path)
    tab.open(f"/profiles/{REAL_CONTRACT}/tp4-dcp4-sparkcache")
    assert tab.page.locator("p.verdict").inner_text().startswith("Pass")
    tab.open(f"/profiles/documents/{REAL_ACTIVATION}")
    warned = tab.page.locator("details[open] th code").all_inner_texts()
    assert warned == ["ACT_DCP_UNBOUND", "ACT_NO_EVIDENCE", "ACT_FIXTURE_LIKE"]
    assert tab.said == []
    tab.page.context.close()
