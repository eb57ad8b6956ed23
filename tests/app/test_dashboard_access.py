"""Who sees a page: login and logout, where strangers are led, form tokens, other sites, error pages."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.dashboard.access import COOKIE, local_path
from app.dashboard.docs import METHODS
from app.db.session import Database
from app.models import WebSession
from tests.app.dashboard_rows import NAME, PASSWORD, add_people

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
RESTORE = "/restores/7e1c0000-0000-4000-8000-000000000000"
PAGES = ["/", "/restores", "/restores/new", RESTORE, f"{RESTORE}/ranks/0", "/snapshots", "/images"]
FORMS = ["/restores/new", f"{RESTORE}/readbacks", f"{RESTORE}/discard", "/logout"]


@pytest.fixture
def browser(client: TestClient, database: Database) -> Iterator[TestClient]:
    """A browser that follows no redirect by itself; dana and vera may log in."""
    with database.transaction() as session:
        add_people(session)
    client.headers.update(HTML)
    client.follow_redirects = False
    return client


def log_in(browser: TestClient, name: str = NAME, **fields: str) -> Any:
    return browser.post("/login", data={"name": name, "password": PASSWORD, **fields})


@pytest.mark.parametrize("page", PAGES)
def test_strangers_are_led_to_the_login_and_back(browser: TestClient, page: str) -> None:
    response = browser.get(f"{page}?x=1")
    assert response.status_code == 303
    assert response.headers["location"] == f"/login?next={page}%3Fx%3D1"


@pytest.mark.parametrize("form", FORMS)
def test_no_form_works_without_a_login(browser: TestClient, form: str) -> None:
    response = browser.post(form, data={"form_token": "x"})
    assert response.status_code == 303
    assert response.headers["location"].startswith("/login")


@pytest.mark.parametrize("fragment", ["/overview/live", f"{RESTORE}/live"])
def test_a_fragment_without_a_login_takes_the_whole_page_to_it(browser: TestClient, fragment: str) -> None:
    came_from = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{RESTORE}"}
    response = browser.get(fragment, headers=came_from)
    assert (response.status_code, response.headers["hx-redirect"]) == (401, f"/login?next={RESTORE}")


@pytest.mark.parametrize("page", ["/login", "/docs/api", "/docs/problems", "/openapi.json", "/health"])
def test_reference_and_health_need_no_login(browser: TestClient, page: str) -> None:
    assert browser.get(page).status_code == 200


def test_every_other_route_wants_a_key_or_a_login(browser: TestClient) -> None:
    open_to_all = ("/health", "/health/ready")
    paths: dict[str, Any] = browser.get("/openapi.json").json()["paths"]
    asked = [(path, method) for path, item in paths.items() for method in METHODS if method in item]
    for path, method in asked:
        status = browser.request(method, path.replace("{", "").replace("}", "")).status_code
        assert status in (401, 422) if path not in open_to_all else status == 200, path


def test_login_opens_a_session_the_browser_guards(browser: TestClient) -> None:
    response = log_in(browser, next="/images?page_size=5")
    cookie = response.headers["set-cookie"].lower()
    assert (response.status_code, response.headers["location"]) == (303, "/images?page_size=5")
    assert all(word in cookie for word in ("httponly", "samesite=lax", "path=/", "max-age=43200"))
    assert "; secure" not in cookie
    assert browser.get("/images").status_code == 200


def test_over_https_the_cookie_is_secure(browser: TestClient) -> None:
    settings = browser.app.state.settings  # type: ignore[attr-defined]
    browser.app.state.settings = settings.model_copy(update={"cookie_secure": True})  # type: ignore[attr-defined]
    assert "; Secure" in log_in(browser).headers["set-cookie"]


@pytest.mark.parametrize(
    ("name", "password"), [(NAME, "wrong"), ("nobody", PASSWORD), ("", ""), (NAME, ""), ("a\0b", "x")]
)
def test_a_wrong_name_and_a_wrong_password_look_the_same(
    browser: TestClient, name: str, password: str
) -> None:
    response = browser.post("/login", data={"name": name, "password": password, "next": "/images"})
    assert response.status_code == 401
    assert "Name and password do not fit." in response.text
    assert 'name="next" value="/images"' in response.text
    assert "set-cookie" not in response.headers


@pytest.mark.parametrize(
    "target",
    ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:x", "/a\nb", "", "images"],
)
def test_after_the_login_nobody_is_led_away(browser: TestClient, target: str) -> None:
    assert local_path(target) == "/"
    assert log_in(browser, next=target).headers["location"] == "/"


def test_logout_ends_the_session_on_the_server_too(browser: TestClient, database: Database) -> None:
    log_in(browser)
    token = browser.cookies[COOKIE]
    form_token = browser.get("/").text.split('name="form_token" value="')[1].split('"')[0]
    response = browser.post("/logout", data={"form_token": form_token})
    assert (response.status_code, response.headers["location"]) == (303, "/login")
    browser.cookies.set(COOKIE, token)
    assert browser.get("/").status_code == 303
    with database.reading() as session:
        assert session.query(WebSession).count() == 0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("fields", [{}, {"form_token": "wrong"}, {"form_token": "ü"}])
def test_a_form_without_the_sessions_token_is_refused_with_a_page(
    browser: TestClient, form: str, fields: dict[str, str]
) -> None:
    log_in(browser)
    response = browser.post(form, data=fields)
    assert response.status_code == 403
    assert response.headers["content-type"].startswith("text/html")
    assert "form_token" in response.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
)
@pytest.mark.parametrize("form", ["/login", *FORMS])
def test_another_sites_forms_are_refused(browser: TestClient, form: str, headers: dict[str, str]) -> None:
    credentials = {"name": NAME, "password": PASSWORD}
    response = browser.post(form, data=credentials, headers=headers)
    assert response.status_code == 403
    assert "set-cookie" not in response.headers


def test_a_viewer_sees_no_button_and_may_start_nothing(browser: TestClient) -> None:
    log_in(browser, name="vera")
    text = browser.get("/restores").text
    form_token = text.split('name="form_token" value="')[1].split('"')[0]
    assert "/restores/new" not in text
    response = browser.post("/restores/new", data={"form_token": form_token})
    assert response.status_code == 403
    assert "restores:write" in response.text


@pytest.mark.parametrize("path", ["/nothing", RESTORE, "/restores/not-a-uuid", "/static/nothing.css"])
def test_browsers_get_errors_as_pages(browser: TestClient, path: str) -> None:
    log_in(browser)
    response = browser.get(path)
    assert response.status_code in (404, 422)
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in response.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/nothing", RESTORE, "/restores/not-a-uuid", "/docs/api", "/docs/problems"])
def test_errors_and_reference_keep_the_header_of_who_is_logged_in(browser: TestClient, path: str) -> None:
    stranger = browser.get(path).text
    log_in(browser)
    shown = browser.get(path)
    for part in (
        'action="/logout"',
        'href="/profiles"',
        'href="/evidence"',
        'href="/ledger"',
        f">{NAME}</span>",
    ):
        assert part in shown.text, part
        assert part not in stranger, part
    assert "no-store" in shown.headers["cache-control"]


@pytest.mark.parametrize(
    ("path", "accept"),
    [
        ("/api/v1/nothing", HTML["Accept"]),
        ("/api", HTML["Accept"]),
        ("/nothing", "application/json"),
        ("/nothing", "*/*"),
        ("/nothing", "application/problem+json, text/html"),
    ],
)
def test_programs_get_errors_as_problems(browser: TestClient, path: str, accept: str) -> None:
    response = browser.get(path, headers={"Accept": accept})
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["code"] == "not-found"


def test_an_unexpected_error_is_a_page_with_its_request(
    browser: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(browser)
    monkeypatch.setattr("app.dashboard.queries.images", lambda *_args, **_rest: 1 / 0)
    response = browser.get("/images")
    assert response.status_code == 500
    assert "Something went wrong on our side" in response.text
    assert "ZeroDivisionError" not in response.text
    assert "default-src 'none'" in response.headers["content-security-policy"]


def test_the_wrong_method_on_a_page_is_405(browser: TestClient) -> None:
    response = browser.delete("/images")
    assert (response.status_code, response.headers["content-type"][:9]) == (405, "text/html")
