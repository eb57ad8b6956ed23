"""Profile documents over the API: taken in once, evidence among the receipts, lists, bytes, refusals."""

import json

import pytest
from fastapi.testclient import TestClient

from app.accounts import service as accounts
from app.core.profiles.documents import SCHEMAS
from app.db.session import Database
from app.models import ProfileDocument, ProfilePlace, ReceiptRow, VerdictRow
from app.web.auth import Scope
from tests.app import profile_rows as rows
from tests.app.profile_rows import ProfileApi
from tests.core import profile_rig as rig


@pytest.fixture
def api(client: TestClient, keys: dict[str, str]) -> ProfileApi:
    return ProfileApi(client, key=keys["operator"])


def test_a_document_is_taken_in_once_and_given_back_as_it_came(api: ProfileApi, database: Database) -> None:
    paper = rows.contract()
    first, again = api.add(paper), api.add(paper)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.headers["location"] == f"{rows.DOCUMENTS}/{paper.sha256}"
    said = first.json()
    assert (said["kind"], said["sha256"], said["is_evidence"]) == ("contract", paper.sha256, False)
    assert said["places"][0]["path"] == paper.path
    assert {**again.json(), "changed": 0} == said
    got = api.get(f"/documents/{paper.sha256}/document")
    assert (got.content, got.headers["etag"]) == (paper.raw, f'"{paper.sha256}"')
    assert got.headers["content-type"] == "application/octet-stream"
    assert api.get(f"/documents/{paper.sha256}").json()["value"] == json.loads(paper.raw)
    with database.reading() as session:
        assert session.query(ProfileDocument).count() == 1
        assert session.query(ProfilePlace).count() == 1
        assert session.query(ReceiptRow).count() == 0


def test_another_place_of_the_same_bytes_is_kept_beside_the_first(api: ProfileApi) -> None:
    paper = rows.contract()
    api.add(paper)
    again = api.add(paper, path="copy/profile-contract.json")
    assert again.status_code == 200
    assert [one["path"] for one in again.json()["places"]] == [paper.path, "copy/profile-contract.json"]


def test_evidence_becomes_a_receipt_whichever_way_it_comes(api: ProfileApi, database: Database) -> None:
    by_profiles, by_receipts = rows.activation(), rows.activation(profile="tp4-dcp4")
    added = api.add(by_profiles)
    assert (added.status_code, added.json()["is_evidence"], added.json()["changed"] > 0) == (201, True, True)
    sent = api.client.post("/api/v1/receipts", headers=api.headers, content=by_receipts.raw)
    assert sent.status_code == 201
    assert api.add(by_receipts).status_code == 200
    listed = api.get("/documents", kind="activation").json()
    assert {one["sha256"] for one in listed["documents"]} == {by_profiles.sha256, by_receipts.sha256}
    assert listed["total"] == {"count": 2, "is_exact": True}
    with database.reading() as session:
        assert session.query(ProfileDocument).count() == 0
        assert session.query(ReceiptRow).count() == 2
        digests = {one.receipt_sha256 for one in session.query(VerdictRow)}
        assert digests >= {by_profiles.sha256, by_receipts.sha256}


def test_an_activation_that_breaks_its_own_rules_is_not_qualified_by_a_declaration(api: ProfileApi) -> None:
    """The verdict and the judgement of the same bytes do not contradict each other (profile-contract §16)."""
    sound = rig.activation(own=True)
    papers = {
        "sound": rig.dump(sound),
        "ACT_CHECK:ROWS_SPLIT": rig.dump(rig.put(sound, "/ranks/0/mhc_owner_rows", [512, 2048])),
        "ACT_CHECK:GUARD_DCP_NAME": rig.dump(sound | {"profile": "tp4-dcp1-sparkcache"}),
        "ACT_CHECK:ACT_RANK_SET": rig.dump(rig.put(sound, "/ranks/1/rank", True)),
    }
    for code, raw in papers.items():
        sent = api.client.post("/api/v1/receipts", headers=api.headers, content=raw)
        assert sent.status_code == 201
        body = {"reason": "compared by hand", "receipts": [rig.sha(raw)]}
        api.client.post("/api/v1/declarations", headers=api.headers, json=body).raise_for_status()
        got = api.client.get(f"/api/v1/receipts/{rig.sha(raw)}", headers=api.headers).json()
        (verdict,) = got["verdicts"]
        assert verdict["outcome"] == ("qualified" if code == "sound" else "incomplete")
        assert code == "sound" or code in verdict["codes"]


