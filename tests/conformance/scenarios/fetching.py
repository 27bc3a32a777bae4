"""OffsetFetch in all its shapes (docs/kafka.md 2.3, O9 to O12)."""

from __future__ import annotations

import asyncio
from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.conformance.actors import FETCH, OTHER_TOPIC, TOPIC, UNKNOWN_TOPIC_ID, Actor
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.scenes import STATES, cast, scene, stable
from tests.conformance.topic_scenes import delete_topic

ALL_TOPICS: Final = range(2, 11)
GROUPS: Final = range(8, 11)
STABLE_ONLY: Final = range(7, 11)


@scenario("2.3 OffsetFetch: unknown group", "2.3 OffsetFetch: empty group id", "O27", versions=FETCH)
async def fetch_of_a_group_that_is_not_there(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    nothing = await alice.fetch(version, [(TOPIC, 0), (TOPIC, 7), (OTHER_TOPIC, -1)])
    run.expect(all(each == (-1, "", 0) for each in offsets_in(nothing)), "-1, no metadata, no error")
    await alice.fetch(version, [])
    await alice.fetch(version, [(TOPIC, 0)], "")
    await run.describe("Dead")


@scenario("2.3 OffsetFetch: all of an unknown group", "O11", versions=ALL_TOPICS)
async def fetch_of_all_of_a_group_that_is_not_there(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    reply = await alice.fetch(version, None)
    topics = reply.groups[0].topics if version >= 8 else reply.topics
    run.expect(topics == [], "an empty list")
    await run.describe("Dead")


def offsets_in(reply: OffsetFetchResponse) -> list[tuple[int, str | None, int]]:
    """(offset, metadata, error code) of each partition in the answer."""
    older = [
        (p.committed_offset, p.metadata, p.error_code) for topic in reply.topics for p in topic.partitions
    ]
    topics = [topic for group in reply.groups for topic in group.topics]
    return older + [
        (p.committed_offset, p.metadata, p.error_code) for topic in topics for p in topic.partitions
    ]


@scenario("2.3 OffsetFetch: unknown partition", "O27", versions=FETCH)
async def fetch_of_partitions_without_an_offset(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await alice.commit()
    reply = await alice.fetch(
        version, [(TOPIC, 1), (TOPIC, 0), (TOPIC, 77), ("nowhere", 0), (OTHER_TOPIC, 0), (TOPIC, 0)]
    )
    unknown_id = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else 0
    right = {(42, "", 0), (-1, "", 0), (-1, "", unknown_id)}
    run.expect(set(offsets_in(reply)) == right, f"only what was committed: {offsets_in(reply)}")


@scenario("O27", versions=FETCH)
async def fetch_of_one_topic_twice(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await alice.commit()
    request = alice.fetch_request(version, [(TOPIC, 0)])
    if version >= 8:
        assert request.groups[0].topics is not None
        request.groups[0].topics *= 2
    else:
        assert request.topics is not None
        request.topics *= 2
    await run.answer(await run.send("alice", request, version))


@scenario("O11", versions=ALL_TOPICS)
async def fetch_of_all_there_is(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await alice.commit(
        9, {(TOPIC, 0): 1, (OTHER_TOPIC, 2): 2, (TOPIC, 2): 3, (OTHER_TOPIC, 0): 4}, metadata="m"
    )
    await alice.fetch(version, None)


@scenario("O9", versions=FETCH, choices=STATES, thin=True)
async def fetch_does_not_check_the_member(run: Run, version: int, state: str) -> None:
    made = await scene(run, state)
    if state in ("Stable", "PreparingRebalance"):
        await made.alice.commit()
    await made.alice.fetch(version)
    if version >= 9:
        await made.alice.fetch(version, note="some id", member_id="some-id", member_epoch=77)
        await made.alice.fetch(version, note="an id, no epoch", member_id="some-id", member_epoch=-1)
        await made.alice.fetch(version, note="an epoch, no id", member_id="", member_epoch=5)
        await made.alice.fetch(version, None, note="all, by some id", member_id="some-id", member_epoch=0)
    if version >= 7:
        await made.alice.fetch(version, note="stable only", require_stable=True)


@scenario("O10", versions=GROUPS)
async def fetch_of_several_groups(run: Run, version: int) -> None:
    """The groups are named so that they lie on several partitions."""
    groups = [f"{run.group}/{number}" for number in range(8)]
    (alice,) = cast(run, "alice")
    for number, group in enumerate(groups[:6]):
        await alice.commit(9, {(TOPIC, number % 3): number}, group_id=group)
    await alice.fetch(version, [(TOPIC, 0), (TOPIC, 1)], *groups)
    await alice.fetch(version, None, *groups)
    await alice.fetch(version, [(TOPIC, 0)], groups[0], "", groups[7], groups[0], note="one twice, one empty")
    await run.answer(await run.send("alice", OffsetFetchRequest(groups=[]), version, "no group at all"))


@scenario("O10", versions=GROUPS)
async def fetch_of_several_groups_each_with_its_own_topics(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    groups = [f"{run.group}/{number}" for number in range(4)]
    for group in groups:
        await alice.commit(9, {(TOPIC, 0): 1, (OTHER_TOPIC, 1): 2}, group_id=group)
    by_id = version >= 10

    def topic(name: str) -> OffsetFetchRequestTopics:
        if by_id:
            return OffsetFetchRequestTopics(topic_id=run.topic_ids[name], partition_indexes=[1, 0])
        return OffsetFetchRequestTopics(name=name, partition_indexes=[1, 0])

    wanted = [[topic(TOPIC)], [topic(OTHER_TOPIC), topic(TOPIC)], None, []]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=g, topics=t) for g, t in zip(groups, wanted, strict=True)]
    )
    await run.answer(await run.send("alice", request, version))


@scenario("2.3 OffsetFetch: unknown topic id", "O12", versions=(10,))
async def fetch_by_topic_ids_that_are_not_there(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await alice.commit(9, {(TOPIC, 0): 1, (OTHER_TOPIC, 0): 2})
    for topic_ids in ([UNKNOWN_TOPIC_ID], [bytes(16)], [UNKNOWN_TOPIC_ID, run.topic_ids[TOPIC]]):
        topics = [OffsetFetchRequestTopics(topic_id=each, partition_indexes=[0, 1]) for each in topic_ids]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=run.group, topics=topics)])
        reply = await run.answer(await run.send("alice", request, version))
        for topic in reply.groups[0].topics:
            errors = [partition.error_code for partition in topic.partitions]
            right = 0 if topic.topic_id == run.topic_ids[TOPIC] else ErrorCode.UNKNOWN_TOPIC_ID
            run.expect(errors == [right] * 2, f"100 for topics that are not there: {errors}")


@scenario("O13", versions=STABLE_ONLY)
async def stable_offsets_are_those_without_a_transaction(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await alice.commit()
    await alice.fetch(version, [(TOPIC, 0), (TOPIC, 1)], require_stable=True)
    await alice.fetch(version, None, require_stable=True)


@scenario("O12", "O23", "O11")
async def offsets_of_a_topic_that_is_made_again(run: Run) -> None:
    """Offsets go with their topic, and the new topic of the name has none."""
    (alice,) = cast(run, "alice")
    name = run.group.replace("/", "-")
    old_id = await make_topic(run, name)
    run.topic_ids[name] = old_id
    await alice.commit(9, {(name, 0): 5, (TOPIC, 0): 1})
    await alice.commit(10, {(name, 1): 6})
    await alice.fetch(9, [(name, 0), (name, 1)])
    await alice.fetch(10, [(name, 0), (name, 1)])
    await delete_topic(run, name)
    await until_gone(run, name, alice)
    await alice.fetch(9, None)
    await alice.fetch(9, [(name, 0), (name, 1)])
    new_id = await make_topic(run, name)
    run.expect(new_id != old_id, "another id")
    run.topic_ids[name] = new_id
    await alice.fetch(10, [(name, 0), (name, 1)])
    await alice.commit(9, {(name, 0): 7})
    await alice.fetch(10, [(name, 0)])
    run.topic_ids[name] = old_id
    await alice.fetch(10, [(name, 0)], note="by the old id")


async def make_topic(run: Run, name: str) -> bytes:
    """Make a topic of three partitions; return its id once it is known everywhere."""
    connection = await run.free_connection("admin")
    topic = CreatableTopic(name=name, num_partitions=3, replication_factor=1)
    made = await connection.send(CreateTopicsRequest(topics=[topic]), 7)
    assert made.topics[0].error_code == 0, made.topics[0].error_message
    while True:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        seen = await connection.send(request, 12)
        if seen.topics[0].error_code == 0 and len(seen.topics[0].partitions) == 3:
            return bytes(made.topics[0].topic_id)
        await asyncio.sleep(0.05)


async def until_gone(run: Run, name: str, reader: Actor) -> None:
    """Wait until no offset of the topic is left, which is a while after the topic itself went."""
    connection = await run.free_connection("observer")
    for _ in range(200):
        request = reader.fetch_request(9, None)
        reply = await connection.send(request, 9)
        if name not in [topic.name for topic in reply.groups[0].topics]:
            return
        await asyncio.sleep(0.05)
    run.expect(False, "the offsets of the topic should go")


@scenario("O2", "O9", versions=FETCH)
async def a_member_reads_what_it_committed(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await stable(run, alice)
    for offset in (1, 2):
        await alice.commit(9, {(TOPIC, 0): offset})
        await alice.fetch(version)
