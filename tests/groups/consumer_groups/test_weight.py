"""How much is computed at once: whatever the shape of a group, what its loop computes is within 20 ms."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from coordinator.effects import Effects, RequestContext
from coordinator.groups.consumer.computing import MOST_WEIGHT, ComputedUpgrade
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.heartbeat import consumer_group_heartbeat
from coordinator.groups.consumer.java_order import JavaTable, string_hash
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.member_step import MemberStep
from coordinator.groups.consumer.membership import known_member
from coordinator.groups.consumer.reconciliation import CurrentAssignment
from coordinator.groups.consumer.subscriptions import ResolvedRegex, Subscriptions
from coordinator.topic_catalog import TopicImage
from tests.groups.consumer_groups.migrating import (
    NOW,
    TOPIC,
    TOPIC_ID,
    World,
    assignment,
    classic_group,
    classic_member,
    joining,
)
from tests.groups.consumer_groups.pace import longest_s

NAMES = [f"topic-{number:03d}" for number in range(600)]

Subscribe = Callable[[random.Random], list[str]]


def grown(
    member_count: int, partition_count: int, subscribe: Subscribe, assignors: tuple[str, ...] = ("uniform",)
) -> World:
    """A group of so many members, each of which subscribes to what `subscribe` says."""
    world, rng = World(assignment_interval_ms=0, assignors=assignors), random.Random(1)
    for name in NAMES:
        world.topics.by_name[name] = TopicImage(name, rng.randbytes(16), [()] * partition_count)
    group = world.shard.groups["g"] = ConsumerGroup("g")
    for number in range(member_count):
        member = ConsumerMember(f"{number:036d}", topic_names=tuple(subscribe(rng)))
        group.put_member(member, CurrentAssignment(1))
    return world


def of(count: int, *, of_which: int | None = None) -> Subscribe:
    """The first `count` topics, or so many at random `of_which` are the first."""
    if of_which is None:
        return lambda _: NAMES[:count]
    return lambda rng: rng.sample(NAMES[:of_which], count)


SHAPES = {
    "many members of one topic": (490, 1, of(1)),
    "two members of many topics": (2, 1, of(200, of_which=300)),
    "one member of many topics": (1, 1, of(240)),
    "members of some topics each, all different": (120, 5, of(4, of_which=40)),
    "members of a few topics, in other orders": (20, 5, of(30, of_which=30)),
}


@pytest.mark.measured
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_what_is_computed_at_once_is_within_the_bound(shape: str, assignor: str) -> None:
    member_count, partition_count, subscribe = SHAPES[shape]
    world = grown(member_count, partition_count, subscribe, assignors=(assignor,))
    new = joining(subscribed_topic_names=subscribe(random.Random(2)))
    took = []
    for _ in range(5):  # The least of some runs: others use the processor too.
        began = time.thread_time()
        world.beat(new, is_stored=False)
        took.append(time.thread_time() - began)
        assert not world.effects.background, "it is computed at once"
    assert min(took) < longest_s()


@pytest.mark.measured
@pytest.mark.parametrize(
    ("member_count", "subscribe"), [(100, of(300)), (100, of(298, of_which=300)), (400, of(590))]
)
def test_members_of_many_topics_each_are_computed_aside(member_count: int, subscribe: Subscribe) -> None:
    """Though members and partitions, counted alone, are fewer than the bound."""
    world = grown(member_count, 1, subscribe)
    assert member_count + 590 < MOST_WEIGHT
    request, effects = joining(subscribed_topic_names=subscribe(random.Random(2))), Effects()
    began = time.thread_time()
    consumer_group_heartbeat(world.shard, request, RequestContext("me", 1, "c", "/h"), NOW, effects)
    took = time.thread_time() - began
    assert len(effects.background) == 1
    assert effects.records == []
    assert took < longest_s(), "nothing else of a heartbeat grows with members times topics"


@pytest.mark.measured
@pytest.mark.parametrize(
    "names",
    [
        [chr(ord("A") + number) + "x" * 32_000 for number in range(40)],
        [f"no-topic-{number}" for number in range(10_000)],
    ],
    ids=["very long ones", "very many"],
)
def test_names_of_no_topics_hold_the_loop_but_for_a_moment(names: list[str]) -> None:
    world = grown(1, 1, of(3))
    took = []
    for number in range(5):
        request = joining(f"new-{number}", subscribed_topic_names=[*NAMES[:3], *names])
        began, world.effects = time.thread_time(), Effects()
        context = RequestContext("me", 1, "c", "/h")
        consumer_group_heartbeat(world.shard, request, context, NOW, world.effects)
        world.replay()
        took.append(time.thread_time() - began)
        world.shard.suspended.clear()
    assert min(took) < longest_s()


@pytest.mark.parametrize("seed", range(20))
def test_topics_are_in_the_order_of_all_names_though_those_of_no_topic_are_not_hashed(seed: int) -> None:
    rng = random.Random(seed)
    names = rng.sample([*NAMES[:40], *(f"no-topic-{number}" for number in range(40))], 50)
    world = grown(1, 1, lambda _: names)
    expected = world.shard.images(JavaTable.of_list(string_hash, names))
    group = world.shard.groups["g"]
    found, effects = known_member(group, *group.members), Effects()
    (spec,), _ = MemberStep(world.shard, group, found, found.member, None, NOW, effects).specs()
    assert spec.topic_ids == tuple(image.topic_id for image in expected)
    assert spec.name_count == len(names)


@pytest.mark.parametrize("seed", range(20))
def test_the_size_of_subscriptions_follows_members_and_expressions(seed: int) -> None:
    rng, subscriptions = random.Random(seed), Subscriptions()
    members: dict[str, ConsumerMember] = {}

    def counted() -> int:
        return sum(map(subscriptions.size_of, members.values()))

    for _ in range(200):
        member_id, regex = rng.choice("abcde"), rng.choice(("x.*", "y.*"))
        before = members.get(member_id)
        after = ConsumerMember(
            member_id,
            topic_names=tuple(rng.sample(NAMES, rng.randrange(4))),
            topic_regex=rng.choice(("", regex)),
        )
        match rng.randrange(4):
            case 0:
                subscriptions.change(before, after)
                members[member_id] = after
            case 1 if before is not None:
                subscriptions.change(before, None)
                del members[member_id]
            case 2:
                matched = ResolvedRegex(tuple(rng.sample(NAMES, rng.randrange(5))), 1, 1)
                subscriptions.resolve(regex, rng.choice((None, matched)))
            case _:
                with subscriptions.supposing(before, after):
                    pass
        assert subscriptions.size == counted()


@pytest.mark.measured
def test_a_large_classic_group_is_upgraded_aside() -> None:
    """Though its target, of as many members, would be computed at once."""
    count = 200
    members = (classic_member(f"{number:036d}", assignment(number)) for number in range(count))
    world = World(classic_group(*members))
    world.topics.by_name[TOPIC] = TopicImage(TOPIC, TOPIC_ID, [()] * count)
    effects, context = Effects(), RequestContext("me", 1, "c", "/h")
    began = time.thread_time()
    consumer_group_heartbeat(world.shard, joining(), context, NOW, effects)
    took = time.thread_time() - began
    (work,) = effects.background
    assert (effects.records, effects.replies) == ([], [])
    assert took < longest_s() / 4
    computed = work.run()
    assert isinstance(computed, ComputedUpgrade)
    world.shard.suspended["g"].computed = computed
    world.effects = Effects()
    consumer_group_heartbeat(world.shard, joining(), context, NOW, world.effects)
    world.replay()
    assert len(world.shard.groups["g"].members) == count + 1
