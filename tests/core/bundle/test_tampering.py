"""Bundles that somebody changed: without the key, with the key, and by writing another log."""

import base64
import json
from typing import Any

import pytest

from app.core.bundle import layout
from app.core.bundle.sample import Sample, make_sample
from app.core.digest import sha256
from app.core.dsse import fingerprint
from app.core.ledger.checkpoint import NoteSigner
from app.core.signature import public_key
from tests.core.bundle import rig


def test_a_good_bundle_is_good_and_says_what_it_holds() -> None:
    found = rig.verify(rig.small())
    assert (found.outcome, rig.said(found)) == ("good", "")
    assert found.counts["receipts"] == found.counts["receipt_files"] == 3
    assert found.counts["verdicts_judged"] == found.counts["verdicts"] > 3
    assert found.to_document()["exit_code"] == 0


def test_a_signer_nobody_named_is_not_established() -> None:
    found = rig.verify(rig.small(), unknown=True)
    assert (found.exit_code, found.finding_count) == (3, 0)


def test_another_signer_than_the_named_one_is_a_finding() -> None:
    files = rig.unpack(rig.small())
    raw = rig.signed_again(files, seed=rig.OTHER_SEED)
    found = rig.verify(raw)
    assert found.exit_code == 1
    assert f"expected the key '{rig.key()}'" in rig.said(found)
    # Whoever believes the forger's fingerprint finds the statements, which he did not sign again.
    assert rig.verify(raw, signer=str(fingerprint(public_key(rig.OTHER_SEED)))).exit_code == 1


@pytest.mark.parametrize("path", sorted(rig.unpack(rig.small())))
def test_a_file_changed_by_somebody_without_the_key_is_found(path: str) -> None:
    files = rig.unpack(rig.small())
    files[path] += b" "
    assert rig.verify(rig.pack(files)).exit_code == 1


@pytest.mark.parametrize("path", sorted(rig.unpack(rig.small())))
def test_a_missing_file_is_found(path: str) -> None:
    files = rig.unpack(rig.small())
    del files[path]
    assert rig.verify(rig.pack(files)).exit_code == 1


@pytest.mark.parametrize("has_key", [False, True])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_receipt_that_is_missing_is_named(place: int, has_key: bool) -> None:
    """By its digest, whether who took it away could sign again or not."""
    files = rig.unpack(rig.small())
    path = sorted(path for path in files if layout.receipt_of(path))[place]
    del files[path]
    raw = rig.signed_again(files) if has_key else rig.pack(files)
    assert f"{path}: expected a file" in rig.said(rig.verify(raw))


@pytest.mark.parametrize("keeps_rows", [False, True])
@pytest.mark.parametrize("has_key", [False, True])
def test_an_entry_that_is_missing_is_named(has_key: bool, keeps_rows: bool) -> None:
    """Each of them, taken out with its rows or without."""
    whole = rig.unpack(rig.small())
    entries, rows = rig.lines(whole[layout.ENTRIES]), rig.lines(whole[layout.ROWS])
    for missing in range(len(entries)):
        files = {**whole, layout.ENTRIES: rig.text_of(entries[:missing] + entries[missing + 1 :])}
        if not keeps_rows:
            files[layout.ROWS] = rig.text_of([one for one in rows if one["leaf"] != missing])
        told = rig.said(rig.verify(rig.signed_again(files) if has_key else rig.pack(files)))
        if not has_key:
            assert f"log entry {missing}: expected it, as signed, found none" in told
        elif missing < len(entries) - 1:
            assert f"log: expected entry {missing} next, found {missing + 1}" in told
        elif keeps_rows:
            assert f"log: expected entry {missing}, since rows of it are there, found none" in told
        else:
            assert f"log: expected {len(entries)} entries as signed, found {missing}" in told


