"""Damage a root by name, one fault at a time and the same one every time: for drills and for tests.

Never aim it at a root that is needed. Nothing is changed in place (see ``target``), so a copy made of hard
links is safe from it; a root whose lock is taken, or whose ``chunks`` is a link, is refused.
"""

from dataclasses import dataclass
from pathlib import Path

from app.core.digest import Digest
from app.core.errors import PlanError
from app.core.store.damage.documents import DOCUMENT_FAULTS
from app.core.store.damage.fault import Fault
from app.core.store.damage.leftovers import LEFTOVER_FAULTS
from app.core.store.damage.objects import OBJECT_FAULTS
from app.core.store.damage.target import Candidate, Target, candidates, chooser, locked_for_damage
from app.core.store.folders import shown_path
from app.core.store.layout import DocumentName

__all__ = ["FAULTS", "Candidate", "Damaged", "Fault", "Target", "damage_root"]

FAULTS = {fault.name: fault for fault in (*OBJECT_FAULTS, *DOCUMENT_FAULTS, *LEFTOVER_FAULTS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """What was done.

    Attributes:
        entry: whose document or objects it was done to, where it was done to an entry.
        paths: what was changed, relative to the root, printable.
    """

    fault: Fault
    entry: DocumentName | None
    paths: tuple[str, ...]


def damage_root(root: Path, *, name: str, seed: int = 0, context: Digest | None = None) -> Damaged:
    """Do one named fault to a root.

    Args:
        root: a root nobody needs, or a copy of one.
        name: one of ``FAULTS``.
        seed: which entry, object and byte it hits; the same root and seed give the same damage.
        context: only entries of this context digest.

    Raises:
        PlanError: no such fault, no entry it can be done to, a root that is in use, or ``chunks`` is a link.
        ResourceError: no folder, or the file system refused.
    """
    fault = FAULTS.get(name)
    if fault is None:
        raise PlanError("fault", expected=f"one of {', '.join(FAULTS)}", found=name)
    choose = chooser(f"{name}/{seed}")
    with locked_for_damage(root) as files:
        chosen: Candidate | None = None
        if fault.suits is not None:
            found = candidates(files, context=context, suits=fault.suits)
            if not found:
                raise PlanError(f"root {root}", expected=f"an entry that {name} can be done to", found="none")
            chosen = found[choose(len(found))]
        target = Target(files=files, entry=chosen, choose=choose)
        fault.apply(target)
    return Damaged(
        fault=fault,
        entry=None if chosen is None else chosen.name,
        paths=tuple(dict.fromkeys(shown_path(path) for path in target.touched)),
    )
