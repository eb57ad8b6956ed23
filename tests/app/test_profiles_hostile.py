"""Hostile profile documents over the API: loops, crowds, odd places and words; no 500, no second row."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.core.profiles.documents import SCHEMAS, DocumentKind
from app.db.session import Database
from app.errors import Refused
from app.models import LedgerLeaf, ProfileDocument, ProfilePlace, ReceiptRow
from app.profiles.service import read_bytes
from tests.app import profile_rows as rows
from tests.app.profile_rows import ProfileApi
from tests.core import profile_rig as rig


@pytest.fixture
def api(client: TestClient, keys: dict[str, str]) -> ProfileApi:
    return ProfileApi(client, key=keys["operator"])


def test_profiles_that_inherit_in_circles_are_told_and_end(api: ProfileApi) -> None:
    loop = rows.contract(**{"__profiles__tp4-dcp4__inherits": "tp4-dcp4-sparkcache"})
    itself = rows.contract(**{"__profiles__tp4-dcp4__inherits": "tp4-dcp4"})
    nobody = rows.contract(**{"__profiles__tp4-dcp4__inherits": "nobody"})
    wanted = {loop: "CT_INHERIT_CYCLE", itself: "CT_INHERIT_CYCLE", nobody: "CT_PARENT_UNKNOWN"}
    api.fill([*wanted, *rows.templates(), rows.image_receipt()])
    for paper, code in wanted.items():
        answer = api.get(f"/{paper.sha256}/tp4-dcp4")
        assert answer.status_code == 200, answer.text
        assert code in {one["code"] for one in answer.json()["findings"] if one["result"] == "fail"}
        own = f"/{paper.sha256}/tp4-dcp4"
        assert api.get(f"{own}/plan").status_code == api.get(f"{own}/namespace").status_code == 200
        assert api.get(f"{own}/diff", with_profile="tp4-dcp1-sparkcache").status_code == 200


def test_the_largest_contract_is_answered(api: ProfileApi) -> None:
    made = rig.contract()
    made["profiles"] = {f"p{number:03}": rig.entry(cache=bool(number % 2)) for number in range(256)}
    paper = rows.Paper(raw=rig.dump(made), path=rows.CONTRACT_PATH)
    api.fill([paper, *rows.templates(), rows.image_receipt()])
    assert len(api.get("").json()["profiles"]) == 256
    assert api.get("/namespaces").status_code == 200
    made["profiles"]["one-more"] = rig.entry()
    refused = api.add(rows.Paper(raw=rig.dump(made), path=rows.CONTRACT_PATH))
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/profiles")


def test_a_crowd_with_one_document_makes_one_row(api: ProfileApi, database: Database) -> None:
    papers = [rows.contract(), rows.activation()]
    with ThreadPoolExecutor(max_workers=6) as pool:
        answers = list(pool.map(api.add, papers * 6))
    assert sorted(answer.status_code for answer in answers) == [200] * 10 + [201] * 2
    with database.reading() as session:
        assert session.query(ProfileDocument).count() == 1
        assert session.query(ProfilePlace).count() == 1
        assert session.query(ReceiptRow).count() == 1
        added = session.query(LedgerLeaf).filter_by(kind="profile-document-added").count()
    assert added == 1, "one leaf, for the one that was new"


ODD_PLACES: tuple[dict[str, str], ...] = (
    {"path": "../../../etc/passwd"},
    {"path": "/etc/passwd/"},
    {"path": "%00"},
    {"path": "a" * 1000},
    {"path": "\N{RIGHT-TO-LEFT OVERRIDE}txt.json", "repository": "<b>"},
)
REFUSED_PLACES: tuple[dict[str, str], ...] = (
    {"path": ""},
    {"path": "a\0b"},
    {"path": "a" * 1001},
    {"repository": "only"},
    {"commit": "c" * 40},
    {"path": "a", "commit": "main"},
    {"path": "a", "kind": "nonsense"},
    {"path": "a", "king": "template"},
)


def test_a_place_is_a_label_and_never_opened(api: ProfileApi) -> None:
    paper = rows.Paper(raw=rows.contract().raw, path="")
    for place in ODD_PLACES:
        answer = api.add(paper, **place)
        assert answer.status_code in (200, 201), (place, answer.text)
    for place in REFUSED_PLACES:
        answer = api.client.post(rows.DOCUMENTS, headers=api.headers, params=place, content=paper.raw)
        assert (answer.status_code, answer.json()["errors"] != []) == (422, True), place
    assert api.get("/documents", text="%").status_code == 200
    assert api.get("/documents", text="\0").status_code == 422
    assert api.get("/documents", page_token="x").status_code == 400


WORDS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
# Members that some kind or other looks for.
MEMBERS = (
    *("image", "profiles", "templates", "files", "inputs", "ranks", "serving", "claims", "state", "findings"),
    *("subject_sha256", "counts", "identity", "configuration", "id", "installed_files", "checked_files"),
    *("qualification", "image_id", "artifact_lock_sha256", "profile"),
)
DOCUMENTS = st.builds(
    lambda schema, members: {**members, "schema": schema},
    st.sampled_from(sorted(SCHEMAS)),
    st.dictionaries(st.sampled_from(MEMBERS) | st.text(max_size=6), WORDS, max_size=5),
)


@pytest.mark.parametrize("way", ["documents", "receipts"])
def test_whatever_comes_in_nothing_breaks_what_is_read(api: ProfileApi, way: str) -> None:
    """Taken in or refused with a pointer; and every list and page of profiles answers afterwards."""
    api.fill(rows.everything())
    url = rows.DOCUMENTS if way == "documents" else "/api/v1/receipts"

    @settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(DOCUMENTS)
    def send(document: dict[str, Any]) -> None:
        answer = api.client.post(url, headers=api.headers, content=rig.dump(document))
        assert answer.status_code in (200, 201, 422), answer.text
        if answer.status_code == 422:
            assert answer.json()["errors"], answer.text
            return
        if way == "documents":
            shown = api.get(f"/documents/{answer.json()['sha256']}")
            assert shown.status_code == 200, shown.text

    send()
    own = rows.contract().sha256
    for path in ("", "/documents", "/activations", "/claims", "/namespaces", f"/{own}/tp4-dcp4-sparkcache"):
        assert api.get(path).status_code == 200, path


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_bytes_of_any_kind_are_read_or_refused(raw: bytes) -> None:
    """The same without a database: what the route calls first."""
    for kind in (None, *DocumentKind):
        refused = refusal_of(raw, kind=kind)
        assert refused is None or (refused.status == 422 and refused.errors), kind


def refusal_of(raw: bytes, *, kind: DocumentKind | None) -> Refused | None:
    try:
        read_bytes(raw, kind=kind, name="x.json")
    except Refused as error:
        return error
    return None
