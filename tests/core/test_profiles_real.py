"""The published documents, read where they lie: contracts, templates and the positive facts of
profile-contract §16.
"""

from pathlib import Path
from typing import Any

import pytest

from app.cli.profile_files import folder_lookup, load_contract, load_receipt
from app.core.digest import sha256
from app.core.profiles.budget import buffer_plan, buffer_plan_object
from app.core.profiles.contract import Contract, read_contract
from app.core.profiles.diff import Change, diff_contracts
from app.core.profiles.documents import DocumentKind, read_profile_document
from app.core.profiles.effective import effective_profile
from app.core.profiles.findings import CheckResult, blocking
from app.core.profiles.folder import check_contract
from app.core.profiles.guards import RankCase, rank_findings
from app.core.profiles.kinds import read_any
from app.core.profiles.matrix import Around, Recommendation, Status, matrix_rows
from app.core.profiles.namespace import derive_namespace
from app.core.profiles.observed import observe
from app.core.profiles.plan import RankOrder, environment_text, rank_plan
from app.core.profiles.release import (
    pin_findings,
    publication_findings,
    read_catalog,
    read_catalog_entry,
    read_publication,
    read_release_selection,
)
from app.core.profiles.site import read_site
from app.core.profiles.template import Template, is_placeholder, read_template_set
from tests.core.profile_folder import env_text

OWN = "sparkring/runtime/sparkring/jovian-r33"
BAKED = f"sparkring/_versions/baked-image020/{OWN.partition('/')[2]}/profiles/profile-contract.json"
RELEASED = f"sparkring/_versions/release-dcp4/{OWN.partition('/')[2]}/publication.json"
SIZES = {
    "tp2-dcp1": 33,
    "tp2-dcp1-sparkcache": 55,
    "tp4-dcp1": 29,
    "tp4-dcp1-sparkcache": 45,
    "tp4-dcp4": 29,
    "tp4-dcp4-sparkcache": 45,
}
PROFILES = list(SIZES)


@pytest.fixture(scope="module")
def published(shared_dir: Path) -> Path:
    folder = shared_dir / "profiles"
    if not folder.is_dir():
        pytest.skip(f"reference data: expected the folder {folder}, found none")
    return folder


@pytest.fixture(scope="module")
def contract(published: Path) -> Contract:
    return read_contract((published / OWN / "profiles/profile-contract.json").read_bytes())


@pytest.fixture(scope="module")
def baked(published: Path) -> Contract:
    return read_contract((published / BAKED).read_bytes())


@pytest.fixture(scope="module")
def templates(published: Path) -> dict[str, Template]:
    raw = (published / "derived/env-templates.json").read_bytes()
    return read_template_set(read_profile_document(raw, kind=DocumentKind.TEMPLATE_SET))


@pytest.fixture(scope="module")
def receipt(published: Path) -> Any:
    return read_any((published / OWN / "public-image-receipt.json").read_bytes()).value


def test_both_contracts_are_read(contract: Contract, baked: Contract) -> None:
    assert contract.sha256 == "20a4168a73ce7c9361a9875a21380c8e283d396e7b9025fbc5301bacbb6c9d8e"
    assert (contract.byte_count, baked.byte_count) == (13_632, 12_031)
    assert baked.sha256.startswith("35ff9f0b")
    assert (len(contract.profiles), len(baked.profiles)) == (6, 4)
    assert (len(contract.image.required_sources), len(contract.image.required_receipts)) == (57, 40)
    assert contract.image.required_sources["vllm_status_lines"] == 35
    assert len(contract.common_environment) == 12


def test_the_overlay_contract_is_the_baked_one_and_two_profiles(contract: Contract, baked: Contract) -> None:
    lines = diff_contracts(baked, contract).lines
    assert {one.change for one in lines} == {Change.ADDED}
    assert {one.pointer.split("/")[2] for one in lines} == {"tp4-dcp4", "tp4-dcp4-sparkcache"}


@pytest.mark.parametrize("profile", PROFILES)
def test_resolved_sizes(contract: Contract, templates: dict[str, Template], profile: str) -> None:
    effective = effective_profile(contract, profile, templates=templates)
    assert len(effective.template_values) == SIZES[profile]
    assert not blocking(effective.findings)


