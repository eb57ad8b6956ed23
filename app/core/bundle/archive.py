"""The archive: a plain ustar of regular files in the order of their names, in its one spelling.

No folders, no extensions, mode 0644, owner 0, time 0, zero padding, two zero blocks at the end and nothing
behind them. A reader compares every header with the one a writer must have written.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from app.core.bundle.layout import LARGEST_FILE, MOST_FILES, check_path, largest
from app.core.digest import Digest, RunningDigest
from app.core.errors import FormatError, IntegrityError

BLOCK: Final = 512
CHUNK_BYTES: Final = 1024 * 1024
# A line may be read alone: then what is read beyond it is for nothing.
_LINE_BYTES: Final = 64 * 1024
_END: Final = bytes(2 * BLOCK)
_MODE: Final = b"0000644\0"
_NOBODY: Final = b"0000000\0"
_NO_TIME: Final = b"00000000000\0"
_NAME_BYTES: Final = 100
_KINDS: Final = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a character device",
    b"4": "a block device",
    b"5": "a folder",
    b"6": "a pipe",
    b"x": "an extended header",
    b"g": "a global header",
    b"L": "a long name",
    b"K": "a long link name",
    b"S": "a sparse file",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A file of the archive: where its bytes begin and how many there are."""

    path: str
    offset: int
    byte_count: int


def header(path: str, *, byte_count: int) -> bytes:
    """The block in front of a file.

    Raises:
        FormatError: the name is no file's of a bundle, or the file is too large for a header.
    """
    check_path(path)
    name = path.encode("ascii")
    if len(name) > _NAME_BYTES or byte_count > LARGEST_FILE:
        raise FormatError(
            f"archive member {path}", expected=f"at most {LARGEST_FILE} bytes", found=f"{byte_count}"
        )
    before = name.ljust(_NAME_BYTES, b"\0") + _MODE + _NOBODY + _NOBODY + b"%011o\0" % byte_count + _NO_TIME
    after = b"0" + bytes(100) + b"ustar\x0000" + bytes(247)
    checksum = sum(before) + 8 * ord(" ") + sum(after)
    return before + b"%06o\0 " % checksum + after


def padding(byte_count: int) -> bytes:
    """What fills the last block of a file."""
    return bytes(-byte_count % BLOCK)


class ArchiveWriter:
    """Writes members in ascending order of their names; every byte goes into one digest."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = RunningDigest()
        self._last = ""
        self.byte_count = 0

    def add(self, path: str, *, byte_count: int, chunks: Iterable[bytes]) -> None:
        """Write a file.

        Raises:
            IntegrityError: the chunks are not as many bytes as was said, or the order is wrong.
            OSError: there is no room.
        """
        if path <= self._last:
            raise IntegrityError("archive", expected=f"a name after {self._last}", found=path)
        self._last = path
        self._write(header(path, byte_count=byte_count))
        written = 0
        for chunk in chunks:
            written += len(chunk)
            self._write(chunk)
        if written != byte_count:
            raise IntegrityError(
                f"archive member {path}", expected=f"{byte_count} bytes", found=f"{written} bytes"
            )
        self._write(padding(byte_count))

    def finish(self) -> Digest:
        """Write the end; the digest of the whole archive."""
        self._write(_END)
        return self._digest.digest()

    def _write(self, chunk: bytes) -> None:
        self._file.write(chunk)
        self._digest.update(chunk)
        self.byte_count += len(chunk)


def walk(file: BinaryIO) -> Iterator[Member]:
    """Every member in order. After each the file may be read anywhere; what lies between members is checked.

    Raises:
        FormatError: another spelling of an archive than the writer's, or no archive.
    """
    offset, last = 0, ""
    for _ in range(MOST_FILES):
        block = _read(file, offset, BLOCK)
        if not any(block):
            _check_end(file, offset)
            return
        member = _member(block, offset=offset)
        if member.path <= last:
            found = "the same name again" if member.path == last else f"{member.path} after {last}"
            raise FormatError("archive", expected="names in ascending order", found=found)
        yield member
        last = member.path
        end = member.offset + member.byte_count
        fill = padding(member.byte_count)
        if _read(file, end, len(fill)) != fill:
            raise FormatError(
                f"archive after {last}", expected="zero bytes up to the next block", found="others"
            )
        offset = end + len(fill)
    raise FormatError("archive", expected=f"at most {MOST_FILES} members", found="more")


def chunks_of(file: BinaryIO, member: Member, *, most: int = CHUNK_BYTES) -> Iterator[bytes]:
    """The bytes of a member, `most` at a time.

    Raises:
        FormatError: the archive ends inside it.
    """
    place, end = member.offset, member.offset + member.byte_count
    while place < end:
        chunk = _read(file, place, min(most, end - place))
        yield chunk
        place += len(chunk)


def bytes_of(file: BinaryIO, member: Member) -> bytes:
    """All bytes of a member that is known to be small."""
    return _read(file, member.offset, member.byte_count)


def lines_of(file: BinaryIO, member: Member, *, longest: int, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """The lines of a member without their ends, each with its place in the member.

    Raises:
        FormatError: a line is longer than `longest`, or the last one has no end.
    """
    place, rest = start, b""
    for chunk in chunks_of(file, _from(member, start), most=_LINE_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield place, line
            place += len(line) + 1
        if len(rest) > longest:
            raise FormatError(
                f"{member.path} at byte {place}", expected=f"lines of at most {longest} bytes", found="more"
            )
    if rest:
        raise FormatError(member.path, expected="a newline at the end", found="none")


def _from(member: Member, start: int) -> Member:
    return Member(path=member.path, offset=member.offset + start, byte_count=member.byte_count - start)


def _member(block: bytes, *, offset: int) -> Member:
    name = block[:_NAME_BYTES].rstrip(b"\0").decode("ascii", "backslashreplace")
    subject = f"archive header at byte {offset}"
    kind = block[156:157]
    if kind != b"0":
        found = _KINDS.get(kind, f"type {kind!r}")
        raise FormatError(subject, expected="a regular file", found=f"{found} named {name[:200]!r}")
    check_path(name)
    size = block[124:135]
    if not size.isdigit() or any(digit in b"89" for digit in size):
        raise FormatError(subject, expected="a size of eleven octal digits", found=f"{size!r}")
    byte_count = int(size, 8)
    if byte_count > largest(name):
        raise FormatError(
            f"archive member {name}", expected=f"at most {largest(name)} bytes", found=f"{byte_count}"
        )
    if header(name, byte_count=byte_count) != block:
        raise FormatError(subject, expected=f"the header a bundle has for {name}", found="another spelling")
    return Member(path=name, offset=offset + BLOCK, byte_count=byte_count)


def _check_end(file: BinaryIO, offset: int) -> None:
    tail = file.seek(offset) and file.read(len(_END) + 1)
    if tail != _END:
        raise FormatError(
            "archive end", expected="two zero blocks and nothing behind them", found="another end"
        )


def _read(file: BinaryIO, offset: int, byte_count: int) -> bytes:
    file.seek(offset)
    found = file.read(byte_count)
    if len(found) != byte_count:
        raise FormatError(
            f"archive at byte {offset}", expected=f"{byte_count} bytes", found=f"its end after {len(found)}"
        )
    return found
