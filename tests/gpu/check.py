"""`make gpu-check`: everything that needs a GPU, in one run of under six minutes, and one JSON document.

    python -m tests.gpu.check [--json FILE] [--quick]

Needs numpy, cupy, pytest and hypothesis only; vectors are used where they are. It runs the tests of every
device on the GPU, once more under compute-sanitizer where the machine has one, and then the bench. Exit
codes: 0 all is well; 1 a test failed; 3 there is no GPU, so nothing was run and no figure is told; 4 a target
is missed.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from app.core.errors import CoreError
from workers.gpu.driver import DeviceFacts, Driver

from .cases import GPU_ID, REQUIRE_GPU

OK: Final = 0
FAILED: Final = 1
NO_GPU: Final = 3
MISSED: Final = 4
REPOSITORY: Final = Path(__file__).resolve().parents[2]
SCHEMA: Final = "sparkgate-gpu-check/v1"
TESTS_S: Final = 150
SANITIZER_S: Final = 90
BENCH_S: Final = 110
BENCH_BYTES: Final = 813_068_464
QUICK_BYTES: Final = 64 << 20
SANITIZERS: Final = ("compute-sanitizer", "/usr/local/cuda/bin/compute-sanitizer")
# Small enough for a checker that slows every access down a hundredfold.
SANITIZED: Final = ("tests/gpu/test_contract.py", "tests/gpu/test_real_kernels.py")


def open_gpu() -> Driver:
    """The first GPU.

    Raises:
        DeviceError: there is none, or no CuPy.
    """
    from workers.gpu.cupy_driver import CupyDriver

    return CupyDriver()


def run_check(
    *,
    open_driver: Callable[[], Driver],
    run_tests: Callable[..., dict[str, Any]],
    run_bench: Callable[[Callable[[], Driver]], dict[str, Any]],
) -> tuple[int, dict[str, Any]]:
    """The exit code and the document."""
    document: dict[str, Any] = {"schema": SCHEMA, "machine": describe_machine()}
    try:
        facts = describe_gpu(open_driver)
    except CoreError as error:
        return NO_GPU, document | {"gpu": None, "reason": str(error), "tests": None, "figures": None}
    document |= {"gpu": facts, "tests": run_tests(), "sanitizer": sanitize(run_tests)}
    if not (document["tests"]["passed"] and document["sanitizer"]["passed"] in {True, None}):
        return FAILED, document | {"figures": None}
    try:
        document["figures"] = run_bench(open_driver)
    except (CoreError, RuntimeError) as error:
        return FAILED, document | {"figures": None, "reason": str(error)}
    met = all(target["met"] for target in document["figures"]["targets"].values())
    return OK if met else MISSED, document


def describe_machine() -> dict[str, Any]:
    import numpy

    return {
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "numpy": numpy.__version__,
    }


def describe_gpu(open_driver: Callable[[], Driver]) -> dict[str, Any]:
    driver = open_driver()
    try:
        facts: DeviceFacts = driver.facts
        found = {name: getattr(facts, name) for name in facts.__slots__}
        return found | {"free_bytes": driver.free_bytes(), "array_module": driver.xp.__version__}
    finally:
        driver.close()


def run_pytest(
    files: Sequence[str] = ("tests/gpu",), *, before: Sequence[str] = (), seconds: float = TESTS_S
) -> dict[str, Any]:
    """The tests of the real device in a process of its own; what was skipped, such as vectors, is told."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [*before, sys.executable, "-m", "pytest", "-c", "tests/gpu/check.ini"]
        command += [
            "--rootdir",
            ".",
            "--confcutdir",
            "tests/gpu",
            "-k",
            GPU_ID,
            f"--junitxml={report}",
            *files,
        ]
        begin = time.monotonic()
        try:
            result = subprocess.run(
                command,
                cwd=REPOSITORY,
                env=os.environ | {REQUIRE_GPU: "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"passed": False, "timed_out": True, "reason": f"not done within {seconds:g} s"}
        counts = read_counts(report)
        passed = result.returncode == 0 and counts["tests"] > counts["skipped"]
        found = {"passed": passed, **counts, "seconds": round(time.monotonic() - begin, 1)}
        found["skips"] = [line for line in result.stdout.splitlines() if line.startswith("SKIPPED")]
        return found if passed else found | {"output": (result.stdout + result.stderr)[-6000:]}


def read_counts(report: Path) -> dict[str, int]:
    """What a JUnit document counts; nothing at all if there is none."""
    names = ("tests", "failures", "errors", "skipped")
    if not report.exists():
        return dict.fromkeys(names, 0)
    suites = ElementTree.parse(report).getroot().iter("testsuite")
    counted = [suite.attrib for suite in suites]
    return {name: sum(int(suite.get(name, 0)) for suite in counted) for name in names}


def sanitize(run_tests: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """The device's contract once more under NVIDIA's memory checker."""
    tool = next((found for name in SANITIZERS if (found := shutil.which(name))), None)
    if tool is None:
        return {"passed": None, "reason": "compute-sanitizer: not on this machine"}
    before = [tool, "--tool", "memcheck", "--error-exitcode", "9", "--target-processes", "all"]
    found = run_tests(SANITIZED, before=before, seconds=SANITIZER_S)
    # A checker that is too slow here has found nothing, for good or bad.
    return {"tool": tool, **found, "passed": None if found.get("timed_out") else found["passed"]}


def bench(open_driver: Callable[[], Driver], *, byte_count: int) -> dict[str, Any]:
    from .bench import QUICK_ROUNDS, ROUNDS, measure

    folder = Path(tempfile.mkdtemp(prefix="sparkgate-gpu-"))
    before = signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(BENCH_S)
    try:
        rounds = ROUNDS if byte_count == BENCH_BYTES else QUICK_ROUNDS
        return measure(open_driver, folder=folder, byte_count=byte_count, rounds=rounds)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        shutil.rmtree(folder)


def _too_long(number: int, frame: object) -> None:
    raise RuntimeError(f"bench: not done within {BENCH_S} s")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", type=Path, help="where to write the document")
    parser.add_argument("--quick", action="store_true", help="a small snapshot; its figures say little")
    chosen = parser.parse_args(arguments)
    byte_count = QUICK_BYTES if chosen.quick else BENCH_BYTES
    begin = time.monotonic()
    code, document = run_check(
        open_driver=open_gpu,
        run_tests=run_pytest,
        run_bench=lambda open_driver: bench(open_driver, byte_count=byte_count),
    )
    document |= {"exit_code": code, "seconds": round(time.monotonic() - begin, 1)}
    text = json.dumps(document, indent=1)
    if chosen.json:
        chosen.json.write_text(text + "\n")
    sys.stdout.write(text + "\n")
    sys.stderr.write(f"{_verdict(code, document)}\n")
    return code


def _verdict(code: int, document: dict[str, Any]) -> str:
    if code == NO_GPU:
        return f"gpu-check: no GPU here, nothing was run and nothing measured: {document['reason']}"
    if code == FAILED:
        return "gpu-check: failed"
    missed = [name for name, target in document["figures"]["targets"].items() if not target["met"]]
    return f"gpu-check: {'targets missed: ' + ', '.join(missed) if missed else 'all is well'}"


if __name__ == "__main__":
    sys.exit(main())
