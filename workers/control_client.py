"""HTTP client of the control plane, as a GPU node speaks it.

Every call may be repeated: the control plane answers the same word with the same answer. So a broken
connection, a 429 or a 5xx is tried again for a while, a refusal never is.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import httpx2

from app.config import KeyFileError, Settings, read_key_file
from app.core.canonical_json import encode_canonical

TIMEOUT_S: Final = 10.0
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0
# As long as a lease usually lasts: a claim that was granted unheard is asked for again until it is lost.
CLAIM_PATIENCE_S: Final = 30.0
# Not refusals of the word: too many words at once, or trouble on the other side.
_TRY_AGAIN: Final = frozenset({429, 500, 502, 503, 504})


class ControlError(Exception):
    """The control plane refused; `code` is the problem's code."""

    def __init__(self, *, status: int, code: str, detail: str) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.code = code


class ControlUnreachableError(Exception):
    """The control plane did not answer for as long as the call may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """One rank as claimed: what to restore, and the token every later word must show."""

    attempt_id: str
    restore_id: str
    token: int
    lease_s: float
    rank: int
    root_path: Path
    storage_key: str
    context_digest: str
    root_document_sha256: str
    span_tokens: int
    layout: dict[str, Any]
    stream_pinned: bool = False
    pace_s: float = 0.0
    turn_s: float = 0.0
    oracle: dict[str, Any] | None = None
    fault: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is decided for a restore; `outcome` once it is final."""

    decision: str | None
    epoch: int
    outcome: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedDocuments:
    """Digests of root documents whose bytes, or whose complete check, the control plane does not have."""

    missing: frozenset[str]
    unpinned: frozenset[str]


