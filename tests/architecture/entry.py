"""One line of the table of the architecture: a folder, a file or a family of files."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One folder (`name/`), file or family of files (`*.py`; `**` is anything below)."""

    name: str
    says: str
    inside: tuple[Entry, ...] = field(default=(), repr=False)
    layered: bool = False
    """The Python entries inside are import layers, highest first, and there are no others."""
    beside: bool = False
    """Shares the layer of the entry before; neither imports the other."""
    grows: bool = False
    """The file may become a package of the same name."""
    on_gpu_node: bool = False
    """Runs on a GPU node: reaches neither database nor web."""

    @property
    def module(self) -> str:
        """The import name, or nothing for a family, a document or a folder without Python."""
        if self.name.endswith(".py"):
            stem = self.name.removesuffix(".py")
            return stem if stem.isidentifier() else ""
        return self.name.removesuffix("/") if self.is_package else ""

    @property
    def is_package(self) -> bool:
        return any(one.name.endswith(".py") or one.is_package for one in self.inside)


def entry(name: str, says: str, *inside: Entry, **flags: bool) -> Entry:
    return Entry(name=name, says=says, inside=inside, **flags)


def anything(says: str = "") -> Entry:
    return Entry(name="**", says=says)
