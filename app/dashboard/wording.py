"""The words of the pages: what a state, an outcome, a phase and an event is called and what it means."""

from dataclasses import dataclass
from typing import Final

from app.core.restore.timeline import Phase
from app.dashboard.lanes import UNATTRIBUTED
from app.models import Restore

OUTCOMES: Final[dict[str, str]] = {
    "restored": "every rank placed all its bytes and acknowledged the same publish decision",
    "corrupt": "stored bytes differ from their digest or form; nothing became visible on any rank",
    "incomplete": "a rank was missing, incompatible or lost; nothing became visible on any rank",
    "failed": "a device or machine failed; nothing became visible on any rank",
}
STATES: Final[dict[str, str]] = {
    "waiting": "all its devices have to be free at once",
    "running": "its ranks read, authenticate and place their parts",
    "publishing": "every rank is ready; the ranks make their pages visible",
    "retracting": "a rank ended early; every rank gives its pages back",
    "resident": "the restored pages are visible on their devices",
    "releasing": "the ranks are giving their pages back",
    "finished": "no page is left on any device",
}
OPEN_STATES: Final = frozenset({"waiting", "running", "publishing", "retracting", "releasing"})

PHASES: Final[dict[str, str]] = {
    Phase.MANIFEST_LOOKUP: "read and judge the root document, twice",
    Phase.PLANNING: "which bytes go where",
    Phase.RESERVATION: "take pages of the pool",
    Phase.PRIOR_DEVICE_WORK: "fence: earlier work on these pages is done",
    Phase.BUFFER_WAIT: "wait for a free pooled buffer",
    Phase.READ_AUTHENTICATE: "wait until a batch is read and all its digests agree",
    Phase.ARENA_WAIT: "wait for the copies of two objects earlier",
    Phase.HOST_COPY: "fill the arena",
    Phase.SUBMISSION: "check the spans and queue their copies",
    Phase.STREAM_DIGEST_WAIT: "wait for the digest over the whole stream",
    Phase.FINAL_COMPLETION: "both arenas done; coverage, error word, statistics checked",
    Phase.CLEAN_UP: "after a failure: wait for what still runs, give everything back",
    UNATTRIBUTED: "service time that no phase claims",
}
WAITS: Final[dict[str, str]] = {
    "queue": "admitted, not yet claimed by a worker",
    "claim": "claimed, service not yet begun",
    "pool": "before the service: committing memory for the pool's pages",
    "oracle": "after the service: the question is answered from the placed pages",
    "barrier": "placed and private: waits for the other ranks and the decision",
    "busy": "claimed; nothing is known of its phases before its report",
}
MARKS: Final[dict[str, str]] = {
    "ready": "ready: told to the control plane",
    "decided": "decision for all ranks",
    "acknowledged": "publish acknowledged",
    "stopped": "rank ended without pages",
}


# What is said instead of a restore that was called off.
CALLED_OFF: Final[dict[str, str]] = {
    "retracting": "it was called off; every rank gives its pages back",
    "incomplete": "it was called off before publish was decided; nothing became visible on any rank",
}


# What is said instead where the answer decided, by the code of the problem.
ANSWERED: Final[dict[str, str]] = {
    "semantic": "every hash is right and the answer is wrong; nothing became visible on any rank",
    "unanswered": "the question was not answered; nothing became visible on any rank",
    "pages-differ": "the answer is right, some pages are not; nothing became visible on any rank",
    "control-failed": "the control was answered wrong; nothing became visible on any rank",
    "fault-not-caught": "a fault was put in and not caught; nothing became visible on any rank",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a restore stands, as a word, the name of its icon and a sentence."""

    word: str
    sentence: str
    open: bool


def verdict_of(restore: Restore) -> Verdict:
    """The outcome once there is one, until then the state."""
    word = restore.outcome or restore.state
    sentence = OUTCOMES[word] if restore.outcome else STATES[word]
    if restore.outcome == "failed" and restore.problem is not None:
        sentence = ANSWERED.get(restore.problem["code"], sentence)
    if restore.cancel_requested_at is not None:
        sentence = CALLED_OFF.get(word, sentence)
    return Verdict(word=word, sentence=sentence, open=restore.outcome is None)


def typed(text: str) -> str:
    """A filter as it stands in an address. A NUL, which neither a page nor PostgreSQL can hold, becomes what
    browsers show for it: left out, the filter would look like one that everything fits."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").strip()
