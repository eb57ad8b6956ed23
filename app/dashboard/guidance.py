"""What somebody on duty does about an image: run this, go back to that, because."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.core.qualify.facts import DocumentFacts
from app.core.qualify.findings import Gate, GateState, Outcome
from app.core.qualify.subject import ImageRole
from app.core.qualify.values import Fact, Found
from app.dashboard.verdict_view import VerdictView
from app.dashboard.verdict_words import code_words, topology

_DIGITS: Final = 64
_ROLES: Final = (ImageRole.ROLLBACK, ImageRole.RETAINED)


@dataclass(frozen=True, slots=True, kw_only=True)
class WayBack:
    """An image to go back to: how it is known, and what the rules say of it (`outcomes`, by scope)."""

    image: str
    how: str
    outcomes: tuple[str, ...] = ()

    @property
    def config_id(self) -> str:
        """The digits of its config id; empty where it is named otherwise."""
        digits = self.image.removeprefix("sha256:")
        return digits if len(digits) == _DIGITS and set(digits) <= set("0123456789abcdef") else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guidance:
    """Attributes:
    may_run: whether the image is deployable for the scope.
    reference: the registry manifest digest to run, empty where none is known.
    run: what to run or not, in a sentence; because: why.
    """

    may_run: bool
    reference: str
    run: str
    because: str
    ways_back: tuple[WayBack, ...]

    def with_outcomes(self, known: Mapping[str, tuple[str, ...]]) -> "Guidance":
        """The same with what is known of the images to go back to, by config id."""
        ways = tuple(replace(way, outcomes=known.get(way.config_id, ())) for way in self.ways_back)
        return replace(self, ways_back=ways)


def guidance(view: VerdictView, *, facts: Sequence[DocumentFacts], manifest_digest: str | None) -> Guidance:
    """What follows from a verdict.

    Args:
        facts: of the receipts that decided.
        manifest_digest: of the image, where it is registered.
    """
    row = view.row
    scope = f"{row.capability}, {topology(row.tp, row.dcp)}"
    named = list(_manifests(facts, image=f"sha256:{row.image_config_id}"))
    reference = (manifest_digest or (named[0] if named else "")).removeprefix("sha256:")
    if row.deployable:
        run = f"Run it for {scope}, and for nothing else"
    elif row.outcome == Outcome.QUALIFIED:
        run = f"Qualified for {scope}, but do not deploy it"
    else:
        run = f"Do not run it for {scope}"
    because = "" if row.deployable else code_words(row.deployable_reason)
    return Guidance(
        may_run=row.deployable,
        reference=reference,
        run=run,
        because=view.why if row.outcome != Outcome.QUALIFIED else because,
        ways_back=tuple(_ways_back(view, facts)),
    )


def _manifests(facts: Sequence[DocumentFacts], *, image: str) -> Iterator[str]:
    for one in facts:
        for pair in one.registry:
            if pair.image.value == image:
                yield pair.manifest_digest.value


def _ways_back(view: VerdictView, facts: Sequence[DocumentFacts]) -> Iterator[WayBack]:
    """Images a deciding receipt names to go back to, or that stay; each once."""
    state = next((line.state for line in view.gates if line.gate == Gate.ROLLBACK), "")
    tried = (
        "put back; it recomputed the prompt and answered right"
        if state == GateState.DEMONSTRATED
        else "named only; whether it answers right was not tried"
    )
    seen = set()
    for one in facts:
        images: list[tuple[Fact[str], str]] = [(case.rollback.image, tried) for case in one.cases]
        images += [(m.image, _how(m.role)) for m in one.lifecycle.mentions if m.role in _ROLES]
        for image, how in images:
            if isinstance(image, Found) and image.value not in seen:
                seen.add(image.value)
                yield WayBack(image=image.value, how=how)


def _how(role: ImageRole) -> str:
    return (
        "named as the image that stays" if role is ImageRole.RETAINED else "named as the image to go back to"
    )
