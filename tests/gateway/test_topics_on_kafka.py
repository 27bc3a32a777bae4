"""What a gateway knows of the topics and of the settings of groups that its clients make, change and delete."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.gateway import Gateway
from harness.observer import unique
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_configs import ConfigResourceType
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

pytestmark = pytest.mark.xdist_group("gateway")

CONFIRM_MS = 600
WITHIN_S = 30.0
SET, DELETE = 0, 1


class Quick(Gateway):
    """One that takes a topic for deleted sooner; its Kafka knows nothing of that setting."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir, {"auto.create.topics.enable": "false"})
        self.overrides["muster.topic.deletion.confirm.ms"] = str(CONFIRM_MS)


@pytest.fixture(scope="module")
def gateway(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with Quick(tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture
def client(gateway: Gateway) -> Iterator[WireClient]:
    with WireClient(gateway.bootstrap) as connected:
        yield connected


def shown(client: WireClient, topic: str) -> int:
    """How many partitions brokers show of a topic."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    return len(client.ask(asked, 12).topics[0].partitions)


def made(client: WireClient, partitions: int) -> str:
    """A new topic that this client was shown."""
    name = unique("new")
    wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    assert not client.ask(CreateTopicsRequest(topics=[wanted]), 7).topics[0].error_code
    wait_until(lambda: shown(client, name) == partitions, f"{name} is shown", WITHIN_S)
    return name


def committed(client: WireClient, group: str, topic: str, partition: int) -> int:
    """Commit an offset; its error."""
    offset = OffsetCommitRequestPartition(partition_index=partition, committed_offset=7)
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[offset])]
    answer = client.ask(OffsetCommitRequest(group_id=group, topics=topics), 9)
    return int(answer.topics[0].partitions[0].error_code)


def has_offsets(client: WireClient, group: str) -> bool:
    groups = [OffsetFetchRequestGroup(group_id=group, topics=None)]
    return bool(client.ask(OffsetFetchRequest(groups=groups), 9).groups[0].topics)


def test_a_client_may_commit_for_a_topic_as_soon_as_it_was_shown_it(client: WireClient) -> None:
    """Also for partitions that were added. Without it a coordinator hears of them a second, or minutes, later."""
    group, topic = unique("group"), made(client, 1)
    assert committed(client, group, topic, 0) == ErrorCode.NONE
    assert committed(client, group, topic, 2) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    grown = CreatePartitionsTopic(name=topic, count=3, assignments=None)
    client.ask(CreatePartitionsRequest(topics=[grown], timeout_ms=10_000), 3)
    wait_until(lambda: shown(client, topic) == 3, "it has grown", WITHIN_S)
    assert committed(client, group, topic, 2) == ErrorCode.NONE


def test_offsets_go_when_their_topic_was_unknown_for_as_long_as_the_setting_says(client: WireClient) -> None:
    """By default that would be half a minute, and it would be looked for within five."""
    group, topic = unique("group"), made(client, 1)
    assert committed(client, group, topic, 0) == ErrorCode.NONE
    begun = time.monotonic()
    client.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 5)
    wait_until(lambda: shown(client, topic) == 0, "it is deleted", WITHIN_S)
    assert has_offsets(client, group), "once is not enough"
    wait_until(lambda: not has_offsets(client, group), "its offsets are gone", WITHIN_S)
    assert CONFIRM_MS / 1_000 <= time.monotonic() - begun < 20


def heartbeat(client: WireClient, group: str, epoch: int) -> Any:
    joining: dict[str, Any] = {
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": [],
        "topic_partitions": [],
    }
    return client.ask(
        ConsumerGroupHeartbeatRequest(
            group_id=group, member_id="m", member_epoch=epoch, **(joining if epoch == 0 else {})
        ),
        1,
    )


def alter(client: WireClient, group: str, operation: int, value: str | None) -> None:
    """As `kafka-configs --entity-type groups` does."""
    config = IncrementalAlterableConfig(
        name="consumer.heartbeat.interval.ms", config_operation=operation, value=value
    )
    resource = IncrementalAlterConfigsResource(
        resource_type=ConfigResourceType.GROUP, resource_name=group, configs=[config]
    )
    answer = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert not answer.responses[0].error_code, answer


def test_what_is_set_for_a_group_at_the_kafka_is_in_force_here(client: WireClient) -> None:
    group, other = unique("group"), unique("group")
    epoch = heartbeat(client, group, 0).member_epoch
    others = heartbeat(client, other, 0).member_epoch
    alter(client, group, SET, "6001")

    def interval(name: str, at: int) -> int:
        return int(heartbeat(client, name, at).heartbeat_interval_ms)

    wait_until(lambda: interval(group, epoch) == 6_001, "it is followed", WITHIN_S)
    assert interval(other, others) == 5_000
    alter(client, group, DELETE, None)
    wait_until(lambda: interval(group, epoch) == 5_000, "it is as for all", WITHIN_S)
