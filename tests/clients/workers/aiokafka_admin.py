"""aiokafka's admin client: every call it has that a user needs, each with its outcome asserted.

It cannot delete groups or list offsets; offsets come from its consumer's calls, and the group stays.
"""

from __future__ import annotations

from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError

from harness.reporting import Config, eventually_async, report, require, require_equal, step


async def admin(config: Config) -> None:
    client = AIOKafkaAdminClient(bootstrap_servers=config["bootstrap"], client_id="aiokafka-admin")
    await client.start()
    topic = config["new_topic"]
    await _topics(client, topic, config["nodes"])
    await _configs(client, topic)
    await _partitions(client, topic)
    await _groups(client, config)
    await _offsets(config)
    await _delete_records(client, config)
    await _delete_topic(client, topic)
    await client.close()
    report("walked")


async def _topics(client: AIOKafkaAdminClient, topic: str, nodes: int) -> None:
    new = NewTopic(topic, num_partitions=3, replication_factor=1, topic_configs={"retention.ms": "7654321"})
    with step("create_topics"):
        require_equal(_codes((await client.create_topics([new])).topic_errors), [0], "errors")
    with step("create_existing_topic"):
        errors = (await client.create_topics([new])).topic_errors
        require_equal(_codes(errors), [TopicAlreadyExistsError.errno], "errors")
    with step("list_topics"):
        require(topic in await client.list_topics(), "the new topic is listed")
    with step("describe_topics"):
        (described,) = await client.describe_topics([topic])
        partitions = sorted(partition["partition"] for partition in described["partitions"])
        require_equal((described["topic"], partitions), (topic, [0, 1, 2]), "topic")
    with step("describe_cluster"):
        cluster = await client.describe_cluster()
        require(cluster["cluster_id"] and len(cluster["brokers"]) == nodes, cluster)


async def _configs(client: AIOKafkaAdminClient, topic: str) -> None:
    with step("describe_configs"):
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        ((error, _, _, name, entries),) = (await client.describe_configs([resource]))[0].resources
        values = {entry[0]: entry[1] for entry in entries}
        require_equal((error, name), (0, topic), "resource")
        require_equal(values["retention.ms"], "7654321", "retention.ms")
        require_equal(values["cleanup.policy"], "delete", "cleanup.policy")
    with step("alter_configs"):
        change = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "1234567"})
        ((error, *_),) = (await client.alter_configs([change]))[0].resources
        require_equal(error, 0, "error")
        ((*_, entries),) = (await client.describe_configs([resource]))[0].resources
        require_equal({entry[0]: entry[1] for entry in entries}["retention.ms"], "1234567", "retention.ms")


async def _partitions(client: AIOKafkaAdminClient, topic: str) -> None:
    with step("create_partitions"):
        response = await client.create_partitions({topic: NewPartitions(total_count=5)})
        require_equal(_codes(response.topic_errors), [0], "errors")

        async def grown() -> bool:
            return len((await client.describe_topics([topic]))[0]["partitions"]) == 5

        await eventually_async(grown, "5 partitions")


async def _groups(client: AIOKafkaAdminClient, config: Config) -> None:
    live, empty = config["live_group"], config["empty_group"]
    with step("list_groups"):
        found = {group[0]: group[1] for group in await client.list_consumer_groups()}
        require_equal(found.get(live), "consumer", "protocol type of the live group")
        require_equal(found.get(empty), "", "protocol type of the simple group")
    with step("describe_groups"):
        # One at a time: its parser of the version 3 reply lacks the last field, and gets lost after one
        # group.
        require_equal(
            await _described(client, live), (0, live, "Stable", 1), "error, group, state and members"
        )
        require_equal(
            await _described(client, empty), (0, empty, "Empty", 0), "error, group, state and members"
        )
    with step("list_group_offsets"):
        offsets = await client.list_consumer_group_offsets(empty)
        found = {tp: offset.offset for tp, offset in offsets.items()}
        require_equal(found, {TopicPartition(config["topic"], 0): 3}, "group offsets")


async def _described(client: AIOKafkaAdminClient, group: str) -> tuple[int, str, str, int]:
    (answer,) = await client.describe_consumer_groups([group])
    ((error, name, state, _, _, members),) = answer.groups
    return error, name, state, len(members)


async def _offsets(config: Config) -> None:
    partition = TopicPartition(config["topic"], 0)
    with step("list_offsets"):
        async with AIOKafkaConsumer(bootstrap_servers=config["bootstrap"]) as consumer:
            require_equal(await consumer.beginning_offsets([partition]), {partition: 0}, "earliest")
            require_equal(await consumer.end_offsets([partition]), {partition: config["records"]}, "latest")
            found = await consumer.offsets_for_times({partition: config["base_ms"] + 4_500})
            require_equal(found[partition].offset, 5, "offset for a timestamp")


async def _delete_records(client: AIOKafkaAdminClient, config: Config) -> None:
    partition = TopicPartition(config["topic"], 0)
    with step("delete_records"):
        deleted = await client.delete_records({partition: RecordsToDelete(before_offset=4)})
        require_equal(deleted, {partition: 4}, "low watermark")
        async with AIOKafkaConsumer(bootstrap_servers=config["bootstrap"]) as consumer:
            require_equal(await consumer.beginning_offsets([partition]), {partition: 4}, "earliest")


async def _delete_topic(client: AIOKafkaAdminClient, topic: str) -> None:
    with step("delete_topics"):
        require_equal(_codes((await client.delete_topics([topic])).topic_error_codes), [0], "errors")

        async def gone() -> bool:
            return topic not in await client.list_topics()

        await eventually_async(gone, "the topic is gone")
    with step("delete_absent_topic"):
        errors = (await client.delete_topics([topic])).topic_error_codes
        require_equal(_codes(errors), [UnknownTopicOrPartitionError.errno], "errors")


def _codes(errors: list[tuple[Any, ...]]) -> list[int]:
    return [error[1] for error in errors]
