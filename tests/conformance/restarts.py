"""One restart of a broker that many scripts share: each waits until all have come so far."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

ANSWERS_BEFORE_THE_END: Final = 8
"""So many answers each lane has before the broker ends: all of them are busy at that moment."""

Lane = Callable[[Callable[[], None]], Awaitable[None]]
"""Sends requests one after the other until its connection breaks, and calls its argument after each answer."""


class Restartable(Protocol):
    """A broker."""

    async def end_and_start(self) -> None:
        """End it at once and start it again; returns when it accepts connections."""
        ...

    async def ready(self) -> None:
        """Returns when it has loaded everything."""
        ...


class Restarts:
    """Restarts the broker when `scripts` of them have come to it or given up."""

    def __init__(self, broker: Restartable, scripts: int) -> None:
        self._broker = broker
        self._missing = scripts
        self._idle_lanes = 0
        self._all_here = asyncio.Event()
        self._accepts = asyncio.Event()
        self._ready = asyncio.Event()
        self._failure: Exception | None = None

    async def restarted(self) -> None:
        """Returns when the broker is back; RuntimeError if it does not come back, as from all waits here."""
        await self.give_up()
        await self.over()
        self._check()

    async def restarted_just_now(self) -> None:
        """Returns when the broker accepts connections, and may be loading still."""
        await self.give_up()
        await self._accepts.wait()
        self._check()

    async def over(self) -> None:
        """Returns when the broker is back or has failed to come back, which the scripts report."""
        await self._ready.wait()

    async def amid(self, lanes: Iterable[Lane]) -> None:
        """Run `lanes` once all scripts are here; the broker ends when each lane in it is under way."""
        given = list(lanes)
        self._idle_lanes += len(given)
        await self.give_up()
        await self._all_here.wait()
        await asyncio.gather(*map(self._run, given))
        await self.over()
        self._check()

    async def give_up(self) -> None:
        """One script less to wait for; the last one restarts the broker."""
        self._missing -= 1
        if self._missing == 0:
            self._all_here.set()
        await self._restart_if_all_are_ready()

    async def _run(self, lane: Lane) -> None:
        """One lane, until it is cut off; one that breaks off by itself is waited for no longer."""
        answers = 0
        enough = asyncio.Event()

        def count() -> None:
            nonlocal answers
            answers += 1
            if answers == ANSWERS_BEFORE_THE_END:
                enough.set()

        running = asyncio.ensure_future(lane(count))
        waiting = asyncio.ensure_future(enough.wait())
        try:
            await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            self._idle_lanes -= 1
            await self._restart_if_all_are_ready()
        await running

    async def _restart_if_all_are_ready(self) -> None:
        """True once: when the last script or lane has come to it."""
        if self._missing or self._idle_lanes:
            return
        try:
            await self._broker.end_and_start()
            self._accepts.set()
            await self._broker.ready()
        except Exception as error:  # Every script that waits reports it.
            self._failure = error
        self._accepts.set()
        self._ready.set()

    def _check(self) -> None:
        if self._failure is not None:
            raise RuntimeError(f"the broker did not come back: {self._failure}") from self._failure
