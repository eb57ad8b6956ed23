"""The resolved template against its contract entry: what the template validator compares
(profile-contract §4.4).

This proves that files agree with each other. What a process really holds is judged by ``guards``.
"""

from dataclasses import dataclass
from typing import Final

from app.core.digest import Digest, sha256
from app.core.profiles.contract import Contract, entry_references, references
from app.core.profiles.effective import EffectiveProfile
from app.core.profiles.findings import CheckResult, ProfileFinding, finding
from app.core.profiles.profile_entry import ProfileEntry
from app.core.profiles.references import Base, Lookup, Reference
from app.core.profiles.secrets import masked

TP2_HCA: Final = "=rocep1s0f0,roceP2p1s0f0"
"""The two functions of one physical port, one in each PCI domain (§4.4 step 5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A variable and the one value that will do; ``why`` names the source of the expectation."""

    key: str
    value: str
    why: str


class PinnedDigests:
    """Digests of referenced files, each read once however many profiles name it; no bytes are kept.

    Args: lookup: where the bytes come from.
    """

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._known: dict[tuple[Base, str], Digest | None] = {}

    def digest(self, reference: Reference) -> Digest | None:
        """The digest of a file; none where nothing is there.

        Raises: ProfileDocumentError: the reference was refused.
        """
        name = (reference.base, reference.path)
        if name not in self._known:
            raw = self._lookup(reference)
            self._known[name] = sha256(raw) if raw is not None else None
        return self._known[name]


def entry_findings(
    effective: EffectiveProfile, contract: Contract, *, pinned: PinnedDigests
) -> tuple[ProfileFinding, ...]:
    """Every check of §4.4 on one profile.

    CT_LOCK_HASH and CT_PINS_HASH for pinned files, TPL_VALUE for each key. A file or template that is not
    there makes its checks ``not_tested`` and is named.

    Raises: ProfileDocumentError: a reference was refused.
    """
    named = (*references(contract, ""), *entry_references(effective.entry))
    hashes = tuple(
        hash_finding(one, contract=contract, pinned=pinned) for one in named if one.sha256 is not None
    )
    return (*hashes, *value_findings(effective, contract))


def value_findings(effective: EffectiveProfile, contract: Contract) -> tuple[ProfileFinding, ...]:
    """TPL_VALUE for every key of steps 3 to 6."""
    values, name = effective.template_values, effective.entry.name
    wanted = expectations(effective.entry, contract)
    if effective.missing:
        detail = "not given: " + ", ".join(effective.missing)
        return tuple(
            finding("TPL_VALUE", CheckResult.NOT_TESTED, pointer=f"/{one.key}", detail=f"{name}: {detail}")
            for one in wanted
        )
    return tuple(_compared(one, values, profile=name) for one in wanted)


def expectations(entry: ProfileEntry, contract: Contract) -> tuple[Expectation, ...]:
    """What the resolved template of a profile must hold (§4.4 steps 3 to 6)."""
    return (*_named(entry, contract), *_optional(entry), *(_tp4() if entry.is_tp4 else _tp2()))


def hash_finding(reference: Reference, *, contract: Contract, pinned: PinnedDigests) -> ProfileFinding:
    """CT_LOCK_HASH or CT_PINS_HASH: the file's bytes have the pinned digest."""
    code = "CT_PINS_HASH" if reference.base is Base.ASSETS else "CT_LOCK_HASH"
    found = pinned.digest(reference)
    result = CheckResult.PASS if found == reference.sha256 else CheckResult.FAIL
    return finding(
        code,
        result if found is not None else CheckResult.NOT_TESTED,
        pointer=reference.pointer,
        detail=reference.path if found is not None else f"not given: {reference.path}",
        expected=reference.sha256 or "",
        found=found or "",
        document_sha256=contract.sha256,
    )


def coalescing(entry: ProfileEntry) -> tuple[str, str]:
    """Prefill coalescing and its log limit: off for the two-node profile without a cache only."""
    return ("0", "0") if entry.name == "tp2-dcp1" else ("1", "4")


