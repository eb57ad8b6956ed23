"""docs/RULES.md, made from the rules themselves; ``python -m tests.data.rules_page`` writes it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.core.qualify.codes import CODES
from app.core.qualify.findings import Gate, Row
from app.core.qualify.ruleset import NEEDS, RULES, ruleset_version

PAGE: Final = Path(__file__).parents[2] / "docs" / "RULES.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A code that labels of the corpus have and we do not give; ``documents`` is in how many."""

    documents: int
    why: str


_NOT_ASKED = "a gate its capability does not need (evidence model §16): serving and performance need no ranks"

DIFFERENCES: Final[dict[str, Explained]] = {
    "NO_RANK_RESTORE_PROOF": Explained(documents=13, why=_NOT_ASKED),
    "CLAIM_WITHDRAWN": Explained(
        documents=7, why="stands outside the corpus: prose reworded between two commits (B.3)"
    ),
    "CLAIM_AMENDED": Explained(documents=1, why="stands outside the corpus: profile contract §13 (B.3)"),
    "NESTED_REJECTION:SEMANTIC_ORACLE_MISMATCH": Explained(
        documents=1, why="we write the word of the document behind the colon, not our code for it"
    ),
    "NESTED_REJECTION:STARTUP_OOM": Explained(documents=1, why="as before: the document's word"),
    "PARTIAL_RANK_FAILURE": Explained(
        documents=1,
        why="a serving record that lost a rank: given as KNOWN_FAILURE, of its own image; serving has no "
        "structural gate",
    ),
    "SEMANTIC_DEMONSTRATED": Explained(
        documents=1,
        why="one list stands for expected and observed answers (B.1: A): we give SEMANTIC_ATTESTED_ONLY",
    ),
    "SEMANTIC_ATTESTED_ONLY": Explained(
        documents=2,
        why="once the answer is that of the short request (B.1), given as CANARY_UNRELATED; once two "
        "codewords are compared (B.1: S), given as ORACLE_SELF_CONSISTENT",
    ),
    "SEMANTIC_INCONCLUSIVE": Explained(
        documents=1,
        why="the failed replay whose answer was lost is given as KNOWN_FAILURE; the replays that passed are "
        "attested",
    ),
    "NOT_PUBLISHED": Explained(documents=1, why="the document has no field about it"),
    "SCHEMA_ABSENT": Explained(documents=3, why="the shape is known as an input: INPUT_DOCUMENT decides"),
}

_INTRO = """# Rules

What the rules ask, what each needs, and what it does not show. This page is made from the rules
(`python -m tests.data.rules_page`) and checked by a test; the model behind it is the evidence model, whose
numbers (§, B) are cited.

Rules read facts, never JSON and never a clock. Every rule is asked about every case of a document, and
everything it finds is reported. The first row with a blocking finding decides; the rest stays visible.
A word of the document is a claim, no gate state. Nothing transfers from one scope to another.
"""

_OUTSIDE = """## What stands outside the rules

* **Order.** Rows 3 and 4 together give the lower of the declared class and the ceiling. Row 7 asks once more
  whether every needed gate is demonstrated or attested; one that is not is `GATE_MISSING`.
* **Cases.** A list of runs, selections or profiles is judged case by case. One mismatch is one of the
  document.
  Under one word for all cases a hole in one is a hole in the claim; in a status map, or beside honestly lower
  words, the qualified cases stand alone and the rest is `PARTLY_ESTABLISHED`.
* **Deployable** is a field of its own: qualified, restore or serving, not denied, published under a registry
  digest that names this config id (or a recorded labels-only child), no withdrawal, no known failure, no
  unproven pull, and a grade of at least `SPARKGATE_DEPLOYABLE_GRADE`.
* **Grade.** `demonstrated`: both answers are stored. `self-consistent`: two answers of one run agree.
  `attested`: a flag, a count or an annotated sentence says so. The verdict carries the grade of its answer.
* **Composition.** Of all receipts of exactly one scope, a row-1 or row-2 finding that is not explicitly
  superseded
  wins; else the best qualified receipt, with everything that is established, everything that is not, and all
  warnings; else the least severe of the rest.
* **Declaration.** Where a document claims nothing, a person may declare it meant, with name, time, reason
  and the
  receipts. That stands in for the missing word and for nothing else.
"""

_COMMAND = """## Without a server

    sparkgate receipt judge FILE [--json] [--with PATH]… [--grade GRADE] [--alone]

judges one document with these rules. A document that FILE points to (`machine_receipt`,
`client_result_path`) is read where it lies in the same tree; `--with` adds other documents or folders of
them: failures, withdrawals, publications of the same image. `--json` prints `outcome`, `deployable`,
`deployable_reason`, `evidence_grade`, `gates` with state and basis, `findings` with `code`, `pointer`,
`value`, and the verdict of every case. GRADE is `attested`, `self-consistent` (the default) or
`demonstrated`. Exit 0: judged, whatever the outcome; 1: no strict JSON, so no receipt; 2: usage, or FILE
cannot be read.
"""

