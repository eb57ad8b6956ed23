"""The archive has one spelling: nothing that a tar may hold besides is taken, and nothing leads outside."""

import io
import tarfile
from collections.abc import Callable

import pytest

from app.core.bundle import layout
from app.core.bundle.archive import ArchiveWriter, header, walk
from app.core.errors import CoreError, FormatError, IntegrityError
from tests.core.bundle import rig

BLOCK = 512


def _tar(*members: tarfile.TarInfo, form: int = tarfile.USTAR_FORMAT) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=form) as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size) if member.size else None)
    return packed.getvalue()


def _member(name: str, **facts: object) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = 3 if facts.get("type", tarfile.REGTYPE) == tarfile.REGTYPE else 0
    for fact, value in facts.items():
        setattr(member, fact, value)
    return member


def test_other_programs_read_it() -> None:
    with tarfile.open(fileobj=io.BytesIO(rig.small())) as archive:
        members = archive.getmembers()
        assert [one.name for one in members] == sorted(one.name for one in members)
        assert {(one.mode, one.uid, one.gid, one.mtime, one.uname, one.gname) for one in members} == {
            (0o644, 0, 0, 0, "", "")
        }
        assert all(one.isreg() for one in members)
        found = {one.name: (archive.extractfile(one) or io.BytesIO()).read() for one in members}
    assert found == rig.unpack(rig.small())


def test_the_header_is_what_tarfile_writes() -> None:
    ours = header("REPORT.html", byte_count=3)
    assert ours == _tar(_member("REPORT.html"))[:BLOCK]


@pytest.mark.parametrize(
    ("member", "said"),
    [
        (_member("../MANIFEST.json"), "leaves the folder"),
        (_member("keys/../../x"), "leaves the folder"),
        (_member("/etc/passwd"), "leaves the folder"),
        (_member("receipts/"), "the name of a bundle's file"),
        (_member("receipts/" + "A1" * 32 + ".json"), "the name of a bundle's file"),
        (_member("README.md"), "the name of a bundle's file"),
        (_member("REPORT.html", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "a symbolic link"),
        (_member("REPORT.html", type=tarfile.LNKTYPE, linkname="MANIFEST.json"), "a hard link"),
        (_member("REPORT.html", type=tarfile.CHRTYPE), "a character device"),
        (_member("REPORT.html", type=tarfile.BLKTYPE), "a block device"),
        (_member("REPORT.html", type=tarfile.FIFOTYPE), "a pipe"),
        (_member("keys", type=tarfile.DIRTYPE), "a folder"),
        (_member("REPORT.html", mtime=1), "another spelling"),
        (_member("REPORT.html", mode=0o600), "another spelling"),
        (_member("REPORT.html", uid=1000), "another spelling"),
        (_member("REPORT.html", gname="root"), "another spelling"),
    ],
)
def test_what_is_no_plain_file_of_a_bundle_is_refused(member: tarfile.TarInfo, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        list(walk(io.BytesIO(_tar(member))))


def test_long_names_and_extended_headers_are_refused() -> None:
    long = _member("receipts/" + "a" * 200)
    for form, said in ((tarfile.GNU_FORMAT, "a long name"), (tarfile.PAX_FORMAT, "an extended header")):
        with pytest.raises(FormatError, match=said):
            list(walk(io.BytesIO(_tar(long, form=form))))


def test_a_name_twice_is_refused() -> None:
    with pytest.raises(FormatError, match="the same name again"):
        list(walk(io.BytesIO(_tar(_member("REPORT.html"), _member("REPORT.html")))))


def test_another_order_is_refused() -> None:
    with pytest.raises(FormatError, match=r"MANIFEST\.json after REPORT\.html"):
        list(walk(io.BytesIO(_tar(_member("REPORT.html"), _member("MANIFEST.json")))))


@pytest.mark.parametrize("path", [layout.GUIDE, layout.MANIFEST, layout.receipt_path("a1" * 32)])
def test_a_member_larger_than_its_kind_may_be_is_refused_by_its_header(path: str) -> None:
    """Nothing is read or kept for it: the header alone says too much."""
    with pytest.raises(FormatError, match=f"at most {layout.largest(path)} bytes"):
        list(walk(io.BytesIO(header(path, byte_count=layout.largest(path) + 1))))


def test_a_member_larger_than_the_file_is_refused() -> None:
    """A size of gigabytes costs nothing: the archive ends before."""
    with pytest.raises(FormatError, match="its end after"):
        list(walk(io.BytesIO(header(layout.ROWS, byte_count=layout.LARGEST_FILE))))


@pytest.mark.parametrize("size", [b"0000000000 ", b"-0000000001", b"99999999999", b"\x80" + b"\0" * 10])
def test_a_size_in_another_spelling_is_refused(size: bytes) -> None:
    raw = bytearray(header("REPORT.html", byte_count=0))
    raw[124:135] = size
    with pytest.raises(FormatError, match="eleven octal digits"):
        list(walk(io.BytesIO(bytes(raw))))


Edit = Callable[[bytes], bytes]
ARCHIVES: dict[str, Edit] = {
    "truncated in a member": lambda raw: raw[: len(raw) // 2],
    "without its end": lambda raw: raw[:-1024],
    "with half its end": lambda raw: raw[:-512],
    "one byte appended": lambda raw: raw + b"\0",
    "padded as other programs do": lambda raw: raw + bytes(10240 - len(raw) % 10240),
    "a member appended": lambda raw: raw[:-1024] + header(layout.VERIFIER, byte_count=0) + raw[-1024:],
    "zero blocks in front": lambda raw: bytes(512) + raw,
    "two archives": lambda raw: raw + raw,
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_another_archive_of_the_same_files_is_refused(name: str) -> None:
    assert rig.verify(ARCHIVES[name](rig.small())).exit_code in (1, 2)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_the_same_files_tarred_again_are_refused(form: int) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=form) as archive:
        for path, raw in rig.unpack(rig.small()).items():
            member = _member(path, mtime=1_700_000_000)
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
    assert rig.verify(packed.getvalue()).exit_code == 1


@pytest.mark.parametrize("raw", [b"", b"no archive", bytes(1024), b"{}" * 4096])
def test_what_is_no_bundle_is_unreadable(raw: bytes) -> None:
    assert rig.verify(raw).exit_code == 2


def test_the_writer_refuses_what_the_reader_would() -> None:
    writer = ArchiveWriter(io.BytesIO())
    writer.add("REPORT.html", byte_count=1, chunks=(b"x",))
    for path in ("REPORT.html", "MANIFEST.json"):
        with pytest.raises(IntegrityError, match=r"a name after REPORT\.html"):
            writer.add(path, byte_count=0, chunks=())
    with pytest.raises(IntegrityError, match="2 bytes"):
        writer.add("VERIFY.md", byte_count=2, chunks=(b"x",))
    with pytest.raises(CoreError):
        header("../x", byte_count=0)
