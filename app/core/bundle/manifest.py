"""MANIFEST.json: what was asked for, what it covers, and every file. Its exact bytes are what is signed.

Receipts are named by their digests, so the manifest says how many there are and how many bytes; SHA256SUMS,
which it names with its digest, has a line for each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from app.core.bundle.derive import BundleRequest
from app.core.bundle.layout import SCHEMA, SUMS, media_type
from app.core.canonical_json import (
    JsonObject,
    JsonValue,
    decode_canonical,
    encode_canonical,
    expect_int,
    expect_object,
    expect_text,
)
from app.core.digest import Digest
from app.core.errors import FormatError, shown

PAYLOAD_TYPE: Final = "application/vnd.sparkgate.bundle+json"
_KEYS: Final = frozenset({"counts", "files", "key", "log", "receipts", "request", "schema"})
_FILE_KEYS: Final = frozenset({"bytes", "media_type", "path", "sha256"})
_LOG_KEYS: Final = frozenset({"full", "outside", "previous_size", "root", "size", "vkey"})
_RECEIPT_KEYS: Final = frozenset({"bytes", "count", "listed_in"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A file of the bundle that is no receipt."""

    path: str
    byte_count: int
    sha256: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class LogExtent:
    """What of the log is covered.

    Attributes:
        full: entries that are there in full. outside: exported rows they name that are not in the bundle.
    """

    size: int
    root: str
    vkey: str
    previous_size: int | None
    full: int
    outside: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The document. `key` is the fingerprint of the key that signs."""

    request: BundleRequest
    key: Digest
    log: LogExtent
    counts: Mapping[str, int]
    files: Sequence[FileEntry]
    receipt_count: int
    receipt_bytes: int


def encode_manifest(manifest: Manifest) -> bytes:
    """The bytes that are signed: canonical JSON."""
    request: JsonObject = {**asdict(manifest.request), "images": list(manifest.request.images)}
    files: list[JsonValue] = [
        {
            "bytes": file.byte_count,
            "media_type": media_type(file.path),
            "path": file.path,
            "sha256": str(file.sha256),
        }
        for file in manifest.files
    ]
    return encode_canonical(
        {
            "schema": SCHEMA,
            "request": request,
            "key": str(manifest.key),
            "log": {**asdict(manifest.log)},
            "counts": dict(manifest.counts),
            "files": files,
            "receipts": {
                "count": manifest.receipt_count,
                "bytes": manifest.receipt_bytes,
                "listed_in": SUMS,
            },
        }
    )


def parse_manifest(raw: bytes) -> Manifest:
    """Read it strictly.

    Raises:
        FormatError: another spelling than `encode_manifest` writes; the place is named.
    """
    subject = "MANIFEST.json"
    value = expect_object(decode_canonical(raw, subject=subject), subject=subject, keys=_KEYS)
    if value["schema"] != SCHEMA:
        raise FormatError(f"{subject}.schema", expected=SCHEMA, found=shown(value["schema"]))
    counts = expect_object(value["counts"], subject=f"{subject}.counts")
    receipts = expect_object(value["receipts"], subject=f"{subject}.receipts", keys=_RECEIPT_KEYS)
    files = value["files"] if isinstance(value["files"], list) else []
    manifest = Manifest(
        request=_request(value["request"], subject=f"{subject}.request"),
        key=Digest.parse(value["key"], subject=f"{subject}.key"),
        log=_log(value["log"], subject=f"{subject}.log"),
        counts={name: _count(counts, name, subject=f"{subject}.counts") for name in counts},
        files=[_file(one, subject=f"{subject}.files[{place}]") for place, one in enumerate(files)],
        receipt_count=_count(receipts, "count", subject=f"{subject}.receipts"),
        receipt_bytes=_count(receipts, "bytes", subject=f"{subject}.receipts"),
    )
    if encode_manifest(manifest) != raw:
        raise FormatError(subject, expected="the one spelling of its content", found="another")
    return manifest


def _request(value: JsonValue, *, subject: str) -> BundleRequest:
    known = asdict(BundleRequest(name="", everything=True, start=0, size=0))
    said = expect_object(value, subject=subject, keys=frozenset(known))
    for name, example in known.items():
        kind = list if isinstance(example, tuple) else type(example)
        if type(said[name]) is not kind:
            raise FormatError(
                f"{subject}.{name}", expected=f"a value of type {kind.__name__}", found=shown(said[name])
            )
    images = said["images"] if isinstance(said["images"], list) else []
    return BundleRequest(
        name=str(said["name"]),
        everything=said["everything"] is True,
        start=_count(said, "start", subject=subject),
        size=_count(said, "size", subject=subject),
        period_from=str(said["period_from"]),
        period_to=str(said["period_to"]),
        images=tuple(str(one) for one in images),
        topology=str(said["topology"]),
    )


def _log(value: JsonValue, *, subject: str) -> LogExtent:
    said = expect_object(value, subject=subject, keys=_LOG_KEYS)
    previous = said["previous_size"]
    return LogExtent(
        size=_count(said, "size", subject=subject),
        root=expect_text(said["root"], subject=f"{subject}.root"),
        vkey=expect_text(said["vkey"], subject=f"{subject}.vkey"),
        previous_size=None if previous is None else _count(said, "previous_size", subject=subject),
        full=_count(said, "full", subject=subject),
        outside=_count(said, "outside", subject=subject),
    )


def _file(value: JsonValue, *, subject: str) -> FileEntry:
    said = expect_object(value, subject=subject, keys=_FILE_KEYS)
    path = expect_text(said["path"], subject=f"{subject}.path")
    try:
        expected = media_type(path)
    except KeyError:
        raise FormatError(f"{subject}.path", expected="a file of a bundle", found=shown(path)) from None
    if said["media_type"] != expected:
        raise FormatError(f"{subject}.media_type", expected=expected, found=shown(said["media_type"]))
    return FileEntry(
        path=path,
        byte_count=_count(said, "bytes", subject=subject),
        sha256=Digest.parse(said["sha256"], subject=f"{subject}.sha256"),
    )


def _count(value: JsonObject, name: str, *, subject: str) -> int:
    return expect_int(value[name], subject=f"{subject}.{name}", minimum=0)
