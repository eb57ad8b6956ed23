"""Of which preset an account is, and what the preset has got since the account was made.

Scopes are granted by name and stay what they were: a new version of sparkgate adds scopes to presets and to
no account. This only says who may want them; somebody gives them, or does not.
"""

from dataclasses import dataclass
from typing import Final

from app.web.auth import PRESETS, Scope

# What presets have got, oldest first. A new scope of a preset is written down here.
ADDED: Final = (
    frozenset({Scope.RECEIPTS_APPEND}),
    frozenset({Scope.PROFILES_READ, Scope.PROFILES_WRITE}),
    frozenset({Scope.DRILLS_WRITE}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetOf:
    """The preset an account holds.

    Attributes:
        name: None where the scopes are no preset's, now or before: somebody chose them.
        lacks: what the preset holds by now and the account does not.
    """

    name: str | None
    lacks: frozenset[Scope] = frozenset()


def preset_of(scopes: frozenset[Scope]) -> PresetOf:
    """The preset these scopes are, or were once."""
    if Scope.ADMIN in scopes:
        # Whatever stands beside it: an admin may do all that people do, and the next version's too.
        return PresetOf(name="admin")
    later: frozenset[Scope] = frozenset()
    for added in (frozenset[Scope](), *reversed(ADDED)):
        later |= added
        for name, now in PRESETS.items():
            if scopes == now - later:
                return PresetOf(name=name, lacks=now & later)
    return PresetOf(name=None)
