"""Names whose values never leave: what looks like a key, token or password is shown masked.

A name is judged, never a value. Masked text says that something is set and whether it is empty, not what.
"""

import re
from typing import Final

MASKED: Final = "(masked)"
MASKED_EMPTY: Final = "(masked, empty)"

# Words of a name, not letters in it: MAX_NUM_BATCHED_TOKENS is a count and KEY_VALUE_BYTES no secret.
_SECRET_WORDS: Final = frozenset(
    {
        *("KEY", "KEYS", "APIKEY", "TOKEN", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS"),
        *(
            "PWD",
            "CREDENTIAL",
            "CREDENTIALS",
            "AUTH",
            "AUTHORIZATION",
            "COOKIE",
            "PRIVATE",
            "SIGNATURE",
            "PAT",
        ),
    }
)
# A shell's folders; ``PWD`` is a password in longer names only.
_KNOWN_HARMLESS: Final = frozenset({"PWD", "OLDPWD"})
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_RUN_TOGETHER = re.compile(
    r"(?:api|access|private|secret|auth)_?-?key|token$|password|passwd|secret", re.IGNORECASE
)
_URL_PASSWORD = re.compile(r"(?<=://)[^/@\s:]*:[^/@\s]+(?=@)")


def is_secret_name(name: str) -> bool:
    """Whether a variable, flag or header of this name may hold a secret."""
    if name in _KNOWN_HARMLESS:
        return False
    words = {word.upper() for word in _WORD.findall(name)}
    return bool(words & _SECRET_WORDS) or _RUN_TOGETHER.search(name) is not None


def masked(name: str, value: str) -> str:
    """The value as it may be shown: replaced if the name is that of a secret, else without a password in a
    URL."""
    if is_secret_name(name):
        return MASKED if value else MASKED_EMPTY
    return _URL_PASSWORD.sub("(masked)", value)


def is_masked(name: str, value: str) -> bool:
    """Whether showing the value would hide something."""
    return masked(name, value) != value
