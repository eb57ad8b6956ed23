"""Bundles taken apart and put together again, without the key and with it."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app.core.bundle import layout
from app.core.bundle.archive import ArchiveWriter, bytes_of, walk
from app.core.bundle.build import Built, BundleRequest, BundleSigner, build_bundle
from app.core.bundle.manifest import PAYLOAD_TYPE, FileEntry, encode_manifest, parse_manifest
from app.core.bundle.records import Leaf, RowRecord, Subtree, subtrees
from app.core.bundle.sample import Sample, make_sample, nodes_of
from app.core.bundle.sample_log import BEGINNING
from app.core.bundle.verify import Verification, VerifyOptions, verify_file
from app.core.digest import sha256
from app.core.dsse import fingerprint, public_pem, seal
from app.core.ledger.leaf import instant_text
from app.core.signature import public_key, sign

SEED = bytes(range(32))
OTHER_SEED = bytes(range(1, 33))
STUB = b"PK\x05\x06 no program: its bytes are covered like any others"
Files = dict[str, bytes]


def build(sample: Sample, *, verifier: bytes = STUB) -> bytes:
    """The archive of a sample."""
    with TemporaryDirectory() as folder:
        target = Path(folder) / "bundle.tar"
        sample.build(target, verifier=verifier)
        assert [one.name for one in Path(folder).iterdir()] == ["bundle.tar"]
        return target.read_bytes()


def build_with(target: Path, sample: Sample, **changes: Any) -> Built:
    """Build a sample, some of what the builder is given changed."""
    size = len(sample.log.leaves)
    given: dict[str, Any] = {
        "request": BundleRequest(name=sample.signer.name, everything=True, start=0, size=size),
        "signer": BundleSigner(
            sign=lambda message: sign(message, seed=sample.signer.seed),
            public=sample.signer.verifier.public,
            ledger_vkey=sample.signer.verifier.vkey,
        ),
        "log": sample.log.leaves,
        "read_receipts": lambda wanted: {one: sample.log.documents[one] for one in wanted},
        "checkpoint": sample.checkpoint(size),
        "previous": sample.checkpoint(sample.previous),
        "consistency": sample.consistency(),
        "verifier": STUB,
    }
    return build_bundle(target, **{**given, **changes})


def period(sample: Sample, *, start: int) -> BundleRequest:
    """The request of a period that begins with an entry."""
    since = instant_text(BEGINNING + timedelta(seconds=start))
    size = len(sample.log.leaves)
    return BundleRequest(name=sample.signer.name, everything=False, start=start, size=size, period_from=since)


def part(sample: Sample, *, start: int, selected: Callable[[RowRecord], bool]) -> list[Leaf | Subtree]:
    """The log from the entry before `start` on, what is before pruned."""
    read = nodes_of(sample.log.leaf_hashes())
    start = max(0, start - 1)
    before = subtrees(0, start)
    hashes = read(before)
    pruned = [
        Subtree(index=node.position << node.level, level=node.level, hashed=hashes[node]) for node in before
    ]
    full = [
        replace(leaf, rows=tuple(replace(row, selected=selected(row)) for row in leaf.rows))
        for leaf in sample.log.leaves[start:]
    ]
    return [*pruned, *full]


@cache
def small_sample() -> Sample:
    """Two receipts, one of them with a wrong answer."""
    return make_sample(seed=SEED, receipts=3)


@cache
def small() -> bytes:
    """The archive of `small_sample`."""
    return build(small_sample())


@cache
def smallest() -> bytes:
    """One receipt and what belongs to it."""
    return build(make_sample(seed=SEED, receipts=1))


def key() -> str:
    """The fingerprint of the key that signs."""
    return str(fingerprint(public_key(SEED)))


def verify(
    raw: bytes, *, signer: str | None = None, checkpoint: bytes | None = None, unknown: bool = False
) -> Verification:
    """What the verifier says, given the right key."""
    verification = Verification()
    options = VerifyOptions(key=None if unknown else signer or key(), checkpoint=checkpoint)
    verify_file(io.BytesIO(raw), options=options, verification=verification)
    return verification


def said(verification: Verification) -> str:
    """All findings as text."""
    return "\n".join(map(str, verification.findings))


def unpack(raw: bytes) -> Files:
    """Path → bytes."""
    file = io.BytesIO(raw)
    return {member.path: bytes_of(file, member) for member in walk(file)}


def pack(files: Files) -> bytes:
    """The archive of these files, whatever they say."""
    packed = io.BytesIO()
    writer = ArchiveWriter(packed)
    for path in sorted(files):
        writer.add(path, byte_count=len(files[path]), chunks=(files[path],))
    writer.finish()
    return packed.getvalue()


def signed_again(files: Files, *, seed: bytes = SEED, counts: dict[str, int] | None = None) -> bytes:
    """The archive of these files with sums, manifest and signature that fit them: somebody has the key."""
    files = dict(files)
    public = public_key(seed)
    files[layout.KEY] = public_pem(public)
    listed = sorted((path, raw) for path, raw in files.items() if path not in layout.UNLISTED)
    sums = "".join(f"{sha256(raw)}  {path}\n" for path, raw in listed)
    files[layout.SUMS] = sums.encode()
    manifest = parse_manifest(files[layout.MANIFEST])
    receipts = [raw for path, raw in files.items() if layout.receipt_of(path)]
    entries = [
        FileEntry(path=path, byte_count=len(raw), sha256=sha256(raw))
        for path, raw in sorted(files.items())
        if path not in (layout.MANIFEST, layout.ENVELOPE) and not layout.receipt_of(path)
    ]
    changed = replace(
        manifest,
        key=fingerprint(public),
        files=entries,
        counts=manifest.counts if counts is None else {**manifest.counts, **counts},
        receipt_count=len(receipts),
        receipt_bytes=sum(map(len, receipts)),
    )
    files[layout.MANIFEST] = encode_manifest(changed)
    files[layout.ENVELOPE] = seal(
        files[layout.MANIFEST],
        payload_type=PAYLOAD_TYPE,
        sign=lambda message: sign(message, seed=seed),
        public=public,
    )
    return pack(files)


def change(path: str, edit: Callable[[bytes], bytes], *, counts: dict[str, int] | None = None) -> bytes:
    """`small` with one file edited and everything signed again."""
    files = unpack(small())
    before = files[path]
    files[path] = edit(before)
    assert files[path] != before
    return signed_again(files, counts=counts)


def lines(raw: bytes) -> list[dict[str, Any]]:
    """The objects of a file of lines."""
    return [json.loads(line) for line in raw.splitlines()]


def text_of(objects: list[dict[str, Any]]) -> bytes:
    """The inverse, in canonical JSON."""
    parts = [json.dumps(one, sort_keys=True, separators=(",", ":")) for one in objects]
    return "".join(f"{part}\n" for part in parts).encode()
