"""The daemon gives its parts what they work with; each of them does nothing if it is forgotten."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import uvloop

from coordinator.runtime.short_poll import ShortPoll
from coordinator.settings.model import Settings
from harness.processes import HOST
from tests.server.test_settings_arrive import own_values, started


def test_a_turn_can_end_the_poll_of_the_loop_that_it_runs_in(tmp_path: Path) -> None:
    async def look() -> None:
        async with started(Settings(**own_values(tmp_path / "logs"))) as daemon:
            assert isinstance(daemon._turn.poll, ShortPoll)

    uvloop.run(look())


def test_the_collector_knows_whether_clients_are_connected(tmp_path: Path) -> None:
    async def look() -> None:
        async with started(Settings(**own_values(tmp_path / "logs"))) as daemon:
            has_clients = daemon._collector._has_clients
            assert not has_clients()
            port = daemon.server.endpoint_for(next(iter(daemon._settings.endpoints)).name)[1]
            with socket.create_connection((HOST, port), timeout=10):
                async with asyncio.timeout(10):
                    while not has_clients():  # noqa: ASYNC110 - a connection is accepted in some turn.
                        await asyncio.sleep(0.001)

    asyncio.run(look())
