"""``sparkgate profile activation``, ``claim``, ``drill``, ``overlay``: what they print and how they end."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from app.cli import cli
from app.core.profiles.overlay_document import parse_overlay_check
from tests.core.profile_rig import REAL, Site, activation, contract, dump, make_site, put
from tests.core.test_claims import claim, raw_of
from tests.core.test_profiles_claims_drills import drill

Json = dict[str, Any]


def run(*asked: object) -> Result:
    return CliRunner().invoke(cli, ["profile", *map(str, asked)])


def said(*asked: object, status: int) -> Json:
    result = run(*asked, "--json")
    assert result.exit_code == status, result.output
    read: Json = json.loads(result.stdout)
    return read


@pytest.fixture
def receipt(tmp_path: Path) -> Path:
    """A receipt with its contract in the folder above, as upstream keeps them."""
    (tmp_path / "profile-contract.json").write_bytes(dump(contract()))
    place = tmp_path / "evidence" / "receipt.json"
    place.parent.mkdir()
    place.write_bytes(dump(activation()))
    return place


def test_a_receipt_is_judged_with_every_rule_told(receipt: Path) -> None:
    told = said("activation", receipt, "--pinned", status=0)
    assert (told["result"], told["first_blocking"], told["pinned"]) == ("pass", None, True)
    assert {"code", "result", "pointer", "detail"} <= told["findings"][0].keys()
    assert told["warnings"] == ["ACT_DCP_UNBOUND", "ACT_NO_EVIDENCE"]
    assert [row["rank"] for row in told["ranks"]] == ["0", "1", "2", "3"]
    told = said("activation", receipt, status=1)
    assert (told["first_blocking"], told["pinned"]) == ("ACT_DCP_UNBOUND", False)
    told = said("activation", receipt, "--rules", "upstream", status=0)
    assert told["warnings"] == []


def test_a_relabelled_receipt_fails_whatever_is_asked(receipt: Path) -> None:
    receipt.write_bytes(dump(activation() | {"profile": "tp4-dcp1-sparkcache"}))
    assert said("activation", receipt, "--pinned", status=1)["first_blocking"] == "KV_POOL_WINDOW"
    assert (
        said("activation", receipt, "--pool", "4/1=8364901", status=1)["first_blocking"] == "ACT_DCP_UNBOUND"
    )


def test_of_several_contracts_the_named_one_counts(receipt: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_bytes(dump(put(contract(), "/profiles/tp4-dcp4-sparkcache/lifecycle", "other.md")))
    own = tmp_path / "profile-contract.json"
    for order in ((other, own), (own, other)):
        asked = [word for one in order for word in ("--contract", one)]
        assert said("activation", receipt, "--pinned", *asked, status=0)["result"] == "pass"
    told = said("activation", receipt, "--pinned", "--contract", other, status=1)
    assert told["first_blocking"] == "ACT_CONTRACT_BINDING"


def test_a_selection_pins(shared_dir: Path) -> None:
    place = shared_dir / REAL / "profiles/evidence/tp4-dcp4-sparkcache-activation-20260911.json"
    selection = shared_dir / "profiles/sparkring/runtime/releases/sparkring-r33-dcp4/release.json"
    assert said("activation", place, status=1)["first_blocking"] == "ACT_DCP_UNBOUND"
    told = said("activation", place, "--selection", selection, status=0)
    assert (told["pinned"], told["result"]) == (True, "pass")


def test_claims_are_told_and_change_no_result(receipt: Path, tmp_path: Path) -> None:
    told = said("activation", receipt, "--pinned", status=0)
    place = tmp_path / "claim.json"
    place.write_bytes(raw_of(claim("withdrawn", subject_sha256=told["sha256"])))
    again = said("activation", receipt, "--pinned", "--claim", place, status=0)
    assert again["claims"][0]["takes_out"] is True
    assert again["findings"][-2]["code"] == "CLM_WITHDRAWN"
    listed = said("claim", place, "--subject", receipt, status=0)
    assert [one["state"] for one in listed["claims"]] == ["withdrawn"]
    assert said("claim", place, "--subject", place, status=0)["claims"] == []
    place.write_bytes(raw_of(claim("asserted", reason="multimodal correctness")))
    assert said("claim", place, status=1)["first_blocking"] == "CLM_OVERREACH"


def test_a_drill_is_held_to_its_bar(tmp_path: Path) -> None:
    place = tmp_path / "drill.json"
    place.write_bytes(dump(drill()))
    told = said("drill", place, status=0)
    assert (told["kind"], told["result"]) == ("restart", "pass")
    assert "killing one rank alone" in told["not_exercised"]
    place.write_bytes(dump(put(drill(), "/after/0/source", "in_engine")))
    assert said("drill", place, status=1)["first_blocking"] == "RST_SOURCE_GPU"


@pytest.mark.parametrize("command", ["activation", "claim", "drill"])
@pytest.mark.parametrize(
    ("content", "status"), [(b"{}", 1), (b"\xff", 1), (b'{"a":1,"a":1}', 1), (b"", 1), (None, 2)]
)
def test_documents_that_are_none(receipt: Path, command: str, content: bytes | None, status: int) -> None:
    if content is None:
        receipt.unlink()
    else:
        receipt.write_bytes(content)
    for more in ((), ("--json",)):
        result = run(command, receipt, *more)
        assert result.exit_code == status, result.output
        assert "Traceback" not in result.output


def test_without_a_contract_nothing_is_judged(tmp_path: Path) -> None:
    (tmp_path / "receipt.json").write_bytes(dump(activation()))
    result = run("activation", tmp_path / "receipt.json")
    assert result.exit_code == 2
    assert "--contract" in result.output
    assert run("activation", tmp_path / "receipt.json", "--pool", "4=1").exit_code == 2


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = make_site(tmp_path)
    (tmp_path / "anchors.json").write_bytes(made.anchors())
    (tmp_path / "launch.json").write_bytes(dump([made.launch()]))
    return made


def overlay(site: Site, *more: object) -> list[object]:
    place = site.image.parent
    known: list[object] = ["--overlay", site.overlay, "--lock-sha256", site.lock_sha256]
    beside = ["--anchors", place / "anchors.json", "--launch", place / "launch.json"]
    return ["overlay", site.image, *known, *beside, *more]


def test_an_overlay_is_checked_and_the_check_is_a_document(site: Site, tmp_path: Path) -> None:
    result = run(*overlay(site, "--rank", 0, "--json"))
    assert result.exit_code == 0, result.output
    read = parse_overlay_check(result.stdout.encode())
    assert (read.result, read.rank, read.image_id) == ("pass", 0, site.launch()["Image"])
    assert str(site.image) not in result.stdout
    for number in (1, 2, 3):
        (tmp_path / f"rank{number}.json").write_text(result.stdout)
    others = [word for number in (1, 2, 3) for word in ("--other-rank", tmp_path / f"rank{number}.json")]
    told = run(*overlay(site, *others, "--all"))
    assert told.exit_code == 0
    assert "OV_RANKS_DIFFER" in told.output
    assert "not covered: " in told.output


def test_a_drifted_file_is_named(site: Site) -> None:
    (site.image / "opt/sparkring/bin/sparkring-r33").write_bytes(b"other")
    result = run(*overlay(site))
    assert result.exit_code == 1
    assert "SL_FILE_DRIFT  opt/sparkring/bin/sparkring-r33" in result.output
    assert "1 changed" in result.output


def test_the_mounted_folder_itself_may_be_named(site: Site) -> None:
    asked = overlay(site)
    asked[asked.index(site.overlay)] = site.overlay / "profiles"
    assert run(*asked).exit_code == 0


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["overlay", "none", "--overlay", "none"], "a folder that holds profiles/"),
        (["overlay", "{image}", "--overlay", "{image}"], "a folder that holds profiles/"),
        (["overlay", "{image}", "--overlay", "{overlay}", "--lock-sha256", "ab"], "--lock-sha256"),
        (["overlay", "{image}", "--overlay", "{overlay}", "--anchors", "none.json"], "none.json"),
    ],
)
def test_what_cannot_be_checked_is_told(site: Site, asked: list[str], told: str) -> None:
    result = run(*(one.format(image=site.image, overlay=site.overlay) for one in asked))
    assert result.exit_code == 2
    assert told in result.output


def test_an_image_root_that_is_none(site: Site, tmp_path: Path) -> None:
    result = run("overlay", tmp_path / "none", "--overlay", site.overlay)
    assert result.exit_code == 1
    assert "expected a folder that can be opened" in result.output
