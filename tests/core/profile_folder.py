"""A contract folder made by hand: six profiles, their templates, lock, pins and receipt, all in agreement."""

from pathlib import Path
from typing import Any

from app.core.profiles.contract import Contract, read_contract
from app.core.profiles.effective import EffectiveProfile, effective_profile
from app.core.profiles.guards import RankCase
from app.core.profiles.observed import ObservedRank, observe
from app.core.profiles.template import Template, read_template
from tests.core import profile_rig as rig

Json = dict[str, Any]
IMAGE_ID = rig.IMAGE_ID
NAMESPACE = "sparkring-r33-3c3c3c3c3c3c-tp4-dcp4-sparkcache"
MANIFEST_SHA256 = rig.sha(rig.PINS)
COMMON = {
    "SPARKRING_PROFILE_MODE": "custom",
    "VLLM_GLM53_MHC_PREFILL_SHARD": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_PLUGINS": "",
    "LOAD_FORMAT": "instanttensor",
}
SIZES = "4,8,12,16,20,24,28,32,36,40,44,48,52,56,60,64"
CACHE = {
    "SPARKCACHE_ACCESS_MODE": "read-write",
    "SPARKCACHE_ASYNC_PAGE_CAPTURE": "1",
    "SPARKCACHE_ASYNC_CAPTURE_SLOT_BYTES": "536870912",
    "SPARKCACHE_ASYNC_CAPTURE_SLOT_COUNT": "2",
    "SPARKCACHE_LOAD_THREADS": "2",
    "SPARKCACHE_MAX_PENDING_RESTORES": "2",
    "SPARKCACHE_CUDA_RESTORE_IO_WORKERS": "2",
    "SPARKCACHE_CUDA_ARENA_BYTES": "67108864",
    "SPARKCACHE_BUFFER_BUDGET_BYTES": "1342177280",
    "SPARKCACHE_MAX_BYTES": "8589934592",
    "SPARKCACHE_LOW_WATERMARK_BYTES": "6442450944",
    "SPARKCACHE_MIN_SPAN_TOKENS": "4096",
    "SPARKCACHE_MAX_SPAN_TOKENS": "65536",
    "SPARKCACHE_PUBLICATION_SCHEMA": "tail-cow-v2",
    "SPARKCACHE_SHARED_PREFIX_LEASE_TTL_SECONDS": "300",
    "SPARKCACHE_CACHE_NAMESPACE": "<namespace>",
}


def contract_document() -> Json:
    made = rig.contract()
    made["common_environment"] = dict(COMMON)
    profiles = made["profiles"]
    profiles["tp4-dcp1"] = rig.entry(dcp=1, cache=False)
    profiles["tp4-dcp4"]["inherits"] = "tp4-dcp1"
    profiles["tp4-dcp1-sparkcache"]["inherits"] = "tp4-dcp1"
    profiles["tp2-dcp1-sparkcache"] |= {
        "plugins": "b12x_loader",
        "serving": {
            "max_num_seqs": 8,
            "max_num_batched_tokens": 8192,
            "prefill_schedule_interval": 8,
            "limit_mm_per_prompt": {"image": 3, "video": 1},
        },
    }
    for name, one in profiles.items():
        one["template"] = f"{name}.env.example"
        if name.startswith("tp2"):
            one["cudagraph_capture_sizes"] = [1, 2, 4, 8]
    return made


def _base(name: str, *, tp: int, dcp: int) -> Json:
    return {
        "SOURCE_IMAGE_PROFILE": name,
        "SPARKRING_PROFILE_MODE": "custom",
        "TENSOR_PARALLEL_SIZE": str(tp),
        "DECODE_CONTEXT_PARALLEL_SIZE": str(dcp),
        "NODE_COUNT": str(tp),
        "NODE_RANK": "<rank>",
        "MASTER_ADDR": "<head>",
        "MAX_MODEL_LEN": "1048576",
        "KV_CACHE_MEMORY_BYTES": "25769803776",
        "NUM_SPECULATIVE_TOKENS": "3",
        "LOAD_FORMAT": "instanttensor",
        "VLLM_B12X_KDA_PREFILL_COALESCING": "1",
        "VLLM_B12X_KDA_PREFILL_COALESCING_LOG_LIMIT": "4",
        "VLLM_GLM53_MHC_PREFILL_SHARD": "1",
    }


def _ring(name: str, *, dcp: int) -> Json:
    return _base(name, tp=4, dcp=dcp) | {
        "MAX_CUDAGRAPH_CAPTURE_SIZE": "64",
        "CUDAGRAPH_CAPTURE_SIZES": SIZES,
        "VLLM_GLM53_MHC_PREFILL_DIAGNOSTICS": "1",
        "PYTHONPATH": "/opt/sparkring/sircl/python",
        "SIRCL_ENABLED": "1",
        "VLLM_SPARK_TP4_MODE": "custom",
        "VLLM_SPARK_TP4_VOCAB_MODE": "custom",
        "NCCL_SWITCHLESS_RING_ONLY": "1",
        "NCCL_IB_HCA": "<all four>",
        "SPARKCACHE_ENABLED": "0",
    }


