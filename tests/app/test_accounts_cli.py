"""`sparkgate accounts` and `sparkgate keys` beside the database."""

import json

import pytest
from typer.testing import CliRunner, Result

from app.accounts import service
from app.accounts.service.presets import ADDED
from app.cli import cli
from app.config import Settings
from app.db.session import Database
from app.web.auth import PRESETS, Scope


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


BEFORE_DRILLS = PRESETS["operator"] - {Scope.DRILLS_WRITE}
BEFORE_PROFILES = BEFORE_DRILLS - {Scope.PROFILES_READ, Scope.PROFILES_WRITE}


@pytest.mark.parametrize(
    ("scopes", "preset", "lacks"),
    [
        (BEFORE_DRILLS, "operator", ["drills:write"]),
        (BEFORE_PROFILES, "operator", ["drills:write", "profiles:read", "profiles:write"]),
        (
            BEFORE_PROFILES - {Scope.RECEIPTS_APPEND},
            "operator",
            ["drills:write", "profiles:read", "profiles:write", "receipts:append"],
        ),
        (PRESETS["viewer"] - {Scope.PROFILES_READ}, "viewer", ["profiles:read"]),
        (PRESETS["auditor"] - {Scope.PROFILES_READ}, "auditor", ["profiles:read"]),
        # Somebody chose these, or they are all there is.
        (PRESETS["operator"] - {Scope.RESTORES_WRITE}, None, []),
        (PRESETS["viewer"] - {Scope.NODES_READ}, None, []),
        (BEFORE_DRILLS | {Scope.EVIDENCE_EXPORT}, None, []),
        (frozenset(), None, []),
        *((scopes, name, []) for name, scopes in PRESETS.items()),
        # Admin does everything that people do, whatever else the account holds.
        (frozenset({Scope.ADMIN}), "admin", []),
        (PRESETS["admin"] - {Scope.DRILLS_WRITE}, "admin", []),
    ],
    # Sets have no order that every process shares.
    ids=lambda one: "+".join(sorted(one)) if isinstance(one, frozenset) else str(one),
)
def test_the_list_says_what_an_account_lacks_of_its_preset(
    run: Run, database: Database, scopes: frozenset[Scope], preset: str | None, lacks: list[str]
) -> None:
    with database.transaction() as session:
        service.create_account(session, name="old", password=None, scopes=scopes)
    one = run.json("accounts", "list")["accounts"][0]  # type: ignore[index]
    assert (one["preset"], one["lacks"], one["scopes"]) == (preset, lacks, sorted(scopes))
    words = run("accounts", "list").output
    hint = f"lacks {', '.join(lacks)}: sparkgate accounts change old --preset {preset}"
    assert (hint in words) == bool(lacks)


def test_what_is_lacking_is_given_when_it_is_said_and_to_no_key(run: Run, database: Database) -> None:
    with database.transaction() as session:
        service.create_account(session, name="old", password=None, scopes=BEFORE_PROFILES)
        key, narrow = (
            service.create_key(session, account_name="old", label=label, scopes=scopes)
            for label, scopes in (("ci", BEFORE_PROFILES), ("look", frozenset({Scope.RESTORES_READ})))
        )
    refused = run("keys", "create", "new", "--account", "old")
    assert (refused.exit_code, "found profiles:read for a key" in refused.output) == (2, True)

    def scopes_of(text: str) -> frozenset[Scope]:
        with database.reading() as session:
            principal = service.authenticate_key(session, text=text)
        assert principal is not None
        return principal.scopes

    before = (scopes_of(key), scopes_of(narrow))
    run("accounts", "list")
    assert (scopes_of(key), scopes_of(narrow)) == before, "looking changes nothing"
    changed = run.json("accounts", "change", "old", "--preset", "operator")
    assert (changed["lacks"], changed["scopes"]) == ([], sorted(PRESETS["operator"]))
    assert (scopes_of(key), scopes_of(narrow)) == before, "a key may do what it said when it was made"
    assert run("keys", "create", "new", "--account", "old").exit_code == 0


def test_a_new_scope_of_a_preset_is_written_down_as_one() -> None:
    first = {"images:read", "images:write", "restores:read", "restores:write", "nodes:read"}
    first |= {"nodes:report", "evidence:export"}
    came = frozenset[Scope]().union(*ADDED)
    given = frozenset[Scope]().union(*(PRESETS[name] for name in PRESETS if name != "admin"))
    assert given - came == first
    assert came <= given
