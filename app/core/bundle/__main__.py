"""The verifier's command line, ``python3 verify.pyz BUNDLE [--key …] [--checkpoint …] [--json]``.

Standard library alone; nothing is written, no network.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from app.core.bundle.outcome import UNREADABLE
from app.core.bundle.verify import Verification, VerifyOptions, verify_bundle
from app.core.canonical_json import JsonObject, encode_canonical
from app.core.errors import FormatError
from app.core.ledger.checkpoint import LARGEST_NOTE_BYTES
from app.core.signature import HAS_CRYPTOGRAPHY

EXIT_CODES = "Exit codes: 0 good, 1 findings, 2 unreadable, 3 consistent but the signer was not established."


def main(argv: Sequence[str] | None = None) -> int:
    """Check one bundle and say what was found; the exit code."""
    parser = argparse.ArgumentParser(
        prog="verify.pyz", description="Check an evidence bundle, offline.", epilog=EXIT_CODES
    )
    parser.add_argument("bundle", type=Path, help="the bundle, a .tar file")
    parser.add_argument(
        "--key", help="fingerprint of the key that must have signed it (64 hexadecimal digits)"
    )
    parser.add_argument(
        "--checkpoint", type=Path, help="a checkpoint kept from earlier that the log must contain"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    given = parser.parse_args(argv)
    verification = check(given.bundle, key=given.key, checkpoint=given.checkpoint)
    text = said(verification, as_json=given.json)
    told = _tell(text.encode("ascii", "backslashreplace") + b"\n")
    return verification.exit_code if told else UNREADABLE


def _tell(text: bytes) -> bool:
    """Whether it could be said at all: an answer nobody got must not look like one."""
    try:
        # Past Python's own buffer, which would be tried again, and complained of, at the end.
        while text:
            text = text[os.write(1, text) :]
    except OSError as error:
        with suppress(OSError):
            os.write(2, f"verify.pyz: standard output: {error.strerror}\n".encode())
        return False
    return True


def check(bundle: Path, *, key: str | None, checkpoint: Path | None) -> Verification:
    """Check a file with what the auditor gave."""
    kept = None
    if checkpoint is not None:
        try:
            with checkpoint.open("rb") as file:
                kept = file.read(LARGEST_NOTE_BYTES + 1)
        except OSError as error:
            return _unreadable(f"checkpoint {checkpoint}", found=error.strerror or "an error")
    return verify_bundle(
        bundle, options=VerifyOptions(key=None if key is None else digits_of(key), checkpoint=kept)
    )


def digits_of(text: str) -> str:
    """A fingerprint or digest as people copy it, without what stands around its digits."""
    return text.strip().lower().removeprefix("sha256:")


def said(verification: Verification, *, as_json: bool) -> str:
    """What is printed."""
    if as_json:
        return encode_canonical(verification.to_document()).decode("ascii")
    return "\n".join(_lines(verification))


def _lines(verification: Verification) -> Iterator[str]:
    facts, counts = verification.facts, verification.counts
    if facts:
        yield f"log       {facts['log']}, {facts['size']} entries, root {facts['root']}"
        yield f"signed by {facts['key']}{'' if verification.established else ' (compare it, or give --key)'}"
        yield f"asked for {_asked(facts)}"
    if counts:
        yield (
            f"receipts  {counts['receipts']}, entries {counts['entries']} in full, rows {counts['rows']}, "
            f"{counts['context']} more as context, {counts['outside']} outside the selection"
        )
        yield (
            f"verdicts  {counts['verdicts']}: {counts['verdicts_judged']} made again, "
            f"{counts['verdicts_other_rules']} of other rules than this program has"
        )
    if not HAS_CRYPTOGRAPHY:
        yield "Ed25519   by the routine in this program"
    yield from (f"finding   {finding}" for finding in verification.findings)
    if verification.finding_count > len(verification.findings):
        yield f"finding   … {verification.finding_count} in all"
    yield f"outcome   {verification.outcome}"


def _asked(facts: JsonObject) -> str:
    """What the bundle says was asked for, and the entries were compared with."""
    if facts["everything"]:
        return "everything"
    since, until = facts["period_from"] or "the beginning", facts["period_to"] or "the head"
    images = facts["images"] if isinstance(facts["images"], list) else []
    about = f"{len(images)} image{'s' * (len(images) > 1)}" if images else "all images"
    topology = facts["topology"] or "all topologies"
    return f"{since} to {until} (entries from {facts['start']} on), {about}, {topology}"


def _unreadable(subject: str, *, found: str) -> Verification:
    verification = Verification(readable=False)
    verification.report(FormatError(subject, expected="a readable file", found=found))
    return verification


if __name__ == "__main__":
    sys.exit(main())
