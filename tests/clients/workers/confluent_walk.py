"""confluent-kafka (librdkafka): every call of its consumer, each with its outcome asserted.

Given a topic of two partitions with `records` records each, one second of timestamps apart from `base_ms`
on, and a second topic whose name begins with the first's.
"""

from __future__ import annotations

import signal
from collections import defaultdict
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)

from harness.messages import offset_of, partition_of
from harness.reporting import Config, eventually, report, require, require_equal, step
from tests.clients.workers.sharing import share_with_a_second_member

Offsets = dict[int, list[int]]


class Interrupted(Exception):
    """Raised by a signal in the middle of a poll."""


class Walk:
    def __init__(self, config: Config) -> None:
        self.topic: str = config["topic"]
        self.other_topic: str = config["other_topic"]
        self.records: int = config["records"]
        self.base_ms: int = config["base_ms"]
        self.bootstrap: str = config["bootstrap"]
        self.group: str = config["group"]
        self.commits: list[list[TopicPartition]] = []
        self.consumer = self._new_consumer()

    def run(self) -> None:
        self._metadata()
        self._subscribe_and_poll()
        self._commit()
        self._pause_and_resume()
        self._seek()
        self._rebalance()
        self._subscribe_by_pattern()
        self._assign()
        self._close_in_the_middle_of_a_poll()

    def _new_consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 500,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                "on_commit": self._on_commit,
            }
        )

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        require(error is None, error)
        self.commits.append(partitions)

    def _partition(self, number: int, offset: int = OFFSET_BEGINNING) -> TopicPartition:
        return TopicPartition(self.topic, number, offset)

    def _both(self) -> list[TopicPartition]:
        return [self._partition(0), self._partition(1)]

    def _take(self, until: Any) -> Offsets:
        """Poll until `until(offsets so far by partition)`; return those offsets."""
        seen: Offsets = defaultdict(list)

        def poll() -> bool:
            message = self.consumer.poll(0.5)
            if message is not None:
                require(message.error() is None, message.error())
                seen[partition_of(message)].append(offset_of(message))
            return bool(until(seen))

        eventually(poll, f"records of {self.topic}")
        return seen

    def _metadata(self) -> None:
        with step("list_topics"):
            topics = self.consumer.list_topics().topics
            require(self.topic in topics and self.other_topic in topics, topics)
        with step("partitions_for_topic"):
            partitions = self.consumer.list_topics(self.topic).topics[self.topic].partitions
            require_equal(sorted(partitions), [0, 1], "partitions")
            require_equal(
                self.consumer.get_watermark_offsets(self._partition(0)), (0, self.records), "watermarks"
            )

    def _subscribe_and_poll(self) -> None:
        with step("subscribe_by_list"):
            self.consumer.subscribe([self.topic])
            seen = self._take(lambda seen: len(seen[0]) + len(seen[1]) >= 2 * self.records)
            require_equal(
                {(tp.topic, tp.partition) for tp in self.consumer.assignment()},
                {(self.topic, 0), (self.topic, 1)},
                "assignment",
            )
        with step("poll"):
            require_equal(dict(seen), {p: list(range(self.records)) for p in (0, 1)}, "offsets")
        with step("position"):
            positions = [tp.offset for tp in self.consumer.position(self._both())]
            require_equal(positions, [self.records] * 2, "positions")

    def _commit(self) -> None:
        with step("commit_sync"):
            done = self.consumer.commit(offsets=[self._partition(0, 7)], asynchronous=False)
            require_equal([(tp.offset, tp.error) for tp in done], [(7, None)], "committed")
        with step("committed"):
            found = self.consumer.committed(self._both(), timeout=60)
            require_equal([tp.offset for tp in found], [7, -1001], "committed offsets")
        with step("commit_async"):
            self.commits.clear()
            self.consumer.commit(asynchronous=True)
            eventually(lambda: self.consumer.poll(0.1) or self.commits, "commit callback")
            self._require_committed(self.records, self.records)

    def _require_committed(self, first: int, second: int) -> None:
        found = self.consumer.committed(self._both(), timeout=60)
        require_equal([tp.offset for tp in found], [first, second], "committed offsets")

    def _pause_and_resume(self) -> None:
        with step("pause"):
            self.consumer.pause([self._partition(0)])
            for partition in self._both():
                self.consumer.seek(partition)
            seen = self._take(lambda seen: len(seen[1]) >= self.records)
            require_equal(seen[0], [], "records of a paused partition")
        with step("resume"):
            self.consumer.resume([self._partition(0)])
            seen = self._take(lambda seen: len(seen[0]) >= self.records)
            require_equal(seen[0], list(range(self.records)), "records of a resumed partition")

    def _seek(self) -> None:
        with step("seek_to_offset"):
            self.consumer.seek(self._partition(1, 11))
            require_equal(self._take(lambda seen: seen[1])[1][0], 11, "offset after seek")
        with step("seek_to_beginning"):
            self.consumer.seek(self._partition(0, OFFSET_BEGINNING))
            require_equal(self._take(lambda seen: seen[0])[0][0], 0, "offset after seek to the beginning")
        with step("seek_to_end"):
            self.consumer.seek(self._partition(0, OFFSET_END))
            self._require_only_new_records()
        with step("seek_to_timestamp"):
            asked = self._partition(1, self.base_ms + 20_500)
            found = self.consumer.offsets_for_times([asked], timeout=60)
            require_equal(found[0].offset, 21, "first offset at or after the timestamp")
            self.consumer.seek(found[0])
            require_equal(
                self._take(lambda seen: 21 in seen[1])[1][-1], 21, "offset after seek to a timestamp"
            )

    def _require_only_new_records(self) -> None:
        """The end is looked up in the background: write until a record is seen, which must be a new one."""
        producer = Producer({"bootstrap.servers": self.bootstrap})

        def seen() -> int | None:
            producer.produce(self.topic, b"new", partition=0)
            producer.flush(10)
            message = self.consumer.poll(0.5)
            return message.offset() if message is not None and message.partition() == 0 else None

        offset = eventually(seen, "a record written after seek to the end")
        require(offset >= self.records, f"seek to the end gave offset {offset}")

    def _rebalance(self) -> None:
        revocations: list[dict[int, int]] = []

        def commit_positions(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            positions = [tp for tp in consumer.position(partitions) if tp.offset >= 0]
            if not positions:
                return  # Assigned, but nothing read yet.
            consumer.commit(offsets=positions, asynchronous=False)
            found = consumer.committed(positions, timeout=60)
            require_equal(_offsets(found), _offsets(positions), "committed on revocation")
            revocations.append(_offsets(positions))

        with step("listener_commits_on_revocation") as details:
            self.consumer.subscribe([self.topic], on_revoke=commit_positions)
            self._await_assignment(2)
            for number in (0, 1):
                self.consumer.seek(self._partition(number, 30))
            self._take(lambda seen: seen[0] and seen[1])
            revocations.clear()  # Subscribing again revoked too.
            share_with_a_second_member(
                self.consumer, self.topic, self._new_consumer, lambda consumer: consumer.poll(0.1)
            )
            first = revocations[0]
            require(first.keys() == {0, 1} and min(first.values()) > 30, f"positions at revocation: {first}")
            self._await_assignment(2)
            details["committed"] = revocations
        with step("unsubscribe"):
            self._unsubscribe()

    def _unsubscribe(self) -> None:
        self.consumer.unsubscribe()
        eventually(lambda: self.consumer.poll(0.1) or not self.consumer.assignment(), "no assignment")

    def _await_assignment(self, count: int) -> None:
        def assigned() -> bool:
            self.consumer.poll(0.1)
            return len(self.consumer.assignment()) == count

        eventually(assigned, f"{count} partitions assigned")

    def _subscribe_by_pattern(self) -> None:
        with step("subscribe_by_pattern"):
            self.consumer.subscribe([f"^{self.topic}.*"])
            self._await_assignment(3)
            topics = {tp.topic for tp in self.consumer.assignment()}
            require_equal(topics, {self.topic, self.other_topic}, "topics of the pattern")
            self._unsubscribe()

    def _assign(self) -> None:
        with step("assign"):
            self.consumer.assign([self._partition(1, 40)])
            seen = self._take(lambda seen: len(seen[1]) >= 10)
            require_equal(seen[1], list(range(40, 50)), "offsets of an assigned partition")
            self.consumer.unassign()

    def _close_in_the_middle_of_a_poll(self) -> None:
        with step("close_in_the_middle_of_a_poll"):
            self.consumer.subscribe([self.other_topic])
            self._await_assignment(1)
            signal.signal(signal.SIGALRM, _interrupt)
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            try:
                message: Message | None = self.consumer.poll(30)
            except Interrupted:
                self.consumer.close()
            else:
                raise AssertionError(f"poll was not interrupted: {message}")


def _offsets(partitions: list[TopicPartition]) -> dict[int, int]:
    return {partition.partition: partition.offset for partition in partitions}


def _interrupt(*_: object) -> None:
    raise Interrupted


def walk(config: Config) -> None:
    Walk(config).run()
    report("walked")