def test_a_file_too_many_is_found() -> None:
    files = rig.unpack(rig.small())
    files[layout.receipt_path(sha256(b"{}"))] = b"{}"
    assert rig.verify(rig.pack(files)).exit_code == 1
    found = rig.verify(rig.signed_again(files))
    assert "expected an entry of the log that covers it" in rig.said(found)


@pytest.mark.parametrize("path", [layout.table_path(name) for name in layout.TABLES])
def test_a_table_changed_by_somebody_with_the_key_is_found(path: str) -> None:
    found = rig.verify(rig.change(path, lambda raw: raw.replace(b",", b";", 1)))
    assert (found.exit_code, f"{path}: expected the lines" in rig.said(found)) == (1, True)


@pytest.mark.parametrize(
    "name", [name for name in layout.TABLES if not name.startswith(("restore", "exception_ends"))]
)
def test_counts_are_compared_in_three_places(name: str) -> None:
    """A line more in the table, and the manifest made to fit it."""
    files = rig.unpack(rig.small())
    path = layout.table_path(name)
    line = files[path].splitlines(keepends=True)[-1]
    count = files[path].count(b"\r\n")
    found = rig.verify(rig.change(path, lambda raw: raw + line, counts={name: count}))
    assert f"count of {name}: expected the same in three places" in rig.said(found)


def test_the_report_cannot_say_something_else() -> None:
    found = rig.verify(rig.change(layout.REPORT, lambda raw: raw.replace(b"rejected", b"qualified")))
    assert f"{layout.REPORT}: expected what the rows give" in rig.said(found)


@pytest.mark.parametrize("path", [layout.RUNS, layout.VERDICTS])
def test_statements_are_those_of_the_verdicts(path: str) -> None:
    def without_last(raw: bytes) -> bytes:
        return b"".join(raw.splitlines(keepends=True)[:-1])

    def twice(raw: bytes) -> bytes:
        return raw + raw.splitlines(keepends=True)[-1]

    def swapped(raw: bytes) -> bytes:
        first, second, *rest = raw.splitlines(keepends=True)
        return b"".join((second, first, *rest))

    def padded(raw: bytes) -> bytes:
        return raw.replace(b'{"payload"', b'{ "payload"', 1)

    for edit in (without_last, twice, swapped, padded):
        assert rig.verify(rig.change(path, edit)).exit_code == 1, edit.__name__


def _first_verdict(raw: bytes, **changes: Any) -> bytes:
    rows = rig.lines(raw)
    row = next(one for one in rows if one["view"] == "verdict" and one["document"]["outcome"] == "rejected")
    for name, value in changes.items():
        row["columns"][name][1] = value
    return rig.text_of(rows)


def test_a_verdict_row_changed_together_with_its_table_is_found() -> None:
    """With the key, the sums, the manifest: the log still has the digest of the row as it was written."""
    files = rig.unpack(rig.small())
    files[layout.ROWS] = _first_verdict(files[layout.ROWS], outcome="qualified", deployable="true")
    table = files[layout.table_path("verdicts")]
    files[layout.table_path("verdicts")] = table.replace(b",rejected,", b",qualified,", 1)
    found = rig.verify(rig.signed_again(files))
    assert found.exit_code == 1
    assert "it was changed" in rig.said(found)


def test_a_row_left_out_is_found() -> None:
    def without(raw: bytes) -> bytes:
        return b"".join(line for line in raw.splitlines(keepends=True) if b'"view":"operational' not in line)

    assert "expected every row it names" in rig.said(rig.verify(rig.change(layout.ROWS, without)))


