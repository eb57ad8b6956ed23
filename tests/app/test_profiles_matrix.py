"""Matrix, effective profiles, differences, plans, drift, namespaces, activations over stored documents."""

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.db.session import Database
from app.models import ProfileDocument, ReceiptRow
from tests.app import profile_rows as rows
from tests.app.profile_rows import ProfileApi
from tests.core import profile_rig as rig

OWN = rows.contract()
CACHED = f"/{OWN.sha256}/tp4-dcp4-sparkcache"


@pytest.fixture
def api(client: TestClient, keys: dict[str, str]) -> ProfileApi:
    opened = ProfileApi(client, key=keys["operator"])
    opened.fill(rows.everything())
    return opened


def line(answer: Any, *, profile: str | None) -> dict[str, Any]:
    return next(one for one in answer.json()["profiles"] if one["profile"] == profile)


def test_status_and_recommendation_are_two_columns_with_their_evidence(api: ProfileApi) -> None:
    matrix = api.get("")
    assert matrix.status_code == 200, matrix.text
    cached = line(matrix, profile="tp4-dcp4-sparkcache")
    assert (cached["status"], cached["recommendation"]) == ("qualified", "retired")
    deployed = rows.deployment().sha256
    assert cached["status_evidence"]["sha256"] == cached["recommendation_evidence"]["sha256"] == deployed
    kinds = {one["kind"]: one for one in cached["evidence"]}
    assert set(kinds) == {"catalog", "release_selection", "activation"}
    assert kinds["activation"]["sha256"] == rows.activation().sha256
    assert kinds["activation"]["says"] == "activation receipt: pass"
    plain = line(matrix, profile="tp4-dcp4")
    assert (plain["status"], plain["recommendation"], plain["evidence"]) == (
        "research-only",
        None,
        [kinds["release_selection"]],
    )
    absent = line(matrix, profile=None)
    assert absent["status"] == "unsupported"
    assert matrix.json()["total"]["count"] == 1
    assert api.get("", contract="0" * 64).json()["profiles"] == []


def test_a_newer_deployment_and_a_newer_contract_are_told(api: ProfileApi) -> None:
    api.fill([rows.deployment(status="implemented", recommendation="recommended")])
    cached = line(api.get(""), profile="tp4-dcp4-sparkcache")
    assert (cached["status"], cached["recommendation"]) == ("implemented", "preferred")
    newer = rows.contract(__model__revision="ee" * 20)
    api.fill([newer])
    assert len({one["contract_sha256"] for one in api.get("").json()["profiles"]}) == 2
    findings = api.get(CACHED).json()["findings"]
    (superseded,) = (one for one in findings if one["code"] == "CT_VERSION_SUPERSEDED")
    assert (superseded["result"], superseded["severity"], superseded["found"]) == ("fail", "W", newer.sha256)
    first = api.get("", page_size=1).json()
    assert {one["contract_sha256"] for one in first["profiles"]} == {newer.sha256}
    then = api.get("", page_size=1, page_token=first["next_page_token"]).json()
    assert {one["contract_sha256"] for one in then["profiles"]} == {OWN.sha256}


def test_a_profile_shows_where_each_value_is_from_and_every_check(api: ProfileApi) -> None:
    answer = api.get(CACHED)
    assert answer.status_code == 200, answer.text
    profile = answer.json()
    values = {one["key"]: one for one in profile["values"]}
    dcp = values["DECODE_CONTEXT_PARALLEL_SIZE"]
    assert (dcp["value"], dcp["source"]) == ("4", "own_template")
    assert dcp["origin"].startswith("tp4-dcp4.env.example:")
    assert values["HF_HUB_OFFLINE"]["origin"] == "/common_environment/HF_HUB_OFFLINE"
    assert profile["templates"] == [
        {
            "name": "tp4-dcp4.env.example",
            "document_sha256": rows.templates()[2].sha256,
            "chosen": "beside the contract",
        }
    ]
    assert profile["image_receipt_sha256"] == rows.image_receipt().sha256
    codes = {one["code"] for one in profile["findings"]}
    assert {"TPL_VALUE", "CT_LOCK_HASH", "IMG_FLAGS", "GUARD_DCP_NAME", "GUARD_COMMON_ENV"} <= codes
    pins = {one["detail"]: one["result"] for one in profile["findings"] if one["code"] == "DOC_UNPINNED"}
    assert pins == {"profile contract": "pass", "image receipt": "fail"}, "the release names no receipt"
    lock = next(one for one in profile["findings"] if one["code"] == "CT_LOCK_HASH")
    assert lock["result"] == "not_tested", "the artifact lock is not stored"
    assert profile["result"] == "fail", "the made templates lack what the rules want"
    assert api.get(f"/{OWN.sha256}/nobody").status_code == 404
    assert api.get(f"/{'0' * 64}/tp4-dcp4").status_code == 404
    assert api.get(f"/{rows.image_receipt().sha256}/tp4-dcp4").status_code == 404


