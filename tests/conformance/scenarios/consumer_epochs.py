"""The epoch of a consumer group, its target and its state: what raises them, and when they are computed."""

from __future__ import annotations

from typing import Any

from protocol.consumer import ConsumerProtocolAssignment, encode_assignment
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.shared import TopicPartitions
from tests.conformance.actors import OTHER_TOPIC, TOPIC
from tests.conformance.consumer_scenes import (
    EXPRESSION,
    alone,
    keep_target,
    know_topics,
    member_of,
    owes,
    partitions_of,
    shown,
    target_at_once,
    told,
    until_shown,
)
from tests.conformance.new_members import BEAT, NewMember
from tests.conformance.registry import BOTH, scenario
from tests.conformance.run import Run
from tests.conformance.scenes import cast, completing
from tests.conformance.topic_scenes import delete_topic, make_topic, quietly, topic_name, until_led

# Epochs


@scenario("A15", "A16", versions=BEAT)
async def what_raises_a_consumer_groups_epoch(run: Run, version: int) -> None:
    """Targets are computed at once, so that a member's epoch shows what its request has raised."""
    know_topics(run)
    alice = NewMember(run, "alice", instance_id="one")
    await alone(run, alice)
    epoch = 2
    for note, is_raised, changed in (
        ("nothing", False, {}),
        ("the same names", False, {"subscribed_topic_names": [TOPIC, TOPIC]}),
        ("another topic", True, {"subscribed_topic_names": [TOPIC, OTHER_TOPIC]}),
        ("in another order", False, {"subscribed_topic_names": [OTHER_TOPIC, TOPIC]}),
        ("one that is not there", True, {"subscribed_topic_names": [OTHER_TOPIC, TOPIC, "nope"]}),
        ("one less", True, {"subscribed_topic_names": [OTHER_TOPIC]}),
        ("what it has", False, {"topic_partitions": []}),
        ("an assignor", False, {"server_assignor": "range"}),
        ("a rack", False, {"rack_id": "r"}),
        ("a timeout", False, {"rebalance_timeout_ms": 50_000}),
        ("for now", False, {"member_epoch": -2}),
        ("is back", False, {"member_epoch": 0, "subscribed_topic_names": [OTHER_TOPIC]}),
    ):
        epoch += is_raised
        await alice.beat(version, note=note, **changed)
        await shown(run, epoch=epoch)
    await alice.leave(version)
    await shown(run, "Empty", epoch + 1)


@scenario("A15", "A16", versions=BEAT[1:])
async def expressions_raise_the_epoch_when_it_is_known_what_they_match(run: Run, version: int) -> None:
    know_topics(run)
    alice, bob = NewMember(run, "alice", topics=(OTHER_TOPIC,)), NewMember(run, "bob", topics=())
    await alone(run, alice)
    await alice.beat(version, subscribed_topic_regex=EXPRESSION, note="not resolved yet")
    run.expect(alice.epoch == 2, "it does not raise the epoch itself")
    await until_shown(run, lambda group: group.group_epoch == 3)
    await alice.beat(version, note="as before")
    await bob.beat(version, subscribed_topic_regex=EXPRESSION, note="resolved already")
    run.expect(bob.epoch == 4, "it does at once")
    await shown(run, epoch=4)
    await alice.beat(version, subscribed_topic_regex=EXPRESSION, note="the same one")
    await shown(run, epoch=4)
    await alice.beat(version, subscribed_topic_regex="", note="none")
    await shown(run, epoch=5)
    await alice.beat(version, subscribed_topic_regex="", note="none, again")
    await shown(run, epoch=5)
    await alice.beat(version, subscribed_topic_regex="nothing-.*", note="another one, not resolved")
    await shown(run, epoch=5)
    await alice.beat(version, subscribed_topic_regex=EXPRESSION, note="one that is resolved")
    await shown(run, epoch=6)


