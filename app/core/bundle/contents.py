"""The files of an archive against each other: digests, their list, the manifest and its signature."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from app.core.bundle import layout
from app.core.bundle.archive import Member, bytes_of, chunks_of, lines_of, walk
from app.core.bundle.manifest import PAYLOAD_TYPE, Manifest, parse_manifest
from app.core.digest import Digest, RunningDigest
from app.core.dsse import fingerprint, open_envelope, parse_public_pem, public_pem
from app.core.errors import CoreError, FormatError, IntegrityError

Report = Callable[[CoreError], None]
_LONGEST_SUM: Final = 256


@dataclass(slots=True, kw_only=True)
class Contents:
    """What lies in an archive.

    Attributes:
        members: files that are no receipts, by path; `digests` are theirs as found.
        receipts: place and length of each receipt, by digest.
    """

    file: BinaryIO
    members: dict[str, Member] = field(default_factory=dict)
    digests: dict[str, Digest] = field(default_factory=dict)
    receipts: dict[str, tuple[int, int]] = field(default_factory=dict)

    def text(self, path: str) -> bytes:
        """A small file.

        Raises:
            FormatError: it is not there.
        """
        if path not in self.members:
            raise FormatError("archive", expected=path, found="no such member")
        return bytes_of(self.file, self.members[path])

    def lines(self, path: str, *, longest: int, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """The lines of a file, each with its place."""
        return lines_of(self.file, self.members[path], longest=longest, start=start)

    def receipt(self, digest: str) -> bytes:
        """A receipt.

        Raises:
            IntegrityError: it is not there.
        """
        if digest not in self.receipts:
            raise IntegrityError(f"receipt {digest}", expected="a file of it", found="none")
        offset, byte_count = self.receipts[digest]
        path = layout.receipt_path(digest)
        return bytes_of(self.file, Member(path=path, offset=offset, byte_count=byte_count))


def read_contents(file: BinaryIO, *, report: Report) -> Contents:
    """Go through the archive once and hash everything.

    Raises:
        FormatError: no archive of ours, or another spelling of one.
    """
    contents = Contents(file=file)
    for member in walk(file):
        digest = RunningDigest()
        for chunk in chunks_of(file, member):
            digest.update(chunk)
        named = layout.receipt_of(member.path)
        if named is None:
            contents.members[member.path] = member
            contents.digests[member.path] = digest.digest()
        else:
            contents.receipts[named] = (member.offset, member.byte_count)
            if digest.digest() != named:
                report(IntegrityError(member.path, expected=f"digest {named}", found=digest.digest()))
    for path in sorted(layout.required() - contents.members.keys()):
        report(FormatError("archive", expected=path, found="no such member"))
    return contents


def begins_as_bundle(file: BinaryIO) -> bool:
    """Whether the first header names what stands first in a bundle: whatever follows, it is meant as one."""
    file.seek(0)
    name = layout.MANIFEST.encode("ascii")
    return file.read(len(name) + 1) == name + b"\0"


def check_manifest(contents: Contents, *, report: Report) -> tuple[Manifest, bytes]:
    """The manifest, and the key whose signature over its exact bytes holds; the files it names compared.

    Raises:
        FormatError: the manifest or its signature is not in form.
        IntegrityError: the signature is not one of the key in the bundle.
    """
    raw = contents.text(layout.MANIFEST)
    public = parse_public_pem(contents.text(layout.KEY), subject=layout.KEY)
    if public_pem(public) != contents.text(layout.KEY):
        raise FormatError(layout.KEY, expected="the one spelling of a key", found="another")
    sealed = open_envelope(
        contents.text(layout.ENVELOPE), payload_type=PAYLOAD_TYPE, public=public, subject=layout.ENVELOPE
    )
    if sealed != raw:
        raise IntegrityError(layout.MANIFEST, expected="the bytes that are signed", found="others")
    manifest = parse_manifest(raw)
    if manifest.key != fingerprint(public):
        raise IntegrityError(f"{layout.MANIFEST}.key", expected=fingerprint(public), found=manifest.key)
    _check_files(contents, manifest, report=report)
    _check_sums(contents, report=report)
    return manifest, public


def _check_files(contents: Contents, manifest: Manifest, *, report: Report) -> None:
    named = {file.path: file for file in manifest.files}
    found = contents.members.keys() - {layout.MANIFEST, layout.ENVELOPE}
    if [file.path for file in manifest.files] != sorted(named):
        report(
            FormatError(f"{layout.MANIFEST}.files", expected="every path once, in order", found="otherwise")
        )
    for path in sorted(named.keys() - found):
        report(IntegrityError(path, expected="a file, as the manifest names it", found="none"))
    for path in sorted(found - named.keys()):
        report(IntegrityError(path, expected="no file the manifest does not name", found="one"))
    for path in sorted(named.keys() & found):
        file, member = named[path], contents.members[path]
        if (file.byte_count, file.sha256) != (member.byte_count, contents.digests[path]):
            expected = f"{file.byte_count} bytes of digest {file.sha256}"
            observed = f"{member.byte_count} bytes of digest {contents.digests[path]}"
            report(IntegrityError(path, expected=expected, found=observed))
    byte_count = sum(size for _, size in contents.receipts.values())
    if (manifest.receipt_count, manifest.receipt_bytes) != (len(contents.receipts), byte_count):
        expected = f"{manifest.receipt_count} files of {manifest.receipt_bytes} bytes"
        report(
            IntegrityError(
                "receipts", expected=expected, found=f"{len(contents.receipts)} of {byte_count} bytes"
            )
        )


def _check_sums(contents: Contents, *, report: Report) -> None:
    """SHA256SUMS, line by line, against what was hashed."""
    files = [(path, str(digest)) for path, digest in sorted(contents.digests.items())]
    listed = [file for file in files if file[0] not in layout.UNLISTED]
    expected = RunningDigest()
    for line in layout.sums_lines(listed, contents.receipts):
        expected.update(line)
    if contents.digests.get(layout.SUMS) == expected.digest():
        return
    report(
        IntegrityError(
            layout.SUMS, expected="a line for every file, in the order of names", found="other lines"
        )
    )
    for receipt in _receipts_of_sums(contents):
        if receipt not in contents.receipts:
            path = layout.receipt_path(receipt)
            report(IntegrityError(path, expected=f"a file, as {layout.SUMS} names it", found="none"))


def _receipts_of_sums(contents: Contents) -> Iterator[str]:
    """The receipts that SHA256SUMS names; all other files the manifest names itself."""
    if layout.SUMS not in contents.members:
        return
    for _, line in contents.lines(layout.SUMS, longest=_LONGEST_SUM):
        _, _, path = line.decode("ascii", "replace").partition("  ")
        if receipt := layout.receipt_of(path):
            yield receipt


def csv_records(contents: Contents, path: str) -> int:
    """Records of a table without its header: line ends outside quotes."""
    records, quoted = 0, False
    for chunk in _crlf_chunks(contents, path):
        pieces = chunk.split(b"\r\n")
        for piece in pieces[:-1]:
            quoted ^= bool(piece.count(b'"') & 1)
            records += not quoted
        quoted ^= bool(pieces[-1].count(b'"') & 1)
    return records - 1


def _crlf_chunks(contents: Contents, path: str) -> Iterator[bytes]:
    """The bytes of a file, none of its line ends cut in two."""
    rest = b""
    for chunk in chunks_of(contents.file, contents.members[path]):
        whole = rest + chunk
        cut = len(whole) - whole.endswith(b"\r")
        yield whole[:cut]
        rest = whole[cut:]
    yield rest