def test_templates_are_chosen_beside_the_contract_before_others(api: ProfileApi) -> None:
    stray = rows.Paper(
        raw=rows.template(tp=4, dcp=4, profile="tp4-dcp4", MAX_MODEL_LEN="1"),
        path="elsewhere/tp4-dcp4.env.example",
        kind="template",
    )
    api.fill([stray])
    values = {one["key"]: one["value"] for one in api.get(CACHED).json()["values"]}
    assert values["MAX_MODEL_LEN"] == "1048576"
    newer = rows.Paper(raw=stray.raw, path=rows.templates()[2].path, kind="template")
    api.fill([newer])
    values = {one["key"]: one["value"] for one in api.get(CACHED).json()["values"]}
    assert values["MAX_MODEL_LEN"] == "1", "the newest that stood there"


def test_two_contracts_and_two_profiles_are_laid_side_by_side(api: ProfileApi) -> None:
    newer = rows.contract(__model__revision="ee" * 20)
    api.fill([newer])
    contracts = api.get("/comparison", left=OWN.sha256, right=newer.sha256).json()
    assert [(one["pointer"], one["change"]) for one in contracts["lines"]] == [("/model/revision", "changed")]
    diff = api.get(f"{CACHED}/diff", with_profile="tp4-dcp1-sparkcache").json()
    lines = {one["pointer"]: one for one in diff["lines"]}
    assert lines["/environment/DECODE_CONTEXT_PARALLEL_SIZE"]["left"] == "4"
    assert lines["/entry/decode_context_parallel_size"]["right"] == "1"
    same = api.get("/comparison", left=OWN.sha256, right=OWN.sha256).json()
    assert same["lines"] == []
    half = api.get("/comparison", left=OWN.sha256, right=OWN.sha256, left_profile="tp4-dcp4")
    assert (half.status_code, half.json()["errors"][0]["pointer"]) == (422, "/right_profile")


def test_a_plan_is_a_document_to_review(api: ProfileApi) -> None:
    answer = api.get(f"{CACHED}/plan", rank=3)
    assert answer.headers["content-disposition"] == 'attachment; filename="tp4-dcp4-sparkcache-rank3.json"'
    plan = answer.json()
    assert (plan["schema"], plan["rank"], plan["execution_authorized"]) == (
        "sparkgate-rank-plan/v1",
        3,
        False,
    )
    assert plan["namespace"] == "sparkring-r33-3c3c3c3c3c3c-tp4-dcp4-sparkcache"
    unresolved = next(one for one in plan["findings"] if one["code"] == "TPL_UNRESOLVED")
    assert unresolved["result"] == "fail"
    assert api.get(f"{CACHED}/plan", rank=4).json()["errors"][0]["pointer"] == "/rank"
    assert api.get(f"{CACHED}/plan", rank=-1).status_code == 422


