"""``sparkgate profile``: deployment profiles, their documents and their activation, without a server."""

import typer

profile_app = typer.Typer(help="Deployment profiles and their documents.", no_args_is_help=True)


@profile_app.callback()
def _group() -> None:
    """Deployment profiles: check, resolve, compare, plan; nothing is ever started."""
