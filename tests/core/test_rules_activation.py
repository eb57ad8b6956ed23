"""Activation receipts as receipts: one that breaks a rule its own bytes can show is never qualified.

What the verdict finds is held against the judgement with a contract (profile-contract §11, §14, §16, §18):
it never refuses what that one passes, and misses only what the contract alone says.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from app.cli import cli
from app.core.bundle.code_archive import verifier_archive
from app.core.errors import DocumentError
from app.core.profiles.activation import judge_activation
from app.core.profiles.findings import CheckResult
from app.core.qualify.activation_bounds import named
from app.core.qualify.findings import Outcome, Row
from app.core.qualify.surroundings import Declaration, Surroundings
from app.core.qualify.verdict import Verdict
from tests.core.judging import codes, facts_of, judge
from tests.core.profile_rig import DROP, REAL, activation, dump, put
from tests.core.test_profiles_activation import IMAGE, MADE, STRICT_ONLY, VECTORS, Json
from tests.core.test_profiles_activation_own import JSON, OWN, PLACES, evidenced

# What the table of vectors says where the document alone does not show it.
OF_THE_CONTRACT = {
    "3": "another contract's digest is a digest",
    "19": "a limit is a number",
    "/image/platform": "a platform is a word",
    "/image/artifact_lock_sha256": "another lock's digest is a digest",
    "/image/sources/vllm_status_lines": "sources are the contract's",
    "/image/sources/more": "sources are the contract's",
    "/image/sources": "sources are the contract's",
    "/image/component_receipts/build": "which receipts there must be is the contract's",
    "/image/component_receipts/more": "which receipts there must be is the contract's",
}
# Said under another name, which blocks as much.
OTHER_NAME = {
    "another schema": "NOT_A_RECEIPT:claim",
    "no schema": "SCHEMA_ABSENT",
    "one rank without a degree": "TOPOLOGY_UNBOUND:dcp",
    "/image/nccl_version": "ACT_CHECK:ACT_RANK_NCCL",
}


def declared(document: Any) -> Verdict:
    """The verdict where an operator has declared the receipt meant: the only way it could be qualified."""
    word = Declaration(
        who="op", when="2026-11-30T00:00:00Z", reason="meant", receipts=(facts_of(document).sha256,)
    )
    return judge(document, around=Surroundings(declarations=(word,)))


def checks(verdict: Verdict) -> list[str]:
    return [one.detail for one in verdict.findings if one.code == "ACT_CHECK"]


def held_against(made: Json, name: str, code: str | None) -> None:
    """One mutated receipt: below qualified, with the code of the contract's judgement named."""
    verdict = declared(dump(made))
    if code is None or name in OF_THE_CONTRACT:
        assert checks(verdict) == [], name
        return
    assert verdict.outcome is not Outcome.QUALIFIED, name
    if name in OTHER_NAME:
        assert OTHER_NAME[name] in codes(verdict)
        return
    assert code in checks(verdict), name
    assert verdict.row <= Row.INCOMPLETE


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("number", VECTORS)
def test_the_mutations_of_the_table_posted_as_receipts(number: int, own: bool) -> None:
    mutate, _, strict = VECTORS[number]
    made = mutate(evidenced() if own else activation())
    if own and number == 20:
        # In ours the ranks contradict the name, whatever the pool is.
        strict = "GUARD_DCP_NAME"
    if own and number == 22:
        # Evidence of a block goes with it: left behind, it names a field that is not there.
        assert set(checks(declared(dump(made)))) == {"ACT_SCHEMA"}
        del made["evidence"]["/prefix_reuse"], made["evidence"]["/restart_restore"]
    if number == 7:
        with pytest.raises(DocumentError):
            declared(dump(made))
        return
    held_against(made, str(number), strict)


