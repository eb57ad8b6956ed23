"""``sparkgate profile diff`` and ``namespace``: contracts or profiles line by line, and cache namespaces."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.profile_check import JsonOption, TemplatesOption, print_json
from app.cli.profile_files import LoadedContract, load_contract, read_document_file
from app.cli.profile_lines import finish, say, told_in_words
from app.core.errors import FormatError, shown
from app.core.profiles.diff import Diff, diff_contracts, diff_object, diff_profiles
from app.core.profiles.effective import EffectiveProfile, effective_profile
from app.core.profiles.namespace import collisions, deployment_object, derive_namespace, read_deployments
from app.core.qualify.document import read_document


def diff(
    left: Annotated[Path, typer.Argument(help="A profile contract.")],
    right: Annotated[Path, typer.Argument(help="Another one, or the same for two profiles of it.")],
    profile: Annotated[
        str | None, typer.Option("--profile", help="LEFT,RIGHT or one name: compare effective profiles.")
    ] = None,
    templates: TemplatesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two contracts, or two effective profiles, line by line.

    Exit codes: 0 equal, 1 different or a document cannot be taken, 2 usage or unreadable.
    """
    with told_in_words(as_json=as_json):
        before = load_contract(left, assets=None, template_set=templates)
        after = load_contract(right, assets=None, template_set=templates)
        if profile is None:
            compared = diff_contracts(before.contract, after.contract)
        else:
            first, _, second = profile.partition(",")
            compared = diff_profiles(_resolved(before, first), _resolved(after, second or first))
        if as_json:
            print_json(
                {"left": before.contract.sha256, "right": after.contract.sha256, **diff_object(compared)}
            )
        else:
            _print_diff(compared)
        raise typer.Exit(1 if compared.lines else 0)


def namespace(
    image_id: Annotated[str | None, typer.Argument(help="sha256:…, the image's configuration id.")] = None,
    profile: Annotated[str | None, typer.Argument(help="Name of a cache profile.")] = None,
    deployments: Annotated[
        Path | None, typer.Option("--deployments", help="Deployments to look for collisions among.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the namespace of a profile on an image, or the collisions among deployments.

    Exit codes: 0 derived or none collide, 1 some do, 2 usage or unreadable.
    """
    with told_in_words(as_json=as_json):
        if deployments is not None:
            raw, name = read_document_file(deployments), deployments.name
            listed = read_deployments(read_document(raw, subject=name).value, subject=name)
            head = {"deployments": [deployment_object(one) for one in listed]}
            finish(head, collisions(listed), as_json=as_json, all_of_them=True)
        if image_id is None or profile is None:
            found = shown(image_id) if profile is None else "none"
            raise FormatError("namespace", expected="IMAGE_ID PROFILE, or --deployments", found=found)
        derived = derive_namespace(image_id, profile)
        if as_json:
            print_json({"image_id": image_id, "profile": profile, "namespace": derived})
        else:
            typer.echo(derived)


def _resolved(loaded: LoadedContract, name: str) -> EffectiveProfile:
    return effective_profile(loaded.contract, name, templates=loaded.templates.by_name)


def _print_diff(compared: Diff) -> None:
    signs = {"added": "+", "removed": "-", "changed": "~"}
    for line in compared.lines:
        if line.change.value == "changed":
            text = f"{line.left} → {line.right}"
        else:
            text = line.left if line.left is not None else line.right or ""
        note = f"  ({line.note})" if line.note else ""
        say(f"{signs[line.change.value]} {line.pointer}  {text}{note}")
    more = ", and more" if compared.is_cut else ""
    typer.echo(f"{len(compared.lines)} differences{more}")