def test_drift_is_told_line_by_line_and_nothing_is_kept(api: ProfileApi, database: Database) -> None:
    with database.reading() as session:
        before = session.query(ProfileDocument).count(), session.query(ReceiptRow).count()
    real = rows.template(tp=4, dcp=1, profile="tp4-dcp4-sparkcache", API_KEY="hush-hush", NODE_RANK="2")
    found = api.post(f"{CACHED}/drift", real, rank=2)
    assert found.status_code == 200, found.text
    lines = {one["name"]: one for one in found.json()["lines"]}
    dcp = lines["DECODE_CONTEXT_PARALLEL_SIZE"]
    assert (dcp["state"], dcp["expected"], dcp["found"]) == ("changed", "4", "1")
    assert (lines["API_KEY"]["state"], lines["API_KEY"]["masked"]) == ("extra", True)
    assert "hush" not in found.text
    failed = [one for one in found.json()["findings"] if one["result"] == "fail"]
    assert ("GUARD_DCP_NAME", 2) in {(one["code"], one["rank"]) for one in failed}
    inspection = {
        "Path": "serve",
        "Image": rig.IMAGE_ID,
        "Config": {"Entrypoint": [], "Env": ["DECODE_CONTEXT_PARALLEL_SIZE=4", "API_KEY=hush"]},
        "Mounts": [],
    }
    seen = api.post(f"{CACHED}/drift", rig.dump([inspection]), rank=0)
    assert (seen.status_code, "hush" in seen.text) == (200, False)
    for broken, pointer in ((b"\xff", ""), (b"{", ""), (b'[{"Path": 1, "Config": {}}]', "/Path"), (b"A", "")):
        refused = api.post(f"{CACHED}/drift", broken)
        assert refused.status_code == 422, refused.text
        assert refused.json()["errors"][0]["pointer"].startswith(pointer)
    with database.reading() as session:
        after = session.query(ProfileDocument).count(), session.query(ReceiptRow).count()
    assert after == before


def test_namespaces_and_who_shares_them(api: ProfileApi) -> None:
    own = api.get(f"{CACHED}/namespace").json()
    assert own["namespace"] == "sparkring-r33-3c3c3c3c3c3c-tp4-dcp4-sparkcache"
    assert (own["result"], len(own["findings"])) == ("pass", 1)
    assert api.get(f"/{OWN.sha256}/tp4-dcp4/namespace").json()["namespace"] is None
    other = rows.contract(__model__revision="ee" * 20)
    api.fill([other])
    listed = api.get("/namespaces").json()
    assert listed["result"] == "fail"
    collision = api.get(f"{CACHED}/namespace").json()
    assert collision["result"] == "fail"
    assert "model revision" in collision["findings"][0]["found"]
    image = "sha256:" + "9" * 64
    assert (
        api.get(f"{CACHED}/namespace", image_id=image)
        .json()["namespace"]
        .startswith("sparkring-r33-999999999999-")
    )
    assert api.get(f"{CACHED}/namespace", image_id="latest").status_code == 422


def test_activations_are_judged_by_all_rules(api: ProfileApi, database: Database) -> None:
    stored = api.get(f"/activations/{rows.activation().sha256}").json()
    assert (stored["result"], stored["pinned"], stored["contract_used"]) == ("pass", True, OWN.sha256)
    assert [one["rank"] for one in stored["ranks"]] == ["0", "1", "2", "3"]
    relabelled = rows.activation(profile="tp4-dcp4-sparkcache", __profile="tp4-dcp1-sparkcache")
    with database.reading() as session:
        before = session.query(ReceiptRow).count()
    judged = api.post("/activations/judge", relabelled.raw).json()
    assert (judged["result"], judged["pinned"]) == ("fail", False)
    failed = [one["code"] for one in judged["findings"] if one["result"] == "fail" and one["severity"] == "B"]
    assert "KV_POOL_WINDOW" in failed
    as_published = api.post("/activations/judge", relabelled.raw, rules="upstream").json()
    assert as_published["result"] == "pass"
    pinned = api.post("/activations/judge", relabelled.raw, pinned=True).json()
    assert (pinned["result"], pinned["pinned"]) == ("fail", True)
    nan = rows.activation().raw.replace(b'"sircl_collectives": 5', b'"sircl_collectives": NaN')
    assert api.post("/activations/judge", nan).json()["errors"][0]["detail"].startswith("DOC_JSON_INVALID")
    unknown = rows.activation(__profile_contract_sha256="f" * 64)
    told = api.post("/activations/judge", unknown.raw).json()
    assert (told["result"], told["contract_used"]) == ("not_tested", None)
    against = api.post("/activations/judge", unknown.raw, contract=OWN.sha256).json()
    assert "ACT_CONTRACT_BINDING" in {o["code"] for o in against["findings"] if o["result"] == "fail"}
    assert api.post("/activations/judge", unknown.raw, contract="0" * 64).status_code == 404
    for broken in (b"", b"[]", b'{"schema": "x"}', rows.contract().raw):
        assert api.post("/activations/judge", broken).status_code == 422
    with database.reading() as session:
        assert session.query(ReceiptRow).count() == before


