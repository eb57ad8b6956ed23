"""``sparkgate profile collect``: an activation receipt from what the ranks of a start left behind."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from app.cli.profile_files import load_receipt, read_document_file
from app.cli.profile_lines import findings_document, print_findings, say, told_in_words
from app.core.canonical_json import ExactValue
from app.core.digest import sha256
from app.core.errors import FormatError, shown
from app.core.profiles.collect import Collected, CollectOrder, collect
from app.core.profiles.collect_inspection import read_inspection, read_pci
from app.core.profiles.collect_ranks import RankFacts, RankInspection
from app.core.profiles.collect_requests import Request, read_requests
from app.core.profiles.collect_sources import Proof, RankLog, ReadSource
from app.core.profiles.contract import Contract, read_contract
from app.core.profiles.log_lines import MAX_LINE_BYTES
from app.core.profiles.observed import observe
from app.core.qualify.document import read_document

RECEIPT_NAME: Final = "activation.json"
RECORD_NAME: Final = "performance.json"
_NAMES: Final = re.compile(r"rank(\d{1,4})(\.env|\.inspect\.json|\.pci|(?:\.[\w-]+)?\.log)")
_KINDS: Final = {".env": "environment", ".inspect.json": "inspection", ".pci": "pci"}
_RANK_FILE: Final = re.compile(r"(\d{1,4})=(.+)", re.DOTALL)
_RepeatedFiles = list[str] | None


@dataclass(slots=True)
class RankFiles:
    """The files of one rank."""

    environment: Path | None = None
    inspection: Path | None = None
    pci: Path | None = None
    logs: list[Path] = field(default_factory=list)


def collect_activation(
    contract: Annotated[Path, typer.Option("--contract", help="The profile contract.")],
    image: Annotated[Path, typer.Option("--image", help="The image receipt.")],
    profile: Annotated[str, typer.Option("--profile", help="The profile that was started.")],
    out: Annotated[
        Path, typer.Option("--out", help=f"Folder for {RECEIPT_NAME} and {RECORD_NAME}, which it lacks.")
    ],
    folder: Annotated[
        Path | None,
        typer.Argument(help="Holds rankN.env, rankN.inspect.json, rankN.pci, rankN.log, requests.jsonl …"),
    ] = None,
    environments: Annotated[_RepeatedFiles, typer.Option("--env", help="RANK=FILE; repeatable.")] = None,
    inspections: Annotated[_RepeatedFiles, typer.Option("--inspect", help="RANK=FILE; repeatable.")] = None,
    addresses: Annotated[
        _RepeatedFiles, typer.Option("--pci", help="RANK=FILE of adapters and PCI addresses; repeatable.")
    ] = None,
    logs: Annotated[_RepeatedFiles, typer.Option("--log", help="RANK=FILE; repeatable.")] = None,
    requests: Annotated[Path | None, typer.Option("--requests", help="Request records, one a line.")] = None,
    activity: Annotated[
        Path | None, typer.Option("--activity", help="What else the hosts did: a JSON list of windows.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Make a sparkgate-activation/v1 receipt, each field with the digest of the line that shows it, and the
    performance record beside it. What no line shows stays absent and is named.

    Exit codes: 0 complete and no rule blocks, 1 something is absent or blocks, 2 usage or unreadable.
    """
    with told_in_words(as_json=as_json):
        files = _files(
            folder, environments=environments, inspections=inspections, addresses=addresses, logs=logs
        )
        requests = requests or _beside(folder, "requests.jsonl")
        activity = activity or _beside(folder, "activity.json")
        _require_new(out)
        bound = read_contract(read_document_file(contract), subject=contract.name)
        if profile not in bound.profiles:
            raise FormatError("--profile", expected=" or ".join(bound.profiles), found=shown(profile))
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        made = _collect(
            bound, profile, image=image, files=files, requests=requests, activity=activity, now=now
        )
        out.mkdir(parents=True, exist_ok=True)
        _write(out / RECEIPT_NAME, made.receipt)
        _write(out / RECORD_NAME, made.record)
        _tell(made, out=out, as_json=as_json)
    raise typer.Exit(0 if made.complete else 1)


def _collect(
    contract: Contract,
    profile: str,
    *,
    image: Path,
    files: Mapping[int, RankFiles],
    requests: Path | None,
    activity: Path | None,
    now: str,
) -> Collected:
    sources: list[ReadSource] = []
    receipt = load_receipt(image)
    value = receipt.value if receipt is not None and isinstance(receipt.value, dict) else {}
    order = CollectOrder(
        contract=contract,
        profile=profile,
        image=value,
        requests=_requests(requests, sources=sources) if requests else (),
        activity=_activity(activity) if activity else None,
        sources=tuple(sources),
    )
    read: list[ReadSource] = []
    ranks = [_rank(number, files[number], sources=read, now=now) for number in sorted(files)]
    return collect(order, ranks, sources=read)