def _pair(name: str, *, cache: bool) -> Json:
    made = _base(name, tp=2, dcp=1) | {
        "CUDAGRAPH_CAPTURE_SIZES": "1,2,4,8",
        "SPARKRING_TRANSPORT_PROFILE": "tp2-rocenante-adaptive",
        "SPARKRING_TRANSPORT_MANIFEST_SHA256": MANIFEST_SHA256,
        "B12X_ROCE_PAIR_PATHS": "2",
        "B12X_ROCE_PEER_HCA_MAP": "<peer>",
        "NCCL_IB_HCA": "=rocep1s0f0,roceP2p1s0f0",
        "PYTHONPATH": "",
        "SPARKCACHE_ENABLED": "1" if cache else "0",
    }
    if not cache:
        return made | {
            "VLLM_B12X_KDA_PREFILL_COALESCING": "0",
            "VLLM_B12X_KDA_PREFILL_COALESCING_LOG_LIMIT": "0",
        }
    serving = {
        "MAX_NUM_SEQS": "8",
        "MAX_NUM_BATCHED_TOKENS": "8192",
        "PREFILL_SCHEDULE_INTERVAL": "8",
        "MAX_IMAGES_PER_PROMPT": "3",
        "MAX_VIDEOS_PER_PROMPT": "1",
        "LOAD_FORMAT": "b12x",
        "VLLM_PLUGINS": "b12x_loader",
    }
    return made | serving | CACHE


def template_values() -> dict[str, Json]:
    """Assignments of the six templates, by profile; those of the ring's cache are laid over a parent."""
    overlay = {"SPARKRING_PROFILE_MODE": "custom", "SPARKCACHE_ENABLED": "1"} | CACHE
    return {
        "tp2-dcp1": _pair("tp2-dcp1", cache=False),
        "tp2-dcp1-sparkcache": _pair("tp2-dcp1-sparkcache", cache=True),
        "tp4-dcp1": _ring("tp4-dcp1", dcp=1),
        "tp4-dcp4": _ring("tp4-dcp4", dcp=4),
        "tp4-dcp1-sparkcache": {"SOURCE_IMAGE_PROFILE": "tp4-dcp1-sparkcache"} | overlay,
        "tp4-dcp4-sparkcache": {"SOURCE_IMAGE_PROFILE": "tp4-dcp4-sparkcache"} | overlay,
    }


def env_text(values: Json) -> bytes:
    return "".join(f"{key}={value}\n" for key, value in values.items()).encode()


def templates(changed: dict[str, Json] | None = None) -> dict[str, Template]:
    """The six templates read, one or more of them with other values."""
    values = template_values() | (changed or {})
    return {
        f"{name}.env.example": read_template(env_text(pairs), name=f"{name}.env.example")
        for name, pairs in values.items()
    }


def contract(document: Json | None = None) -> Contract:
    return read_contract(rig.dump(document if document is not None else contract_document()))


def receipt() -> Json:
    made = rig.image_receipt()
    files = made["verification"]["checked_files"]
    files["/opt/sparkring/lib/placement.so"] = "01" * 32
    files["/opt/sparkring/lib/snapshot.so"] = "02" * 32
    files["/opt/sparkring/contracts/lease.json"] = "03" * 32
    return made


def resolved(profile: str) -> EffectiveProfile:
    return effective_profile(contract(), profile, templates=templates())


def rank_values(profile: str, *, rank: int = 0) -> Json:
    """A concrete environment of one rank that passes every guard."""
    values = template_values()
    parent = {"tp4-dcp1-sparkcache": "tp4-dcp1", "tp4-dcp4-sparkcache": "tp4-dcp4"}.get(profile)
    made = COMMON | (values[parent] if parent else {}) | values[profile]
    made |= {"NODE_RANK": str(rank), "MASTER_ADDR": "192.0.2.10"}
    if profile.startswith("tp4"):
        made["NCCL_IB_HCA"] = "=a:1,b:1,c:1,d:1"
    else:
        made["B12X_ROCE_PEER_HCA_MAP"] = "1=0/2"
    if profile.endswith("sparkcache"):
        made["SPARKCACHE_CACHE_NAMESPACE"] = f"sparkring-r33-3c3c3c3c3c3c-{profile}"
    return made


def observed(values: Json, *, rank: int | None = 0) -> ObservedRank:
    return observe(env_text(values), name=f"rank{rank}.env", rank=rank)


def inspection(values: Json, *, command: list[str] | None = None, image: str = IMAGE_ID) -> Json:
    entrypoint = "/opt/sparkring/bin/sparkring-r33"
    return {
        "Image": image,
        "Path": entrypoint,
        "Args": command if command is not None else ["serve"],
        "Config": {"Entrypoint": [entrypoint], "Env": [f"{key}={value}" for key, value in values.items()]},
        "Mounts": [{"Source": "/srv/model", "Destination": "/models", "RW": False}],
    }


def case(profile: str, values: Json | None = None, **more: Any) -> RankCase:
    """A rank of a profile, its environment given or the good one."""
    taken = values if values is not None else rank_values(profile)
    around = {"receipt": receipt(), "image_id": IMAGE_ID, "observed": observed(taken)} | more
    return RankCase(contract=contract(), effective=resolved(profile), **around)


def write_folder(folder: Path) -> Path:
    """The contract with everything it refers to on a disk; returns its path."""
    own = folder / "jovian/profiles"
    own.mkdir(parents=True)
    (own / "profile-contract.json").write_bytes(rig.dump(contract_document()))
    for name, values in template_values().items():
        (own / f"{name}.env.example").write_bytes(env_text(values))
    for path, raw in {
        "jovian/image/artifact-lock.json": rig.ARTIFACT_LOCK,
        "assets/mesh/pins.json": rig.PINS,
        "assets/tp2/manifest.json": rig.PINS,
        "receipt.json": rig.dump(receipt()),
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(raw)
    return own / "profile-contract.json"
