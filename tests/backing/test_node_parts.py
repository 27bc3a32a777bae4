"""What a node is put together from goes by the settings, and hears what it has to; nothing is connected."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import pytest_asyncio

from coordinator.backing.kafka.cluster import BackingCluster
from coordinator.backing.kafka.topic import BackingTopic
from coordinator.daemon import node as node_module
from coordinator.daemon.node import Node
from coordinator.daemon.node_backing import Backing, BackingClient
from coordinator.history.events import History
from coordinator.http.exchange import HttpProblem, Request, Steps
from coordinator.http.site import HttpSite
from coordinator.http.sources import Sources
from coordinator.settings.sources import load
from protocol.errors import ErrorCode
from protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

pytestmark = pytest.mark.asyncio

TOPIC = BackingTopic("logs", b"\x07" * 16, 2)
ORDERS_ID = b"\x01" * 16


@pytest_asyncio.fixture
async def node() -> AsyncIterator[Node]:
    settings = load({"offsets.commit.timeout.ms": "4321", "message.max.bytes": "123456"}).settings
    made = Node(settings, Backing(BackingClient("nowhere:1"), BackingCluster("nowhere:1"), TOPIC))
    yield made
    await made.stop()


def known(*topics: tuple[str, bytes]) -> MetadataResponse:
    partition = MetadataResponsePartition(partition_index=0, leader_id=5, replica_nodes=[5], isr_nodes=[5])
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=5, host="broker", port=1)],
        topics=[
            MetadataResponseTopic(name=name, topic_id=topic_id, partitions=[partition])
            for name, topic_id in topics
        ],
    )


def learn_that_it_is_gone(node: Node, topic_id: bytes) -> None:
    node.topics.doubt(topic_id)
    gone = MetadataResponse(
        brokers=[],
        topics=[MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)],
    )
    node.topics.judge(gone, 1_000)
    node.topics.judge(gone, 1_000_000)


async def test_all_shards_hear_that_a_topic_is_gone(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[int, str, bytes]] = []
    for runner in node.runtime.runners:
        monkeypatch.setattr(
            runner,
            "topic_deleted",
            lambda name, topic_id, partition=runner.partition: heard.append((partition, name, topic_id)),
        )
    node.topics.learn_all(known(("orders", ORDERS_ID), (TOPIC.name, TOPIC.topic_id)))
    learn_that_it_is_gone(node, ORDERS_ID)
    assert heard == [(0, "orders", ORDERS_ID), (1, "orders", ORDERS_ID)]
    assert not node.ended.is_set()


async def test_without_its_log_a_node_ends(node: Node) -> None:
    node.topics.learn_all(known((TOPIC.name, TOPIC.topic_id)))
    learn_that_it_is_gone(node, TOPIC.topic_id)
    assert node.ended.is_set()
    assert node.reason == "topic logs is not there any more, and with it all groups are gone"


class TwoNodes:
    """Nodes of which this one has no shard."""

    def page(self) -> dict[str, Any]:
        return {"nodes": 2}

    def not_ready(self) -> Iterable[str]:
        return ["nothing is here"]

    def place_of(self, partition: int) -> str:
        return f"is at the other node, as is shard {partition + 1}"


def site_of(node: Node) -> HttpSite:
    """What HTTP serves of a node."""
    history = History(10)
    parts = (node._settings, node.runtime, node.server, node.metrics, history, node._readers)
    sources = Sources(*parts, node.topics.topic_name, nodes=TwoNodes())
    return HttpSite(sources, ["localhost"], cast(Any, None))


def asked(site: HttpSite, target: str) -> bytes:
    """The body of an answer. Raises HttpProblem."""
    request = Request("GET", target.encode(), {"host": "localhost"})
    steps, _ = cast(tuple[Steps, str], site.handle(request, cast(Any, None)))
    return b"".join(part for part in steps if isinstance(part, bytes))


async def test_http_of_a_node_says_where_a_group_is_that_is_not_here(node: Node) -> None:
    site = site_of(node)
    assert asked(site, "/api/v1/nodes") == b'{"nodes":2}'
    for page in ("", "/lag"):
        with pytest.raises(HttpProblem) as raised:
            asked(site, f"/api/v1/group{page}?id=billing")
        assert raised.value.status == 421
        where = "is at the other node, as is shard"
        assert re.fullmatch(rf"Shard \d, which has this group, {where} \d\.", raised.value.detail)
    with pytest.raises(HttpProblem) as raised:
        asked(site, "/readyz")
    assert raised.value.document()["not_ready"] == ["nothing is here"]


@pytest.mark.parametrize("path", ["topics", "transactions", "clients", "settings", "events"])
async def test_http_of_a_node_has_nothing_of_data(node: Node, path: str) -> None:
    with pytest.raises(HttpProblem) as raised:
        asked(site_of(node), f"/api/v1/{path}")
    assert raised.value.status == 404


async def test_shards_go_by_the_settings(node: Node) -> None:
    for runner in node.runtime.runners:
        assert runner.durable_log._queue._timeout_ms == 4321
        assert runner._open_batch._max_batch_bytes == 123_456


async def test_a_start_waits_for_the_logs_as_long_as_there_is_more_of_them(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million groups take longer than any fixed time, and until then nobody's shards are known here."""
    monkeypatch.setattr(node_module, "READ_S", 0.01)

    class Driver:
        """Reads a little each time that it is looked at, up to its end."""

        def __init__(self, end: int) -> None:
            self.end, self._read = end, 0

        @property
        def position(self) -> int:
            self._read = min(self._read + 1, 5)
            return self._read

        @property
        def was_read(self) -> bool:
            return self._read >= self.end

    for end, is_read in (4, True), (9, False):
        driver = Driver(end)
        monkeypatch.setattr(node, "_log", SimpleNamespace(drivers={0: driver}))
        await node._read_all()
        assert driver.was_read is is_read, "one that stands still is not waited for"
    monkeypatch.setattr(node, "_log", None)