@pytest.mark.parametrize("number", VECTORS)
def test_the_mutations_of_the_published_receipt(shared_dir: Path, number: int) -> None:
    place = shared_dir / REAL / "profiles/evidence/tp4-dcp4-sparkcache-activation-20260911.json"
    if not place.is_file():
        pytest.skip(f"reference data: expected {place}, found none")
    mutate, _, strict = VECTORS[number]
    if strict != "DOC_JSON_INVALID":
        held_against(mutate(json.loads(place.read_bytes())), str(number), strict)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("name", STRICT_ONLY)
def test_other_values_refused_by_the_strict_rules(name: str, own: bool) -> None:
    pointer, value, _, strict = STRICT_ONLY[name]
    made = put(evidenced() if own else activation(), pointer, value)
    if own and strict == "KV_POOL_WINDOW":
        # A bound receipt outside the window only warns (§15).
        held_against(made, name, None)
    else:
        held_against(made, name, strict)


@pytest.mark.parametrize("name", OWN)
def test_what_a_receipt_of_our_own_must_hold(name: str) -> None:
    pointer, value, code = OWN[name]
    made = evidenced()
    if pointer == "/evidence/~1serving":
        made["evidence"]["/serving"] = value
    else:
        made = put(made, pointer, value)
    held_against(made, name, code)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("pointer", IMAGE)
def test_the_embedded_image_receipt(pointer: str, own: bool) -> None:
    value, code = IMAGE[pointer]
    held_against(put(evidenced() if own else activation(), pointer, value), pointer, code)


@pytest.mark.parametrize("profile", MADE.profiles)
@pytest.mark.parametrize("own", [False, True])
def test_a_sound_receipt_breaks_nothing(profile: str, own: bool) -> None:
    verdict = declared(dump(evidenced(profile) if own else activation(profile)))
    assert checks(verdict) == []
    cached = profile.endswith("sparkcache")
    assert verdict.outcome is (Outcome.QUALIFIED if own and cached else Outcome.INCOMPLETE)
    assert ("SEMANTIC_MISSING" in codes(verdict)) is not cached
    assert ("TOPOLOGY_UNBOUND:dcp" in codes(verdict)) is not own


def test_a_broken_rule_makes_the_receipt_incomplete_and_is_its_reason() -> None:
    verdict = declared(dump(put(evidenced(), "/ranks/0/mhc_owner_rows", [512, 2048])))
    assert (verdict.outcome, verdict.row) == (Outcome.INCOMPLETE, Row.INCOMPLETE)
    (one,) = verdict.deciding
    assert (one.name, one.pointer) == ("ACT_CHECK:ROWS_SPLIT", "/ranks/0/mhc_owner_rows")
    assert "512" in one.value


def test_a_wrong_answer_still_rejects() -> None:
    verdict = declared(dump(put(evidenced(), "/sparkcache/payload_correctness_passed", False)))
    assert verdict.outcome is Outcome.REJECTED
    assert "ACT_CACHE_PAYLOAD" in checks(verdict)


def test_degrees_written_into_the_published_schema_bind_nothing() -> None:
    """Only our schema has them, and only there they need evidence (§18.6)."""
    made = activation()
    for one in made["ranks"]:
        one |= {"observed_tp": 4, "observed_dcp": 4}
    verdict = declared(dump(made))
    assert verdict.outcome is Outcome.INCOMPLETE
    assert "TOPOLOGY_UNBOUND:dcp" in codes(verdict)


def test_a_schema_at_another_place_is_none() -> None:
    made = evidenced()
    made["$schema"] = made.pop("schema")
    assert codes(declared(dump(made))) & {"SCHEMA_ABSENT"}


@pytest.mark.parametrize(
    ("ranks", "code"), [({}, "ACT_RANK_SET"), ("four", "ACT_RANK_SET"), ([], "ACT_RANK_SET")]
)
def test_ranks_that_are_no_list(ranks: Any, code: str) -> None:
    for profile in ("tp4-dcp4-sparkcache", "another"):
        verdict = declared(dump(evidenced() | {"ranks": ranks, "profile": profile}))
        assert code in checks(verdict)


