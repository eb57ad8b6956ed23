"""``sparkgate migrate``: the newest schema, and the rights of each role."""

import typer
from rich.console import Console
from sqlalchemy.engine import make_url

from app.config import Secret, Settings
from app.db.migrate import ensure_role, upgrade


def migrate() -> None:
    """Migrate SPARKGATE_OWNER_DATABASE_URL to the newest schema; create the app role if it is missing."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    settings = Settings()
    owner = _url(settings.owner_database_url or settings.database_url)
    app = _url(settings.database_url or settings.owner_database_url)
    if ensure_role(owner, role_url=app):
        console.print(f"role {make_url(app).username}: created")
    upgrade(owner, app_role=str(make_url(app).username))
    console.print("schema: at the newest revision")


def _url(secret: Secret | None) -> str:
    if secret is None:
        Console(stderr=True).print(
            "SPARKGATE_OWNER_DATABASE_URL: expected postgresql+psycopg://…, found nothing", markup=False
        )
        raise typer.Exit(2)
    return secret.get_secret_value()
