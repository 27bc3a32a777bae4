"""Fetch: sessions in all their turns (KIP-227), its limits, its errors, and requests that no client should send.

Session ids are made up by the broker, so they are renamed in the transcript in the order in which they come.
How many bytes a limit lets through is not compared byte by byte: Kafka cuts the last batch, Muster does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.records import Record, encode_batch
from tests.conformance.actors import UNKNOWN_TOPIC_ID
from tests.conformance.registry import scenario
from tests.conformance.run import PARKED, Run
from tests.conformance.scenarios.fetching import make_topic

ALL: Final = range(4, 19)
SESSIONS: Final = range(7, 19)
BY_ID: Final = range(13, 19)
NOW_MS: Final = 1_700_000_000_000
ROOM: Final = 1 << 20
NO_SESSION: Final = (0, -1)
NOWHERE: Final = "no-such-topic"
INT_MAX: Final = 2**31 - 1
UNKNOWN_SESSION: Final = (
    123_456_789  # Kafka fails at ids from 2,147,483,640 on: they are in none of its shards.
)

Wanted = tuple[str, int, int]
"""Topic, partition, offset."""


@dataclass
class Reader:
    """A client that fetches in one version, with topics of its own."""

    run: Run
    version: int
    topics: list[str] = field(default_factory=list)

    async def make(self, *names: str) -> list[str]:
        """Topics of three partitions, whose names begin with the run's."""
        made = [f"{self.run.group.replace('/', '-')}-{name}" for name in names]
        for name in made:
            await self.make_again(name)
        return made

    async def make_again(self, name: str) -> None:
        """Make one topic; return when all its partitions can be read, which is later than the metadata says."""
        self.run.topic_ids[name] = await make_topic(self.run, name)
        connection = await self.run.free_connection("admin")
        by_name = Reader(self.run, 12).request([(name, index, 0) for index in range(3)])
        for _ in range(500):
            if not any(error for _, error in errors_in(await connection.send(by_name, 12))):
                return
            await asyncio.sleep(0.02)
        raise TimeoutError(f"{name} is not read from")

    async def write(self, topic: str, partition: int, count: int = 1, size_bytes: int = 1) -> None:
        """Append `count` batches of one record."""
        connection = await self.run.free_connection("producer")
        for _ in range(count):
            batch = encode_batch([Record(b"k", b"v" * size_bytes, NOW_MS)])
            data = TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)]
            )
            asked = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])
            reply = await connection.send(asked, 9)
            assert reply.responses[0].partition_responses[0].error_code == 0, reply

    def request(
        self,
        wanted: Sequence[Wanted] = (),
        session: tuple[int, int] = NO_SESSION,
        forgotten: Sequence[tuple[str, int]] = (),
        room: int = ROOM,
        asked: dict[str, Any] | None = None,
        **changed: Any,
    ) -> FetchRequest:
        """A Fetch with a topic entry for each partition, so that their order is what was written here."""
        topics = [
            FetchTopic(
                **self._named(topic),
                partitions=[
                    FetchPartition(
                        **{
                            "partition": index,
                            "fetch_offset": offset,
                            "partition_max_bytes": room,
                            **(asked or {}),
                        }
                    )
                ],
            )
            for topic, index, offset in wanted
        ]
        given = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": ROOM, **changed}
        if self.version >= 7:
            given |= {"session_id": session[0], "session_epoch": session[1]}
            given["forgotten_topics_data"] = [
                ForgottenTopic(**self._named(topic), partitions=[index]) for topic, index in forgotten
            ]
        return FetchRequest(topics=topics, **given)

    def _named(self, topic: str) -> dict[str, Any]:
        if self.version >= 13:
            return {"topic_id": self.run.topic_ids.get(topic, UNKNOWN_TOPIC_ID)}
        return {"topic": topic}

    async def fetch(
        self,
        wanted: Sequence[Wanted] = (),
        session: tuple[int, int] = NO_SESSION,
        note: str = "",
        **given: Any,
    ) -> tuple[FetchResponse, int]:
        """Fetch; return the answer, which is in the transcript, and the session's id as the broker knows it."""
        sent = await self.run.send("reader", self.request(wanted, session, **given), self.version, note)
        reply = await self.run.answer(sent)
        if not isinstance(reply, FetchResponse):
            return FetchResponse(), 0
        return reply, reply.session_id


def errors_in(reply: FetchResponse) -> list[tuple[int, int]]:
    """(index, error code) of each partition in the answer."""
    return [(each.partition_index, each.error_code) for topic in reply.responses for each in topic.partitions]


