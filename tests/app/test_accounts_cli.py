"""`sparkgate accounts` and `sparkgate keys` beside the database."""

import json

import pytest
from typer.testing import CliRunner, Result

from app.accounts import service
from app.cli import cli
from app.config import Settings
from app.db.session import Database


@pytest.fixture
def run(settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch) -> "Run":
    assert settings.database_url is not None
    monkeypatch.setenv("SPARKGATE_DATABASE_URL", settings.database_url.get_secret_value())
    return Run()


class Run:
    def __call__(self, *arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(cli, [*arguments], input=stdin)

    def json(self, *arguments: str, stdin: str | None = None) -> dict[str, object]:
        done = self(*arguments, "--json", stdin=stdin)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_account_gets_a_password_and_a_key_that_is_listed_and_revoked(run: Run, database: Database) -> None:
    assert run.json("accounts", "create", "eve", "--preset", "operator")["has_password"] is False
    assert run.json("accounts", "password", "eve", stdin="correct horse battery\n")["has_password"] is True
    made = run.json("keys", "create", "ci", "--account", "eve")
    with database.reading() as session:
        assert service.authenticate_key(session, text=str(made["key"])) is not None
    listed = run.json("keys", "list", "--account", "eve")["keys"]
    assert [(one["id"], one["state"]) for one in listed] == [(made["id"], "live")]  # type: ignore[attr-defined]
    assert str(made["key"]) not in run("keys", "list").output
    assert run.json("keys", "revoke", str(made["id"])) == {"revoked": 1}
    assert run("keys", "revoke", str(made["id"])).exit_code == 2
    assert run("keys", "revoke", "ci").exit_code == 2


def test_account_is_disabled_but_not_the_last_admin(run: Run) -> None:
    run("accounts", "create", "eve", "--preset", "admin")
    run("accounts", "create", "bob")
    assert run.json("accounts", "change", "bob", "--disable")["disabled"] is True
    refused = run("accounts", "change", "eve", "--disable")
    assert refused.exit_code == 2
    assert "found nobody" in refused.stderr
    names = [one["name"] for one in run.json("accounts", "list")["accounts"]]  # type: ignore[attr-defined]
    assert names == ["bob", "eve"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("accounts", "create", "a b"), "expected 1 to 64"),
        (("accounts", "create", "x", "--preset", "king"), "expected one of"),
        (("accounts", "change", "x"), "found none"),
        (("accounts", "change", "x", "--disable"), "not found"),
        (("keys", "create", "a/b"), "not found"),
        (("keys", "revoke", "7e1c0000-0000-4000-8000-000000000000"), "not found"),
    ],
)
def test_what_is_refused_is_told_in_words(run: Run, arguments: tuple[str, ...], words: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert words in done.stderr
