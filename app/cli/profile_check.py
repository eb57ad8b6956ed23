"""``sparkgate profile check`` and ``effective``: a contract with its files, and one profile resolved."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.profile_files import (
    LoadedContract,
    load_contract,
    load_receipt,
    load_selections,
    read_document_file,
)
from app.cli.profile_lines import finish, say, told_in_words
from app.core.errors import FormatError, shown
from app.core.profiles.budget import MEMORY_FLOOR_BYTES
from app.core.profiles.effective import EffectiveProfile, effective_object, effective_profile
from app.core.profiles.findings import ProfileFinding
from app.core.profiles.folder import Receipt, check_contract, pinned_findings
from app.core.profiles.guards import RankCase, ranks_findings
from app.core.profiles.guards.degrees import entry_findings
from app.core.profiles.namespace import IMAGE_ID
from app.core.profiles.observed import ObservedRank, observe
from app.core.profiles.secrets import masked
from app.core.profiles.site import Site, read_site, site_findings

ContractFile = Annotated[Path, typer.Argument(help="The profile contract.")]
AssetsOption = Annotated[
    Path | None, typer.Option("--assets", help="Asset root, for mesh pins and transport manifests.")
]
TemplatesOption = Annotated[
    Path | None, typer.Option("--templates", help="Templates as one document, instead of files beside.")
]
ReceiptOption = Annotated[Path | None, typer.Option("--receipt", help="The image receipt.")]
SiteOption = Annotated[Path | None, typer.Option("--site", help="The site document.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def check(
    contract: ContractFile,
    profile: Annotated[str | None, typer.Option("--profile", help="This profile only.")] = None,
    assets: AssetsOption = None,
    templates: TemplatesOption = None,
    receipt: ReceiptOption = None,
    site: SiteOption = None,
    selection: Annotated[
        list[Path] | None, typer.Option("--selection", help="A release selection that may pin; repeatable.")
    ] = None,
    observed: Annotated[
        list[str] | None,
        typer.Option("--rank", help="RANK=FILE: a rank's environment file or container inspection."),
    ] = None,
    available: Annotated[
        list[str] | None, typer.Option("--available", help="RANK=BYTES of memory that is free there.")
    ] = None,
    floor: Annotated[int, typer.Option("--floor", help="Bytes that must be free.")] = MEMORY_FLOOR_BYTES,
    dynamic_draft: Annotated[
        bool | None,
        typer.Option("--dynamic-draft/--fixed-draft", help="Whether the draft depth changes while running."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Print passed checks too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check a contract, its templates and pins; with --rank the guards of one profile on real ranks.

    Exit codes: 0 nothing blocks, 1 something does or a document cannot be taken, 2 usage or unreadable.
    """
    with told_in_words(as_json=as_json):
        loaded = load_contract(contract, assets=assets, template_set=templates)
        image = load_receipt(receipt)
        found = check_contract(
            loaded.contract,
            lookup=loaded.lookup,
            templates=loaded.templates,
            only=profile,
            receipt=image,
        )
        found += pinned_findings(loaded.contract, image, load_selections(selection or []))
        around = _Around(
            receipt=image,
            site=load_site(site),
            free=dict(_free_bytes(text) for text in available or []),
            floor=floor,
            draft=dynamic_draft,
        )
        if around.site is not None:
            found += tuple(site_findings(around.site, profile=profile, image_id=receipt_image_id(image)))
        found += _guards(loaded, profile, ranks=_all_observed(observed or []), around=around)
        head = {"file": str(contract), "contract_sha256": loaded.contract.sha256, "profile": profile}
        finish(head, found, as_json=as_json, all_of_them=everything)


