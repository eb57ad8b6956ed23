"""Release selection, publication, catalog, artifact lock and site: every field in form, or named."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.digest import Digest
from app.core.profiles.documents import ProfileDocumentError, read_profile_document
from app.core.profiles.findings import CheckResult
from app.core.profiles.kinds import read_any
from app.core.profiles.release import (
    pin_findings,
    publication_findings,
    read_artifact_lock,
    read_catalog,
    read_catalog_entry,
    read_publication,
    read_release_selection,
    unpinned_finding,
)
from app.core.profiles.site import read_site
from tests.core.profile_rig import DROP, dump, put

Json = dict[str, Any]
REFERENCE = "registry.example/made@sha256:" + "4d" * 32
SELECTION: Json = {
    "schema": "sparkring-release-selection/v1",
    "id": "made-r1",
    "selection": "published-image",
    "image": REFERENCE,
    "inputs": [
        {"path": "runtime/profile-contract.json", "sha256": "01" * 32},
        {"path": "runtime/lock.json", "sha256": "02" * 32},
    ],
}
PUBLICATION: Json = {
    "schema": "sparkring-ghcr-publication/v1",
    "immutable_reference": REFERENCE,
    "manifest_digest": "sha256:" + "4d" * 32,
    "config_image_id": "sha256:" + "3c" * 32,
    "platform": "linux/arm64",
    "verified_at_utc": "2026-09-11T01:00:27.668404-05:00",
    "qualification": {
        "tp4-dcp4-sparkcache": {
            "status": "bounded-qualified",
            "record": "records/a.md",
            "sha256": "03" * 32,
            "activation_receipt_sha256": "04" * 32,
        }
    },
}
DEPLOYMENT: Json = {
    "schema": "sparkring-deployment/v1",
    "id": "made",
    "title": "Made",
    "recommendation": "retired",
    "status": "qualified",
    "configuration": {
        "format": "release-profile",
        "path": "runtime/profile-contract.json",
        "key": "tp4-dcp4",
    },
    "release": "runtime/releases/made-r1/release.json",
}
CATALOG: Json = {"schema": "sparkring-catalog/v1", "profiles": [{"id": "made", "path": "profiles/made.json"}]}
LOCK: Json = {
    "schema": "sparkring-r33-candidate-inputs/v1",
    "foundation": {},
    "media_runtime": {},
    "source_identities": {},
    "artifacts": [{"name": "a", "destination": "wheelhouse/a.whl", "sha256": "05" * 32}],
}
SITE: Json = {
    "schema": "sparkring-glm53-mtp3-mesh-site/v1",
    "topology_file": "fabric.json",
    "management_addresses": ["192.0.2.10", "192.0.2.11", "192.0.2.12", "192.0.2.13"],
    "model_roots": ["/srv/m"] * 4,
    "cache_roots": ["/srv/c"] * 4,
    "bundle_root": "/opt/bundle",
    "container_prefix": "made",
    "marker_binary": "/opt/marker",
    "marker_binary_sha256": "06" * 32,
    "state_root": "/run/made",
    "runtime_profile": "tp4-dcp4-sparkcache",
}
DIAGNOSTICS: Json = {"namespace": "look-only", "access_mode": "restore-only", "trace_reuse": 1}
ALL = [SELECTION, PUBLICATION, DEPLOYMENT, CATALOG, LOCK, SITE]


def refused(document: Json) -> ProfileDocumentError:
    with pytest.raises(ProfileDocumentError) as caught:
        read_any(dump(document))
    return caught.value


@pytest.mark.parametrize("document", ALL, ids=lambda one: one["schema"])
def test_a_document_in_form_is_read(document: Json) -> None:
    assert read_any(dump(document)).parsed is not None


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        (SELECTION, "/id"),
        (SELECTION, "/image"),
        (SELECTION, "/inputs"),
        (SELECTION, "/inputs/1/sha256"),
        (SELECTION, "/inputs/0/path"),
        (PUBLICATION, "/immutable_reference"),
        (PUBLICATION, "/config_image_id"),
        (PUBLICATION, "/qualification/tp4-dcp4-sparkcache/record"),
        (PUBLICATION, "/qualification/tp4-dcp4-sparkcache/sha256"),
        (DEPLOYMENT, "/status"),
        (DEPLOYMENT, "/recommendation"),
        (DEPLOYMENT, "/configuration/key"),
        (CATALOG, "/profiles"),
        (CATALOG, "/profiles/0/path"),
        (LOCK, "/artifacts"),
        (LOCK, "/artifacts/0/sha256"),
        (LOCK, "/foundation"),
        (SITE, "/bundle_root"),
        (SITE, "/management_addresses"),
        (SITE, "/marker_binary_sha256"),
        (SITE, "/state_root"),
    ],
)
@pytest.mark.parametrize("value", [DROP, 7, None])
def test_a_field_that_is_missing_or_of_another_type_is_named(
    document: Json, pointer: str, value: object
) -> None:
    error = refused(put(document, pointer, value))
    expected = "SITE_FIELDS" if document is SITE else "DOC_FIELD"
    assert (expected, pointer) in [(one.code, one.pointer) for one in error.findings]


@pytest.mark.parametrize("path", ["../up.json", "/abs.json", "a/../../up.json"])
def test_an_input_of_a_release_stays_inside(path: str) -> None:
    error = refused(put(SELECTION, "/inputs/0/path", path))
    assert (error.code, error.pointer) == ("DOC_PATH_UNSAFE", "/inputs/0/path")


def test_inputs_are_compared_with_the_digests_that_are_there() -> None:
    selection = read_release_selection(dump(SELECTION))
    results = {
        (one.result, one.detail) for one in pin_findings(selection, {"runtime/lock.json": Digest("03" * 32)})
    }
    assert results == {
        (CheckResult.NOT_TESTED, "not given: runtime/profile-contract.json"),
        (CheckResult.FAIL, "runtime/lock.json"),
    }
    good = pin_findings(selection, {one.path: one.sha256 for one in selection.inputs})
    assert {one.result for one in good} == {CheckResult.PASS}


def test_a_document_no_release_pins_is_a_warning() -> None:
    selection = read_release_selection(dump(SELECTION))
    pinned = unpinned_finding(Digest("01" * 32), name="contract", selections=(selection,))
    stray = unpinned_finding(Digest("09" * 32), name="contract", selections=(selection,))
    assert (pinned.result, stray.result) == (CheckResult.PASS, CheckResult.FAIL)
    assert not stray.blocks


@pytest.mark.parametrize(
    ("stated", "result"),
    [
        ("2026-09-11T01:00:27-05:00", CheckResult.FAIL),
        ("2026-09-11T01:00:27+02:00", CheckResult.FAIL),
        ("2026-09-11T06:00:27Z", CheckResult.PASS),
        ("2026-09-11T06:00:27+00:00", CheckResult.PASS),
    ],
)
def test_a_field_named_as_utc_holds_utc(stated: str, result: CheckResult) -> None:
    publication = read_publication(dump(put(PUBLICATION, "/verified_at_utc", stated)))
    (found,) = publication_findings(publication)
    assert (found.code, found.result, found.blocks) == ("DOC_TIMEZONE", result, False)


def test_times_are_normalised() -> None:
    publication = read_publication(dump(PUBLICATION))
    assert str(publication.verified_at) == "2026-09-11 06:00:27.668404+00:00"
    untimed = read_publication(dump(put(PUBLICATION, "/verified_at_utc", DROP)))
    assert publication_findings(untimed)[0].result is CheckResult.NOT_TESTED


@pytest.mark.parametrize("stated", ["yesterday", "2026-09-11", "0001-01-01T00:00:00+23:59"])
def test_what_is_no_time_is_named(stated: str) -> None:
    assert refused(put(PUBLICATION, "/verified_at_utc", stated)).pointer == "/verified_at_utc"


def test_a_catalog_names_every_deployment_once() -> None:
    twice = put(CATALOG, "/profiles", CATALOG["profiles"] * 2)
    assert refused(twice).pointer == "/profiles/1/id"
    assert read_catalog(dump(CATALOG)) == {"made": "profiles/made.json"}
    assert read_catalog_entry(dump(DEPLOYMENT)).profile == "tp4-dcp4"
    assert read_artifact_lock(dump(LOCK)).artifacts[0].path == "wheelhouse/a.whl"


@pytest.mark.parametrize(
    ("pointer", "value", "code"),
    [
        ("/extra", 1, "SITE_FIELDS"),
        ("/management_addresses", ["192.0.2.10"] * 4, "SITE_FIELDS"),
        ("/management_addresses", ["192.0.2.10", "192.0.2.11", "192.0.2.12"], "SITE_FIELDS"),
        ("/management_addresses/1", "300.1.1.1", "SITE_FIELDS"),
        ("/model_roots", ["/srv/m"] * 3, "SITE_FIELDS"),
        ("/container_prefix", "a b", "SITE_FIELDS"),
        ("/container_prefix", "a" * 97, "SITE_FIELDS"),
        ("/liveness_output_seconds", 0, "SITE_FIELDS"),
        ("/liveness_output_seconds", 2**31, "SITE_FIELDS"),
        ("/liveness_output_seconds", True, "SITE_FIELDS"),
        ("/nccl_debug", "TRACE", "SITE_FIELDS"),
        ("/bundle_root", "opt", "SITE_PATH_UNSAFE"),
        ("/bundle_root", "/", "SITE_PATH_UNSAFE"),
        ("/bundle_root", "/a/../b", "SITE_PATH_UNSAFE"),
        ("/bundle_root", "/a:b", "SITE_PATH_UNSAFE"),
        ("/bundle_root", "/a\nb", "SITE_PATH_UNSAFE"),
        ("/bundle_root", "/a\0b", "SITE_PATH_UNSAFE"),
        ("/bundle_root", "/srv/REPLACE_ME", "SITE_PATH_UNSAFE"),
        ("/cache_roots/2", "c", "SITE_PATH_UNSAFE"),
        ("/topology_file", "../fabric.json", "SITE_PATH_UNSAFE"),
        ("/api_keys_file", "keys", "SITE_PATH_UNSAFE"),
        ("/runtime_profile", "tp2-dcp1", "SITE_PROFILE_NOT_ALLOWED"),
        ("/cache_diagnostics", 1, "SITE_DIAG_SHAPE"),
        ("/cache_diagnostics", {**DIAGNOSTICS, "more": 1}, "SITE_DIAG_SHAPE"),
        ("/cache_diagnostics", {**DIAGNOSTICS, "access_mode": "read-write"}, "SITE_DIAG_SHAPE"),
        ("/cache_diagnostics", {**DIAGNOSTICS, "trace_reuse": True}, "SITE_DIAG_SHAPE"),
        ("/cache_diagnostics", {**DIAGNOSTICS, "trace_reuse": 1.0}, "SITE_DIAG_SHAPE"),
        ("/cache_diagnostics", {**DIAGNOSTICS, "namespace": "a b"}, "SITE_DIAG_SHAPE"),
        ("/cache_diagnostics", {**DIAGNOSTICS, "namespace": "a" * 129}, "SITE_DIAG_SHAPE"),
        ("/cache_diagnostics", {**DIAGNOSTICS, "namespace": "REPLACE"}, "SITE_DIAG_SHAPE"),
    ],
)
def test_a_site_that_is_not_permitted_is_named(pointer: str, value: object, code: str) -> None:
    error = refused(put(SITE, pointer, value))
    assert code in {one.code for one in error.findings}
    assert any(one.pointer.startswith(pointer) for one in error.findings)


@pytest.mark.parametrize(
    ("profile", "option", "value"),
    [
        ("tp4-dcp4", "cache_diagnostics", DIAGNOSTICS),
        (DROP, "cache_diagnostics", DIAGNOSTICS),
        (DROP, "nccl_debug", "INFO"),
        (DROP, "r33_profile_contract_roots", ["/srv/o"] * 4),
    ],
)
def test_options_are_for_some_profiles_only(profile: object, option: str, value: object) -> None:
    document = put(put(SITE, "/runtime_profile", profile), f"/{option}", value)
    error = refused(document)
    assert ("SITE_PROFILE_NOT_ALLOWED", f"/{option}") in [(one.code, one.pointer) for one in error.findings]


def test_a_diagnostic_namespace_is_not_the_derived_one() -> None:
    document = dump(put(SITE, "/cache_diagnostics", DIAGNOSTICS))
    assert read_site(document).diagnostic_namespace == "look-only"
    with pytest.raises(ProfileDocumentError) as caught:
        read_site(document, derived_namespace="look-only")
    assert (caught.value.code, caught.value.pointer) == ("NS_DIAG_ISOLATED", "/cache_diagnostics/namespace")


def test_a_lock_over_its_limit_is_too_large() -> None:
    document = dict(LOCK, artifacts=[0] * 200_001)
    assert refused(document).code in {"DOC_TOO_LARGE", "DOC_FIELD"}


SCALARS = st.sampled_from([None, True, 0, -1, 1.5, "", "x", "/", [], [1], {}, {"a": 1}, ["a"] * 5])


@given(document=st.sampled_from(ALL), values=st.lists(SCALARS, min_size=1, max_size=3), data=st.data())
def test_any_changed_document_is_read_or_refused(
    document: Json, values: list[Any], data: st.DataObject
) -> None:
    changed = json.loads(json.dumps(document))
    for value in values:
        name = data.draw(st.sampled_from([one for one in document if one != "schema"]))
        changed[name] = value
    codes = ["read"]
    try:
        read_any(dump(changed))
    except ProfileDocumentError as error:
        codes = [one.code for one in error.findings]
    assert codes
    assert read_profile_document(dump(changed)).schema == document["schema"]
