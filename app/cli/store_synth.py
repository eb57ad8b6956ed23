"""``sparkgate store synth``: valid stores to try everything on."""

import secrets
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from app.cli.progress import progress_bar
from app.cli.store_console import InputError, errors_shown, print_json, print_pairs
from app.core.canonical_json import JsonObject, encode_canonical
from app.core.oracle.question import OracleQuestion
from app.core.oracle.synthesis import least_bytes, synthesize_oracle
from app.core.store.layout import MAX_OBJECT_BYTES
from app.core.store.synth import (
    StoreKind,
    SynthesizedSnapshot,
    SynthesizedStore,
    synthesize_kind,
    synthesize_store,
)

SYNTH_HELP = """Make a valid store: PATH/rank0 … with one root per rank, and what its readers must know.

The page layout is in PATH/layout.json, the identities are in PATH/rank0.identity.json …
With --oracle the pages hold keys and values of an attention layer, and PATH/oracle.json asks what they say.
Equal content is adopted, different content is never overwritten.
Exit codes: 0 made, 2 usage, 5 failed.
"""


class SynthKind(StrEnum):
    """What can be made."""

    FLAT = "flat"
    LEGACY_PAGES = "legacy-pages"
    LEGACY_ROWS = "legacy-rows"
    ROWS_TAIL = "rows-tail"
    ALIAS = "alias"
    PAGE_DELTA_V1 = "page-delta-v1"
    PAGE_DELTA_V2 = "page-delta-v2"
    PAGE_DELTA_V3 = "page-delta-v3"


