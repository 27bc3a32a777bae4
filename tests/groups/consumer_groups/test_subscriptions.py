"""What the members of a group subscribe to, and whether it is the same (A36, A37)."""

from __future__ import annotations

from collections import Counter

from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.subscriptions import MANY, ResolvedRegex, Subscriptions


def subscriptions(*members: ConsumerMember) -> Subscriptions:
    made = Subscriptions()
    for member in members:
        made.change(None, member)
    return made


def named(member_id: str, *names: str, regex: str = "") -> ConsumerMember:
    return ConsumerMember(member_id, topic_names=names, topic_regex=regex)


def test_all_name_the_same() -> None:
    assert subscriptions(named("a", "t", "u"), named("b", "u", "t")).are_homogeneous(2)
    assert not subscriptions(named("a", "t", "u"), named("b", "u")).are_homogeneous(2)
    assert not subscriptions(named("a", "t"), named("b")).are_homogeneous(2)


def test_what_an_expression_matched_counts_until_it_is_forgotten() -> None:
    made = subscriptions(named("a", "t"))
    made.resolve("u", ResolvedRegex(("t",), 1, 1))
    assert made.are_homogeneous(1)
    made.resolve("u", ResolvedRegex(("t", "u"), 1, 1))
    assert not made.are_homogeneous(1)
    made.change(named("a", "t"), None)
    assert made.are_homogeneous(0), "nobody subscribes to anything else"


def test_many_names_are_counted_like_few() -> None:
    many = [f"t-{number}" for number in range(MANY + 1)]
    made = subscriptions(named("a", *many), named("b", *many[:2]))
    assert made.by_name == Counter([*many, *many[:2]])
    made.change(named("a", *many), None)
    assert made.by_name == Counter(many[:2])


def test_nobody_names_anything() -> None:
    assert subscriptions(named("a"), named("b")).are_homogeneous(2)


def test_all_have_the_same_expression() -> None:
    made = subscriptions(named("a", regex="t.*"), named("b", regex="t.*"))
    made.resolve("t.*", ResolvedRegex(("t", "tt"), 1, 1))
    assert made.are_homogeneous(2)


def test_two_expressions_or_an_expression_and_a_name_are_not_the_same() -> None:
    made = subscriptions(named("a", regex="t.*"), named("b", regex="t"))
    assert not made.are_homogeneous(2)
    made = subscriptions(named("a", regex="t"), named("b", "t"))
    made.resolve("t", ResolvedRegex(("t",), 1, 1))
    assert not made.are_homogeneous(2)
    assert not subscriptions(named("a", "t", regex="t"), named("b", "t", regex="t")).are_homogeneous(2)


def test_a_change_is_counted_once() -> None:
    made = subscriptions(named("a", "t"), named("b", "t"))
    made.change(named("a", "t"), named("a", "u"))
    assert made.topics() == {"t", "u"}
    made.change(named("b", "t"), None)
    assert made.topics() == {"u"}


def test_a_supposition_ends_with_its_block() -> None:
    made = subscriptions(named("a", "t", regex="x"))
    with made.supposing(named("a", "t", regex="x"), named("a", "u", regex="y")):
        assert (made.topics(), set(made.by_regex)) == ({"u"}, {"y"})
    assert (made.topics(), set(made.by_regex)) == ({"t"}, {"x"})


def test_names_and_matches_together() -> None:
    made = subscriptions(named("a", "t", regex="x"))
    assert made.topics_of(named("a", "t", regex="x"), ["t"]) == ["t"], "nothing is resolved yet"
    made.resolve("x", ResolvedRegex(("t", "v"), 1, 1))
    assert made.topics_of(named("a", "t", regex="x"), ["t"]) == ["t", "v"]
    assert made.topics_of(named("a", regex="x"), []) == ["t", "v"]
    assert made.topics_of(named("a", "w", regex="x"), ["w", "a", "b"]) == ["w", "a", "b", "t", "v"]
    made.resolve("x", ResolvedRegex((), 2, 2))
    assert made.topics_of(named("a", "t", regex="x"), ["t"]) == ["t"]


def test_an_expression_that_is_resolved_anew_forgets_what_it_matched() -> None:
    made = subscriptions(named("a", regex="x"))
    made.resolve("x", ResolvedRegex(("t",), 1, 1))
    made.resolve("x", ResolvedRegex(("u",), 2, 2))
    assert made.topics() == {"u"}
    made.resolve("x", None)
    assert made.topics() == set()
