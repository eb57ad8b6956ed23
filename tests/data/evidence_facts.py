"""The golden table of facts: one line per document of the evidence corpus, generated and then read by a
person.

A line holds every fact with its pointer and basis, but no sentence of a document: longer texts stand as
the first digits of their SHA-256. Run ``python -m tests.data.evidence_facts`` after a change of the
extractors, and read the difference against the evidence model (appendix B says where each fact stands).
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.core.digest import sha256
from app.core.errors import DocumentError
from app.core.qualify.document import read_document
from app.core.qualify.extract import document_facts
from app.core.qualify.facts import DocumentFacts
from app.core.qualify.serialise import facts_document

TABLE = Path(__file__).parent / "facts"
_LONGEST = 72


def corpus_files(evidence: Path) -> list[str]:
    """The documents the corpus index names, in its order."""
    index = json.loads((evidence / "INDEX.json").read_text(encoding="utf-8"))
    return [entry["file"] for entry in index["files"]]


def golden_line(name: str, facts: DocumentFacts) -> dict[str, Any]:
    """One document's facts in short: ``value @pointer (basis)``."""
    document = _short(facts_document(facts))
    document["pins"] = [_pin(pin) for pin in document.get("pins", [])]
    document["statements"] = [one["pointer"] for one in document.get("statements", [])]
    return {"file": name, **document}


def facts_of(evidence: Path, name: str) -> DocumentFacts | None:
    """The facts of one document; none where it is no document at all."""
    try:
        return document_facts(read_document((evidence / name).read_bytes(), subject=name))
    except DocumentError:
        return None


def stored_lines() -> Iterator[dict[str, Any]]:
    """The table as it is stored."""
    for path in sorted(TABLE.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def _pin(pin: dict[str, Any]) -> str:
    target = pin.get("path") or pin.get("sibling") or ""
    return f"{pin['pointer']} {_digits(pin['sha256'])} {target}".strip()


def _digits(fact: Any) -> str:
    text = fact if isinstance(fact, str) else json.dumps(fact)
    return text[:8] if "@" in text else text


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"value", "pointer", "basis"}:
            return f"{_text(value['value'])} @{value['pointer']} ({value['basis']})"
        if "gap" in value:
            return f"{value['gap']} @{value.get('pointer', '')}"
        return {name: _short(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_short(element) for element in value]
    return _text(value) if isinstance(value, str) else value


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    if len(text) <= _LONGEST:
        return text
    return f"text {sha256(text.encode('utf-8'))[:12]}"


def main() -> None:
    """Write the table anew."""
    evidence = Path(os.environ.get("SPARKGATE_SHARED", "/work/shared")) / "evidence"
    lines: dict[str, list[str]] = {}
    for name in corpus_files(evidence):
        facts = facts_of(evidence, name)
        kind = facts.schema.kind.value if facts else "refused"
        line = golden_line(name, facts) if facts else {"file": name}
        lines.setdefault(kind, []).append(json.dumps(line, sort_keys=True, ensure_ascii=False))
    for kind, own in lines.items():
        (TABLE / f"{kind}.jsonl").write_text("\n".join(sorted(own)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
