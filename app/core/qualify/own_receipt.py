"""A finished restore of our own as a receipt: ``sparkgate-restore-receipt/v1`` (evidence-model §7.6).

Its subject is what the ranks measured of themselves, never the image a request named. It claims no status:
only a person's declaration can make it count, and only with an answer in it. Integers and strings only;
times are ns. Facts are read from it by its entry in schemas.json.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

from app.core.canonical_json import JsonObject, JsonValue, encode_canonical
from app.core.digest import Digest, sha256
from app.core.errors import FormatError
from app.core.oracle.agreement import NORMALISATION, compare
from app.core.oracle.partials import RankPartials
from app.core.qualify.rules.identity import OWN_SCHEMA
from app.core.restore.report import RankOutcome, RankReport
from app.core.runtime import Runtime
from app.core.store.identity import CacheIdentity

DIGEST_DIGITS: Final = 64
ONE_TOKEN_CHANGED: Final = "one token changed, equal length, recomputed by the ranks that restored"
"""How a control's prompt is related to the one of the restored request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRank:
    """One rank of a finished restore: who restored, and what it reported. ``report`` is none for a rank
    that was lost; ``context_digest`` is what the rank read, if it came so far; ``partials`` is what its pages
    said, if it was asked."""

    rank: int
    runtime: Runtime
    report: RankReport | None
    context_digest: Digest | None
    end_to_end_ns: int
    partials: RankPartials | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredSnapshot:
    """What was to come back. ``publication_schema`` is the effective one."""

    root: str
    identity: CacheIdentity
    context_digest: Digest
    span_tokens: int
    publication_schema: str
    manifest_schema: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredAnswer:
    """The answer of the restored request, raw and as text; the digest is over the raw bytes."""

    prompt_sha256: Digest
    expected: str
    observed: bytes
    finish_reason: str
    prompt_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlAnswer:
    """The answer to a prompt that differs in one token and is as long, recomputed with nothing restored."""

    prompt_sha256: Digest
    prompt_tokens: int
    expected: str
    observed: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The question that the pages were asked, and what they were found to be: a fault's name, the ranks and
    a sentence, or nothing."""

    question_sha256: Digest
    fault: str | None = None
    ranks: tuple[int, ...] = ()
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedFault:
    """A fault put in on purpose, and on which rank: the restore was a drill."""

    name: str
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRestore:
    """Everything a receipt is made of. ``decision_epoch`` is the epoch in which the ranks were told the
    outcome; ``processes_replaced`` whether other processes restored than had published."""

    restore_id: str
    decision_epoch: int
    decided_at_ns: int
    purpose: str
    snapshot: RestoredSnapshot
    ranks: Sequence[FinishedRank]
    answer: RestoredAnswer | None = None
    control: ControlAnswer | None = None
    asked: Asked | None = None
    processes_replaced: bool | None = None
    injected_fault: InjectedFault | None = None


def restore_receipt(restore: FinishedRestore) -> bytes:
    """The receipt in canonical JSON.

    Raises:
        FormatError: no rank at all, or a rank twice; the answer is no UTF-8.
    """
    numbers = [one.rank for one in restore.ranks]
    if not numbers or len(set(numbers)) != len(numbers):
        raise FormatError("receipt.ranks", expected="every rank once, one at least", found=str(numbers))
    identity, fault, answer = restore.snapshot.identity, restore.injected_fault, _answer_that_counts(restore)
    document: JsonObject = {
        "schema": OWN_SCHEMA,
        "restore_id": restore.restore_id,
        "decision_epoch": restore.decision_epoch,
        "decided_at_ns": restore.decided_at_ns,
        "purpose": restore.purpose,
        "model": {"checkpoint_sha256": identity.target_checkpoint},
        "draft_model": {"checkpoint_sha256": identity.draft_checkpoint},
        "topology": {
            "tensor_parallel_size": identity.tp_degree,
            "decode_context_parallel_size": identity.dcp_degree,
        },
        "snapshot": _snapshot(restore.snapshot),
        "ranks": [_rank(one) for one in sorted(restore.ranks, key=lambda one: one.rank)],
        "oracle": None if restore.asked is None else _asked(restore.asked),
        "semantic": None if answer is None else _answer(answer),
        "control": None if restore.control is None else _control(restore.control),
        "restart": None if restore.processes_replaced is None else {"happened": restore.processes_replaced},
        "injected_fault": None if fault is None else {"name": fault.name, "rank": fault.rank},
        "not_established": list(_open_points(restore)),
    }
    return encode_canonical(document)


def _snapshot(snapshot: RestoredSnapshot) -> JsonObject:
    return {
        "root": snapshot.root,
        "storage_key": snapshot.identity.rank_zero_storage_key,
        "context_digest": snapshot.context_digest,
        "span_tokens": snapshot.span_tokens,
        "publication_schema": snapshot.publication_schema,
        "manifest_schema": snapshot.manifest_schema,
    }


def _rank(one: FinishedRank) -> JsonObject:
    runtime: JsonObject = {**one.runtime.to_document(), "image_config_id": _image(one.runtime)}
    written: JsonObject = {
        "rank": one.rank,
        "runtime": runtime,
        "outcome": "lost" if one.report is None else one.report.outcome.value,
        "context_digest": one.context_digest,
        "end_to_end_ns": one.end_to_end_ns,
        "partials": None if one.partials is None else _partials(one.partials),
    }
    return written if one.report is None else {**written, **_measured(one.report)}


def _image(runtime: Runtime) -> str:
    """As evidence writes a config id, ``sha256:`` and 64 digits; a worker measures the digits alone."""
    measured = runtime.image_config_id
    return f"sha256:{measured}" if len(measured) == DIGEST_DIGITS else measured


def _measured(report: RankReport) -> JsonObject:
    statistics = report.statistics
    layers: list[JsonValue] = [
        {item.name: getattr(layer, item.name) for item in fields(layer)} for layer in report.layers
    ]
    return {
        "report_sha256": sha256(encode_canonical(report.to_document())),
        "manifest_sha256": report.manifest_sha256,
        "bytes": None if statistics is None else statistics.source_bytes,
        "stream_digest": report.stream_digest.value,
        "service_ns": report.service_ns,
        "phases_ns": {phase.value: spent for phase, spent in report.phases_ns.items()},
        "unattributed_ns": report.unattributed_ns,
        "layers": layers,
    }


def _partials(partials: RankPartials) -> JsonObject:
    """What a rank's pages said and are; the whole of it is kept by whoever asked, under its digest."""
    return {
        "sha256": sha256(encode_canonical(partials.to_document())),
        "wrong_pages": partials.wrong_pages,
        "layers": [layer.to_document() for layer in partials.layers],
    }


