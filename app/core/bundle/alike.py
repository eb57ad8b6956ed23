"""What many verdicts say alike, kept once: gates, findings and sentences of one scope hardly differ."""

from collections.abc import Hashable
from dataclasses import replace
from typing import Final, TypeVar

from app.core.qualify.verdict import Verdict

# Of one type. Beyond it they are forgotten: what is kept already stays, what comes is shared anew.
_MOST_KEPT: Final = 16_384
Value = TypeVar("Value", bound=Hashable)


class Alike:
    """Gives for each value the first one that was equal to it."""

    def __init__(self) -> None:
        self._kept: dict[type, dict[Hashable, Hashable]] = {}

    def verdict(self, verdict: Verdict) -> Verdict:
        """The same verdict, its parts shared with those that came before."""
        return replace(
            verdict,
            case=self._one(verdict.case),
            pointer=self._one(verdict.pointer),
            scope=self._one(verdict.scope),
            reason=self._one(verdict.reason),
            deployable_reason=self._one(verdict.deployable_reason),
            gates=self._all(verdict.gates),
            findings=self._all(verdict.findings),
            established=self._all(verdict.established),
            not_established=self._all(verdict.not_established),
            ruleset=self._one(verdict.ruleset),
        )

    def _all(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        return self._one(tuple(map(self._one, values)))

    def _one(self, value: Value) -> Value:
        # By type: a word and a member of an enumeration can be equal, and are not the same.
        kept = self._kept.setdefault(type(value), {})
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        return kept.setdefault(value, value)  # type: ignore[return-value]
