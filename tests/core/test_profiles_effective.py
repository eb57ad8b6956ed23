"""Inheritance of one level, provenance, and the resolved template against its contract entry."""

from typing import Any

import pytest

from app.core.profiles import folder
from app.core.profiles.documents import ProfileDocumentError
from app.core.profiles.effective import EffectiveProfile, Source, effective_object, effective_profile
from app.core.profiles.entry_checks import PinnedDigests, entry_findings, value_findings
from app.core.profiles.findings import CheckResult, ProfileFinding, blocking
from app.core.profiles.folder import (
    LoadedTemplates,
    Receipt,
    check_contract,
    load_templates,
    superseded_finding,
)
from app.core.profiles.references import Reference
from app.core.profiles.template import Template
from tests.core import profile_folder as made
from tests.core import profile_rig as rig

Json = dict[str, Any]
PROFILES = list(made.template_values())
NAME = "tp4-dcp4-sparkcache"


def failed(findings: tuple[ProfileFinding, ...]) -> list[tuple[str, str]]:
    return [(one.code, one.pointer) for one in blocking(findings)]


def resolve(document: Json, *, templates: dict[str, Template] | None = None) -> EffectiveProfile:
    return effective_profile(made.contract(document), NAME, templates=templates or made.templates())


def look_up(reference: Reference) -> bytes | None:
    values = made.template_values()
    files = {f"profiles/{name}.env.example": made.env_text(pairs) for name, pairs in values.items()}
    files |= {
        "image/artifact-lock.json": rig.ARTIFACT_LOCK,
        "mesh/pins.json": rig.PINS,
        "tp2/manifest.json": rig.PINS,
    }
    return files.get(reference.path)


def test_the_own_template_is_laid_over_one_parent() -> None:
    effective = resolve(made.contract_document())
    held = {one.key: one for one in effective.values}
    own, parents = held["SOURCE_IMAGE_PROFILE"], held["DECODE_CONTEXT_PARALLEL_SIZE"]
    assert (own.value, own.source, own.replaced) == (NAME, Source.OWN_TEMPLATE, "tp4-dcp4")
    assert (parents.value, parents.source) == ("4", Source.PARENT_TEMPLATE)
    assert parents.origin == "tp4-dcp4.env.example:4"
    assert len(effective.values) == len({*made.template_values()["tp4-dcp4"], *made.template_values()[NAME]})


def test_the_grandparent_gives_nothing() -> None:
    values = made.template_values()["tp4-dcp4"]
    del values["SIRCL_ENABLED"]
    effective = resolve(made.contract_document(), templates=made.templates({"tp4-dcp4": values}))
    assert "SIRCL_ENABLED" not in effective.template_values
    assert failed(effective.findings) == [("TPL_INHERIT_DEPTH", f"/profiles/{NAME}/inherits")]
    assert "SIRCL_ENABLED (tp4-dcp1.env.example)" in effective.findings[1].found


def test_common_values_come_from_the_contract() -> None:
    effective = resolve(made.contract_document())
    offline = next(one for one in effective.common if one.key == "HF_HUB_OFFLINE")
    assert (offline.source, offline.origin) == (Source.CONTRACT, "/common_environment/HF_HUB_OFFLINE")
    assert effective.environment["HF_HUB_OFFLINE"] == "1"


def test_a_profile_with_its_own_loader_replaces_two_common_values() -> None:
    effective = made.resolved("tp2-dcp1-sparkcache")
    common = {one.key: (one.value, one.replaced) for one in effective.common}
    assert common["LOAD_FORMAT"] == ("b12x", "instanttensor")
    assert common["VLLM_PLUGINS"] == ("b12x_loader", "")


def test_an_unknown_profile_is_refused_with_those_there_are() -> None:
    with pytest.raises(ProfileDocumentError) as caught:
        effective_profile(made.contract(), "tp8-dcp8", templates=made.templates())
    assert (caught.value.code, caught.value.pointer) == ("CT_PROFILE_UNKNOWN", "/profiles/tp8-dcp8")
    assert "tp4-dcp4-sparkcache" in caught.value.expected


def test_an_unknown_parent_is_named() -> None:
    document = rig.put(made.contract_document(), f"/profiles/{NAME}/inherits", "nobody")
    findings = resolve(document).findings
    assert failed(findings) == [("CT_PARENT_UNKNOWN", f"/profiles/{NAME}/inherits")]
    assert blocking(findings)[0].found == "nobody"


