"""A poll of uvloop that is ended early, with real sockets: what it has not reported comes in later turns."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter

import uvloop

from coordinator.runtime.loop_turns import see_turns
from coordinator.runtime.short_poll import ShortPoll, short_poll_of
from coordinator.server.descriptors import raise_limit

SOCKETS = 2_500
BATCH = 1_024  # Events that libuv asks epoll for at a time.
PATIENCE_S = 20


class Reading:
    """Pairs of sockets whose near ends are read by the loop; each read notes the turn that it was in."""

    def __init__(self, count: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.pairs = [socket.socketpair() for _ in range(count)]
        self.turn = 0
        self.read_in: list[int] = []
        stop = see_turns(self.loop, self._on_turn)
        assert stop is not None
        self._stop_seeing = stop
        self.poll: ShortPoll | None = None
        self.is_ended = False
        self._all_read = asyncio.Event()
        for near, _ in self.pairs:
            near.setblocking(False)
            self.loop.add_reader(near, self.on_readable, near)

    def _on_turn(self, busy_s: float) -> None:
        self.turn += 1
        if self.poll is not None and self.is_ended:
            self.is_ended = False
            self.poll.go_on()

    def on_readable(self, near: socket.socket) -> None:
        near.recv(100)
        self.read_in.append(self.turn)
        if len(self.read_in) == len(self.pairs):
            self._all_read.set()
        if self.poll is not None and not self.is_ended:
            self.is_ended = True
            self.poll.end()

    async def have_all_read(self) -> list[int]:
        """Send on all at once; return how many were read in each turn that read some."""
        await asyncio.sleep(0.05)
        self.read_in.clear()
        self._all_read.clear()
        for _, far in self.pairs:
            far.send(b"x")
        async with asyncio.timeout(PATIENCE_S):
            await self._all_read.wait()
        return list(Counter(self.read_in).values())

    def close(self) -> None:
        self._stop_seeing()
        for near, far in self.pairs:
            self.loop.remove_reader(near)
            near.close()
            far.close()


async def read_all() -> None:
    reading = Reading(SOCKETS)
    assert max(await reading.have_all_read()) == SOCKETS, "libuv goes on while there is more"
    reading.poll = poll = short_poll_of(reading.loop)
    assert poll is not None
    for _ in range(3):
        counts = await reading.have_all_read()
        assert sum(counts) == SOCKETS, "none is lost"
        assert max(counts) <= BATCH
    reading.poll = None
    poll.close()
    assert max(await reading.have_all_read()) == SOCKETS, "the loop is as it was"
    reading.close()


def test_a_turn_reads_a_batch_and_the_next_ones_what_is_left() -> None:
    raise_limit()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(read_all())


async def close_in_between() -> None:
    """A descriptor that is closed, or no longer looked at, while its event is not reported."""
    reading = Reading(8)
    reading.poll = poll = short_poll_of(reading.loop)
    assert poll is not None
    (gone, other), (dropped, _), *_ = reading.pairs
    poll.end()
    reading.is_ended = True
    reading.loop.remove_reader(gone)
    reading.loop.remove_reader(dropped)
    gone.close()
    other.close()
    fresh = socket.socketpair()  # As a rule it has the numbers of those that have just gone.
    fresh[0].setblocking(False)
    reading.loop.add_reader(fresh[0], reading.on_readable, fresh[0])
    reading.pairs[0] = fresh
    reading.pairs.pop(1)
    assert await reading.have_all_read()
    reading.poll = None
    poll.close()
    reading.close()
    dropped.close()


def test_what_is_closed_or_added_while_a_poll_is_ended_is_so_for_the_next() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(close_in_between())


async def descriptors_of(loop: asyncio.AbstractEventLoop) -> None:
    before = set(os.listdir("/proc/self/fd"))
    poll = short_poll_of(loop)
    assert poll is not None
    poll.end()
    poll.close()
    assert set(os.listdir("/proc/self/fd")) == before
    await asyncio.sleep(0.01)


def test_it_leaves_no_descriptor_and_is_not_there_on_a_loop_of_another_kind() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(descriptors_of(runner.get_loop()))
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        assert short_poll_of(runner.get_loop()) is None
