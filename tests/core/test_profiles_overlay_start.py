"""What must stand in an overlay, what anchors it, and how the container was started through it
(profile-contract §10.2, §10.4, §18.5, §18.15).
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.canonical_json import encode_canonical
from app.core.digest import Digest
from app.core.profiles.anchors import parse_anchors, selection_anchors
from app.core.profiles.documents import ProfileDocumentError
from app.core.profiles.findings import CheckResult
from app.core.profiles.launch import parse_launch
from app.core.profiles.overlay import OverlayOrder, check_overlay
from app.core.profiles.overlay_bindings import OverlayIdentity
from app.core.profiles.overlay_document import overlay_document, parse_overlay_check
from app.core.profiles.overlay_verification import parse_verification
from app.core.profiles.release import read_release_selection
from app.core.profiles.source_lock import parse_source_lock
from tests.core.profile_overlay_rig import (
    OVERLAY,
    append,
    check,
    failed,
    passed,
    selection_of,
    to_link_inside,
)
from tests.core.profile_rig import DROP, Site, canonical, dump, make_site, put, sha


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("profiles/profile-contract.json", "OV_ROOT"),
        ("profiles/verify_profile.py", "OV_ROOT"),
        ("image/entrypoint.py", "OV_ENTRYPOINT_MISSING"),
    ],
)
def test_what_an_overlay_must_hold(site: Site, name: str, code: str) -> None:
    anchors = parse_anchors(site.anchors())
    (site.overlay / name).unlink()
    result = check(site, anchors=(anchors,))
    assert [one.pointer for one in failed(result, code)] == [name]
    # The registered list names it too.
    assert [(one.pointer, one.reason) for one in failed(result, "OV_UNANCHORED")] == [(name, "missing")]


def test_what_anchors_an_overlay_file(site: Site) -> None:
    """A selection pins two files, the lock one; validator and anything new hang in the air (§10.4)."""
    digests = {one: sha((site.overlay / one).read_bytes()) for one in ("image/entrypoint.py",)}
    digests["profiles/profile-contract.json"] = sha(
        (site.overlay / "profiles/profile-contract.json").read_bytes()
    )
    inputs = [{"path": f"runtime/r33/{name}", "sha256": digest} for name, digest in digests.items()]
    inputs.append({"path": "runtime/r33/publication.json", "sha256": "ab" * 32})
    inputs.append({"path": "runtime/r33/image/artifact-lock.json", "sha256": "ab" * 32})
    selection = selection_of(inputs)
    (site.overlay / "profiles/new").write_bytes(b"x")
    result = check(site, anchors=(selection,))
    unanchored = {one.pointer: one.reason for one in failed(result, "OV_UNANCHORED")}
    assert unanchored == {"profiles/verify_profile.py": "extra", "profiles/new": "extra"}
    held = {one.path: one.anchored_by for one in result.files if one.anchored_by}
    assert held["profiles/tp4-dcp4.env.example"] == "the lock"
    assert held["image/entrypoint.py"] == f"release selection {selection.sha256}"


def test_a_selection_outranks_a_registered_list(site: Site) -> None:
    name = "profiles/profile-contract.json"
    inputs = [{"path": f"r33/{name}", "sha256": "ab" * 32}]
    selection = selection_of(inputs)
    result = check(site, anchors=(parse_anchors(site.anchors()), selection))
    (found,) = failed(result, "OV_UNANCHORED")
    assert (found.pointer, found.reason, found.expected) == (name, "changed", "ab" * 32)


def test_links_and_pipes_in_an_overlay(site: Site) -> None:
    anchors = parse_anchors(site.anchors())
    to_link_inside(site.overlay / "profiles/tp4-dcp4.env.example")
    os.mkfifo(site.overlay / "profiles/pipe")
    found = {one.pointer: one.reason for one in failed(check(site, anchors=(anchors,)), "OV_UNANCHORED")}
    assert found == {
        "profiles/tp4-dcp4.env.example": "symlinked",
        "profiles/moved": "extra",
        "profiles/pipe": "changed",
    }


@pytest.mark.parametrize(
    ("pointer", "value", "code"),
    [
        ("/Path", "/opt/sparkring/bin/sparkring-r33", "OV_ENTRYPOINT_NOT_SELECTED"),
        ("/Config/Entrypoint", ["/opt/sparkring/bin/sparkring-r33"], "OV_ENTRYPOINT_NOT_SELECTED"),
        ("/Config/Entrypoint", None, "OV_ENTRYPOINT_NOT_SELECTED"),
        ("/Config/Entrypoint", ["/bin/sh", OVERLAY], "OV_ENTRYPOINT_NOT_SELECTED"),
        ("/Mounts/0/RW", True, "OV_NOT_READONLY"),
        ("/Mounts/1/RW", True, "OV_NOT_READONLY"),
        ("/Mounts/0", DROP, "OV_ROOT"),
        ("/Mounts/1", DROP, "OV_ENTRYPOINT_MISSING"),
        ("/Mounts/0/Source", "/srv/other/profiles", "OV_ROOT"),
        ("/Mounts/1/Source", "/srv/other/image/entrypoint.py", "OV_ENTRYPOINT_MISSING"),
        ("/Config/Env", [], "OV_ROOT"),
        ("/Config/Env", ["R33_PROFILE_CONTRACT_HOST_ROOT="], "OV_ROOT"),
        ("/Config/Env", ["R33_PROFILE_CONTRACT_HOST_ROOT=profiles"], "OV_ROOT"),
    ],
)  # fmt: skip
def test_how_the_container_was_started(site: Site, pointer: str, value: Any, code: str) -> None:
    launch = parse_launch(dump(put(site.launch(), pointer, value)))
    result = check(site, launch=launch)
    assert failed(result, code)
    assert result.result is CheckResult.FAIL


@pytest.mark.parametrize(
    "destination",
    ["/", "/opt", "/opt/sparkring/bin/sparkring-r33", "/opt/sparkring/bin/", "/x/../opt/sparkring/bin"],
)
def test_a_mount_over_locked_files_is_found(site: Site, destination: str) -> None:
    mounts = [*site.launch()["Mounts"], {"Source": "/x", "Destination": destination, "RW": False}]
    result = check(site, launch=parse_launch(dump(put(site.launch(), "/Mounts", mounts))))
    (found,) = failed(result, "SL_FILE_DRIFT")
    assert found.pointer == "/Mounts/3"
    assert "hides" in found.detail


@pytest.mark.parametrize("name", ["verify_profile.py", "tp4-dcp4-sparkcache.env.example", "x/../new"])
def test_a_mount_inside_the_overlay_is_found(site: Site, name: str) -> None:
    target = f"/opt/sparkring/profile-contract/{name}"
    mounts = [*site.launch()["Mounts"], {"Source": "/srv/other", "Destination": target, "RW": False}]
    result = check(site, launch=parse_launch(dump(put(site.launch(), "/Mounts", mounts))))
    (found,) = failed(result, "OV_ROOT")
    assert (found.pointer, target in found.detail) == ("/Mounts/3", True)


def test_without_a_launch_document_nothing_is_claimed(site: Site) -> None:
    result = check(site, launch=None)
    told = {one.code: one.result for one in result.findings if one.detail == "launch document"}
    assert told == dict.fromkeys(("OV_ENTRYPOINT_NOT_SELECTED", "OV_NOT_READONLY"), CheckResult.NOT_TESTED)
    assert any("no launch document" in one for one in result.not_covered)


def test_the_value_of_a_variable_is_never_told(site: Site) -> None:
    launch = site.launch()
    launch["Config"]["Env"].append("hush hush")
    with pytest.raises(ProfileDocumentError) as refused:
        parse_launch(dump(launch))
    assert refused.value.pointer == "/Config/Env/3"
    assert "hush" not in str(refused.value)
    assert b"hush" not in encode_canonical(overlay_document(check(site)))


def test_a_contract_for_another_image_fails(site: Site) -> None:
    place = site.overlay / "profiles/profile-contract.json"
    place.write_bytes(place.read_bytes().replace(sha(b'{"lock":1}\n').encode(), b"ab" * 32))
    result = check(site)
    assert [one.pointer for one in failed(result, "CT_LOCK_HASH")] == ["/image/artifact_lock"]


def test_a_contract_that_is_none(site: Site) -> None:
    (site.overlay / "profiles/profile-contract.json").write_bytes(b"{}")
    assert failed(check(site), "DOC_SCHEMA_UNKNOWN")


def test_ranks_must_agree(site: Site) -> None:
    mine = check(site).identity
    other = OverlayIdentity(
        contract=mine.contract,
        validator=Digest("ab" * 32),
        entrypoint=mine.entrypoint,
        source_lock=mine.source_lock,
    )
    assert passed(check(site, others=(mine, mine, mine)), "OV_RANKS_DIFFER")
    (found,) = failed(check(site, others=(mine, other, mine)), "OV_RANKS_DIFFER")
    assert (found.pointer, found.expected, found.found) == ("/identity/validator", mine.validator, "ab" * 32)
    alone = [one for one in check(site).findings if one.code == "OV_RANKS_DIFFER"]
    assert [(one.result, one.detail) for one in alone] == [
        (CheckResult.NOT_TESTED, "the checks of 3 more ranks")
    ]


def test_the_images_own_verifier(site: Site) -> None:
    files = {f"/{path}": sha(raw) for path, raw in site.locked.items()}
    said = {
        "schema": "sparkring-r33-candidate-verification/v1",
        "source_lock_sha256": site.lock_sha256,
        "checked_files": files,
    }
    (missing,) = failed(check(site), "SL_VERIFY_MISSING")
    assert missing.severity == "W"
    assert passed(check(site, verification=parse_verification(dump(said))), "SL_VERIFY_MISSING")
    files["/opt/empty"] = "ab" * 32
    (found,) = failed(check(site, verification=parse_verification(dump(said))), "SL_VERIFY_MISSING")
    assert "1 of 9" in found.detail
    said["source_lock_sha256"] = "cd" * 32
    assert failed(check(site, verification=parse_verification(dump(said))), "SL_VERIFY_MISSING")


@pytest.mark.parametrize(("known", "result"), [(None, "not_tested"), (True, "pass"), (False, "fail")])
def test_an_overlay_that_a_restart_would_lose(site: Site, known: bool | None, result: str) -> None:
    found = [one for one in check(site, has_persisted_root=known).findings if one.code == "OV_NOT_PERSISTED"]
    assert [one.result for one in found] == [result]


def test_written_and_read_again(site: Site) -> None:
    append(site.image / "opt/empty")
    result = check(site)
    raw = encode_canonical(overlay_document(result, rank=2))
    read = parse_overlay_check(raw)
    assert (read.result, read.rank, read.identity) == (result.result, 2, result.identity)
    assert (read.findings, read.files, read.not_covered) == (
        result.findings,
        result.files,
        result.not_covered,
    )
    assert (read.checked_files, read.byte_count, dict(read.counts)) == (
        result.checked_files,
        result.byte_count,
        result.counts,
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["schema", "files", "Path", "Config", "Env", "Entrypoint", "Mounts", "RW", "a"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)
PARSERS: dict[str, Callable[[bytes], object]] = {
    "sparkgate-overlay-anchors/v1": parse_anchors,
    "sparkring-release-selection/v1": read_release_selection,
    "sparkring-r33-candidate-source-lock/v1": parse_source_lock,
    "sparkring-r33-candidate-verification/v1": parse_verification,
    "sparkgate-overlay-check/v1": parse_overlay_check,
    "": parse_launch,
}


@given(schema=st.sampled_from(list(PARSERS)), value=st.dictionaries(st.sampled_from(
    ["files", "inputs", "installed_files", "checked_files", "findings", "Path", "Config", "Mounts", "counts"]
), JSON, max_size=6))  # fmt: skip
def test_any_json_is_read_or_refused_with_a_pointer(schema: str, value: dict[str, Any]) -> None:
    if schema:
        value["schema"] = schema
    refused = refusal_of(PARSERS[schema], dump(value))
    assert refused is None or (refused.code and all(is_pointer(one.pointer) for one in refused.findings))


def refusal_of(parse: Callable[[bytes], object], raw: bytes) -> ProfileDocumentError | None:
    try:
        parse(raw)
    except ProfileDocumentError as error:
        return error
    return None


def is_pointer(text: str) -> bool:
    return text == "" or text.startswith("/")


@given(raw=st.binary(max_size=200), parse=st.sampled_from(list(PARSERS.values())))
def test_any_bytes_are_refused(raw: bytes, parse: Callable[[bytes], object]) -> None:
    with pytest.raises(ProfileDocumentError):
        parse(raw)


def test_real_lock_from_the_published_receipt(shared_dir: Path, tmp_path: Path) -> None:
    """The 127 names of the published receipt make a lock; nothing of the image is here, so all is missing."""
    import json

    receipt = shared_dir / "profiles/sparkring/runtime/sparkring/jovian-r33/public-image-receipt.json"
    if not receipt.is_file():
        pytest.skip(f"reference data: expected {receipt}, found none")
    checked = json.loads(receipt.read_bytes())["verification"]["checked_files"]
    files = {path.lstrip("/"): digest for path, digest in checked.items()}
    lock = canonical({"schema": "sparkring-r33-candidate-source-lock/v1", "installed_files": files})
    assert len(parse_source_lock(lock).installed_files) == 127
    image = tmp_path / "image"
    (image / "opt/sparkring/receipts").mkdir(parents=True)
    (image / "opt/sparkring/receipts/source-lock.json").write_bytes(lock)
    overlay = tmp_path / "overlay"
    (overlay / "profiles").mkdir(parents=True)
    contract = receipt.parent / "profiles/profile-contract.json"
    (overlay / "profiles/profile-contract.json").write_bytes(contract.read_bytes())
    selection = shared_dir / "profiles/sparkring/runtime/releases/sparkring-r33-dcp4/release.json"
    anchors = selection_anchors(read_release_selection(selection.read_bytes()))
    assert set(anchors.files) >= {"profiles/profile-contract.json", "image/entrypoint.py"}
    order = OverlayOrder(lock_sha256=Digest(sha(lock)), anchors=(anchors,))
    result = check_overlay(image, overlay, order=order)
    assert result.counts["missing"] == 113
    assert {one.path for one in result.files if one.anchored_by} == {"profiles/profile-contract.json"}
    bound = {one.code for one in result.findings if one.result is CheckResult.PASS}
    assert {"CT_LOCK_HASH", "CT_PINS_HASH", "SL_HASH"} <= bound
