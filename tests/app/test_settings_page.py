"""The settings table of docs/OPERATIONS.md names every setting, and no other."""

import re
from pathlib import Path

from app.config import Settings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "OPERATIONS.md"


def test_every_setting_is_in_the_table() -> None:
    table = PAGE.read_text().partition("## Settings")[2]
    first_cells = re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE)
    named = {name.lower() for cell in first_cells for name in re.findall(r"`([A-Z_]+)`", cell)}
    assert named == set(Settings.model_fields)
