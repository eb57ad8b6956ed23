"""Foreign text for people."""

import pytest

from app.core.printable import printable, printable_page

TURNED = "shared\u202egnp.exe\u202c"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("Größe · 4 …\u2014\U0001f600", "Größe · 4 …\u2014\U0001f600"),
        (TURNED, "shared\\u202egnp.exe\\u202c"),
        ("a\x1b[31mb\x07", "a\\x1b[31mb\\x07"),
        ("a\u200bb\xadc\ufeff\u2066d", "a\\u200bb\\xadc\\ufeff\\u2066d"),
        ("a\tb\nc", "a\\tb\\nc"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_hides_is_spelled_out(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_page_keeps_its_lines() -> None:
    page = "<p>\n\t· …\r\n</p>"
    assert printable_page(page) is page
    assert printable_page("a\n\udcffb") == "a\n\\udcffb"
    assert printable_page(f"{page}{TURNED}") == f"{page}shared\\u202egnp.exe\\u202c"