@pytest.mark.parametrize("parent", [NAME, "tp4-dcp4"])
def test_a_loop_of_inheritance_ends_in_its_code(parent: str) -> None:
    document = rig.put(made.contract_document(), "/profiles/tp4-dcp1/inherits", parent)
    if parent == NAME:
        document = rig.put(document, f"/profiles/{NAME}/inherits", NAME)
    findings = resolve(document).findings
    assert "CT_INHERIT_CYCLE" in {code for code, _ in failed(findings)}


def test_a_long_chain_of_parents_is_walked_once() -> None:
    document = made.contract_document()
    for number in range(240):
        document["profiles"][f"p{number}"] = rig.entry(inherits=f"p{number + 1}", template="p.env.example")
    document["profiles"]["p240"] = rig.entry(inherits="p0", template="p.env.example")
    findings = effective_profile(made.contract(document), "p0", templates={}).findings
    assert findings[0].code == "CT_INHERIT_CYCLE"
    assert len(findings[0].found) < 300


def test_a_missing_template_is_named_and_nothing_is_passed() -> None:
    templates = made.templates()
    del templates["tp4-dcp4.env.example"]
    effective = resolve(made.contract_document(), templates=templates)
    assert effective.missing == ("tp4-dcp4.env.example",)
    results = {one.result for one in value_findings(effective, made.contract())}
    assert results == {CheckResult.NOT_TESTED}


@pytest.mark.parametrize("profile", PROFILES)
def test_every_template_agrees_with_its_entry(profile: str) -> None:
    findings = entry_findings(made.resolved(profile), made.contract(), pinned=PinnedDigests(look_up))
    assert not failed(findings)
    assert {one.result for one in findings} == {CheckResult.PASS}


RING = {
    *("SOURCE_IMAGE_PROFILE", "TENSOR_PARALLEL_SIZE", "DECODE_CONTEXT_PARALLEL_SIZE", "NODE_COUNT"),
    *("MAX_MODEL_LEN", "KV_CACHE_MEMORY_BYTES", "NUM_SPECULATIVE_TOKENS", "LOAD_FORMAT"),
    *("CUDAGRAPH_CAPTURE_SIZES", "VLLM_B12X_KDA_PREFILL_COALESCING", "SPARKCACHE_ENABLED"),
    *("VLLM_B12X_KDA_PREFILL_COALESCING_LOG_LIMIT", "VLLM_GLM53_MHC_PREFILL_SHARD", "SIRCL_ENABLED"),
    *("VLLM_SPARK_TP4_MODE", "VLLM_SPARK_TP4_VOCAB_MODE", "NCCL_SWITCHLESS_RING_ONLY"),
    "VLLM_GLM53_MHC_PREFILL_DIAGNOSTICS",
}
PAIR = {
    *("NCCL_IB_HCA", "B12X_ROCE_PAIR_PATHS", "PYTHONPATH", "VLLM_PLUGINS", "MAX_NUM_SEQS"),
    *("MAX_NUM_BATCHED_TOKENS", "PREFILL_SCHEDULE_INTERVAL", "MAX_IMAGES_PER_PROMPT", "LOAD_FORMAT"),
    *("MAX_VIDEOS_PER_PROMPT", "VLLM_B12X_KDA_PREFILL_COALESCING"),
}


@pytest.mark.parametrize(
    ("profile", "key"),
    [("tp4-dcp1", key) for key in sorted(RING)] + [("tp2-dcp1-sparkcache", key) for key in sorted(PAIR)],
)
@pytest.mark.parametrize("change", ["changed", "missing"])
def test_every_key_of_the_entry_is_compared(profile: str, key: str, change: str) -> None:
    values = made.template_values()[profile]
    expected = values.pop(key)
    if change == "changed":
        values[key] = f"{expected}0"
    templates = made.templates({profile: values})
    effective = effective_profile(made.contract(), profile, templates=templates)
    findings = value_findings(effective, made.contract())
    assert failed(findings) == [("TPL_VALUE", f"/{key}")]
    told = blocking(findings)[0]
    assert told.found == ("nothing" if change == "missing" else f"{expected}0")
    assert profile in told.detail


