"""An event that a group's topics are others says which, as far as that is known."""

from __future__ import annotations

import pytest

from coordinator.groups.consumer.metadata_hash import TopicHashes
from coordinator.groups.consumer.regexes import (
    BETWEEN_RUNS_MS,
    SHOWN_CHARS,
    match_change,
    matched_otherwise,
)
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
    changes = {
        "o.*": match_change(("o1", "o2"), ("o2", "o3")),
        "x": match_change((), ()),
        "y": match_change((), ("y",)),
    }
    assert matched_otherwise(changes) == "o.* gained o3, o.* lost o1 and y gained y"
    assert matched_otherwise({"o.*": match_change(("o1", "o2"), ("o1", "o2"))}) is None
    assert matched_otherwise({"o.*": match_change(("o1", "o2"), ("o2", "o1"))}) is None, "in another order"
    long = {"y" * 900: match_change((), ("y",))}
    assert matched_otherwise(long) == f"{'y' * (SHOWN_CHARS - 1)}… gained y"


def test_an_expression_that_no_member_has_any_more_is_not_named() -> None:
    """Its last member left while the run was on: what it matches is not written, so nothing has changed by it."""
    driver = Driver()
    first, second = by_expression(driver, "a", "ord.*"), by_expression(driver, "b", "cli.*")
    first.beat()
    driver.finish_work()
    driver.topics.grow("orders-2", 1)
    driver.advance(BETWEEN_RUNS_MS + 1)
    second.beat()
    second.leave()
    driver.finish_work()
    event = driver.last_event()
    assert event.reason == "topics that an expression matches changed: ord.* gained orders-2"


def test_an_expression_that_was_forgotten_meanwhile_gained_all_that_it_matches() -> None:
    """The one member that had it left while the run was on, and another one with it came."""
    driver = Driver()
    first, second = by_expression(driver, "a", "ord.*"), by_expression(driver, "b", "cli.*")
    first.beat()
    driver.finish_work()
    driver.advance(BETWEEN_RUNS_MS + 1)
    second.beat()
    first.leave()
    by_expression(driver, "c", "ord.*").beat()
    driver.finish_work()
    reason = driver.last_event().reason
    assert reason.startswith("topics that an expression matches changed: ")
    assert sorted(reason.partition(": ")[2].split(" and ")) == ["cli.* gained clicks", "ord.* gained orders"]


def test_topics_that_expressions_share_are_counted_as_they_change() -> None:
    """One expression loses what another still matches, or what a member names, and gains what is new."""
    driver = Driver()
    driver.topics.grow("orders-2", 1)
    members = [by_expression(driver, "a", "ord.*"), by_expression(driver, "b", "orders|orders-.|clicks")]
    members.append(NewMember(driver, "c", topics=("orders",)))
    for each in members:
        each.beat()
        driver.finish_work()
        driver.advance(BETWEEN_RUNS_MS + 1)
    driver.topics.forget("orders-2")
    for is_another in (False, True):
        driver.topics.grow("orders-3" if is_another else "new", 2)  # Without a new one there is no run.
        driver.advance(BETWEEN_RUNS_MS + 1)
        members[0].own()
        driver.finish_work()
        group = driver.shard.consumer_groups["g"]
        images = filter(None, map(driver.topics.image, group.subscriptions.topics()))
        assert group.metadata_hash == TopicHashes().of_group(images)
    assert group.subscriptions.by_match == {"orders": 2, "orders-3": 2, "clicks": 1}


def by_expression(driver: Driver, member_id: str, expression: str) -> NewMember:
    return NewMember(
        driver, member_id, topics=(), subscribed_topic_names=None, subscribed_topic_regex=expression
    )
