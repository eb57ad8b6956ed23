"""Profile documents from a disk: no link is followed, nothing outside the allowed folders is read."""

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.core.profiles.contract import Contract, read_contract
from app.core.profiles.documents import MAX_DOCUMENT_BYTES, DocumentKind, check_size, read_profile_document
from app.core.profiles.folder import LoadedTemplates, Receipt, load_templates
from app.core.profiles.references import Base, Lookup, Reference, resolve, unsafe
from app.core.profiles.release import ReleaseSelection, read_release_selection
from app.core.profiles.template import Template, read_template_set

_FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER_FLAGS: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_IS_LINK: Final = frozenset({errno.ELOOP, errno.ENOTDIR})


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedContract:
    """A contract with the templates that could be read, and where the rest is looked for."""

    contract: Contract
    templates: LoadedTemplates
    lookup: Lookup


def read_document_file(file: Path) -> bytes:
    """The bytes of a file the user named.

    Raises:
        OSError: no file, or not readable.
        ProfileDocumentError: DOC_TOO_LARGE; nothing of it is read then.
    """
    with file.open("rb") as stream:
        check_size(os.fstat(stream.fileno()).st_size, subject=file.name)
        return stream.read(MAX_DOCUMENT_BYTES + 1)


def load_contract(file: Path, *, assets: Path | None, template_set: Path | None) -> LoadedContract:
    """Read a contract and its templates.

    Args:
        assets: the asset root; without it pinned transport files are not looked for.
        template_set: templates as one document of keys and values, instead of files beside the contract.

    Raises:
        OSError: a named file is not there or not readable.
        ProfileDocumentError: the contract or the set of templates cannot be taken.
    """
    contract = read_contract(read_document_file(file), subject=file.name)
    lookup = folder_lookup(file, assets=assets)
    known: Mapping[str, Template] = {}
    if template_set is not None:
        raw = read_document_file(template_set)
        document = read_profile_document(raw, subject=template_set.name, kind=DocumentKind.TEMPLATE_SET)
        known = read_template_set(document)
    return LoadedContract(
        contract=contract, templates=load_templates(contract, lookup=lookup, known=known), lookup=lookup
    )


def load_receipt(file: Path | None) -> Receipt | None:
    """An image receipt, if one was named.

    Raises:
        OSError: no such file, or not readable.
        ProfileDocumentError: it is none; a publication is told apart.
    """
    if file is None:
        return None
    document = read_profile_document(
        read_document_file(file), subject=file.name, kind=DocumentKind.IMAGE_RECEIPT
    )
    return Receipt(value=document.value, sha256=document.sha256)


def load_selections(files: Sequence[Path]) -> tuple[ReleaseSelection, ...]:
    """Release selections.

    Raises:
        OSError: no such file, or not readable.
        ProfileDocumentError: one of them is none.
    """
    return tuple(read_release_selection(read_document_file(one), subject=one.name) for one in files)


def folder_lookup(contract_file: Path, *, assets: Path | None) -> Lookup:
    """References of a contract on a disk: below the parent of its folder, or below the asset root."""
    folder = contract_file.absolute().parent

    def look_up(reference: Reference) -> bytes | None:
        if reference.base is Base.ASSETS:
            return read_inside(assets, reference.path, reference) if assets is not None else None
        path = resolve(reference.written, base=Base.CONTRACT, folder=folder.name, pointer=reference.pointer)
        return read_inside(folder.parent, path, reference)

    return look_up


def read_inside(root: Path, path: str, reference: Reference) -> bytes | None:
    """The bytes of a file below a folder, reached without a link; none where nothing is there.

    Raises:
        ProfileDocumentError: DOC_PATH_UNSAFE for a link, a folder or a special file; DOC_TOO_LARGE.
        OSError: there and not readable.
    """
    try:
        descriptor = _open_inside(root, path.split("/"))
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in _IS_LINK:
            raise _refused(reference, "a link or no folder on the way") from None
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise _refused(reference, "no regular file")
    with os.fdopen(descriptor, "rb") as stream:
        check_size(status.st_size, subject=path)
        return stream.read(MAX_DOCUMENT_BYTES + 1)


def _refused(reference: Reference, found: str) -> Exception:
    return unsafe(
        reference.written, base=reference.base, pointer=reference.pointer, found=f"{reference.path}: {found}"
    )


def _open_inside(root: Path, parts: list[str]) -> int:
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in parts[:-1]:
            inner = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
            os.close(folder)
            folder = inner
        return os.open(parts[-1], _FILE_FLAGS, dir_fd=folder)
    finally:
        os.close(folder)
