"""``sparkgate evidence export``: days and instants, topologies, a bundle fetched whole or not at all."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from app.cli.client import ApiClient, ApiError
from app.cli.evidence import fetch, follow, read_instant, read_topology, show
from app.core.digest import sha256

RAW = b"a bundle" * 1000


class FakeApi(ApiClient):
    """A control plane that answers what it is given."""

    def __init__(self, *, states: Sequence[str] = (), parts: Sequence[bytes] = ()) -> None:
        self.states, self.parts = list(states), parts
        self.base_url = "http://127.0.0.1"

    def get(self, path: str) -> dict[str, Any]:
        state = self.states.pop(0)
        return {"id": path, "state": state, "done": state in {"finished", "failed"}}

    def stream(self, path: str) -> Iterator[bytes]:
        yield from self.parts


def export(raw: bytes = RAW) -> dict[str, Any]:
    bundle = {"sha256": sha256(raw), "bytes": len(raw), "contents": {}}
    return {"id": "x", "first_index": 3, "ledger_size": 9, "bundle": bundle}


@pytest.mark.parametrize(
    ("text", "is_end", "expected"),
    [
        ("2026-01-01", False, "2026-01-01T00:00:00+00:00"),
        ("2026-03-31", True, "2026-04-01T00:00:00+00:00"),
        ("2028-02-29", True, "2028-03-01T00:00:00+00:00"),
        ("2026-01-01T05:00:00+02:00", True, "2026-01-01T05:00:00+02:00"),
        ("2026-01-01T05:00:00Z", False, "2026-01-01T05:00:00+00:00"),
    ],
)
def test_a_day_is_meant_whole(text: str, is_end: bool, expected: str) -> None:
    assert read_instant(text, is_end=is_end) == expected


@pytest.mark.parametrize("text", ["yesterday", "2026-02-30", "2026-01-01T05:00:00", ""])
def test_what_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="period: expected YYYY-MM-DD"):
        read_instant(text, is_end=False)


@pytest.mark.parametrize("text", ["4/1", "TP4/DCP1", "tp4,dcp1", "4x1", " 4 1 "])
def test_topologies_as_people_write_them(text: str) -> None:
    assert read_topology(text) == {"tp": "4", "dcp": "1"}


@pytest.mark.parametrize("text", ["4", "0/1", "TP/DCP", "4/1/1", "four"])
def test_what_is_no_topology_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="topology: expected TP/DCP"):
        read_topology(text)


def test_an_export_is_followed_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.cli.evidence.POLL_S", 0)
    told: list[str] = []
    api = FakeApi(states=["waiting", "running", "running", "finished"])
    assert follow(api, export_id="x", tell=lambda one: told.append(one["state"]))["state"] == "finished"
    assert told == ["waiting", "running", "running", "finished"]


def test_a_bundle_is_written_whole_under_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = fetch(FakeApi(parts=[RAW[:10], RAW[10:]]), export=export(), out=None, tell=lambda _: None)
    assert path.name == f"sparkgate-evidence-3-9-{sha256(RAW)[:12]}.tar"
    assert path.read_bytes() == RAW
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("parts", [[RAW[:-1]], [RAW + b"x"], [b"x" + RAW[1:]], []])
def test_what_arrives_changed_leaves_nothing(tmp_path: Path, parts: list[bytes]) -> None:
    kept = tmp_path / "bundle.tar"
    kept.write_bytes(b"an older one")
    with pytest.raises(ApiError, match="bundle: expected SHA-256"):
        fetch(FakeApi(parts=parts), export=export(), out=kept, tell=lambda _: None)
    assert (kept.read_bytes(), list(tmp_path.iterdir())) == (b"an older one", [kept])


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_a_digest_is_shown_to_its_last_digit(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    show(Path("bundle.tar"), export())
    said = capsys.readouterr().out
    assert "\u2026" not in said
    assert sha256(RAW) in "".join(
        line.split("\u2502")[2].strip() for line in said.splitlines() if "\u2502" in line
    )
