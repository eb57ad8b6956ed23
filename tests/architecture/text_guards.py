"""Rules about files that are not only Python. Each yields violations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from alembic.script import ScriptDirectory

REGISTRY_HOST: Final = re.compile(
    r"(index|extra-index|registry)[^ ]*https?://|https?://[^ ]*(pypi|npmjs|pythonhosted)"
)


def no_registry_hosts(root: Path, files: Iterable[PurePosixPath]) -> Iterator[str]:
    """Where packages come from is the machine's business: no file names a registry."""
    for file in files:
        content = (root / file).read_bytes()
        if b"\0" in content:
            continue
        for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), start=1):
            if REGISTRY_HOST.search(line):
                yield f"{file}:{number}: names a package registry"


def one_alembic_head(root: Path) -> Iterator[str]:
    heads = ScriptDirectory(str(root / "migrations")).get_heads()
    if len(heads) != 1:
        yield f"migrations/versions: {len(heads)} heads, expected one: {', '.join(sorted(heads)) or 'none'}"
