"""``sparkgate profile``: deployment profiles, their documents and their activation, without a server."""

import typer

from app.cli.profile_activation import activation, claim, drill
from app.cli.profile_check import check, effective
from app.cli.profile_collect import collect_activation
from app.cli.profile_compare import diff, namespace
from app.cli.profile_import import import_profiles
from app.cli.profile_overlay import overlay
from app.cli.profile_plan import drift, plan

profile_app = typer.Typer(help="Deployment profiles and their documents.", no_args_is_help=True)


@profile_app.callback()
def _group() -> None:
    """Deployment profiles: check, resolve, compare, plan; nothing is ever started."""


profile_app.command("check")(check)
profile_app.command("effective")(effective)
profile_app.command("diff")(diff)
profile_app.command("plan")(plan)
profile_app.command("drift")(drift)
profile_app.command("namespace")(namespace)
profile_app.command("import")(import_profiles)
profile_app.command("activation")(activation)
profile_app.command("claim")(claim)
profile_app.command("drill")(drill)
profile_app.command("overlay")(overlay)
profile_app.command("collect")(collect_activation)
