"""Accepting at the limit on descriptors, by plain calls on the acceptor: one place, one connection, at once."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager

import pytest

from coordinator.server import acceptor
from coordinator.server.acceptor import Acceptor
from coordinator.server.descriptors import Descriptors
from harness.processes import HOST

PLACES = 5
WAITING = 20
DEADLINE_S = 10.0
NEVER_S = 3600.0
"""As the timer: what is accepted within a test is accepted since a connection went."""


class AtLimit:
    """An acceptor that may have `PLACES` connections, and some that wait behind them."""

    def __init__(self) -> None:
        self.listening = socket.create_server((HOST, 0), backlog=WAITING)
        self.listening.setblocking(False)
        address = self.listening.getsockname()
        self.clients = [socket.create_connection(address, timeout=DEADLINE_S) for _ in range(WAITING)]
        self.taken: list[socket.socket] = []
        self.first_reserved = max(free_descriptors(PLACES)) + 1
        self.acceptor = Acceptor(limit_that_reserves_from(self.first_reserved))

    def lose_one(self) -> None:
        """As a server loses a connection: the descriptor is free behind the call that says so."""
        gone = self.taken.pop(0)
        self.acceptor.on_connection_gone()
        gone.close()

    def reserved_taken(self) -> list[int]:
        return [each.fileno() for each in self.taken if each.fileno() >= self.first_reserved]

    def close(self) -> None:
        self.acceptor.close()
        for each in (*self.taken, *self.clients):
            each.close()


def free_descriptors(count: int) -> list[int]:
    """The numbers that the next connections get."""
    numbers = [os.dup(0) for _ in range(count)]
    for number in numbers:
        os.close(number)
    return numbers


def limit_that_reserves_from(number: int) -> Descriptors:
    found = (Descriptors(limit) for limit in range(1 << 16))
    return next(each for each in found if each.for_connections == number)


async def eventually(holds: Callable[[], bool]) -> None:
    """Let the loop turn until `holds`."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline_s, "it does not come"
        await asyncio.sleep(0)


@asynccontextmanager
async def at_limit() -> AsyncIterator[AtLimit]:
    made = AtLimit()
    try:
        made.acceptor.listen([made.listening], WAITING, made.taken.append)
        await eventually(lambda: len(made.taken) >= PLACES)
        yield made
    finally:
        made.close()


def test_one_place_that_becomes_free_is_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when the timer looks again; and the next one as well."""
    monkeypatch.setattr(acceptor, "TRY_AGAIN_S", NEVER_S)

    async def play() -> None:
        async with at_limit() as server:
            for _ in range(3):
                server.lose_one()
                await eventually(lambda: len(server.taken) == PLACES)

    asyncio.run(play())


def test_connections_that_come_and_go_take_nothing_of_the_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for one, however often: one more each time would leave the log nothing."""
    monkeypatch.setattr(acceptor, "TRY_AGAIN_S", NEVER_S)

    async def play() -> None:
        async with at_limit() as server:
            for _ in range(WAITING - PLACES):
                server.lose_one()
                await eventually(lambda: len(server.taken) >= PLACES)
                assert not server.reserved_taken()
                assert len(server.taken) == PLACES

    asyncio.run(play())


def test_a_timer_that_finds_no_place_takes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a flood waits it looks each second; what it finds free otherwise than by a connection, it gives."""
    monkeypatch.setattr(acceptor, "TRY_AGAIN_S", 0.001)

    async def play() -> None:
        held = os.dup(0)
        async with at_limit() as server:
            await asyncio.sleep(0.05)  # Some fifty looks.
            assert len(server.taken) == PLACES, "all that there is room for, and none more"
            os.close(held)
            await eventually(lambda: len(server.taken) == PLACES + 1)
            await asyncio.sleep(0.05)
            assert not server.reserved_taken()

    asyncio.run(play())


def test_all_that_wait_are_accepted_in_one_turn() -> None:
    """Each of a busy loop's turns may take milliseconds, and the system drops whom its queue does not hold."""

    async def play() -> None:
        with socket.create_server((HOST, 0), backlog=WAITING) as listening, ExitStack() as stack:
            listening.setblocking(False)
            for _ in range(WAITING):
                stack.enter_context(socket.create_connection(listening.getsockname(), timeout=DEADLINE_S))
            taken: list[socket.socket] = []
            each = Acceptor(limit_that_reserves_from(max(free_descriptors(WAITING)) + 100))
            each.listen([listening], WAITING, taken.append)
            each.accept()
            assert len(taken) == WAITING
            each.close()
            for connection in taken:
                connection.close()

    asyncio.run(play())
