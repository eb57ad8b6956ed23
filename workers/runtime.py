"""What a rank worker measures of itself: the code that really executes, not what somebody says it is."""

import platform
from pathlib import Path
from typing import Final

import numpy

import app.core
from app.core.digest import RunningDigest

_REPOSITORY: Final = Path(app.core.__file__).resolve().parents[2]
_MEASURED: Final = ("app/core", "workers")


def measure_runtime(root: Path = _REPOSITORY) -> dict[str, str | int]:
    """The identity of this process's engine.

    `engine_sha256` covers path and bytes of every Python file of the core and the workers, in path order:
    for each, the path, NUL, the length in decimal, NUL, the bytes.
    """
    files = sorted(
        path.relative_to(root).as_posix() for folder in _MEASURED for path in (root / folder).rglob("*.py")
    )
    digest = RunningDigest()
    for name in files:
        content = (root / name).read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return {
        "engine": "sparkgate",
        "engine_sha256": str(digest.digest()),
        "engine_files": len(files),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
    }