@scenario("F session: only what is news", versions=SESSIONS)
async def a_session_answers_only_what_is_new(run: Run, version: int) -> None:
    reader = Reader(run, version)
    (topic,) = await reader.make("a")
    await reader.write(topic, 0)
    reply, session = await reader.fetch([(topic, 0, 0), (topic, 1, 0)], (0, 0), note="open")
    run.expect(
        session > 0 and len(errors_in(reply)) == 2, "a session, and all partitions in its first answer"
    )
    reply, _ = await reader.fetch([(topic, 0, 1)], (session, 1), note="next offset")
    run.expect(errors_in(reply) == [], "nothing is new")
    await reader.write(topic, 1)
    reply, _ = await reader.fetch([], (session, 2), note="news of one")
    run.expect(errors_in(reply) == [(1, 0)], "only the partition with news")
    await reader.fetch([], (session, 3), note="the same again, not asked to go on")
    await reader.fetch([(topic, 1, 1), (topic, 2, 0)], (session, 4), note="one more partition")
    await reader.write(topic, 2)
    await reader.fetch([], (session, 5), note="news of the one that was added")


@scenario("F session: forgotten partitions", versions=SESSIONS)
async def forgotten_partitions_are_not_answered(run: Run, version: int) -> None:
    reader = Reader(run, version)
    (topic,) = await reader.make("a")
    _, session = await reader.fetch([(topic, 0, 0), (topic, 1, 0)], (0, 0))
    await reader.write(topic, 0)
    reply, _ = await reader.fetch([], (session, 1), forgotten=[(topic, 0)], note="forget one")
    run.expect(errors_in(reply) == [], "what was forgotten is not in the answer")
    await reader.fetch([], (session, 2), forgotten=[(topic, 0), (topic, 7)], note="forget what is not there")
    await reader.fetch([(topic, 0, 0)], (session, 3), forgotten=[(topic, 0)], note="add and forget in one")
    reply, closed = await reader.fetch([], (session, 4), forgotten=[(topic, 1)], note="forget the last")
    run.expect(closed == 0, "a session without partitions ends")
    reply, _ = await reader.fetch([], (session, 5), note="after its end")
    run.expect(reply.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "it is gone")


@scenario("F session: wrong ids and epochs", versions=SESSIONS)
async def session_ids_and_epochs_must_be_right(run: Run, version: int) -> None:
    reader = Reader(run, version)
    (topic,) = await reader.make("a")
    reply, _ = await reader.fetch([(topic, 0, 0)], (UNKNOWN_SESSION, 1), note="unknown session")
    run.expect(reply.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "70 for an unknown id")
    await reader.fetch([(topic, 0, 0)], (0, 1), note="no session, but an epoch")
    _, session = await reader.fetch([(topic, 0, 0)], (0, 0), note="open")
    for epoch in (2, INT_MAX, -5):
        reply, _ = await reader.fetch([], (session, epoch), note=f"epoch {epoch} for 1")
        run.expect(reply.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH, f"71 for epoch {epoch}")
    await reader.fetch([], (session, 1), note="it goes on")
    reply, _ = await reader.fetch([], (session, 1), note="the same epoch again")
    run.expect(reply.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH, "71 for an epoch that has been")
    await reader.fetch([(topic, 1, 0)], (session, 0), note="opened again, which ends the first")
    reply, _ = await reader.fetch([], (session, 2), note="the first")
    run.expect(reply.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "the first is gone")
    _, session = await reader.fetch([(topic, 0, 0)], (0, 0), note="open another")
    reply, none = await reader.fetch([(topic, 0, 0)], (session, -1), note="closed")
    run.expect(none == 0 and errors_in(reply) == [(0, 0)], "a last answer without a session")
    await reader.fetch([], (session, 1), note="closed before")
    await reader.fetch([], (0, 0), note="a session of nothing")


@scenario("F session: of another connection", versions=SESSIONS)
async def a_session_belongs_to_no_connection(run: Run, version: int) -> None:
    reader = Reader(run, version)
    (topic,) = await reader.make("a")
    _, session = await reader.fetch([(topic, 0, 0)], (0, 0))
    await reader.write(topic, 0)
    stranger = await run.send("stranger", reader.request([], (session, 1)), version)
    reply = await stranger.reply
    run.saw("the stranger was answered", [list(each) for each in errors_in(reply)])
    reply, _ = await reader.fetch([], (session, 1), note="the same epoch, by whom it belongs to")
    run.expect(reply.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH, "the stranger has used it")


