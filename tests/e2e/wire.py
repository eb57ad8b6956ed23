"""Wires between the processes of an installation, and a tripwire on them: stop at one message, then kill.

Each wire is a TCP proxy that understands just enough of its protocol to say which message passes: requests
and answers over HTTP, transactions of PostgreSQL by what they write, tasks and calls over Valkey. A message
is reported before it is passed on and, where it has an answer, again when the answer is there.
"""

import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

WHOLE: Final = 1 << 16
# Shorter than a client waits for its answer; a word that is held longer is dropped, and said again.
HELD_S: Final = 8.0

HTTP_WORDS: Final = (
    ("POST", r"/api/v1/restores", "order"),
    ("POST", r"/api/v1/restores/[^/]+/cancel", "cancel"),
    ("POST", r"/api/v1/restores/[^/]+/retry", "retry"),
    ("POST", r"/api/v1/restores/[^/]+/discard", "discard"),
    ("POST", r"/api/v1/restores/[^/]+/readbacks", "readback"),
    ("POST", r"/api/v1/attempts/[^/]+/claim", "claim"),
    ("POST", r"/api/v1/attempts/[^/]+/heartbeat", "heartbeat"),
    ("GET", r"/api/v1/attempts/[^/]+/decision", "decision"),
    ("PUT", r"/api/v1/attempts/[^/]+/readbacks/[^/]+", "layers"),
    ("PUT", r"/api/v1/attempts/[^/]+/(ready|failure|publish|retracted|released)", ""),
)

