"""The records of consumer groups: what each request writes, in which order, and what a restart makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from coordinator.data.produce_checks import ADMIN_CLIENT_ID
from coordinator.effects import CoordinatorRecord
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.metadata_hash import TopicHashes
from coordinator.groups.consumer.record_schemas import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    CurrentTopicPartitions,
)
from coordinator.groups.consumer.records import (
    new_epoch_record,
    new_member_record,
    new_target_epoch_record,
    new_target_record,
)
from coordinator.groups.partitioning import partition_for
from coordinator.groups.record_codec import encode_record
from coordinator.topic_catalog import TopicImage
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.records.records import Record, encode_batch
from tests.conformance.actors import OTHER_TOPIC, PARTITIONS, TOPIC, Actor
from tests.conformance.consumer_scenes import shown, target_at_once, until_epoch
from tests.conformance.group_log import PARTITIONS as SHARDS
from tests.conformance.group_log import GroupLog, types
from tests.conformance.new_members import REBALANCE_MS, NewMember
from tests.conformance.registry import BOTH, Ending, scenario
from tests.conformance.run import Run
from tests.conformance.topic_scenes import AT_MS, ask, make_topic, topic_name
from tests.topics.requests import produce_request

COLLIDING: Final = ("BB", "Aa")
"""Names of one hash: a table has them in the order in which they were put."""


@scenario("A50", "A51", "A52", "A20")
async def members_are_written_in_one_batch_for_each_request(run: Run) -> None:
    await target_at_once(run)
    log = await GroupLog.of(run)
    alice, bob = NewMember(run, "alice", (TOPIC, *COLLIDING)), NewMember(run, "bob")
    await alice.beat(rack_id="r", server_assignor="uniform", note="joins")
    first = await log.written("the first member")
    run.expect(types(first) == [5, 3, 7, 6, 8], f"all that there is: {types(first)}")
    member, epoch, target, target_epoch, current = (each.value for each in first)
    run.expect(list(member.subscribed_topic_names) == ["Aa", "BB", TOPIC], "sorted")
    run.expect(
        (member.subscribed_topic_regex, member.client_host) == ("", "/127.0.0.1"), "none, with a slash"
    )
    run.expect((epoch.epoch, target_epoch.assignment_epoch) == (2, 2), "the first epoch is 2")
    run.expect((current.member_epoch, current.previous_member_epoch) == (2, 0), "and 0 before it")
    run.expect(len(target.topic_partitions) == 1, "all of the topic")
    group = await shown(run)
    run.saw("names in their order", list(group.members[0].subscribed_topic_names))
    await alice.beat(note="nothing new")
    run.expect(not await log.written("nothing new"), "nothing changes")
    await bob.beat(note="joins")
    await log.written("the second member")
    await alice.beat(note="is to give up some")
    run.expect(types(await log.written("a step")) == [8], "what it has alone")
    await alice.own("has given it up")
    await log.written("it is free")
    await bob.beat(subscribed_topic_names=[OTHER_TOPIC], note="another topic")
    await log.written("another topic")
    await bob.leave()
    run.expect(types(await log.written("a leave")) == [-8, -7, -5, 3], "the member, then the epoch")
    await alice.beat(note="has another target")
    await log.written("another target")


@scenario("A52", "A17", "A43")
async def a_first_member_without_topics_is_written_too(run: Run) -> None:
    """A topic that does not exist raises the epoch, and the target is empty; no topic at all raises none."""
    other = f"{run.group}-other"
    log, others_log = await GroupLog.of(run), await GroupLog.of(run, other)
    alice, bob = NewMember(run, "alice", ("absent",)), NewMember(run, "bob", ())
    await alice.beat(note="joins")
    records = await log.written("no such topic")
    run.expect(types(records) == [5, 3, 7, 6, 8], f"all that there is: {types(records)}")
    run.expect(not records[2].value.topic_partitions, "an empty target")
    run.expect(log.hashes == [0], "no topic that exists")
    await bob.beat(note="joins", group_id=other)
    run.expect(types(await others_log.written("no topic")) == [5, 8], "no epoch")


@scenario("A43")
async def the_hash_is_that_of_the_topics(run: Run) -> None:
    """Of those that exist, in the order of their names, whatever the order in which members name them."""
    await target_at_once(run)
    log = await GroupLog.of(run)
    alice, bob = NewMember(run, "alice", (OTHER_TOPIC, "absent")), NewMember(run, "bob", (TOPIC,))
    await alice.beat(note="joins")
    await log.written("one topic")
    await bob.beat(note="joins")
    await log.written("two topics")
    images = [TopicImage(name, run.topic_ids[name], [[]] * PARTITIONS) for name in (OTHER_TOPIC, TOPIC)]
    run.expect(
        log.hashes == [TopicHashes().of_group(images[:1]), TopicHashes().of_group(images)],
        f"hashes: {log.hashes}",
    )


@scenario("A46", "A48", "A50", "A51")
async def expressions_are_written_aside(run: Run) -> None:
    await target_at_once(run)
    for letter in "ba":
        await make_topic(run, letter)
    log = await GroupLog.of(run)
    alice, bob = NewMember(run, "alice"), NewMember(run, "bob")
    expression: dict[str, Any] = {
        "subscribed_topic_names": None,
        "subscribed_topic_regex": topic_name(run, "[ab]"),
    }
    await alice.beat(note="joins", **expression)
    await until_epoch(run, 2)
    records = await log.written("the join, and the run", at_once=False)
    run.expect(types(records) == [5, 8, 16, 3], f"the run by itself: {types(records)}")
    resolved = records[2].value
    run.expect(list(resolved.topics) == [topic_name(run, "a"), topic_name(run, "b")], "sorted")
    run.expect((resolved.version, resolved.timestamp) == (1, 1), "a version and a time")
    await bob.beat(note="joins", **expression)
    await bob.leave()
    await log.written("another comes and goes", at_once=False)
    await alice.beat(note="names instead", subscribed_topic_regex="", subscribed_topic_names=[TOPIC])
    records = await log.written("names instead")
    run.expect(types(records)[:3] == [5, -16, 3], f"the expression goes: {types(records)}")


@scenario("A51")
async def a_group_is_removed_with_all_that_it_has(run: Run) -> None:
    await target_at_once(run)
    alice = NewMember(run, "alice", instance_id="one")
    log = await GroupLog.of(run)
    await alice.beat(note="joins")
    await alice.beat(note="for now", member_epoch=-2)
    await log.written("for now", at_once=False)
    await ask(run, DeleteGroupsRequest(groups_names=[run.group]), 2, "not empty")
    await alice.leave()
    await log.written("for good")
    await ask(run, DeleteGroupsRequest(groups_names=[run.group]), 2)
    run.expect(types(await log.written("deleted")) == [-6, -4, -3], "the group")
    await alice.beat(member_epoch=0, note="a new group")
    await log.written("a new group")


@scenario("A50", "A53", on="restarted", restarts=BOTH)
async def what_was_removed_stays_removed(run: Run) -> None:
    """Members that left, a group that was deleted, and one whose last member did not come back."""
    await target_at_once(run)
    alice, bob = NewMember(run, "alice", (TOPIC, *COLLIDING)), NewMember(run, "bob", instance_id="one")
    await alice.beat(note="joins")
    await bob.beat(note="joins")
    await bob.beat(note="for now", member_epoch=-2)
    again = NewMember(run, "again", instance_id="one")
    await again.beat(note="in its place")
    await again.leave()
    gone = f"{run.group}-gone"
    await bob.beat(member_epoch=0, group_id=gone)
    await bob.beat(member_epoch=-1, group_id=gone)
    await ask(run, DeleteGroupsRequest(groups_names=[gone]), 2)
    await shown(run)
    await run.restarted()
    group = await shown(run)
    run.saw("names in their order", list(group.members[0].subscribed_topic_names))
    await alice.beat(note="has another target")
    await shown(run)
    await again.beat(error=ErrorCode.UNKNOWN_MEMBER_ID, member_epoch=2, note="it left")
    await bob.beat(member_epoch=0, group_id=gone, note="a new group")


@scenario("A53", on="delayed", restarts=(Ending.TERM,))
async def records_of_another_broker_are_read(run: Run) -> None:
    """As one before 4.3 wrote it, without assignment epochs; a client that says it is an admin's may append it.

    Bob's last records are the tombstones of what he had and was to have; others say nothing, of what is not there.
    Kafka loads a partition anew that has grown behind its back, and forgets what waits: no other script that
    shares this restart has a group in it (test_group_log).
    """
    alice, bob = NewMember(run, "alice"), NewMember(run, "bob")
    log = [*_removed(f"{run.group}-absent", "nobody"), *_removed(run.group, "nobody")]
    log += _as_before(run, {alice.member_id: [0, 1], bob.member_id: [2]})
    log += _removed(run.group, bob.member_id)[:2]
    await _append(run, log)
    await run.restarted()
    group = await shown(run)
    epochs = {member.member_id: member.member_epoch for member in group.members}
    run.expect(epochs == {alice.member_id: 3, bob.member_id: -1}, f"who has which epoch: {epochs}")
    alice.epoch = 3
    await alice.beat(subscribed_topic_names=[TOPIC, "absent"], note="a new epoch")
    run.expect(alice.epoch == 4, "it has kept all that it had")
    await shown(run)
    for epoch, error in ((3, ErrorCode.NONE), (2, ErrorCode.STALE_MEMBER_EPOCH)):
        committer = Actor(run, "alice", member_id=alice.member_id, generation_id=epoch)
        await committer.commit(9, errors=error, note=f"epoch {epoch}")


def _as_before(run: Run, partitions: dict[str, list[int]]) -> list[CoordinatorRecord]:
    """The records of a group whose members have these partitions of a topic, in epoch 3."""
    group_id, topic_id = run.group, run.topic_ids[TOPIC]
    image = TopicImage(TOPIC, topic_id, [[]] * PARTITIONS)
    records = [new_epoch_record(group_id, 3, TopicHashes().of_group([image]))]
    for member_id in partitions:
        member = ConsumerMember(member_id, client_id="c", client_host="/127.0.0.1", topic_names=(TOPIC,))
        records.append(new_member_record(group_id, replace(member, rebalance_timeout_ms=REBALANCE_MS)))
    for member_id, own in partitions.items():
        records.append(new_target_record(group_id, member_id, {topic_id: own}))
    records.append(new_target_epoch_record(group_id, 3, AT_MS))
    for member_id, own in partitions.items():
        assigned = [CurrentTopicPartitions(topic_id=topic_id, partitions=own)]
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=3, previous_member_epoch=2, state=0, assigned_partitions=assigned
        )
        key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
        records.append(CoordinatorRecord(key, value))
    return records


def _removed(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """The tombstones of 8, 7 and 5 of a member."""
    keys = (
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupMemberMetadataKey,
    )
    return [CoordinatorRecord(key(group_id=group_id, member_id=member_id), None) for key in keys]


async def _append(run: Run, log: list[CoordinatorRecord]) -> None:
    """Append records to the partition of the run's group, behind the coordinator's back."""
    records = [Record(*encode_record(each), timestamp_ms=AT_MS) for each in log]
    request = produce_request(
        bytes(encode_batch(records)), run.offsets_topic, partition_for(run.group, SHARDS)
    )
    asked = await run.send_from("admin", ADMIN_CLIENT_ID, request, 9, "records of a group")
    answer = (await asked.reply).responses[0].partition_responses[0]
    assert answer.error_code == 0, answer
