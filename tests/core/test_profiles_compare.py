"""The diff of contracts and profiles, and the matrix with its two columns."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.digest import Digest
from app.core.profiles.diff import Change, diff_contracts, diff_object, diff_profiles, diff_values
from app.core.profiles.findings import CheckResult
from app.core.profiles.matrix import (
    ActivationEvidence,
    Around,
    EvidenceKind,
    MatrixRow,
    Recommendation,
    Status,
    matrix_object,
    matrix_rows,
)
from app.core.profiles.release import read_catalog_entry, read_publication, read_release_selection
from tests.core import profile_folder as made
from tests.core.profile_rig import dump, put
from tests.core.test_profiles_release import DEPLOYMENT, PUBLICATION, SELECTION

Json = dict[str, Any]
NAME = "tp4-dcp4-sparkcache"


def test_a_contract_differs_from_itself_in_nothing() -> None:
    assert diff_contracts(made.contract(), made.contract()).lines == ()


def test_every_leaf_that_differs_is_a_line() -> None:
    left, right = made.contract_document(), made.contract_document()
    del right["profiles"]["tp4-dcp4"]["lifecycle"]
    right["model"]["max_model_len"] = 262_144
    right["image"]["required_receipts"] = ["build", "more", "wheels"]
    right["profiles"]["tp4-dcp1"]["new"] = {"a": 1, "b": []}
    lines = diff_values(left, right).lines
    assert {(one.pointer, one.change, one.left, one.right) for one in lines} == {
        ("/profiles/tp4-dcp4/lifecycle", Change.REMOVED, '"guide.md"', None),
        ("/model/max_model_len", Change.CHANGED, "1048576", "262144"),
        ("/image/required_receipts/1", Change.CHANGED, '"wheels"', '"more"'),
        ("/image/required_receipts/2", Change.ADDED, None, '"wheels"'),
        ("/profiles/tp4-dcp1/new/a", Change.ADDED, None, "1"),
        ("/profiles/tp4-dcp1/new/b", Change.ADDED, None, "[]"),
    }


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (1, True, False),
        (1, Decimal("1.0"), False),
        (Decimal("0.10"), Decimal("0.1"), False),
        (Decimal("0.1"), Decimal("0.1"), True),
        (None, False, False),
        ("1", 1, False),
        ({}, [], False),
    ],
)
def test_values_are_compared_with_their_type(left: Any, right: Any, equal: bool) -> None:
    assert (diff_values(left, right).lines == ()) is equal


def test_profiles_differ_in_entry_and_environment_with_their_origin() -> None:
    told = diff_profiles(made.resolved("tp4-dcp1"), made.resolved("tp4-dcp4"))
    lines = {one.pointer: one for one in told.lines}
    assert set(lines) == {
        "/entry/template",
        "/entry/decode_context_parallel_size",
        "/entry/inherits",
        "/environment/SOURCE_IMAGE_PROFILE",
        "/environment/DECODE_CONTEXT_PARALLEL_SIZE",
    }
    line = lines["/environment/DECODE_CONTEXT_PARALLEL_SIZE"]
    assert (line.left, line.right) == ("1", "4")
    assert line.note == "own_template tp4-dcp1.env.example:4 → own_template tp4-dcp4.env.example:4"


def test_a_diff_masks_secrets() -> None:
    told = diff_object(diff_values({"api_key": "hush"}, {"api_key": "hush2", "token": "hush3"}))
    assert "hush" not in str(told)
    assert len(told["lines"]) == 2  # type: ignore[arg-type]


def test_a_diff_is_cut() -> None:
    told = diff_values(list(range(30_000)), [])
    assert (len(told.lines), told.is_cut) == (20_000, True)


DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=2)
EXACT = st.recursive(
    st.none() | st.booleans() | st.integers() | DECIMALS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(left=EXACT, right=EXACT)
def test_equal_values_and_only_those_have_no_lines(left: Any, right: Any) -> None:
    assert diff_values(left, left).lines == ()
    assert bool(diff_values(left, right).lines) is bool(diff_values(right, left).lines)


def rows(**around: Any) -> dict[tuple[int, int, bool], MatrixRow]:
    made_rows = matrix_rows(made.contract(), around=Around(**around))
    return {(r.tensor_parallel_size, r.decode_context_parallel_size, r.sparkcache): r for r in made_rows}


def test_without_other_documents_a_profile_is_what_its_contract_is() -> None:
    row = rows()[(4, 4, True)]
    assert (row.profile, row.status, row.recommendation) == (NAME, Status.RESEARCH_ONLY, None)
    assert row.status_evidence.kind is EvidenceKind.CONTRACT
    assert row.status_evidence.sha256 == made.contract().sha256


def test_combinations_without_a_profile_are_unsupported() -> None:
    row = rows()[(2, 4, True)]
    assert (row.profile, row.status) == (None, Status.UNSUPPORTED)
    assert "does not divide" in row.status_evidence.says
    assert len(rows()) == 8


@pytest.mark.parametrize(
    ("word", "recommendation"),
    [
        ("retired", Recommendation.RETIRED),
        ("alternative", Recommendation.AVAILABLE),
        ("recommended", Recommendation.PREFERRED),
        ("unheard of", None),
    ],
)
def test_status_and_recommendation_are_two_columns(word: str, recommendation: Recommendation | None) -> None:
    entry = read_catalog_entry(dump(put(DEPLOYMENT, "/recommendation", word)))
    row = rows(catalog=[entry])[(4, 4, False)]
    assert (row.status, row.recommendation) == (Status.QUALIFIED, recommendation)
    assert row.status_evidence.pointer == "/status"
    assert row.status_evidence.sha256 == entry.sha256
    if recommendation is not None:
        assert row.recommendation_evidence is not None
        assert row.recommendation_evidence.pointer == "/recommendation"


def test_an_unknown_status_word_changes_nothing() -> None:
    entry = read_catalog_entry(dump(put(DEPLOYMENT, "/status", "validated")))
    assert rows(catalog=[entry])[(4, 4, False)].status is Status.RESEARCH_ONLY


def test_a_catalog_speaks_of_the_contract_its_release_pins() -> None:
    entry = read_catalog_entry(dump(DEPLOYMENT))
    other = read_release_selection(dump(SELECTION))
    assert rows(catalog=[entry], selections=[other])[(4, 4, False)].status is Status.RESEARCH_ONLY
    own = read_release_selection(dump(put(SELECTION, "/inputs/0/sha256", made.contract().sha256)))
    row = rows(catalog=[entry], selections=[own])[(4, 4, False)]
    assert row.status is Status.QUALIFIED
    assert EvidenceKind.RELEASE_SELECTION in {one.kind for one in row.evidence}


def test_publications_and_activations_stand_behind_a_row_and_change_no_column() -> None:
    contract = made.contract().sha256
    receipts = [
        ActivationEvidence(
            sha256=Digest("0a" * 32), profile=NAME, contract_sha256=contract, result=CheckResult.PASS
        ),
        ActivationEvidence(sha256=Digest("0b" * 32), profile=NAME, contract_sha256="00" * 32),
    ]
    row = rows(publications=[read_publication(dump(PUBLICATION))], activations=receipts)[(4, 4, True)]
    assert (row.status, row.recommendation) == (Status.RESEARCH_ONLY, None)
    assert [(one.kind, one.sha256) for one in row.evidence][-1:] == [(EvidenceKind.ACTIVATION, "0a" * 32)]
    assert EvidenceKind.PUBLICATION in {one.kind for one in row.evidence}
    assert "activation receipt: pass" in str(matrix_object([row]))
