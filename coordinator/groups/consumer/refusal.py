"""Why a request of a consumer group's member is refused: the error and the text that goes with it."""

from __future__ import annotations

from protocol.codec.primitives import MAX_STRING_BYTES
from protocol.errors import ErrorCode


class Refused(Exception):
    """Raised before anything is changed. Some errors have no message, as in Kafka.

    A message repeats what the client sent, so it may be too long for an answer: then it is cut. Kafka answers
    UNKNOWN_SERVER_ERROR in the place of such an error.
    """

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message)
        self.error = error
        self.message = None if message is None else _cut(message)


def _cut(message: str) -> str:
    if len(message) * 4 <= MAX_STRING_BYTES:
        return message
    return message.encode()[:MAX_STRING_BYTES].decode(errors="ignore")
