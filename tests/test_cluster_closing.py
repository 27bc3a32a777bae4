"""A connection to a cluster is closed in a moment, whatever its client waits for: an interrupted command ends."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest

from muster import cluster
from muster.cluster import connected


class Client:
    """Stands for aiokafka's client: its close waits for a task that did not hear its cancellation."""

    def __init__(self, **_: object) -> None:
        self.cluster = SimpleNamespace(brokers=lambda: [object()])

    async def bootstrap(self) -> None:
        """It is connected."""

    async def close(self) -> None:
        await asyncio.get_running_loop().create_future()


class Failing(Client):
    async def close(self) -> None:
        raise KeyError("a bug")


async def test_a_client_that_does_not_close_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "AIOKafkaClient", Client)
    monkeypatch.setattr(cluster, "CLOSE_TIMEOUT_S", 0.05)
    began_s = time.monotonic()
    async with asyncio.timeout(30), connected("127.0.0.1:1"):
        pass
    assert time.monotonic() - began_s < 10


async def test_what_closing_raises_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "AIOKafkaClient", Failing)
    with pytest.raises(KeyError, match="a bug"):
        async with connected("127.0.0.1:1"):
            pass