def test_a_name_that_says_no_degree_leaves_them_to_the_ranks() -> None:
    """Which profiles there are is the contract's; the number of ranks must still be one there is."""
    assert named("tp4-dcp4-sparkcache-v2") is None
    assert checks(declared(dump(evidenced() | {"profile": "another"}))) == []
    off = put(evidenced() | {"profile": "another"}, "/sparkcache/enabled", False)
    assert "SEMANTIC_MISSING" in codes(declared(dump(off)))
    three = put(evidenced() | {"profile": "another"}, "/ranks/3", DROP)
    assert "ACT_RANK_SET" in checks(declared(dump(three)))
    assert "CT_PROFILE_UNKNOWN" in checks(declared(dump(evidenced() | {"profile": "no name"})))


def test_many_offences_are_told_up_to_a_bound() -> None:
    made = evidenced()
    made["host_activity"] = [{}] * 500
    assert len(checks(declared(dump(made)))) == 64


@given(
    own=st.booleans(),
    profile=st.sampled_from([one for one in MADE.profiles if one.endswith("sparkcache")]),
    changes=st.dictionaries(st.sampled_from(PLACES), JSON, min_size=1, max_size=2),
)
def test_no_value_anywhere_is_qualified_that_the_contract_refuses(
    own: bool, profile: str, changes: Json
) -> None:
    """And what the verdict refuses, the judgement with a contract refuses too."""
    made = evidenced(profile) if own else activation(profile)
    for pointer, value in changes.items():
        try:
            made = put(made, pointer, value)
        except (KeyError, IndexError, TypeError, ValueError):
            continue
    try:
        verdict = declared(json.dumps(made).encode())
    except DocumentError:
        return
    judged = judge_activation(json.dumps(made).encode(), contract=MADE, pinned=True)
    if checks(verdict):
        assert judged.result is CheckResult.FAIL
    if verdict.outcome is Outcome.QUALIFIED:
        of_contract = {"CT_SOURCES", "CT_RECEIPT_NAMES", "IMG_CAPABILITY", "ACT_SERVING"}
        assert {one.code for one in judged.findings if one.blocks} <= of_contract | {
            "ACT_CONTRACT_BINDING",
            "IMG_PLATFORM",
            "CT_LOCK_HASH",
            "CT_PROFILE_UNKNOWN",
        }


_ELSEWHERE = """
import sys
sys.path.insert(0, "verify.pyz")
from app.core.qualify.document import read_document
from app.core.qualify.extract import document_facts
from app.core.qualify.verdict import judge_document
(one,) = judge_document(document_facts(read_document(open("receipt.json", "rb").read())))
print(one.outcome.value, one.ruleset)
for each in one.findings:
    print(each.name, each.pointer)
"""


@pytest.mark.parametrize("pointer", ["/ranks/0/mhc_owner_rows", "/ranks/1/rank", "/evidence"])
def test_it_is_judged_alike_at_a_terminal_and_by_the_verifier_of_a_bundle(
    tmp_path: Path, pointer: str
) -> None:
    raw = dump(put(evidenced(), pointer, [512, 2048]))
    (tmp_path / "receipt.json").write_bytes(raw)
    (tmp_path / "verify.pyz").write_bytes(verifier_archive())
    here = judge(raw)
    done = subprocess.run(
        [sys.executable, "-S", "-I", "-B", "-c", _ELSEWHERE],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        f"{here.outcome.value} {here.ruleset}",
        *(f"{one.name} {one.pointer}" for one in here.findings),
    ]
    told = CliRunner().invoke(cli, ["receipt", "judge", str(tmp_path / "receipt.json"), "--json", "--alone"])
    said = json.loads(told.stdout)
    found = [(one["code"], one["pointer"]) for one in said["findings"]]
    assert (said["outcome"], found) == (here.outcome, [(one.name, one.pointer) for one in here.findings])
    assert checks(here)
