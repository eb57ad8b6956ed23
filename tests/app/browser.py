"""What is read from a page: its text, and the token of its forms."""

import re


def text_of(html: str) -> str:
    """The text of a page, tags and runs of white space removed."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def form_token(page: str) -> str:
    """The token that every form of the page carries."""
    return page.split('name="form_token" value="')[1].split('"')[0]
