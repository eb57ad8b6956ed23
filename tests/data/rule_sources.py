"""What the rules, and all that feeds them, look like: a change of source must be a change of version.

A verdict carries the version of the rules it was made with, and whoever made it with others is judged again.
That holds only if no rule changes behind its version. So a digest over the source of each rule's file, and
over everything that reads documents or joins findings, stands in `rule_sources.json` beside its version.

    python -m tests.data.rule_sources          after a version was raised
    python -m tests.data.rule_sources --same   the source changed, its answers did not (you have looked)
"""

import ast
import inspect
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import app.core.qualify as package
from app.core.digest import sha256
from app.core.qualify.ruleset import DECISION_VERSION, RULES

GOLDEN: Final = Path(__file__).with_name("rule_sources.json")
ROOT: Final = Path(package.__file__).parent
# These say words, pages and documents of a verdict; they cannot change what it is.
_ONLY_WORDS: Final = frozenset(
    {
        "serialise.py",
        "verdict_document.py",
        "established.py",
        "own_receipt.py",
        "ruleset.py",
        "codes.py",
        "rule.py",
    }
)


def lines_that_count(source: str) -> str:
    """A source without comment lines, empty lines and docstrings: the same under every Python."""
    tree = ast.parse(source)
    said: set[int] = set()
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            said |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    kept = (line for number, line in enumerate(source.splitlines(), 1) if number not in said)
    return "\n".join(line.rstrip() for line in kept if line.strip() and not line.lstrip().startswith("#"))


def current() -> dict[str, dict[str, Any]]:
    """Version and source digest: of each rule's file, and under ``decision`` of every other one, also of
    those beside the rules that several of them share."""
    found = {rule.name: {"version": rule.version, "source": _digest(_file_of(rule.answer))} for rule in RULES}
    of_rules = {_file_of(rule.answer) for rule in RULES}
    others = sorted(
        path for path in ROOT.rglob("*.py") if path not in of_rules and path.name not in _ONLY_WORDS
    )
    whole = "\n".join(lines_that_count(path.read_text()) for path in others)
    return {"decision": {"version": DECISION_VERSION, "source": str(sha256(whole.encode()))}} | found


def behind_their_version(before: dict[str, dict[str, Any]], *, now: dict[str, dict[str, Any]]) -> list[str]:
    """Names whose source is another under the same version."""
    return [
        name
        for name, one in now.items()
        if name in before
        and before[name]["version"] == one["version"]
        and before[name]["source"] != one["source"]
    ]


def _file_of(answer: object) -> Path:
    module = inspect.getmodule(answer)
    if not isinstance(module, ModuleType) or module.__file__ is None:
        raise TypeError(f"{answer}: expected a function of a module")
    return Path(module.__file__)


def _digest(path: Path) -> str:
    return str(sha256(lines_that_count(path.read_text()).encode()))


def main() -> int:
    """Write the golden file anew, unless something changed behind its version."""
    now = current()
    before = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    behind = behind_their_version(before, now=now)
    if behind and "--same" not in sys.argv:
        sys.stderr.write(f"changed under the same version: {', '.join(behind)}\n")
        return 1
    GOLDEN.write_text(json.dumps(now, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
