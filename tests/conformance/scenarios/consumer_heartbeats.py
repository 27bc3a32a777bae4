"""ConsumerGroupHeartbeat: the order of its checks, what it says of a member, and its session."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from itertools import chain, combinations
from typing import Any, Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatTopicPartitions,
)
from tests.conformance.actors import OTHER_TOPIC, TOPIC
from tests.conformance.consumer_scenes import (
    EXPRESSION,
    alone,
    configure,
    has_member,
    look,
    member_of,
    owes,
    owning,
    quiet_beat,
    shown,
    told,
    until_shown,
)
from tests.conformance.new_members import BEAT, NEWEST, REBALANCE_MS, NewMember
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.scenes import cast, stable
from tests.conformance.topic_scenes import EVENTUALLY_S, POLL_S

FULL: Final = ErrorCode.GROUP_MAX_SIZE_REACHED
FENCED_EPOCH: Final = ErrorCode.FENCED_MEMBER_EPOCH
FENCED_INSTANCE: Final = ErrorCode.FENCED_INSTANCE_ID
UNRELEASED: Final = ErrorCode.UNRELEASED_INSTANCE_ID
UNKNOWN: Final = ErrorCode.UNKNOWN_MEMBER_ID
NO_EXPRESSION: Final = ErrorCode.INVALID_REGULAR_EXPRESSION
NO_ASSIGNOR: Final = ErrorCode.UNSUPPORTED_ASSIGNOR

SESSION_MS: Final = 3_000
"""Longer than any slow moment of the machine; it is set when all that comes before has been done."""
BELOW: Final = -3
"""An epoch that says nothing."""


class Wrong(NamedTuple):
    """One thing that is wrong with a request, and how it is answered."""

    changed: dict[str, Any]
    message: str
    error: ErrorCode = ErrorCode.INVALID_REQUEST


NO_MEMBER_ID: Final = Wrong({"member_id": " "}, "MemberId can't be empty.")
ALWAYS: Final = (
    Wrong({"group_id": ""}, "GroupId can't be empty."),
    Wrong({"instance_id": "\t"}, "InstanceId can't be empty."),
    Wrong({"rack_id": ""}, "RackId can't be empty."),
)
OWNED: Final = [ConsumerGroupHeartbeatTopicPartitions(topic_id=bytes(15) + b"\x01", partitions=[0])]
NOT_EMPTY: Final = "TopicPartitions must be empty when (re-)joining."
NO_TOPICS: Final = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
JOINING: Final = (
    Wrong({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
    Wrong({"topic_partitions": None}, NOT_EMPTY),
    Wrong({"topic_partitions": OWNED}, NOT_EMPTY),
    Wrong({"subscribed_topic_names": None}, NO_TOPICS),
)
ASSIGNOR: Final = Wrong(
    {"server_assignor": "cooperative"},
    "ServerAssignor cooperative is not supported. Supported assignors: uniform, range.",
    NO_ASSIGNOR,
)
ABSENT: Final = Wrong({}, "Consumer group {group} not found.", ErrorCode.GROUP_ID_NOT_FOUND)
ABSENT_TO_A_LEAVE: Final = Wrong({}, "Group {group} not found.", ErrorCode.GROUP_ID_NOT_FOUND)
WRONG: Final[dict[int, tuple[Wrong, ...]]] = {
    0: (NO_MEMBER_ID, *ALWAYS, *JOINING, ASSIGNOR),
    1: (NO_MEMBER_ID, *ALWAYS, ASSIGNOR, ABSENT),
    -1: (NO_MEMBER_ID, *ALWAYS, ASSIGNOR, ABSENT_TO_A_LEAVE),
    -2: (
        NO_MEMBER_ID,
        *ALWAYS,
        Wrong({"instance_id": None}, "InstanceId can't be null."),
        ASSIGNOR,
        ABSENT_TO_A_LEAVE,
    ),
    BELOW: (NO_MEMBER_ID, *ALWAYS, Wrong({}, "MemberEpoch is invalid."), ASSIGNOR),
}
"""By epoch what can be wrong before there is a group, in the order in which it is looked at."""
SERVER_MAKES_IDS_AT: Final = (0, -2, BELOW)
"""Epochs at which version 0 takes a blank member id."""


def wrongs(version: int, epoch: int) -> Iterator[tuple[Wrong, ...]]:
    """Each wrong alone and each two of them, in the order of checks; no two of one field."""
    given = WRONG[epoch]
    if version == 0 and epoch in SERVER_MAKES_IDS_AT:
        given = given[1:]
    for some in chain(combinations(given, 1), combinations(given, 2)):
        names = [name for wrong in some for name in wrong.changed]
        if len(set(names)) == len(names):
            yield some


@scenario("9 ConsumerGroupHeartbeat: what does not fit its epoch", "A4", versions=BEAT, choices=tuple(WRONG))
async def a_consumer_heartbeat_that_is_wrong_in_two_ways(run: Run, version: int, epoch: int) -> None:
    alice = NewMember(run, "alice")
    base: dict[str, Any] = {"member_epoch": epoch, "instance_id": "i" if epoch == -2 else None}
    for some in wrongs(version, epoch):
        changed = dict(chain.from_iterable(wrong.changed.items() for wrong in some))
        note = ", ".join(map(str, changed)) or "as it is"
        first = next(wrong for wrong in WRONG[epoch] if wrong in some or not wrong.changed)
        reply = await alice.beat(version, first.error, note, **(base | changed))
        message = first.message.format(group=run.group)
        run.expect(reply.error_message == message, f"{note}: should be {message}, is {reply.error_message}")
    await shown(run, "")


@scenario("9 ConsumerGroupHeartbeat: an expression that is none", "A4", versions=BEAT[1:])
async def a_member_that_is_wrong_in_two_ways(run: Run, version: int) -> None:
    """What is wrong first is answered; and nothing of it leaves a trace."""
    alice, bob = NewMember(run, "alice", instance_id="one"), NewMember(run, "bob")
    await alone(run, alice)
    await bob.beat(note="joins")
    before = await shown(run)
    no = {"subscribed_topic_regex": "("}
    nobody: dict[str, Any] = {"member_id": "carol-id", "instance_id": None}
    other: dict[str, Any] = {"member_id": "carol-id", "instance_id": "one"}
    none = ErrorCode.GROUP_ID_NOT_FOUND
    for note, error, changed in (
        ("absent", none, no | {"group_id": f"{run.group}-absent", "member_epoch": 1}),
        ("not a member", UNKNOWN, no | nobody | {"member_epoch": 5}),
        ("no instance", UNKNOWN, no | {"instance_id": "two", "member_epoch": 5}),
        ("another's instance", FENCED_INSTANCE, no | other | {"member_epoch": 5}),
        ("another's instance, leaving", FENCED_INSTANCE, other | {"member_epoch": -1}),
        ("another's instance, joining", UNRELEASED, no | other | {"member_epoch": 0}),
        ("its own instance", UNRELEASED, no | {"member_epoch": 0}),
        ("above", FENCED_EPOCH, no | {"member_epoch": 9}),
        ("below", FENCED_EPOCH, no | {"member_epoch": 1}),
        ("an assignor, not a member", NO_ASSIGNOR, nobody | {"member_epoch": 5, "server_assignor": "x"}),
        ("an assignor, above", NO_ASSIGNOR, {"member_epoch": 9, "server_assignor": "x"}),
        ("an assignor, an expression", NO_ASSIGNOR, no | {"server_assignor": "x"}),
        ("an expression", NO_EXPRESSION, no | {"rack_id": "r", "subscribed_topic_names": [OTHER_TOPIC]}),
        ("an expression, joining", NO_EXPRESSION, no | nobody | {"member_epoch": 0}),
    ):
        epoch = alice.epoch
        await alice.beat(version, error, note, **changed)
        alice.epoch = epoch
    run.expect(await shown(run) == before, "nothing of it left a trace")
    await alice.beat(version, note="as before")


@scenario("9 ConsumerGroupHeartbeat: a full group", "A5", versions=BEAT, on="small")
async def a_full_group_is_found_before_its_members_are_looked_at(run: Run, version: int) -> None:
    alice, bob = (NewMember(run, name, instance_id=name) for name in ("alice", "bob"))
    await alice.beat(version)
    await bob.beat(version)
    other: dict[str, Any] = {"member_id": "carol-id", "instance_id": None}
    bad: dict[str, Any] = {"subscribed_topic_regex": "("} if version else {"subscribed_topic_names": []}
    for note, error, changed in (
        ("not a member", FULL, other | {"member_epoch": 5}),
        ("no instance", FULL, other | {"instance_id": "carol", "member_epoch": 5}),
        ("another's instance", FULL, other | {"instance_id": "bob", "member_epoch": 5}),
        ("another's instance, joining", FULL, other | {"instance_id": "bob", "member_epoch": 0}),
        ("an expression", FULL, other | bad | {"member_epoch": 0}),
        ("an assignor", NO_ASSIGNOR, other | {"member_epoch": 0, "server_assignor": "x"}),
        ("leaving", UNKNOWN, other | {"member_epoch": -1}),
        ("leaving another's", FENCED_INSTANCE, other | {"instance_id": "bob", "member_epoch": -1}),
    ):
        epoch = alice.epoch
        await alice.beat(version, error, note, **changed)
        alice.epoch = epoch
    await shown(run)


@scenario("9 ConsumerGroupHeartbeat: of nobody", versions=BEAT)
async def a_consumer_heartbeat_at_a_classic_group(run: Run, version: int) -> None:
    """Its leader assigned what is no assignment of the consumer protocol: it is never upgraded."""
    (carol,) = cast(run, "carol")
    await stable(run, carol)
    new, none = NewMember(run, "new"), ErrorCode.GROUP_ID_NOT_FOUND
    await new.beat(version, NO_ASSIGNOR, "an assignor", server_assignor="x")
    await new.beat(version, none, "an assignor that there is", server_assignor="range")
    await new.beat(version, none, "its instance", member_epoch=1, instance_id="i")
    await new.leave(version, none, instance_id="i")
    await new.beat(version, none, "for now", member_epoch=-2, instance_id="i")


# What a request says


@scenario("A1", versions=BEAT)
async def a_whole_request_is_answered_with_the_assignment(run: Run, version: int) -> None:
    alice = NewMember(run, "alice")
    await alone(run, alice)
    whole: dict[str, Any] = {
        "rebalance_timeout_ms": REBALANCE_MS,
        "subscribed_topic_names": [TOPIC],
        "topic_partitions": owning(run, {TOPIC: [0, 1, 2]}),
    }
    for count in range(len(whole) + 1):
        for names in combinations(whole, count):
            some = {name: whole[name] for name in names}
            reply = await alice.beat(version, note=" and ".join(names) or "nothing", **some)
            run.expect((reply.assignment is not None) == (count == 3), f"{names}: only if it is whole")
    if version:
        reply = await alice.beat(
            version, **(whole | {"subscribed_topic_names": None, "subscribed_topic_regex": ""})
        )
        run.expect(reply.assignment is not None, "an expression does, too")
    reply = await alice.beat(version, member_epoch=0, note="joins again")
    run.expect(told(run, reply) == {TOPIC: [0, 1, 2]}, "a join is answered with the assignment")
    reply = await alice.beat(version, note="drops it", subscribed_topic_names=[])
    run.expect(told(run, reply) == {}, "what has changed is told")


@scenario("A2")
async def what_a_member_gives_up_is_not_in_its_answers(run: Run) -> None:
    alice, bob = NewMember(run, "alice"), NewMember(run, "bob")
    keeps = await owes(run, alice, bob)
    reply = await alice.beat(note="is to give up some")
    run.expect(told(run, reply) == keeps, "it is shown what it keeps")
    whole: dict[str, Any] = {"rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_names": [TOPIC]}
    reply = await alice.beat(note="whole", topic_partitions=owning(run, {TOPIC: [0, 1, 2]}), **whole)
    run.expect(told(run, reply) == keeps, "it is shown what it keeps, still")
    reply = await alice.beat(note="joins again", member_epoch=0)
    await shown(run)


@scenario("A2", "A16")
async def a_members_client_is_that_of_its_last_request(run: Run) -> None:
    """No epoch is raised for it."""
    alice = NewMember(run, "alice")
    await alone(run, alice)
    before = await shown(run, "Stable")
    request = ConsumerGroupHeartbeatRequest(
        group_id=run.group, member_id=alice.member_id, member_epoch=alice.epoch
    )
    await run.answer(await run.send_from("alice", "other", request, NEWEST, "another client"), 0)
    after = await shown(run, "Stable", before.group_epoch)
    run.expect([each.client_id for each in after.members] == ["other"], "the client is another")


@scenario("A3")
async def a_classic_member_that_heartbeats_is_one_of_the_new_protocol(run: Run) -> None:
    alice = NewMember(run, "alice")
    (carol,) = cast(run, "carol")
    await alone(run, alice)
    carol.member_id = "carol-id"
    await carol.join()
    before = await shown(run)
    new = NewMember(run, "carol", epoch=carol.generation_id)
    run.expect(member_of(before, new).member_type == 0, "it is a classic one")
    await new.beat(note="speaks the new protocol")
    after = await shown(run, epoch=before.group_epoch)
    run.expect(member_of(after, new).member_type == 1, "it is none any more")
    await carol.heartbeat(error=UNKNOWN)
    await carol.sync(error=UNKNOWN)


@scenario("A6")
async def versions_mix_and_the_older_one_leaves_expressions_alone(run: Run) -> None:
    alice, bob = NewMember(run, "alice", topics=()), NewMember(run, "bob")
    await alone(run, bob)
    await alice.beat(1, subscribed_topic_regex=EXPRESSION)
    await until_shown(run, lambda group: group.group_epoch == 3)
    await alice.beat(0, note="version 0")
    whole: dict[str, Any] = {"rebalance_timeout_ms": 50_000, "topic_partitions": owning(run, {})}
    await alice.beat(0, note="whole", subscribed_topic_names=[], **whole)
    await bob.beat(0)
    group = await shown(run, epoch=3)
    run.expect(member_of(group, alice).subscribed_topic_regex == EXPRESSION, "it is as it was")
    alice.topics = (OTHER_TOPIC,)
    await alice.beat(0, member_epoch=0, note="joins again")
    group = await shown(run, epoch=4)
    run.expect(member_of(group, alice).subscribed_topic_regex == EXPRESSION, "it is as it was, still")


# Sessions


@scenario("A4", "A30", on="small")
async def a_session_begins_with_each_heartbeat_that_is_not_refused(run: Run) -> None:
    """Both members send heartbeats all the time; those of one are refused."""
    alice, bob = NewMember(run, "alice"), NewMember(run, "bob", instance_id="b", topics=())
    await alone(run, alice)
    await bob.beat(note="joins")
    before = await shown(run, "Stable")
    await configure(run, session_timeout_ms=SESSION_MS, heartbeat_interval_ms=100)
    await bob.beat(note="a short session")
    started = time.monotonic()
    async with asyncio.timeout(EVENTUALLY_S):
        while has_member(await look(run), bob):
            await quiet_beat(alice)
            await quiet_beat(bob, member_epoch=99)
            await quiet_beat(bob, server_assignor="none")
            await quiet_beat(bob, member_epoch=0)
            await asyncio.sleep(POLL_S)
    run.expect(time.monotonic() - started > 0.5 * SESSION_MS / 1000, "not before its time")
    await quiet_beat(alice)
    after = await shown(run, "Stable", before.group_epoch + 1)
    run.expect(has_member(after, alice), "the other one is there")
    await bob.beat(error=UNKNOWN, note="too late")


@scenario("A30", on="small")
async def a_session_is_as_long_as_the_groups_setting_says_at_the_heartbeat(run: Run) -> None:
    alice, bob = NewMember(run, "alice"), NewMember(run, "bob")
    await alone(run, alice)
    await configure(run, session_timeout_ms=SESSION_MS, heartbeat_interval_ms=100)
    await bob.beat(note="a short session")
    started = time.monotonic()
    after = await until_shown(run, lambda group: not has_member(group, bob))
    run.expect(time.monotonic() - started > 0.5 * SESSION_MS / 1000, "not before its time")
    run.expect(has_member(after, alice), "the session that began before is a long one")
