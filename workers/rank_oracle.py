"""What a rank does with its restore's question: a fault put in on purpose, its part of the answer."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.core.canonical_json import encode_canonical
from app.core.errors import CoreError, PlanError
from app.core.oracle.asking import ask_rank
from app.core.oracle.faults import FaultyDevice
from app.core.oracle.partials import INJECTABLE, SemanticFault
from app.core.oracle.question import OracleQuestion, parse_question
from app.core.restore.device import Device, PageSet
from workers.control_client import Claimed

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankOracle:
    """The question of one claim, and the fault its rank puts in, if any."""

    question: OracleQuestion | None
    fault: SemanticFault | None
    rank: int

    def device(self, device: Device) -> Device:
        """The device to restore with: in a drill one that misplaces pages, as named; every hash stays right.

        Raises:
            PlanError: this fault cannot be put in here.
        """
        if self.question is None or self.fault is None:
            return device
        log.warning("rank %d: a drill, %s is put in on purpose", self.rank, self.fault)
        return FaultyDevice(device, fault=self.fault, question=self.question, rank=self.rank)

    def ask(
        self, device: Device, pages: PageSet, *, clock: Callable[[], int], started_ns: int
    ) -> dict[str, Any] | None:
        """The rank's part of the answer, as it goes out with *ready*; nothing where nothing is asked.

        Args:
            clock: monotonic ns; ``started_ns`` is when the service began on it.
        """
        if self.question is None:
            return None
        asked_ns = clock()
        partials: dict[str, Any] | None = None
        problem: str | None = None
        try:
            partials = ask_rank(device, pages, question=self.question, rank=self.rank).to_document()
        except CoreError as error:
            log.warning("rank %d: no part of the answer: %s", self.rank, error)
            problem = str(error)
        return {
            "start_ns": asked_ns - started_ns,
            "duration_ns": clock() - asked_ns,
            "partials": partials,
            "problem": problem,
        }


def rank_oracle(claimed: Claimed) -> RankOracle:
    """What a claim says of question and fault.

    Raises:
        FormatError: the question is none.
        PlanError: a fault without a question, or one of another name than those this worker knows.
    """
    question = None if claimed.oracle is None else parse_question(encode_canonical(claimed.oracle))
    known = {str(one): one for one in INJECTABLE}
    if claimed.fault is not None and (question is None or claimed.fault not in known):
        raise PlanError(
            f"rank {claimed.rank}",
            expected=f"a question with a fault of {', '.join(known)}",
            found=f"{'no' if question is None else 'a'} question with {claimed.fault!r}",
        )
    fault = None if claimed.fault is None else known[claimed.fault]
    return RankOracle(question=question, fault=fault, rank=claimed.rank)
