"""``sparkgate ledger``: its checkpoint, its entries, an audit of all it covers; beside the database."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from sqlalchemy.exc import SQLAlchemyError

from app.cli.progress import progress_line
from app.config import Settings
from app.core.canonical_json import JsonObject, encode_canonical
from app.core.dsse import fingerprint
from app.core.errors import CoreError
from app.core.ledger.checkpoint import (
    Checkpoint,
    NoteSigner,
    NoteVerifier,
    encode_base64,
    parse_checkpoint,
    verify_checkpoint,
)
from app.core.ledger.leaf import instant_text, parse_leaf
from app.db.session import Database, open_database
from app.errors import AppError
from app.ledger.service import proofs
from app.ledger.service.audit import LedgerAudit
from app.ledger.service.findings import AuditTotals
from app.ledger.service.signing import LedgerKeyError, load_signer
from app.models import LedgerLeaf

ledger_app = typer.Typer(
    help="The ledger: its checkpoint, its entries, an audit. Reads SPARKGATE_DATABASE_URL.",
    no_args_is_help=True,
)

AUDIT_HELP = """Check the whole ledger and every row it covers; nothing is written.

Every entry is hashed again, the tree is rebuilt, every checkpoint and every covered row compared. What was
changed, removed or added behind the application's back is named, also by a superuser. A log that was
rewritten whole is found with --against: a checkpoint that was fetched earlier and kept elsewhere.
Exit codes: 0 good, 1 findings, 2 usage or unreadable input.
"""

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


@ledger_app.command()
def checkpoint(
    size: Annotated[int | None, typer.Option(min=0, help="One handed out earlier; else of now.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write it to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the head of now, signed with SPARKGATE_LEDGER_KEY_FILE; an auditor keeps it for --against.

    Bundles are verified with it too, and with the key's fingerprint, which is said beside it.
    Exit codes: 0 done, 2 usage, refused or no database.
    """
    with _database() as (database, signer), database.transaction() as session:
        note = proofs.checkpoint(session, size=size, signer=signer)
    head = parse_checkpoint(note).checkpoint
    key = fingerprint(signer.verifier.public) if signer else None
    if out is not None:
        _write(out, note)
    if as_json:
        said: JsonObject = {"origin": head.origin, "size": head.size, "root": head.root.hex()}
        _print_json(said | {"note": note.decode(), "fingerprint": key})
    elif out is None:
        typer.echo(note.decode(), nl=False)
        typer.echo(f"key fingerprint {key or 'not known: no key is set'}", err=True)
    else:
        typer.echo(f"{out}: the head over {head.size:,} entries; key fingerprint {key or 'not known'}")


def _write(path: Path, note: bytes) -> None:
    """A checkpoint that is kept is not written over."""
    try:
        with path.open("xb") as file:
            file.write(note)
    except OSError as error:
        _refuse(f"checkpoint {path}: expected a new file, found {error.strerror}")


