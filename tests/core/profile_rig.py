"""Synthetic contracts, receipts, image roots and overlays in the form of profile-contract §2, §9, §18.15."""

import copy
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]
IMAGE_ID = "sha256:" + "3c" * 32
ROOT = "/srv/overlay/profiles"
PINS = b'{"pins":1}\n'
ARTIFACT_LOCK = b'{"lock":1}\n'
GRAPHS = list(range(4, 65, 4))
REAL = "profiles/sparkring/runtime/sparkring/jovian-r33"


def sha(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def dump(value: object) -> bytes:
    return json.dumps(value).encode()


def canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def entry(*, tp: int = 4, dcp: int = 4, cache: bool = True, **more: Any) -> Json:
    made: Json = {
        "template": f"tp{tp}-dcp{dcp}.env.example",
        "tensor_parallel_size": tp,
        "decode_context_parallel_size": dcp,
        "node_count": tp,
        "host_domains": "dual",
        "sparkcache": cache,
        "kv_cache_memory_bytes": 25_769_803_776,
        "cudagraph_capture_sizes": GRAPHS,
        "lifecycle": "guide.md",
    }
    if tp == 4:
        made |= {"transport": "sparkring-rocenante-mesh", "mesh_pins": "mesh/pins.json"}
        made["mesh_pins_sha256"] = sha(PINS)
    else:
        made |= {"transport": "tp2-rocenante-adaptive", "transport_manifest": "tp2/manifest.json"}
        made |= {"transport_manifest_sha256": sha(PINS), "physical_dacs_per_rank": 1}
    return made | more


def contract() -> Json:
    return {
        "schema": "sparkring-r33-profile-contract/v1",
        "status": "research-only",
        "image": {
            "selection": "external-immutable-receipt",
            "artifact_lock": "../image/artifact-lock.json",
            "artifact_lock_sha256": sha(ARTIFACT_LOCK),
            "required_platform": "linux/arm64",
            "required_sources": {"vllm_head": "ab" * 20, "vllm_status_lines": 35},
            "required_receipts": ["build", "wheels"],
            "required_nccl_version": "2.31.2",
        },
        "model": {
            "repository": "made/model",
            "revision": "cd" * 20,
            "max_model_len": 1_048_576,
            "loader": {
                "load_format": "instanttensor",
                "instanttensor_commit": "ef" * 20,
                "backend_selection": "automatic",
                "required_environment": {},
            },
            "speculation": {
                "method": "mtp",
                "num_speculative_tokens": 3,
                "attention_backend": "B12X",
                "moe_backend": "humming",
            },
        },
        "sparkcache_native": {
            "source_commit": "ab" * 20,
            "source_tree": "ba" * 20,
            "placement_path": "/opt/sparkring/lib/placement.so",
            "placement_sha256": "01" * 32,
            "snapshot_path": "/opt/sparkring/lib/snapshot.so",
            "snapshot_sha256": "02" * 32,
            "vllm_root": "/opt/venv/vllm",
            "lease_contract": "/opt/sparkring/contracts/lease.json",
        },
        "common_environment": {"HF_HUB_OFFLINE": "1", "LOAD_FORMAT": "instanttensor"},
        "profiles": {
            "tp2-dcp1": entry(tp=2, dcp=1, cache=False),
            "tp2-dcp1-sparkcache": entry(
                tp=2,
                dcp=1,
                load_format="b12x",
                continuation_coalescing=True,
                capability_file="capabilities.json",
                required_capabilities=["loader", "tp2_sparkcache"],
            ),
            "tp4-dcp1-sparkcache": entry(dcp=1),
            "tp4-dcp4": entry(cache=False),
            "tp4-dcp4-sparkcache": entry(inherits="tp4-dcp4"),
        },
    }


CAPABILITIES: Json = {
    "checks": {"loader": "implemented", "tp2_sparkcache": "implemented"},
    "schema": "sparkring-r33-runtime-capabilities/v1",
}
BUNDLE = "/opt/sparkring/sircl/python/sparkring-overlay-manifest.json"


def image_receipt() -> Json:
    capabilities = sha(canonical(CAPABILITIES) + b"\n")
    return {
        "schema": "sparkring-r33-image-receipt/v1",
        "checks_passed": True,
        "source_locks_match": True,
        "source_lock_receipts_match": True,
        "installed_payload_bytes_match": True,
        "package_checks_passed": True,
        "platform": "linux/arm64",
        "image_id": IMAGE_ID,
        "image_reference": "registry.example/made@sha256:" + "4d" * 32,
        "artifact_lock_sha256": sha(ARTIFACT_LOCK),
        "sources": {"vllm_head": "ab" * 20, "vllm_status_lines": 35},
        "component_receipts": {"build": "05" * 32, "wheels": "06" * 32},
        "source_lock_sha256": "07" * 32,
        "nccl_version": "2.31.2",
        "bundle_manifest_sha256": "08" * 32,
        "runtime_capabilities": {"document": CAPABILITIES, "sha256": capabilities},
        "verification": {
            "checked_files": {
                BUNDLE: "08" * 32,
                "/opt/sparkring/profile-contract/capabilities.json": capabilities,
            },
            "cuda_initialized": False,
            "model_loaded": False,
            "gpu_qualified": False,
        },
        "qualification": dict.fromkeys(("gpu", "model", "tp2", "tp4", "cache_recovery"), False),
    }


def rank(number: int) -> Json:
    return {
        "rank": number,
        "image_id": IMAGE_ID,
        "nccl_version": "2.31.2",
        "nccl_host_domains": ["primary", "secondary"],
        "captured_graph_sizes": GRAPHS,
        "instanttensor_allocations": 3,
        "mtp_draft_tokens": 8,
        "continuation_coalesced_groups": 1,
        "mhc_sharded_prefill_calls": 2,
        "mhc_owner_rows": [2048],
        "sircl_collectives": 5,
    }


def activation(profile: str = "tp4-dcp4-sparkcache", *, own: bool = False) -> Json:
    """A receipt that keeps every rule; ``own`` makes it a ``sparkgate-activation/v1`` without evidence."""
    tp, dcp, cache = int(profile[2]), int(profile[7]), profile.endswith("sparkcache")
    made: Json = {
        "schema": "sparkring-r33-activation-receipt/v1",
        "checks_passed": True,
        "profile": profile,
        "profile_contract_sha256": sha(dump(contract())),
        "image": image_receipt(),
        "ranks": [rank(number) for number in range(tp)],
        "serving": {
            "max_model_len": 1_048_576,
            "kv_capacity_tokens": 8_364_901 if dcp == 4 else 2_280_000,
            "prefill_decode_passed": True,
            "correctness_passed": True,
        },
        "sparkcache": {"enabled": cache},
        "long_prefill_sample_tokens": {
            "bounded": True,
            "prompt_tokens": 37_032,
            "completed_requests": 2,
            "timeouts": 0,
            "fatal_engine_errors": 0,
        },
        "prefix_reuse": {"queried_tokens": 37_019, "cached_tokens": 36_352},
        "restart_restore": {
            "planned_restart_ms_per_rank": [50.6] * tp,
            "fault_recovery_ms_per_rank": [54.1] * tp,
        },
    }
    if cache:
        made["sparkcache"] |= {
            "capture_jobs_completed": 3,
            "restores_completed": 2,
            "recoveries_after_fault": 1,
            "payload_correctness_passed": True,
        }
    if tp == 2:
        _as_tp2(made, cache=cache)
    if own:
        _as_own(made, tp=tp, dcp=dcp)
    return made


def _as_tp2(made: Json, *, cache: bool) -> None:
    for one in made["ranks"]:
        one |= {"mhc_prefill_rows": 8192, "mhc_owner_rows": [4096]}
        one["rocenante_collectives"] = one.pop("sircl_collectives")
        one["continuation_coalesced_groups"] = int(cache)
        if cache:
            one["managed_b12x_allocations"] = one.pop("instanttensor_allocations")
    del made["long_prefill_sample_tokens"]


def _as_own(made: Json, *, tp: int, dcp: int) -> None:
    made["schema"] = "sparkgate-activation/v1"
    for one in made["ranks"]:
        one |= {
            "observed_tp": tp,
            "observed_dcp": dcp,
            "host_id": f"host-{one['rank']}",
            "container_id": f"{one['rank']:02x}" * 32,
            "started_at": "2026-09-11T18:20:00Z",
        }
    made["evidence"] = {}
    made["host_activity"] = [
        {"rank": 0, "from": "2026-09-11T18:00:00Z", "to": "2026-09-11T19:00:00Z", "what": "nothing"}
    ]


def put(value: Json, pointer: str, new: Any) -> Json:
    """A copy with one value replaced, added, or (``DROP``) taken out."""
    made = copy.deepcopy(value)
    *steps, last = pointer.strip("/").split("/")
    place: Any = made
    for one in steps:
        place = place[int(one)] if isinstance(place, list) else place[one]
    key: Any = int(last) if isinstance(place, list) else last
    if new is DROP:
        del place[key]
    else:
        place[key] = new
    return made


DROP = object()


@dataclass(frozen=True)
class Site:
    """An unpacked image root and an overlay that fit each other."""

    image: Path
    overlay: Path
    locked: dict[str, bytes] = field(default_factory=dict)

    @property
    def lock_path(self) -> Path:
        return self.image / "opt/sparkring/receipts/source-lock.json"

    @property
    def lock_sha256(self) -> str:
        return sha(self.lock_path.read_bytes())

    def anchors(self) -> bytes:
        names = [one for one in self.overlay.rglob("*") if one.is_file()]
        files = {str(one.relative_to(self.overlay)): sha(one.read_bytes()) for one in names}
        return dump({"schema": "sparkgate-overlay-anchors/v1", "files": files})

    def launch(self, **changes: Any) -> Json:
        entrypoint = "/opt/sparkring/bin/sparkring-r33-overlay"
        made: Json = {
            "Image": IMAGE_ID,
            "Path": entrypoint,
            "Config": {
                "Entrypoint": [entrypoint],
                "Env": [f"R33_PROFILE_CONTRACT_HOST_ROOT={ROOT}", "NODE_RANK=0", "API_KEY=hush"],
            },
            "Mounts": [
                {"Source": ROOT, "Destination": "/opt/sparkring/profile-contract", "RW": False},
                {"Source": "/srv/overlay/image/entrypoint.py", "Destination": entrypoint, "RW": False},
                {"Source": "/srv/model", "Destination": "/models", "RW": False},
            ],
        }
        for pointer, value in changes.items():
            made = put(made, pointer, value)
        return made


def make_site(folder: Path, *, more: int = 0) -> Site:
    """A root with a lock, ``more`` further files, and an overlay; every check of it passes."""
    locked = {
        "opt/sparkring/bin/sparkring-r33": b"#!baked\n",
        "opt/sparkring/bin/verify-candidate": b"#!verifier\n",
        "opt/sparkring/image/artifact-lock.json": ARTIFACT_LOCK,
        "opt/sparkring/runtime/mesh/pins.json": PINS,
        "opt/sparkring/runtime/tp2/manifest.json": PINS,
        "opt/sparkring/profile-contract/profile-contract.json": b"baked contract",
        "opt/sparkring/profile-contract/tp4-dcp4.env.example": b"A=1\n",
        "opt/local-inference/nccl/lib/libnccl.so.2.31.2": b"nccl" * 100_000,
        "opt/empty": b"",
    }
    locked |= {f"opt/venv/lib/p{number % 97}/f{number}.py": b"x" * (number % 50) for number in range(more)}
    image, overlay = folder / "image", folder / "overlay"
    for path, raw in locked.items():
        (image / path).parent.mkdir(parents=True, exist_ok=True)
        (image / path).write_bytes(raw)
    files = {path: sha(raw) for path, raw in locked.items()}
    lock = {"schema": "sparkring-r33-candidate-source-lock/v1", "installed_files": files}
    site = Site(image=image, overlay=overlay, locked=locked)
    site.lock_path.parent.mkdir(parents=True, exist_ok=True)
    site.lock_path.write_bytes(canonical(lock))
    for path, raw in {
        "profiles/profile-contract.json": dump(contract()),
        "profiles/verify_profile.py": b"print()\n",
        "profiles/tp4-dcp4.env.example": b"A=1\n",
        "image/entrypoint.py": b"#!overlay\n",
    }.items():
        (overlay / path).parent.mkdir(parents=True, exist_ok=True)
        (overlay / path).write_bytes(raw)
    return site