def test_the_two_ring_templates_differ_in_two_values(templates: dict[str, Template]) -> None:
    one, four = templates["tp4-dcp1.env.example"].pairs, templates["tp4-dcp4.env.example"].pairs
    assert one.keys() == four.keys()
    assert {key for key in one if one[key] != four[key]} == {
        "SOURCE_IMAGE_PROFILE",
        "DECODE_CONTEXT_PARALLEL_SIZE",
    }


def test_common_values_agree_with_every_template(contract: Contract, templates: dict[str, Template]) -> None:
    for profile in PROFILES:
        effective = effective_profile(contract, profile, templates=templates)
        common = {one.key: one.value for one in effective.common}
        held = effective.template_values
        assert {key: held[key] for key in common if key in held} == {
            key: value for key, value in common.items() if key in held
        }


def test_a_whole_release_passes_and_every_file_was_seen(published: Path) -> None:
    file = published / OWN / "profiles/profile-contract.json"
    loaded = load_contract(
        file,
        assets=published / "sparkring/runtime",
        template_set=published / "derived/env-templates.json",
    )
    image = load_receipt(published / OWN / "public-image-receipt.json")
    findings = check_contract(
        loaded.contract, lookup=loaded.lookup, templates=loaded.templates, receipt=image
    )
    assert blocking(findings) == ()
    assert [one for one in findings if one.result is CheckResult.NOT_TESTED] == []
    codes = {one.code for one in findings if one.result is CheckResult.PASS}
    assert {"CT_LOCK_HASH", "CT_PINS_HASH", "TPL_VALUE", "TPL_INHERIT_DEPTH", "CT_SOURCES"} <= codes


def test_templates_that_are_not_beside_the_contract_are_named(published: Path, contract: Contract) -> None:
    file = published / OWN / "profiles/profile-contract.json"
    lookup = folder_lookup(file, assets=None)
    loaded = load_contract(file, assets=None, template_set=None)
    findings = check_contract(contract, lookup=lookup, templates=loaded.templates, only="tp4-dcp4-sparkcache")
    untested = {one.detail for one in findings if one.result is CheckResult.NOT_TESTED}
    assert any("tp4-dcp4.env.example" in one for one in untested)
    assert "not given: glm53-spark-mtp3-mesh/pins.json" in untested
    assert blocking(findings) == ()


def test_the_namespace_of_the_qualified_set(receipt: Any) -> None:
    derived = derive_namespace(receipt["image_id"], "tp4-dcp4-sparkcache")
    assert derived == "sparkring-r33-3c7779ad71dd-tp4-dcp4-sparkcache"


def test_the_buffer_plan_meets_its_budget_exactly(contract: Contract, templates: dict[str, Template]) -> None:
    effective = effective_profile(contract, "tp4-dcp4-sparkcache", templates=templates)
    told = buffer_plan_object(buffer_plan(effective.environment, effective.entry))
    assert told["sparkcache_payload_bytes_per_rank"] == told["buffer_budget_bytes_per_rank"] == 1_342_177_280
    assert told["kv_and_payload_bytes_all_ranks"] == 108_447_924_224


@pytest.mark.parametrize("profile", PROFILES)
def test_a_rank_of_the_published_values_passes_every_guard(
    contract: Contract, templates: dict[str, Template], receipt: Any, profile: str
) -> None:
    effective = effective_profile(contract, profile, templates=templates)
    concrete = {"NODE_RANK": "1", "MASTER_ADDR": "192.0.2.10"}
    if effective.entry.sparkcache:
        concrete["SPARKCACHE_CACHE_NAMESPACE"] = derive_namespace(receipt["image_id"], profile)
    values = effective.environment | concrete
    values |= {key: "=a:1" for key, value in values.items() if is_placeholder(value)}
    case = RankCase(
        contract=contract,
        effective=effective,
        observed=observe(env_text(values), name="rank1.env", rank=1),
        receipt=receipt,
        image_id=receipt["image_id"],
    )
    assert blocking(rank_findings(case)) == ()


