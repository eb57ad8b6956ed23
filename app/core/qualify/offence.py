"""Where in a JSON text the first offence stands: pointer and byte offset for a refusal.

The decoder says what is wrong, not where; this slow walk is taken only after a refusal. It accepts less
than it needs to and never decides whether a document is good.
"""

import re
from dataclasses import dataclass, field

from app.core.canonical_json import JsonLimits, decode_exact
from app.core.errors import CoreError
from app.core.qualify.pointer import step

_TOKEN = re.compile(
    r'[ \t\n\r]*+(?P<token>[{}\[\],:]|"(?:[^"\\\x00-\x1f]|\\.)*+"|[^ \t\n\r{}\[\],:"]++|.|\Z)', re.DOTALL
)
# What needs no decoder to be legal: a string without escapes, a short integer.
_PLAIN = re.compile(r'"[^"\\\x00-\x1f\ud800-\udfff]*+"|0|-?[1-9][0-9]{0,99}')
_MOST_TOKENS = 100_000
_CLOSES = {"{": "}", "[": "]"}


@dataclass(slots=True)
class _Level:
    opened: str
    name: str | int = 0
    names: set[str] = field(default_factory=set)


def first_offence(text: str, *, limits: JsonLimits) -> tuple[str, int]:
    """Pointer and offset (in UTF-8 bytes) of the first token that cannot stand where it stands.

    Returns the end of the text where every token is legal: then the document ends too early. Gives up with
    ("", 0) after 100,000 tokens: ten times the largest receipt known, and a bound on the time of a refusal.
    """
    walk = _Walk(limits)
    place = 0
    for _ in range(_MOST_TOKENS):
        if place >= len(text):
            break
        found = _TOKEN.match(text, place)
        token = found["token"] if found else ""
        start = found.start("token") if found else place
        if not token:
            break
        if not walk.takes(token):
            return walk.pointer(), len(text[:start].encode("utf-8", "replace"))
        place = start + len(token)
    else:
        return "", 0
    return walk.pointer(), len(text.encode("utf-8", "replace"))


class _Walk:
    def __init__(self, limits: JsonLimits) -> None:
        self._limits = limits
        self._levels: list[_Level] = []
        self._wants = "value"

    def pointer(self) -> str:
        return "".join(step(level.name) for level in self._levels)

    def takes(self, token: str) -> bool:
        """Whether the token may stand here; moves on if so."""
        if token in _CLOSES:
            return self._opens(token)
        if token in ("}", "]"):
            return self._ends(token)
        if token == ",":
            return self._goes_on()
        if token == ":":
            return self._turns("colon", "value")
        if self._wants in ("key", "key or end"):
            return self._names(token)
        return self._is_legal(token) and self._turns_from_value()

    def _opens(self, token: str) -> bool:
        if self._wants not in ("value", "value or end") or len(self._levels) >= self._limits.depth:
            return False
        self._levels.append(_Level(token))
        self._wants = "key or end" if token == "{" else "value or end"
        return True

    def _ends(self, token: str) -> bool:
        if not self._levels or self._wants not in ("key or end", "value or end", "more"):
            return False
        if _CLOSES[self._levels[-1].opened] != token:
            return False
        self._levels.pop()
        self._wants = "more" if self._levels else "nothing"
        return True

    def _goes_on(self) -> bool:
        if self._wants != "more":
            return False
        level = self._levels[-1]
        if isinstance(level.name, int) and level.opened == "[":
            level.name += 1
        self._wants = "key" if level.opened == "{" else "value"
        return True

    def _names(self, token: str) -> bool:
        level = self._levels[-1]
        if not token.startswith('"') or not self._is_legal(token):
            return False
        level.name = token[1:-1] if _PLAIN.fullmatch(token) else str(self._decoded(token))
        if level.name in level.names:
            return False
        level.names.add(level.name)
        self._wants = "colon"
        return True

    def _turns(self, wanted: str, then: str) -> bool:
        if self._wants != wanted:
            return False
        self._wants = then
        return True

    def _turns_from_value(self) -> bool:
        if self._wants not in ("value", "value or end"):
            return False
        self._wants = "more" if self._levels else "nothing"
        return True

    def _is_legal(self, token: str) -> bool:
        if _PLAIN.fullmatch(token):
            return True
        try:
            self._decoded(token)
        except CoreError:
            return False
        return True

    def _decoded(self, token: str) -> object:
        return decode_exact(token.encode("utf-8"), subject="token", limits=self._limits)
