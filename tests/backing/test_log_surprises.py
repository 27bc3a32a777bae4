"""What a cluster, a bug or an operator may do to logs on Kafka, and how they are served again."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from coordinator.backing.kafka.backing_log import prepared_topic
from coordinator.backing.kafka.cluster import BackingCluster, BackingError, Lane
from coordinator.backing.kafka.topic import (
    BROKER_RESOURCE,
    PRODUCER_EXPIRATION,
    PRODUCER_EXPIRATION_MS_MIN,
    BackingTopic,
    check_brokers,
)
from coordinator.backing.states import ACTIVE
from harness.kafka_broker import KafkaBroker
from protocol.errors import ErrorCode
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tests.backing.kafka_node import KafkaNode, running_cluster, until, wall_ms

pytestmark = [pytest.mark.xdist_group("backing"), pytest.mark.asyncio]


async def set_on_all_brokers(cluster: BackingCluster, name: str, value: str | None) -> None:
    """None: as it was."""
    change = IncrementalAlterableConfig(name=name, config_operation=0 if value else 1, value=value)
    resource = IncrementalAlterConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name="", configs=[change]
    )
    answer = await cluster.ask_any(IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == ErrorCode.NONE, answer


async def refused_in_the_end(cluster: BackingCluster) -> None:
    """A broker hears of its settings in a moment."""
    for _ in range(600):
        await check_brokers(cluster)
        await asyncio.sleep(0.1)


async def test_a_cluster_that_forgets_producers_early_is_refused(kafka: KafkaBroker) -> None:
    """Of a node that was forgotten it would take whatever that has left to write."""
    async with running_cluster(kafka.bootstrap) as cluster:
        await check_brokers(cluster)
        await set_on_all_brokers(cluster, PRODUCER_EXPIRATION, str(PRODUCER_EXPIRATION_MS_MIN - 1))
        with pytest.raises(BackingError, match=f"has {PRODUCER_EXPIRATION}=86399999 and not at least"):
            await refused_in_the_end(cluster)
        await set_on_all_brokers(cluster, PRODUCER_EXPIRATION, None)


async def test_a_log_that_was_lost_is_read_from_its_beginning(java: None, tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "kafka") as broker:
        async with running_cluster(broker.bootstrap) as cluster:
            topic = await prepared_topic(cluster, "muster", 1, wall_ms())
        async with KafkaNode(broker.bootstrap, topic, 1) as node:
            await node.own()
            for number in range(5):
                await node.commit(a=str(number))
            await asyncio.to_thread(broker.kill)
            shutil.rmtree(broker.log_dir / "muster-0")
            await asyncio.to_thread(broker.start)
            await until(lambda: node.shards[0].dropped > 0, "it begins anew")
            await node.commit(b="1")
            assert node.shards[0].values == {b"b": b"1"}


async def test_a_closed_node_does_nothing_more(kafka: KafkaBroker, topic: BackingTopic) -> None:
    """Whatever is on its way when it is closed: a batch, an epoch that was asked for, a claim."""
    for number in range(4):
        async with KafkaNode(kafka.bootstrap, topic, 1) as node:
            await node.own()
            node.shards[0].write(node.drivers[0], a=str(number))
            node.drivers[1].advise(True)
            await asyncio.sleep(0.002 * number)
        for driver in node.drivers.values():
            assert driver._timer is None or driver._timer.cancelled()
            assert not driver.may_answer
            assert not driver.can_write
        assert node.cluster._connections == {}
        with pytest.raises(BackingError, match="this node is closed"):
            await node.cluster.open(node.cluster.node_ids[0], Lane.ASK)


def bug(*_: Any) -> None:
    raise KeyError("a bug of shard 0")


async def test_an_outcome_that_a_shard_cannot_take_keeps_no_other_waiting(
    kafka: KafkaBroker, topic: BackingTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with KafkaNode(kafka.bootstrap, topic, 1) as node:
        for partition in (0, 1):
            await node.own(partition)
            await node.commit(partition, a="1")
        monkeypatch.setattr(node.shards[0], "written", bug)
        node.shards[0].write(node.drivers[0], a="2")
        node.shards[1].write(node.drivers[1], a="2")
        await until(lambda: len(node.shards[1].acknowledged) == 2, "the other hears of its own")
        monkeypatch.undo()
        await until(lambda: node.drivers[0].ownership.state is ACTIVE, "the shard was read anew")
        assert node.shards[0].dropped == 1
        await node.commit(0, b="1")
        assert node.shards[0].values == {b"a": b"2", b"b": b"1"}


async def test_a_batch_that_a_shard_cannot_take_keeps_no_other_unread(
    kafka: KafkaBroker, topic: BackingTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with KafkaNode(kafka.bootstrap, topic, 1) as owner, KafkaNode(kafka.bootstrap, topic, 2) as other:
        monkeypatch.setattr(other.shards[0], "follow", bug)
        await owner.own(0)
        await owner.own(1)
        await owner.commit(0, a="1")
        await owner.commit(1, a="1")
        await until(lambda: other.shards[1].values == {b"a": b"1"}, "the other is read on")
        monkeypatch.undo()
        await until(lambda: other.shards[0].values == {b"a": b"1"}, "and this one where it was")


async def test_a_partition_without_a_leader_is_looked_for_until_it_has_one(
    kafka: KafkaBroker, topic: BackingTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody reads it meanwhile, so nobody else would ask again."""
    async with KafkaNode(kafka.bootstrap, topic, 1) as node:
        await node.own()
        await node.commit(a="1")
        asked = node.cluster._ask_who_leads

        async def nobody() -> None:
            await asked()
            node.cluster._leaders = dict.fromkeys(node.cluster._leaders, -1)

        monkeypatch.setattr(node.cluster, "_ask_who_leads", nobody)
        node.cluster.refresh_soon()
        await until(lambda: not node.drivers[0].may_answer, "the lease is over")
        monkeypatch.undo()
        await until(lambda: node.drivers[0].may_answer, "it is proven again")
        assert node.shards[0].dropped == 0


async def test_a_topic_that_was_deleted_is_not_made_by_asking(
    kafka: KafkaBroker, topic: BackingTopic
) -> None:
    """The cluster would make it with its own settings, under which promises would be broken."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    async with KafkaNode(kafka.bootstrap, topic, 1) as node:
        await node.own()
        await asyncio.to_thread(admin.delete_topics([topic.name])[topic.name].result, 30)
        await until(lambda: node.cluster.leader_of(0) is None, "the node has asked for it")
        await until(lambda: not node.drivers[0].may_answer, "its lease is over")
    assert topic.name not in admin.list_topics(timeout=10).topics