def test_evidence_needs_the_scope_of_receipts_too(
    client: TestClient, keys: dict[str, str], database: Database
) -> None:
    with database.transaction() as session:
        scopes = frozenset({Scope.PROFILES_READ, Scope.PROFILES_WRITE})
        key = accounts.create_key(session, account_name="ada", label="profiles", scopes=scopes)
    only = ProfileApi(client, key=key)
    assert only.add(rows.contract()).status_code == 201
    refused = only.add(rows.activation())
    assert (refused.status_code, refused.json()["code"]) == (403, "scope-missing")


def test_lists_page_over_both_tables_in_one_order(api: ProfileApi) -> None:
    papers = rows.everything()
    api.fill(papers)
    seen: list[str] = []
    token = ""
    while True:
        answer = api.get("/documents", page_size=3, **({"page_token": token} if token else {})).json()
        seen += [one["sha256"] for one in answer["documents"]]
        token = answer["next_page_token"]
        if not token:
            break
    assert seen == [paper.sha256 for paper in reversed(papers)]
    texts = api.get("/documents", text="ENV.EXAMPLE").json()["documents"]
    assert {one["kind"] for one in texts} == {"template"}
    assert api.get("/documents", text="100%").json()["documents"] == []
    assert api.get("/documents", kind="nonsense").status_code == 422


Refusal = tuple[bytes, dict[str, str], str, str, str]
REFUSED: dict[str, Refusal] = {
    "no JSON": (b"{", {}, "document-refused", "DOC_JSON_INVALID", ""),
    "empty": (b"", {}, "document-refused", "DOC_JSON_INVALID", ""),
    "merge markers": (b'{"a": 1,\n<<<<<<< mine\n"b": 2}', {}, "document-refused", "DOC_JSON_INVALID", ""),
    "a key twice": (b'{"schema": "x", "schema": "y"}', {}, "document-refused", "DOC_JSON_INVALID", "/schema"),
    "NaN": (b'{"schema": NaN}', {}, "document-refused", "DOC_JSON_INVALID", "/schema"),
    "no schema": (b"{}", {}, "document-unknown", "DOC_SCHEMA_UNKNOWN", "/schema"),
    "a list": (b"[]", {}, "document-unknown", "DOC_SCHEMA_UNKNOWN", ""),
    "an unknown schema": (b'{"schema": "x/v1"}', {}, "document-unknown", "DOC_SCHEMA_UNKNOWN", "/schema"),
    "another kind": (
        rows.contract().raw,
        {"kind": "claim"},
        "document-unknown",
        "DOC_SCHEMA_UNKNOWN",
        "/schema",
    ),
    "too deep": (
        b'{"schema": ' + b"[" * 100 + b"]" * 100 + b"}",
        {},
        "document-refused",
        "DOC_TOO_LARGE",
        "",
    ),
    "a contract without image": (
        rig.dump(rig.put(rig.contract(), "/image", rig.DROP)),
        {},
        "document-refused",
        "CT_FIELD_MISSING",
        "/image",
    ),
    "a contract that leads out": (
        rig.dump(rig.put(rig.contract(), "/image/artifact_lock", "../../etc/passwd")),
        {},
        "document-refused",
        "DOC_PATH_UNSAFE",
        "/image/artifact_lock",
    ),
    "an absolute path": (
        rig.dump(rig.put(rig.contract(), "/image/artifact_lock", "/etc/passwd")),
        {},
        "document-refused",
        "DOC_PATH_UNSAFE",
        "/image/artifact_lock",
    ),
    "a template with a key twice": (
        b"A=1\nA=2\n",
        {"kind": "template"},
        "document-refused",
        "TPL_DUP_KEY",
        "/A",
    ),
    "a template that is no line": (b"nonsense\n", {"kind": "template"}, "document-refused", "TPL_SYNTAX", ""),
    "a template with CRLF": (b"A=1\r\n", {"kind": "template"}, "document-refused", "TPL_VALUE", ""),
    "no UTF-8": (b"\xff\xfe", {"kind": "template"}, "document-refused", "TPL_VALUE", ""),
    "2,001 keys": (
        b"".join(b"K%d=1\n" % one for one in range(2001)),
        {"kind": "template"},
        "document-refused",
        "DOC_TOO_LARGE",
        "",
    ),
    "a lock with too many entries": (
        rig.dump(
            {
                "schema": "sparkring-r33-candidate-source-lock/v1",
                "installed_files": {f"f{n}": "0" * 64 for n in range(200_001)},
            }
        ),
        {},
        "document-refused",
        "DOC_TOO_LARGE",
        "",
    ),
    "a claim of a wrong state": (
        rig.dump({"schema": "sparkgate-claim/v1", "state": "maybe"}),
        {},
        "document-refused",
        "DOC_FIELD",
        "",
    ),
    "an overlay check of words": (
        rig.dump({"schema": "sparkgate-overlay-check/v1", "result": "good"}),
        {},
        "document-refused",
        "DOC_FIELD",
        "/",
    ),
    "anchors that are a list": (
        rig.dump({"schema": "sparkgate-overlay-anchors/v1", "files": []}),
        {},
        "document-refused",
        "DOC_FIELD",
        "/files",
    ),
    "a launch document without mounts": (
        rig.dump({"Path": 1, "Config": []}),
        {"kind": "launch"},
        "document-refused",
        "DOC_FIELD",
        "",
    ),
}


