"""aiokafka: every call of its consumer, each with its outcome asserted. Its topics: see `confluent_walk`."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import ConsumerStoppedError

from harness.reporting import (
    STEP_DEADLINE_S,
    Config,
    eventually_async,
    report,
    require,
    require_equal,
    step,
)

Offsets = dict[int, list[int]]


class CommitsOnRevocation(ConsumerRebalanceListener):
    """Commits the positions of what is taken away, and remembers them."""

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self.consumer = consumer
        self.revocations: list[dict[int, int]] = []

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        positions = {tp: await self.consumer.position(tp) for tp in revoked}
        if not positions:
            return
        await self.consumer.commit(positions)
        for tp, position in positions.items():
            require_equal(await self.consumer.committed(tp), position, f"{tp} committed on revocation")
        self.revocations.append({tp.partition: position for tp, position in positions.items()})

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Nothing to do: positions come from the committed offsets."""


class Walk:
    def __init__(self, config: Config) -> None:
        self.topic: str = config["topic"]
        self.other_topic: str = config["other_topic"]
        self.records: int = config["records"]
        self.base_ms: int = config["base_ms"]
        self.bootstrap: str = config["bootstrap"]
        self.group: str = config["group"]
        self.both = [TopicPartition(self.topic, 0), TopicPartition(self.topic, 1)]
        self.consumer = self._new_consumer()

    async def run(self) -> None:
        await self.consumer.start()
        await self._metadata()
        await self._subscribe_and_poll()
        await self._commit()
        await self._pause_and_resume()
        await self._seek()
        await self._rebalance()
        await self._subscribe_by_pattern()
        await self._assign()
        await self._close_in_the_middle_of_a_poll()

    def _new_consumer(self) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            session_timeout_ms=6000,
            heartbeat_interval_ms=500,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
            metadata_max_age_ms=1000,
        )

    async def _take(self, until: Callable[[Offsets], object]) -> Offsets:
        """Poll until `until(offsets so far by partition)`; return those offsets."""
        seen: Offsets = defaultdict(list)

        async def poll() -> object:
            for tp, records in (await self.consumer.getmany(timeout_ms=200)).items():
                seen[tp.partition] += [record.offset for record in records]
            return until(seen)

        await eventually_async(poll, f"records of {self.topic}")
        return seen

    async def _metadata(self) -> None:
        with step("list_topics"):
            topics = await self.consumer.topics()
            require({self.topic, self.other_topic} <= topics, topics)

    async def _subscribe_and_poll(self) -> None:
        with step("subscribe_by_list"):
            self.consumer.subscribe([self.topic])
            seen = await self._take(lambda seen: len(seen[0]) + len(seen[1]) >= 2 * self.records)
            require_equal(self.consumer.assignment(), set(self.both), "assignment")
        with step("partitions_for_topic"):  # Known of topics it is subscribed to only.
            require_equal(self.consumer.partitions_for_topic(self.topic), {0, 1}, "partitions")
            ends = await self.consumer.end_offsets(self.both)
            require_equal(ends, dict.fromkeys(self.both, self.records), "end offsets")
            starts = await self.consumer.beginning_offsets(self.both)
            require_equal(starts, dict.fromkeys(self.both, 0), "beginning offsets")
        with step("poll"):
            require_equal(dict(seen), {p: list(range(self.records)) for p in (0, 1)}, "offsets")
        with step("position"):
            positions = [await self.consumer.position(tp) for tp in self.both]
            require_equal(positions, [self.records] * 2, "positions")

    async def _commit(self) -> None:
        first, second = self.both
        with step("commit_sync"):
            await self.consumer.commit({first: 7})
        with step("committed"):
            require_equal(await self.consumer.committed(first), 7, "committed offset")
            require_equal(await self.consumer.committed(second), None, "offset never committed")
        with step("commit_async"):
            # There is one commit call, a coroutine: as a task it runs beside the polls.
            task = asyncio.create_task(self.consumer.commit())
            await self.consumer.getmany(timeout_ms=10)
            await asyncio.wait_for(task, STEP_DEADLINE_S)
            committed = [await self.consumer.committed(tp) for tp in self.both]
            require_equal(committed, [self.records] * 2, "committed offsets")

    async def _pause_and_resume(self) -> None:
        first, _ = self.both
        with step("pause"):
            self.consumer.pause(first)
            require_equal(self.consumer.paused(), {first}, "paused")
            await self.consumer.seek_to_beginning(*self.both)
            seen = await self._take(lambda seen: len(seen[1]) >= self.records)
            require_equal(seen[0], [], "records of a paused partition")
        with step("resume"):
            self.consumer.resume(first)
            seen = await self._take(lambda seen: len(seen[0]) >= self.records)
            require_equal(seen[0], list(range(self.records)), "records of a resumed partition")

    async def _seek(self) -> None:
        first, second = self.both
        with step("seek_to_offset"):
            self.consumer.seek(second, 11)
            require_equal((await self._take(lambda seen: seen[1]))[1][0], 11, "offset after seek")
        with step("seek_to_beginning"):
            await self.consumer.seek_to_beginning(first)
            require_equal(await self.consumer.position(first), 0, "position after seek to the beginning")
            require_equal((await self._take(lambda seen: seen[0]))[0][0], 0, "offset after seek")
        with step("seek_to_end"):
            await self.consumer.seek_to_end(first)
            require_equal(await self.consumer.position(first), self.records, "position after seek to the end")
            await self._write_one()
            seen = await self._take(lambda seen: seen[0])
            require_equal(seen[0], [self.records], "the first record after seek to the end")
        with step("seek_to_timestamp"):
            found = (await self.consumer.offsets_for_times({second: self.base_ms + 20_500}))[second]
            require_equal(
                (found.offset, found.timestamp), (21, self.base_ms + 21_000), "offset for a timestamp"
            )
            self.consumer.seek(second, found.offset)
            require_equal((await self._take(lambda seen: seen[1]))[1][0], 21, "offset after seek")

    async def _write_one(self) -> None:
        async with AIOKafkaProducer(bootstrap_servers=self.bootstrap) as producer:
            await producer.send_and_wait(self.topic, b"new", partition=0)

    async def _rebalance(self) -> None:
        with step("listener_commits_on_revocation") as details:
            listener = CommitsOnRevocation(self.consumer)
            self.consumer.subscribe([self.topic], listener=listener)
            await self._await_assignment(2)
            for tp in self.both:
                self.consumer.seek(tp, 30)
            await self._take(lambda seen: seen[0] and seen[1])
            listener.revocations.clear()  # Subscribing again revoked too.
            await self._share_with_a_second_member()
            first = listener.revocations[0]
            require(first.keys() == {0, 1} and min(first.values()) > 30, f"positions at revocation: {first}")
            await self._await_assignment(2)
            details["committed"] = listener.revocations
        with step("unsubscribe"):
            self.consumer.unsubscribe()
            require_equal(self.consumer.assignment(), set(), "assignment")

    async def _share_with_a_second_member(self) -> None:
        """A second consumer joins until both have one partition, and leaves again."""
        async with self._new_consumer() as second:
            second.subscribe([self.topic])

            async def shared() -> bool:
                await asyncio.gather(self.consumer.getmany(timeout_ms=50), second.getmany(timeout_ms=50))
                return len(self.consumer.assignment()) == 1 == len(second.assignment())

            await eventually_async(shared, "both members have one partition")

    async def _await_assignment(self, count: int) -> None:
        async def assigned() -> bool:
            await self.consumer.getmany(timeout_ms=50)
            return len(self.consumer.assignment()) == count

        await eventually_async(assigned, f"{count} partitions assigned")

    async def _subscribe_by_pattern(self) -> None:
        with step("subscribe_by_pattern"):
            self.consumer.subscribe(pattern=f"^{self.topic}.*")
            await self._await_assignment(3)
            topics = {tp.topic for tp in self.consumer.assignment()}
            require_equal(topics, {self.topic, self.other_topic}, "topics of the pattern")
            self.consumer.unsubscribe()

    async def _assign(self) -> None:
        _, second = self.both
        with step("assign"):
            self.consumer.assign([second])
            self.consumer.seek(second, 40)
            seen = await self._take(lambda seen: len(seen[1]) >= 10)
            require_equal(seen[1], list(range(40, 50)), "offsets of an assigned partition")
            self.consumer.unsubscribe()

    async def _close_in_the_middle_of_a_poll(self) -> None:
        with step("close_in_the_middle_of_a_poll"):
            self.consumer.subscribe([self.other_topic])
            await self._await_assignment(1)
            poll = asyncio.create_task(self.consumer.getone())
            await asyncio.wait([poll], timeout=0.3)  # Nothing comes: the call is parked by then.
            require(not poll.done(), "the poll is parked")
            await self.consumer.stop()
            outcome = (await asyncio.gather(poll, return_exceptions=True))[0]
            require(isinstance(outcome, ConsumerStoppedError), f"the parked poll ended with {outcome!r}")


async def walk(config: Config) -> None:
    await Walk(config).run()
    report("walked")