def test_rows_in_another_order_are_refused() -> None:
    found = rig.verify(rig.change(layout.ROWS, lambda raw: rig.text_of(rig.lines(raw)[::-1])))
    assert "expected a row after" in rig.said(found)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cut", "entries as signed"),
        ("gap", "next, found"),
        ("swapped", "next, found"),
        ("edited", "expected root"),
        ("pruned", "every entry from 0 on"),
    ],
)
def test_the_log_is_whole_and_comes_to_its_root(name: str, said: str) -> None:
    def edit(raw: bytes) -> bytes:
        entries = rig.lines(raw)
        if name == "cut":
            entries.pop()
        elif name == "gap":
            del entries[3]
        elif name == "swapped":
            entries[2], entries[3] = entries[3], entries[2]
        elif name == "edited":
            leaf = json.loads(base64.b64decode(entries[0]["leaf"]))
            leaf["by"] = "somebody else"
            text = json.dumps(leaf, sort_keys=True, separators=(",", ":")).encode()
            entries[0]["leaf"] = base64.b64encode(text).decode()
        else:
            entries[0] = {"index": 0, "level": 0, "hash": base64.b64encode(bytes(32)).decode()}
        return rig.text_of(entries)

    files = rig.unpack(rig.small())
    files[layout.ENTRIES] = edit(files[layout.ENTRIES])
    kept = {one["index"] for one in rig.lines(files[layout.ENTRIES]) if "leaf" in one}
    files[layout.ROWS] = rig.text_of([one for one in rig.lines(files[layout.ROWS]) if one["leaf"] in kept])
    assert said in rig.said(rig.verify(rig.signed_again(files)))


def test_an_earlier_checkpoint_of_this_log_is_contained() -> None:
    sample = rig.small_sample()
    for size in range(len(sample.log.leaves) + 1):
        assert rig.verify(rig.small(), checkpoint=sample.checkpoint(size)).exit_code == 0


def _forked() -> Sample:
    """The same key, another history: a receipt was left out."""
    return make_sample(seed=rig.SEED, receipts=2)


def test_an_earlier_checkpoint_of_a_forked_log_is_found() -> None:
    fork = _forked()
    kept = fork.checkpoint(len(fork.log.leaves))
    found = rig.verify(rig.small(), checkpoint=kept)
    assert (found.exit_code, "history was changed" in rig.said(found)) == (1, True)


def test_a_checkpoint_the_bundle_cannot_answer_is_a_finding() -> None:
    later = make_sample(seed=rig.SEED, receipts=9)
    found = rig.verify(rig.small(), checkpoint=later.checkpoint(len(later.log.leaves)))
    assert "nothing to compare with" in rig.said(found)
    other = Sample(log=later.log, signer=NoteSigner(name=later.signer.name, seed=rig.OTHER_SEED), previous=1)
    for kept in (other.checkpoint(3), b"", b"no checkpoint", later.checkpoint(3) + b" "):
        assert rig.verify(rig.small(), checkpoint=kept).exit_code == 1


def test_the_previous_checkpoint_is_of_the_same_history() -> None:
    fork = _forked()
    files = rig.unpack(rig.small())
    files[layout.PREVIOUS] = fork.checkpoint(len(fork.log.leaves))
    assert rig.verify(rig.signed_again(files)).exit_code == 1


def test_a_log_written_anew_with_the_key_is_found_by_the_kept_checkpoint_only() -> None:
    """Everything is consistent in itself: that is what checkpoints are kept for."""
    fork = rig.build(_forked())
    assert rig.verify(fork).exit_code == 0
    kept = rig.small_sample().checkpoint(len(rig.small_sample().log.leaves) - 2)
    found = rig.verify(fork, checkpoint=kept)
    assert "history was changed" in rig.said(found)


def test_an_envelope_signs_the_exact_bytes_of_the_manifest() -> None:
    files = rig.unpack(rig.small())
    files[layout.MANIFEST] = files[layout.MANIFEST].replace(b'"counts"', b' "counts"', 1)
    assert "the bytes that are signed" in rig.said(rig.verify(rig.pack(files)))


def test_reading_stops_where_nothing_can_be_trusted_any_more() -> None:
    files = rig.unpack(rig.small())
    files[layout.ENVELOPE] = b"{}"
    found = rig.verify(rig.pack(files))
    assert found.finding_count == 1
