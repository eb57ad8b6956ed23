"""What a start of four or two ranks leaves behind, as files: logs, inspections, environments, requests."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.core.profile_rig import GRAPHS, IMAGE_ID, contract, dump, image_receipt

SECRET = "hush-7f3a9c"
NOTHING: Mapping[str, str] = MappingProxyType({})
NOW = "2026-09-11T19:00:00Z"


def log(
    rank: int,
    *,
    tp: int = 4,
    dcp: int = 4,
    cache: bool = True,
    changes: Mapping[str, str] = NOTHING,
) -> bytes:
    """The lines of one rank; a change replaces a line by its name, or takes it away."""
    rows = 8192
    lines = {
        "start": f"rank={rank} engine config: model='m', tensor_parallel_size={tp}, "
        f"pipeline_parallel_size=1, decode_context_parallel_size={dcp}, max_seq_len=1048576, "
        f"'cudagraph_capture_sizes': {GRAPHS}",
        "secret": f"rank={rank} API_KEY={SECRET} HF_TOKEN={SECRET}",
        "nccl": f"rank={rank} mapped libnccl.so nccl_version=2.31.2",
        "route 0": f"rank={rank} NET/IB RouteFinal peer=1 hca=rocep1s0f0 ok",
        "route 1": f"rank={rank} NET/IB RouteFinal peer=3 hca=roceP2p1s0f0 ok",
        "loader": f"(Worker_TP{rank} pid=7) Loading safetensors using "
        f"{'B12X' if tp == 2 and cache else 'InstantTensor'} loader: 100% Completed",
        "pool": f"rank={rank} GPU KV cache size: {8_364_901 if dcp == 4 else 2_280_000:,} tokens",
        "capture": f"rank={rank} Graph capturing finished in 61 secs, took 2.95 GiB",
        "status 0": f"rank={rank} {'sircl' if tp == 4 else 'rocenante'}_collectives=100",
        "mhc 0": f"rank={rank} GLM_MHC_PREFILL rows={rows} owner_rows={rows // tp} reduce_scatter=90",
        "mhc 1": f"rank={rank} GLM_MHC_PREFILL rows=4264 owner_rows={4264 // tp} reduce_scatter=90",
        "coalesced": f"rank={rank} continuation_coalesced_groups={0 if tp == 2 and not cache else 3}",
        "drafted 0": f"rank={rank} SpecDecoding metrics: Accepted: 9 tokens, Drafted: 12 tokens",
        "drafted 1": f"rank={rank} SpecDecoding metrics: Accepted: 7 tokens, Drafted: 9 tokens",
        "status 1": f"rank={rank} {'sircl' if tp == 4 else 'rocenante'}_collectives=460",
        "other rank": f"rank={(rank + 1) % tp} sircl_collectives=999999 tensor_parallel_size=9",
    }
    if cache:
        lines |= {
            "captured": f"rank={rank} capture_jobs_completed=3",
            "restored": f"rank={rank} restores_completed=2 planned_restart_ms={50 + rank}.6",
            "recovered": f"rank={rank} recoveries_after_fault=1 fault_recovery_ms={54 + rank}.1",
            "payload": f"rank={rank} payload_correctness_passed=true",
        }
    lines |= dict(changes)
    stamped = [
        f"2026-09-11T18:{number:02d}:00.5Z {line}" for number, line in enumerate(lines.values()) if line
    ]
    return "\n".join(stamped).encode() + b"\n"


def inspection(rank: int, *, tp: int = 4, dcp: int = 4, cache: bool = True) -> dict[str, Any]:
    return {
        "Id": f"{rank:02x}" * 32,
        "Image": IMAGE_ID,
        "Path": "/opt/sparkring/bin/sparkring-r33-overlay",
        "State": {"StartedAt": "2026-09-11T18:00:00.123456789Z"},
        "Config": {
            "Hostname": f"spark-{rank}.lan",
            "Entrypoint": [],
            "Env": [
                f"SOURCE_IMAGE_PROFILE={name_of(tp, dcp, cache)}",
                f"TENSOR_PARALLEL_SIZE={tp}",
                f"DECODE_CONTEXT_PARALLEL_SIZE={dcp}",
                f"SPARKCACHE_ENABLED={int(cache)}",
                f"API_KEY={SECRET}",
            ],
        },
        "Mounts": [],
    }


def name_of(tp: int, dcp: int, cache: bool) -> str:
    return f"tp{tp}-dcp{dcp}{'-sparkcache' if cache else ''}"


def request(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "rank": 0,
        "at": f"2026-09-11T18:{30 + number}:00Z",
        "prompt_sha256": f"{number:02x}" * 32,
        "prompt_tokens": 37_032,
        "cached_tokens": 0,
        "completion_tokens": 4,
        "response_sha256": "ab" * 32,
        "expected_sha256": "ab" * 32,
        "error": None,
    } | changes


def requests() -> list[dict[str, Any]]:
    again = {"prompt_sha256": "00" * 32, "prompt_tokens": 37_019, "cached_tokens": 36_352}
    return [request(0), request(1), request(2, **again)]


PCI = b"rocep1s0f0 0000:01:00.0\nroceP2p1s0f0 0002:01:00.0\n"


def write_run(folder: Path, *, tp: int = 4, dcp: int = 4, cache: bool = True) -> Path:
    """A folder with everything a complete receipt needs."""
    run = folder / "run"
    run.mkdir()
    for rank in range(tp):
        (run / f"rank{rank}.log").write_bytes(log(rank, tp=tp, dcp=dcp, cache=cache))
        made = inspection(rank, tp=tp, dcp=dcp, cache=cache)
        (run / f"rank{rank}.inspect.json").write_bytes(dump([made]))
        (run / f"rank{rank}.pci").write_bytes(PCI)
    (run / "requests.jsonl").write_text("\n".join(json.dumps(one) for one in requests()) + "\n")
    window = {"rank": 0, "from": "2026-09-11T18:00:00Z", "to": NOW, "what": "nothing else ran"}
    (run / "activity.json").write_bytes(dump([window]))
    (folder / "contract.json").write_bytes(dump(contract()))
    (folder / "image.json").write_bytes(dump(image_receipt()))
    return run