@scenario("F session: topic ids or names", versions=(12, 13))
async def a_session_keeps_to_names_or_to_ids(run: Run, version: int) -> None:
    reader = Reader(run, version)
    (topic,) = await reader.make("a")
    _, session = await reader.fetch([(topic, 0, 0)], (0, 0))
    other = Reader(run, 25 - version)
    reply, _ = await other.fetch([], (session, 1), note="the other way")
    run.expect(reply.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, "106")
    await reader.fetch([], (session, 1), note="its own way")


@scenario("F session: turns", versions=SESSIONS)
async def partitions_take_turns(run: Run, version: int) -> None:
    """With room for one partition, the one that has given records goes to the end."""
    reader = Reader(run, version)
    (topic,) = await reader.make("a")
    for partition in range(3):
        await reader.write(topic, partition, count=4, size_bytes=1000)
    wanted = [(topic, partition, 0) for partition in range(3)]
    reply, session = await reader.fetch(wanted, (0, 0), max_bytes=1, note="open")
    for epoch in range(1, 6):
        sent = await run.send("reader", reader.request([], (session, epoch), max_bytes=1, room=1), version)
        reply = await sent.reply
        gave = [
            each.partition_index for topic_ in reply.responses for each in topic_.partitions if each.records
        ]
        run.saw(f"gave records in turn {epoch}", gave)


@scenario("F partitions: unknown", versions=ALL)
async def unknown_topics_and_partitions(run: Run, version: int) -> None:
    reader = Reader(run, version)
    (topic,) = await reader.make("a")
    await reader.write(topic, 0)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    reply, _ = await reader.fetch([(NOWHERE, 0, 0)], note="unknown topic")
    run.expect(errors_in(reply) == [(0, unknown)], f"{unknown.name}")
    mixed = [(NOWHERE, 0, 0), (topic, 0, 0), (topic, 99, 0), (NOWHERE, 1, 0), (topic, -1, 0), (topic, 1, 0)]
    await reader.fetch(mixed, note="among others")
    if version >= 7:
        _, session = await reader.fetch(mixed, (0, 0), note="in a session")
        await reader.fetch([], (session, 1), note="and again")
        await reader.fetch([(topic, 0, 1)], (session, 2), note="with nothing new of the good one")
    if version >= 13:
        run.topic_ids[NOWHERE] = bytes(16)
        await reader.fetch([(NOWHERE, 0, 0), (topic, 0, 0)], note="the zero id")
        await reader.fetch([(NOWHERE, 0, 0), (topic, 0, 0)], (0, 0), note="the zero id in a session")
        del run.topic_ids[NOWHERE]


@scenario("F partitions: offsets and epochs", versions=ALL)
async def offsets_and_leader_epochs_that_cannot_be(run: Run, version: int) -> None:
    reader = Reader(run, version)
    (topic,) = await reader.make("a")
    await reader.write(topic, 0, count=3)
    for offset in (-1, -2, -(2**63), 3, 4, 2**63 - 1):
        await reader.fetch([(topic, 0, offset)], note=f"offset {offset}")
    await reader.fetch([(topic, 0, 99), (topic, 0, 1)], note="one partition twice")
    await reader.fetch([(topic, 0, 99), (topic, 1, 0), (topic, 0, 0)], note="an error among others")
    if version >= 9:
        for epoch in (0, 1, 7, -5):
            await reader.fetch(
                [(topic, 0, 0)], note=f"leader epoch {epoch}", asked={"current_leader_epoch": epoch}
            )
    if version >= 12:
        for epoch in (0, 1):
            for offset in (0, 3, 5):
                asked = {"last_fetched_epoch": epoch}
                await reader.fetch(
                    [(topic, 0, offset)], note=f"fetched {offset} in epoch {epoch}", asked=asked
                )


@scenario("F limits: absurd", versions=ALL)
async def absurd_limits(run: Run, version: int) -> None:
    reader = Reader(run, version)
    (topic,) = await reader.make("a")
    await reader.write(topic, 0)
    for room in (0, 1, INT_MAX):
        await reader.fetch([(topic, 0, 0)], room=room, note=f"room for {room} in the partition")
        await reader.fetch([(topic, 0, 0)], max_bytes=room, note=f"room for {room} in all")
    for room in (-1, -INT_MAX - 1):
        await reader.fetch(
            [(topic, 0, 0), (topic, 1, 0)], room=room, note=f"room for {room} in the partition"
        )
        await reader.fetch([(topic, 0, 0), (topic, 1, 0)], max_bytes=room, note=f"room for {room} in all")
    for least in (0, -1, -INT_MAX - 1):
        await reader.fetch([(topic, 1, 0)], min_bytes=least, max_wait_ms=60_000, note=f"at least {least}")
    await reader.fetch([(topic, 1, 0)], max_wait_ms=-1, note="a wait of -1 ms")
    await reader.fetch([], max_wait_ms=60_000, note="nothing at all")
    await reader.fetch([(topic, 0, 0)], isolation_level=1, note="read committed")
    if version >= 11:
        await reader.fetch([(topic, 0, 0)], rack_id="rack-7", note="from some rack")


