"""``sparkgate profile activation``, ``claim`` and ``drill``: documents judged without a server."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from app.cli.profile_files import read_document_file
from app.cli.profile_lines import finish, say, told_in_words
from app.core.digest import sha256
from app.core.errors import FormatError, shown
from app.core.profiles.activation import (
    ActivationJudgement,
    activation_object,
    is_pinned,
    judge_activation,
)
from app.core.profiles.activation_terms import RuleSet
from app.core.profiles.claim import claim_findings, claim_object, claims_about, read_claim
from app.core.profiles.contract import Contract, read_contract
from app.core.profiles.drill import drill_object, parse_drill
from app.core.profiles.drill_bar import drill_findings
from app.core.profiles.release import read_release_selection
from app.core.qualify.activation_bounds import PUBLISHED_POOLS
from app.core.qualify.claim import Claim

_POOL = re.compile(r"(\d{1,4})/(\d{1,4})=(\d{1,18})")
_TOLD_APART = ("findings", "result")
_CONTRACT_NAME = "profile-contract.json"
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
AllOption = Annotated[bool, typer.Option("--all", help="Print passed checks too.")]


def activation(
    file: Annotated[Path, typer.Argument(help="The activation receipt.")],
    contracts: Annotated[
        list[Path] | None,
        typer.Option(
            "--contract",
            help="The contract; of several the one the receipt names. "
            f"None: {_CONTRACT_NAME} beside FILE or in the folder above.",
        ),
    ] = None,
    rules: Annotated[
        RuleSet, typer.Option("--rules", help="The published rules alone, or those and ours.")
    ] = RuleSet.STRICT,
    pinned: Annotated[
        bool, typer.Option("--pinned", help="A release selection that is not at hand pins the receipt.")
    ] = False,
    selections: Annotated[
        list[Path] | None, typer.Option("--selection", help="A release selection; repeatable.")
    ] = None,
    pools: Annotated[
        list[str] | None, typer.Option("--pool", help="TP/DCP=TOKENS: the receipted pool; repeatable.")
    ] = None,
    claims: Annotated[
        list[Path] | None, typer.Option("--claim", help="A claim document; repeatable.")
    ] = None,
    everything: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """Judge an activation receipt: every rule in its order, with its place and what was found there.

    Exit codes: 0 nothing blocks, 1 something does, 2 usage or unreadable.
    """
    with told_in_words(as_json=as_json):
        raw = read_document_file(file)
        bound = _contract(raw, contracts or _beside(file))
        known = _pools(pools or [])
        judged = judge_activation(raw, contract=bound, rules=rules, pinned=pinned, pools=known)
        chosen = [
            read_release_selection(read_document_file(one), subject=one.name) for one in selections or []
        ]
        if not pinned and is_pinned(judged, contract=bound, selections=chosen):
            judged = judge_activation(raw, contract=bound, rules=rules, pinned=True, pools=known)
        about = claims_about([_claim(one) for one in claims or []], subject_sha256=judged.sha256)
        findings = (*judged.findings, *claim_findings(about))
        document = activation_object(judged)
        head = {name: value for name, value in document.items() if name not in _TOLD_APART}
        head |= {"file": str(file), "claims": [claim_object(one) for one in about]}
        finish(
            head, findings, as_json=as_json, all_of_them=everything, lines=lambda: _print(judged, file=file)
        )


def claim(
    files: Annotated[list[Path], typer.Argument(help="Claim documents.")],
    subject: Annotated[
        Path | None, typer.Option("--subject", help="Only claims about this document's bytes.")
    ] = None,
    everything: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """Read claims and say what they do to the documents they speak of; those stay as they are.

    Exit codes: 0 nothing blocks, 1 a claim says too much or is none, 2 usage or unreadable.
    """
    with told_in_words(as_json=as_json):
        every = [_claim(one) for one in files]
        wanted = {one.subject_sha256 for one in every}
        if subject is not None:
            wanted = {sha256(subject.read_bytes())}
        about = [one for digest in sorted(wanted) for one in claims_about(every, subject_sha256=digest)]
        head = {"claims": [claim_object(one) for one in about]}
        finish(head, claim_findings(about), as_json=as_json, all_of_them=everything)


def drill(
    file: Annotated[Path, typer.Argument(help="The drill document.")],
    everything: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """Judge a drill: every rank, all tokens, from disk, a new generation, the exact answer.

    Exit codes: 0 the bar is passed, 1 it is not, 2 usage or unreadable.
    """
    with told_in_words(as_json=as_json):
        read = parse_drill(read_document_file(file), subject=file.name)
        head = {"file": str(file), **drill_object(read)}
        finish(head, drill_findings(read), as_json=as_json, all_of_them=everything)


def _beside(file: Path) -> list[Path]:
    """The contract in the receipt's folder or the one above, as upstream keeps them.

    Raises:
        FormatError: there is none.
    """
    folder = file.absolute().parent
    found = [one / _CONTRACT_NAME for one in (folder, folder.parent) if (one / _CONTRACT_NAME).is_file()]
    if not found:
        raise FormatError("--contract", expected=f"a contract, or {_CONTRACT_NAME} beside FILE", found="none")
    return found[:1]


def _contract(raw: bytes, files: list[Path]) -> Contract:
    """The contract whose digest the receipt names, else the first (§14 G-12)."""
    read = [read_contract(read_document_file(one), subject=one.name) for one in files]
    return next((one for one in read if one.sha256.encode() in raw), read[0])


def _claim(file: Path) -> Claim:
    return read_claim(read_document_file(file), subject=file.name)


def _pools(texts: list[str]) -> Mapping[tuple[int, int], int]:
    known = dict(PUBLISHED_POOLS)
    for text in texts:
        found = _POOL.fullmatch(text)
        if found is None:
            raise FormatError("--pool", expected="TP/DCP=TOKENS, such as 4/1=2280000", found=shown(text))
        known[int(found[1]), int(found[2])] = int(found[3])
    return known


def _print(judged: ActivationJudgement, *, file: Path) -> None:
    pinned = "pinned" if judged.pinned else "not pinned"
    say(f"{file}  {judged.profile or 'no profile'}  {judged.rules.value} rules, {pinned}")
