"""A rank worker on its own: a real restore of a small store against a scripted control plane."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from app.config import Settings
from app.core.canonical_json import decode_canonical, expect_object
from app.core.restore.host_device import HostDevice
from app.core.restore.report import parse_report
from app.core.store.layout import OBJECTS_FOLDER
from app.core.store.synth import SynthesizedSnapshot, synthesize_store
from workers.control_client import Claimed, ControlClient, ControlError, ControlUnreachableError, Decision
from workers.rank_restore import RankWorker
from workers.runtime import measured_runtime

PENDING = Decision(decision=None, epoch=0, outcome=None)
PUBLISH = Decision(decision="publish", epoch=1, outcome=None)
RETRACT = Decision(decision="retract", epoch=1, outcome=None)
RESTORED = Decision(decision="publish", epoch=1, outcome="restored")


@dataclass
class Script:
    """A control plane that answers from a script and remembers every word."""

    claim_answer: Claimed
    decisions: list[Decision] = field(default_factory=lambda: [PENDING, PUBLISH, RESTORED])
    publish_answer: Decision = PUBLISH
    refuse: frozenset[str] = frozenset()
    refusal: str = "lease-lost"
    words: list[str] = field(default_factory=list)
    documents: dict[str, Any] = field(default_factory=dict)

    def claim(self, attempt_id: str, *, generation: int) -> Claimed:
        self._note("claim")
        return self.claim_answer

    def heartbeat(self, claimed: Claimed, *, progress: Any) -> Decision:
        return PENDING

    def ready(self, claimed: Claimed, *, document: dict[str, Any], patience_s: float) -> Decision:
        self.documents["ready"] = document
        self._note("ready")
        return PENDING

    def failure(self, claimed: Claimed, *, document: dict[str, Any], patience_s: float) -> Decision:
        self.documents["failure"] = document
        self._note("failure")
        return RETRACT

    def decision(self, claimed: Claimed) -> Decision:
        self._note("decision")
        return self.decisions.pop(0) if len(self.decisions) > 1 else self.decisions[0]

    def publish(self, claimed: Claimed, *, epoch: int, patience_s: float) -> Decision:
        self._note("publish")
        return self.publish_answer

    def retracted(self, claimed: Claimed, *, patience_s: float) -> Decision:
        self._note("retracted")
        return RETRACT

    def released(self, claimed: Claimed, *, patience_s: float) -> None:
        self._note("released")

    def layers(self, claimed: Claimed, *, readback_id: str, layers: list[dict[str, Any]]) -> None:
        self.documents["layers"] = layers
        self._note("layers")

    def _note(self, word: str) -> None:
        self.words.append(word)
        if word in self.refuse:
            raise ControlError(status=409, code=self.refusal, detail="refused by the script")


@pytest.fixture
def stored(tmp_path: Path) -> SynthesizedSnapshot:
    return synthesize_store(tmp_path / "stores", ranks=1, bytes_per_rank=300_000, object_bytes=65_536)


@pytest.fixture
def script(stored: SynthesizedSnapshot) -> Script:
    published = stored.published[0]
    layout = expect_object(decode_canonical(stored.layout.canonical, subject="layout"), subject="layout")
    return Script(
        Claimed(
            attempt_id="a",
            restore_id="r",
            token=1,
            lease_s=0.5,
            rank=0,
            root_path=stored.roots[0],
            storage_key=str(published.name.storage_key),
            context_digest=str(published.name.context_digest),
            root_document_sha256=str(published.manifest_sha256),
            span_tokens=stored.span_tokens,
            layout=layout,
        )
    )


@pytest.fixture
def device() -> Any:
    with HostDevice("host0", pool_bytes=2_000_000, arena_bytes=65_536) as opened:
        yield opened


def open_worker(script: Script, *, device: HostDevice, served: Path) -> RankWorker:
    settings = Settings.model_validate({"store_roots": (served,), "node": "ring", "device": "host0"})
    client = cast(ControlClient, script)
    return RankWorker(settings, client=client, device=device, generation=1)


def test_restored_pages_stay_and_can_be_read_back_until_discarded(
    script: Script, device: HostDevice, stored: SynthesizedSnapshot
) -> None:
    worker = open_worker(script, device=device, served=stored.path)
    worker.restore("a")
    assert script.words == ["claim", "ready", "decision", "decision", "publish", "decision"]
    assert parse_report(script.documents["ready"]["report"]).bytes == 300_000
    assert script.documents["ready"]["runtime"] == measured_runtime()
    assert device.free_bytes < 2_000_000
    worker.read_back("a", readback_id="r")
    assert sum(layer["bytes"] for layer in script.documents["layers"]) < 300_000
    for _ in range(2):
        worker.discard("a")
    assert script.words[-3:] == ["layers", "released", "released"]
    assert device.free_bytes == 2_000_000
    before = list(script.words)
    worker.read_back("a", readback_id="r")
    # Nothing is there to be digested, and that is said instead.
    assert script.words == [*before, "released"]


def test_refused_claim_places_nothing(
    script: Script, device: HostDevice, stored: SynthesizedSnapshot
) -> None:
    script.refuse = frozenset({"claim"})
    open_worker(script, device=device, served=stored.path).restore("a")
    assert script.words == ["claim"]
    assert device.free_bytes == 2_000_000


def test_retract_before_publish_gives_the_pages_back(
    script: Script, device: HostDevice, stored: SynthesizedSnapshot
) -> None:
    script.decisions = [PENDING, RETRACT]
    open_worker(script, device=device, served=stored.path).restore("a")
    assert script.words == ["claim", "ready", "decision", "decision", "retracted"]
    assert device.free_bytes == 2_000_000


def test_retract_between_poll_and_acknowledgement_is_said_like_any_other(
    script: Script, device: HostDevice, stored: SynthesizedSnapshot
) -> None:
    script.refuse, script.refusal = frozenset({"publish"}), "epoch-stale"
    open_worker(script, device=device, served=stored.path).restore("a")
    assert script.words == ["claim", "ready", "decision", "decision", "publish", "retracted"]
    assert device.free_bytes == 2_000_000


def test_lost_lease_at_the_acknowledgement_gives_the_pages_back_and_says_no_more(
    script: Script, device: HostDevice, stored: SynthesizedSnapshot
) -> None:
    script.refuse = frozenset({"publish"})
    open_worker(script, device=device, served=stored.path).restore("a")
    assert script.words[-1] == "publish"
    assert device.free_bytes == 2_000_000


def test_retract_after_publish_gives_the_pages_back(
    script: Script, device: HostDevice, stored: SynthesizedSnapshot
) -> None:
    script.decisions = [PUBLISH, PUBLISH, Decision(decision="retract", epoch=2, outcome=None)]
    worker = open_worker(script, device=device, served=stored.path)
    worker.restore("a")
    assert script.words[-2:] == ["decision", "retracted"]
    assert device.free_bytes == 2_000_000
    worker.read_back("a", readback_id="r")
    assert "layers" not in script.words


@pytest.mark.parametrize("word", ["ready", "publish", "decision"])
def test_lost_lease_gives_the_pages_back(
    script: Script, device: HostDevice, stored: SynthesizedSnapshot, word: str
) -> None:
    script.refuse = frozenset({word})
    open_worker(script, device=device, served=stored.path).restore("a")
    assert device.free_bytes == 2_000_000


def test_unreachable_control_plane_gives_the_pages_back(
    script: Script, device: HostDevice, stored: SynthesizedSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(claimed: Claimed) -> Decision:
        raise ControlUnreachableError("decision: refused")

    script.claim_answer = Claimed(
        **{
            name: getattr(script.claim_answer, name)
            for name in Claimed.__dataclass_fields__
            if name != "lease_s"
        },
        lease_s=0.0,
    )
    monkeypatch.setattr(script, "decision", away)
    open_worker(script, device=device, served=stored.path).restore("a")
    assert device.free_bytes == 2_000_000


@pytest.mark.parametrize("asked", ["discard", "read_back"])
def test_pages_given_up_after_the_acknowledgement_are_told_to_whoever_still_counts_on_them(
    script: Script,
    device: HostDevice,
    stored: SynthesizedSnapshot,
    monkeypatch: pytest.MonkeyPatch,
    asked: str,
) -> None:
    """The restore may be restored with this rank's pages: unanswered, its discard would be sent for ever."""
    monkeypatch.setattr("workers.rank_restore.ACKNOWLEDGED_PATIENCE_S", 0.0)
    decisions = [PENDING, PUBLISH]

    def away_later(claimed: Claimed) -> Decision:
        if not decisions:
            raise ControlUnreachableError("decision: refused")
        return decisions.pop(0)

    monkeypatch.setattr(script, "decision", away_later)
    worker = open_worker(script, device=device, served=stored.path)
    worker.restore("a")
    assert script.words == ["claim", "ready", "publish"]
    assert device.free_bytes == 2_000_000
    worker.discard("a") if asked == "discard" else worker.read_back("a", readback_id="r")
    assert script.words == ["claim", "ready", "publish", "released"]


