"""`max.connection.creation.rate`: connections beyond it wait, and none is refused."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from coordinator.server.acceptor import Acceptor, bind
from coordinator.server.creation_rate import MIN_WAIT_S, CreationRate
from coordinator.server.descriptors import Descriptors
from coordinator.topics.config_values import INT32_MAX
from harness.daemon import MusterDaemon
from harness.processes import HOST
from harness.wire import WireClient
from protocol.messages.describe_cluster import DescribeClusterRequest

RATE = 20
CLIENTS = 30


def taken(rate: CreationRate, now_s: float, most: int = 1000) -> int:
    """Take what may be taken at `now_s`."""
    count = min(rate.allowed(now_s), most)
    for _ in range(count):
        rate.take()
    return count


def test_a_second_may_come_at_once_and_then_no_more_than_the_rate() -> None:
    rate = CreationRate(10, 100.0)
    assert rate.wait_s(100.0) == 0
    assert [taken(rate, now_s) for now_s in (100.0, 100.0, 100.25, 100.5, 101.0)] == [10, 0, 2, 3, 5]
    assert rate.wait_s(101.0) == pytest.approx(0.1)
    assert rate.wait_s(101.05) == pytest.approx(0.05)
    assert taken(rate, 500.0) == 10, "what was not used long ago is gone"


def test_at_any_pace_of_looking_the_rate_is_kept() -> None:
    for step_s in (0.001, 0.013, 0.7, 3.0):
        rate = CreationRate(10, 0.0)
        steps = int(60 / step_s)
        assert sum(taken(rate, number * step_s) for number in range(steps)) <= 10 + 60 * 10


def test_a_wait_is_no_shorter_than_a_timer_can_be() -> None:
    rate = CreationRate(1_000_000, 0.0)
    taken(rate, 0.0, most=1_000_000)
    assert rate.wait_s(0.0) == MIN_WAIT_S


def accepted_within(seconds: float, prepare: Callable[[Acceptor], None]) -> list[float]:
    """When each of `CLIENTS` that connect at once was accepted, in seconds from then."""

    async def run() -> list[float]:
        acceptor = Acceptor(Descriptors.of_process())
        (listening,) = bind([(socket.AF_INET, (HOST, 0))])
        times: list[float] = []
        are_all = asyncio.Event()
        began = time.monotonic()

        with ExitStack() as stack:

            def on_accepted(connection: socket.socket) -> None:
                times.append(time.monotonic() - began)
                stack.enter_context(connection)
                if len(times) == CLIENTS:
                    are_all.set()

            acceptor.listen([listening], 4096, on_accepted)
            prepare(acceptor)
            for _ in range(CLIENTS):
                stack.enter_context(socket.create_connection(listening.getsockname(), timeout=10))
            with suppress(TimeoutError):
                await asyncio.wait_for(are_all.wait(), seconds)
            acceptor.close()
        return times

    return asyncio.run(run())


def test_those_beyond_the_rate_are_accepted_later() -> None:
    times = accepted_within(10, lambda acceptor: acceptor.limit_rate(RATE))
    assert len(times) == CLIENTS
    assert times[-1] > (CLIENTS - RATE) / RATE - 0.05
    assert sum(at_s < 0.1 for at_s in times) <= RATE + 2


def test_a_connection_that_goes_does_not_make_room_in_the_rate() -> None:
    def prepare(acceptor: Acceptor) -> None:
        acceptor.limit_rate(1)
        asyncio.get_running_loop().call_later(0.05, acceptor.on_connection_gone)

    times = accepted_within(0.3, prepare)
    assert times
    assert all(at_s > number - 0.05 for number, at_s in enumerate(times)), (
        "one a second, however long it took"
    )


def test_without_a_limit_all_are_accepted_in_one_go() -> None:
    """Also those that waited for a limit which is no more."""

    def prepare(acceptor: Acceptor) -> None:
        acceptor.limit_rate(1)
        asyncio.get_running_loop().call_later(0.1, acceptor.limit_rate, INT32_MAX)

    times = accepted_within(20, prepare)
    assert len(times) == CLIENTS
    assert times[-1] < 10, "one a second would be half a minute"


def test_a_daemon_keeps_the_rate_of_its_file(tmp_path: Path) -> None:
    with MusterDaemon(tmp_path, {"max.connection.creation.rate": "10"}) as daemon, ExitStack() as stack:
        began = time.monotonic()
        for _ in range(20):
            client = stack.enter_context(WireClient(daemon.bootstrap))
            assert client.ask(DescribeClusterRequest(), 0).brokers
        assert time.monotonic() - began > 0.9
