"""Receipts through the API: kept byte for byte, judged at once with what they bear on, never changed."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import ProgrammingError

from app.core.digest import sha256
from app.db.session import Database
from app.models import ReceiptOrigin, ReceiptRow, VerdictCurrent, VerdictRow
from tests.app.evidence_client import Evidence
from tests.app.evidence_documents import IMAGE, OTHER_IMAGE, failure, publication, receipt


def test_bytes_come_back_as_they_came(evidence: Evidence) -> None:
    document = b'  {"schema" : "unknown/v1",\r\n "n": 0.030, "s": "\\u0000" }  '
    made = evidence.append(document)
    assert made["sha256"] == sha256(document)
    path = f"/api/v1/receipts/{made['sha256']}/document"
    answer = evidence.client.get(path, headers=evidence.headers("viewer"))
    assert answer.content == document
    assert answer.headers["etag"] == f'"{made["sha256"]}"'
    assert "immutable" in answer.headers["cache-control"]
    again = evidence.client.get(
        path, headers={**evidence.headers("viewer"), "If-None-Match": answer.headers["etag"]}
    )
    assert (again.status_code, again.content) == (304, b"")


def test_same_bytes_again_are_the_same_receipt(evidence: Evidence, database: Database) -> None:
    first = evidence.append(receipt())
    again = evidence.append(receipt(), status=200)
    assert again["changed"] == 0
    assert {**again, "changed": 0} == {**first, "changed": 0}
    with database.reading() as session:
        assert session.query(ReceiptRow).count() == 1


def test_same_bytes_at_another_place_are_noted_there_too(evidence: Evidence, database: Database) -> None:
    evidence.append(receipt(), repository="r", path="a/one.json", commit="c" * 40)
    evidence.append(receipt(), status=200, repository="r", path="b/two.json", commit="c" * 40)
    evidence.append(receipt(), status=200, repository="r", path="b/two.json", commit="c" * 40)
    with database.reading() as session:
        assert {one.path for one in session.query(ReceiptOrigin)} == {"a/one.json", "b/two.json"}


@pytest.mark.parametrize(
    ("document", "pointer", "found"),
    [
        (b'{"a": 1, "b": {"c": 2, "c": 3}}', "/b/c", "more than once"),
        (b'{"a": NaN}', "/a", "NaN"),
        (b'\xef\xbb\xbf{"a": 1}', "", "byte-order mark"),
        (b'{"a": "\\ud800"}', "/a", "surrogate"),
        (b'{"a": 1', "/a", ""),
        (b"", "", ""),
    ],
)
def test_what_is_no_strict_json_is_refused_with_its_pointer(
    evidence: Evidence, database: Database, document: bytes, pointer: str, found: str
) -> None:
    problem = evidence.append(document, status=422)
    assert problem["code"] == "document-refused"
    assert problem["errors"][0]["pointer"] == pointer
    assert found in problem["detail"]
    with database.reading() as session:
        assert session.query(ReceiptRow).count() == 0


def test_more_than_four_mib_is_refused(evidence: Evidence) -> None:
    assert evidence.append(b" " * (4 * 1024 * 1024 + 1), status=413)["code"] == "content-too-large"


def test_nobody_changes_a_receipt(evidence: Evidence, owner_engine: Engine, database: Database) -> None:
    sha = evidence.append(receipt())["sha256"]
    for method in ("PUT", "PATCH", "DELETE"):
        answer = evidence.client.request(
            method, f"/api/v1/receipts/{sha}", headers=evidence.headers("admin"), content=b"{}"
        )
        assert (answer.status_code, answer.json()["code"]) == (405, "method-not-allowed")
    for table in ("receipt", "receipt_origin", "image_identity", "verdict", "declaration"):
        for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET created_at = now()"):
            with (
                pytest.raises(ProgrammingError, match="permission denied"),
                database.transaction() as session,
            ):
                session.execute(text(statement))


def test_a_qualified_receipt_qualifies_its_scope_and_says_what_is_against_deploying(
    evidence: Evidence,
) -> None:
    made = evidence.append(receipt())
    assert [(one["kind"], one["outcome"]) for one in made["verdicts"]] == [("receipt", "qualified")]
    (scope,) = evidence.scopes()
    assert (scope["outcome"], scope["tp"], scope["dcp"]) == ("qualified", "4", "1")
    assert scope["image_config_id"] == IMAGE.removeprefix("sha256:")
    assert (scope["deployable"], scope["deployable_reason"]) == (False, "NO_REGISTRY_DIGEST")
    assert scope["deployable_grade"] == "self-consistent"
    assert scope["receipts"] == [made["sha256"]]
    assert scope["gates"]["semantic"] == {"state": "demonstrated", "basis": "demonstrated", "needed": True}


def test_a_publication_makes_it_deployable_and_a_known_failure_takes_it_all_back(evidence: Evidence) -> None:
    sha = evidence.append(receipt())["sha256"]
    published = evidence.append(publication())["sha256"]
    assert evidence.outcome(sha) == ("qualified", "")
    evidence.append(failure())
    assert evidence.outcome(sha) == ("research-only", "KNOWN_FAILURE")
    (scope,) = evidence.scopes(capability="restore")
    history = evidence.get(f"verdicts/{scope['id']}/history")["verdicts"]
    said = [(one["outcome"], one["deployable"], one["cause"]) for one in history]
    assert said == [
        ("research-only", False, "receipt-imported"),
        ("qualified", True, "receipt-imported"),
        ("qualified", False, "receipt-imported"),
    ]
    assert history[1]["cause_receipt"] == published
    assert [one["previous_id"] for one in history] == [history[1]["id"], history[2]["id"], None]


def test_nothing_transfers_to_another_image(evidence: Evidence) -> None:
    evidence.append(receipt())
    sha = evidence.append(receipt(artifact__image_id=OTHER_IMAGE, case__restore_oracle="spark"))["sha256"]
    assert evidence.outcome(sha)[0] == "rejected"
    found = {one["image_config_id"]: one["outcome"] for one in evidence.scopes()}
    assert found == {"1a" * 32: "qualified", "2b" * 32: "rejected"}


def test_more_passing_receipts_never_outvote_one_mismatch(evidence: Evidence) -> None:
    evidence.append(receipt(case__restore_oracle="spark"))
    for number in range(3):
        evidence.append(receipt(profile__profile_id=f"p{number}"))
    (scope,) = evidence.scopes()
    assert scope["outcome"] == "rejected"
    assert "SEMANTIC_ORACLE_MISMATCH" in scope["codes"]


def test_two_source_commits_of_one_image_are_a_conflict_for_both(evidence: Evidence) -> None:
    first = evidence.append(receipt())["sha256"]
    second = evidence.append(receipt(artifact__sparkcache_commit="9d" * 20))["sha256"]
    assert {evidence.outcome(sha)[0] for sha in (first, second)} == {"research-only"}


def test_the_newer_version_of_a_path_replaces_the_older(evidence: Evidence) -> None:
    bad = receipt(case__restore_oracle="spark")
    older = evidence.append(bad, repository="r", path="v.json", commit="a" * 40)["sha256"]
    (scope,) = evidence.scopes()
    assert scope["outcome"] == "rejected"
    newer = evidence.append(receipt(), repository="r", path="v.json", commit="b" * 40)["sha256"]
    (scope,) = evidence.scopes()
    assert (scope["outcome"], scope["receipts"]) == ("qualified", [newer])
    shown = evidence.get(f"receipts/{older}")["verdicts"][0]
    assert (shown["outcome"], shown["superseded_by"]) == ("rejected", newer)


def test_commit_times_order_versions_that_come_in_the_wrong_order(evidence: Evidence) -> None:
    place = {"repository": "r", "path": "v.json"}
    newer = evidence.append(receipt(), **place, commit="b" * 40, committed_at="2026-03-02T00:00:00Z")[
        "sha256"
    ]
    bad = receipt(case__restore_oracle="spark")
    evidence.append(bad, **place, commit="a" * 40, committed_at="2026-03-01T00:00:00Z")
    (scope,) = evidence.scopes()
    assert (scope["outcome"], scope["receipts"]) == ("qualified", [newer])


def test_a_place_needs_repository_and_path(evidence: Evidence) -> None:
    assert evidence.append(receipt(), status=422, repository="r")["errors"][0]["pointer"] == "/path"
    assert evidence.append(receipt(), status=422, commit="a" * 40)["errors"][0]["pointer"] == "/repository"


def test_lists_are_filtered_and_paged(evidence: Evidence) -> None:
    made = [evidence.append(receipt(profile__profile_id=f"p{n}"))["sha256"] for n in range(5)]
    evidence.append({"schema": "unknown/v1"})
    image = IMAGE.removeprefix("sha256:")
    found, token = [], ""
    while True:
        page = evidence.get("receipts", image=image, page_size=2, **({"page_token": token} if token else {}))
        found += [one["sha256"] for one in page["receipts"]]
        token = page["next_page_token"]
        if not token:
            break
    assert found == made[::-1]
    assert page["total"] == {"count": 5, "is_exact": True}
    assert evidence.get("receipts", kind="unknown")["total"]["count"] == 1
    assert evidence.get("receipts", schema_name="unknown/v1")["total"]["count"] == 1


def test_facts_are_shown_with_pointer_and_basis(evidence: Evidence) -> None:
    sha = evidence.append(receipt())["sha256"]
    facts = evidence.get(f"receipts/{sha}")["facts"]
    assert facts["subject"]["image"] == {
        "value": IMAGE,
        "pointer": "/artifact/image_id",
        "basis": "demonstrated",
    }


def test_an_unknown_schema_is_kept_and_counts_for_nothing(evidence: Evidence) -> None:
    made = evidence.append({"schema": "unknown/v1", "status": "qualified", "image_id": IMAGE})
    assert [one["outcome"] for one in made["verdicts"]] == ["none"]
    assert evidence.scopes() == []


def test_receipts_about_one_image_at_once_lose_no_verdict(evidence: Evidence, database: Database) -> None:
    documents = [receipt(profile__profile_id=f"p{n}") for n in range(6)]
    documents += [receipt(artifact__sparkcache_commit="9d" * 20), publication(), failure()]
    with ThreadPoolExecutor(max_workers=6) as pool:
        made = list(pool.map(evidence.append, documents))
    for one in made[:6]:
        assert evidence.outcome(one["sha256"]) == ("research-only", "IDENTITY_CONFLICT")
    with database.reading() as session:
        for current in session.query(VerdictCurrent):
            rows = session.query(VerdictRow).filter_by(subject_key=current.subject_key).all()
            replaced = {row.previous_id for row in rows}
            assert [row.id for row in rows if row.id not in replaced] == [current.verdict_id]
            assert json.loads(current.verdict.document)["outcome"] == current.outcome
            newest = max(rows, key=lambda row: row.created_at)
            assert newest.id == current.verdict_id
