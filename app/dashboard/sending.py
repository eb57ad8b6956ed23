"""A form that is sent twice is one request: its hidden `once` is the key under which the answer is kept."""

import time
from collections.abc import Callable
from typing import Final

from fastapi import Response
from sqlalchemy.orm import Session

from app.errors import Conflict, Refused
from app.web.idempotency import Answer, answer_once

# A double click's second request waits for the first one rather than complain about it.
PATIENCE_S: Final = 3.0


def answer_form(
    session: Session, *, principal: str, once: str, sent: bytes, produce: Callable[[], Answer]
) -> Response:
    """What `produce` answers, the same for the same form; a savepoint undoes what fails.

    Raises:
        Refused: the form came without its `once`, or with one of another form.
    """
    if not once:
        raise Refused("This form was incomplete; it has been renewed, please send it again")
    give_up_at = time.monotonic() + PATIENCE_S
    while True:
        try:
            with session.begin_nested():
                return answer_once(
                    session, principal=principal, key=f"form {once}", request=sent, produce=produce
                )
        except Conflict as error:
            if error.code != "idempotency-in-flight" or time.monotonic() > give_up_at:
                raise
            time.sleep(0.05)