def effective(
    contract: ContractFile,
    profile: Annotated[str, typer.Argument(help="Name of the profile.")],
    templates: TemplatesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a profile's effective values and where each comes from.

    Exit codes: 0 resolved, 1 inheritance or a template is broken, 2 usage or unreadable.
    """
    with told_in_words(as_json=as_json):
        loaded = load_contract(contract, assets=None, template_set=templates)
        resolved = effective_profile(loaded.contract, profile, templates=loaded.templates.by_name)
        findings = (*loaded.templates.findings, *resolved.findings)
        finish(effective_object(resolved), findings, as_json=as_json, lines=lambda: _print_values(resolved))


def load_site(file: Path | None) -> Site | None:
    """A site document, if one was named."""
    return read_site(read_document_file(file), subject=file.name) if file is not None else None


def receipt_image_id(receipt: Receipt | None) -> str | None:
    """The image id a receipt is about; none where it has no form of one, which the receipt's check tells."""
    value = receipt.value.get("image_id") if receipt is not None and isinstance(receipt.value, dict) else None
    return value if isinstance(value, str) and IMAGE_ID.fullmatch(value) else None


def _all_observed(texts: list[str]) -> list[ObservedRank]:
    ranks = [_observed(text) for text in texts]
    if len({one.rank for one in ranks}) < len(ranks):
        raise FormatError("--rank", expected="every rank once", found="one twice")
    return ranks


def _observed(text: str) -> ObservedRank:
    number, equals, file = text.partition("=")
    if not equals or not number.isascii() or not number.isdecimal() or len(number) > 4:
        raise FormatError("--rank", expected="RANK=FILE, such as 0=rank0.env", found=shown(text))
    path = Path(file)
    return observe(read_document_file(path), name=path.name, rank=int(number))


def _free_bytes(text: str) -> tuple[int, int]:
    rank, equals, size = text.partition("=")
    if not equals or not all(part.isascii() and part.isdecimal() and len(part) < 19 for part in (rank, size)):
        raise FormatError("--available", expected="RANK=BYTES, such as 0=110000000000", found=shown(text))
    return int(rank), int(size)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """What stands beside the ranks; ``free`` is bytes by rank, ``draft`` whether its depth is dynamic."""

    receipt: Receipt | None
    site: Site | None
    free: dict[int, int]
    floor: int
    draft: bool | None


def _guards(
    loaded: LoadedContract, profile: str | None, *, ranks: list[ObservedRank], around: _Around
) -> tuple[ProfileFinding, ...]:
    if not ranks:
        if around.free or around.draft is not None:
            raise FormatError("--available, --dynamic-draft", expected="--rank beside them", found="none")
        names = [profile] if profile is not None else list(loaded.contract.profiles)
        entries = [loaded.contract.profiles[name] for name in names]
        return tuple(one for entry in entries for one in entry_findings(loaded.contract, entry))
    if profile is None:
        raise FormatError("--rank", expected="--profile, the profile the ranks should run", found="none")
    resolved = effective_profile(loaded.contract, profile, templates=loaded.templates.by_name)
    cases = [
        RankCase(
            contract=loaded.contract,
            effective=resolved,
            observed=one,
            receipt=around.receipt.value if around.receipt is not None else None,
            image_id=receipt_image_id(around.receipt),
            diagnostic_namespace=around.site.diagnostic_namespace if around.site is not None else None,
            has_dynamic_draft=around.draft,
            available_bytes=around.free.get(one.rank) if one.rank is not None else None,
            memory_floor_bytes=around.floor,
        )
        for one in ranks
    ]
    return ranks_findings(cases)


def _print_values(resolved: EffectiveProfile) -> None:
    held = {one.key for one in resolved.values}
    for one in (*resolved.values, *(common for common in resolved.common if common.key not in held)):
        replaced = f"  (instead of {masked(one.key, one.replaced)})" if one.replaced is not None else ""
        say(f"{one.key}={masked(one.key, one.value)}  {one.source.value} {one.origin}{replaced}")


def print_json(document: dict[str, Any]) -> None:
    """One JSON document on standard output."""
    typer.echo(json.dumps(document))