_OURS = """## Where the evidence model leaves a choice

* `GATE_MISSING`, `GATE_FAILED`, `VALIDATOR_FAILED`, `ACT_CHECK`, `ENGINE_SELF_TEST`, `DECLARED_BY_OPERATOR`,
  `GRADE_TOO_LOW` and `CAPABILITY_NOT_DEPLOYABLE` are ours. A counter that must be zero and is not is a
  negative
  result like a scope leak: row 2.
* `ACT_CHECK:<code>` stands for a blocking rule of the profile contract (its §11, §14, §15 name the codes)
  that an activation of either schema breaks by its own bytes: ranks, forms of numbers, degrees against
  the profile's name, rows, pool, cache, the embedded image receipt. Such a receipt is *incomplete* (row
  5), as one that a schema's own validator refuses: a structure that does not hold proves nothing, but
  nothing wrong was restored either. *Rejected* stays for what shows that (a wrong answer, diverging
  ranks); it wins where both are found. What only the contract says (its digest, graph sizes, limit,
  sources) is judged with the contract, on the activation's page and by `sparkgate profile activation`,
  and not by a verdict, so that a verdict is the same at a terminal, in a bundle and on a server.
  `observed_tp` and `observed_dcp` bind degrees in `sparkgate-activation/v1` only. An empty `evidence`
  only warns (`ACT_NO_EVIDENCE` is a warning of §15).
* `RANK_MISSING` covers every set of ranks that is not 0 … TP−1, each once, and a rank without a value that
  the others
  have. `PARTIAL_RANK_FAILURE` blocks a restore even if the content was computed again: that is a recovery.
* `RESPONSE_DIGEST_UNEXPLAINED`, `IDENTITY_INCOMPLETE_WARN:source`, `IDENTITY_ALIAS_ONLY` and the
  `…_NOT_TESTED` codes
  are warnings by the evidence model: what they say is missing does not lower the outcome. A dropped source
  commit is
  another scope.
* `ORACLE_CONTAINS` warns (§7.3) although §5 calls such a match a trap: the flag beside it attests. A suffix
  never
  qualifies.
* A withdrawn claim (`CLAIM_WITHDRAWN`) is one of a receipt that another receipt names as superseded;
  statements from
  outside the stored documents need an annotation.
* A failure recorded without an image is one of its document's image and model; with an image, of that image.
"""


def page() -> str:
    """The whole page."""
    return (
        "\n".join((_INTRO, *_rules(), _OUTSIDE, _COMMAND, *_needs(), *_codes(), _OURS, *_differences()))
        + "\n"
    )


def _rules() -> Iterator[str]:
    yield f"Rule set `{ruleset_version()[:16]}…`, {len(RULES)} rules, {len(CODES)} codes.\n"
    for gate in Gate:
        rules = [one for one in RULES if one.gate is gate]
        if not rules:
            continue
        yield f"## {gate.value.capitalize()}\n"
        yield "| rule | question | needs | does not show | codes |\n|---|---|---|---|---|"
        for one in rules:
            codes = ", ".join(f"`{code}`" for code in one.codes)
            cells = (f"`{one.name}` v{one.version}", one.question, one.needs, one.leaves_open, codes)
            yield f"| {' | '.join(cells)} |"
        yield ""


def _needs() -> Iterator[str]:
    yield "## Gates a capability needs\n"
    yield "| capability | gates |\n|---|---|"
    for capability, gates in NEEDS.items():
        yield f"| {capability.value} | {', '.join(gate.value for gate in gates)} |"
    yield "\nOther gates are shown and never block. Capabilities that are not here cannot be qualified.\n"


def _codes() -> Iterator[str]:
    yield "## Codes by row\n"
    for row in Row:
        of_row = [code for code in CODES.values() if code.row is row]
        yield f"### {_ROWS[row]}\n"
        yield "| code | gate | says |\n|---|---|---|"
        for code in of_row:
            name = f"{code.name}:<{code.detail}>" if code.detail else code.name
            yield f"| `{name}` | {code.gate.value} | {code.says} |"
        yield ""


_ROWS = {
    Row.NO_VERDICT: "No verdict: none",
    Row.UNSUPPORTED: "Row 1: unsupported",
    Row.REJECTED: "Row 2: rejected",
    Row.DECLARED: "Row 3: the declared class",
    Row.CEILING: "Row 4: the ceiling of the kind",
    Row.INCOMPLETE: "Row 5: incomplete",
    Row.RESEARCH: "Row 6: research-only",
    Row.QUALIFIED: "Row 7: qualified",
    Row.SUPPORT: "Supports, never blocks",
    Row.WARNING: "Warns, stays visible on a qualified verdict",
    Row.NOTE: "Notes",
}


def _differences() -> Iterator[str]:
    yield "## Differences from the labels of the corpus\n"
    yield (
        "Outcome and `deployable` (grade `attested`) equal the label for every document, and a blocking code "
        "of the deciding row is in common. Codes of labels that are not given:\n"
    )
    yield "| code | documents | why |\n|---|---|---|"
    for code, one in DIFFERENCES.items():
        yield f"| `{code}` | {one.documents} | {one.why} |"


def main() -> None:
    """Write the page anew."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
