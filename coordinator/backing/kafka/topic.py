"""The topic that has the logs: made if it is not there, and refused if it would lose them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from coordinator.backing.kafka.cluster import BackingCluster, BackingError, error_of
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
CREATE_TIMEOUT_MS: Final = 4_000
SHOWN_RETRY_S: Final = 0.1
SHOWN_ATTEMPTS_MAX: Final = 100
REPLICAS_MAX: Final = 3
AT_LEAST: Final[Mapping[str, tuple[int, str]]] = {
    "min.compaction.lag.ms": (60_000, "a claim could be gone before the owner before it has seen it"),
    "delete.retention.ms": (86_400_000, "who follows slowly would keep what was deleted"),
    "max.message.bytes": (1_048_588, "what a group writes at once would be refused"),
}
"""The smallest numbers that a topic may have, and why."""
PRODUCER_EXPIRATION: Final = "producer.id.expiration.ms"
PRODUCER_EXPIRATION_MS_MIN: Final = 86_400_000
"""An epoch is used for half a day at most (`OwnershipTiming.epoch_life_ms`), and repeated by then."""
SETTINGS: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "message.timestamp.type": "LogAppendTime",
    "min.compaction.lag.ms": "60000",
    "max.compaction.lag.ms": "3600000",
    "min.cleanable.dirty.ratio": "0.1",
    "segment.bytes": str(32 * 1024 * 1024),
    "delete.retention.ms": str(7 * 86_400_000),
    "unclean.leader.election.enable": "false",
    "max.message.bytes": "1048588",
}
"""Of a topic that Muster makes. An epoch may be half a day old, so a seal and what it shuts out stay for days."""
LARGEST_BATCH: Final = "max.message.bytes"
NO_BOUND_BYTES: Final = 2**31 - 1
RECOMPRESSED_GROWTH: Final = 1_000
RECOMPRESSED_GROWTH_BYTES: Final = 1_024
"""A leader that compresses anew, and then looks at the size again, makes a batch larger by so much at the most: a
thousandth, for the heads of blocks that do not get smaller, and what the format puts around them."""
REQUIRED: Final[Mapping[str, tuple[str, str]]] = {
    "cleanup.policy": ("compact", "what is deleted by age or size is lost to the groups"),
    "unclean.leader.election.enable": ("false", "a leader that lacks what was acknowledged loses it for all"),
    "message.timestamp.type": (
        "LogAppendTime",
        "the cluster forgets whom to fence by a batch's time, which has to be the broker's own",
    ),
}
"""What a topic has to have, and why."""


@dataclass(frozen=True, slots=True)
class BackingTopic:
    """The topic as the cluster has it. Its id stays the same unless it is deleted and made again."""

    name: str
    topic_id: bytes
    partition_count: int
    warnings: tuple[str, ...] = ()
    max_batch_bytes: int = NO_BOUND_BYTES
    """The largest batch, as it is sent, that the topic takes."""


async def ensure_topic(cluster: BackingCluster, name: str, partition_count: int) -> BackingTopic:
    """The topic, made if it is not there. Raises BackingError, in one sentence, if it cannot be used."""
    topic, replicas = await found_or_made(cluster, name, partition_count, SETTINGS)
    settings = await _settings(cluster, name)
    check_settings(name, settings)
    if topic.partition_count != partition_count:
        raise BackingError(
            f"topic {name} has {topic.partition_count} partitions and not {partition_count}: "
            "groups would be looked for where they are not"
        )
    warnings = _warnings(name, settings, replicas)
    return BackingTopic(name, topic.topic_id, partition_count, warnings, max_batch_bytes_of(settings))


async def found_or_made(
    cluster: BackingCluster, name: str, partition_count: int, settings: Mapping[str, str]
) -> tuple[BackingTopic, int]:
    """The topic and the fewest replicas of its partitions; made like this if it is not there.

    Raises BackingError.
    """
    found = await _described(cluster, name)
    if found is None:
        await _create(cluster, name, partition_count, settings)
        found = await _shown(cluster, name)
    return found


def check_settings(name: str, settings: Mapping[str, str]) -> None:
    """Raises BackingError for a setting under which promises cannot be kept."""
    for objection in _objections(name, settings):
        raise BackingError(objection)


def _objections(name: str, settings: Mapping[str, str]) -> Iterator[str]:
    for setting, (wanted, why) in REQUIRED.items():
        if settings.get(setting) != wanted:
            yield f"topic {name} has {setting}={settings.get(setting)} and not {wanted}: {why}"
    for setting, (at_least, why) in AT_LEAST.items():
        found = int(settings.get(setting, "0"))
        if found < at_least:
            yield f"topic {name} has {setting}={found} and not at least {at_least}: {why}"


async def objections_to_topic(cluster: BackingCluster, name: str) -> list[str]:
    """What is against the topic as it is now, a sentence each; warnings too. Raises BackingError."""
    found = await _described(cluster, name)
    if found is None:
        raise BackingError(f"topic {name} is not there")
    settings = await _settings(cluster, name)
    return [*_objections(name, settings), *_warnings(name, settings, found[1])]


def max_batch_bytes_of(settings: Mapping[str, str]) -> int:
    """The largest batch that a topic of these settings takes, whatever its records are.

    Leaders look at the size of what was sent, to which a producer's id adds nothing: its place is there anyway.
    """
    limit_bytes = int(settings[LARGEST_BATCH])
    if settings.get("compression.type", "producer") == "producer":
        return limit_bytes
    return limit_bytes - limit_bytes // RECOMPRESSED_GROWTH - RECOMPRESSED_GROWTH_BYTES


async def check_brokers(cluster: BackingCluster) -> None:
    """Raises BackingError if a broker forgets whom it fences while an epoch may still be used."""
    for node_id in cluster.node_ids:
        for objection in await objections_to_broker(cluster, node_id):
            raise BackingError(objection)


async def objections_to_broker(cluster: BackingCluster, node_id: int) -> list[str]:
    """What is against the settings of a broker, a sentence each. Raises BackingError if it does not say them."""
    resource = DescribeConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name=str(node_id), configuration_keys=[PRODUCER_EXPIRATION]
    )
    (result,) = (await cluster.ask(node_id, DescribeConfigsRequest(resources=[resource]))).results
    _check(f"reading the settings of broker {node_id}", result.error_code, result.error_message)
    return [
        f"broker {node_id} has {PRODUCER_EXPIRATION}={setting.value} and not at least "
        f"{PRODUCER_EXPIRATION_MS_MIN}: it would take writes of a node that has lost its shards"
        for setting in result.configs
        if int(setting.value or 0) < PRODUCER_EXPIRATION_MS_MIN
    ]


def _warnings(name: str, settings: Mapping[str, str], replicas: int) -> tuple[str, ...]:
    warnings = []
    if replicas < 2:
        warnings.append(f"topic {name} has one replica: with its disk all groups are lost")
    if replicas > 1 and settings.get("min.insync.replicas") == "1":
        warnings.append(
            f"topic {name} has min.insync.replicas=1: what one broker alone has may be acknowledged"
        )
    return tuple(warnings)


async def _described(cluster: BackingCluster, name: str) -> tuple[BackingTopic, int] | None:
    """The topic and the fewest replicas of its partitions; None if it is not there."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    answer: MetadataResponse = await cluster.ask_any(request, min_version=10)
    (topic,) = answer.topics
    if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    _check(f"looking at topic {name}", topic.error_code)
    replicas = min(len(partition.replica_nodes) for partition in topic.partitions)
    return BackingTopic(name, topic.topic_id, len(topic.partitions)), replicas


