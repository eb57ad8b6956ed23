"""Documents that are strict JSON and still meant to hurt: kept, judged, and nothing falls over."""

from typing import Any

from tests.app.evidence_client import Evidence
from tests.app.evidence_documents import IMAGE, publication, receipt

LONG = "x" * 300_000
NUL = "a\0b"


TEXTS = [LONG, NUL, "", " ", "%_\\'\"{},", "\u202e\U0001f600", "sha256:", ":" * 50]
PLACES = [
    "schema",
    "status",
    "artifact__image",
    "artifact__image_id",
    "artifact__sparkcache_commit",
    "profile__served_model",
    "profile__publication_schema",
    "case__restore_oracle",
]
VALUES: list[Any] = [None, True, -1, 0, 10**4000, 1.5, [], {}, [[]], "4", -(2**70)]
PARTS = ["profile__tensor_parallel_size", "rank_restore_evidence", "case", "artifact"]


def test_a_text_may_be_anything(evidence: Evidence) -> None:
    for place in PLACES:
        for number, text in enumerate(TEXTS):
            made = evidence.append(receipt(**{place: text}, input_sha256={"n": str(number)}))
            assert made["verdicts"], (place, text[:20])
            assert evidence.get(f"receipts/{made['sha256']}")["sha256"] == made["sha256"]
            for one in made["verdicts"]:
                evidence.get(f"verdicts/{one['id']}")
    evidence.get("verdicts")


def test_a_value_may_be_anything(evidence: Evidence) -> None:
    for place in PARTS:
        for value in VALUES:
            made = evidence.append(receipt(**{place: value}))
            assert all(one["outcome"] != "qualified" for one in made["verdicts"]), (place, str(value)[:20])


def test_a_document_may_point_to_very_many_places(evidence: Evidence) -> None:
    pins = {f"repository_{n}": f"{n:064x}" for n in range(5_000)}
    made = evidence.append(receipt(input_sha256=pins), repository="r", path="a/b.json")
    assert made["verdicts"]
    evidence.append(receipt(input_sha256=pins), status=200, repository="r", path="c/d.json")


def test_very_many_receipts_of_one_image_are_judged_by_a_few(evidence: Evidence) -> None:
    for number in range(30):
        evidence.append(receipt(profile__profile_id=f"p{number}"))
    evidence.append(publication(image_config_id=IMAGE))
    (scope,) = evidence.scopes(deployable=True)
    assert len(scope["receipts"]) == 30