def _rank(number: int, files: RankFiles, *, sources: list[ReadSource], now: str) -> RankFacts:
    log = RankLog(number, collected_at=now)
    for file in files.logs:
        with file.open("rb") as stream:
            log.read(iter(lambda: stream.readline(MAX_LINE_BYTES), b""), file=file.name)
    inspection: RankInspection | None = None
    environment: Mapping[str, str] | None = None
    domains: dict[str, tuple[str, Proof]] = {}
    if files.inspection is not None:
        raw = _read(files.inspection, rank=number, kind="inspection", sources=sources)
        inspection, environment = read_inspection(
            raw, file=files.inspection.name, rank=number, collected_at=now
        )
    if files.environment is not None:
        raw = _read(files.environment, rank=number, kind="environment", sources=sources)
        environment = observe(raw, name=files.environment.name, rank=number).environment
    if files.pci is not None:
        raw = _read(files.pci, rank=number, kind="pci", sources=sources)
        domains = read_pci(raw, file=files.pci.name, rank=number, collected_at=now)
    return RankFacts(rank=number, log=log, inspection=inspection, environment=environment, domains=domains)


def _files(
    folder: Path | None,
    *,
    environments: _RepeatedFiles,
    inspections: _RepeatedFiles,
    addresses: _RepeatedFiles,
    logs: _RepeatedFiles,
) -> dict[int, RankFiles]:
    """Files by rank: of the folder, and those named one by one, which come first."""
    found: dict[int, RankFiles] = {}
    named = {"environment": environments, "inspection": inspections, "pci": addresses, "log": logs}
    for kind, texts in named.items():
        for number, path in _ranked(texts or []):
            _add(found.setdefault(number, RankFiles()), kind=kind, path=path)
    for path in sorted(folder.iterdir()) if folder is not None else []:
        known = _NAMES.fullmatch(path.name)
        if known is not None:
            _add(found.setdefault(int(known[1]), RankFiles()), kind=_KINDS.get(known[2], "log"), path=path)
    if not found:
        raise FormatError("ranks", expected="a folder with rankN files, or --log RANK=FILE", found="none")
    return found


def _add(files: RankFiles, *, kind: str, path: Path) -> None:
    if kind == "log":
        files.logs.append(path)
    elif getattr(files, kind) is None:
        setattr(files, kind, path)


def _ranked(texts: Iterable[str]) -> Iterator[tuple[int, Path]]:
    for text in texts:
        found = _RANK_FILE.fullmatch(text)
        if found is None:
            raise FormatError("RANK=FILE", expected="such as 0=rank0.log", found=shown(text))
        yield int(found[1]), Path(found[2])


def _beside(folder: Path | None, name: str) -> Path | None:
    return folder / name if folder is not None and (folder / name).is_file() else None


def _read(file: Path, *, rank: int, kind: str, sources: list[ReadSource]) -> bytes:
    raw = read_document_file(file)
    sources.append(ReadSource(rank=rank, kind=kind, file=file.name, sha256=sha256(raw), byte_count=len(raw)))
    return raw


def _requests(file: Path, *, sources: list[ReadSource]) -> tuple[Request, ...]:
    return read_requests(_read(file, rank=0, kind="requests", sources=sources), file=file.name)


def _activity(file: Path) -> list[ExactValue]:
    value = read_document(read_document_file(file), subject=file.name).value
    if not isinstance(value, list):
        raise FormatError(file.name, expected="a JSON list of windows", found=shown(value))
    return value


def _require_new(out: Path) -> None:
    """Nothing that was collected before is written over."""
    for name in (RECEIPT_NAME, RECORD_NAME):
        if (out / name).exists():
            raise FormatError(str(out / name), expected="no such file yet", found="one")


def _write(file: Path, raw: bytes) -> None:
    with file.open("xb") as stream:
        stream.write(raw)


def _tell(made: Collected, *, out: Path, as_json: bool) -> None:
    findings = (*made.judgement.findings, *made.conflicts)
    if as_json:
        document: dict[str, Any] = {
            "activation": {"file": str(out / RECEIPT_NAME), "sha256": sha256(made.receipt)},
            "performance": {"file": str(out / RECORD_NAME), "sha256": sha256(made.record)},
            "complete": made.complete,
            "absent": [one.to_object() for one in made.absent],
            **findings_document(findings),
        }
        typer.echo(json.dumps(document))
        return
    say(f"{out / RECEIPT_NAME}  {sha256(made.receipt)}")
    say(f"{out / RECORD_NAME}  {sha256(made.record)}")
    for one in made.absent:
        say(f"absent: {one.pointer}: {one.reason}")
    print_findings(findings, all_of_them=False)
