"""Has the poll of a turn of the loop end before it has reported all sockets that are ready.

libuv asks epoll for 1,024 events at a time, and asks again, up to 48 times, while each answer is full. Thousands
of connections that send at once would be read in one turn, and those that are answered and send again with them.
A signal to libuv would end the poll, but epoll reports in the order in which things became ready, so libuv would
see it last of all.

So once the turn has used up its share, the number of the descriptor that libuv asks is given to an epoll of
nothing (`dup2`), which has no event: the poll is over with the batch at hand. Before the next poll the number is
given back; no event is lost, as a socket stays ready until it is read. In between libuv changes what is polled in
one way only: it takes out what is being closed, whose closing does that, too; or what it stops looking at, and
that it takes out when an event of it comes. What is to be added, it adds at the beginning of a poll.

On Linux, with uvloop; other loops are left as they are. Knows nothing of what a turn does.
"""

from __future__ import annotations

import asyncio
import os
import select
import sys

from coordinator.runtime.loop_turns import polled_descriptor


class ShortPoll:
    """Ends the poll of a turn, on the loop's thread alone, from one of the callbacks that the poll makes."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._polled = os.dup(descriptor)
        self._nothing = select.epoll()

    def end(self) -> None:
        """Have the poll under way end with the events that were reported; then `go_on`, before the next."""
        os.dup2(self._nothing.fileno(), self._descriptor, inheritable=False)

    def go_on(self) -> None:
        """Have the next poll report what is ready."""
        os.dup2(self._polled, self._descriptor, inheritable=False)

    def close(self) -> None:
        """Leave the loop as it was; before it is closed."""
        self.go_on()
        os.close(self._polled)
        self._nothing.close()


def short_poll_of(loop: asyncio.AbstractEventLoop) -> ShortPoll | None:
    """Return the means to end a poll of `loop`; None where it is not to be had."""
    descriptor = polled_descriptor(loop) if sys.platform == "linux" else None
    return None if descriptor is None else ShortPoll(descriptor)
