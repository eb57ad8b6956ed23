"""The command line: one file per command group; `main` is what the `sparkgate` script runs."""

import sys

import typer

from app.cli.accounts import accounts_app
from app.cli.bootstrap import bootstrap
from app.cli.bundle import bundle_app
from app.cli.declare import declare
from app.cli.demo import demo
from app.cli.evidence import evidence_app
from app.cli.import_documents import import_documents
from app.cli.keys import keys_app
from app.cli.ledger import ledger_app
from app.cli.migrate import migrate
from app.cli.profile import profile_app
from app.cli.receipt import receipt_app
from app.cli.rejudge import rejudge
from app.cli.restore import restore_app
from app.cli.source import source_app
from app.cli.store import store_app
from app.cli.up import up
from app.cli.worker import worker
from app.config import InvalidSettings, settings_problems

cli = typer.Typer(
    name="sparkgate",
    help="Decides, with evidence, which runtime image restores a persisted KV cache correctly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
cli.command()(up)
cli.command()(demo)
cli.command()(migrate)
cli.command()(bootstrap)
cli.command()(worker)
cli.command("import")(import_documents)
cli.command("rejudge")(rejudge)
cli.command("declare")(declare)
cli.add_typer(store_app, name="store")
cli.add_typer(restore_app, name="restore")
cli.add_typer(receipt_app, name="receipt")
cli.add_typer(source_app, name="source")
cli.add_typer(profile_app, name="profile")
cli.add_typer(keys_app, name="keys")
cli.add_typer(accounts_app, name="accounts")
cli.add_typer(ledger_app, name="ledger")
cli.add_typer(evidence_app, name="evidence")
cli.add_typer(bundle_app, name="bundle")


def main() -> None:
    """Run the command line; settings that cannot be used are told in words."""
    try:
        cli()
    except InvalidSettings as error:
        for line in settings_problems(error):
            sys.stderr.write(line + "\n")
        sys.exit(2)