@ledger_app.command()
def entries(
    start: Annotated[int, typer.Option(min=0, help="Index of the first.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List entries: when what happened, by whom, and how many rows it covers.

    Exit codes: 0 done, 2 usage, refused or no database.
    """
    with _database() as (database, _), database.reading() as session:
        rows, size = proofs.entries(session, start=start, limit=limit)
        if as_json:
            _print_json({"size": size, "entries": [_entry_document(row) for row in rows]})
            return
        table = Table("index", "at", "kind", "by", "rows", "facts")
        for row in rows:
            leaf = parse_leaf(row.document, subject=f"ledger_leaf {row.index}")
            count = sum(len(keys) for keys in leaf.rows.values())
            facts = ", ".join(f"{name} {value}" for name, value in leaf.facts.items())
            table.add_row(str(row.index), instant_text(leaf.at), leaf.kind, leaf.by, str(count), facts)
    Console(markup=False, highlight=False).print(table)
    typer.echo(f"{len(rows)} of {size} entries")


@ledger_app.command(help=AUDIT_HELP)
def audit(
    against: Annotated[
        Path | None, typer.Option(help="A checkpoint fetched earlier that the log must contain.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="The log's vkey; else that of SPARKGATE_LEDGER_KEY_FILE, if set.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    with _database() as (database, signer):
        verifier = NoteVerifier.parse(key) if key else signer.verifier if signer else None
        head = _read_head(against, verifier=verifier) if against else None
        with database.reading() as session, progress_line("audit") as say:
            run = LedgerAudit(
                session,
                verifier=verifier,
                against=head,
                progress=lambda totals: say(f"{totals.entries:,} entries, {totals.rows:,} rows"),
            )
            found: list[JsonObject] = []
            for finding in run.findings():
                found.append(finding.to_document())
                if not as_json:
                    typer.echo(str(finding))
    if as_json:
        _print_json(_audit_document(run.totals, found=found, verifier=verifier, against=head))
    else:
        _print_totals(run.totals, verifier=verifier, against=head)
    raise typer.Exit(1 if found else 0)


def _read_head(path: Path, *, verifier: NoteVerifier | None) -> Checkpoint:
    subject = f"checkpoint {path}"
    try:
        raw = path.read_bytes()
    except OSError as error:
        _refuse(f"{subject}: expected a readable file, found {error.strerror}")
    if verifier is None:
        return parse_checkpoint(raw, subject=subject).checkpoint
    return verify_checkpoint(raw, verifier=verifier, subject=subject)


def _entry_document(row: LedgerLeaf) -> JsonObject:
    return {
        "index": row.index,
        "kind": row.kind,
        "document": encode_base64(row.document),
        "leaf_hash": row.leaf_hash,
    }


def _audit_document(
    totals: AuditTotals,
    *,
    found: list[JsonObject],
    verifier: NoteVerifier | None,
    against: Checkpoint | None,
) -> JsonObject:
    return {
        "outcome": "findings" if found else "good",
        "findings": [*found],
        "totals": totals.to_document(),
        "key": verifier.vkey if verifier else None,
        "against_size": against.size if against else None,
    }


def _print_totals(totals: AuditTotals, *, verifier: NoteVerifier | None, against: Checkpoint | None) -> None:
    table = Table(show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    table.add_row("entries", f"{totals.entries:,}")
    table.add_row("root", totals.root or "entries are missing")
    table.add_row("checkpoints", f"{totals.checkpoints:,}")
    signed = f"by {verifier.vkey}" if verifier else "not judged: give --key or SPARKGATE_LEDGER_KEY_FILE"
    table.add_row("signatures", signed)
    kept = f"size {against.size:,}" if against else "none given: a log rewritten whole would not show"
    table.add_row("earlier checkpoint", kept)
    table.add_row("rows", f"{totals.rows:,}")
    table.add_row("findings", f"{totals.findings:,}")
    Console(markup=False, highlight=False, soft_wrap=True).print(table)


@contextmanager
def _database() -> Iterator[tuple[Database, NoteSigner | None]]:
    """The database and the ledger's key as the settings say; what cannot be used ends with code 2."""
    settings = Settings()
    if settings.database_url is None and settings.owner_database_url is not None:
        settings = settings.model_copy(update={"database_url": settings.owner_database_url})
    try:
        signer = load_signer(settings)
        database = open_database(settings)
    except (LedgerKeyError, ValueError) as error:
        _refuse(str(error))
    try:
        yield database, signer
    except AppError as error:
        _refuse(error.detail)
    except CoreError as error:
        _refuse(str(error))
    except SQLAlchemyError as error:
        _refuse(f"database: expected the tables of sparkgate, found {_first_line(error)}")
    finally:
        database.dispose()


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _print_json(document: JsonObject) -> None:
    typer.echo(encode_canonical(document).decode("ascii"))


def _refuse(line: str) -> NoReturn:
    typer.echo(line, err=True)
    raise typer.Exit(2)
