"""Regular expressions of subscriptions: none holds the loop up, and what is refused is remembered."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from coordinator.effects import CoordinatorRecord, Effects, SlicedWork, outcome_of
from coordinator.groups.consumer import expressions
from coordinator.groups.consumer.expressions import (
    EFFORT_MAX,
    TOO_LARGE,
    InvalidExpression,
    compiled,
    effort,
)
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.reconciliation import CurrentAssignment
from coordinator.groups.consumer.regexes import ResolveRegexes, on_regexes_resolved
from coordinator.groups.consumer.replay import replay_record
from coordinator.topic_catalog import TopicImage
from tests.groups.consumer_groups.migrating import NOW, World
from tests.groups.consumer_groups.pace import longest_s

PARTS = (
    *(
        r"\pL",
        r"\PL",
        r"[\pL]",
        r"[^\PN]",
        r"\W",
        r"\D",
        ".",
        "[^x]",
        "[^k]",
        "[\x01-\U0010ffff]",
        "k",
        "é",
        "a|",
        "a*|",
        "x*y*|",
        "(a|b)+|",
    ),
    *(
        "a?",
        "a*",
        "a??",
        "(a?)",
        "(a|b)?",
        "a?b?c?",
        "x.",
        "(.|x)",
        "(?:|)",
        "[k-s]",
        r"\b",
        "(",
        "|",
        "ab|",
        "-",
    ),
    *(
        "a{1000}",
        "a{0,1000}",
        "a{1,1000}",
        "a{1000,}",
        ".{0,1000}",
        "a{0,9}",
        "(?:a{30}|b)",
        r"\pL{1000}",
        "{",
    ),
)
"""What an expression is made of, many times over."""

AROUND = (
    *(
        ("", ""),
        ("[", "]"),
        ("[^", "]"),
        ("(?:", ")*"),
        ("(?:", ")?"),
        ("", "("),
        ("(", "|x)+"),
        ("(?i:", ")"),
    ),
    *(("(?:", "){10}"), ("(?:", "){0,10}"), ("(?:", "){30}"), ("(?:(?:", "){5}){5}"), ("(?:", "){0,1000}")),
)

LOOP_MAX_S = 0.020
PLAIN = "x" * EFFORT_MAX
PLAIN_TIMES = 6
"""As many times what a plain text of the most effort takes, where the machine is so slow that this is more: the
worst expressions take four times as long as that, on any."""

TOO_LONG = r"\pL{1000}"


def worst_expressions() -> Iterator[str]:
    """Each part as often as the bound allows, and within each of what may stand around it."""
    for flags in ("", "(?i)"):
        for before, after in AROUND:
            for part in PARTS:
                times = 1
                while effort(flags + before + part * times * 2 + after) <= EFFORT_MAX:
                    times *= 2
                step = times
                while step := step // 2:
                    if effort(flags + before + part * (times + step) + after) <= EFFORT_MAX:
                        times += step
                yield flags + before + part * times + after


def seconds_of(expression: str) -> float:
    """This thread's time to find out whether it compiles."""
    expressions._outcome.cache_clear()
    begin = time.thread_time()
    expressions._outcome(expression)
    return time.thread_time() - begin


def holds_the_loop_up(expression: str) -> bool:
    """Whether no attempt takes less than one may; how fast the machine is in this moment, a plain text tells."""
    compiled("a")  # The library is loaded now.
    for _ in range(10):
        took_s = seconds_of(expression)
        if took_s < LOOP_MAX_S or took_s < PLAIN_TIMES * seconds_of(PLAIN):
            return False
    return True


def test_no_expression_holds_the_loop_up() -> None:
    slow = [each for each in worst_expressions() if holds_the_loop_up(each)]
    assert [(each[:60], len(each)) for each in slow] == []


@pytest.mark.parametrize(
    "expression",
    [r"(\pL|x)" * 4000, r"\pL{1000}", "(.{1000})" * 3000, r"\pL\pN" * 300, "a?" * 16_000, "a{0,1000}" * 3000],
)
def test_what_takes_long_is_refused_at_once(expression: str) -> None:
    assert not holds_the_loop_up(expression)
    with pytest.raises(InvalidExpression, match=TOO_LARGE):
        compiled(expression)


def matching(expression: str, topics: list[str]) -> list[str]:
    return list(filter(compiled(expression).fullmatch, topics))


def test_the_names_of_hundreds_of_topics_are_not_too_large() -> None:
    names = [f"shop.europe.orders.of.department-{number:06d}" for number in range(800)]
    assert matching("|".join(names), names) == names
    assert matching(".*-[0-9]{6}|x{1,249}", names) == names
    assert (
        matching(
            "|".join(f"{name[len('shop.europe.orders.of.') :]}.*" for name in names), ["department-000017-v2"]
        )
        != []
    )


