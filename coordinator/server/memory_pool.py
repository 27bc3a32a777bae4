"""The memory that the requests of all connections share: Kafka's `queued.max.request.bytes`.

Counted are bytes that were received and have not become a request, requests whose records or commits wait for the
disk, and large frames as a whole from the moment that they are admitted, so that an admitted frame can always
become whole. A large frame that does not fit waits, first come first served, with its socket unread: that is the
back-pressure. Small requests that arrive whole and are answered at once are not counted, and always served.

Nothing holds memory for ever that others wait for. What is whole is answered; what is not has to bring bytes, and
to become whole within the time that clients give a request, or its connection is closed. Knows no requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from coordinator.purgatory.delayed import TimerOwner
from coordinator.runtime.clock import Clock

UNLIMITED: Final = 1 << 62

UNCOUNTED_BYTES: Final = 4096
"""Received bytes of a connection up to this number are not counted: the connection itself takes more."""

PREPARED_SHARE: Final = 64
"""Share of the pool that the frames of prepared requests of all connections may take: 4 MiB of 256. They become 70
times as much, so that is as large as the pool again; what finds no room is decoded like any other."""

RESERVED_SHARE: Final = 4
"""One in so many bytes is kept from very large frames, so that smaller ones are always admitted."""

VERY_LARGE_SHARE: Final = 64
"""A frame is very large from this share of the pool: 4 MiB of 256. Producers' requests have 1 MiB by default."""

OVERDRAFT_SHARE: Final = 8
"""Share of the pool by which received bytes may exceed it: beyond, the connection that sent them is closed."""

STALLED_MS: Final = 2_000
"""Longest pause within a frame while others wait for memory: longer than a lost packet takes."""

FRAME_MS: Final = 30_000
"""Time for a frame to become whole while others wait: `request.timeout.ms` of producers and consumers."""


UNKNOWN_PROGRESS: Final = (-1, -1)


class Holder(Protocol):
    """A connection whose received bytes the pool counts."""

    @property
    def last_request_ms(self) -> int: ...

    @property
    def received_bytes(self) -> int:
        """Number of received bytes that have not become a request."""

    @property
    def waits_for_answers(self) -> bool:
        """Whether its bytes wait for earlier requests of the same connection, which wait for the disk."""

    def on_admitted(self) -> None:
        """Called when the large frame of this connection is admitted."""

    def give_way(self, reason: str) -> None:
        """Close the connection: others wait for the memory that it holds. `reason` is for the log."""


@dataclass(slots=True, eq=False)
class Holding:
    """The memory that one connection holds, and its progress when it was last looked at."""

    since_ms: int
    kept_bytes: int = 0
    frame_bytes: int = 0  # Size of the large frame that was admitted, or waits to be.
    is_waiting: bool = False
    progress: tuple[int, int] = UNKNOWN_PROGRESS
    progress_ms: int = 0


