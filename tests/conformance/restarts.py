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
    """A broker that can be ended and started again."""

    def end(self) -> None:
        """Send the signal that ends the broker; returns at once."""
        ...

    async def start_again(self) -> None:
        """Start the broker when it has ended; returns when it accepts connections."""
        ...

    async def ready(self) -> None:
        """Returns when the broker has loaded everything."""
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
        self._restarting: asyncio.Future[None] | None = None

    async def restarted(self) -> None:
        """Returns when the broker is back; RuntimeError if it does not come back, as from all waits here."""
        self.give_up()
        await self.over()
        self._check()

    async def restarted_just_now(self) -> None:
        """Returns when the broker accepts connections, and may be loading still."""
        self.give_up()
        await self._accepts.wait()
        self._check()

    async def over(self) -> None:
        """Returns when the broker is back or has failed to come back, which the scripts report."""
        await self._ready.wait()

    async def amid(self, lanes: Iterable[Lane]) -> None:
        """Run `lanes` once all scripts are here; the broker ends when each lane in it is under way."""
        given, begun = list(lanes), list[Lane]()
        self._idle_lanes += len(given)
        self.give_up()
        try:
            await self._all_here.wait()
            await asyncio.gather(*[self._run(lane, begun) for lane in given])
        except BaseException:  # Its time is over, say: nobody has to wait for lanes that it will not begin.
            if unused := len(given) - len(begun):
                self._idle_lanes -= unused
                self._restart_if_all_are_ready()
            raise
        await self.over()
        self._check()

    def give_up(self) -> None:
        """One script less to wait for; the last one restarts the broker."""
        self._missing -= 1
        if self._missing == 0:
            self._all_here.set()
        self._restart_if_all_are_ready()

    async def _run(self, lane: Lane, begun: list[Lane]) -> None:
        """One lane, until it is cut off; one that breaks off by itself is waited for no longer."""
        begun.append(lane)
        answers = 0

        def count() -> None:
            nonlocal answers
            answers += 1
            if answers == ANSWERS_BEFORE_THE_END:
                self._lane_is_busy()

        try:
            await lane(count)
        finally:
            if answers < ANSWERS_BEFORE_THE_END:
                self._lane_is_busy()

    def _lane_is_busy(self) -> None:
        """End the broker when the last lane is busy: here, in the very call that an answer made."""
        self._idle_lanes -= 1
        self._restart_if_all_are_ready()

    def _restart_if_all_are_ready(self) -> None:
        """Restart the broker once the last script or lane is ready."""
        if not self._missing and not self._idle_lanes:
            self._broker.end()
            self._restarting = asyncio.ensure_future(self._restart())

    async def _restart(self) -> None:
        try:
            await self._broker.start_again()
            self._accepts.set()
            await self._broker.ready()
        except Exception as error:  # Every script that waits reports it.
            self._failure = error
        self._accepts.set()
        self._ready.set()

    def _check(self) -> None:
        if self._failure is not None:
            raise RuntimeError(f"the broker did not come back: {self._failure}") from self._failure