@scenario("F limits: first batch", versions=ALL)
async def the_first_batch_comes_however_large(run: Run, version: int) -> None:
    """How many bytes come after it is the brokers' own way; that they come in the order asked is not."""
    reader = Reader(run, version)
    (topic,) = await reader.make("a")
    for partition in range(2):
        await reader.write(topic, partition, size_bytes=5000)
    wanted = [(topic, 2, 0), (topic, 1, 0), (topic, 0, 0)]
    await reader.fetch(wanted, max_bytes=100, note="room for 100 in all")
    await reader.fetch(wanted, room=100, note="room for 100 in each")
    await reader.fetch(wanted, max_bytes=0, room=0, note="no room")


@scenario("F wait: until there is enough", versions=ALL)
async def a_fetch_waits_for_enough(run: Run, version: int) -> None:
    reader = Reader(run, version)
    (topic,) = await reader.make("a")
    wanted = [(topic, 0, 0), (topic, 1, 0)]
    waiting = await run.send("waiter", reader.request(wanted, max_wait_ms=20_000), version, "one byte")
    await run.parked(waiting)
    await reader.write(topic, 1)
    await run.answer(waiting)
    request = reader.request([(topic, 0, 0)], max_wait_ms=20_000, min_bytes=200)
    waiting = await run.send("waiter", request, version, "200 bytes")
    await reader.write(topic, 0)
    await run.parked(waiting)
    await reader.write(topic, 0, count=2)
    reply = await run.answer(waiting)
    run.expect(errors_in(reply) == [(0, 0)], "both batches")
    async with run.taking(0.2, 10.0):
        await reader.fetch([(topic, 2, 0)], max_wait_ms=250, note="nothing for 250 ms")


@scenario(
    "F wait: with an error beside",
    versions=ALL,
    choices=("unknown-topic", "unknown-partition", "offset"),
    thin=True,
)
async def an_error_ends_the_wait_or_not(run: Run, version: int, choice: str) -> None:
    reader = Reader(run, version)
    (topic,) = await reader.make("a")
    wrong = {"unknown-topic": (NOWHERE, 0, 0), "unknown-partition": (topic, 99, 0), "offset": (topic, 1, 99)}
    request = reader.request([(topic, 0, 0), wrong[choice]], max_wait_ms=600)
    waiting = await run.send("waiter", request, version, f"beside {choice}")
    await asyncio.wait([waiting.reply], timeout=0.3)
    run.saw("after 300 ms", "answered" if waiting.reply.done() else PARKED)
    await run.answer(waiting)


@scenario("F session: topic deleted and made again", versions=SESSIONS)
async def a_session_outlives_its_topic(run: Run, version: int) -> None:
    reader = Reader(run, version)
    topic, stays = await reader.make("a", "b")
    await reader.write(topic, 0)
    _, session = await reader.fetch([(topic, 0, 0), (stays, 0, 0)], (0, 0), note="open")
    admin = await run.free_connection("admin")
    await admin.send(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 5)
    epoch = await until_error(run, reader, session, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    await reader.fetch([], (session, epoch), note="gone")
    await reader.make_again(topic)
    await reader.write(topic, 0, count=2)
    reply, _ = await reader.fetch([], (session, epoch + 1), note="made again")
    wrong_id = ErrorCode.INCONSISTENT_TOPIC_ID if version >= 13 else 0
    run.expect(errors_in(reply) == [(0, wrong_id)], "by id it is another topic")
    await reader.fetch([(topic, 0, 0)], (session, epoch + 2), note="asked for again")


async def until_error(run: Run, reader: Reader, session: int, epoch: int, error: ErrorCode) -> int:
    """Fetch, out of the transcript, until `error` is in an answer; the session's next epoch."""
    for later in range(epoch, epoch + 200):
        sent = await run.send("reader", reader.request([], (session, later)), reader.version)
        reply = await sent.reply
        if error in [code for _, code in errors_in(reply)]:
            return later + 1
        await asyncio.sleep(0.02)
    raise TimeoutError(f"no {error.name} in 200 fetches")
