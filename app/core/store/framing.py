"""Streams and chunks begin alike: a magic, a length, a JSON header (store-format §8.4, §9.2, §11.2)."""

from collections.abc import Iterator
from contextlib import contextmanager

from app.core.errors import FormatError, Stage

# Recommended limit, store-format §19.
MAX_HEADER_BYTES = 1024 * 1024


@contextmanager
def judged_in_header() -> Iterator[None]:
    """What is refused inside is refused at stage ``header``, whoever refuses it.

    Raises:
        FormatError: as inside, with the stage set.
    """
    try:
        yield
    except FormatError as error:
        error.stage = Stage.HEADER
        raise


def verify_header_length(length: int, *, available: int, subject: str) -> None:
    """A header length must be possible before a byte of it is read.

    Args:
        length: as stated by the file.
        available: bytes that follow the length field.
        subject: what carries it, for messages.

    Raises:
        FormatError: stage ``header``: no byte, more than there are, or over 1 MiB.
    """
    maximum = min(available, MAX_HEADER_BYTES)
    if not 1 <= length <= maximum:
        raise FormatError(
            f"{subject} length", expected=f"1 … {maximum} bytes", found=f"{length}", stage=Stage.HEADER
        )
