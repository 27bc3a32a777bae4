"""The answering side of a connection: answers gather in the order of their requests, and leave in few writes.

An answer that has no one before it, and is in one piece, is written at once. What is read from files is sent by
`Outgoing`; while that has a queue, all else goes through it. Knows neither frames nor what a request asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized
from typing import Final

import structlog

from coordinator.server.memory_pool import MemoryPool
from coordinator.server.order import ReplyOrder
from coordinator.server.outgoing import Outgoing, joined
from coordinator.server.pending import Pending
from coordinator.server.turn_parts import not_connected
from protocol.codec.primitives import Buffer
from storage.files import StorageError
from storage.log.file_range import FileRange

MUTED: Final = (None,)
"""Stands in the place of unsent answers while a client is throttled."""

log = structlog.get_logger("muster.connection")


class AnsweringConnection(asyncio.Protocol):
    """What a `Connection` is for the requests that it has started."""

    __slots__ = (
        "_end_of_mute",
        "_is_consuming",
        "_order",
        "_out",
        "_out_bytes",
        "_outgoing",
        "_pool",
        "_sending",
        "_transport",
        "_unanswered",
        "_write",
        "_write_blocked",
        "is_held_back",
        "is_open",
        "peer",
    )

    def __init__(self, pool: MemoryPool) -> None:
        self._pool = pool
        self.peer = ""
        self.is_open = False
        self.is_held_back = False
        self._transport: asyncio.Transport | None = None
        self._write: Callable[[bytes], None] = not_connected
        self._order = ReplyOrder()
        self._unanswered: Sized = self._order.unanswered
        self._write_blocked = False
        self._is_consuming = False
        self._out: list[Buffer | FileRange] = []
        self._out_bytes = 0
        self._outgoing: Outgoing | None = None  # Sends answers that are read from files; idle as a rule.
        self._sending: Sized = ()  # The queue in `_outgoing`, or MUTED: no request is started then.
        self._end_of_mute: asyncio.TimerHandle | None = None

    @property
    def _is_sending(self) -> bool:
        """Whether answers wait for the peer to read them: until then no more requests are started."""
        return self._write_blocked or bool(self._sending)

    def release_memory(self, size_bytes: int) -> None:
        """Stop counting the frame of an answered request in the pool; the connection may be closed already."""
        self._pool.release(size_bytes)

    def on_framed(self, pending: Pending, frame: bytes) -> None:
        """Send the answer of `pending`, which is `frame`, as `on_answered` does. Most are the only ones due."""
        if self._out or self._is_consuming or self._sending or not self._order.take_only(pending):
            self.on_answered(pending)
            return
        self._write(frame)
        if self._write_blocked:
            assert self._outgoing is not None
            self._outgoing.on_more_written()
        if self.is_held_back:
            self._maybe_resume()

    def on_answered(self, pending: Pending) -> None:
        """Send the answer of `pending` and those that waited for it, unless an earlier request is unanswered."""
        chunks = self._order.take_answered(pending)
        if chunks is None:
            return
        self._out += chunks
        self._out_bytes += sum(map(len, chunks))
        if not self._is_consuming:
            self._send()
        if self.is_held_back:
            self._maybe_resume()

    def _send(self) -> None:
        """Write the answers gathered so far, in one write."""
        out = self._out
        if out and self.is_open:
            assert self._outgoing is not None
            if self._outgoing.is_idle and (whole := joined(out)) is not None:
                self._write(whole)
                if self._write_blocked:
                    self._outgoing.on_more_written()
            else:
                self._outgoing.send(out)
        out.clear()
        self._out_bytes = 0

    def _on_sent(self) -> None:
        """Resume reading, or finish closing: all answers that were read from files have been sent."""
        if not self.is_open and self._transport is not None:
            self._transport.close()
        elif self.is_held_back:
            self._maybe_resume()

    def _on_unreadable(self, error: StorageError) -> None:
        """Close at once: part of an answer was sent and the rest cannot be read. The client may ask again."""
        log.error("answer cut short", peer=self.peer, error=str(error))
        self.abort()

    # Throttled clients (KIP-219).

    def wait_alone(self) -> None:
        """Start no other request before those that are unanswered now have their answers."""
        self._order.wait_alone()

    def mute(self, throttle_ms: int) -> None:
        """Read nothing and start no request for so long, or longer if it is muted so; answers still leave.

        Where quotas are not, nothing is spent on this: it stands where unsent answers stand, which is looked at
        before each request anyhow.
        """
        if not self.is_open:
            return
        loop = asyncio.get_running_loop()
        at_s = loop.time() + throttle_ms / 1_000
        if self._end_of_mute is not None:
            if self._end_of_mute.when() >= at_s:
                return
            self._end_of_mute.cancel()
        self._end_of_mute = loop.call_at(at_s, self.unmute)
        self._sending = MUTED
        self._hold_back()

    def unmute(self) -> None:
        """Go on with the requests that waited for the end of the throttle time."""
        if self._end_of_mute is None:
            return
        self._end_of_mute.cancel()
        self._end_of_mute = None
        self._sending = () if self._outgoing is None else self._outgoing.queue
        self._maybe_resume()

    def _hold_back(self) -> None:
        """Take nothing more off the socket until requests may be started again."""
        raise NotImplementedError

    def _maybe_resume(self) -> None:
        """Start the requests held back, in a later turn of the loop."""
        raise NotImplementedError

    def abort(self) -> None:
        """Close now and drop the answers that were not sent."""
        raise NotImplementedError
