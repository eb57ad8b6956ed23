"""What must hold for every bent store."""

from pathlib import Path
from random import Random

from app.core.store.check import Problem, RootCheck
from app.core.store.lookup import Depth, LookupOutcome
from app.core.store.manifest import LegacyManifest
from app.core.store.verify import VerifyOutcome

from .cases import FuzzCase, Store, content_of
from .mutations import mutate


def examine(case: FuzzCase, *, random: Random) -> str:
    """Bend a store and ask for its entry; raises on any answer that must not be, returns what was done."""
    store, done = mutate(case, random=random)
    answer = case.look_up(store)
    bare = case.verify(store, layout=None)
    found = case.verify(store, layout=case.layout)
    verified = found.outcome is VerifyOutcome.VERIFIED
    assert not verified or content_of(found) == case.content, f"{done}: verified with other content"
    assert not verified or bare.outcome is VerifyOutcome.VERIFIED, (
        f"{done}: {bare.detail} without a layout only"
    )
    hit = answer.outcome is LookupOutcome.HIT
    assert hit or not verified, f"{done}: verified, but the lookup says {answer.outcome}"
    for said in (answer.detail, bare.detail, found.detail):
        assert said is None or len(said) < 2_000, f"{done}: an answer of {len(said)} characters"
    return done


def examine_on_disk(case: FuzzCase, *, folder: Path, random: Random) -> str:
    """Bend a store and check its whole root; what a lookup or a verification refuses, the check must name."""
    store, done = mutate(case, random=random)
    write_store(store, folder=folder)
    problems = [item for item in RootCheck(folder, depth=Depth.FULL).findings() if isinstance(item, Problem)]
    answer = case.look_up(store)
    # A document that is simply gone was deleted, for all a check can know.
    gone = case.document not in store
    assert gone or answer.outcome is LookupOutcome.HIT or problems, (
        f"{done}: {answer.detail}, but the check is clean"
    )
    if answer.entry is not None and not _is_ambiguous(answer.entry.document):
        bare = case.verify(store, layout=None)
        refused = bare.outcome is not VerifyOutcome.VERIFIED
        assert not refused or problems, f"{done}: {bare.detail}, but the check is clean"
    return done


def write_store(store: Store, *, folder: Path) -> None:
    for path, content in store.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def _is_ambiguous(document: object) -> bool:
    """Two records may be pages or rows; a check lets either pass (store-format §4)."""
    return isinstance(document, LegacyManifest) and document.identity.stores_pages