@scenario("A17", versions=BEAT)
async def a_join_without_a_topic_raises_no_epoch(run: Run, version: int) -> None:
    alice, bob, carol = NewMember(run, "alice", topics=()), NewMember(run, "bob"), NewMember(run, "carol")
    await alice.beat(version, note="no topics")
    run.expect(alice.epoch == 1, "a new group is at epoch 1")
    await shown(run, "Stable", 1)
    none: dict[str, Any] = {"subscribed_topic_names": []}
    if version:
        none = {"subscribed_topic_names": None, "subscribed_topic_regex": ""}
    await bob.beat(version, note="no topics either", **none)
    await shown(run, "Stable", 1)
    await carol.beat(version, note="a topic that is not there", subscribed_topic_names=["nope"])
    await shown(run, epoch=2)
    await bob.leave(version)
    await shown(run, epoch=3)


@scenario("A15", "A18")
async def topics_that_change_are_seen_by_the_next_heartbeat(run: Run) -> None:
    """Made, grown, deleted: nothing happens to the group until a member heartbeats."""
    name = topic_name(run)
    alice = NewMember(run, "alice", topics=(name,))
    await alone(run, alice)
    await shown(run, "Stable", 2)
    await make_topic(run)
    await shown(run, "Stable", 2)
    await until_shown(run, lambda group: group.group_epoch == 3, alice)
    grown = CreatePartitionsTopic(name=name, count=3, assignments=None)
    await quietly(run, CreatePartitionsRequest(topics=[grown], timeout_ms=10_000), 3)
    await until_led(run, name, 3)
    await shown(run, "Stable", 3)
    await until_shown(run, lambda group: group.group_epoch == 4, alice)
    await make_topic(run, "another")
    await alice.beat(note="a topic of others")
    await delete_topic(run, name)
    group = await until_shown(run, lambda group: group.group_epoch == 5, alice)
    run.expect(partitions_of(member_of(group, alice).target_assignment) == {}, "nothing is left")


@scenario("A18", on="restarted", restarts=BOTH)
async def topics_are_looked_at_with_the_first_heartbeat_after_a_load(run: Run) -> None:
    alice, bob = NewMember(run, "alice", topics=(topic_name(run),)), NewMember(run, "bob", topics=())
    await alone(run, alice)
    await bob.beat(note="joins")
    await make_topic(run)
    await run.restarted()
    await shown(run, "Stable", 2)
    await bob.beat(note="any member")
    await shown(run, epoch=3)
    reply = await alice.beat()
    run.expect(reply.assignment is not None, "it has the topic that was made before the restart")
    await shown(run, epoch=3)


# Targets


@scenario("A19", "A22")
async def members_keep_their_target_until_the_interval_has_passed(run: Run) -> None:
    alice, bob = NewMember(run, "alice"), NewMember(run, "bob")
    await keep_target(run)
    await alice.beat(note="the first target waits for nothing")
    await alice.own("has it")
    await shown(run, "Stable", 2)
    await bob.beat(note="joins")
    await alice.own("as before")
    await bob.beat(note="has none")
    group = await shown(run, "Assigning", 3)
    run.expect(group.assignment_epoch == 2, "there is no new target yet")
    await target_at_once(run)
    await bob.beat(note="a target")
    group = await shown(run, "Reconciling", 3)
    run.expect(group.assignment_epoch == 3, "there is a new target")


@scenario("A19")
async def the_target_of_an_upgraded_group_is_computed_at_once(run: Run) -> None:
    """It is not known when the one that it came with was computed."""
    (carol,) = cast(run, "carol")
    await keep_target(run)
    await completing(run, carol)
    topics = [TopicPartitions(topic=TOPIC, partitions=[0, 1, 2])]
    assigned = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=topics))
    await carol.sync(assignments={carol.member_id: assigned})
    new = NewMember(run, "new")
    await new.beat(note="upgrades")
    group = await shown(run, "Reconciling")
    run.expect(group.assignment_epoch == group.group_epoch, "there is a new target")
    await new.beat(note="another topic", subscribed_topic_names=[TOPIC, OTHER_TOPIC])
    await shown(run, "Assigning")


