"""From a token prefix to the context digest that names its entries (store-format §6)."""

import struct
from collections.abc import Sequence

from app.core.canonical_json import encode_verbatim
from app.core.digest import Digest, RunningDigest, sha256
from app.core.errors import FormatError, shown
from app.core.store.identity import CacheIdentity

MAX_TOKEN = 2**32 - 1

_SCOPE_LABEL = "sparkcache-request-scope-v1"
_SALT_V3_LABEL = "sparkcache-context-v3-request-scope"
# Packed a slice at a time, so that a long prompt never exists twice in memory.
_TOKENS_PER_UPDATE = 65_536


def request_scope(cache_salt: str | None) -> str:
    """The scope text of a request's cache salt; no salt and an empty one differ (store-format §6.1, v3).

    Raises:
        UnicodeEncodeError: the salt holds an unpaired surrogate.
    """
    text = encode_verbatim(cache_salt)
    return f"{_SCOPE_LABEL}:{sha256(_SCOPE_LABEL.encode() + bytes(1) + text)}"


def salt_v3(identity: CacheIdentity, *, cache_salt: str | None = None) -> str:
    """The salt of context digests since request scopes exist (store-format §6.1, v3)."""
    return f"{_SALT_V3_LABEL}:{identity.rank_zero_storage_key}:{request_scope(cache_salt)}"


def context_digest(tokens: Sequence[int], *, salt: str) -> Digest:
    """The digest of a text prefix (store-format §6, without media block).

    Args:
        tokens: ``n`` token ids, each an unsigned 32-bit number.
        salt: the ASCII salt text of one scheme.

    Raises:
        FormatError: a token is no unsigned 32-bit integer.
    """
    state = RunningDigest(salt.encode("ascii") + bytes(1))
    for start in range(0, len(tokens), _TOKENS_PER_UPDATE):
        part = tokens[start : start + _TOKENS_PER_UPDATE]
        state.update(_pack_tokens(part, first_index=start))
    return state.digest()


def _pack_tokens(tokens: Sequence[int], *, first_index: int) -> bytes:
    try:
        return struct.pack(f"<{len(tokens)}I", *tokens)
    except struct.error:
        at = next(
            i for i, token in enumerate(tokens) if type(token) is not int or not 0 <= token <= MAX_TOKEN
        )
        raise FormatError(
            f"token {first_index + at}", expected=f"an integer 0 … {MAX_TOKEN}", found=shown(tokens[at])
        ) from None
