"""DescribeLogDirs (key 35): the log directory, the size of its partitions, and the free space of the volume.

There is one log directory and one replica of each partition, so no replica lags or moves. A reader thread asks the
system for the free space.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future

import structlog

from coordinator.data.broker import Broker, ClientRequest
from coordinator.topics.topic_lookup import TopicLookup
from protocol.errors import ErrorCode
from protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from storage.files import StorageError

log = structlog.get_logger("muster.topics")


def handle(broker: Broker, request: DescribeLogDirsRequest, pending: ClientRequest) -> None:
    """Describe the partitions asked for (null: all); those that do not exist are left out.

    Error of the directory: KAFKA_STORAGE_ERROR (the volume does not answer).
    """

    def on_asked(asked: Future[tuple[int, int]]) -> None:
        is_cordoned = bool(broker.registry.settings.cordoned_log_dirs)
        result = DescribeLogDirsResult(log_dir=broker.registry.log_directory, is_cordoned=is_cordoned)
        try:
            result.total_bytes, result.usable_bytes = asked.result()
        except StorageError as error:
            log.error("log directory cannot be described", error=str(error))
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        else:
            result.topics = list(_described_topics(broker.registry, request))
        pending.reply(DescribeLogDirsResponse(results=[result]))

    broker.readers.submit(broker.registry.space, on_asked)


def _described_topics(topics: TopicLookup, request: DescribeLogDirsRequest) -> Iterator[DescribeLogDirsTopic]:
    """Yield the topics of which at least one partition is asked for."""
    asked: dict[str, set[int]] | None = None
    if request.topics is not None:
        asked = {}
        for named in request.topics:
            asked.setdefault(named.topic, set()).update(named.partitions)
    for topic in topics.all():
        partitions = [
            DescribeLogDirsPartition(partition_index=each.index, partition_size=each.log.size_bytes)
            for each in topic.partitions
            if asked is None or each.index in asked.get(topic.name, ())
        ]
        if partitions:
            yield DescribeLogDirsTopic(name=topic.name, partitions=partitions)
