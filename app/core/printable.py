"""Foreign text for people: what nobody sees, or what a terminal or a browser obeys, is spelled out."""

from typing import Final

# Everything that needs no second look: deleted from a text, what is left is short.
_PLAIN: Final = bytes(range(0x20, 0x7F)) + b"\t\n\r"


def printable(text: str) -> str:
    """The text in which every character that is not printable stands as Python's escape for it, as ``\\x1b``
    or ``\\u202e``: none hides, and none turns around what stands beside it."""
    return text if text.isprintable() else "".join(map(_spelled, text))


def printable_page(text: str) -> str:
    """The same for text of many lines, of which most needs no change: tabs and ends of lines stay."""
    # A lone surrogate has no bytes; as what Python puts there it is no character that may be printed.
    if (
        text.encode("utf-8", "surrogatepass")
        .translate(None, _PLAIN)
        .decode("utf-8", "surrogatepass")
        .isprintable()
    ):
        return text
    return "".join(one if one in "\t\n\r" else _spelled(one) for one in text)


def _spelled(character: str) -> str:
    return character if character.isprintable() else repr(character)[1:-1]
