"""From a token prefix to the context digest that names its entries (store-format §6).

A digest covers a salt, the tokens, and the media that begin before the prefix ends. The salt is the part that
changed from version to version; entries of one version are clean misses for all others.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.core.canonical_json import encode_verbatim
from app.core.digest import Digest, RunningDigest, sha256
from app.core.errors import FormatError, shown
from app.core.store.identity import CacheIdentity

MAX_TOKEN = 2**32 - 1
# Prefixes are cut at multiples of this (store-format §6).
BOUNDARY_TOKENS = 256

_SALT_V2_LABEL = "sparkcache-context-v2-multimodal"
_CACHE_SALT_LABEL = "sparkcache-request-cache-salt-v1"
_CACHE_SALT_SUFFIX = "request-cache-salt-v1"
_SCOPE_LABEL = "sparkcache-request-scope-v1"
_SALT_V3_LABEL = "sparkcache-context-v3-request-scope"
_MEDIA_LABEL = b"\0sparkcache-multimodal-context-v1\0"
# Packed a slice at a time, so that a long prompt never exists twice in memory.
_TOKENS_PER_UPDATE = 65_536
_MAX_OFFSET = 2**64 - 1
_FEATURE = struct.Struct("<QQII")
_COUNT = struct.Struct("<I")


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFeature:
    """A picture or sound within a prompt; ``offset`` and ``length`` count tokens.

    Attributes:
        length: as declared, also where a prefix ends inside the feature (store-format §20.8).
        identifier: what the runtime knows the content by.
    """

    offset: int
    length: int
    modality: str
    identifier: str


def salt_v1(identity: CacheIdentity) -> str:
    """The salt of release 0.1.0a2 and of early repository code (store-format §6.1, v1)."""
    return identity.rank_zero_storage_key


def salt_v2(identity: CacheIdentity, *, cache_salt: str | None = None) -> str:
    """The salt since media have an identity; an empty request salt is none (store-format §6.1, v2).

    Raises:
        FormatError: the request's salt is no Unicode text.
    """
    salt = f"{_SALT_V2_LABEL}:{identity.rank_zero_storage_key}"
    if not cache_salt:
        return salt
    digest = sha256(_CACHE_SALT_LABEL.encode() + bytes(1) + _encode(cache_salt, subject="cache salt"))
    return f"{salt}:{_CACHE_SALT_SUFFIX}:{digest}"


def salt_v3(identity: CacheIdentity, *, cache_salt: str | None = None) -> str:
    """The salt since requests have a scope (store-format §6.1, v3).

    Raises:
        FormatError: the request's salt is no Unicode text.
    """
    return f"{_SALT_V3_LABEL}:{identity.rank_zero_storage_key}:{request_scope(cache_salt)}"


def request_scope(cache_salt: str | None) -> str:
    """The scope text of a request's cache salt; no salt and an empty one differ (store-format §6.1, v3).

    Raises:
        FormatError: the salt is no Unicode text.
    """
    if cache_salt is not None:
        _encode(cache_salt, subject="cache salt")
    return f"{_SCOPE_LABEL}:{sha256(_SCOPE_LABEL.encode() + bytes(1) + encode_verbatim(cache_salt))}"


def context_digest(tokens: Sequence[int], *, salt: str, media: Sequence[MediaFeature] = ()) -> Digest:
    """The digest of one prefix (store-format §6).

    Args:
        tokens: ``n`` token ids, each an unsigned 32-bit number.
        salt: the ASCII salt text of one version.
        media: of the prompt, in order; those that begin at or behind the prefix' end do not count.

    Raises:
        FormatError: a token is no unsigned 32-bit integer, or the media overlap or are no media.
    """
    _verify_media(media)
    state = RunningDigest(salt.encode("ascii") + bytes(1))
    _update(state, tokens=tokens, start=0, end=len(tokens))
    state.update(_media_block(media, tokens=len(tokens)))
    return state.digest()


def prefix_digests(
    tokens: Sequence[int], *, salt: str, boundaries: Sequence[int], media: Sequence[MediaFeature] = ()
) -> tuple[Digest, ...]:
    """The digests of several prefixes of one prompt; every token is hashed once (store-format §6).

    Args:
        tokens: the whole prompt.
        salt: the ASCII salt text of one version.
        boundaries: lengths of the prefixes: multiples of 256, strictly increasing, within the prompt.
        media: of the prompt, in order and within it.

    Raises:
        FormatError: as ``context_digest``, or a boundary or feature is out of place.
    """
    _verify_boundaries(boundaries, tokens=len(tokens))
    _verify_media(media, tokens=len(tokens))
    return tuple(_iterate_prefixes(tokens, salt=salt, boundaries=boundaries, media=media))


def _iterate_prefixes(
    tokens: Sequence[int], *, salt: str, boundaries: Sequence[int], media: Sequence[MediaFeature]
) -> Iterator[Digest]:
    state = RunningDigest(salt.encode("ascii") + bytes(1))
    at = 0
    for boundary in boundaries:
        _update(state, tokens=tokens, start=at, end=boundary)
        at = boundary
        prefix = state.copy()
        prefix.update(_media_block(media, tokens=boundary))
        yield prefix.digest()


def _update(state: RunningDigest, *, tokens: Sequence[int], start: int, end: int) -> None:
    for at in range(start, end, _TOKENS_PER_UPDATE):
        part = tokens[at : min(at + _TOKENS_PER_UPDATE, end)]
        state.update(_pack_tokens(part, first_index=at))


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


def _media_block(media: Sequence[MediaFeature], *, tokens: int) -> bytes:
    """What follows the tokens; nothing where no feature begins before the prefix ends (store-format §6.2)."""
    active = [feature for feature in media if feature.offset < tokens]
    if not active:
        return b""
    return _MEDIA_LABEL + _COUNT.pack(len(active)) + b"".join(map(_encode_feature, active))


def _encode_feature(feature: MediaFeature) -> bytes:
    modality = _encode(feature.modality, subject="media modality")
    identifier = _encode(feature.identifier, subject="media identifier")
    sizes = _FEATURE.pack(feature.offset, feature.length, len(modality), len(identifier))
    return sizes + modality + identifier


def _encode(text: str, *, subject: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise FormatError(subject, expected="Unicode text", found=error.reason) from None


def _verify_media(media: Sequence[MediaFeature], *, tokens: int = _MAX_OFFSET) -> None:
    """Features are ordered, disjoint, not empty, and lie in the prompt (store-format §6.2)."""
    at = 0
    for index, feature in enumerate(media):
        end = feature.offset + feature.length
        if feature.offset < at or feature.length < 1 or end > tokens:
            raise FormatError(
                f"media feature {index}",
                expected=f"tokens within {at} … {tokens}",
                found=f"{feature.offset} … {end}",
            )
        at = end


def _verify_boundaries(boundaries: Sequence[int], *, tokens: int) -> None:
    at = 0
    for index, boundary in enumerate(boundaries):
        if boundary % BOUNDARY_TOKENS or not at < boundary <= tokens:
            raise FormatError(
                f"boundary {index}",
                expected=f"a multiple of {BOUNDARY_TOKENS} in {at + 1} … {tokens}",
                found=str(boundary),
            )
        at = boundary