async def _shown(cluster: BackingCluster, name: str) -> tuple[BackingTopic, int]:
    """A topic that was made. Brokers hear of it one after the other. Raises BackingError."""
    for _ in range(SHOWN_ATTEMPTS_MAX):
        found = await _described(cluster, name)
        if found is not None:
            return found
        await asyncio.sleep(SHOWN_RETRY_S)
    raise BackingError(f"topic {name} was made, and the cluster does not show it")


async def _create(
    cluster: BackingCluster, name: str, partition_count: int, settings: Mapping[str, str]
) -> None:
    replicas = min(REPLICAS_MAX, len(cluster.node_ids))
    settings = {**settings, "min.insync.replicas": str(max(1, replicas - 1))}
    topic = CreatableTopic(
        name=name,
        num_partitions=partition_count,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=setting, value=value) for setting, value in settings.items()],
    )
    answer = await cluster.ask_any(CreateTopicsRequest(topics=[topic], timeout_ms=CREATE_TIMEOUT_MS))
    (result,) = answer.topics
    if result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:  # Another node was quicker.
        _check(f"making topic {name}", result.error_code, result.error_message)


async def _settings(cluster: BackingCluster, name: str) -> dict[str, str]:
    resource = DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None
    )
    (result,) = (await cluster.ask_any(DescribeConfigsRequest(resources=[resource]))).results
    _check(f"reading the settings of topic {name}", result.error_code, result.error_message)
    return {setting.name: setting.value for setting in result.configs if setting.value is not None}


def _check(what: str, error_code: int, message: str | None = None) -> None:
    if error_code != ErrorCode.NONE:
        raise BackingError(f"{what}: {message or error_of(error_code).name}")
