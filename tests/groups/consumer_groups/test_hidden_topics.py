"""Topics that a client may not know of, in groups of the consumer protocol: in expressions and in descriptions."""

from __future__ import annotations

from coordinator.effects import Effects, RequestContext
from coordinator.groups.consumer.describe import DescribedMembers
from coordinator.groups.consumer.heartbeat import consumer_group_heartbeat
from coordinator.groups.consumer.regexes import ResolveRegexes
from coordinator.topic_catalog import TopicImage
from tests.groups.consumer_groups.migrating import NOW, TOPIC, TOPIC_ID, World, joining
from tests.groups.consumer_groups.test_describe import described, with_members

HIDDEN = "t-hidden"


def run_of(context: RequestContext) -> ResolveRegexes:
    """What a heartbeat with an expression that matches both topics has found out on a thread."""
    world, effects = World(), Effects()
    world.topics.by_name[HIDDEN] = TopicImage(HIDDEN, b"H" * 16, [()])
    request = joining(subscribed_topic_regex="t.*", subscribed_topic_names=[])
    consumer_group_heartbeat(world.shard, request, context, NOW, effects)
    (run,) = [work for work in effects.background if isinstance(work, ResolveRegexes)]
    return run


def test_an_expression_matches_no_topic_that_its_client_may_not_know_of() -> None:
    asked: list[str] = []

    def describes(name: str) -> bool:
        asked.append(name)
        return name != HIDDEN

    run = run_of(RequestContext("me", 1, "c", "/h", "", describes))
    assert sorted(asked) == [TOPIC, HIDDEN], "asked on the loop, before the run"
    assert run.run().resolved["t.*"].topics == (TOPIC,)
    assert len(asked) == 2


def test_without_rights_an_expression_matches_all_topics() -> None:
    assert run_of(RequestContext("me", 1, "c", "/h")).run().resolved["t.*"].topics == (TOPIC, HIDDEN)


def test_the_topics_of_a_group_are_known_without_a_description_of_each_member() -> None:
    """Of a large group, whose members are described where the answer is encoded."""
    world = with_members(400)
    (group,) = described(world).groups
    assert isinstance(group.members, DescribedMembers)
    assert group.members.topic_names() == {TOPIC}
    world.shard.groups["g"].targets[f"{9:036d}"] = {b"H" * 16: (0,)}
    world.topics.by_name[HIDDEN] = TopicImage(HIDDEN, b"H" * 16, [()])
    (group,) = described(world).groups
    assert isinstance(group.members, DescribedMembers)
    assert group.members.topic_names() == {TOPIC, HIDDEN}
    assert TOPIC_ID != b"H" * 16
