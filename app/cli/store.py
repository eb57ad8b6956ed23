"""``sparkgate store``: what can be done with SparkCache stores, one file per command."""

import typer

from app.cli.store_check import CHECK_HELP, check_root
from app.cli.store_damage import DAMAGE_HELP, damage
from app.cli.store_diff import DIFF_HELP, diff
from app.cli.store_lookup import LOOKUP_HELP, look_up
from app.cli.store_ls import LS_HELP, list_entries
from app.cli.store_restore import RESTORE_HELP, restore
from app.cli.store_synth import SYNTH_HELP, synthesize
from app.cli.store_verify import VERIFY_HELP, verify_entry

store_app = typer.Typer(
    no_args_is_help=True, help="Look into SparkCache stores: look up, verify, restore and synthesise."
)
store_app.command("lookup", help=LOOKUP_HELP)(look_up)
store_app.command("synth", help=SYNTH_HELP)(synthesize)
store_app.command("verify", help=VERIFY_HELP)(verify_entry)
store_app.command("check", help=CHECK_HELP)(check_root)
store_app.command("ls", help=LS_HELP)(list_entries)
store_app.command("diff", help=DIFF_HELP)(diff)
store_app.command("damage", help=DAMAGE_HELP)(damage)
store_app.command("restore", help=RESTORE_HELP)(restore)
