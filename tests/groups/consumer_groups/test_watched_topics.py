"""An event that a group's topics are others says which, as far as that is known."""

from __future__ import annotations

import pytest

from coordinator.groups.consumer.regexes import SHOWN_CHARS, matched_otherwise
from coordinator.groups.consumer.subscriptions import ResolvedRegex
from coordinator.groups.consumer.watched_topics import CHANGES_MAX, WATCHED_MAX, WatchedTopics
from coordinator.topic_catalog import TopicImage
from tests.groups.consumer_groups.new_member import NewMember
from tests.groups.driver import Driver
from tests.groups.history_consumer_cases import new_group


def image(name: str, count: int = 1, topic_id: bytes = b"1", rack: str = "r") -> TopicImage:
    return TopicImage(name, topic_id, [(rack,)] * count)


@pytest.mark.parametrize(
    ("now", "words"),
    [
        ([image("a", 3), image("b")], "a has 3 partitions, had 1"),
        ([image("b")], "a is gone"),
        ([image("a"), image("b"), image("c", 2)], "c is new, with 2 partitions"),
        ([image("a", topic_id=b"2"), image("b")], "a was made again, with 1 partition"),
        ([image("a", rack="s"), image("b")], "a is in other racks"),
        ([image("b", 2)], "a is gone and b has 2 partitions, had 1"),
    ],
)
def test_it_says_what_became_of_each_topic(now: list[TopicImage], words: str) -> None:
    watched = WatchedTopics()
    watched.watch(7, [image("a"), image("b")])
    assert watched.changes(7, now) == words


def test_it_says_nothing_of_topics_that_it_has_not_seen() -> None:
    """The group's hash is stored, the topics are not: after a restart nobody knows what they were."""
    watched = WatchedTopics()
    assert watched.changes(7, [image("a")]) is None
    watched.watch(6, [image("a")])
    assert watched.changes(7, [image("a", 2)]) is None


def test_topics_that_are_watched_and_named_are_bounded() -> None:
    many = [image(f"t{number:03}") for number in range(WATCHED_MAX + 50)]
    watched = WatchedTopics()
    watched.watch(7, many)
    last_one_grown = [*many[:-1], image(many[-1].name, 2)]
    assert watched.changes(7, last_one_grown) == f"others than the first {WATCHED_MAX} that are watched"
    said = watched.changes(7, [image(each.name, 2) for each in many])
    assert said is not None
    assert said.count("had 1") == CHANGES_MAX
    assert said.endswith(f"and {WATCHED_MAX - CHANGES_MAX} more")


def test_a_group_says_it_after_members_came_and_went() -> None:
    driver = Driver()
    first, second = new_group(driver, "a", "b")
    third = NewMember(driver, "c", topics=("orders", "clicks"))
    third.beat()
    third.leave()
    driver.topics.grow("orders", 9)
    first.own()
    event = driver.last_event()
    assert (event.cause, event.member_id) == ("topics_changed", None)
    assert event.reason == "topics changed: orders has 9 partitions, had 4"
    assert second.epoch < event.generation_id


def test_a_group_that_was_read_from_the_log_says_that_topics_changed_and_no_more() -> None:
    driver = Driver()
    (only,) = new_group(driver, "a")
    driver.topics.grow("orders", 9)
    driver.restart()
    only.own()
    (event,) = [each for each in driver.history if each.cause == "topics_changed"]
    assert event.reason == "topics changed"


def test_an_expression_is_named_with_what_it_gained_and_lost() -> None:
    before = {"o.*": ResolvedRegex(("o1", "o2"), 1, 1), "x": ResolvedRegex((), 1, 1)}
    after = {"o.*": ResolvedRegex(("o2", "o3"), 2, 2), "y": ResolvedRegex(("y",), 2, 2)}
    assert matched_otherwise(before, after) == "o.* gained o3, o.* lost o1 and y gained y"
    assert matched_otherwise(after, after) is None
    long = {"y" * 900: ResolvedRegex(("y",), 2, 2)}
    assert matched_otherwise({}, long) == f"{'y' * (SHOWN_CHARS - 1)}… gained y"
