"""Write what the table generates: `python -m tests.architecture.generate`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from . import contracts, page

ROOT: Final = Path(__file__).resolve().parents[2]
CONTRACTS: Final = ".importlinter"
PAGE: Final = "docs/ARCHITECTURE.md"


def generated(root: Path) -> dict[str, str]:
    """The text every generated file should have now, by its name."""
    return {
        CONTRACTS: contracts.render(root),
        PAGE: page.fill((root / PAGE).read_text(encoding="utf-8")),
    }


def main() -> None:
    for name, text in generated(ROOT).items():
        (ROOT / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
