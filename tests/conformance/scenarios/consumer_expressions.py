"""Subscriptions of consumer groups by regular expressions: what is none, what matches, and when that is found."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from protocol.errors import ErrorCode
from tests.conformance.actors import OTHER_TOPIC
from tests.conformance.consumer_scenes import beat_until, shown, target_at_once, until_epoch, until_shown
from tests.conformance.group_log import GroupLog, types
from tests.conformance.new_members import BEAT, NewMember
from tests.conformance.registry import BOTH, scenario
from tests.conformance.run import Run
from tests.conformance.topic_scenes import delete_topic, make_topic, topic_name

NEW: Final = BEAT[1:]
"""The versions that have expressions."""

WRONG: Final = (
    "(",
    "(?<n>a",
    "[a",
    "a)",
    "*a",
    "a|+",
    "a**",
    "a{1001}",
    "a{2,1}",
    "end\\",
    "\\q",
    "\\1",
    "[z-a]",
    "[[:foo:]]",
    "\\p{Foo}",
    "(?<n",
    "(?P<n m>a)",
    "(?P=n)",
    "(?z)",
    "(?=a)",
    "(?!a)",
    "(?<=a)",
    "(?<!a)",
    "[a-\\d]",
    "(?P<n>a",
    "x{2}{3}",
)
BETWEEN_RUNS_S: Final = 10.0
"""Between two runs of a group (A47)."""


def by(expression: str, *names: str) -> dict[str, Any]:
    """What a member joins with that subscribes so."""
    return {"subscribed_topic_regex": expression, "subscribed_topic_names": list(names) or None}


@scenario(
    "9 ConsumerGroupHeartbeat: an expression that is none",
    "A45",
    versions=NEW,
    choices=WRONG,
)
async def an_expression_that_is_none(run: Run, version: int, expression: str) -> None:
    alice = NewMember(run, "alice")
    await alice.beat(version, ErrorCode.INVALID_REGULAR_EXPRESSION, subscribed_topic_regex=expression)
    await run.describe("Dead")


@scenario("A45", "A46", "A49", "A17", versions=NEW)
async def an_expression_matches_whole_names(run: Run, version: int) -> None:
    """It is found aside; the next heartbeats bring the partitions. Who comes later has the topics at once."""
    await target_at_once(run)
    await make_topic(run, "a")
    await make_topic(run, "ab")
    await make_topic(run, "xa")
    alice, bob, carol = (NewMember(run, name) for name in ("alice", "bob", "carol"))
    expression = topic_name(run, "[ax]")
    await alice.beat(version, note="joins", **by(expression))
    run.expect(alice.epoch == 1, "nothing is resolved yet")
    await until_epoch(run, 2)
    await alice.beat(version, note="has a target")
    await shown(run)
    await bob.beat(version, note="joins", **by(expression))
    run.expect(bob.epoch == 3, "the topics are known at once")
    await carol.beat(version, note="joins with a name, too", **by(expression, OTHER_TOPIC))
    group = await shown(run)
    topics = {
        each.topic_name for member in group.members for each in member.target_assignment.topic_partitions
    }
    run.expect(topics == {topic_name(run, "a"), OTHER_TOPIC}, "names and matches count together")


@scenario("A45", versions=NEW)
async def an_expression_matches_internal_topics(run: Run, version: int) -> None:
    alice = NewMember(run, "alice")
    await alice.beat(version, note="joins", **by("__consumer_.*"))
    await until_epoch(run, 2)
    await alice.beat(version, note="has a target")
    group = await shown(run)
    (topic,) = group.members[0].assignment.topic_partitions
    run.expect(topic.topic_name == "__consumer_offsets", "an internal one")


@scenario("A47", "A46", versions=NEW)
async def topics_made_later_are_found_after_ten_seconds(run: Run, version: int) -> None:
    await target_at_once(run)
    await make_topic(run, "a")
    alice, bob = NewMember(run, "alice"), NewMember(run, "bob")
    await alice.beat(version, note="joins", **by(topic_name(run, "[a-z]+")))
    begun = time.monotonic()
    await until_epoch(run, 2)
    await alice.beat(version, note="has a target")
    await make_topic(run, "b", 3)
    await bob.beat(version, note="joins by another", **by(topic_name(run, "b")))
    await alice.beat(version, note="too early")
    await asyncio.sleep(1.0)
    group = await shown(run)
    run.expect(group.group_epoch == 2, "no run is due")
    await asyncio.sleep(begun + BETWEEN_RUNS_S + 0.5 - time.monotonic())
    await alice.beat(version, note="asks for a run")
    await until_epoch(run, 3)
    await alice.beat(version, note="is to give up some")
    await bob.beat(version, note="waits")
    await shown(run)


@scenario("A47", "A18", versions=NEW, on="small")
async def expressions_are_matched_again_after_their_interval(run: Run, version: int) -> None:
    """No topic is made by this script: the interval alone leads to the run that misses the one deleted."""
    await target_at_once(run)
    await make_topic(run, "a")
    gone = await make_topic(run, "b", 3)
    alice = NewMember(run, "alice")
    await alice.beat(version, note="joins", **by(topic_name(run, "[a-z]+")))
    begun = time.monotonic()
    await until_epoch(run, 2)
    await alice.beat(version, note="has a target")
    await delete_topic(run, gone)
    await beat_until(run, alice, 3)
    await asyncio.sleep(begun + BETWEEN_RUNS_S + 0.5 - time.monotonic())
    await alice.beat(version, note="asks for a run")
    await until_epoch(run, 4)
    await alice.beat(version, note="one topic less matches")
    await shown(run)


@scenario("A48", "A49", versions=NEW)
async def an_expression_goes_with_its_last_member(run: Run, version: int) -> None:
    await target_at_once(run)
    await make_topic(run, "a")
    names = ("alice", "bob", "carol", "dave", "erin")
    alice, bob, carol, dave, erin = (NewMember(run, name) for name in names)
    expression = topic_name(run, "a+")
    await alice.beat(version, note="joins", **by(expression))
    await until_epoch(run, 2)
    await bob.beat(version, note="joins", **by(expression))
    await bob.leave(version)
    await carol.beat(version, note="it is known still", **by(expression))
    run.expect(carol.epoch == 5, "it is resolved")
    await alice.leave(version)
    await carol.beat(
        version, note="names instead", subscribed_topic_regex="", subscribed_topic_names=[OTHER_TOPIC]
    )
    await shown(run)
    await dave.beat(version, note="nobody had it any more", **by(expression))
    run.expect(dave.epoch == 7, "it is to be resolved anew")
    await until_epoch(run, 8)
    await dave.beat(version, note="has a target")
    await shown(run)
    log = await GroupLog.of(run)
    await dave.leave(version)
    gone = types(await log.written("the last one leaves"))
    run.expect(gone == [-8, -7, -5, -16, 3], f"the member, its expression, the epoch: {gone}")
    await erin.beat(version, note="nobody had it any more", **by(expression))
    run.expect(erin.epoch == 9, "it is to be resolved anew")
    await until_epoch(run, 10)


@scenario("A48", "A49", on="restarted", restarts=BOTH)
async def what_an_expression_matches_is_kept(run: Run) -> None:
    await target_at_once(run)
    await make_topic(run, "a")
    alice, bob, carol = (NewMember(run, name) for name in ("alice", "bob", "carol"))
    expression = topic_name(run, "a+")
    await alice.beat(note="joins", **by(expression))
    await until_epoch(run, 2)
    await alice.beat(note="has a target")
    await shown(run)
    await run.restarted()
    await shown(run)
    await bob.beat(note="joins", **by(expression))
    run.expect(bob.epoch == 3, "it is resolved")
    await until_shown(run, lambda group: len(group.members) == 2)
    await carol.beat(note="by none", **by("", OTHER_TOPIC))
    await shown(run)
