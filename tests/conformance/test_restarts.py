"""Scripts share a restart: it comes when all are there, and amid the requests of those that keep asking."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.conformance.restarts import ANSWERS_BEFORE_THE_END, Restarts

WITHIN_S = 20.0


class Broker:
    """A broker that counts the answers it gave before its end, and may fail to come back."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.answers = 0
        self.restarts = 0
        self._failure = failure

    def end(self) -> None:
        self.restarts += 1

    async def start_again(self) -> None:
        await asyncio.sleep(0)
        if self._failure is not None:
            raise self._failure

    async def ready(self) -> None:
        await asyncio.sleep(0)

    async def lane(self, on_answer: Callable[[], None]) -> None:
        while not self.restarts:
            self.answers += 1
            on_answer()
            await asyncio.sleep(0)


async def together(*scripts: object) -> None:
    async with asyncio.timeout(WITHIN_S):
        await asyncio.gather(*scripts)  # type: ignore[call-overload]


def test_the_last_script_that_comes_restarts_the_broker_once() -> None:
    async def play() -> None:
        broker = Broker()
        restarts = Restarts(broker, 3)
        restarts.give_up()
        await together(restarts.restarted(), restarts.restarted_just_now())
        assert broker.restarts == 1

    asyncio.run(play())


def test_no_script_goes_on_while_one_is_missing() -> None:
    async def play() -> None:
        broker = Broker()
        waiting = asyncio.create_task(Restarts(broker, 2).restarted())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        assert not broker.restarts
        waiting.cancel()

    asyncio.run(play())


def test_the_broker_ends_when_every_lane_has_had_answers_and_not_before() -> None:
    async def play() -> None:
        broker = Broker()
        restarts = Restarts(broker, 2)
        await together(restarts.amid([broker.lane, broker.lane]), restarts.restarted())
        assert broker.restarts == 1
        assert broker.answers >= 2 * ANSWERS_BEFORE_THE_END

    asyncio.run(play())


def test_lanes_wait_until_all_scripts_are_there() -> None:
    async def play() -> None:
        broker = Broker()
        restarts = Restarts(broker, 2)
        running = asyncio.create_task(restarts.amid([broker.lane]))
        await asyncio.sleep(0.01)
        assert not broker.answers
        restarts.give_up()
        await together(running)
        assert broker.answers

    asyncio.run(play())


def test_a_lane_that_breaks_off_does_not_keep_the_others_waiting() -> None:
    async def broken(on_answer: Callable[[], None]) -> None:
        raise ValueError("no such topic")

    async def play() -> None:
        broker = Broker()
        restarts = Restarts(broker, 2)
        other = asyncio.create_task(restarts.restarted())
        with pytest.raises(ValueError, match="no such topic"):
            await together(restarts.amid([broken]))
        await together(other)
        assert broker.restarts == 1

    asyncio.run(play())


def test_every_script_reports_a_broker_that_does_not_come_back() -> None:
    async def play() -> None:
        restarts = Restarts(Broker(OSError("no port")), 2)
        waiting = [
            asyncio.create_task(each) for each in (restarts.restarted(), restarts.restarted_just_now())
        ]
        for each in waiting:
            with pytest.raises(RuntimeError, match="did not come back: no port"):
                await asyncio.wait_for(each, WITHIN_S)
        await restarts.over()

    asyncio.run(play())


def test_a_script_whose_time_is_over_before_its_lanes_begin_keeps_no_other_waiting() -> None:
    async def play() -> None:
        broker = Broker()
        restarts = Restarts(broker, 2)
        late = asyncio.create_task(restarts.amid([broker.lane, broker.lane]))
        await asyncio.sleep(0.01)
        late.cancel()
        await asyncio.wait([late])
        await together(restarts.restarted())
        assert broker.restarts == 1

    asyncio.run(play())
