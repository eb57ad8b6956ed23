"""``sparkgate receipt judge``: its JSON, its words, its exit codes, what it reads and what it does not."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from app.cli import cli
from tests.core import evidence_documents as made
from tests.data.evidence_verdicts import corpus_index


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["receipt", "judge", *(str(one) for one in arguments)])


def judged(*arguments: object) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def put(folder: Path, document: Any, *, name: str = "receipt.json") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(document if isinstance(document, bytes) else made.raw(document))
    return path


def test_the_json_holds_what_the_issue_names(tmp_path: Path) -> None:
    document = judged(put(tmp_path, made.single_restore()))
    assert (document["outcome"], document["deployable"]) == ("qualified", False)
    assert (document["evidence_grade"], document["deployable_reason"]) == (
        "demonstrated",
        "NO_REGISTRY_DIGEST",
    )
    assert {"code", "pointer", "value"} <= document["findings"][0].keys()
    assert document["findings"][0]["code"] == "QUALIFIED_EXACT_SCOPE"
    gates = {one["gate"]: one for one in document["gates"]}
    assert (gates["semantic"]["state"], gates["semantic"]["basis"]) == ("demonstrated", "demonstrated")
    assert (gates["control"]["state"], gates["control"]["needed"]) == ("not tested", False)
    assert document["established"]
    assert document["not_established"]
    assert len(document["ruleset"]) == len(document["scope"]["digest"]) == 64


def test_the_words_name_outcome_gates_and_findings(tmp_path: Path) -> None:
    document = made.single_restore()
    document["case"]["restore_oracle"] = "blue"
    result = run(put(tmp_path, document))
    assert result.exit_code == 0
    assert result.stdout.startswith("rejected  (restore)  The answer is not the expected one.")
    for word in (
        "no, SEMANTIC_ORACLE_MISMATCH",
        "gates",
        "findings",
        "semantic",
        "failed",
        "not established",
    ):
        assert word in result.stdout


def test_cases_and_other_capabilities_are_shown(tmp_path: Path) -> None:
    path = put(tmp_path, made.selections())
    document = judged(path)
    assert document["other_capabilities"] == {"restore": "incomplete"}
    assert [one["capability"] for one in document["cases"]] == ["serving", "serving", "restore"]
    assert "cases" in run(path).stdout


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b'{"a":1,"a":2}',
        b"\xef\xbb\xbf{}",
        b'{"a":NaN}',
        b'"\\ud800"',
        b"\xff",
        b"<<<<<<< HEAD\n{}",
        b"[" * 64,
    ],
    ids=["empty", "cut", "twice", "mark", "nan", "surrogate", "no text", "merge", "deep"],
)
def test_what_is_no_strict_json_is_no_receipt(tmp_path: Path, raw: bytes) -> None:
    result = run(put(tmp_path, raw), "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert (document["outcome"], document["deployable"]) == ("none", False)
    assert document["findings"][0]["code"] == "INVALID_JSON"
    assert {"pointer", "value", "offset"} <= document["findings"][0].keys()
    assert "INVALID_JSON" in run(put(tmp_path, raw)).output


def test_a_document_over_the_limit_is_no_receipt(tmp_path: Path) -> None:
    result = run(put(tmp_path, b'"' + b"x" * (4 * 1024 * 1024) + b'"'), "--json")
    assert (result.exit_code, json.loads(result.stdout)["outcome"]) == (1, "none")


def test_a_file_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    for path, found in ((tmp_path / "none.json", "no such file or directory"), (tmp_path, "is a directory")):
        answer = run(path, "--json")
        expected = {"error": f"{path}: expected a document to read, found {found}"}
        assert (answer.exit_code, json.loads(answer.stdout)) == (2, expected)
    assert run(put(tmp_path, made.single_restore()), "--with", tmp_path / "none").exit_code == 2
    assert run(put(tmp_path, made.single_restore()), "--grade", "great").exit_code == 2


def test_an_unknown_schema_is_shown_and_carries_no_verdict(tmp_path: Path) -> None:
    document = judged(put(tmp_path, {"schema": "lab-something/v1", "status": "qualified"}))
    assert (document["outcome"], document["schema"]) == ("none", "lab-something/v1")
    assert document["findings"][0]["code"] == "SCHEMA_UNKNOWN"
    for value in ([], {}, 7, "text", None, {"schema": 7}):
        assert judged(put(tmp_path, made.raw(value)))["outcome"] == "none"


def test_the_grade_decides_what_is_deployable(tmp_path: Path) -> None:
    document = made.composition()
    document["runtime"]["image"] = "registry.example/x@sha256:" + "77" * 32
    path = put(tmp_path, document)
    assert judged(path)["deployable_reason"] == "GRADE_TOO_LOW"
    attested = judged(path, "--grade", "attested")
    assert (attested["deployable"], attested["deployable_grade"]) == (True, "attested")


def test_documents_given_beside_it_are_heard(tmp_path: Path) -> None:
    failure = {
        "schema": "sparkring-glm53-dflash-jit-readiness/v1",
        "status": "qualified",
        "runtime": {"image_id": made.OTHER_IMAGE},
        "failure_observation": {"image_id": made.IMAGE, "symptom": "it stopped"},
    }
    path = put(tmp_path, made.single_restore())
    put(tmp_path, failure, name="more/failure.json")
    put(tmp_path, b"no json", name="more/notes.json")
    assert judged(path)["outcome"] == "qualified"
    document = judged(path, "--with", tmp_path / "more")
    assert document["outcome"] == "research-only"
    (found,) = [one for one in document["findings"] if one["code"] == "KNOWN_FAILURE"]
    assert len(found["document"]) == 64
    assert found["pointer"] == "/failure_observation/symptom"
    assert len(document["read_beside"]) == 1


def test_only_documents_it_names_inside_its_own_tree_are_read(tmp_path: Path) -> None:
    secret = put(tmp_path, made.single_restore(), name="secret.json")
    for named in ("../secret.json", str(secret), "../../../../etc/passwd", "x\x00y"):
        document = made.composition()
        document["evidence"]["machine_receipt"] = named
        assert judged(put(tmp_path, document, name="tree/receipt.json"))["read_beside"] == [], named
    (tmp_path / "tree" / "link.json").symlink_to(secret)
    document = made.composition()
    document["evidence"]["machine_receipt"] = "link.json"
    assert judged(put(tmp_path, document, name="tree/receipt.json"))["read_beside"] == []
    put(tmp_path, made.single_restore(), name="tree/deep/inside.json")
    document["evidence"]["machine_receipt"] = "deep/inside.json"
    path = put(tmp_path, document, name="tree/receipt.json")
    assert len(judged(path)["read_beside"]) == 1
    assert judged(path, "--alone")["read_beside"] == []


def test_nothing_in_a_document_moves_the_terminal(tmp_path: Path) -> None:
    document = made.single_restore()
    document.update(status="\x1b[2J[bold]qualified[/bold]\x07")
    document["case"]["restore_oracle"] = "\x1b]0;title\x07blue"
    result = run(put(tmp_path, document))
    assert "\x1b" not in result.stdout
    assert "\x07" not in result.stdout
    assert "[bold]" in result.stdout


def test_every_document_of_the_corpus_is_judged_as_its_label_says(shared_dir: Path) -> None:
    """Alone, with nothing but the documents it points to."""
    evidence = shared_dir / "evidence"
    for entry in corpus_index(evidence):
        label = entry["label"]
        wanted = label.get("outcome_without_other_receipts") or label["outcome"]
        result = run(evidence / entry["file"], "--json", "--grade", "attested")
        assert json.loads(result.stdout)["outcome"] == wanted, entry["file"]
        assert result.exit_code == (1 if "INVALID_JSON" in label["codes"] else 0)