def _asked(asked: Asked) -> JsonObject:
    diagnosis: JsonObject = {"fault": asked.fault, "ranks": list(asked.ranks), "detail": asked.detail}
    return {
        "question_sha256": asked.question_sha256,
        "diagnosis": None if asked.fault is None else diagnosis,
    }


def _answer_that_counts(restore: FinishedRestore) -> RestoredAnswer | None:
    """The answer, unless it is right although pages are wrong: then it says nothing about them."""
    answer = restore.answer
    if answer is None or not _has_wrong_pages(restore):
        return answer
    observed = _text(answer.observed, subject="receipt.semantic.observed")
    return None if compare(expected=answer.expected, observed=observed).qualifies else answer


def _has_wrong_pages(restore: FinishedRestore) -> bool:
    return any(one.partials is not None and one.partials.wrong_pages for one in restore.ranks)


def _answer(answer: RestoredAnswer) -> JsonObject:
    return {
        **_compared(answer, subject="receipt.semantic.observed"),
        "finish_reason": answer.finish_reason,
    }


def _control(control: ControlAnswer) -> JsonObject:
    return {
        **_compared(control, subject="receipt.control.observed"),
        "relationship": ONE_TOKEN_CHANGED,
    }


def _compared(answer: RestoredAnswer | ControlAnswer, *, subject: str) -> JsonObject:
    observed = _text(answer.observed, subject=subject)
    return {
        "prompt_sha256": answer.prompt_sha256,
        "prompt_tokens": answer.prompt_tokens,
        "expected": answer.expected,
        "observed": observed,
        "normalisation": NORMALISATION,
        "passed": compare(expected=answer.expected, observed=observed).qualifies,
        "response_sha256": sha256(answer.observed),
    }


def _text(raw: bytes, *, subject: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise FormatError(subject, expected="UTF-8", found="other bytes") from None


def _open_points(restore: FinishedRestore) -> Sequence[str]:
    """What a restore by our own engine cannot show, said in the receipt itself."""
    points = ["other prompts, spans and topologies than this one", "rollback to another image"]
    if restore.injected_fault is not None:
        points.append("anything about what ran: a fault was put in on purpose")
    if _answer_that_counts(restore) is None:
        points.append("the answer of the restored request")
    if restore.control is None:
        points.append("the answer of a recomputed prompt")
    if _has_wrong_pages(restore):
        points.append("right pages on every rank")
    if any(one.report is None or one.report.outcome is not RankOutcome.RESTORED for one in restore.ranks):
        points.append("a restore on every rank")
    return points
