"""Files are opened safely, read exactly, and lent buffers come back (store-format §13.2)."""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from app.core.digest import Digest, sha256
from app.core.errors import AbsentError, FormatError, PlanError, ResourceError, StoreError
from app.core.restore.buffers import BufferPool, map_untouched
from app.core.restore.reader import BoundedReader, list_documents, readers_for
from app.core.store.layout import DocumentName

from .rig import opened

NAME = DocumentName(storage_key=sha256(b"key"), context_digest=sha256(b"context"))


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / NAME.path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"document")
    return path


def test_a_document_is_read_whole(tmp_path: Path, document: Path) -> None:
    with opened(tmp_path) as reader:
        assert reader.read_document(NAME) == b"document"


def test_an_empty_document_is_empty(tmp_path: Path, document: Path) -> None:
    document.write_bytes(b"")
    with opened(tmp_path) as reader:
        assert reader.read_document(NAME) == b""


def replaced_by_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def replaced_by_dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def replaced_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replaced_by_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replaced_by_socket(path: Path) -> None:
    path.unlink()
    os.mknod(path, 0o140644)


def replaced_by_sparse_giant(path: Path) -> None:
    os.truncate(path, 1 << 40)


def folder_replaced_by_file(path: Path) -> None:
    path.unlink()
    path.parent.rmdir()
    path.parent.write_bytes(b"")


@pytest.mark.parametrize(
    ("damage", "answer"),
    [
        (Path.unlink, AbsentError),
        (replaced_by_link, FormatError),
        (replaced_by_dangling_link, FormatError),
        (replaced_by_folder, FormatError),
        (replaced_by_fifo, FormatError),
        (replaced_by_socket, FormatError),
        (replaced_by_sparse_giant, FormatError),
        (folder_replaced_by_file, FormatError),
    ],
)
def test_a_document_that_is_no_regular_file_of_sensible_size(
    tmp_path: Path, document: Path, damage: Callable[[Path], None], answer: type[StoreError]
) -> None:
    damage(document)
    with (
        opened(tmp_path) as reader,
        pytest.raises(answer, match=f"root document manifests/{NAME.storage_key}/"),
    ):
        reader.read_document(NAME)


def test_a_document_that_shrinks_while_it_is_read(
    tmp_path: Path, document: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.preadv

    def cut(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        return whole(descriptor, [buffers[0][:3]], offset) if offset == 0 else 0

    monkeypatch.setattr(os, "preadv", cut)
    with (
        opened(tmp_path) as reader,
        pytest.raises(FormatError, match="expected 8 bytes, found an end after 3"),
    ):
        reader.read_document(NAME)


def test_short_reads_are_continued(tmp_path: Path, document: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, buffers, offset: whole(fd, [buffers[0][:3]], offset))
    with opened(tmp_path) as reader:
        assert reader.read_document(NAME) == b"document"


@pytest.mark.parametrize("shortage", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_the_machines_shortage_is_not_the_stores_fault(
    tmp_path: Path, document: Path, monkeypatch: pytest.MonkeyPatch, shortage: int
) -> None:
    def refuse(*arguments: object) -> int:
        raise OSError(shortage, os.strerror(shortage))

    monkeypatch.setattr(os, "open", refuse)
    with opened(tmp_path) as reader, pytest.raises(ResourceError, match=os.strerror(shortage)):
        reader.read_document(NAME)


def test_no_descriptor_is_left_open(tmp_path: Path, document: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with opened(tmp_path) as reader:
        for _ in range(10):
            reader.read_document(NAME)
        replaced_by_fifo(document)
        for _ in range(10):
            with pytest.raises(FormatError):
                reader.read_document(NAME)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize(("cores", "readers"), [(1, 2), (2, 2), (3, 3), (4, 4), (64, 4)])
def test_readers_suit_the_cores_and_are_four_at_most(cores: int, readers: int) -> None:
    assert readers_for(cores) == readers


def test_a_reader_without_readers() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        BoundedReader(Path("/"), readers=0, buffers=BufferPool(buffer_bytes=1, count=1))


def test_documents_are_listed_and_foreign_names_passed_over(tmp_path: Path, document: Path) -> None:
    folder = document.parent
    (folder / f".{document.name}.writing-{'0' * 32}").touch()
    (folder / "README.json").touch()
    (folder / f"{'A' * 64}.json").touch()
    (folder.parent / "not-a-key").mkdir()
    (folder.parent / ("0" * 64)).touch()
    (folder.parent / ("1" * 64)).mkdir()
    assert list(list_documents(tmp_path)) == [NAME]
    assert list(list_documents(tmp_path / "nowhere")) == []


def test_names_are_made_of_digests_only() -> None:
    assert str(NAME.path) == f"manifests/{NAME.storage_key}/{NAME.context_digest}.json"
    with pytest.raises(FormatError):
        DocumentName(storage_key=Digest("../x"), context_digest=NAME.context_digest)


def test_a_stock_over_256_mib_is_refused() -> None:
    with pytest.raises(PlanError, match="buffer pool"):
        BufferPool(buffer_bytes=64 * 1024 * 1024 + 1, count=4)
    with pytest.raises(PlanError):
        BufferPool(buffer_bytes=0)


def test_buffers_start_on_a_page_and_are_lent_again() -> None:
    pool = BufferPool(buffer_bytes=10_000, count=2)
    first, second = pool.take(10_000, holders=1), pool.take(5, holders=2)
    assert pool.take_if_free(1, holders=1) is None
    assert pool.held_bytes == 10_005
    second.let_go()
    assert pool.held_buffers == 2
    second.let_go()
    assert pool.held_bytes == 10_000
    again = pool.take_if_free(7, holders=1)
    assert again is not None
    assert len(again.memory) == 7
    first.drop()
    first.drop()
    again.let_go()
    assert pool.held_buffers == 0
    assert pool.peak_bytes == 10_007
    with pytest.raises(RuntimeError):
        again.let_go()


def test_a_buffer_dropped_twice_does_not_free_its_next_holder() -> None:
    pool = BufferPool(buffer_bytes=10, count=1)
    first = pool.take(1, holders=2)
    first.drop()
    pool.take(2, holders=1)
    first.drop()
    assert pool.held_bytes == 2


def test_taking_waits_for_a_buffer_to_come_back() -> None:
    pool = BufferPool(buffer_bytes=10, count=1)
    held = pool.take(1, holders=1)
    taken = threading.Event()

    def take() -> None:
        pool.take(2, holders=1)
        taken.set()

    thread = threading.Thread(target=take)
    thread.start()
    assert not taken.is_set()
    held.let_go()
    thread.join(timeout=60)
    assert taken.is_set()


def test_more_than_a_buffer_holds() -> None:
    with pytest.raises(PlanError, match="at most 10 bytes"):
        BufferPool(buffer_bytes=10, count=1).take(11, holders=1)


def test_address_space_that_is_not_to_be_had() -> None:
    with pytest.raises(ResourceError):
        map_untouched(1 << 62)
