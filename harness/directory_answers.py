"""What a daemon answers about all that is in its data directory, by a stock client, as plain values for JSON.

Two daemons that read the same directory give equal answers: groups with their members and offsets, topics with
their records and settings. What belongs to a run alone (ports, coordinators' addresses) is left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Message, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType

from harness.processes import wait_until

TIMEOUT_S: Final = 30.0
INTERNAL_PREFIX: Final = "__"
KEPT_FOR_EVER: Final = {
    "log.retention.ms": "-1",
    "muster.history.topic.retention.ms": "-1",
    "offsets.retention.minutes": "2147483647",
    "transactional.id.expiration.ms": "2147483647",
}
"""Settings under which a daemon keeps everything in a directory of long ago, expiring nothing."""

DYNAMIC: Final = {source.value for source in ConfigSource if source.name.startswith("DYNAMIC")}


def answers(bootstrap: str, *, has_offsets: bool = True) -> dict[str, Any]:
    """Everything that clients can ask about, with the topics' records as each isolation level sees them.

    Without offsets where their metadata may be long: confluent-kafka 2.16 reads beyond its end now and then.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = {
        name: sorted(topic.partitions) for name, topic in admin.list_topics(timeout=TIMEOUT_S).topics.items()
    }
    own = {name: partitions for name, partitions in topics.items() if not name.startswith(INTERNAL_PREFIX)}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in sorted(topics)]
    brokers = admin.list_topics(timeout=TIMEOUT_S).brokers
    resources += [ConfigResource(ResourceType.BROKER, str(node)) for node in brokers]
    groups = wait_until(lambda: _groups(admin), "all groups are loaded", TIMEOUT_S)
    return {
        "topics": topics,
        "configs": {f"{each.restype.name} {each.name}": _configs(admin, each) for each in resources},
        "records": {
            level: _records(bootstrap, own, level) for level in ("read_committed", "read_uncommitted")
        },
        "groups": {group_id: _group(admin, group_id) for group_id in groups},
        "offsets": {group_id: _offsets(admin, group_id) for group_id in groups if has_offsets},
    }


def _groups(admin: AdminClient) -> list[str] | None:
    """The ids of all groups; None while some are still loaded, which the listing says by an error."""
    found = admin.list_consumer_groups().result(TIMEOUT_S)
    return None if found.errors else sorted(group.group_id for group in found.valid)


def history_json(bootstrap: str, group_id: str, tree: Path) -> Any:
    """What `muster groups history GROUP --json` prints, as the packages in `tree` have the command."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "muster",
        "groups",
        "history",
        group_id,
        "--bootstrap",
        bootstrap,
        "--json",
    ]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    return json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout)


def _configs(admin: AdminClient, resource: ConfigResource) -> dict[str, str | None]:
    """The settings that were made for `resource` at run time, by name; defaults are left out."""
    (future,) = admin.describe_configs([resource]).values()
    found = future.result(TIMEOUT_S)
    return {name: entry.value for name, entry in sorted(found.items()) if entry.source in DYNAMIC}


def _records(bootstrap: str, topics: dict[str, list[int]], isolation: str) -> dict[str, Any]:
    """For each partition its first offset, its end, and its records as `isolation` shows them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "a reader that commits nothing",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "isolation.level": isolation,
        }
    )
    try:
        return {
            f"{topic}-{partition}": _partition(consumer, topic, partition)
            for topic, partitions in sorted(topics.items())
            for partition in partitions
        }
    finally:
        consumer.close()


def _partition(consumer: Consumer, topic: str, partition: int) -> dict[str, Any]:
    begin, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT_S)
    consumer.assign([TopicPartition(topic, partition, begin)])
    found = []
    while True:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, f"{topic}-{partition} does not come to its end"
        if message.error() is not None:
            break  # The end of the partition. Any other error shows in the test as missing records.
        found.append(_record(message))
    return {"begin": begin, "end": end, "records": found}


def _record(message: Message) -> list[Any]:
    """The record as a list for JSON: offset, timestamp, key, value and headers."""
    key, value, headers = message.key(), message.value(), message.headers() or []
    pairs = headers.items() if isinstance(headers, dict) else headers
    assert not isinstance(key, str), "bytes, without a deserializer"
    return [
        message.offset(),
        message.timestamp()[1],
        None if key is None else key.decode(),
        None if value is None else value.decode(),
        [[name, str(each)] for name, each in pairs],
    ]


def _group(admin: AdminClient, group_id: str) -> dict[str, Any]:
    found = admin.describe_consumer_groups([group_id])[group_id].result(TIMEOUT_S)
    return {
        "state": found.state.name,
        "protocol_type": "simple" if found.is_simple_consumer_group else "consumer",
        "assignor": found.partition_assignor,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "assignment": sorted(
                    f"{each.topic}-{each.partition}" for each in member.assignment.topic_partitions
                ),
            }
            for member in found.members
        ],
    }


def _offsets(admin: AdminClient, group_id: str) -> dict[str, Any]:
    """Committed offsets with their leader epochs and metadata, by partition."""
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group_id)]).values()
    return {
        f"{each.topic}-{each.partition}": [each.offset, each.leader_epoch, each.metadata]
        for each in sorted(future.result(TIMEOUT_S).topic_partitions)
    }