class ControlClient:
    """One node's connection to the control plane; safe to use from several threads."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str,
        transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        headers = {"Authorization": f"Bearer {api_key}", "User-Agent": "sparkgate-worker"}
        self._http = httpx2.Client(base_url=base_url, headers=headers, timeout=TIMEOUT_S, transport=transport)
        self._sleep = sleep
        self._clock = clock

    def close(self) -> None:
        self._http.close()

    # The node

    def register_node(self, node: str, *, devices: list[dict[str, Any]]) -> None:
        self._call("PUT", f"/api/v1/nodes/{node}", body={"devices": devices})

    def start_worker(self, node: str, *, device: str, runtime: dict[str, Any], patience_s: float) -> int:
        """The generation a rank worker that starts works under."""
        path = f"/api/v1/nodes/{node}/devices/{device}/workers"
        answer = self._call("POST", path, body={"runtime": runtime}, patience_s=patience_s)
        return int(answer["generation"])

    def record_inventory(
        self, node: str, *, manifests: list[dict[str, str]], problems: list[dict[str, str]]
    ) -> WantedDocuments:
        body = {"manifests": manifests, "problems": problems}
        answer = self._call("PUT", f"/api/v1/nodes/{node}/inventory", body=body)
        return WantedDocuments(
            missing=frozenset(answer["missing_documents"]),
            unpinned=frozenset(answer["unpinned_documents"]),
        )

    def pin_document(self, node: str, *, sha256: str, root_path: str, stream_sha256: str) -> None:
        path = f"/api/v1/nodes/{node}/documents/{sha256}/pin"
        self._call("PUT", path, body={"root_path": root_path, "stream_sha256": stream_sha256})

    def send_document(self, node: str, *, sha256: str, context_digest: str, raw: bytes) -> None:
        path = f"/api/v1/nodes/{node}/documents/{sha256}?context_digest={context_digest}"
        self._call("PUT", path, raw=raw)

    # A rank

    def claim(self, attempt_id: str, *, generation: int) -> Claimed:
        """Claim an attempt, under a token of our choice so that a lost answer does not lose the claim.

        Raises:
            ControlError: it cannot be claimed (any more); whoever asked has nothing to do.
            ControlUnreachableError: nobody answered; the message will be sent again.
        """
        body = {"generation": generation, "token": secrets.randbelow(2**53 - 1) + 1}
        path = _attempt(attempt_id, "claim")
        answer = self._call("POST", path, body=body, patience_s=CLAIM_PATIENCE_S)
        names = ("attempt_id", "restore_id", "token", "lease_s", "rank", "storage_key", "context_digest")
        return Claimed(
            **{name: answer[name] for name in names},
            root_document_sha256=answer["root_document_sha256"],
            span_tokens=answer["span_tokens"],
            layout=answer["layout"],
            stream_pinned=answer["stream_pinned"],
            pace_s=answer.get("pace_s", 0.0),
            turn_s=answer.get("turn_s", 0.0),
            oracle=answer.get("oracle"),
            fault=answer.get("fault"),
            root_path=Path(answer["root_path"]),
        )

    def heartbeat(self, claimed: Claimed, *, progress: dict[str, int] | None) -> Decision:
        return self._say(claimed, "heartbeat", method="POST", body={"progress": progress}, patience_s=0)

    def ready(self, claimed: Claimed, *, document: dict[str, Any], patience_s: float) -> Decision:
        return self._say(claimed, "ready", raw=encode_canonical(document), patience_s=patience_s)

    def failure(self, claimed: Claimed, *, document: dict[str, Any], patience_s: float) -> Decision:
        return self._say(claimed, "failure", raw=encode_canonical(document), patience_s=patience_s)

    def decision(self, claimed: Claimed) -> Decision:
        return self._say(claimed, "decision", method="GET", patience_s=0)

    def publish(self, claimed: Claimed, *, epoch: int, patience_s: float) -> Decision:
        return self._say(claimed, "publish", body={"epoch": epoch}, patience_s=patience_s)

    def retracted(self, claimed: Claimed, *, patience_s: float) -> Decision:
        return self._say(claimed, "retracted", patience_s=patience_s)

    def released(self, claimed: Claimed, *, patience_s: float) -> None:
        self._say(claimed, "released", patience_s=patience_s)

    def layers(self, claimed: Claimed, *, readback_id: str, layers: list[dict[str, Any]]) -> None:
        path = _attempt(claimed.attempt_id, f"readbacks/{readback_id}")
        self._call("PUT", path, body={"layers": layers}, token=claimed.token)

    def _say(
        self,
        claimed: Claimed,
        word: str,
        *,
        patience_s: float,
        method: str = "PUT",
        body: dict[str, Any] | None = None,
        raw: bytes | None = None,
    ) -> Decision:
        path = _attempt(claimed.attempt_id, word)
        answer = self._call(method, path, body=body, raw=raw, token=claimed.token, patience_s=patience_s)
        return Decision(decision=answer["decision"], epoch=answer["epoch"], outcome=answer["outcome"])

    def _call(
        self,
        method: str,
        path: str,
        *,
        body: dict[str, Any] | None = None,
        raw: bytes | None = None,
        token: int | None = None,
        patience_s: float = 0.0,
    ) -> dict[str, Any]:
        """One call, tried again for `patience_s` seconds while nobody answers."""
        headers = {"Content-Type": "application/json"}
        if token is not None:
            headers["Fencing-Token"] = str(token)
        content = raw if raw is not None else (encode_canonical(body) if body is not None else None)
        give_up, pause = self._clock() + patience_s, FIRST_PAUSE_S
        while True:
            try:
                response = self._http.request(method, path, content=content, headers=headers)
                if response.status_code not in _TRY_AGAIN:
                    return _answer(response)
                failure = f"status {response.status_code}"
            except httpx2.TransportError as error:
                failure = f"{type(error).__name__}: {error}"
            remaining = give_up - self._clock()
            if remaining <= 0:
                raise ControlUnreachableError(f"{method} {path}: {failure}")
            self._sleep(min(pause, remaining))
            pause = min(pause * 2, LONGEST_PAUSE_S)


def open_client(settings: Settings) -> ControlClient:
    """The node's connection to the control plane, with the key its settings name.

    Raises:
        KeyFileError: no key file is named, or it holds no key.
    """
    if settings.api_key_file is None:
        raise KeyFileError("SPARKGATE_API_KEY_FILE: expected the path of the node's key, found nothing")
    return ControlClient(settings.control_url, api_key=read_key_file(settings.api_key_file))


def _attempt(attempt_id: str, word: str) -> str:
    return f"/api/v1/attempts/{attempt_id}/{word}"


def _answer(response: httpx2.Response) -> dict[str, Any]:
    if response.is_success:
        return cast(dict[str, Any], response.json())
    try:
        problem = response.json()
        code, detail = str(problem["code"]), str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        code, detail = "unknown", response.text[:200]
    raise ControlError(status=response.status_code, code=code, detail=detail)
