"""``sparkgate profile plan`` and ``drift``: one rank as it would be started, and as it really is."""

import json
from pathlib import Path
from typing import Annotated

import typer

from app.cli.profile_check import (
    AssetsOption,
    ContractFile,
    JsonOption,
    ReceiptOption,
    SiteOption,
    TemplatesOption,
    load_site,
    receipt_image_id,
)
from app.cli.profile_files import LoadedContract, load_contract, load_receipt, read_document_file
from app.cli.profile_lines import finish, say, told_in_words
from app.core.errors import FormatError, shown
from app.core.profiles.documents import refusal
from app.core.profiles.drift import DriftLine, LineState, drift_findings, drift_lines, drift_object
from app.core.profiles.effective import effective_profile
from app.core.profiles.folder import Receipt
from app.core.profiles.observed import observe
from app.core.profiles.plan import RankOrder, RankPlan, environment_text, plan_object, rank_plan

ProfileName = Annotated[str, typer.Argument(help="Name of the profile.")]
RankOption = Annotated[int, typer.Option("--rank", help="Which rank, from 0.")]
GivenOption = Annotated[
    list[str] | None, typer.Option("--set", help="KEY=VALUE for a placeholder of the profile; repeatable.")
]


def plan(
    contract: ContractFile,
    profile: ProfileName,
    rank: RankOption = 0,
    assets: AssetsOption = None,
    templates: TemplatesOption = None,
    receipt: ReceiptOption = None,
    site: SiteOption = None,
    given: GivenOption = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="New folder for plan and environment file."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print what one rank would be started with. Nothing is started; no approval is recorded here.

    Exit codes: 0 nothing but the missing approval blocks, 1 something else does, 2 usage or unreadable.
    """
    with told_in_words(as_json=as_json):
        loaded = load_contract(contract, assets=assets, template_set=templates)
        planned = _planned(
            loaded, profile, rank=rank, receipt=load_receipt(receipt), site=site, given=given or []
        )
        if output is not None:
            _write(planned, output)
        finish(
            plan_object(planned),
            planned.findings,
            as_json=as_json,
            lines=lambda: _print_plan(planned),
            tolerated=("REN_NOT_AUTHORIZED",),
        )


def drift(
    contract: ContractFile,
    profile: ProfileName,
    observed: Annotated[Path, typer.Argument(help="The rank's environment file or container inspection.")],
    rank: RankOption = 0,
    templates: TemplatesOption = None,
    receipt: ReceiptOption = None,
    site: SiteOption = None,
    given: GivenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare a rank's real environment or inspection with its plan, line by line; secrets are masked.

    Exit codes: 0 no line differs, 1 some do, 2 usage or unreadable.
    """
    with told_in_words(as_json=as_json):
        loaded = load_contract(contract, assets=None, template_set=templates)
        planned = _planned(
            loaded, profile, rank=rank, receipt=load_receipt(receipt), site=site, given=given or []
        )
        real = observe(read_document_file(observed), name=observed.name, rank=rank)
        lines = drift_lines(planned, real)
        head = {
            "contract_sha256": loaded.contract.sha256,
            "profile": profile,
            "rank": rank,
            "observed_sha256": real.sha256,
            "lines": drift_object(lines),
        }
        finish(head, drift_findings(lines, observed=real), as_json=as_json, lines=lambda: _print_lines(lines))


def _planned(
    loaded: LoadedContract,
    profile: str,
    *,
    rank: int,
    receipt: Receipt | None,
    site: Path | None,
    given: list[str],
) -> RankPlan:
    resolved = effective_profile(loaded.contract, profile, templates=loaded.templates.by_name)
    value = receipt.value if receipt is not None and isinstance(receipt.value, dict) else {}
    reference = value.get("image_reference")
    order = RankOrder(
        rank=rank,
        image_id=receipt_image_id(receipt),
        image_reference=reference if isinstance(reference, str) else None,
        receipt=receipt.value if receipt is not None else None,
        given=dict(_pair(text) for text in given),
        site=load_site(site),
    )
    return rank_plan(resolved, contract=loaded.contract, order=order)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.isascii() or not key.isidentifier():
        raise FormatError("--set", expected="KEY=VALUE", found=shown(key))
    return key, value


def _write(planned: RankPlan, folder: Path) -> None:
    """Two files into a new folder.

    Raises:
        ProfileDocumentError: REN_OUTPUT_EXISTS.
    """
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        raise refusal(
            str(folder), code="REN_OUTPUT_EXISTS", expected="a folder that does not exist", found="one"
        ) from None
    (folder / f"rank{planned.rank}-plan.json").write_text(json.dumps(plan_object(planned), indent=1) + "\n")
    (folder / f"rank{planned.rank}.env").write_text(environment_text(planned))


def _print_plan(planned: RankPlan) -> None:
    for line in environment_text(planned).splitlines():
        say(line)
    for mount in planned.mounts:
        mode = "read-write" if mount.writable else "read-only"
        say(f"mount {mount.source} at {mount.target or 'not published'} {mode}  {mount.says}")
    say(f"image {planned.image_reference or 'not given'}  {planned.image_id or ''}")
    say(f"command {' '.join(planned.command)}  (to review, never executed)")


def _print_lines(lines: tuple[DriftLine, ...]) -> None:
    for line in lines:
        if line.state is not LineState.SAME:
            say(
                f"{line.state.value:12} {line.place.value} {line.name}"
                f"  planned {line.expected or 'nothing'}, real {line.found or 'nothing'}"
            )
