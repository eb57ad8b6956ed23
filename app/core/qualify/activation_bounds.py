"""What an activation receipt is held to, and what of that its own name says (profile-contract §5.1, §8.1,
§8.2, §9.3, §11, §16, §18.7, §18.13).

The rules of a verdict and the judgement against a contract read the same numbers here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

PUBLISHED_SCHEMA: Final = "sparkring-r33-activation-receipt/v1"
OWN_SCHEMA: Final = "sparkgate-activation/v1"
IMAGE_RECEIPT_SCHEMA: Final = "sparkring-r33-image-receipt/v1"

DOMAINS: Final = ("primary", "secondary")
TENSOR_DEGREES: Final = (2, 4)
CONTEXT_DEGREES: Final = (1, 2, 4)
TP4_STEP_ROWS: Final = 8_192
"""Prefill rows of one step at TP4; a receipt of version 1 has no field for them (§8.1)."""
TP2_STEP_ROWS: Final = (4_096, 8_192)
LONG_PROMPT_TOKENS: Final = 32_768
LONG_REQUESTS: Final = 2
REUSED_BLOCK_TOKENS: Final = 512
POOL_WINDOW_PERCENT: Final = 10
RECEIPTED_POOL: Final[Mapping[tuple[int, int], int]] = {(4, 4): 8_364_901}
"""Pools a receipt reports, by TP and DCP (§18.13). The 2,280,000 of TP4/DCP1 is a sizing reference and no
receipt's value; whoever wants it as a window says so (§16)."""
PUBLISHED_POOLS: Final[Mapping[tuple[int, int], int]] = MappingProxyType(
    {**RECEIPTED_POOL, (4, 1): 2_280_000}
)
"""Tokens by TP and DCP, as the table of §16 has them: the receipted pool of DCP4, and for DCP1 the sizing
reference, without which a receipt relabelled from one to the other could not be told."""

IMAGE_TRUE_FLAGS: Final = (
    "checks_passed",
    "source_locks_match",
    "source_lock_receipts_match",
    "installed_payload_bytes_match",
    "package_checks_passed",
)
IMAGE_FALSE_FLAGS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "verification": ("cuda_initialized", "model_loaded", "gpu_qualified"),
        "qualification": ("gpu", "model", "tp2", "tp4", "cache_recovery"),
    }
)
BUNDLE_FILE: Final = "/opt/sparkring/sircl/python/sparkring-overlay-manifest.json"

HEX64: Final = re.compile(r"[0-9a-f]{64}")
CONFIG_ID: Final = re.compile(r"sha256:[0-9a-f]{64}")
REFERENCE: Final = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")
TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)")
PLACE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
PROFILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_DEGREES: Final = re.compile(r"tp([24])-dcp([124])(-sparkcache)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What the name of a profile stands for (§5.1)."""

    tp: int
    dcp: int
    has_cache: bool


def named(profile: str) -> Named | None:
    """Degrees and cache of a name in the published form; none for any other name."""
    fits = _DEGREES.fullmatch(profile)
    if fits is None:
        return None
    return Named(tp=int(fits[1]), dcp=int(fits[2]), has_cache=fits[3] is not None)


def pool_window(receipted: int) -> tuple[int, int]:
    """Least and most tokens that are within the window, both still inside."""
    part = receipted * POOL_WINDOW_PERCENT
    return -(-(receipted * 100 - part) // 100), (receipted * 100 + part) // 100
