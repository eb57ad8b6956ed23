"""What a case shows and what it leaves open, in words (evidence-model §5 last paragraph, §14 item 7)."""

from collections.abc import Iterator, Sequence
from itertools import islice

from app.core.qualify.facts import Capability
from app.core.qualify.findings import Gate, GateResult, GateState
from app.core.qualify.gates import Span
from app.core.qualify.rules.rule import Judged
from app.core.qualify.values import Fact, Found

MOST_STATEMENTS = 100
"""So many sentences of a document stand in a verdict; all of them are in its facts."""
_SUBJECTS = {
    Gate.STRUCTURAL: "restore on every rank",
    Gate.PLACEMENT: "fence before placement",
    Gate.SEMANTIC: "right answer",
    Gate.CONTROL: "recomputation control",
    Gate.ROLLBACK: "rollback",
    Gate.RESTART: "restart between publication and restore",
    Gate.FAULT: "recovery from a fault",
    Gate.ISOLATION: "isolation of scopes",
    Gate.DRAIN: "drained counters",
    Gate.READINESS: "readiness",
}
_OF_RESTORE = (
    Gate.STRUCTURAL,
    Gate.PLACEMENT,
    Gate.SEMANTIC,
    Gate.CONTROL,
    Gate.ROLLBACK,
    Gate.RESTART,
    Gate.FAULT,
)


def established(judged: Judged, gates: Sequence[GateResult]) -> tuple[str, ...]:
    """Sentences about what was shown, with the basis of each; then the document's own."""
    return tuple(dict.fromkeys((*_shown(judged, gates), *_own(judged, establishes=True))))


def not_established(judged: Judged, gates: Sequence[GateResult]) -> tuple[str, ...]:
    """Sentences about what was not shown; then the document's own."""
    return tuple(dict.fromkeys((*_open(judged, gates), *_own(judged, establishes=False))))


def _shown(judged: Judged, gates: Sequence[GateResult]) -> Iterator[str]:
    for gate in gates:
        subject = _SUBJECTS.get(gate.gate)
        if subject is not None and gate.state.holds:
            basis = gate.basis.value if gate.basis is not None else gate.state.value
            yield f"{subject}: {basis}" + (f" ({gate.says})" if gate.says else "")
    yield from _bounds(judged.case.span)


def _bounds(span: Span) -> Iterator[str]:
    """Context, its length and the concurrency reached."""
    if isinstance(span.context_digest, Found):
        yield f"context {span.context_digest.value}"
    if isinstance(span.prompt_tokens, Found):
        yield f"prompt of {span.prompt_tokens.value} tokens"
    tokens = span.restored_tokens if isinstance(span.restored_tokens, Found) else span.cached_tokens
    if isinstance(tokens, Found):
        yield f"context length reached: {tokens.value} tokens"
    if isinstance(span.concurrency, Found):
        yield f"concurrency reached: {span.concurrency.value}"


def _open(judged: Judged, gates: Sequence[GateResult]) -> Iterator[str]:
    for gate in gates:
        subject = _SUBJECTS.get(gate.gate)
        speaks = gate.needed or (judged.capability is Capability.RESTORE and gate.gate in _OF_RESTORE)
        if subject is not None and speaks and not gate.state.holds:
            yield f"{subject}: {gate.state.value}"
        elif subject is not None and speaks and gate.gate is Gate.ROLLBACK and _is_named(gate):
            yield "rollback: an image is named, nothing was tried"
    if judged.capability is Capability.RESTORE:
        yield from _limits(judged.case.span)


def _limits(span: Span) -> Iterator[str]:
    restored: Fact[int] = span.restored_tokens
    if isinstance(restored, Found):
        yield f"contexts over {restored.value} tokens"
    if not isinstance(span.concurrency, Found):
        yield "concurrent restores"


def _is_named(gate: GateResult) -> bool:
    return gate.state is GateState.ATTESTED


def _own(judged: Judged, *, establishes: bool) -> Iterator[str]:
    own = (one.text for one in judged.facts.statements if one.establishes is establishes)
    yield from islice(own, MOST_STATEMENTS)