def test_the_published_example_site_plans_a_rank(
    published: Path, contract: Contract, templates: dict[str, Template], receipt: Any
) -> None:
    raw = (published / "sparkring/runtime/glm53-spark-mtp3-mesh/site.example.json").read_bytes()
    effective = effective_profile(contract, "tp4-dcp4-sparkcache", templates=templates)
    order = RankOrder(
        rank=3,
        image_id=receipt["image_id"],
        receipt=receipt,
        given={"NCCL_IB_HCA": "=a:1,b:1,c:1,d:1"},
        site=read_site(raw),
    )
    planned = rank_plan(effective, contract=contract, order=order)
    assert [one.code for one in blocking(planned.findings)] == ["REN_NOT_AUTHORIZED"]
    assert "SPARKCACHE_CACHE_NAMESPACE=sparkring-r33-3c7779ad71dd-tp4-dcp4-sparkcache\n" in environment_text(
        planned
    )


def test_the_release_selection_pins_what_is_here(published: Path) -> None:
    selection = read_release_selection(
        (published / "sparkring/runtime/releases/sparkring-r33-dcp4/release.json").read_bytes()
    )
    digests = {}
    for one in selection.inputs:
        place = published / "sparkring" / one.path
        if place.is_file():
            digests[one.path] = sha256(place.read_bytes())
    results = {one.detail.rpartition("/")[2]: one.result for one in pin_findings(selection, digests)}
    assert len(selection.inputs) == 7
    assert results["profile-contract.json"] is CheckResult.PASS
    assert results["artifact-lock.json"] is CheckResult.PASS
    assert results["public-image-receipt.json"] is CheckResult.PASS
    # The publication at its path is a later one; the pinned bytes lie beside.
    assert results["publication.json"] is CheckResult.FAIL
    assert selection.pins(sha256((published / RELEASED).read_bytes())) is not None


def test_the_publication_names_its_local_time_as_utc(published: Path) -> None:
    publication = read_publication((published / OWN / "publication.json").read_bytes())
    (found,) = publication_findings(publication)
    assert (found.code, found.result) == ("DOC_TIMEZONE", CheckResult.FAIL)
    assert found.found == "an offset of -5:00:00"


def test_the_matrix_of_the_published_documents(published: Path, contract: Contract) -> None:
    place = published / "sparkring/profiles"
    around = Around(
        catalog=[read_catalog_entry(one.read_bytes()) for one in sorted(place.glob("*/profile.json"))],
        publications=[read_publication((published / OWN / "publication.json").read_bytes())],
        selections=[
            read_release_selection(
                (published / "sparkring/runtime/releases/sparkring-r33-dcp4/release.json").read_bytes()
            )
        ],
    )
    rows = {row.profile: row for row in matrix_rows(contract, around=around)}
    assert (rows["tp4-dcp4-sparkcache"].status, rows["tp4-dcp4-sparkcache"].recommendation) == (
        Status.QUALIFIED,
        Recommendation.RETIRED,
    )
    assert (rows["tp4-dcp4"].status, rows["tp4-dcp4"].recommendation) == (
        Status.IMPLEMENTED,
        Recommendation.AVAILABLE,
    )
    assert rows["tp4-dcp1"].status is Status.RESEARCH_ONLY
    assert len(read_catalog((place / "catalog.json").read_bytes())) == 35


def test_every_published_document_of_a_known_kind_is_in_form(published: Path) -> None:
    kinds = {}
    for file in sorted(published.rglob("*.json")):
        raw = file.read_bytes()
        if b'"sparkring-r33-source-component-evidence/v1"' in raw or file.name in _OTHER:
            continue
        kinds[file.relative_to(published)] = read_any(raw, subject=file.name).kind
    assert len(kinds) == 20
    assert len(set(kinds.values())) == 16


_OTHER = {
    "INDEX.json",
    "image-receipt.schema.json",
    "host-marker-artifact.json",
    "container-validation-receipt.json",
    "sparkring-overlay-manifest.json",
    "rocenante-overlay-config.json",
    "source-lock.json",
    "vllm-r33-sparkring.manifest.json",
    "r35-managed-restart.json",
}