def _compared(one: Expectation, values: dict[str, str], *, profile: str) -> ProfileFinding:
    found = values.get(one.key)
    return finding(
        "TPL_VALUE",
        CheckResult.PASS if found == one.value else CheckResult.FAIL,
        pointer=f"/{one.key}",
        detail=f"{profile}: {one.why}",
        expected=one.value,
        found=masked(one.key, found) if found is not None else "nothing",
    )


def _named(entry: ProfileEntry, contract: Contract) -> tuple[Expectation, ...]:
    on, log_limit = coalescing(entry)
    model = contract.model
    entry_values = {
        "SOURCE_IMAGE_PROFILE": entry.name,
        "TENSOR_PARALLEL_SIZE": str(entry.tensor_parallel_size),
        "DECODE_CONTEXT_PARALLEL_SIZE": str(entry.decode_context_parallel_size),
        "NODE_COUNT": str(entry.node_count),
        "KV_CACHE_MEMORY_BYTES": str(entry.kv_cache_memory_bytes),
        "CUDAGRAPH_CAPTURE_SIZES": ",".join(map(str, entry.cudagraph_capture_sizes)),
        "SPARKCACHE_ENABLED": "1" if entry.sparkcache else "0",
        "LOAD_FORMAT": entry.load_format or model.load_format,
    }
    other = {
        "MAX_MODEL_LEN": (str(model.max_model_len), "/model/max_model_len"),
        "NUM_SPECULATIVE_TOKENS": (str(model.num_speculative_tokens), "/model/speculation"),
        "VLLM_B12X_KDA_PREFILL_COALESCING": (on, "§4.4 step 3"),
        "VLLM_B12X_KDA_PREFILL_COALESCING_LOG_LIMIT": (log_limit, "§4.4 step 3"),
        "VLLM_GLM53_MHC_PREFILL_SHARD": ("1", "§4.4 step 3"),
    }
    named = (Expectation(key=k, value=v, why="contract entry") for k, v in entry_values.items())
    fixed = (Expectation(key=key, value=value, why=why) for key, (value, why) in other.items())
    return (*named, *fixed)


def _optional(entry: ProfileEntry) -> tuple[Expectation, ...]:
    wanted: dict[str, str] = {}
    if entry.plugins is not None:
        wanted["VLLM_PLUGINS"] = entry.plugins
    if entry.serving is not None:
        wanted |= {
            "MAX_NUM_SEQS": str(entry.serving.max_num_seqs),
            "MAX_NUM_BATCHED_TOKENS": str(entry.serving.max_num_batched_tokens),
            "PREFILL_SCHEDULE_INTERVAL": str(entry.serving.prefill_schedule_interval),
            "MAX_IMAGES_PER_PROMPT": str(entry.serving.images_per_prompt),
            "MAX_VIDEOS_PER_PROMPT": str(entry.serving.videos_per_prompt),
        }
    return tuple(Expectation(key=k, value=v, why="contract entry") for k, v in wanted.items())


def _tp2() -> tuple[Expectation, ...]:
    return (
        Expectation(key="NCCL_IB_HCA", value=TP2_HCA, why="one port, both PCI domains (§4.4 step 5)"),
        Expectation(key="B12X_ROCE_PAIR_PATHS", value="2", why="§4.4 step 5"),
        Expectation(key="PYTHONPATH", value="", why="no overlay of the four-node ring (§4.4 step 5)"),
    )


def _tp4() -> tuple[Expectation, ...]:
    wanted = {
        "SIRCL_ENABLED": "1",
        "VLLM_SPARK_TP4_MODE": "custom",
        "VLLM_SPARK_TP4_VOCAB_MODE": "custom",
        "NCCL_SWITCHLESS_RING_ONLY": "1",
        "VLLM_GLM53_MHC_PREFILL_DIAGNOSTICS": "1",
    }
    return tuple(Expectation(key=key, value=value, why="§4.4 step 6") for key, value in wanted.items())
