"""How an answer agrees with the expected one (evidence-model §5): only exact agreement can qualify."""

from enum import StrEnum
from typing import Final

NORMALISATION: Final = "strip-lower/v1"
"""How answers are compared: blanks at both ends off, lower case (evidence-model §5)."""


class Agreement(StrEnum):
    """From what qualifies to what rejects; ``SUFFIX`` is reported and never qualifies."""

    EXACT = "exact"
    SUFFIX = "suffix"
    NONE = "none"

    @property
    def qualifies(self) -> bool:
        """Whether the semantic gate can be demonstrated with it."""
        return self is Agreement.EXACT


def normalise(text: str) -> str:
    """An answer in the form in which answers are compared, ``strip-lower/v1``."""
    return text.strip().lower()


def compare(*, expected: str, observed: str) -> Agreement:
    """Compare two answers: equal, or the observed one only ends in the expected one, or neither.

    An empty expected answer agrees with an empty one alone: every text ends in nothing.
    """
    wanted, found = normalise(expected), normalise(observed)
    if wanted == found:
        return Agreement.EXACT
    return Agreement.SUFFIX if wanted and found.endswith(wanted) else Agreement.NONE
