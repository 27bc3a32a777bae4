"""What a `read_committed` consumer sees of a topic: read on as it grows, and at last to its very end."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from harness.messages import offset_of, partition_of, value_of
from harness.observer import Settings
from harness.processes import wait_until

TIMEOUT_S = 60
SETTLED_S = 75  # A dead worker's transaction has to time out first.


class CommittedView:
    """The records of a topic's partitions, in their order, as far as transactions have been committed."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        common: Settings = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._admin = AdminClient(common)
        self._consumer = Consumer(
            {
                **common,
                "group.id": "unused",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
            }
        )
        self._partitions = [TopicPartition(topic, partition, 0) for partition in range(partitions)]
        self._read_up_to = dict.fromkeys(range(partitions), 0)
        self.records: dict[int, list[Message]] = {partition: [] for partition in range(partitions)}
        self._consumer.assign(self._partitions)

    def values(self) -> list[str]:
        """The values of all records that can be read now, repeats kept."""
        while self._take(self._consumer.consume(1000, 0.1)):
            pass
        return [value_of(record).decode() for records in self.records.values() for record in records]

    def read_to_the_end(self) -> list[str]:
        """Wait until no transaction is open, read to the ends, and return `values`."""
        ends = wait_until(self._settled_ends, f"{self._partitions[0].topic} without transactions", SETTLED_S)
        wait_until(lambda: self._has_read(ends), f"read up to {ends}", TIMEOUT_S)
        return self.values()

    def has_open_transaction(self) -> bool:
        """Whether there are records that wait for their transaction's end."""
        return self._ends(IsolationLevel.READ_COMMITTED) != self._ends(IsolationLevel.READ_UNCOMMITTED)

    def close(self) -> None:
        self._consumer.close()

    def _take(self, messages: Iterable[Message]) -> int:
        """Keep the records and return their number. Raises KafkaException for any error but an end."""
        count = 0
        for message in messages:
            error = message.error()
            if error is None:
                self.records[partition_of(message)].append(message)
                count += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                self._read_up_to[partition_of(message)] = offset_of(message)
            else:
                raise KafkaException(error)
        return count

    def _has_read(self, ends: dict[int, int]) -> bool:
        self._take(self._consumer.consume(1000, 0.1))
        return all(self._read_up_to[partition] >= end for partition, end in ends.items())

    def _settled_ends(self) -> dict[int, int] | None:
        """The end of each partition once its last stable offset has come there; None before."""
        ends = self._ends(IsolationLevel.READ_COMMITTED)
        return ends if ends == self._ends(IsolationLevel.READ_UNCOMMITTED) else None

    def _ends(self, level: IsolationLevel) -> dict[int, int]:
        asked = {each: OffsetSpec.latest() for each in self._partitions}
        found = self._admin.list_offsets(asked, isolation_level=level, request_timeout=TIMEOUT_S)
        return {each.partition: answer.result(TIMEOUT_S).offset for each, answer in found.items()}