def test_an_activation_that_came_malformed_as_a_receipt_breaks_no_list(api: ProfileApi) -> None:
    schema = "sparkring-r33-activation-receipt/v1"
    for document in ({"schema": schema}, {"schema": schema, "ranks": 7, "profile": [], "image": 1}):
        sent = api.client.post("/api/v1/receipts", headers=api.headers, content=rig.dump(document))
        assert sent.status_code == 201
    for schema in ("sparkring-ghcr-publication/v1", "sparkring-r33-image-receipt/v1", "sparkgate-drill/v1"):
        raw = json.dumps({"schema": schema, "artifact_lock_sha256": rig.sha(rig.ARTIFACT_LOCK)}).encode()
        api.client.post("/api/v1/receipts", headers=api.headers, content=raw).raise_for_status()
    listed = api.get("/activations").json()
    assert len(listed["activations"]) == 3
    assert api.get("").status_code == api.get("/namespaces").status_code == 200
    assert api.get(CACHED).status_code == 200


def outcome(api: ProfileApi, sha256: str) -> str:
    answer = api.client.get(f"/api/v1/receipts/{sha256}", headers=api.headers).json()
    return next(one["outcome"] for one in answer["verdicts"] if one["kind"] == "receipt")  # type: ignore[no-any-return]


@pytest.mark.parametrize("way", ["profiles", "receipts"])
def test_a_claim_acts_on_verdicts_whichever_way_it_comes(api: ProfileApi, way: str) -> None:
    activation = rows.activation()
    before = outcome(api, activation.sha256)
    amended = rows.claim(activation, state="amended", at="2026-11-30T10:00:00Z")
    withdrawn = rows.claim(activation, state="withdrawn", at="2026-11-30T11:00:00Z")
    for paper in (amended, withdrawn):
        if way == "profiles":
            assert api.add(paper).json()["is_evidence"]
        else:
            api.client.post("/api/v1/receipts", headers=api.headers, content=paper.raw).raise_for_status()
        if paper is amended:
            assert outcome(api, activation.sha256) == before, "amended changes no result"
    claims = api.get("/claims").json()
    assert {one["state"]: one["stands"] for one in claims["claims"]} == {"amended": False, "withdrawn": True}
    assert claims["total"]["count"] == 2
    about = api.get("/claims", subject=activation.sha256).json()["claims"]
    assert [one["sha256"] for one in about] == [withdrawn.sha256, amended.sha256]
    assert api.get("/claims", subject="0" * 64).json()["claims"] == []
    judged = api.get(f"/activations/{activation.sha256}").json()
    assert judged["result"] == "pass", "the receipt's own result stays"
    told = {one["code"]: (one["result"], one["severity"]) for one in judged["findings"]}
    assert told["CLM_WITHDRAWN"] == ("fail", "W")
    evidence = line(api.get(""), profile="tp4-dcp4-sparkcache")["evidence"]
    assert "activation receipt: pass; claimed: withdrawn" in {one["says"] for one in evidence}
    wanted = {"kind": "receipt", "code": "CLAIM_WITHDRAWN"}
    verdicts = api.client.get("/api/v1/verdicts", headers=api.headers, params=wanted).json()["verdicts"]
    assert {one["receipt_sha256"] for one in verdicts} == {activation.sha256}


def test_a_claim_that_came_malformed_as_a_receipt_is_listed_as_none(api: ProfileApi) -> None:
    raw = rig.dump({"schema": "sparkgate-claim/v1", "state": "maybe"})
    api.client.post("/api/v1/receipts", headers=api.headers, content=raw).raise_for_status()
    (claim,) = api.get("/claims").json()["claims"]
    assert (claim["state"], claim["effect"]) == (None, "nothing: it is no claim in form")
    assert claim["findings"][0]["result"] == "fail"