@pytest.mark.parametrize("kind", ["file", "loop", "gone", "objects are a file"])
def test_root_that_became_something_else_is_reported(
    script: Script, device: HostDevice, stored: SynthesizedSnapshot, kind: str
) -> None:
    """An attempt whose worker says nothing would hold the others until its lease runs out."""
    root = stored.roots[0]
    if kind == "objects are a file":
        shutil.rmtree(root / OBJECTS_FOLDER)
        (root / OBJECTS_FOLDER).write_bytes(b"")
    else:
        shutil.rmtree(root)
    if kind == "file":
        root.write_bytes(b"")
    elif kind == "loop":
        root.symlink_to(root)
    open_worker(script, device=device, served=stored.path).restore("a")
    assert script.words == ["claim", "failure"]
    assert parse_report(script.documents["failure"]["report"]).outcome in {"absent", "failed", "corrupt"}
    assert device.free_bytes == 2_000_000


def test_corrupt_object_is_reported_and_nothing_is_kept(
    script: Script, device: HostDevice, stored: SynthesizedSnapshot
) -> None:
    path = next((stored.roots[0] / OBJECTS_FOLDER).iterdir())
    content = bytearray(path.read_bytes())
    content[-1] ^= 0x80
    path.write_bytes(content)
    open_worker(script, device=device, served=stored.path).restore("a")
    assert script.words == ["claim", "failure"]
    report = parse_report(script.documents["failure"]["report"])
    assert report.outcome == "corrupt"
    assert report.problem is not None
    assert path.stem in report.problem.subject
    assert device.free_bytes == 2_000_000


def test_root_that_is_not_served_here_is_refused_unread(
    script: Script, device: HostDevice, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    open_worker(script, device=device, served=tmp_path / "other").restore("a")
    report = parse_report(script.documents["failure"]["report"])
    assert (report.outcome, report.objects) == ("failed", 0)
    assert report.problem is not None
    assert "does not serve" in report.problem.found


def test_pool_without_room_is_a_failure_that_says_so(script: Script, stored: SynthesizedSnapshot) -> None:
    with HostDevice("host0", pool_bytes=1000, arena_bytes=65_536) as small:
        open_worker(script, device=small, served=stored.path).restore("a")
    report = parse_report(script.documents["failure"]["report"])
    assert report.outcome == "failed"
    assert report.problem is not None
    assert report.problem.code == "device"