# A transaction, or a statement that is one, is known by what it wrote; the first that fits names it.
WRITES: Final = (
    ("order", ("INSERT INTO restore ",)),
    ("admission", ("pg_advisory_xact_lock", "UPDATE restore ", "UPDATE device ")),
    ("claim", ("UPDATE rank_attempt ", "device_generation =", "claimed_at =")),
    ("report", ("INSERT INTO rank_report ",)),
    ("publish", ("UPDATE rank_attempt ", "SET acknowledged_epoch =")),
    ("cancel", ("UPDATE restore ", "cancel_requested_at=")),
    ("discard", ("UPDATE restore ", "release_reason=")),
    ("readback", ("INSERT INTO readback ",)),
    ("layers", ("INSERT INTO rank_readback ",)),
    ("heartbeat", ("UPDATE rank_attempt ", "lease_expires_at=")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passing:
    """One message at one place: on which wire, which word, and whether it goes out or is answered.

    Attributes:
        wire: ``http``, ``sql`` or ``broker``.
        word: what is said.
        after: False before it is passed on, True once its answer is there and not passed on yet.
        speaker, listener: the processes at the ends of the wire.
    """

    wire: str
    word: str
    after: bool
    speaker: str
    listener: str


@dataclass
class Tripwire:
    """Waits for one message and runs an action on it, once; holds others back while it is told to."""

    wanted: Callable[[Passing], bool] | None = None
    action: Callable[[Passing], bool] = lambda _: True
    fired: threading.Event = field(default_factory=threading.Event)
    seen: list[Passing] = field(default_factory=list)
    gates: dict[str, threading.Event] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def arm(self, wanted: Callable[[Passing], bool], *, action: Callable[[Passing], bool]) -> None:
        """Run `action` on the first message that is `wanted`; it says whether the message goes on."""
        with self._lock:
            self.fired.clear()
            self.seen.clear()
            self.wanted, self.action = wanted, action

    def disarm(self) -> None:
        with self._lock:
            self.wanted = None
        for gate in self.gates.values():
            gate.set()
        self.gates.clear()

    def hold(self, word: str, *, speaker: str) -> threading.Event:
        """Hold back this word of this speaker until the event that is returned is set."""
        gate = self.gates[f"{speaker} {word}"] = threading.Event()
        return gate

    def passes(self, passing: Passing) -> bool:
        """Called on the wire; whether the message goes on."""
        gate = self.gates.get(f"{passing.speaker} {passing.word}")
        held = gate if not passing.after and passing.wire == "http" else None
        if held is not None and not held.wait(HELD_S):
            return False
        with self._lock:
            self.seen.append(passing)
            if self.wanted is None or not self.wanted(passing):
                return True
            self.wanted = None
            goes_on = self.action(passing)
        self.fired.set()
        return goes_on


class Wire:
    """A listening port that passes connections on to another one."""

    def __init__(self, tripwire: Tripwire, *, port: int, speaker: str, listener: str) -> None:
        self.tripwire = tripwire
        self.upstream_port = port
        self.speaker = speaker
        self.listener = listener
        self._server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def tell(self, wire: str, word: str, *, after: bool) -> bool:
        passing = Passing(wire=wire, word=word, after=after, speaker=self.speaker, listener=self.listener)
        return self.tripwire.passes(passing)

    def serve(self, near: socket.socket) -> None:
        raise NotImplementedError

    def connect(self) -> socket.socket:
        far = socket.create_connection(("127.0.0.1", self.upstream_port), timeout=5)
        far.settimeout(None)
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return far

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._serve_one, args=(near,), daemon=True).start()

    def _serve_one(self, near: socket.socket) -> None:
        with near, suppress(OSError, EOFError):
            self.serve(near)


class HttpWire(Wire):
    """One request and its answer after the other, each read whole."""

    def serve(self, near: socket.socket) -> None:
        buffered = near.makefile("rb")
        while True:
            head, body = _read_http(buffered)
            word = http_word(head)
            if word and not self.tell("http", word, after=False):
                return
            with self.connect() as far:
                far.sendall(_closing(head) + body)
                answer_head, answer_body = _read_http(far.makefile("rb"), request=head)
            if word and not self.tell("http", word, after=True):
                return
            near.sendall(_kept_open(answer_head) + answer_body)


class SqlWire(Wire):
    """PostgreSQL's protocol 3: statements are followed until they are committed, together or one by one."""

    def serve(self, near: socket.socket) -> None:
        with self.connect() as far:
            state = _Transactions()
            threading.Thread(target=self._answers, args=(near, far, state), daemon=True).start()
            with suppress(OSError, EOFError):
                _pass_startup(near, far)
                for kind, body in _messages(near):
                    word = state.follow(kind, body)
                    if word and not self.tell("sql", word, after=False):
                        break
                    far.sendall(kind + struct.pack("!i", len(body) + 4) + body)
            _hang_up(near, far)

    def _answers(self, near: socket.socket, far: socket.socket, state: "_Transactions") -> None:
        with suppress(OSError):
            while chunk := far.recv(WHOLE):
                word = state.committed() if _IDLE in chunk else None
                if word and not self.tell("sql", word, after=True):
                    break
                near.sendall(chunk)
        _hang_up(near, far)


class BrokerWire(Wire):
    """Valkey's protocol, looked at for the names of our tasks and of the channel."""

    def serve(self, near: socket.socket) -> None:
        with self.connect() as far:
            threading.Thread(target=self._answers, args=(near, far), daemon=True).start()
            self._sent: list[str] = []
            with suppress(OSError):
                while chunk := near.recv(WHOLE):
                    word = broker_word(chunk) if _sends(chunk) else None
                    if word and not self.tell("broker", f"send {word}", after=False):
                        break
                    far.sendall(chunk)
            _hang_up(near, far)

    def _answers(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while chunk := far.recv(WHOLE):
                word = broker_word(chunk)
                if word and not self.tell("broker", f"take {word}", after=False):
                    break
                near.sendall(chunk)
                if word and not self.tell("broker", f"take {word}", after=True):
                    break
        _hang_up(near, far)


# ReadyForQuery outside a transaction: what was asked before is committed, or was no transaction.
_IDLE: Final = b"Z\0\0\0\x05I"


class _Transactions:
    """What one connection has written since it began its transaction, or writes without one."""

    def __init__(self) -> None:
        self._prepared: dict[bytes, str] = {}
        self._texts: list[str] = []
        self._is_open = False
        self._committing: str | None = None

    def follow(self, kind: bytes, body: bytes) -> str | None:
        """The name of the transaction that this message commits, if it does."""
        if kind == b"P":
            name, text, *_ = body.split(b"\0", 2)
            self._prepared[name] = text.decode(errors="replace")
        elif kind == b"B":
            _, name, *_ = body.split(b"\0", 2)
            return self._ran(self._prepared.get(name, ""))
        elif kind == b"Q":
            return self._ran(body.rstrip(b"\0").decode(errors="replace"))
        return None

    def _ran(self, text: str) -> str | None:
        if text.startswith(("BEGIN", "ROLLBACK")):
            self._is_open = text.startswith("BEGIN")
            self._texts.clear()
            return None
        if text != "COMMIT":
            self._texts.append(text)
            if self._is_open:
                return None
        self._committing = written(self._texts)
        self._is_open = False
        self._texts.clear()
        return self._committing

    def committed(self) -> str | None:
        word, self._committing = self._committing, None
        return word


def written(texts: list[str]) -> str | None:
    """The name of a transaction that ran these statements."""
    together = "\n".join(texts)
    return next((name for name, marks in WRITES if all(mark in together for mark in marks)), None)


def http_word(head: bytes) -> str | None:
    """What a request says, if it is one of ours."""
    method, path, *_ = head.split(b" ", 2)
    for known, pattern, word in HTTP_WORDS:
        found = re.fullmatch(pattern, path.decode().partition("?")[0])
        if found and method.decode() == known:
            return word or str(found.group(1))
    return None


def broker_word(chunk: bytes) -> str | None:
    """Which of our tasks, or the call, a piece of Valkey's protocol holds."""
    found = re.search(rb'"task": ?"rank\.(restore|readback|discard)"', chunk)
    if found:
        return found.group(1).decode()
    return "call" if b"sparkgate.decided" in chunk and b"ubscribe" not in chunk.lower() else None


def _sends(chunk: bytes) -> bool:
    return b"LPUSH" in chunk or b"PUBLISH" in chunk


def _read_http(stream: "socket.SocketIO | object", *, request: bytes = b"") -> tuple[bytes, bytes]:
    lines: list[bytes] = []
    while (line := stream.readline()) not in {b"\r\n", b""}:  # type: ignore[attr-defined]
        lines.append(line)
    if not lines or line == b"":
        raise EOFError("connection closed")
    head = b"".join(lines)
    length = re.search(rb"(?im)^content-length: *(\d+)", head)
    bodyless = request.startswith(b"HEAD ") or re.match(rb"HTTP/1\.1 (204|304)", head)
    wanted = 0 if bodyless or length is None else int(length.group(1))
    body = stream.read(wanted)  # type: ignore[attr-defined]
    if len(body) < wanted:
        raise EOFError("connection closed")
    return head, body


def _closing(head: bytes) -> bytes:
    """The request on a connection of its own: one that web has closed meanwhile is never used again."""
    return re.sub(rb"(?im)^connection:.*\r\n", b"", head) + b"Connection: close\r\n\r\n"


def _kept_open(head: bytes) -> bytes:
    return re.sub(rb"(?im)^connection:.*\r\n", b"", head) + b"\r\n"


def _pass_startup(near: socket.socket, far: socket.socket) -> None:
    """Messages before the protocol proper have no type: TLS is asked for and declined, then the startup."""
    while True:
        size = _exactly(near, 4)
        body = _exactly(near, struct.unpack("!i", size)[0] - 4)
        far.sendall(size + body)
        if struct.unpack("!i", body[:4])[0] >> 16 == 3:
            return


def _messages(near: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    stream = near.makefile("rb")
    while len(head := stream.read(5)) == 5:
        wanted = struct.unpack("!i", head[1:])[0] - 4
        body = stream.read(wanted)
        if len(body) < wanted:
            return
        yield head[:1], body


def _exactly(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        chunk = connection.recv(count - len(received))
        if not chunk:
            raise EOFError("connection closed")
        received += chunk
    return received


def _hang_up(*connections: socket.socket) -> None:
    for connection in connections:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
