"""Every malformed store is refused with the required reason, never later than the required stage."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from app.core.errors import Stage
from app.core.store.files import RootFiles
from app.core.store.identity import parse_identity
from app.core.store.lookup import Depth, LookupOutcome
from app.core.store.manifest import StorageMode
from app.core.store.verify import VerifyOutcome

from .rig import VARIANT_NAMES, StoreVector, no_later

REACH = {Depth.METADATA: Stage.METADATA, Depth.SIZE: Stage.SIZE, Depth.FULL: Stage.CONTENT}
CHUNKED = {"manifest", "prefix_alias"}
# What only a layout can tell: page sizes and the counts of a span, the result of a delta.
NEEDS_LAYOUT = {
    "flat-header-layout",
    "flat-header-counts-differ",
    "flat-header-counts-short",
    "flat-header-payload-trailing",
    "flat-header-payload-short",
    "delta-header-result-sha",
}


@pytest.fixture
def broken(
    name: str,
    variants: dict[str, Any],
    make_broken: ModuleType,
    entries: dict[str, StoreVector],
    tmp_path: Path,
) -> tuple[StoreVector, Any]:
    """The damaged store, with the question to ask it, and what it must answer."""
    case = make_broken.build(variants[name], tmp_path)
    vector = StoreVector(
        name=name,
        files=RootFiles(case.root),
        root=case.root,
        identity=parse_identity(case.identity),
        layout=entries[variants[name].source].layout,
        mode=None if case.storage_mode is None else StorageMode(case.storage_mode),
        entry={**case.entry, "context_digest": case.context_digest},
    )
    return vector, case


def reach(depth: Depth, *, kind: str) -> Stage:
    """The last stage a lookup comes to: at level full also the headers of legacy chunks."""
    return Stage.HEADER if depth is Depth.FULL and kind in CHUNKED else REACH[depth]


def test_every_variant_has_its_test(variants: dict[str, Any]) -> None:
    assert sorted(variants) == VARIANT_NAMES
    assert len(variants) == 237


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", VARIANT_NAMES)
def test_verify_refuses_it(broken: tuple[StoreVector, Any]) -> None:
    vector, case = broken
    found = vector.verify()
    assert (found.outcome, found.detail is None) == (case.reason, False)
    assert no_later(found.stage, than=Stage(case.stage))
    assert found.layers == ()
    assert found.records == ()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", VARIANT_NAMES)
def test_lookup_refuses_it_as_deep_as_it_looks(broken: tuple[StoreVector, Any]) -> None:
    vector, case = broken
    for depth in Depth:
        answer = vector.lookup(depth)
        if no_later(Stage(case.stage), than=reach(depth, kind=case.entry["root_kind"])):
            assert answer.outcome == case.reason
        if answer.outcome is not LookupOutcome.HIT:
            assert answer.outcome == case.reason
            assert no_later(answer.stage, than=Stage(case.stage))
            assert no_later(answer.stage, than=reach(depth, kind=case.entry["root_kind"]))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", VARIANT_NAMES)
def test_without_a_layout_only_what_needs_one_passes(broken: tuple[StoreVector, Any], name: str) -> None:
    vector, case = broken
    found = vector.verify(layout=None)
    if name in NEEDS_LAYOUT:
        assert found.outcome is VerifyOutcome.VERIFIED
        assert found.note is not None
    else:
        assert found.outcome == case.reason
        assert no_later(found.stage, than=Stage(case.stage))
