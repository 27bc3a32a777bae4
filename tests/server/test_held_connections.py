"""Connections over the rate of their address, by plain calls: how many are held at a time."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.quotas.connection_rates import ConnectionRates
from coordinator.quotas.entities import CONNECTION_CREATION_RATE, entity_of
from coordinator.quotas.rates import Windows
from coordinator.server.held_connections import MOST_HELD, HeldConnections

pytestmark = pytest.mark.asyncio

ADDRESS = "10.0.0.1"
NEVER = 0.001
"""Connections a second, of which one is too many in any window."""


class Accepted:
    """Stands for a socket, as more of them are held than this process may have descriptors."""

    def __init__(self) -> None:
        self.is_closed = False

    def getpeername(self) -> tuple[str, int]:
        return ADDRESS, 4567

    def close(self) -> None:
        self.is_closed = True


async def test_a_thousand_are_held_and_further_ones_closed_at_once() -> None:
    """Or one address would take all descriptors, whatever its rate."""
    gone = 0

    def on_closed() -> None:
        nonlocal gone
        gone += 1

    held = HeldConnections(on_closed)
    held.rates = ConnectionRates(Windows())
    held.rates.set(entity_of([("ip", ADDRESS)]), {CONNECTION_CREATION_RATE: NEVER})
    connections: list[Any] = [Accepted() for _ in range(1_002)]
    assert [held.hold(each) for each in connections] == [True] * 1_002
    assert [each.is_closed for each in connections] == [False] * 1_000 + [True] * 2
    assert (gone, MOST_HELD) == (2, 1_000)
    held.close()
    assert all(each.is_closed for each in connections)
