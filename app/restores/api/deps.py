"""Dependencies of the restore routes."""

from typing import Annotated

from fastapi import Depends, Request

from app.restores.dispatch import RankMessages


def get_messages(request: Request) -> RankMessages:
    messages: RankMessages = request.app.state.messages
    return messages


MessagesDep = Annotated[RankMessages, Depends(get_messages)]
