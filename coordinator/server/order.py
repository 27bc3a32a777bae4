"""The order on one connection: which request may start, and which answers may leave.

Answers leave in the order of the requests. A request starts once those before it are answered, as in Kafka; but
requests that pipeline may wait side by side, up to a number and a size. Knows no sockets and no frames.
"""

from __future__ import annotations

from collections import deque

from coordinator.server.pending import Pending
from protocol.codec.primitives import Buffer

MAX_UNANSWERED = 128
"""Pipelined requests of one connection that may be unanswered; further ones stay in the socket."""

MAX_UNANSWERED_BYTES = 8 << 20
"""Size of the unanswered requests together beyond which the next waits: a producer's batches are held so long."""


class ReplyOrder:
    """The unanswered requests of one connection, and which answers may leave."""

    __slots__ = ("_is_pipelining", "_unanswered_bytes", "unanswered")

    def __init__(self) -> None:
        self.unanswered: deque[Pending] = deque()
        """The requests in the order in which they came. Only this class adds and removes them."""
        self._unanswered_bytes = 0  # Sum of their frames' sizes.
        self._is_pipelining = True  # Whether all of the unanswered requests pipeline.

    def may_overtake(self, pipelines: bool) -> bool:
        """Whether the next request may start although others are unanswered; `pipelines` is what its API does."""
        return (
            self._is_pipelining
            and pipelines
            and len(self.unanswered) < MAX_UNANSWERED
            and self._unanswered_bytes < MAX_UNANSWERED_BYTES
        )

    def add(self, pending: Pending) -> None:
        """Add `pending` as the last request in the order."""
        pipelines = pending.api.pipelines
        self._is_pipelining = pipelines and (self._is_pipelining or not self.unanswered)
        self.unanswered.append(pending)
        self._unanswered_bytes += pending.frame_bytes

    def wait_alone(self) -> None:
        """Start no other request before those that are unanswered now have their answers."""
        self._is_pipelining = False

    def take_answered(self, pending: Pending) -> list[Buffer] | None:
        """Remove and return the answers that may leave now that `pending` has its own.

        None while an earlier request is unanswered.
        """
        unanswered = self.unanswered
        if not unanswered or unanswered[0] is not pending:
            return None
        chunks: list[Buffer] = []
        while unanswered and (answer := unanswered[0].chunks) is not None:
            self._unanswered_bytes -= unanswered.popleft().frame_bytes
            chunks += answer
        return chunks

    def take_only(self, pending: Pending) -> bool:
        """Remove `pending`, which has its answer, if no other request is unanswered; return whether that is so."""
        unanswered = self.unanswered
        if len(unanswered) != 1 or unanswered[0] is not pending:
            return False
        unanswered.popleft()
        self._unanswered_bytes = 0
        return True

    def clear(self) -> None:
        """Remove all requests, after the connection has closed."""
        self.unanswered.clear()
        self._unanswered_bytes = 0

    @property
    def waits_for_disk(self) -> bool:
        """Whether there are unanswered requests, all of which wait for the disk and not for other requests."""
        return self._is_pipelining and bool(self.unanswered)
