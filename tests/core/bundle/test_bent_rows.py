"""Rows bent by somebody who has every key and writes the log himself: findings, never a traceback."""

import random
from dataclasses import replace
from typing import Any

import pytest

from app.core.bundle import layout
from app.core.bundle.records import Leaf, RowRecord, entry_line, row_line
from app.core.bundle.sample import ORIGIN, Sample
from app.core.bundle.sample_log import SampleLog
from app.core.canonical_json import decode_canonical, encode_canonical
from app.core.digest import sha256
from app.core.errors import CoreError
from app.core.ledger.checkpoint import NoteSigner
from app.core.ledger.leaf import encode_leaf, parse_leaf, row_digest
from tests.core.bundle import rig

VALUES: tuple[Any, ...] = (
    None,
    ("text", ""),
    ("text", "x" * 300),
    ("integer", "-1"),
    ("integer", "1e9"),
    ("integer", "9" * 5000),
    ("microseconds", "Infinity"),
    ("microseconds", "99999999999999999999"),
    ("json", "{"),
    ("json", "[]"),
    ("texts", "{}"),
    ("texts", "[[]]"),
    ("texts", "[]"),
    ("boolean", "maybe"),
    ("text", "\x1f\x00\ud7ff"),
    ("uuid", "../../x"),
)
DOCUMENTS: tuple[bytes, ...] = (b"", b"[]", b"{}", b"\xff", b'"text"', b"[" * 40)
ROUNDS = 120


def _bent_row(row: RowRecord, chance: random.Random) -> RowRecord:
    if row.document is not None and chance.random() < 0.5:
        document = chance.choice((*DOCUMENTS, _bent_document(row.document, chance)))
        return replace(row, document=document, columns={**row.columns, "document": _says(document)})
    name = chance.choice(sorted(row.columns))
    if row.view in ("verdict", "rank_report") and name == "document":
        return row
    columns = {**row.columns, name: chance.choice(VALUES)}
    if chance.random() < 0.2:
        del columns[name]
    return replace(row, columns=columns)


def _bent_document(raw: bytes, chance: random.Random) -> bytes:
    """A verdict with one member replaced."""
    value = decode_canonical(raw, subject="verdict")
    assert isinstance(value, dict)
    name = chance.choice(sorted(value))
    instead: tuple[Any, ...] = (None, 0, "", [], {}, [{}], ["x"], "ab" * 32, True)
    return encode_canonical({**value, name: chance.choice(instead)})


def _bent_log(chance: random.Random) -> SampleLog:
    """The small log with one row bent and its entry written to fit."""
    log = SampleLog(documents=rig.small_sample().log.documents)
    leaves = list(rig.small_sample().log.leaves)
    place = chance.randrange(len(leaves))
    leaf = leaves[place]
    rows = list(leaf.rows)
    number = chance.randrange(len(rows))
    rows[number] = _bent_row(rows[number], chance)
    leaves[place] = _covering(leaf, tuple(rows))
    log.leaves = leaves
    return log


def _told(log: SampleLog) -> int:
    """The exit code; where the builder refuses, of a bundle that somebody put together by hand."""
    sample = Sample(log=log, signer=NoteSigner(name=ORIGIN, seed=rig.SEED), previous=1)
    try:
        return rig.verify(rig.build(sample)).exit_code
    except (CoreError, LookupError, TypeError, ValueError):
        found = rig.verify(_by_hand(sample))
        assert found.exit_code == 1, rig.said(found)
        return found.exit_code


def _by_hand(sample: Sample) -> bytes:
    leaves = sample.log.leaves
    rows = sorted(
        ((leaf.index, row.view, row.key, row) for leaf in leaves for row in leaf.rows),
        key=lambda one: one[:3],
    )
    files = rig.unpack(rig.small())
    files[layout.ENTRIES] = b"".join(map(entry_line, leaves))
    files[layout.ROWS] = b"".join(
        row_line(row, leaf=index) for index, _, _, row in sorted(rows, key=lambda one: one[:3])
    )
    files[layout.CHECKPOINT] = sample.checkpoint(len(leaves))
    files[layout.PREVIOUS] = sample.checkpoint(sample.previous)
    files[layout.CONSISTENCY] = sample.consistency()
    return rig.signed_again(files)


@pytest.mark.parametrize("seed", range(4))
def test_bent_rows_are_findings(seed: int) -> None:
    """What no document says may be bent by whoever writes the log: a title, a name, a reason."""
    chance = random.Random(f"bent {seed}")
    told = [_told(_bent_log(chance)) for _ in range(ROUNDS // 4)]
    assert set(told) == {0, 1}
    assert told.count(1) > 4


@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize("view", ["verdict"])
def test_a_verdict_that_is_none_is_a_finding(view: str, document: bytes) -> None:
    log = SampleLog(documents=rig.small_sample().log.documents)
    log.leaves = [_with_document(leaf, view, document) for leaf in rig.small_sample().log.leaves]
    assert _told(log) == 1


def _with_document(leaf: Leaf, view: str, document: bytes) -> Leaf:
    rows = tuple(
        replace(row, document=document, columns={**row.columns, "document": _says(document)})
        if row.view == view
        else row
        for row in leaf.rows
    )
    return _covering(leaf, rows)


def _says(document: bytes) -> tuple[str, str]:
    return ("bytes", f"{len(document)} {sha256(document)}")


def _covering(leaf: Leaf, rows: tuple[RowRecord, ...]) -> Leaf:
    """The entry with the digests of these rows."""
    says = parse_leaf(leaf.document, subject="entry")
    digests = {view: dict(keys) for view, keys in says.rows.items()}
    for row in rows:
        digests[row.view][row.key] = row_digest(row.view, values=row.columns)
    return Leaf(index=leaf.index, document=encode_leaf(replace(says, rows=digests)), rows=rows)
