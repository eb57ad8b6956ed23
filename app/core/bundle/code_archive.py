"""verify.pyz: the sources that the verifier's command line imports, as one zip that Python runs.

The same bytes from the same sources: names in order, no time, nothing compressed. The first file in it is
written for Pythons that cannot read the rest.
"""

import ast
import io
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[3]
_START: Final = "app.core.bundle.__main__"
_TABLES: Final = (
    "app/core/qualify/phrases.json",
    "app/core/qualify/schemas.json",
    "app/core/qualify/words.json",
)
_LAUNCH: Final = """\
# Runs on any Python, to say which one is needed.
import sys

if sys.version_info < (3, 11):
    sys.stderr.write("verify.pyz: expected Python 3.11 or newer, found %d.%d\\n" % sys.version_info[:2])
    sys.exit(2)

from app.core.bundle.__main__ import main

sys.exit(main())
"""


@cache
def verifier_archive() -> bytes:
    """The bytes of verify.pyz.

    Raises:
        OSError: a source cannot be read.
    """
    files = {"__main__.py": _LAUNCH.encode("ascii")}
    for module in sorted(import_closure(_START)):
        path = _file_of(module)
        if path is not None:
            files[path.relative_to(_ROOT).as_posix()] = path.read_bytes()
    for name in _TABLES:
        files[name] = (_ROOT / name).read_bytes()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, files[name])
    return packed.getvalue()


def import_closure(start: str) -> set[str]:
    """Our modules that importing one of them may import, itself and all packages around them included."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        module = waiting.pop()
        if module in found or _file_of(module) is None:
            continue
        found.add(module)
        waiting += [module.rpartition(".")[0], *_imported(module)]
    return found


def _imported(module: str) -> Iterator[str]:
    path = _file_of(module)
    tree = ast.parse(b"" if path is None else path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def _file_of(module: str) -> Path | None:
    """The source of one of our modules; none for others, and for names that are none."""
    if module.partition(".")[0] != "app":
        return None
    place = _ROOT.joinpath(*module.split("."))
    for path in (place / "__init__.py", place.with_suffix(".py")):
        if path.is_file():
            return path
    return None