@scenario("A21", "A12")
async def a_static_member_that_takes_over_has_the_target_of_the_other_id(run: Run) -> None:
    """While no target is computed, and in the request that computes one."""
    know_topics(run)
    alice, bob, carol = (
        NewMember(run, "alice", instance_id="one"),
        NewMember(run, "bob"),
        NewMember(run, "carol"),
    )
    await owes(run, alice, bob)
    await keep_target(run)
    await carol.beat(note="joins")
    before = await shown(run, "Assigning", 4)
    await alice.leave(member_epoch=-2)
    again = NewMember(run, "again", instance_id="one")
    await again.beat(note="takes over")
    after = await shown(run, "Assigning", 4)
    targets = (member_of(before, alice).target_assignment, member_of(after, again).target_assignment)
    run.expect(targets[0] == targets[1], "it has the target of the other id")
    await again.leave(member_epoch=-2)
    await target_at_once(run)
    third = NewMember(run, "third", instance_id="one", topics=(TOPIC, OTHER_TOPIC))
    await third.beat(note="takes over, with another subscription")
    await shown(run, epoch=5)


@scenario("A22")
async def the_assignor_is_the_one_that_most_members_name(run: Run) -> None:
    """A member that names another one raises no epoch: the next target is computed with it."""
    know_topics(run)
    alice, bob = NewMember(run, "zoe"), NewMember(run, "bob")
    await alone(run, alice)
    group = await shown(run, epoch=2)
    run.expect(group.assignor_name == "uniform", "without a name it is the first of the broker's")
    await bob.beat(note="joins", server_assignor="range")
    group = await shown(run, epoch=3)
    blocks = partitions_of(member_of(group, bob).target_assignment)
    run.expect(
        group.assignor_name == "range" and blocks == {TOPIC: [0, 1]}, "range deals blocks by member id"
    )
    await alice.beat(server_assignor="uniform", note="as many for the other")
    await shown(run, epoch=3)
    await bob.beat(subscribed_topic_names=[TOPIC, "nope"], note="a new target")
    await shown(run, epoch=4)
    (carol,) = cast(run, "carol")
    carol.member_id = "carol-id"
    await carol.join()
    await shown(run, epoch=5)
    dave = NewMember(run, "dave", topics=())
    await dave.beat(note="has a vote without a topic", server_assignor="range")
    group = await shown(run, epoch=5)
    run.expect(group.assignor_name == "range", "it has most votes")
    await dave.beat(server_assignor="uniform", note="votes otherwise")
    await alice.beat(subscribed_topic_names=[TOPIC, "nope"], note="a new target")
    group = await shown(run, epoch=6)
    run.expect(group.assignor_name == "uniform", "it has most votes now")


@scenario("A22", "A26", "A27")
async def the_states_of_a_consumer_group(run: Run) -> None:
    alice, bob = NewMember(run, "alice"), NewMember(run, "bob")
    await keep_target(run)
    await alice.beat(note="joins")
    await shown(run, "Stable", 2)
    await bob.beat(note="joins")
    await shown(run, "Assigning", 3)
    await target_at_once(run)
    await bob.beat(note="a target")
    await shown(run, "Reconciling", 3)
    await alice.beat(topic_partitions=[], note="gives up all: at the target's epoch")
    run.expect((alice.epoch, bob.epoch) == (3, 3), "both are at the target's epoch")
    await shown(run, "Reconciling", 3)
    reply = await bob.beat(note="gets what is free")
    run.expect(bool(told(run, reply)), "there is something free")
    await shown(run, "Stable", 3)
    await bob.leave()
    await shown(run, "Assigning", 4)
    await alice.leave()
    await shown(run, "Empty", 5)


@scenario("A20")
async def a_members_target_goes_with_the_member(run: Run) -> None:
    """One that comes back without a topic has none, and another's is as it was."""
    alice, bob = NewMember(run, "alice"), NewMember(run, "bob")
    await owes(run, alice, bob)
    before = await shown(run, epoch=3)
    await bob.leave()
    await keep_target(run)
    bob.topics = ()
    await bob.beat(member_epoch=0, note="is back")
    after = await shown(run, "Assigning", 4)
    run.expect(partitions_of(member_of(after, bob).target_assignment) == {}, "its target has gone")
    kept = [member_of(each, alice).target_assignment for each in (before, after)]
    run.expect(kept[0] == kept[1], "the other's is as it was")
