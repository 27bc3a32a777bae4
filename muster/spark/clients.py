"""Makes every Kafka client of this package, and asks for log ends and committed offsets through them.

What the command line asks goes through `muster.cluster`, which needs no librdkafka; here clients take librdkafka's
settings, since users have those for Spark's own consumers anyway. Each part has its own defaults of them: the
jobs' are `client_settings`. The errors are the client's: each part makes its sentence of them, by `error_text`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from protocol.topic_partition import TopicPartition

Settings = Mapping[str, Any]
"""All settings of a client, by librdkafka's names. Settings that it refuses raise a KafkaException, TypeError or
ValueError where the client is made."""

TIMEOUT_S: Final = 15.0
EARLIEST: Final = OffsetSpec.earliest()
LATEST: Final = OffsetSpec.latest()


class Offsets(NamedTuple):
    """The offset or the error of each partition that was asked for; neither where nothing is committed."""

    found: dict[TopicPartition, int]
    refused: dict[TopicPartition, KafkaError]

    def all(self) -> dict[TopicPartition, int]:
        """The offsets. Raises KafkaException if any was refused."""
        for error in self.refused.values():
            raise KafkaException(error)
        return self.found


def client_settings(bootstrap: str, kafka: Mapping[str, str]) -> dict[str, str | int | float | bool]:
    """A job's settings of a client that logs nothing: its caller reports what goes wrong."""
    return {"bootstrap.servers": bootstrap, "client.id": "muster-spark", "log_level": 0, **kafka}


def new_admin(settings: Settings) -> AdminClient:
    """An admin client for a few requests: librdkafka's may stop answering once a broker has been away."""
    return AdminClient(dict(settings))


def new_job_admin(bootstrap: str, kafka: Mapping[str, str]) -> AdminClient:
    """An admin client with a job's settings."""
    return new_admin(client_settings(bootstrap, kafka))


def new_consumer(settings: Settings) -> Consumer:
    """A consumer, which its caller closes."""
    return Consumer(dict(settings))


def new_group_reader(settings: Settings, group_id: str) -> Consumer:
    """A consumer that does not join `group_id`, and fetches or commits its offsets; its caller closes it."""
    return new_consumer({**settings, "group.id": group_id, "enable.auto.commit": False})


def log_offsets(
    admin: AdminClient,
    wanted: Mapping[TopicPartition, OffsetSpec],
    *,
    committed_only: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> Offsets:
    """Log offsets for EARLIEST, LATEST or a time; with `committed_only` LATEST is the last stable offset."""
    offsets = Offsets({}, {})
    if not wanted:
        return offsets
    level = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED
    asked = {ClientPartition(*where): spec for where, spec in wanted.items()}
    answers = admin.list_offsets(asked, isolation_level=level, request_timeout=timeout_s)
    for partition, answer in answers.items():
        where = TopicPartition(partition.topic, partition.partition)
        try:
            offsets.found[where] = answer.result().offset
        except KafkaException as error:
            offsets.refused[where] = error.args[0]
    return offsets


def committed_offsets(consumer: Consumer, partitions: Iterable[TopicPartition], timeout_s: float) -> Offsets:
    """The offsets that the consumer's group has committed. Raises KafkaException if the request fails.

    The same request by an admin client may end the process while the coordinator moves or loads (librdkafka 2.16);
    a consumer that has joined no group may send it.
    """
    offsets = Offsets({}, {})
    asked = [ClientPartition(*where) for where in partitions]
    for at in consumer.committed(asked, timeout_s) if asked else []:
        if at.error is not None:
            offsets.refused[TopicPartition(at.topic, at.partition)] = at.error
        elif at.offset >= 0:
            offsets.found[TopicPartition(at.topic, at.partition)] = at.offset
    return offsets


def error_text(error: Exception) -> str:
    """The client's message for its failure, without error codes."""
    first = error.args[0] if error.args else error
    return str(first.str()) if isinstance(first, KafkaError) else str(first)
