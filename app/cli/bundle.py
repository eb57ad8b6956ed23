"""``sparkgate bundle``: check an evidence bundle, take a proof out of one, make a small one to try it with;
no server is needed.
"""

import secrets
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from app.cli.client import fail
from app.core.base64_text import encode_base64
from app.core.bundle.__main__ import EXIT_CODES, check, digits_of, said
from app.core.bundle.code_archive import verifier_archive
from app.core.bundle.proof import EntryProof, prove_entry
from app.core.bundle.sample import ORIGIN, make_sample
from app.core.canonical_json import JsonObject, encode_canonical
from app.core.errors import AbsentError, CoreError
from app.core.signature import SEED_BYTES

bundle_app = typer.Typer(help="Evidence bundles, without a server.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
VERIFY_HELP = f"""Check a bundle as the verify.pyz in it does; nothing is written, nothing else is read.

{EXIT_CODES}
"""


@bundle_app.command(help=VERIFY_HELP)
def verify(
    file: Annotated[Path, typer.Argument(help="The bundle, a .tar file.")],
    key: Annotated[
        str | None, typer.Option(help="Fingerprint of the key that must have signed (64 hexadecimal digits).")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A checkpoint kept from earlier that the log must contain.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    verification = check(file, key=key, checkpoint=checkpoint)
    typer.echo(said(verification, as_json=as_json))
    raise typer.Exit(verification.exit_code)


@bundle_app.command()
def proof(
    file: Annotated[Path, typer.Argument(help="The bundle, a .tar file.")],
    entry: Annotated[str, typer.Argument(help="SHA-256 of a receipt, or the index of an entry.")],
    out: Annotated[Path | None, typer.Option(help="Write it to this new file; else standard output.")] = None,
    key: Annotated[
        str | None, typer.Option(help="Fingerprint of the key that must have signed the bundle.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Take the inclusion proof of one entry out of a bundle (C2SP tlog-proof), verified before it is written.

    Whoever has the entry's bytes and the log's vkey checks it without the bundle; `bundle verify` checks the
    rest. Exit codes: 0 proven; 1 the bundle does not hold together, or another key signed it; 2 usage,
    unreadable, or no such entry.
    """
    try:
        made = prove_entry(file, wanted=digits_of(entry), key=None if key is None else digits_of(key))
    except AbsentError as error:
        fail(error, as_json=as_json, status=2)
    except CoreError as error:
        fail(error, as_json=as_json, status=1)
    except OSError as error:
        found = (error.strerror or str(error)).lower()
        fail(OSError(f"{file}: expected a readable file, found {found}"), as_json=as_json, status=2)
    if out is not None:
        _write_new(out, made.text, as_json=as_json)
    if as_json:
        typer.echo(encode_canonical(_proof_document(made, out=out)).decode("ascii"))
    elif out is None:
        typer.echo(made.text.decode(), nl=False)
    else:
        typer.echo(f"{out}: entry {made.index:,} under the head over {made.head.size:,} entries")
        typer.echo(f"the log's key: {made.vkey}")


def _write_new(path: Path, text: bytes, *, as_json: bool) -> None:
    try:
        with path.open("xb") as file:
            file.write(text)
    except OSError as error:
        found = (error.strerror or str(error)).lower()
        fail(OSError(f"{path}: expected room for a new file, found {found}"), as_json=as_json, status=2)


def _proof_document(made: EntryProof, *, out: Path | None) -> JsonObject:
    return {
        "file": None if out is None else str(out),
        "proof": made.text.decode(),
        "index": made.index,
        "entry": encode_base64(made.document),
        "log": made.head.origin,
        "size": made.head.size,
        "root": made.head.root.hex(),
        "vkey": made.vkey,
        "fingerprint": made.signer,
    }


@bundle_app.command()
def sample(
    file: Annotated[Path, typer.Argument(help="Where to write it; nothing may be there.")],
    receipts: Annotated[int, typer.Option(min=1, max=10_000, help="How many receipts it holds.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Write a small signed bundle with a throw-away key; the last line is the fingerprint of that key.

    Exit codes: 0 written; 2 usage, or the file cannot be written.
    """
    if file.exists():
        _refuse(f"{file}: expected nothing there, found a file")
    try:
        made = make_sample(seed=secrets.token_bytes(SEED_BYTES), receipts=receipts)
        built = made.build(file, verifier=verifier_archive())
    except OSError as error:
        _refuse(f"{file}: expected room for a bundle, found {(error.strerror or str(error)).lower()}")
    if as_json:
        written: JsonObject = {
            "file": str(file),
            "sha256": str(built.sha256),
            "bytes": built.byte_count,
            "log": ORIGIN,
            "size": len(made.log.leaves),
            "counts": dict(built.counts),
            "fingerprint": str(built.fingerprint),
        }
        typer.echo(encode_canonical(written).decode("ascii"))
        return
    typer.echo(
        f"{file}: {built.byte_count:,} bytes, {built.receipts} receipts, {len(made.log.leaves)} entries"
    )
    typer.echo(f"check it: sparkgate bundle verify {file} --key {built.fingerprint}")
    typer.echo(str(built.fingerprint))


def _refuse(line: str) -> NoReturn:
    typer.echo(line, err=True)
    raise typer.Exit(2)
