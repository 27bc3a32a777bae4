"""Targets that depend on the order of members alone: a broker draws the ids of topics, clients choose their own.

With one topic, or with topics that stand in one order whatever their ids are, two brokers have to compute the same
targets, partition by partition. Members need not get as far as their targets: assignors look at those alone (A36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tests.conformance.consumer_scenes import beat_until, shown, target_at_once, until_epoch
from tests.conformance.new_members import NewMember
from tests.conformance.registry import BOTH, scenario
from tests.conformance.run import Run
from tests.conformance.topic_scenes import grow_topic, make_topic, topic_name

COLLIDING: Final = ("AaAaAa", "BBBBBB", "AaBBAa", "BBAaBB")
"""Member ids of one hash: they share a bucket in every table."""
JOINING: Final = (
    "juliet",
    COLLIDING[0],
    "bravo",
    COLLIDING[2],
    "echo",
    COLLIDING[3],
    "hotel",
    COLLIDING[1],
    "x",
)

Targets = dict[str, dict[str, list[int]]]


def targets_of(group: Any) -> Targets:
    """The partitions of each member's target, by topic name."""
    return {
        member.member_id: {
            each.topic_name: sorted(each.partitions) for each in member.target_assignment.topic_partitions
        }
        for member in group.members
    }


def sizes(group: Any) -> list[int]:
    return [sum(map(len, target.values())) for target in targets_of(group).values()]


def new_members(run: Run, member_ids: Sequence[str], *topics: str) -> list[NewMember]:
    return [NewMember(run, member_id, topics, member_id=member_id) for member_id in member_ids]


async def level(run: Run) -> Targets:
    """The targets, of which none is larger than another by more than one."""
    group = await shown(run)
    run.expect(max(sizes(group)) - min(sizes(group)) <= 1, f"level: {sizes(group)}")
    return targets_of(group)


@scenario("A32", "A33", "A36", "A38", "A39", "A40", "A41")
async def a_group_that_grows_and_shrinks_is_dealt_out_evenly(run: Run) -> None:
    """One topic of 40 partitions, and later 47; another one is named that does not exist."""
    await target_at_once(run)
    topic = await make_topic(run, partitions=40)
    members = new_members(run, JOINING, topic, topic_name(run, "absent"))
    for member in members:
        await member.beat(note="joins")
        await level(run)
    for index in (1, 4, 5):
        await members[index].leave()
        await members[0].beat(note="has another target")
        await level(run)
    for member in new_members(run, (COLLIDING[3], "yankee", COLLIDING[0]), topic):
        await member.beat(note="joins", subscribed_topic_names=[topic, topic_name(run, "absent")])
        before = await level(run)
    await grow_topic(run, topic, 47)
    group = await beat_until(run, members[0], 17)
    run.expect(max(sizes(group)) - min(sizes(group)) <= 1, f"level: {sizes(group)}")
    after = targets_of(group)
    kept = all(set(before[each][topic]) <= set(after[each][topic]) for each in before)
    run.expect(kept, "nothing moves between members that are within what they are due")


@scenario("A36", "A41", on="restarted", restarts=BOTH)
async def targets_go_on_from_what_was_stored(run: Run) -> None:
    """The table of members is another one after a restart: it is filled in the order of the log."""
    await target_at_once(run)
    topic = await make_topic(run, partitions=20)
    members = new_members(run, JOINING[:6], topic)
    for member in members:
        await member.beat(note="joins")
    await members[3].leave()
    await members[0].beat(note="has another target")
    await shown(run)
    await run.restarted()
    await shown(run)
    (late,) = new_members(run, JOINING[7:8], topic)
    await late.beat(note="joins")
    await shown(run)
    await members[1].leave()
    await members[0].beat(note="has another target")
    await level(run)


SUBSCRIPTIONS: Final = {
    COLLIDING[1]: "abc",
    "kilo": "ab",
    COLLIDING[0]: "a",
    "lima": "bc",
    "mike": "ac",
    COLLIDING[2]: "ab",
    "oscar": "a",
}
"""Of each member's topics the last letters."""
SIZES: Final = {"a": 24, "b": 11, "c": 4}


@scenario("A32", "A33", "A37", "A42")
async def members_that_name_different_topics(run: Run) -> None:
    """The topics stand in one order at each step: none has as many partitions for each subscriber as another."""
    await target_at_once(run)
    topics = {letter: await make_topic(run, letter, size) for letter, size in SIZES.items()}
    subscribers = dict.fromkeys(SIZES, 0)
    members = []
    for member_id, letters in SUBSCRIPTIONS.items():
        (member,) = new_members(run, (member_id,), *(topics[letter] for letter in letters))
        members.append(member)
        await member.beat(note="joins")
        await shown(run)
        for letter in letters:
            subscribers[letter] += 1
        shares = [SIZES[letter] / count for letter, count in subscribers.items() if count]
        run.expect(len(set(shares)) == len(shares), f"one order: {shares}")
    await members[0].leave()
    await members[1].beat(note="has another target")
    await shown(run)
    await members[5].beat(note="another topic", subscribed_topic_names=[topics["c"], topics["a"]])
    await shown(run)


@scenario("A37", "A36")
async def the_same_topics_by_name_and_by_expression_are_not_the_same(run: Run) -> None:
    """What one leaves goes in turns to who has least: were all alike, each would take what it is due at once."""
    await target_at_once(run)
    topic = await make_topic(run, partitions=7)
    alice, bob, carol = new_members(run, ("alice-id", "bob-id", "carol-id"), topic)
    expression: dict[str, Any] = {"subscribed_topic_names": None, "subscribed_topic_regex": topic}
    await alice.beat(note="by name")
    await bob.beat(note="by an expression", **expression)
    await until_epoch(run, 3)
    await bob.beat(note="has a target")
    await carol.beat(note="by name")
    await shown(run)
    await alice.leave()
    await carol.beat(note="has another target")
    await shown(run)


@scenario("A37")
async def members_of_one_expression_are_alike(run: Run) -> None:
    """Each takes what it is due at once."""
    await target_at_once(run)
    topic = await make_topic(run, partitions=7)
    members = new_members(run, ("alice-id", "bob-id", "carol-id"), topic)
    expression: dict[str, Any] = {"subscribed_topic_names": None, "subscribed_topic_regex": topic}
    await members[0].beat(note="joins", **expression)
    await until_epoch(run, 2)
    for member in members[1:]:
        await member.beat(note="joins", **expression)
    await shown(run)
    await members[0].leave()
    await members[2].beat(note="has another target")
    await shown(run)


@scenario("A36")
async def the_range_assignor_deals_in_blocks(run: Run) -> None:
    """To static members by their instance ids, then to dynamic ones by their member ids; nothing is kept."""
    await target_at_once(run)
    topics = [await make_topic(run, letter, size) for letter, size in (("a", 7), ("b", 5))]
    members = new_members(run, ("kilo", "alfa", "mike", "Bravo"), *topics)
    for member, instance_id in zip(members, ("two", None, "one", None), strict=True):
        member.instance_id = instance_id
        await member.beat(note="joins", server_assignor="range")
        await shown(run)
    await members[2].leave()
    await members[1].beat(note="has another target")
    await shown(run)
    await grow_topic(run, topics[1], 8)
    await beat_until(run, members[0], 7)
    await members[3].beat(note="one topic less", subscribed_topic_names=topics[:1])
    await shown(run)
