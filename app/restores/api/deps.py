"""Dependencies of the restore routes."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy.orm import Session

from app.config import Settings
from app.restores.dispatch import RankMessages
from app.restores.service.admission import Looks
from app.restores.service.intake import Intake
from app.restores.service.request import Ordered
from app.web.deps import SettingsDep


# Async, as everything is that only picks something up: a plain function would be a hop to another thread.
async def get_messages(request: Request) -> RankMessages:
    messages: RankMessages = request.app.state.messages
    return messages


MessagesDep = Annotated[RankMessages, Depends(get_messages)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What a request needs to have the queue looked at once it is done."""

    looks: Looks
    messages: RankMessages
    settings: Settings

    def look_after_order(self, session: Session, ordered: Ordered) -> None:
        """Look at the queue after the commit of `session`, if the new restore may be the next."""
        if ordered.may_start:
            self.looks.look_after(session)

    def look_after(self, session: Session) -> None:
        """Look at the queue after the commit of `session`: it has added a restore or freed devices."""
        self.looks.look_after(session)


async def get_admission(request: Request, messages: MessagesDep, settings: SettingsDep) -> Admission:
    return Admission(looks=request.app.state.admission_looks, messages=messages, settings=settings)


AdmissionDep = Annotated[Admission, Depends(get_admission)]


async def get_intake(request: Request) -> Intake:
    intake: Intake = request.app.state.intake
    return intake


IntakeDep = Annotated[Intake, Depends(get_intake)]
