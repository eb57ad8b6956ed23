"""`make gpu-check` without a GPU: what it says, what it needs, and that its parts work over a model."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from app.core.errors import DeviceError
from workers.gpu.driver import Driver

from .bench import TARGETS, judge, measure
from .check import (
    BENCH_S,
    FAILED,
    MISSED,
    NO_GPU,
    OK,
    SANITIZER_S,
    TESTS_S,
    bench,
    main,
    read_counts,
    run_check,
    run_pytest,
    sanitize,
)
from .schedules import Eager
from .stream_model import UNIFIED, ModelDriver

REPOSITORY = Path(__file__).resolve().parents[2]
PASSED = {"passed": True, "tests": 3, "failures": 0, "errors": 0, "skipped": 0}
REASON = "CUDA device: expected a GPU, found none"


def no_gpu() -> Driver:
    raise DeviceError("CUDA device", expected="a GPU", found="none")


def figures(*, met: bool) -> dict[str, Any]:
    return {"resident_ms": 1.0, "targets": {"fence_ms": {"met": met}}}


def alone(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A process with nothing but the four packages."""
    return subprocess.run(
        [sys.executable, "-m", "tests.gpu.alone", *arguments],
        cwd=REPOSITORY,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_gpu_no_figure_is_told() -> None:
    code, document = run_check(
        open_driver=no_gpu,
        run_tests=lambda *_, **__: pytest.fail("nothing to run"),
        run_bench=lambda _: pytest.fail("nothing to measure"),
    )
    assert code == NO_GPU
    assert (document["gpu"], document["tests"], document["figures"]) == (None, None, None)
    assert document["reason"] == REASON


@pytest.mark.parametrize(
    ("tests", "measured", "code"),
    [
        (PASSED, figures(met=True), OK),
        (PASSED, figures(met=False), MISSED),
        (PASSED | {"passed": False}, None, FAILED),
    ],
    ids=["well", "missed", "failed"],
)
def test_the_exit_code_says_how_it_went(
    tests: dict[str, Any], measured: dict[str, Any] | None, code: int
) -> None:
    found, document = run_check(
        open_driver=ModelDriver, run_tests=lambda *_, **__: tests, run_bench=lambda _: measured or {}
    )
    assert found == code
    assert document["figures"] == measured
    assert document["gpu"]["model"] == "a model of a discrete GPU"


def test_a_bench_that_fails_tells_no_figures() -> None:
    def fails(_: Any) -> dict[str, Any]:
        raise RuntimeError("restore: expected restored, found a problem")

    code, document = run_check(open_driver=ModelDriver, run_tests=lambda *_, **__: PASSED, run_bench=fails)
    assert (code, document["figures"]) == (FAILED, None)


def test_the_check_is_over_in_six_minutes() -> None:
    assert TESTS_S + SANITIZER_S + BENCH_S < 360


def test_a_bench_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.gpu.check.BENCH_S", 1)
    monkeypatch.setattr("tests.gpu.bench.measure", lambda *_, **__: time.sleep(30))
    with pytest.raises(RuntimeError, match="bench: not done within 1 s"):
        bench(ModelDriver, byte_count=1)


def test_the_bench_runs_over_a_model(tmp_path: Path) -> None:
    """Every figure is there; over a model none means anything, so none is looked at."""
    for number, driver in enumerate(
        (lambda: ModelDriver(Eager()), lambda: ModelDriver(Eager(), facts=UNIFIED))
    ):
        found = measure(
            driver,
            folder=tmp_path / str(number),
            byte_count=300_000,
            object_bytes=16 * 1024,
            rounds=5,
        )
        assert set(found["targets"]) == set(TARGETS)
        assert found["objects"] == 19
        assert found["arena_mode"] == ("mapped" if number else "staged")
        assert all(found[f"{name}_ms"] > 0 for name in ("resident", "hash_floor", "host_to_device", "fence"))
        assert json.dumps(found)


@pytest.mark.parametrize(
    ("figure", "met"),
    [(("resident_to_limit", 1.2), True), (("resident_to_limit", 1.21), False)]
    + [(("scatter_to_device_copy", 0.7), True), (("scatter_to_device_copy", 0.69), False)]
    + [(("fence_ms", 0.99), True), (("fence_ms", 1.0), False), (("publish_ms", 1.0), False)],
)
def test_targets_are_judged_by_their_words(figure: tuple[str, float], met: bool) -> None:
    name, value = figure
    found = judge(dict.fromkeys(TARGETS, 0.9) | {name: value})[name]
    assert (found["found"], found["met"]) == (value, met)


def test_tests_that_fail_or_are_missing_prove_nothing(tmp_path: Path) -> None:
    """Here the real device fails, because a GPU is required, and that is counted."""
    found = run_pytest(["tests/gpu/test_real_kernels.py"])
    if found["passed"]:
        pytest.skip("the counts without a GPU: there is one")
    assert found["tests"] == found["failures"] + found["errors"] == 3
    assert "DeviceError" in found["output"]
    nothing = run_pytest(["tests/gpu/test_opening.py"])
    assert (nothing["passed"], nothing["tests"]) == (False, 0)
    assert read_counts(tmp_path / "none.xml") == {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}


def test_the_memory_checker_is_used_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def run(files: Any, **options: Any) -> dict[str, Any]:
        asked.append(options["before"])
        return PASSED

    monkeypatch.setattr("tests.gpu.check.SANITIZERS", (str(tmp_path / "none"),))
    assert sanitize(run) == {"passed": None, "reason": "compute-sanitizer: not on this machine"}
    tool = tmp_path / "compute-sanitizer"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setattr("tests.gpu.check.SANITIZERS", (str(tool),))
    assert sanitize(run)["passed"] is True
    assert asked[0][:3] == [str(tool), "--tool", "memcheck"]


def test_a_memory_checker_that_is_too_slow_has_found_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "compute-sanitizer"
    tool.write_text("#!/bin/sh\nexec sleep 30\n")
    tool.chmod(0o755)
    monkeypatch.setattr("tests.gpu.check.SANITIZERS", (str(tool),))
    monkeypatch.setattr("tests.gpu.check.SANITIZER_S", 0.2)
    found = sanitize(run_pytest)
    assert (found["passed"], found["reason"]) == (None, "not done within 0.2 s")


def test_the_check_writes_its_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.gpu.check.open_gpu", no_gpu)
    assert main(["--json", str(tmp_path / "gpu.json")]) == NO_GPU
    document = json.loads((tmp_path / "gpu.json").read_text())
    assert (document["exit_code"], document["figures"]) == (NO_GPU, None)
    told = capsys.readouterr()
    assert json.loads(told.out) == document
    assert told.err == f"gpu-check: no GPU here, nothing was run and nothing measured: {REASON}\n"


def test_the_check_needs_four_packages_and_no_more() -> None:
    result = alone("tests.gpu.check")
    assert "refused" not in result.stdout + result.stderr, result.stdout
    assert result.returncode in {OK, NO_GPU}, result.stderr


def test_its_tests_need_four_packages_and_no_more() -> None:
    """All of them are collected, those of the host and of a model run, without the project's own settings."""
    options = ("-c", "tests/gpu/check.ini", "--rootdir", ".", "--confcutdir", "tests/gpu")
    collected = alone("pytest", *options, "--collect-only", "-q", "tests/gpu")
    assert collected.returncode == 0, collected.stdout[-3000:]
    ran = alone("pytest", *options, "-q", "tests/gpu/test_contract.py", "-k", "host or eager")
    assert ran.returncode == 0, ran.stdout[-3000:]
    assert " skipped" not in ran.stdout.splitlines()[-1]


def test_a_package_too_many_is_refused() -> None:
    result = alone("fastapi")
    assert result.returncode == 1
    assert "fastapi is refused: a GPU box does not have it" in result.stderr


def test_the_base_requirements_are_free_of_cupy() -> None:
    """`make up` installs base.txt alone; what a GPU wants stands in a lock of its own."""
    locks = {
        name: (REPOSITORY / "requirements" / f"{name}.txt").read_text() for name in ("base", "gpu", "dev")
    }
    wanted = {name: [one for one in ("cupy", "nvrtc") if one in text] for name, text in locks.items()}
    assert wanted == {"base": [], "gpu": ["cupy", "nvrtc"], "dev": ["cupy", "nvrtc"]}
    assert "nvidia-cublas" in locks["gpu"]
    assert "nvidia-cublas" not in locks["dev"]
