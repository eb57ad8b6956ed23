"""One flipped bit, in whatever file of whatever kind of entry, never gives other content (issue 3)."""

import random

import pytest

from app.core.store.lookup import Depth, LookupOutcome
from app.core.store.verify import VerifyOutcome

from .rig import MemoryFiles, StoreVector, content_of, flip

KINDS = [
    "flat-v2-tp4-rank0",
    "legacy-pages-chunks",
    "legacy-rows-partial",
    "legacy-rows-alias-4096",
    "rows-tail-cow-tail",
    "page-delta-v1-768",
    "page-delta-v2-1024",
    "page-delta-v3-1024",
    "release-0.1.0a2-chunks",
]
OBJECT_FLIPS = 60


def touched(vector: StoreVector) -> list[str]:
    """The files a verification reads."""
    files = vector.files
    assert isinstance(files, MemoryFiles)
    files.opened.clear()
    assert vector.verify().outcome is VerifyOutcome.VERIFIED
    return sorted(set(files.opened))


@pytest.mark.parametrize("name", KINDS)
def test_of_every_byte_of_every_document(entries: dict[str, StoreVector], name: str) -> None:
    """A bit of each byte; where the document has no digest of its own, what it points to gives it away."""
    vector = entries[name].in_memory()
    sound = content_of(vector.verify())
    for path in [path for path in touched(vector) if not path.startswith("chunks/")]:
        if path not in vector.memory:
            continue
        whole = vector.memory[path]
        for index in range(len(whole)):
            vector.memory[path] = flip(whole, bit=8 * index + index % 8)
            if vector.lookup(Depth.METADATA).outcome is LookupOutcome.HIT:
                found = vector.verify()
                assert found.outcome is not VerifyOutcome.VERIFIED or content_of(found) == sound
                assert name.startswith(("legacy", "release"))
        vector.memory[path] = whole


@pytest.mark.parametrize("name", KINDS)
def test_of_any_object(entries: dict[str, StoreVector], name: str) -> None:
    vector = entries[name].in_memory()
    chosen = random.Random(name)
    paths = [path for path in touched(vector) if path.startswith("chunks/")]
    for _ in range(OBJECT_FLIPS):
        path = chosen.choice(paths)
        whole = vector.memory[path]
        vector.memory[path] = flip(whole, bit=chosen.randrange(8 * len(whole)))
        answer = vector.lookup(Depth.FULL)
        assert (answer.outcome, answer.stage) == ("corrupt", "content")
        assert vector.verify().outcome is VerifyOutcome.CORRUPT
        vector.memory[path] = whole
