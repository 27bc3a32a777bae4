"""The part of a connection's requests that is left to a later turn of the loop.

One turn may bring requests on thousands of connections, or thousands on one. Those beyond the share of the turn
stay in their connection, as received, and wait in the queue of all that was put off; so the order on the
connection is kept, and each connection comes up as often as the others. Where nothing of a read was started the
socket is left as it is, since as a rule nothing more comes before an answer. If more comes, or was in that read,
the connection stops reading: so it keeps two reads at most, however fast its client sends. What waits here counts
in the pool of memory; once that is full nothing is put off.

A client may hang up meanwhile. Its requests are started all the same, as they would have been at once: a
producer that wants no answers may send and close.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from coordinator.runtime.turn_share import TurnShare


class Continued(Protocol):
    """The connection whose requests were put off."""

    is_held_back: bool

    def go_on(self, finish: Callable[[], None] | None) -> None:
        """Start the requests, then do `finish`, if there is one."""


class PutOff:
    """Requests of `connection` that were put off: it is told to go on when it is their turn."""

    __slots__ = ("_connection", "finish")

    def __init__(self, connection: Continued, turn: TurnShare) -> None:
        self._connection = connection
        connection.is_held_back = True
        self.finish: Callable[[], None] | None = None
        """What follows the requests, if the client has hung up: the later of two ends has more to do."""
        turn.later(self._go_on)

    def _go_on(self) -> None:
        self._connection.go_on(self.finish)


def ends_later(put_off: PutOff | None, turn: TurnShare | None, finish: Callable[[], None]) -> bool:
    """Whether `finish`, the end of a connection, is left to a later turn, as its requests or this `turn` ask for.

    Thousands of clients may hang up at once, as a job of theirs is stopped.
    """
    if put_off is not None:
        put_off.finish = finish
        return True
    if turn is not None and turn.is_over():
        turn.later(finish)
        return True
    return False


def closes_later(put_off: PutOff | None, turn: TurnShare, close: Callable[[], None]) -> bool:
    """Whether a connection whose client hung up is closed later: behind its requests, or as its turn comes up."""
    if put_off is not None:
        put_off.finish = close
        return True
    if turn.may_close():
        return False
    turn.close_later(close)
    return True


def drop(data: bytes) -> None:
    """Write nothing: the connection is gone."""


def not_connected(data: bytes) -> None:
    raise AssertionError("written to before connection_made")
