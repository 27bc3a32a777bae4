"""Why a request of a consumer group's member is refused: the error and the text that goes with it."""

from __future__ import annotations

from protocol.errors import ErrorCode


class Refused(Exception):
    """Raised before anything is changed. Some errors have no message, as in Kafka."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
