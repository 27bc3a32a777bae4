"""Short ways to ask a server of any kind, Muster or Kafka, for what shows that it does its housekeeping."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.processes import ServerProcess, wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.describe_producers import (
    DescribedProducer,
    DescribeProducersRequest,
    DescribeProducersTopicRequest,
)
from protocol.messages.fetch import PartitionData
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.records.batch import Batch, walk
from tests.topics.requests import fetch_request, partitions_of, produce_request
from tests.topics.world import batch

EARLIEST = -2
DEADLINE_S = 60.0  # Of what comes within a second where the machine has nothing else to do.
NOT_YET = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def wall_ms() -> int:
    return int(time.time() * 1000)


class Peer:
    """One connection to a server; topics have one partition."""

    def __init__(self, server: ServerProcess) -> None:
        self.log_dir = server.log_dir
        self.client = WireClient(server.bootstrap)

    def make_topic(self, name: str, **configs: str) -> None:
        """`configs` are topic options with '_' for '.'. Returns when the partition can be written."""
        topic = CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            configs=[
                CreatableTopicConfig(name=option.replace("_", "."), value=value)
                for option, value in configs.items()
            ],
        )
        answer = self.client.ask(CreateTopicsRequest(topics=[topic]), 5).topics[0]
        assert answer.error_code == ErrorCode.NONE, answer
        wait_until(lambda: self._earliest(name)[0] not in NOT_YET, f"{name} has a leader", DEADLINE_S)

    def produce(self, topic: str, *records: bytes) -> list[int]:
        """Send these batches, all before the first is answered; the errors."""
        for record in records:
            self.client.send(produce_request(record, topic), 9)
        answers = [self.client.receive() for _ in records]
        return [answer.responses[0].partition_responses[0].error_code for answer in answers]

    def write_at(self, topic: str, *times_ms: int, key: bytes = b"k", size_bytes: int = 10) -> None:
        """One batch of one record for each of these times."""
        for at_ms in times_ms:
            assert self.produce(topic, batch(bytes(size_bytes), key=key, at_ms=at_ms)) == [ErrorCode.NONE]

    def earliest(self, topic: str) -> int:
        """The offset that the log begins with."""
        error, offset = self._earliest(topic)
        assert error == ErrorCode.NONE, error
        return offset

    def _earliest(self, topic: str) -> tuple[int, int]:
        asked = ListOffsetsPartition(partition_index=0, timestamp=EARLIEST)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
        answer = self.client.ask(request, 5).topics[0].partitions[0]
        return answer.error_code, answer.offset

    def fetch(self, topic: str, offset: int = 0, partition: int = 0) -> PartitionData:
        """What there is from `offset` on, or the error."""
        (answer,) = partitions_of(self.client.ask(fetch_request((topic, partition, offset)), 12))
        return answer

    def batches(self, topic: str, partition: int = 0) -> list[Batch]:
        """The headers of all batches, as they lie in the log."""
        data = self.fetch(topic, partition=partition).records
        return list(walk(bytes(data or b"")))

    def new_producer_id(self) -> int:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)

        def given() -> int | None:
            answer = self.client.ask(request, 4)
            return int(answer.producer_id) if answer.error_code == ErrorCode.NONE else None

        producer_id = wait_until(given, "a producer id", DEADLINE_S)
        assert producer_id is not None
        return producer_id

    def producers(self, topic: str) -> list[DescribedProducer]:
        """Those that the partition knows."""
        asked = DescribeProducersTopicRequest(name=topic, partition_indexes=[0])
        answer = self.client.ask(DescribeProducersRequest(topics=[asked]), 0)
        partition = answer.topics[0].partitions[0]
        assert partition.error_code == ErrorCode.NONE, partition
        return list(partition.active_producers)

    def segments(self, topic: str) -> list[int]:
        """The base offsets of the segments that are in the partition's directory."""
        return sorted(int(path.stem) for path in Path(self.log_dir, f"{topic}-0").glob("*.log"))


@contextmanager
def connected(server: ServerProcess) -> Iterator[Peer]:
    peer = Peer(server)
    with peer.client:
        yield peer
