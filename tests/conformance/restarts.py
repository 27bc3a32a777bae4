"""One restart of a broker that many scripts share: each waits until all have come so far."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class Restarts:
    """Restarts the broker when `scripts` of them have called `restarted` or given up."""

    def __init__(self, restart: Callable[[], Awaitable[None]], scripts: int) -> None:
        self._restart = restart
        self._missing = scripts
        self._done = asyncio.Event()

    async def restarted(self) -> None:
        """Returns when the broker is back."""
        await self.give_up()
        await self._done.wait()

    async def give_up(self) -> None:
        """One script less to wait for; the last one restarts the broker."""
        self._missing -= 1
        if self._missing == 0:
            await self._restart()
            self._done.set()
