"""Dependencies of the restore routes."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy.orm import Session

from app.config import Settings
from app.db.session import Database
from app.restores.dispatch import RankMessages
from app.restores.service.admission import admit_after_commit
from app.web.deps import DatabaseDep, SettingsDep


def get_messages(request: Request) -> RankMessages:
    messages: RankMessages = request.app.state.messages
    return messages


MessagesDep = Annotated[RankMessages, Depends(get_messages)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What a request needs to have the queue looked at once it is done."""

    database: Database
    messages: RankMessages
    settings: Settings

    def look_after(self, session: Session) -> None:
        """Look at the queue after the commit of `session`: it has added a restore or freed devices."""
        admit_after_commit(session, database=self.database, messages=self.messages, settings=self.settings)


def get_admission(database: DatabaseDep, messages: MessagesDep, settings: SettingsDep) -> Admission:
    return Admission(database=database, messages=messages, settings=settings)


AdmissionDep = Annotated[Admission, Depends(get_admission)]
