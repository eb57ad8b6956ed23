"""A verdict for a terminal: the outcome first, then why, the gates as words, every finding."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from app.core.printable import printable
from app.core.qualify.facts import DocumentFacts
from app.core.qualify.findings import Finding, Row
from app.core.qualify.values import Found
from app.core.qualify.verdict import Verdict

_KINDS = {Row.SUPPORT: "supports", Row.WARNING: "warns", Row.NOTE: "note", Row.QUALIFIED: "decides"}


def print_verdict(
    file: Path, facts: DocumentFacts, *, verdicts: Sequence[Verdict], main: Verdict, others: Sequence[str]
) -> None:
    """Print everything a verdict says. Texts of the document are shown as text, never as markup."""
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    schema = facts.schema.schema
    console.print(f"{main.outcome.value}  ({main.capability.value})  {main.reason}")
    console.print(f"deployable      {_deployable(main)}")
    console.print(f"evidence grade  {main.evidence_grade.value if main.evidence_grade else 'none'}")
    console.print(f"schema          {printable(schema.value) if isinstance(schema, Found) else 'none'}")
    console.print(f"document        {facts.sha256}  {printable(str(file))}")
    console.print(f"scope           {_scope(main)}")
    console.print(f"rule set        {main.ruleset}")
    for name in others:
        console.print(f"read beside     {printable(name)}")
    console.print(_gates(main))
    console.print(_findings(main.findings))
    if len(verdicts) > 1:
        console.print(_cases(verdicts))
    for title, texts in (("established", main.established), ("not established", main.not_established)):
        for text in texts:
            console.print(printable(f"{title}: {text}"))


def _deployable(main: Verdict) -> str:
    return "yes" if main.deployable else f"no, {main.deployable_reason}"


def _scope(main: Verdict) -> str:
    scope = main.scope
    axes = (
        scope.image or "no image",
        f"TP {scope.tp or '?'}",
        f"DCP {scope.dcp or '?'}",
        scope.publication_schema,
    )
    return printable("  ".join(axis for axis in axes if axis))


def _gates(main: Verdict) -> Table:
    table = Table(title="gates", title_justify="left")
    for column in ("gate", "state", "basis", "needed", "says"):
        table.add_column(column, overflow="fold")
    for one in main.gates:
        basis = one.basis.value if one.basis else ""
        table.add_row(
            one.gate.value, one.state.value, basis, "yes" if one.needed else "", printable(one.says)
        )
    return table


def _findings(findings: Sequence[Finding]) -> Table:
    table = Table(title="findings", title_justify="left")
    for column in ("code", "row", "pointer", "value"):
        table.add_column(column, overflow="fold")
    for one in findings:
        place = f"{one.document[:12]} {one.pointer}" if one.document else one.pointer
        table.add_row(
            one.name, _KINDS.get(one.row, f"row {int(one.row)}"), printable(place), printable(one.value)
        )
    return table


def _cases(verdicts: Sequence[Verdict]) -> Table:
    table = Table(title="cases", title_justify="left")
    for column in ("case", "capability", "outcome", "grade", "first finding"):
        table.add_column(column, overflow="fold")
    for one in verdicts:
        grade = one.evidence_grade.value if one.evidence_grade else ""
        first = one.deciding[0].name if one.deciding else ""
        table.add_row(printable(one.case), one.capability.value, one.outcome.value, grade, first)
    return table
