"""librdkafka as a member that keeps books: what it read of each partition, and what it committed with success.

It is one consumer after another in one process: each line on stdin, a JSON object, closes the present one and sets
off the next, with the config changed by the line. The Java side is LedgerMember.java.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from harness.messages import offset_of, partition_of
from harness.reporting import Config, report, require
from tests.clients.workers.confluent_settings import consumer_config, subscription

BATCH = 100


class LedgerMember:
    """One consumer: reports every batch that it read, commits it, and reports that, until its time is over."""

    def __init__(self, config: Config) -> None:
        self._consumer = Consumer(consumer_config(config))
        self._topics = subscription(config)
        self._owned: set[str] = set()
        self._began_ns = 0
        self._batch: list[tuple[str, int]] = []
        self._positions: dict[tuple[str, int], int] = {}  # To be committed.

    def run(self, inbox: queue.SimpleQueue[str | None]) -> None:
        self._consumer.subscribe(
            self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        while inbox.empty():
            timeout_s = 0.1
            while len(self._batch) < BATCH and (message := self._consumer.poll(timeout_s)) is not None:
                self._take(message)
                timeout_s = 0
            self._settle()
        self._consumer.close()
        report("owns", member=0, partitions=[])
        report("closed")

    def _take(self, message: Message) -> None:
        if error := message.error():
            # A join that waits while its group is upgraded: librdkafka says so, and joins again.
            require(error.code() == KafkaError.REBALANCE_IN_PROGRESS, error)
            report("disturbed", error=error.name())
            return
        if not self._batch:
            self._began_ns = time.monotonic_ns()
        key = str(message.topic()), partition_of(message)
        self._batch.append((f"{key[0]}-{key[1]}", offset_of(message)))
        self._positions[key] = offset_of(message) + 1

    def _settle(self) -> None:
        self._report_batch()
        if not self._positions:
            return
        offsets = [TopicPartition(*key, position) for key, position in self._positions.items()]
        try:
            answers = self._consumer.commit(offsets=offsets, asynchronous=False) or []
        except KafkaException as error:
            report("commit_refused", error=error.args[0].name())
            return
        refused = {each.error.name() for each in answers if each.error}
        if refused:
            report("commit_refused", error=", ".join(sorted(refused)))
            return
        done = {f"{topic}-{partition}": position for (topic, partition), position in self._positions.items()}
        report("committed", at_ns=time.monotonic_ns(), offsets=done)
        self._positions.clear()

    def _report_batch(self) -> None:
        ranges: list[tuple[str, int, int]] = []
        for name, offset in sorted(self._batch):
            if ranges and ranges[-1][0] == name and ranges[-1][2] + 1 == offset:
                ranges[-1] = (name, ranges[-1][1], offset)
            else:
                ranges.append((name, offset, offset))
        if ranges:
            report("read", at_ns=self._began_ns, ranges=ranges)
        self._batch.clear()

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._report_batch()  # Or records of new partitions would bear the time of earlier ones.
        self._owned |= {f"{each.topic}-{each.partition}" for each in partitions}
        report("owns", member=0, partitions=sorted(self._owned))

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._settle()
        self._give_up(partitions)

    def _on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._report_batch()
        self._give_up(partitions)

    def _give_up(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._positions.pop((each.topic, each.partition), None)
        self._owned -= {f"{each.topic}-{each.partition}" for each in partitions}
        report("owns", member=0, partitions=sorted(self._owned))


def ledger(config: Config) -> None:
    """Be one member after another, until stdin ends."""
    inbox: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            inbox.put(line)
        inbox.put(None)

    threading.Thread(target=listen, daemon=True).start()
    change: str | None = "{}"
    while change is not None:
        LedgerMember({**config, **json.loads(change)}).run(inbox)
        change = inbox.get()
