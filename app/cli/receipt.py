"""``sparkgate receipt``: what the rules make of an evidence document, without a server."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.client import fail
from app.cli.receipt_lines import print_verdict
from app.cli.receipt_read import Beside, read_beside, read_bytes
from app.core.errors import DocumentError
from app.core.qualify.document import read_document
from app.core.qualify.extract import document_facts
from app.core.qualify.facts import DocumentFacts
from app.core.qualify.neighbours import surroundings_of
from app.core.qualify.values import Basis, Found
from app.core.qualify.verdict import Verdict, by_capability, joined_verdict, judge_document
from app.core.qualify.verdict_document import verdict_document

receipt_app = typer.Typer(help="Evidence documents and their verdicts.", no_args_is_help=True)


@receipt_app.callback()
def _group() -> None:
    """Evidence documents and their verdicts."""


@receipt_app.command("judge")
def judge(
    file: Annotated[Path, typer.Argument(help="The evidence document.")],
    beside: Annotated[
        list[Path] | None, typer.Option("--with", help="Another document, or a folder of them; repeatable.")
    ] = None,
    grade: Annotated[
        Basis,
        typer.Option(
            envvar="SPARKGATE_DEPLOYABLE_GRADE",
            help="The weakest grade of evidence with which anything is deployable.",
        ),
    ] = Basis.SELF_CONSISTENT,
    alone: Annotated[bool, typer.Option("--alone", help="Read no document that FILE points to.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Judge a document with the rules of this version; documents it points to are read where they lie.

    Exit codes: 0 judged, whatever the outcome; 1 no receipt (not strict JSON); 2 usage or unreadable.
    """
    try:
        raw = read_bytes(file)
        others = read_beside(file, extra=beside or [], follow=not alone)
    except OSError as error:
        found = (error.strerror or str(error)).lower()
        told = OSError(f"{error.filename}: expected a document to read, found {found}")
        fail(told, as_json=as_json, status=2)
    try:
        document = read_document(raw, subject=file.name)
    except DocumentError as error:
        typer.echo(json.dumps(_refused(file, error)) if as_json else f"none  INVALID_JSON\n{error}")
        raise typer.Exit(1) from None
    facts = document_facts(document)
    verdicts = _judged(facts, others=others, grade=grade)
    if as_json:
        typer.echo(json.dumps(_document(file, facts, verdicts=verdicts, others=others, grade=grade)))
    else:
        print_verdict(file, facts, verdicts=verdicts, main=_main(facts, verdicts), others=others.names)


def _judged(facts: DocumentFacts, *, others: Beside, grade: Basis) -> tuple[Verdict, ...]:
    around = surroundings_of(others.own(facts), others.stored)
    return judge_document(facts, around=around, deployable_grade=grade)


def _main(facts: DocumentFacts, verdicts: tuple[Verdict, ...]) -> Verdict:
    """The joined verdict for the capability of the document's schema."""
    groups = by_capability(verdicts)
    group = groups.get(facts.schema.capability) or next(iter(groups.values()))
    return joined_verdict(group, facts)


def _document(
    file: Path, facts: DocumentFacts, *, verdicts: tuple[Verdict, ...], others: Beside, grade: Basis
) -> dict[str, Any]:
    main = _main(facts, verdicts)
    joined = {
        capability.value: joined_verdict(group, facts).outcome.value
        for capability, group in by_capability(verdicts).items()
        if capability is not main.capability
    }
    schema = facts.schema.schema
    return {
        "file": str(file),
        "sha256": facts.sha256,
        "canonical_sha256": facts.canonical_sha256,
        "schema": schema.value if isinstance(schema, Found) else None,
        "kind": facts.schema.kind.value,
        "deployable_grade": grade.value,
        **verdict_document(main),
        "other_capabilities": joined,
        "cases": [verdict_document(one) for one in verdicts] if len(verdicts) > 1 else [],
        "read_beside": others.names,
    }


def _refused(file: Path, error: DocumentError) -> dict[str, Any]:
    finding = {
        "code": "INVALID_JSON",
        "pointer": error.pointer,
        "value": f"expected {error.expected}, found {error.found}",
        "offset": error.offset,
    }
    return {
        "file": str(file),
        "outcome": "none",
        "deployable": False,
        "deployable_reason": "INVALID_JSON",
        "evidence_grade": None,
        "findings": [finding],
        "error": str(error),
    }
