"""The plan of a rank and how a real one drifts from it; secrets never leave."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import FormatError
from app.core.profiles.documents import ProfileDocumentError
from app.core.profiles.drift import (
    DriftLine,
    LineState,
    Place,
    drift_findings,
    drift_lines,
    drift_object,
    masked_command,
)
from app.core.profiles.findings import CheckResult, blocking
from app.core.profiles.observed import observe
from app.core.profiles.plan import RankOrder, RankPlan, environment_text, plan_object, rank_plan
from app.core.profiles.secrets import is_secret_name, masked
from app.core.profiles.site import Site, read_site
from app.core.profiles.template import read_template
from tests.core import profile_folder as made
from tests.core import profile_rig as rig
from tests.core.test_profiles_release import DIAGNOSTICS, SITE

Json = dict[str, Any]
NAME = "tp4-dcp4-sparkcache"
HCA = {"NCCL_IB_HCA": "=a:1,b:1,c:1,d:1"}
ROOTS = ["/srv/r0/profiles", "/srv/r1/profiles", "/srv/r2/profiles", "/srv/r3/profiles"]


def site(**changes: Any) -> Site:
    return read_site(rig.dump(SITE | changes))


def plan(profile: str = NAME, **order: Any) -> RankPlan:
    given = order.pop("given", HCA if profile.startswith("tp4") else {"B12X_ROCE_PEER_HCA_MAP": "1=0/2"})
    around: Json = {"rank": 1, "image_id": made.IMAGE_ID, "receipt": made.receipt(), "site": site()} | order
    return rank_plan(made.resolved(profile), contract=made.contract(), order=RankOrder(given=given, **around))


def offences(planned: RankPlan) -> list[tuple[str, str]]:
    return [(one.code, one.pointer) for one in blocking(planned.findings) if one.code != "REN_NOT_AUTHORIZED"]


def test_a_plan_fills_what_follows_and_holds_every_guard() -> None:
    planned = plan()
    assert offences(planned) == []
    assert planned.values["NODE_RANK"] == "1"
    assert planned.values["MASTER_ADDR"] == "192.0.2.10"
    assert planned.values["SPARKCACHE_CACHE_NAMESPACE"] == made.NAMESPACE
    origins = {one.key: one.origin for one in planned.environment}
    assert origins["NCCL_IB_HCA"] == "given"
    assert origins["DECODE_CONTEXT_PARALLEL_SIZE"] == "parent_template tp4-dcp4.env.example:4"
    assert origins["HF_HUB_OFFLINE"] == "contract /common_environment/HF_HUB_OFFLINE"


@pytest.mark.parametrize("profile", list(made.template_values()))
def test_every_profile_can_be_planned(profile: str) -> None:
    chosen = site(runtime_profile=profile) if profile.startswith("tp4") else None
    given = {"MASTER_ADDR": "192.0.2.10"} | (HCA if chosen else {"B12X_ROCE_PEER_HCA_MAP": "1=0/2"})
    assert offences(plan(profile, site=chosen, given=given)) == []


def test_a_plan_is_never_authorised() -> None:
    document = plan_object(plan())
    assert document["execution_authorized"] is False
    assert document["schema"] == "sparkgate-rank-plan/v1"
    assert [one.code for one in blocking(plan().findings)] == ["REN_NOT_AUTHORIZED"]


def test_an_open_placeholder_is_named_and_kept() -> None:
    planned = plan(given={})
    assert ("TPL_UNRESOLVED", "/NCCL_IB_HCA") in offences(planned)
    assert planned.values["NCCL_IB_HCA"] == "<all four>"


def test_without_an_image_id_the_namespace_stays_open() -> None:
    planned = plan(image_id=None)
    assert planned.namespace is None
    assert ("TPL_UNRESOLVED", "/SPARKCACHE_CACHE_NAMESPACE") in offences(planned)


def test_a_value_the_profile_fixes_is_not_given_again() -> None:
    planned = plan(given=HCA | {"DECODE_CONTEXT_PARALLEL_SIZE": "1", "EXTRA": "x"})
    assert offences(planned) == [("TPL_VALUE", "/DECODE_CONTEXT_PARALLEL_SIZE")]
    assert planned.values["DECODE_CONTEXT_PARALLEL_SIZE"] == "4"
    assert planned.values["EXTRA"] == "x"


def test_a_site_for_another_profile_is_told() -> None:
    planned = plan(site=site(runtime_profile="tp4-dcp1"))
    assert offences(planned) == [("SITE_PROFILE_NOT_ALLOWED", "/runtime_profile")]


def test_a_diagnostic_start_looks_elsewhere_and_only_reads() -> None:
    planned = plan(site=site(cache_diagnostics=DIAGNOSTICS))
    assert offences(planned) == []
    assert planned.values["SPARKCACHE_CACHE_NAMESPACE"] == "look-only"
    assert planned.values["SPARKCACHE_ACCESS_MODE"] == "restore-only"


def test_an_overlay_changes_entrypoint_and_mounts() -> None:
    planned = plan(site=site(r33_profile_contract_roots=ROOTS))
    assert planned.command == ("/opt/sparkring/bin/sparkring-r33-overlay", "serve")
    assert planned.values["R33_PROFILE_CONTRACT_HOST_ROOT"] == "/srv/r1/profiles"
    targets = {mount.target: (mount.source, mount.writable) for mount in planned.mounts if mount.target}
    assert targets == {
        "/opt/sparkring/profile-contract": ("/srv/r1/profiles", False),
        "/opt/sparkring/bin/sparkring-r33-overlay": ("/srv/r1/image/entrypoint.py", False),
    }
    assert plan().command[0] == "/opt/sparkring/bin/sparkring-r33"


@pytest.mark.parametrize(
    "order",
    [
        {"rank": 4},
        {"rank": -1},
        {"image_id": "latest"},
        {"given": {f"K{n}": "" for n in range(1001)}},
        {"given": {"A": "1\nEVIL=1"}},
        {"given": {"A": "1\rEVIL=1"}},
        {"given": {"A\nEVIL": "1"}},
        {"given": {"lower": "1"}},
    ],
)
def test_an_order_that_cannot_be_is_refused(order: Json) -> None:
    with pytest.raises(FormatError):
        plan(**order)


def test_the_environment_file_is_read_again_as_it_was_planned() -> None:
    planned = plan()
    read = read_template(environment_text(planned).encode(), name="rank1.env")
    assert dict(read.pairs) == planned.values


def test_secrets_are_in_no_view_of_a_plan() -> None:
    planned = plan(given=HCA | {"SERVER_API_KEY": "hush", "HF_TOKEN": "hush"})
    assert "hush" not in str(plan_object(planned))
    assert "hush" not in environment_text(planned)


def drift(values: Json, *, planned: RankPlan | None = None, **document: Any) -> tuple[DriftLine, ...]:
    seen = observe(rig.dump(made.inspection(values) | document), name="rank1.json", rank=1)
    return drift_lines(planned or plan(), seen)


def differing(lines: tuple[DriftLine, ...]) -> dict[tuple[Place, str], LineState]:
    return {(one.place, one.name): one.state for one in lines if one.state is not LineState.SAME}


def test_a_rank_as_planned_differs_only_in_what_the_plan_leaves_out() -> None:
    told = differing(drift(plan().values))
    assert set(told) == {
        (Place.MOUNT, "/srv/m"),
        (Place.MOUNT, "/srv/c"),
        (Place.MOUNT, "/models"),
    }


def test_changed_missing_and_extra_lines_are_told() -> None:
    values = plan().values | {"MAX_MODEL_LEN": "262144", "UNREVIEWED": "1"}
    del values["SIRCL_ENABLED"]
    lines = drift(values, Image="sha256:" + "00" * 32, Args=["verify"])
    told = differing(lines)
    assert told[(Place.ENVIRONMENT, "MAX_MODEL_LEN")] is LineState.CHANGED
    assert told[(Place.ENVIRONMENT, "UNREVIEWED")] is LineState.EXTRA
    assert told[(Place.ENVIRONMENT, "SIRCL_ENABLED")] is LineState.MISSING
    assert told[(Place.IMAGE, "image_id")] is LineState.CHANGED
    assert told[(Place.COMMAND, "1")] is LineState.CHANGED
    seen = observe(rig.dump(made.inspection(values)), name="r", rank=1)
    found = drift_findings(lines, observed=seen)
    results = {(one.code, one.pointer): one.result for one in found}
    assert results[("REN_FILE_DRIFT", "/environment/MAX_MODEL_LEN")] is CheckResult.FAIL
    assert results[("REN_FILE_DRIFT", "/environment/SIRCL_ENABLED")] is CheckResult.FAIL
    assert results[("REN_FILE_DRIFT", "/environment/UNREVIEWED")] is CheckResult.INDETERMINATE
    assert results[("IMG_ID_MISMATCH", "/image/image_id")] is CheckResult.FAIL


def test_an_environment_file_shows_nothing_of_image_command_and_mounts() -> None:
    planned = plan()
    seen = observe(environment_text(planned).encode(), name="rank1.env", rank=1)
    states = {one.place: one.state for one in drift_lines(planned, seen)}
    assert states[Place.ENVIRONMENT] is LineState.SAME
    assert {states[Place.IMAGE], states[Place.COMMAND], states[Place.MOUNT]} == {LineState.NOT_OBSERVED}


def test_a_mount_that_is_writable_where_it_should_not_be_is_changed() -> None:
    planned = plan(site=site(r33_profile_contract_roots=ROOTS))
    mounts = [
        {"Source": "/srv/r1/profiles", "Destination": "/opt/sparkring/profile-contract", "RW": True},
        {"Source": "/srv/m", "Destination": "/models", "RW": False},
    ]
    told = differing(drift(planned.values, planned=planned, Mounts=mounts))
    assert told[(Place.MOUNT, "/opt/sparkring/profile-contract")] is LineState.CHANGED
    assert told[(Place.MOUNT, "/opt/sparkring/bin/sparkring-r33-overlay")] is LineState.MISSING
    assert (Place.MOUNT, "/srv/m") not in told


def test_a_placeholder_of_the_plan_is_open_not_drifted() -> None:
    planned = plan(given={})
    told = differing(drift(planned.values | HCA, planned=planned))
    assert told[(Place.ENVIRONMENT, "NCCL_IB_HCA")] is LineState.OPEN


def test_nothing_secret_is_in_any_line() -> None:
    planned = plan(given=HCA | {"SERVER_API_KEY": "hush-planned"})
    values = planned.values | {"SERVER_API_KEY": "hush-real", "OTHER_PASSWORD": "hush-extra"}
    lines = drift(
        values, planned=planned, Args=["serve", "--api-key", "hush-flag", "--token=hush-flag", "--x", "u"]
    )
    seen = observe(rig.dump(made.inspection(values)), name="r", rank=1)
    told = str(drift_object(lines)) + str(drift_findings(lines, observed=seen))
    assert "hush" not in told
    states = differing(lines)
    assert states[(Place.ENVIRONMENT, "SERVER_API_KEY")] is LineState.CHANGED
    masked_lines = {one.name for one in lines if one.is_masked}
    assert {"SERVER_API_KEY", "OTHER_PASSWORD"} <= masked_lines


@pytest.mark.parametrize(
    "name",
    [
        *("API_KEY", "APIKEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "DB_PASSWORD", "SECRET", "MY_SECRET_X"),
        *("AWS_SECRET_ACCESS_KEY", "SSH_PRIVATE_KEY", "--api-key", "--apikey", "authToken", "api_key"),
        *("GITHUB_PAT", "SESSION_COOKIE", "PASSPHRASE", "BASIC_AUTH", "dbPassword", "OPENAI_API_KEYS"),
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)
    assert "hush" not in masked(name, "hush")
    assert masked(name, "") != masked(name, "hush")


@pytest.mark.parametrize("profile", list(made.template_values()))
def test_no_published_variable_is_taken_for_a_secret(profile: str) -> None:
    assert [key for key in made.rank_values(profile) if is_secret_name(key)] == []


@pytest.mark.parametrize(
    "name", ["MAX_NUM_BATCHED_TOKENS", "NUM_SPECULATIVE_TOKENS", "KEYBOARD", "MONKEY_PATCH", "PATH", "AUTHOR"]
)
def test_names_that_hold_no_secret(name: str) -> None:
    assert not is_secret_name(name)


def test_a_password_in_an_address_is_hidden_whatever_the_name() -> None:
    assert masked("REDIS", "redis://user:hush@host/0") == "redis://(masked)@host/0"


@given(st.lists(st.sampled_from(["--api-key", "--token", "--x", "hush1", "hush2", "--password=hush3", "-p"])))
def test_what_follows_a_secret_flag_is_never_shown(command: list[str]) -> None:
    told = masked_command(command)
    assert len(told) == len(command)
    for index, argument in enumerate(command):
        follows = index > 0 and command[index - 1] in ("--api-key", "--token")
        if follows and not argument.startswith("-"):
            assert "hush" not in told[index]
        if "=" in argument:
            assert "hush" not in told[index]


@pytest.mark.parametrize(
    "raw",
    [
        b"[]",
        b"[{}, {}]",
        b"[1]",
        b"{",
        b"[",
        b'{"Path": "a", "Config": {"Env": "x"}}',
        b'{"Path": "a", "Config": {"Env": ["A"]}}',
        b'{"Path": "a", "Config": {"Env": []}, "Mounts": [], "Args": 7}',
        b'{"Path": "a", "Config": {"Env": []}, "Mounts": [], "Args": [7]}',
        b"A",
        b"A=1\nA=2\n",
    ],
)
def test_what_is_no_rank_is_refused(raw: bytes) -> None:
    with pytest.raises(ProfileDocumentError):
        observe(raw, name="rank")


def test_an_inspection_may_be_a_list_of_one() -> None:
    document = made.inspection({"A": "1"})
    listed = observe(rig.dump([document]), name="rank")
    assert listed.environment == observe(rig.dump(document), name="rank").environment
    assert listed.sha256 == rig.sha(rig.dump([document]))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_rank_or_a_refusal(raw: bytes) -> None:
    codes = ["read"]
    try:
        observe(raw, name="rank")
    except ProfileDocumentError as error:
        codes = [one.code for one in error.findings]
    assert codes