class MemoryPool:
    """The memory of all connections' requests. `set_timer(self, None, deadline_ms)` has `timer_fired` called."""

    def __init__(
        self,
        capacity_bytes: int,
        clock: Clock,
        set_timer: Callable[[TimerOwner[None], None, int | None], None],
    ) -> None:
        """A capacity of 0 or less sets no limit, as in Kafka."""
        self.capacity_bytes = capacity_bytes if capacity_bytes > 0 else UNLIMITED
        self.used_bytes = 0
        self._request_bytes = 0  # The part of the used bytes that unanswered requests take.
        self._left_for_prepared_bytes = self.capacity_bytes // PREPARED_SHARE
        self._reserved_bytes = self.capacity_bytes // RESERVED_SHARE
        self._very_large_bytes = self.capacity_bytes // VERY_LARGE_SHARE
        self._clock = clock
        self._set_timer = set_timer
        self._holdings: dict[Holder, Holding] = {}
        self._admitted_bytes = {
            False: 0,
            True: 0,
        }  # Size of the admitted frames, by whether they are very large.
        self._waiting: dict[bool, deque[Holder]] = {False: deque(), True: deque()}
        self._waiting_since_ms = 0

    @property
    def is_full(self) -> bool:
        return self.used_bytes >= self.capacity_bytes

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting[False] or self._waiting[True])

    # What was prepared.

    def may_prepare(self, frame_bytes: int) -> bool:
        """Count a prepared request of so many bytes; return False if there is no room for it."""
        if frame_bytes > self._left_for_prepared_bytes:
            return False
        self._left_for_prepared_bytes -= frame_bytes
        return True

    def forget_prepared(self, frame_bytes: int) -> None:
        """Stop counting as many bytes of prepared requests."""
        self._left_for_prepared_bytes += frame_bytes

    # What was received, and what is being written.

    def keep(self, holder: Holder, received_bytes: int) -> bool:
        """Count the received bytes of `holder`; return False if there is no room for them."""
        kept_bytes = received_bytes if received_bytes > UNCOUNTED_BYTES else 0
        holding = self._holdings.get(holder)
        if holding is None:
            if not kept_bytes:
                return True
            holding = self._holdings[holder] = Holding(self._clock.now_ms())
        grown_bytes = kept_bytes - holding.kept_bytes
        holding.kept_bytes = kept_bytes
        self._forget_if_empty(holder, holding)
        if grown_bytes <= 0:
            self._free(-grown_bytes)
            return True
        self.used_bytes += grown_bytes
        return self.used_bytes <= self.capacity_bytes + self.capacity_bytes // OVERDRAFT_SHARE

    def take(self, size_bytes: int) -> None:
        """Count a request of `size_bytes`, which waits for its answer."""
        self._request_bytes += size_bytes
        self.used_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        """Stop counting a request of `size_bytes`, which has its answer."""
        self._request_bytes -= size_bytes
        self._free(size_bytes)

    def _free(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes
        if self.has_waiting:
            self._admit_waiting()

    # Large frames.

    def claim(self, holder: Holder, frame_bytes: int) -> bool:
        """Return True if memory for a whole frame was reserved; if not, `holder.on_admitted` is called later."""
        is_very_large = frame_bytes > self._very_large_bytes
        holding = self._holdings.setdefault(holder, Holding(self._clock.now_ms()))
        holding.frame_bytes = frame_bytes
        if not self._waiting[is_very_large] and self._fits(frame_bytes, is_very_large):
            self._admit(holding)
            return True
        if not self.has_waiting:
            self._begin_watch()
        holding.is_waiting = True
        self._waiting[is_very_large].append(holder)
        return False

    def on_frame_complete(self, holder: Holder) -> None:
        """Stop counting the large frame of `holder`: it has become a request, which is counted by `take`."""
        holding = self._holdings.get(holder)
        if holding is not None:
            frame_bytes, holding.frame_bytes = holding.frame_bytes, 0
            self._admitted_bytes[frame_bytes > self._very_large_bytes] -= frame_bytes
            self._forget_if_empty(holder, holding)
            self._free(frame_bytes)

    def forget(self, holder: Holder) -> None:
        """Stop counting a connection that is gone."""
        holding = self._holdings.pop(holder, None)
        if holding is None:
            return
        is_very_large = holding.frame_bytes > self._very_large_bytes
        if holding.is_waiting:
            self._waiting[is_very_large].remove(holder)
            self._free(holding.kept_bytes)
        else:
            self._admitted_bytes[is_very_large] -= holding.frame_bytes
            self._free(holding.frame_bytes + holding.kept_bytes)

    def _fits(self, frame_bytes: int, is_very_large: bool) -> bool:
        """Whether there is room for a frame; if few requests take memory, one frame of each kind needs no room.

        Otherwise a frame larger than the pool would wait for ever, and so would all frames once the first bytes of
        those that wait had filled the pool.
        """
        admitted_bytes = self._admitted_bytes[is_very_large]
        is_room = self.used_bytes + frame_bytes <= self.capacity_bytes
        if is_very_large:
            if (
                not admitted_bytes
                and self._admitted_bytes[False] + self._request_bytes <= self._reserved_bytes
            ):
                return True
            return is_room and admitted_bytes + frame_bytes <= self.capacity_bytes - self._reserved_bytes
        if not admitted_bytes and self._request_bytes <= self._reserved_bytes:
            return True
        most_bytes = self._reserved_bytes if self._waiting[True] else self.capacity_bytes
        return is_room and admitted_bytes + frame_bytes <= most_bytes

    def _admit(self, holding: Holding) -> None:
        """Count the whole frame from now on, instead of its received bytes."""
        holding.is_waiting = False
        holding.since_ms = self._clock.now_ms()
        holding.progress = UNKNOWN_PROGRESS  # The socket was not read until now.
        self._admitted_bytes[holding.frame_bytes > self._very_large_bytes] += holding.frame_bytes
        self.used_bytes += holding.frame_bytes - holding.kept_bytes
        holding.kept_bytes = 0

    def _admit_waiting(self) -> None:
        for is_very_large, waiting in self._waiting.items():
            while waiting:
                holding = self._holdings[waiting[0]]
                if not self._fits(holding.frame_bytes, is_very_large):
                    break
                holder = waiting.popleft()
                self._admit(holding)
                holder.on_admitted()

    def _forget_if_empty(self, holder: Holder, holding: Holding) -> None:
        if not (holding.kept_bytes or holding.frame_bytes):
            del self._holdings[holder]

    # Connections that do not send while others wait for memory.

    def _begin_watch(self) -> None:
        now_ms = self._waiting_since_ms = self._clock.now_ms()
        for holder, holding in self._holdings.items():
            holding.progress, holding.progress_ms = _progress_of(holder), now_ms
        self._set_timer(self, None, now_ms + STALLED_MS)

    def timer_fired(self, key: None) -> None:
        """Close connections whose frame does not arrive while others wait for memory."""
        if not self.has_waiting:
            return
        now_ms = self._clock.now_ms()
        for holder, holding in list(self._holdings.items()):
            if holding.is_waiting or holder.waits_for_answers:
                continue
            held_ms = now_ms - max(holding.since_ms, holder.last_request_ms, self._waiting_since_ms)
            if held_ms >= FRAME_MS:
                holder.give_way(f"a frame is not whole after {held_ms} ms, and others wait for its memory")
            elif holding.progress != (progress := _progress_of(holder)):
                holding.progress, holding.progress_ms = progress, now_ms
            elif now_ms - holding.progress_ms >= STALLED_MS:
                holder.give_way(f"no byte of a frame for {STALLED_MS} ms, and others wait for its memory")
        self._set_timer(self, None, now_ms + STALLED_MS)


def _progress_of(holder: Holder) -> tuple[int, int]:
    return holder.last_request_ms, holder.received_bytes