def test_what_is_not_in_form_is_a_422_with_code_and_pointer(api: ProfileApi, database: Database) -> None:
    wrong = []
    for why, (raw, parameters, problem, code, pointer) in REFUSED.items():
        answer = api.client.post(rows.DOCUMENTS, headers=api.headers, params=parameters, content=raw)
        said = (answer.json().get("errors") or [{"pointer": "", "detail": ""}])[0]
        found = (answer.status_code, answer.json().get("code"), said["detail"].partition(":")[0])
        fits = found == (422, problem, code) and said["pointer"].startswith(pointer)
        if not fits or len(answer.content) > 20_000:
            wrong.append((why, found, said["pointer"], answer.text[:300]))
    assert wrong == []
    with database.reading() as session:
        assert session.query(ProfileDocument).count() == session.query(ReceiptRow).count() == 0


def test_every_kind_refuses_an_empty_document_of_its_schema(api: ProfileApi) -> None:
    """Known schemas whose form is looked at; the others are kept as what they say they are."""
    for schema, kind in SCHEMAS.items():
        answer = api.client.post(
            rows.DOCUMENTS,
            headers=api.headers,
            content=rig.dump({"schema": schema, "profiles": 7, "files": 7}),
        )
        assert answer.status_code in (201, 422), (kind, answer.text)
        if answer.status_code == 422:
            assert answer.json()["errors"], kind


def test_a_secret_is_not_kept_nor_repeated(api: ProfileApi) -> None:
    launch = {
        "Path": "serve",
        "Config": {"Entrypoint": ["serve"], "Env": ["API_KEY=hush-hush", "A=1"]},
        "Mounts": [],
    }
    for raw, parameters, pointer in (
        (rig.dump(launch), {"kind": "launch"}, "/Config/Env/0"),
        (b"A=1\nVLLM_API_KEY=hush-hush\n", {"kind": "template"}, "/VLLM_API_KEY"),
        (b"REGISTRY=https://me:hush-hush@example.org/\n", {"kind": "template"}, "/REGISTRY"),
    ):
        answer = api.client.post(rows.DOCUMENTS, headers=api.headers, params=parameters, content=raw)
        assert (answer.status_code, answer.json()["code"]) == (422, "document-holds-secret")
        assert answer.json()["errors"][0]["pointer"] == pointer
        assert "hush" not in answer.text
    launch["Config"]["Env"] = ["A=1", "API_KEY="]  # type: ignore[index]
    kept = api.client.post(rows.DOCUMENTS, headers=api.headers, content=rig.dump(launch))
    assert (kept.status_code, kept.json()["kind"]) == (201, "launch")


def test_a_body_over_the_limit_is_refused_before_it_is_read(client: TestClient, keys: dict[str, str]) -> None:
    """100 MB in pieces and without a length; and 9 MiB, which no other route takes."""
    for preset in ("operator", "viewer"):
        headers = {"Authorization": f"Bearer {keys[preset]}"}
        pieces = (b" " * (1 << 20) for _ in range(100))
        answer = client.post(rows.DOCUMENTS, headers=headers, content=pieces)
        assert (answer.status_code, answer.json()["code"]) == (413, "content-too-large")
    operator = ProfileApi(client, key=keys["operator"])
    large = b"#" * (9 << 20) + b"\nA=1\n"
    assert operator.add(rows.Paper(raw=large, path="large.env", kind="template")).status_code == 201
    assert operator.post("/activations/judge", large).status_code == 413


def test_nothing_is_changed_or_removed(api: ProfileApi, database: Database) -> None:
    paper = rows.contract()
    api.add(paper)
    for method in ("PUT", "PATCH", "DELETE"):
        answer = api.client.request(method, f"{rows.DOCUMENTS}/{paper.sha256}", headers=api.headers)
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    with pytest.raises(Exception, match="permission denied"), database.transaction() as session:
        session.query(ProfileDocument).delete()
