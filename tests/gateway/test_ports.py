"""The ports behind which brokers are: which they are, when they open, and what is said if one cannot."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from coordinator.gateway.addresses import Place
from coordinator.gateway.ports import Ports
from coordinator.server.server import BindError

FIRST = 9_100


class Opener:
    """Opens ports on command; one that is taken cannot be opened."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self.taken: set[int] = set()
        self.may_open = asyncio.Event()
        self.may_open.set()

    async def open(self, broker_id: int, port: int) -> tuple[str, int]:
        self.asked.append((broker_id, port))
        await self.may_open.wait()
        if port in self.taken:
            raise BindError(f"{port} is taken")
        return "gateway", port or 40_000 + broker_id


def broker(broker_id: int, port: int = 9_092) -> Place:
    return Place(broker_id, "broker", port)


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.mark.asyncio
async def test_a_brokers_port_is_the_first_one_and_its_id() -> None:
    opener = Opener()
    ports = Ports(opener.open, FIRST, [broker(1), broker(1_005)])
    await ports.open()
    assert ports.place_of(1) == ("gateway", FIRST + 1)
    assert ports.place_of(1_005) == ("gateway", FIRST + 1_005)
    assert ports.place_of(2) is None
    assert ports.broker_ids == [1, 1_005]


@pytest.mark.asyncio
async def test_without_a_first_port_any_will_do() -> None:
    opener = Opener()
    ports = Ports(opener.open, 0, [broker(1)])
    await ports.open()
    assert opener.asked == [(1, 0)]
    assert ports.place_of(1) == ("gateway", 40_001)


@pytest.mark.asyncio
async def test_there_are_no_ports_beyond_the_last() -> None:
    with pytest.raises(BindError, match=r"broker 60000 has no port: muster\.gateway\.first\.port=9100"):
        await Ports(Opener().open, FIRST, [broker(60_000)]).open()


@pytest.mark.asyncio
async def test_a_broker_that_comes_later_has_its_port_soon_and_once() -> None:
    opener = Opener()
    opener.may_open.clear()
    ports = Ports(opener.open, FIRST, [])
    for _ in range(3):
        ports.learn([broker(2)])
        await turn()
    assert ports.place_of(2) is None
    opener.may_open.set()
    await turn()
    ports.learn([broker(2)])
    await turn()
    assert opener.asked == [(2, FIRST + 2)]
    assert ports.place_of(2) == ("gateway", FIRST + 2)


@pytest.mark.asyncio
async def test_brokers_of_the_start_are_opened_by_it_alone_whoever_names_them_meanwhile() -> None:
    opener = Opener()
    opener.may_open.clear()
    ports = Ports(opener.open, FIRST, [broker(1), broker(2)])
    ports.learn([broker(2)])
    starting = asyncio.ensure_future(ports.open())
    await turn()
    ports.learn([broker(1), broker(2)])
    opener.may_open.set()
    await starting
    assert opener.asked == [(1, FIRST + 1), (2, FIRST + 2)]


@pytest.mark.asyncio
async def test_a_port_that_is_taken_is_reported_once_and_tried_again() -> None:
    opener = Opener()
    opener.taken.add(FIRST + 2)
    ports = Ports(opener.open, FIRST, [])
    with capture_logs() as said:
        for _ in range(3):
            ports.learn([broker(2)])
            await turn()
    assert [(each["event"], each["broker_id"], each["reason"]) for each in said] == [
        ("clients cannot reach a broker", 2, "9102 is taken")
    ]
    opener.taken.clear()
    ports.learn([broker(2)])
    await turn()
    assert ports.place_of(2) == ("gateway", FIRST + 2)


@pytest.mark.asyncio
async def test_a_broker_is_connected_to_where_it_was_last_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    async def create_connection(protocol: Any, host: str, port: int) -> tuple[Any, Any]:
        seen.append((host, port))
        return None, None

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", create_connection)
    ports = Ports(Opener().open, FIRST, [broker(1)])
    await ports.open()
    await ports.connect(1, asyncio.Protocol)
    ports.learn([broker(1, 9_999)])
    await ports.connect(1, asyncio.Protocol)
    assert seen == [("broker", 9_092), ("broker", 9_999)]