def synthesize(
    path: Annotated[Path, typer.Argument(help="Folder of the ranks' roots.")],
    byte_count: Annotated[
        int | None,
        typer.Option(
            "--bytes",
            min=1,
            help="Encoded bytes per rank of a flat snapshot, met exactly; of another page store's base.",
        ),
    ] = None,
    kind: Annotated[SynthKind, typer.Option(help="What to make; a base is made too.")] = SynthKind.FLAT,
    ranks: Annotated[int, typer.Option("--ranks", "--tp", min=1, max=64, help="Tensor-parallel ranks.")] = 4,
    object_bytes: Annotated[int, typer.Option(help="Size of every object but the last.")] = MAX_OBJECT_BYTES,
    seed: Annotated[int, typer.Option(help="Varies tokens and payload.")] = 0,
    oracle: Annotated[
        bool, typer.Option("--oracle", help="A flat snapshot that answers a question, and the question.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Write the store and say what was made."""
    with errors_shown(as_json=as_json):
        if oracle:
            document = _oracle(
                path, kind=kind, byte_count=byte_count, ranks=ranks, object_bytes=object_bytes, seed=seed
            )
        elif kind is SynthKind.FLAT:
            document = _flat(path, byte_count=byte_count, ranks=ranks, object_bytes=object_bytes, seed=seed)
        else:
            document = _small(
                path,
                kind=StoreKind(kind),
                byte_count=byte_count,
                ranks=ranks,
                object_bytes=object_bytes,
                seed=seed,
            )
        if as_json:
            print_json(document)
        else:
            print_pairs({key: str(value) for key, value in document.items() if not isinstance(value, list)})


def _flat(path: Path, *, byte_count: int | None, ranks: int, object_bytes: int, seed: int) -> JsonObject:
    """A flat snapshot, with a progress bar on standard error."""
    if byte_count is None:
        raise InputError("--bytes: expected the size of the flat snapshot, found none")
    with progress_bar("synth", total=ranks * byte_count) as told:
        made = synthesize_store(
            path,
            ranks=ranks,
            bytes_per_rank=byte_count,
            object_bytes=object_bytes,
            seed=seed,
            progress=told,
            new_id=_new_id,
        )
    _write_companions(made)
    return _describe_snapshot(made)


def _oracle(
    path: Path, *, kind: SynthKind, byte_count: int | None, ranks: int, object_bytes: int, seed: int
) -> JsonObject:
    """A flat snapshot of attention state with its question, the smallest if no size is given."""
    if kind is not SynthKind.FLAT:
        raise InputError(f"--oracle: expected a flat snapshot, found --kind {kind}")
    with progress_bar("synth", total=ranks * (byte_count or least_bytes())) as told:
        made = synthesize_oracle(
            path,
            ranks=ranks,
            bytes_per_rank=byte_count,
            object_bytes=object_bytes,
            seed=seed,
            progress=told,
            new_id=_new_id,
        )
    _write_companions(made.snapshot)
    _write_once(path / "oracle.json", content=made.question.to_bytes())
    return {**_describe_snapshot(made.snapshot), **_describe_question(path, made.question)}


def _small(
    path: Path, *, kind: StoreKind, byte_count: int | None, ranks: int, object_bytes: int, seed: int
) -> JsonObject:
    if byte_count is not None and not kind.stores_pages:
        raise InputError(f"--bytes: expected none for {kind}, found {byte_count}")
    made = synthesize_kind(
        path,
        kind=kind,
        ranks=ranks,
        bytes_per_rank=byte_count,
        object_bytes=object_bytes,
        seed=seed,
        new_id=_new_id,
    )
    _write_companions(made)
    return _describe_store(made)


def _new_id() -> str:
    return secrets.token_hex(16)


def _write_companions(made: SynthesizedSnapshot | SynthesizedStore) -> None:
    """What a reader needs and a root does not hold."""
    if made.layout is not None:
        _write_once(made.path / "layout.json", content=made.layout.canonical)
    for rank, identity in enumerate(made.identities):
        content = encode_canonical(identity.to_wire())
        _write_once(made.path / f"rank{rank}.identity.json", content=content)


def _write_once(path: Path, *, content: bytes) -> None:
    """Complete or not at all, and never over something else."""
    temporary = path.with_name(f".{path.name}.writing-{_new_id()}")
    try:
        temporary.write_bytes(content)
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            if path.read_bytes() != content:
                raise InputError(f"{path}: expected nothing or the same content, found other") from None
        finally:
            temporary.unlink()
    except OSError as error:
        raise InputError(f"{path}: expected a writable place, found {error.strerror}") from None


def _describe_snapshot(made: SynthesizedSnapshot) -> JsonObject:
    return {
        "context_digest": made.context_digest,
        "layout_sha256": made.layout.sha256,
        "layout": str(made.path / "layout.json"),
        "span_tokens": made.span_tokens,
        "bytes_per_rank": made.bytes_per_rank,
        "objects_per_rank": made.objects_per_rank,
        "ranks": [
            {
                "root": str(root),
                "storage_key": published.name.storage_key,
                "manifest_sha256": published.manifest_sha256,
                "snapshot_sha256": published.snapshot_sha256,
            }
            for root, published in zip(made.roots, made.published, strict=True)
        ],
    }


def _describe_question(path: Path, question: OracleQuestion) -> JsonObject:
    return {
        "oracle": str(path / "oracle.json"),
        "question_sha256": question.sha256,
        "expected": question.expected,
        "control": question.control,
        "fallback": question.fallback,
    }


def _describe_store(made: SynthesizedStore) -> JsonObject:
    """The longest exact entry first; all of them, shortest first, in ``entries``."""
    longest = made.entries[-1]
    pages: JsonObject = {}
    if made.layout is not None:
        pages = {"layout_sha256": made.layout.sha256, "layout": str(made.path / "layout.json")}
    return {
        "kind": made.kind,
        "context_digest": longest.context_digest,
        "span_tokens": longest.span_tokens,
        **pages,
        "entries": [
            {
                "context_digest": entry.context_digest,
                "span_tokens": entry.span_tokens,
                "paths": [str(name.alias_path if entry.is_alias else name.path) for name in entry.names],
            }
            for entry in made.entries
        ],
        "ranks": [
            {"root": str(root), "storage_key": identity.storage_key}
            for root, identity in zip(made.roots, made.identities, strict=True)
        ],
    }