@pytest.mark.parametrize(
    ("profile", "path", "code"),
    [
        ("tp4-dcp4", "image/artifact-lock.json", "CT_LOCK_HASH"),
        ("tp4-dcp4", "mesh/pins.json", "CT_PINS_HASH"),
        ("tp2-dcp1", "tp2/manifest.json", "CT_PINS_HASH"),
    ],
)
def test_a_pinned_file_is_hashed_again(profile: str, path: str, code: str) -> None:
    def bent(reference: Reference) -> bytes | None:
        return b"other" if reference.path == path else look_up(reference)

    def absent_file(reference: Reference) -> bytes | None:
        return None if reference.path == path else look_up(reference)

    resolved, contract = made.resolved(profile), made.contract()
    findings = entry_findings(resolved, contract, pinned=PinnedDigests(bent))
    assert [one.code for one in blocking(findings)] == [code]
    absent = entry_findings(resolved, contract, pinned=PinnedDigests(absent_file))
    untested = [one for one in absent if one.result is CheckResult.NOT_TESTED]
    assert [(one.code, one.detail) for one in untested] == [(code, f"not given: {path}")]


def test_a_whole_folder_passes_and_says_what_it_did_not_see() -> None:
    contract = made.contract()
    templates = load_templates(contract, lookup=look_up)
    findings = check_contract(
        contract, lookup=look_up, templates=templates, receipt=Receipt(value=made.receipt())
    )
    assert not failed(findings)
    assert not [one for one in findings if one.result is CheckResult.NOT_TESTED]
    without = check_contract(contract, lookup=lambda _: None, templates=LoadedTemplates())
    assert {one.result for one in without} <= {CheckResult.NOT_TESTED, CheckResult.PASS}
    assert "not given: image receipt" in {one.detail for one in without}


@pytest.mark.parametrize(
    ("path", "code"), [("placement.so", "GUARD_NATIVE"), ("snapshot.so", "GUARD_NATIVE")]
)
def test_a_receipt_without_the_contracts_libraries_is_told(path: str, code: str) -> None:
    contract, receipt = made.contract(), made.receipt()
    receipt["verification"]["checked_files"][f"/opt/sparkring/lib/{path}"] = "ff" * 32
    templates = load_templates(contract, lookup=look_up)
    findings = check_contract(contract, lookup=look_up, templates=templates, receipt=Receipt(value=receipt))
    assert [one.code for one in blocking(findings)] == [code]
    assert path in blocking(findings)[0].detail


def test_a_later_contract_for_the_same_image_is_a_warning() -> None:
    first = made.contract()
    later = made.contract(rig.put(made.contract_document(), "/profiles/tp4-dcp4/lifecycle", "other.md"))
    lock = rig.put(made.contract_document(), "/image/artifact_lock_sha256", "99" * 32)
    found = superseded_finding(first, [later, made.contract(lock)])
    assert (found.result, found.found, found.blocks) == (CheckResult.FAIL, later.sha256, False)
    assert superseded_finding(later, [later]).result is CheckResult.PASS


def test_a_file_that_many_profiles_name_is_read_once() -> None:
    asked: list[str] = []

    def counting(reference: Reference) -> bytes | None:
        asked.append(reference.path)
        return look_up(reference)

    contract = made.contract()
    check_contract(contract, lookup=counting, templates=load_templates(contract, lookup=look_up))
    assert sorted(asked) == ["image/artifact-lock.json", "mesh/pins.json", "tp2/manifest.json"]


def test_templates_that_are_too_much_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    contract = made.contract()
    size = len(made.env_text(made.template_values()["tp2-dcp1"]))
    monkeypatch.setattr(folder, "MOST_TEMPLATE_BYTES", size)
    loaded = load_templates(contract, lookup=look_up)
    assert list(loaded.by_name) == ["tp2-dcp1.env.example"]
    assert {one.code for one in loaded.findings} == {"DOC_TOO_LARGE"}


def test_a_broken_template_is_a_finding_of_the_folder() -> None:
    contract = made.contract()

    def bent(reference: Reference) -> bytes | None:
        return b"A=1\nA=2\n" if reference.path.endswith("tp4-dcp1.env.example") else look_up(reference)

    templates = load_templates(contract, lookup=bent)
    findings = check_contract(contract, lookup=bent, templates=templates, only="tp4-dcp1")
    assert ("TPL_DUP_KEY", "/A") in failed(findings)
    assert "CT_LOCK_HASH" in {one.code for one in findings}


def test_the_document_of_a_profile_masks_secrets_and_keeps_provenance() -> None:
    values = made.template_values()["tp4-dcp4"] | {"SERVER_API_KEY": "hush"}
    effective = effective_profile(made.contract(), NAME, templates=made.templates({"tp4-dcp4": values}))
    told = str(effective_object(effective))
    assert "hush" not in told
    assert "parent_template" in told
