"""The hash of a group's topics is the number that Apache Kafka 4.3.1 computes (A43, A44)."""

from __future__ import annotations

import pytest

from coordinator.groups.consumer.metadata_hash import NO_TOPICS, TopicHashes, topic_hash
from coordinator.topic_catalog import TopicImage


def topic(name: str, lower: int, partition_count: int, *racks: str) -> TopicImage:
    return TopicImage(name, bytes(8) + lower.to_bytes(8), [racks] * partition_count)


FOO, BAR = topic("foo", 1, 6), topic("bar", 2, 3)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (FOO, 3548537780593236828),
        (BAR, -3937720429319290084),
        (topic("foo", 1, 6, "a"), 8700870764006133384),
        (topic("foo", 1, 6, "b", "a"), -3658057253350578497),
    ],
    ids=["foo", "bar", "a rack", "two racks"],
)
def test_one_topic(image: TopicImage, expected: int) -> None:
    assert topic_hash(image) == expected


def test_a_group() -> None:
    hashes = TopicHashes()
    assert hashes.of_group([FOO]) == 3233106368165163857
    assert hashes.of_group([FOO, BAR]) == -3670536110666558305


def test_the_order_of_the_topics_says_nothing() -> None:
    assert TopicHashes().of_group([BAR, FOO]) == TopicHashes().of_group([FOO, BAR])


def test_no_topic_is_zero() -> None:
    assert TopicHashes().of_group([]) == NO_TOPICS == 0


@pytest.mark.parametrize(
    "other",
    [topic("foo", 3, 6), topic("fop", 1, 6), topic("foo", 1, 7), topic("foo", 1, 6, "a")],
    ids=["id", "name", "partitions", "rack"],
)
def test_whatever_changes_shows(other: TopicImage) -> None:
    assert topic_hash(other) != topic_hash(FOO)


@pytest.mark.parametrize(
    "other",
    [topic("foo", 3, 6), topic("foo", 1, 7), topic("foo", 1, 6, "a")],
    ids=["id", "partitions", "rack"],
)
def test_a_topic_that_changed_is_hashed_anew(other: TopicImage) -> None:
    hashes = TopicHashes()
    before = hashes.of_group([FOO])
    assert hashes.of_group([other]) == TopicHashes().of_group([other]) != before
    assert hashes.of_group([FOO]) == before


def test_what_is_kept_has_a_bound() -> None:
    hashes = TopicHashes(most_kept=2)
    every = [topic(f"t{number}", number, 1) for number in range(5)]
    together = hashes.of_group(every)
    assert len(hashes._kept) <= 2
    assert together == hashes.of_group(reversed(every))


def test_the_order_of_racks_says_nothing() -> None:
    assert topic_hash(topic("foo", 1, 2, "b", "a")) == topic_hash(topic("foo", 1, 2, "a", "b"))