def test_what_was_refused_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    import re2

    asked: list[str] = []
    actual = re2.compile

    def compile_it(expression: str, options: object) -> object:
        asked.append(expression)
        return actual(expression, options)

    monkeypatch.setattr(re2, "compile", compile_it)
    expressions._outcome.cache_clear()
    for _ in range(3):
        with pytest.raises(InvalidExpression):
            compiled("a(")
    assert asked == ["a("]


@pytest.mark.parametrize(
    ("expression", "is_taken"),
    zip(expressions.DIFFERENCES, (False, True, True, True, False), strict=True),
)
def test_where_the_library_differs_from_the_brokers(expression: str, is_taken: bool) -> None:
    if is_taken:
        compiled(expression)
    else:
        with pytest.raises(InvalidExpression):
            compiled(expression)


TOPICS = ("orders", "orders-2", "invoices")


def a_run(*regexes: str) -> ResolveRegexes:
    before = {"ord.*": ("former",), TOO_LONG: ("former",)}
    return ResolveRegexes("g", regexes, TOPICS, 7, 1_000, before, lambda topic: None)


def test_an_expression_that_is_given_up_matches_what_it_did_and_the_next_is_looked_at() -> None:
    steps = a_run("ord.*", "new.*", "inv.*").steps()
    assert isinstance(a_run(), SlicedWork)
    seen = [next(steps), steps.send(False)]
    assert seen[0] is seen[1], "one step"
    seen.append(steps.send(True))
    assert seen[2] == "expression new.* of group g"
    assert steps.send(True) == "expression inv.* of group g"
    resolved = outcome_of(steps).resolved
    assert {regex: found.topics for regex, found in resolved.items()} == {
        "ord.*": ("former",),
        "new.*": (),
        "inv.*": ("invoices",),
    }
    assert {found.version for found in resolved.values()} == {7}, "or it would be looked at again at once"


def test_an_expression_of_another_brokers_log_that_is_too_large_matches_what_it_did() -> None:
    resolved = a_run(TOO_LONG, "a(").run().resolved
    assert [found.topics for found in resolved.values()] == [("former",), ()]


@pytest.mark.parametrize("is_given_up", [False, True])
def test_a_run_has_the_hashes_of_topics_ready_that_are_new_to_an_expression(is_given_up: bool) -> None:
    """So the loop need not compute them; but does, if that is given up as well."""
    kept: list[str] = []
    steps = replace(a_run("ord.*", "inv.*"), keep_hash=kept.append).steps()
    answer: Any = None
    try:
        while True:
            step = steps.send(answer)
            answer = is_given_up and step == "hashes of topics of group g"
    except StopIteration as ended:
        outcome = ended.value
    assert sorted(kept) == (kept[:1] if is_given_up else ["invoices", "orders", "orders-2"])
    assert outcome.changes == {
        "ord.*": (("former",), ["orders", "orders-2"], ["former"]),
        "inv.*": ((), ["invoices"], []),
    }


@pytest.mark.parametrize("is_first", [True, False], ids=["the first run", "a later run, with a new topic"])
def test_what_expressions_match_holds_the_loop_but_for_a_moment(is_first: bool) -> None:
    """Five that match 10,000 topics: what a run finds is compared, hashed and put into words by the run."""
    took = []
    for _ in range(6):
        world, names = World(), [f"topic-{number}" for number in range(9_999)]
        world.topics.by_name = {each: TopicImage(each, each.encode().ljust(16), ((),)) for each in names}
        group = world.shard.groups["g"] = ConsumerGroup("g")
        world.shard.soft("g")
        for number in range(5):
            regex = f"topic-.*|{number}"
            group.put_member(ConsumerMember(str(number), topic_regex=regex), CurrentAssignment(1))
        if not is_first:
            resolve(world, group, names)
            world.topics.by_name["topic-z"] = TopicImage("topic-z", b"z" * 16, ((),))
        took.append(resolve(world, group, list(world.topics.by_name)))
    assert min(took) < longest_s()
    assert group.subscriptions.by_match == dict.fromkeys(world.topics.by_name, 5)


def resolve(world: World, group: ConsumerGroup, names: list[str]) -> float:
    """Do a run and use its result; return how long the latter took, in seconds."""
    before = {regex: found.topics for regex, found in group.subscriptions.resolved.items()}
    regexes = tuple(group.subscriptions.by_regex)
    run = ResolveRegexes("g", regexes, tuple(names), 1, 1, before, world.shard.keep_hash)
    event, effects = run.run(), Effects()
    began = time.thread_time()
    on_regexes_resolved(world.shard, event, NOW, effects)
    for record in effects.records:
        assert isinstance(record, CoordinatorRecord)
        replay_record(world.shard.groups, record.key, record.value)
    return time.thread_time() - began
