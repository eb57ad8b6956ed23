"""The golden table of verdicts: one line per document of the evidence corpus (evidence-model §13, §16).

Every document is judged with all others around it, as a server would have them, with the grade the labels
were made for. Run ``python -m tests.data.evidence_verdicts`` after a change of rules or facts, and read the
difference: an outcome that moves without a new version of a rule is a fault.
"""

import json
import os
from pathlib import Path
from typing import Any

from app.core.qualify.facts import Capability, DocumentFacts
from app.core.qualify.findings import Row
from app.core.qualify.neighbours import Stored, surroundings_of
from app.core.qualify.ruleset import ruleset_version
from app.core.qualify.values import Basis
from app.core.qualify.verdict import Verdict, by_capability, joined_verdict, judge_document
from tests.data.evidence_facts import facts_of

TABLE = Path(__file__).parent / "verdicts.jsonl"


def corpus_index(evidence: Path) -> list[dict[str, Any]]:
    """The files of the corpus index, in its order."""
    read: list[dict[str, Any]] = json.loads((evidence / "INDEX.json").read_text(encoding="utf-8"))["files"]
    return read


def corpus_stored(evidence: Path) -> dict[str, Stored]:
    """Every readable document with its origin; the versions of a path are ordered by the index."""
    stored: dict[str, Stored] = {}
    for entry in corpus_index(evidence):
        facts = facts_of(evidence, entry["file"])
        if facts is None:
            continue
        stored[entry["file"]] = Stored(
            facts=facts,
            repository=entry["repo"],
            path=entry["path"],
            commit=entry.get("commit") or "",
            age=1 if entry.get("superseded") else 0,
        )
    return stored


def corpus_verdicts(
    stored: dict[str, Stored], name: str, *, grade: Basis = Basis.ATTESTED, alone: bool = False
) -> dict[Capability, Verdict]:
    """The joined verdicts of one document by capability."""
    own = stored[name]
    around = surroundings_of(own, [own] if alone else list(stored.values()))
    verdicts = judge_document(own.facts, around=around, deployable_grade=grade)
    return {
        capability: joined_verdict(group, own.facts) for capability, group in by_capability(verdicts).items()
    }


def headline(facts: DocumentFacts, verdicts: dict[Capability, Verdict]) -> Verdict:
    """The verdict for the capability of the document's schema."""
    return verdicts.get(facts.schema.capability) or next(iter(verdicts.values()))


def verdict_line(name: str, facts: DocumentFacts, verdicts: dict[Capability, Verdict]) -> dict[str, Any]:
    """One document's verdicts in short."""
    main = headline(facts, verdicts)
    others = {one.capability.value: one.outcome.value for one in verdicts.values() if one is not main}
    return {
        "file": name,
        "capability": main.capability.value,
        "outcome": main.outcome.value,
        "row": int(main.row),
        "deployable": main.deployable,
        "deployable_reason": main.deployable_reason,
        "grade": main.evidence_grade.value if main.evidence_grade else None,
        "blocking": sorted({one.name for one in main.findings if one.row.blocks}),
        "beside": sorted({one.name for one in main.findings if one.row > Row.QUALIFIED}),
        **({"others": others} if others else {}),
    }


def stored_lines() -> tuple[str, dict[str, dict[str, Any]]]:
    """The rule-set version of the table, and its lines by file."""
    first, *rest = TABLE.read_text(encoding="utf-8").splitlines()
    return json.loads(first)["ruleset"], {line["file"]: line for line in map(json.loads, rest)}


def qualified_names() -> list[str]:
    """The documents of the table that came out qualified; versions that were replaced left out."""
    _, lines = stored_lines()
    return [
        name
        for name, line in lines.items()
        if line["outcome"] == "qualified" and not name.startswith("_superseded/")
    ]


def main() -> None:
    """Write the table anew."""
    evidence = Path(os.environ.get("SPARKGATE_SHARED", "/work/shared")) / "evidence"
    stored = corpus_stored(evidence)
    lines = [json.dumps({"ruleset": str(ruleset_version())})]
    lines += [
        json.dumps(verdict_line(name, one.facts, corpus_verdicts(stored, name)), sort_keys=True)
        for name, one in stored.items()
    ]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
