"""Documents of known kinds: limits, strictness, schema, and references that stay inside."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.profiles.contract import read_contract, references
from app.core.profiles.documents import (
    MAX_DOCUMENT_BYTES,
    SCHEMAS,
    DocumentKind,
    ProfileDocumentError,
    check_size,
    read_profile_document,
)
from app.core.profiles.kinds import read_any
from app.core.profiles.references import Base, resolve
from tests.core import profile_folder as made
from tests.core import profile_rig as rig

SELECTION = b'{"schema": "sparkring-release-selection/v1"'


def refused(raw: bytes, **arguments: Any) -> ProfileDocumentError:
    with pytest.raises(ProfileDocumentError) as caught:
        read_profile_document(raw, **arguments)
    return caught.value


@pytest.mark.parametrize(
    ("raw", "pointer"),
    [
        (b"", ""),
        (b"\xff\xfe", ""),
        (b"\xef\xbb\xbf{}", ""),
        (SELECTION + b', "id": "a", "id": "b"}', "/id"),
        (SELECTION + b', "id": NaN}', "/id"),
        (SELECTION + b', "id": [1e999]}', "/id/0"),
        (SELECTION + b', "id": "\\ud800"}', "/id"),
        (SELECTION + b', "id": ' + b"1" * 5000 + b"}", "/id"),
        (SELECTION + b"} x", ""),
    ],
)
def test_what_is_no_strict_json_is_refused_with_its_place(raw: bytes, pointer: str) -> None:
    error = refused(raw)
    assert (error.code, error.pointer) == ("DOC_JSON_INVALID", pointer)


def test_merge_markers_are_told_as_such() -> None:
    raw = b'{"schema": "x",\n<<<<<<< HEAD\n"a": 1\n=======\n"a": 2\n>>>>>>> other\n}'
    error = refused(raw)
    assert (error.code, error.found) == ("DOC_JSON_INVALID", "an unresolved merge marker in line 2")


@pytest.mark.parametrize(
    "raw",
    [
        b" " * (MAX_DOCUMENT_BYTES + 1),
        b"[" * 65 + b"]" * 65,
        b"[" + b"0," * 260_000 + b"0]",
    ],
    ids=["bytes", "depth", "values"],
)
def test_what_is_too_large_is_refused_as_that(raw: bytes) -> None:
    assert refused(raw).code == "DOC_TOO_LARGE"


def test_depth_64_is_still_read() -> None:
    raw = SELECTION + b', "x": ' + b"[" * 63 + b"]" * 63 + b"}"
    assert read_profile_document(raw).kind is DocumentKind.RELEASE_SELECTION


@pytest.mark.parametrize("raw", [b"[]", b"1", b"null", b"{}", b'{"schema": 1}', b'{"schema": "other/v1"}'])
def test_an_unknown_schema_is_refused(raw: bytes) -> None:
    assert refused(raw).code == "DOC_SCHEMA_UNKNOWN"


def test_another_kind_than_the_asked_one_is_refused() -> None:
    error = refused(SELECTION + b"}", kind=DocumentKind.CONTRACT)
    assert (error.code, error.pointer) == ("DOC_SCHEMA_UNKNOWN", "/schema")
    assert "sparkring-r33-profile-contract/v1" in error.expected


def test_a_publication_is_no_image_receipt() -> None:
    raw = b'{"schema": "sparkring-ghcr-publication/v1"}'
    assert refused(raw, kind=DocumentKind.IMAGE_RECEIPT).code == "IMG_PUBLICATION_AS_RECEIPT"


def test_a_size_is_refused_before_anything_is_read() -> None:
    with pytest.raises(ProfileDocumentError) as caught:
        check_size(100_000_000, subject="huge.json")
    assert (caught.value.code, caught.value.found) == ("DOC_TOO_LARGE", "100000000 bytes")


def _peak(raw: bytes) -> tuple[str, int]:
    """Code of the refusal and the most memory it took beside the bytes."""
    tracemalloc.start()
    code = refused(raw).code
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return code, peak


def test_a_document_of_100_megabytes_costs_nothing() -> None:
    code, peak = _peak(b"\0" * 100_000_000)
    assert code == "DOC_TOO_LARGE"
    assert peak < 1_000_000


def test_a_lock_of_ten_million_entries_is_refused_in_little_memory() -> None:
    head = b'{"schema": "sparkring-r33-candidate-source-lock/v1", "installed_files": {'
    code, peak = _peak(head + b'"a":0,' * 10_000_000 + b'"a":0}}')
    assert code == "DOC_TOO_LARGE"
    assert peak < 1_000_000


def test_a_lock_within_the_bytes_and_over_the_entries_is_refused_before_decoding() -> None:
    head = b'{"schema": "sparkring-r33-candidate-source-lock/v1", "installed_files": {'
    raw = head + b'"a":0,' * 1_200_000 + b'"a":0}}'
    assert len(raw) < MAX_DOCUMENT_BYTES
    code, peak = _peak(raw)
    assert code == "DOC_TOO_LARGE"
    assert peak < 2 * len(raw)


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("a.json", "profiles/a.json"),
        ("../image/a.json", "image/a.json"),
        ("./x/../a.json", "profiles/a.json"),
        ("x/y", "profiles/x/y"),
    ],
)
def test_a_reference_is_resolved_below_the_parent_of_its_folder(written: str, path: str) -> None:
    assert resolve(written, base=Base.CONTRACT, folder="profiles") == path


@pytest.mark.parametrize(
    "written",
    [
        *("", "/etc/passwd", "..", "../..", "../../a", "../x/../../a", "a//b", "a/", "a\0b", "a\\b", "."),
        *("./..", "x" * 2000),
    ],
)
def test_a_reference_that_leads_out_is_refused(written: str) -> None:
    with pytest.raises(ProfileDocumentError) as caught:
        resolve(written, base=Base.CONTRACT, folder="profiles", pointer="/image/artifact_lock")
    assert (caught.value.code, caught.value.pointer) == ("DOC_PATH_UNSAFE", "/image/artifact_lock")


@given(st.text(alphabet="./ab\0\\", max_size=40))
def test_no_text_resolves_to_a_path_that_leads_out(written: str) -> None:
    try:
        path = resolve(written, base=Base.CONTRACT, folder="profiles")
    except ProfileDocumentError:
        return
    parts = path.split("/")
    assert not {"", ".", ".."} & set(parts)


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/image/artifact_lock", "../../../etc/passwd"),
        ("/image/artifact_lock", "/etc/passwd"),
        ("/profiles/tp4-dcp4/mesh_pins", "../outside.json"),
        ("/profiles/tp2-dcp1/transport_manifest", "/manifest.json"),
    ],
)
def test_a_contract_whose_reference_leads_out_is_refused(pointer: str, value: str) -> None:
    document = rig.put(made.contract_document(), pointer, value)
    with pytest.raises(ProfileDocumentError) as caught:
        read_contract(rig.dump(document))
    assert (caught.value.code, caught.value.pointer) == ("DOC_PATH_UNSAFE", pointer)


def test_references_of_a_profile_are_lock_template_and_pins() -> None:
    named = references(made.contract(), "tp4-dcp4-sparkcache")
    assert [(one.base, one.path, one.sha256) for one in named] == [
        (Base.CONTRACT, "image/artifact-lock.json", rig.sha(rig.ARTIFACT_LOCK)),
        (Base.CONTRACT, "profiles/tp4-dcp4-sparkcache.env.example", None),
        (Base.ASSETS, "mesh/pins.json", rig.sha(rig.PINS)),
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(raw=st.binary(max_size=300), name=st.sampled_from(["a.json", "b.env", "c.env.example"]))
def test_any_bytes_are_a_document_or_a_refusal(raw: bytes, name: str) -> None:
    codes = ["read"]
    try:
        read_any(raw, subject=name)
    except ProfileDocumentError as error:
        codes = [one.code for one in error.findings]
    assert codes


@given(kind=st.sampled_from(list(SCHEMAS)), body=JSON)
def test_any_json_below_a_schema_is_a_document_or_a_refusal(kind: str, body: Any) -> None:
    members = body if isinstance(body, dict) else {"body": body}
    pointer = ""
    try:
        read_any(json.dumps({**members, "schema": kind}).encode())
    except ProfileDocumentError as error:
        pointer = error.pointer
    assert pointer == "" or pointer.startswith("/")
