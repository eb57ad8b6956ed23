"""The contract's fields: each of them dropped, of another type, or out of its values, is named."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.profiles.contract import ancestors, read_contract
from app.core.profiles.documents import ProfileDocumentError
from tests.core import profile_folder as made
from tests.core import profile_rig as rig
from tests.core.profile_rig import DROP

Json = dict[str, Any]
ENTRY = "/profiles/tp4-dcp4"
PAIR = "/profiles/tp2-dcp1"


def leaves(value: Any, at: str = "") -> list[str]:
    """Pointers of every member of every object."""
    if not isinstance(value, dict):
        return []
    found = []
    for name, member in value.items():
        here = f"{at}/{name}"
        found.append(here)
        found.extend(leaves(member, here))
    return found


# What may be absent: counted here so that a new field is thought about.
OPTIONAL = {"inherits", "load_format", "plugins", "continuation_coalescing", "serving"}
REQUIRED = [
    pointer
    for pointer in leaves(made.contract_document())
    if pointer.rpartition("/")[2] not in OPTIONAL
    and not pointer.startswith(("/common_environment/", "/image/required_sources/"))
    and pointer not in [f"/profiles/{name}" for name in made.contract_document()["profiles"]]
]


def refused(document: Json) -> ProfileDocumentError:
    with pytest.raises(ProfileDocumentError) as caught:
        read_contract(rig.dump(document))
    return caught.value


@pytest.mark.parametrize("pointer", REQUIRED)
def test_a_missing_field_is_named(pointer: str) -> None:
    error = refused(rig.put(made.contract_document(), pointer, DROP))
    if pointer == "/schema":
        assert error.code == "DOC_SCHEMA_UNKNOWN"
    else:
        assert ("CT_FIELD_MISSING", pointer) in [(one.code, one.pointer) for one in error.findings]


@pytest.mark.parametrize("pointer", [one for one in REQUIRED if one != "/schema"])
def test_a_field_of_another_type_is_named(pointer: str) -> None:
    error = refused(rig.put(made.contract_document(), pointer, 1.5))
    assert ("CT_FIELD_VALUE", pointer) in [(one.code, one.pointer) for one in error.findings]


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/status", "qualified"),
        (f"{ENTRY}/node_count", 2),
        (f"{ENTRY}/tensor_parallel_size", 8),
        (f"{ENTRY}/tensor_parallel_size", True),
        (f"{ENTRY}/decode_context_parallel_size", 3),
        (f"{ENTRY}/decode_context_parallel_size", "4"),
        (f"{ENTRY}/sparkcache", 1),
        (f"{ENTRY}/host_domains", "single"),
        (f"{ENTRY}/transport", "tp2-rocenante-adaptive"),
        (f"{ENTRY}/mesh_pins_sha256", "AB" * 32),
        (f"{ENTRY}/template", "../up.env"),
        (f"{ENTRY}/template", ".env"),
        (f"{PAIR}/physical_dacs_per_rank", 2),
        (f"{PAIR}/physical_dacs_per_rank", True),
        (f"{ENTRY}/kv_cache_memory_bytes", 0),
        (f"{ENTRY}/cudagraph_capture_sizes", []),
        (f"{ENTRY}/inherits", 7),
        ("/image/selection", "by-name"),
        ("/image/artifact_lock_sha256", "0" * 63),
        ("/image/required_platform", "linux"),
        ("/image/required_receipts", ["a", 1]),
        ("/model/revision", "main"),
        ("/model/max_model_len", -1),
        ("/model/loader/backend_selection", "manual"),
        ("/model/loader/instanttensor_commit", "main"),
        ("/model/loader/required_environment", {"KEY": "1"}),
        ("/model/speculation/method", ""),
        ("/image/required_sources/vllm_head", 5),
        ("/image/required_sources/vllm_status_lines", True),
        ("/sparkcache_native/placement_path", "lib/placement.so"),
        ("/common_environment", {"lower": "1"}),
        ("/common_environment", {"KEY": 1}),
        ("/common_environment", {"KEY": "a\nEVIL=1"}),
        ("/profiles", {}),
        ("/profiles", {"bad name": rig.entry()}),
    ],
)
def test_a_value_that_is_not_permitted_is_named(pointer: str, value: object) -> None:
    error = refused(rig.put(made.contract_document(), pointer, value))
    assert "CT_FIELD_VALUE" in {one.code for one in error.findings}
    assert any(one.pointer.startswith(pointer) for one in error.findings)


@pytest.mark.parametrize(
    ("pointer", "path"),
    [
        (f"{ENTRY}/template", "../../up.env"),
        (f"{ENTRY}/template", "/etc/hostname"),
        (f"{PAIR}-sparkcache/capability_file", "../../../up.json"),
        (f"{ENTRY}/mesh_pins", "../pins.json"),
        ("/image/artifact_lock", "../../lock.json"),
    ],
)
def test_a_file_outside_is_no_path_at_all(pointer: str, path: str) -> None:
    error = refused(rig.put(made.contract_document(), pointer, path))
    assert [(one.code, one.pointer) for one in error.findings] == [("DOC_PATH_UNSAFE", pointer)]


@pytest.mark.parametrize(
    ("pointer", "value", "found"),
    [
        (f"{PAIR}-sparkcache/serving", "x", [("CT_FIELD_VALUE", f"{PAIR}-sparkcache/serving")]),
        ("/model", DROP, [("CT_FIELD_MISSING", "/model")]),
        (ENTRY, "x", [("CT_FIELD_VALUE", ENTRY)]),
        (f"{ENTRY}/tensor_parallel_size", DROP, [("CT_FIELD_MISSING", f"{ENTRY}/tensor_parallel_size")]),
        (f"{PAIR}/tensor_parallel_size", DROP, [("CT_FIELD_MISSING", f"{PAIR}/tensor_parallel_size")]),
    ],
)
def test_an_offence_is_told_once_and_not_again_of_what_hangs_on_it(
    pointer: str, value: object, found: list[tuple[str, str]]
) -> None:
    error = refused(rig.put(made.contract_document(), pointer, value))
    assert [(one.code, one.pointer) for one in error.findings] == found


def test_a_source_that_is_no_identity_is_named() -> None:
    error = refused(rig.put(made.contract_document(), "/image/required_sources/vllm_head", "main"))
    assert (error.code, error.pointer) == ("CT_FIELD_VALUE", "/image/required_sources/vllm_head")


def test_too_many_profiles_are_too_large() -> None:
    profiles = {f"p{number}": rig.entry() for number in range(257)}
    assert refused(rig.put(made.contract_document(), "/profiles", profiles)).code == "DOC_TOO_LARGE"


@pytest.mark.parametrize(
    ("pointer", "count", "value"),
    [("/image/required_sources", 1001, "ab" * 20), ("/common_environment", 2001, "1")],
)
def test_too_many_members_are_too_large(pointer: str, count: int, value: str) -> None:
    members = {f"K{number}": value for number in range(count)}
    error = refused(rig.put(made.contract_document(), pointer, members))
    assert ("DOC_TOO_LARGE", pointer) in [(one.code, one.pointer) for one in error.findings]


def test_a_contract_of_nothing_but_offences_is_cut_at_a_hundred() -> None:
    profiles = {f"p{number}": {} for number in range(200)}
    assert len(refused(rig.put(made.contract_document(), "/profiles", profiles)).findings) == 100


def test_fields_of_an_entry_are_never_taken_from_its_parent() -> None:
    document = rig.put(made.contract_document(), "/profiles/tp4-dcp4-sparkcache/kv_cache_memory_bytes", 5)
    contract = made.contract(document)
    assert contract.profiles["tp4-dcp4-sparkcache"].kv_cache_memory_bytes == 5
    assert contract.profiles["tp4-dcp4"].kv_cache_memory_bytes == 25_769_803_776


def test_parents_are_followed_to_the_first_one_again() -> None:
    document = rig.put(made.contract_document(), "/profiles/tp4-dcp1/inherits", "tp4-dcp4-sparkcache")
    assert ancestors(made.contract(document), "tp4-dcp4-sparkcache") == ("tp4-dcp4", "tp4-dcp1")


VALUES = st.sampled_from([None, True, 0, -1, 10**30, 1.5, "", "x", [], [1], {}, {"a": 1}, DROP])


@given(
    changes=st.lists(
        st.tuples(st.sampled_from(leaves(made.contract_document())), VALUES),
        min_size=1,
        max_size=4,
    )
)
def test_any_changed_contract_is_read_or_refused(changes: list[tuple[str, Any]]) -> None:
    document = made.contract_document()
    for pointer, value in changes:
        try:
            document = rig.put(document, pointer, value)
        except (KeyError, TypeError, IndexError, ValueError):
            continue
    pointers = ["/"]
    try:
        read_contract(rig.dump(document))
    except ProfileDocumentError as error:
        pointers = [one.pointer or "/" for one in error.findings]
    assert pointers
    assert all(pointer.startswith("/") for pointer in pointers)


def test_numbers_keep_their_type() -> None:
    raw = rig.dump(made.contract_document()).replace(b"1048576", b"1048576.0")
    with pytest.raises(ProfileDocumentError) as caught:
        read_contract(raw)
    assert caught.value.pointer == "/model/max_model_len"
    assert str(Decimal("1048576.0")) in caught.value.found
