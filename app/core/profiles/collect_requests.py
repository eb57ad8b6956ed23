"""Requests as a harness recorded them, one JSON object a line: answers by digest, prompts by length
(profile-contract §11.3, §12.2 Q3, Q4, Q7).

The form is ours; the published documents give none. A line: ``rank``, ``at``, ``prompt_sha256``,
``prompt_tokens``, ``cached_tokens``, ``completion_tokens``, ``response_sha256``, ``expected_sha256`` or null,
``error`` or null.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from app.core.digest import Digest, sha256
from app.core.errors import DocumentError
from app.core.profiles.collect_sources import Proof, file_lines
from app.core.profiles.documents import ProfileDocumentError
from app.core.profiles.fields import Fields, Problems
from app.core.qualify.activation_bounds import LONG_PROMPT_TOKENS, TIME
from app.core.qualify.document import read_document

_MOST_REQUESTS: Final = 100_000
_FIELDS: Final = (
    "rank",
    "at",
    "prompt_sha256",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "response_sha256",
    "expected_sha256",
    "error",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request; ``error`` is empty where it completed."""

    prompt_sha256: Digest
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    response_sha256: Digest | None
    expected_sha256: Digest | None
    error: str
    proof: Proof

    @property
    def completed(self) -> bool:
        """Whether an answer came."""
        return not self.error and self.completion_tokens > 0 and self.response_sha256 is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """What the requests show together; none where they show nothing."""

    prefill_decode_passed: bool | None
    correctness_passed: bool | None
    compared: tuple[Request, ...]
    long: tuple[Request, ...]
    """Completed requests of at least 32,768 tokens of which nothing was cached."""
    timeouts: int
    fatal_errors: int
    reused: Request | None
    """The first completed repetition of a prompt."""


def read_requests(raw: bytes, *, file: str) -> tuple[Request, ...]:
    """Read request records; blank lines are skipped.

    Raises:
        ProfileDocumentError: a line that is no record; the pointer starts with its number.
    """
    requests = []
    for number, line in file_lines(raw):
        if line.strip():
            requests.append(_request(line, number=number, file=file))
        if len(requests) > _MOST_REQUESTS:
            problems = Problems(subject=file)
            problems.add(
                f"/line/{number}", expected=f"at most {_MOST_REQUESTS}", found="more", code="DOC_TOO_LARGE"
            )
            problems.refuse()
    return tuple(requests)


def request_facts(requests: tuple[Request, ...]) -> RequestFacts:
    """What of §12.2 the requests show."""
    completed = [one for one in requests if one.completed]
    compared = tuple(one for one in completed if one.expected_sha256 is not None)
    return RequestFacts(
        prefill_decode_passed=bool(completed) if requests else None,
        correctness_passed=all(one.response_sha256 == one.expected_sha256 for one in compared)
        if compared
        else None,
        compared=compared,
        long=tuple(
            one for one in completed if one.prompt_tokens >= LONG_PROMPT_TOKENS and one.cached_tokens == 0
        ),
        timeouts=sum(1 for one in requests if one.error == "timeout"),
        fatal_errors=sum(1 for one in requests if one.error == "fatal"),
        reused=next(_repetitions(completed), None),
    )


def _repetitions(completed: list[Request]) -> Iterator[Request]:
    seen: set[str] = set()
    for one in completed:
        if one.prompt_sha256 in seen:
            yield one
        seen.add(one.prompt_sha256)


def _request(line: bytes, *, number: int, file: str) -> Request:
    at = f"/line/{number}"
    problems = Problems(subject=file)
    try:
        value = read_document(line, subject=file).value
    except DocumentError as error:
        problems.add(at + error.pointer, expected=error.expected, found=error.found, code="DOC_JSON_INVALID")
        raise ProfileDocumentError(file, findings=tuple(problems.found)) from None
    fields = Fields.of(value, problems=problems, at=at)
    fields.only(_FIELDS)
    proof = Proof(
        sha256=sha256(line),
        rank=fields.integer("rank", minimum=0, maximum=1024),
        at=fields.text("at", pattern=TIME),
        file=file,
        line=number,
    )
    request = Request(
        prompt_sha256=fields.digest("prompt_sha256"),
        prompt_tokens=fields.integer("prompt_tokens", minimum=0),
        cached_tokens=fields.integer("cached_tokens", minimum=0),
        completion_tokens=fields.integer("completion_tokens", minimum=0),
        response_sha256=_optional(fields, "response_sha256"),
        expected_sha256=_optional(fields, "expected_sha256"),
        error="" if fields.raw("error") is None else fields.text("error"),
        proof=proof,
    )
    problems.refuse()
    return request


def _optional(fields: Fields, name: str) -> Digest | None:
    return None if fields.raw(name) is None else fields.digest(name)
