"""One member of the demo's group, as a process: a stock confluent-kafka consumer that reads at a given pace.

It reports every flight it has read before it commits it, so that the demo can count what a killed member
read in vain. It commits once a second, and when partitions are taken from it. It ends, in good order, when
its stdin does. Run by `group.py`, with a JSON object as its argument.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from bench.demo.flights import flight_id
from harness.messages import value_of
from harness.reporting import Config, report, stop_requested

COMMIT_EVERY_S = 1.0
BATCHES_PER_S = 10
POLL_S = 0.1


class DemoMember:
    """Subscribes, reads, reports and commits, until asked to stop."""

    def __init__(self, config: Config) -> None:
        self._rows_per_s: float = config["rows_per_s"]
        self._batch = max(1, round(self._rows_per_s / BATCHES_PER_S))
        self._dirty = False
        self._owned: set[int] = set()
        self._consumer = Consumer(config["consumer"])
        self._consumer.subscribe(
            [config["topic"]], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def run(self) -> None:
        stop = stop_requested()
        commit_at = time.monotonic()
        while not stop.is_set():
            started = time.monotonic()
            messages = self._consumer.consume(self._batch, POLL_S)
            if messages:
                self._report(messages)
            if time.monotonic() >= commit_at:
                self._commit()
                commit_at = time.monotonic() + COMMIT_EVERY_S
            stop.wait(max(0.0, len(messages) / self._rows_per_s - (time.monotonic() - started)))
        self._commit()
        self._consumer.close()
        report("closed")

    def _report(self, messages: list[Message]) -> None:
        for message in messages:
            if error := message.error():
                raise KafkaException(error)
        report(
            "rows",
            partitions=Counter(message.partition() for message in messages),
            flights=[flight_id(json.loads(value_of(message))) for message in messages],
        )
        self._dirty = True

    def _commit(self) -> None:
        if not self._dirty:
            return
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as refused:
            error = refused.args[0]
            report("commit_refused", error=error.name())
            self._dirty = error.code() != KafkaError._NO_OFFSET
        else:
            self._dirty = False

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._own(self._owned | {partition.partition for partition in partitions})

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit()
        self._on_lost(_, partitions)

    def _on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._own(self._owned - {partition.partition for partition in partitions})

    def _own(self, partitions: set[int]) -> None:
        self._owned = partitions
        report("owns", partitions=sorted(partitions), member_id=self._consumer.memberid())


if __name__ == "__main__":
    DemoMember(json.loads(sys.argv[1])).run()
