"""kafka-python: every call of its consumer, each outcome asserted. Its topics: see `confluent_walk`."""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Callable

from kafka import (
    AsyncConsumerRebalanceListener,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)

from harness.reporting import Config, eventually, report, require, require_equal, step
from tests.clients.workers.sharing import share_with_a_second_member

Offsets = dict[int, list[int]]


class Interrupted(Exception):
    """Raised by a signal in the middle of a poll."""


class CommitsOnRevocation(AsyncConsumerRebalanceListener):
    """Commits the positions of what is taken away, and remembers them.

    It runs on the library's own loop, where blocking calls are refused: it awaits the asynchronous commit.
    """

    def __init__(self, consumer: KafkaConsumer, positions: dict[TopicPartition, int]) -> None:
        self.consumer = consumer
        self.positions = positions
        self.revocations: list[dict[int, int]] = []

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        taken = {tp: self.positions[tp] for tp in revoked if tp in self.positions}
        if taken:
            await self.consumer.commit_async(_metadata(taken))
            self.revocations.append({tp.partition: position for tp, position in taken.items()})

    async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        """Nothing to do: positions come from the committed offsets."""


def _metadata(offsets: dict[TopicPartition, int]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {tp: OffsetAndMetadata(offset, "", -1) for tp, offset in offsets.items()}


class Walk:
    def __init__(self, config: Config) -> None:
        self.topic: str = config["topic"]
        self.other_topic: str = config["other_topic"]
        self.records: int = config["records"]
        self.base_ms: int = config["base_ms"]
        self.bootstrap: str = config["bootstrap"]
        self.group: str = config["group"]
        self.both = [TopicPartition(self.topic, 0), TopicPartition(self.topic, 1)]
        self.positions: dict[TopicPartition, int] = {}
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

    def _new_consumer(self) -> KafkaConsumer:
        return KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            session_timeout_ms=6000,
            heartbeat_interval_ms=500,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
        )

    def _take(self, until: Callable[[Offsets], object]) -> Offsets:
        """Poll until `until(offsets so far by partition)`; return those offsets."""
        seen: Offsets = defaultdict(list)

        def poll() -> object:
            for tp, records in self.consumer.poll(timeout_ms=200).items():
                seen[tp.partition] += [record.offset for record in records]
                self.positions[tp] = records[-1].offset + 1
            return until(seen)

        eventually(poll, f"records of {self.topic}")
        return seen

    def _metadata(self) -> None:
        with step("list_topics"):
            topics = self.consumer.topics()
            require({self.topic, self.other_topic} <= topics, topics)
        with step("partitions_for_topic"):
            require_equal(self.consumer.partitions_for_topic(self.topic), {0, 1}, "partitions")
            ends = self.consumer.end_offsets(self.both)
            require_equal(ends, dict.fromkeys(self.both, self.records), "end offsets")
            starts = self.consumer.beginning_offsets(self.both)
            require_equal(starts, dict.fromkeys(self.both, 0), "beginning offsets")

    def _subscribe_and_poll(self) -> None:
        with step("subscribe_by_list"):
            self.consumer.subscribe([self.topic])
            seen = self._take(lambda seen: len(seen[0]) + len(seen[1]) >= 2 * self.records)
            require_equal(self.consumer.assignment(), set(self.both), "assignment")
        with step("poll"):
            require_equal(dict(seen), {p: list(range(self.records)) for p in (0, 1)}, "offsets")
        with step("position"):
            positions = [self.consumer.position(tp) for tp in self.both]
            require_equal(positions, [self.records] * 2, "positions")

    def _commit(self) -> None:
        first, second = self.both
        with step("commit_sync"):
            self.consumer.commit({first: OffsetAndMetadata(7, "kept with the offset", -1)})
        with step("committed"):
            found = self.consumer.committed(first, metadata=True)
            require_equal((found.offset, found.metadata), (7, "kept with the offset"), "committed offset")
            require_equal(self.consumer.committed(second), None, "offset never committed")
        with step("commit_async"):
            outcomes: list[object] = []
            self.consumer.commit_async(callback=lambda _offsets, outcome: outcomes.append(outcome))
            eventually(lambda: self.consumer.poll(timeout_ms=50) or outcomes, "commit callback")
            require(not isinstance(outcomes[0], Exception), outcomes[0])
            committed = [self.consumer.committed(tp) for tp in self.both]
            require_equal(committed, [self.records] * 2, "committed offsets")

    def _pause_and_resume(self) -> None:
        first, _ = self.both
        with step("pause"):
            self.consumer.pause(first)
            require_equal(self.consumer.paused(), {first}, "paused")
            self.consumer.seek_to_beginning(*self.both)
            seen = self._take(lambda seen: len(seen[1]) >= self.records)
            require_equal(seen[0], [], "records of a paused partition")
        with step("resume"):
            self.consumer.resume(first)
            seen = self._take(lambda seen: len(seen[0]) >= self.records)
            require_equal(seen[0], list(range(self.records)), "records of a resumed partition")

    def _seek(self) -> None:
        first, second = self.both
        with step("seek_to_offset"):
            self.consumer.seek(second, 11)
            require_equal(self._take(lambda seen: seen[1])[1][0], 11, "offset after seek")
        with step("seek_to_beginning"):
            self.consumer.seek_to_beginning(first)
            require_equal(self.consumer.position(first), 0, "position after seek to the beginning")
            require_equal(self._take(lambda seen: seen[0])[0][0], 0, "offset after seek")
        with step("seek_to_end"):
            self.consumer.seek_to_end(first)
            require_equal(self.consumer.position(first), self.records, "position after seek to the end")
            self._write_one()
            require_equal(
                self._take(lambda seen: seen[0])[0], [self.records], "the first record after the end"
            )
        with step("seek_to_timestamp"):
            found = self.consumer.offsets_for_times({second: self.base_ms + 20_500})[second]
            require_equal(
                (found.offset, found.timestamp), (21, self.base_ms + 21_000), "offset for a timestamp"
            )
            self.consumer.seek(second, found.offset)
            require_equal(self._take(lambda seen: seen[1])[1][0], 21, "offset after seek")

    def _write_one(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self.bootstrap)
        producer.send(self.topic, b"new", partition=0).get(timeout=60)
        producer.close()

    def _rebalance(self) -> None:
        with step("listener_commits_on_revocation") as details:
            listener = CommitsOnRevocation(self.consumer, self.positions)
            self.consumer.subscribe([self.topic], listener=listener)
            self._await_assignment(2)
            for tp in self.both:
                self.consumer.seek(tp, 30)
            self._take(lambda seen: seen[0] and seen[1])
            listener.revocations.clear()  # Subscribing again revoked too.
            share_with_a_second_member(
                self.consumer, self.topic, self._new_consumer, lambda consumer: consumer.poll(timeout_ms=100)
            )
            first = listener.revocations[0]
            require(first.keys() == {0, 1} and min(first.values()) > 30, f"positions at revocation: {first}")
            for tp in self.both:
                require(self.consumer.committed(tp) >= first[tp.partition], f"{tp} committed on revocation")
            self._await_assignment(2)
            details["committed"] = listener.revocations
        with step("unsubscribe"):
            self.consumer.unsubscribe()
            require_equal(self.consumer.assignment(), set(), "assignment")

    def _await_assignment(self, count: int) -> None:
        def assigned() -> bool:
            self.consumer.poll(timeout_ms=50)
            return len(self.consumer.assignment()) == count

        eventually(assigned, f"{count} partitions assigned")

    def _subscribe_by_pattern(self) -> None:
        with step("subscribe_by_pattern"):
            self.consumer.subscribe(pattern=f"^{self.topic}.*")
            self._await_assignment(3)
            topics = {tp.topic for tp in self.consumer.assignment()}
            require_equal(topics, {self.topic, self.other_topic}, "topics of the pattern")
            self.consumer.unsubscribe()

    def _assign(self) -> None:
        _, second = self.both
        with step("assign"):
            self.consumer.assign([second])
            self.consumer.seek(second, 40)
            seen = self._take(lambda seen: len(seen[1]) >= 10)
            require_equal(seen[1], list(range(40, 50)), "offsets of an assigned partition")
            self.consumer.unsubscribe()

    def _close_in_the_middle_of_a_poll(self) -> None:
        with step("close_in_the_middle_of_a_poll"):
            self.consumer.subscribe([self.other_topic])
            self._await_assignment(1)
            signal.signal(signal.SIGALRM, _interrupt)
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            try:
                records = self.consumer.poll(timeout_ms=30_000)
            except Interrupted:
                self.consumer.close()
            else:
                raise AssertionError(f"poll was not interrupted: {records}")


def _interrupt(*_: object) -> None:
    raise Interrupted


def walk(config: Config) -> None:
    Walk(config).run()
    report("walked")
