"""VERIFY.md: what is in a bundle and how to check it, with and without our program."""

from typing import Final

from app.core.bundle.derive import BundleRequest
from app.core.bundle.manifest import PAYLOAD_TYPE

_GUIDE: Final = """# How to check this bundle

Log {name}, {size} entries, range from entry {start}. The key that signed it has the fingerprint

    {fingerprint}

Compare this fingerprint with the one you got another way (from the operator in person, from an earlier
bundle). A fingerprint that you read only here proves nothing: whoever forges a bundle forges this line too.

## With the program in the bundle

Needs Python 3.11 or newer and nothing else; no network, nothing is written.

    tar -xf BUNDLE.tar verify.pyz
    python3 -I verify.pyz BUNDLE.tar --key FINGERPRINT --checkpoint KEPT.txt

KEPT.txt is a checkpoint that you fetched earlier and kept; leave it out the first time, and keep
`log/checkpoint.txt` of this bundle for the next. Exit codes: 0 good, 1 findings, 2 unreadable, 3 consistent
but the signer was not established (no --key). `--json` prints one document. A forger would forge the program
as well: take `verify.pyz` from a place you trust, or read it; it is a zip of plain Python files.

What it checks: the signature; every hash; that no file is missing or too many; that the log has no gap, comes
to the signed root and contains the earlier checkpoint; that every row is the one the log recorded; that what
was asked for is there, all of it and nothing else, and the period begins and ends where it says; that
tables, statements and report say what rows and receipts say, line by line; and it makes every verdict again
from the receipts, with the same rules.

## With other programs

    tar -xf BUNDLE.tar && sha256sum -c SHA256SUMS
    sha256sum SHA256SUMS        # named in MANIFEST.json

The signature is a DSSE envelope (`MANIFEST.json.dsse`) over the exact bytes of `MANIFEST.json`:

    (printf 'DSSEv1 {type_length} {payload_type} %d ' $(wc -c < MANIFEST.json); \\
        cat MANIFEST.json) > pae
    python3 -c 'import base64, json; e = json.load(open("MANIFEST.json.dsse")); \\
        open("sig", "wb").write(base64.b64decode(e["signatures"][0]["sig"]))'
    openssl pkeyutl -verify -pubin -inkey keys/bundle.pub.pem -rawin -in pae -sigfile sig
    openssl pkey -pubin -in keys/bundle.pub.pem -outform DER | sha256sum      # the fingerprint

`log/checkpoint.txt` is a C2SP checkpoint signed with the key in `keys/ledger.vkey`; `log/consistency.txt` is
the body of a C2SP `add-checkpoint` request from `log/checkpoint-prev.txt`. The inclusion proof of one entry
(C2SP `.tlog-proof`) comes from `sparkgate bundle proof BUNDLE.tar SHA256-OF-A-RECEIPT`. The lines of
`statements/` are in-toto statements in DSSE envelopes. Tables are views: a cell that a spreadsheet would take
for a formula begins with an apostrophe.

## What it does not show

That what people or machines wrote into receipts is true. That nothing happened that was never submitted. That
the log has no entry behind the last one covered: fetch a checkpoint when the period is over and keep it; a
bundle over fewer entries than it signs is then a finding.
Verdicts of other rules than this program has are counted and not made again: a program of their time does.
Rows that are marked as context, or that lie outside the selection, are not in the tables; the program counts
them.
"""


def guide_text(request: BundleRequest, *, fingerprint: str) -> bytes:
    """The text for a bundle."""
    return _GUIDE.format(
        name=request.name,
        size=request.size,
        start=request.start,
        fingerprint=fingerprint,
        payload_type=PAYLOAD_TYPE,
        type_length=len(PAYLOAD_TYPE),
    ).encode("utf-8")
