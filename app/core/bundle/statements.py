"""in-toto statements: each receipt's verdict as a test result, each scope's as a verification summary.

Formats: in-toto Statement v1, predicate test-result v0.1 (in-toto attestation), SLSA verification summary v1.
The summary passes where the image is deployable for exactly that scope: that is the admission decision.
"""

from collections.abc import Callable
from typing import Final

from app.core.bundle.csv_text import utc_text
from app.core.bundle.layout import receipt_path
from app.core.bundle.records import RowRecord
from app.core.canonical_json import JsonObject, JsonValue, encode_canonical

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
_STATEMENT: Final = "https://in-toto.io/Statement/v1"
_TEST_RESULT: Final = "https://in-toto.io/attestation/test-result/v0.1"
_SUMMARY: Final = "https://slsa.dev/verification_summary/v1"
_PASSED: Final = frozenset({"qualified"})
_FAILED: Final = frozenset({"rejected", "unsupported"})
_HOLDS: Final = frozenset({"demonstrated", "attested"})
_DIGESTS: Final = {"commit": "gitCommit", "tree": "gitTree", "sha256": "sha256", "wheel": "sha256"}


def run_statement(row: RowRecord, says: JsonObject) -> bytes | None:
    """A receipt's verdict as a test result; none where the document is no receipt of a run."""
    outcome = row.text("outcome")
    if row.text("kind") != "receipt" or outcome == "none":
        return None
    receipt = row.text("receipt_sha256")
    gates = _gates(says)
    result = "PASSED" if outcome in _PASSED else "FAILED" if outcome in _FAILED else "WARNED"
    predicate: JsonObject = {
        "result": result,
        "configuration": [
            {"name": "receipt", "uri": receipt_path(receipt), "digest": {"sha256": receipt}},
            {"name": "ruleset", "digest": {"sha256": row.text("ruleset")}},
        ],
        "passedTests": _named(gates, lambda state: state in _HOLDS),
        "warnedTests": _named(gates, lambda state: state not in _HOLDS and state != "failed"),
        "failedTests": _named(gates, lambda state: state == "failed"),
    }
    return _statement(_subjects(row) or [_subject("receipt", "sha256", receipt)], _TEST_RESULT, predicate)


def scope_statement(row: RowRecord, says: JsonObject, *, verifier: str) -> bytes | None:
    """A scope's verdict as a verification summary; none for other verdicts.

    Args: verifier: who decided: the name of the log.
    """
    if row.text("kind") != "scope":
        return None
    inputs: list[JsonValue] = [
        {"uri": receipt_path(one), "digest": {"sha256": one}} for one in _receipts(says)
    ]
    deployable = row.text("deployable") == "true"
    levels: list[JsonValue] = ["SPARKGATE_QUALIFIED"] if row.text("outcome") in _PASSED else []
    predicate: JsonObject = {
        "verifier": {"id": f"urn:sparkgate:{verifier}"},
        "timeVerified": utc_text(row.text("created_at")),
        "resourceUri": f"urn:sparkgate:scope:sha256:{row.text('scope_digest')}:{row.text('capability')}",
        "policy": {"uri": "urn:sparkgate:ruleset", "digest": {"sha256": row.text("ruleset")}},
        "inputAttestations": inputs,
        "verificationResult": "PASSED" if deployable else "FAILED",
        "verifiedLevels": levels,
        "slsaVersion": "1.0",
    }
    subjects = _subjects(row) or [_subject("scope", "sha256", row.text("scope_digest"))]
    return _statement(subjects, _SUMMARY, predicate)


def _statement(subjects: list[JsonValue], kind: str, predicate: JsonObject) -> bytes:
    return encode_canonical(
        {"_type": _STATEMENT, "subject": subjects, "predicateType": kind, "predicate": predicate}
    )


def _subjects(row: RowRecord) -> list[JsonValue]:
    """The image by its config id, and the source by whatever names it."""
    found: list[JsonValue] = []
    if image := row.text("image_config_id"):
        found.append(_subject("image-config", "sha256", image))
    for part in row.text("source").split():
        axis, _, value = part.partition("=")
        if axis in _DIGESTS and value:
            found.append(_subject(f"source-{axis}", _DIGESTS[axis], value))
    return found


def _subject(name: str, algorithm: str, digest: str) -> JsonValue:
    return {"name": name, "digest": {algorithm: digest}}


def _gates(says: JsonObject) -> list[tuple[str, str]]:
    gates = says.get("gates")
    listed = [one for one in gates if isinstance(one, dict)] if isinstance(gates, list) else []
    return [(str(one.get("gate")), str(one.get("state"))) for one in listed]


def _named(gates: list[tuple[str, str]], wanted: Callable[[str], bool]) -> list[JsonValue]:
    return [gate for gate, state in gates if state != "not applicable" and wanted(state)]


def _receipts(says: JsonObject) -> list[str]:
    named = says.get("receipts")
    first = named.get("first") if isinstance(named, dict) else None
    return [one for one in first if isinstance(one, str)] if isinstance(first, list) else []
