"""Consumer groups from outside: described, listed, deleted, and their offsets with them (A69 to A73, A76)."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.conformance.actors import DELETE, DESCRIBE, LIST, OTHER_TOPIC, TOPIC, Actor
from tests.conformance.group_log import GroupLog
from tests.conformance.new_members import (
    BEAT,
    DESCRIBE_CONSUMERS,
    GROUP_VERSION,
    NewMember,
    describe_consumers,
)
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.scenarios.administration import NON_EMPTY, NOT_FOUND, delete_offsets, listed
from tests.conformance.scenarios.consumer_offsets import INTERVAL_S, commit
from tests.conformance.scenarios.sizes import RETENTION_S
from tests.conformance.scenes import cast, stable
from tests.conformance.topic_scenes import ask, delete_topic, eventually, make_topic

SUBSCRIBED: Final = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
UNSUPPORTED: Final = ErrorCode.UNSUPPORTED_VERSION
CONSUMER_STATES: Final = ("Empty", "Assigning", "Reconciling", "Stable")
UPGRADE, SAFE_DOWNGRADE = 1, 2


async def consumer_scene(run: Run, state: str) -> NewMember:
    """The run's group as a consumer group in this state: Assigning as no member was there for another target."""
    alice = NewMember(run, "alice", instance_id="one")
    await alice.beat()
    if state == "Empty":
        await alice.leave()
    elif state == "Assigning":
        await NewMember(run, "bob").beat()
    elif state == "Reconciling":
        await alice.beat(member_epoch=-2)
    return alice


# Offsets and groups are deleted, or expire.


async def subscribed(run: Run, *right: int, note: str) -> None:
    """Delete an offset of either topic, and expect these errors."""
    reply = await delete_offsets(run, (TOPIC, 0), (OTHER_TOPIC, 0), note=note)
    got = [partition.error_code for topic in reply.topics for partition in topic.partitions]
    run.expect(got == list(right), f"{note}: {right}, not {got}")


@scenario("A69", "9 OffsetDelete: subscribed topics")
async def offsets_of_topics_that_members_read_are_not_deleted(run: Run) -> None:
    reader = Actor(run, "reader")
    await reader.commit(offsets={(TOPIC, 0): 1, (TOPIC, 1): 2, (OTHER_TOPIC, 0): 3, (OTHER_TOPIC, 1): 4})
    alice, bob = NewMember(run, "alice"), NewMember(run, "bob", topics=(OTHER_TOPIC,))
    await alice.beat()
    await bob.beat()
    await subscribed(run, SUBSCRIBED, SUBSCRIBED, note="each by a member")
    await bob.leave()
    await subscribed(run, SUBSCRIBED, 0, note="one is left")
    await reader.fetch(9, None)
    await asyncio.sleep(INTERVAL_S)  # Or a slow moment decides on whether there is a target at once.
    await alice.beat(subscribed_topic_names=[OTHER_TOPIC], note="reads the other")
    await subscribed(run, 0, SUBSCRIBED, note="another subscription")
    missing = ((TOPIC, 9), ("nowhere", 0), (OTHER_TOPIC, 9), (TOPIC, 2))
    await delete_offsets(run, *missing, note="not there")
    await alice.leave()
    await subscribed(run, 0, 0, note="no members")
    await reader.fetch(9, None)


@scenario("A69", "9 OffsetDelete: subscribed topics")
async def offsets_of_topics_that_an_expression_matches_are_not_deleted(run: Run) -> None:
    reader, alice = Actor(run, "reader"), NewMember(run, "alice", topics=())
    await reader.commit(offsets={(TOPIC, 0): 1, (OTHER_TOPIC, 0): 2})
    await alice.beat(subscribed_topic_names=None, subscribed_topic_regex="order.?")
    own = ConsumerGroupHeartbeatRequest(
        group_id=run.group, member_id=alice.member_id, member_epoch=alice.epoch
    )
    told = await eventually(run, own, 1, lambda reply: reply.member_epoch == 2 or reply.error_code)
    run.expect(told.member_epoch == 2, "the expression is resolved")
    alice.epoch = 2
    await subscribed(run, SUBSCRIBED, 0, note="by what an expression matched")
    await alice.beat(subscribed_topic_regex="", note="no expression")
    await subscribed(run, 0, 0, note="no subscription")
    await reader.fetch(9, None)


@scenario("A69", "9 DeleteGroups: consumer groups", versions=DELETE, choices=CONSUMER_STATES)
async def consumer_groups_are_deleted_once_they_are_empty(run: Run, version: int, state: str) -> None:
    log = await GroupLog.of(run)
    await consumer_scene(run, state)
    reader = Actor(run, "reader")
    if state == "Empty":
        await reader.commit(offsets={(TOPIC, 0): 1, (OTHER_TOPIC, 2): 2})
    reply = await ask(run, DeleteGroupsRequest(groups_names=[run.group]), version)
    error = 0 if state == "Empty" else NON_EMPTY
    run.expect(reply.results[0].error_code == error, f"{state}: {error}, not {reply}")
    await describe_consumers(run)
    await listed(run, 5)
    await reader.fetch(9, None)
    if state == "Empty":
        records = [logged.record for logged in await log.logged()]
        gone = [type(record.key).__name__ for record in records if record.value is None]
        offsets = [name for name in gone if name == "OffsetCommitKey"]
        run.saw("tombstones", gone)
        run.expect(
            gone[3:5] == offsets == ["OffsetCommitKey"] * 2, f"a member's, offsets', the group's: {gone}"
        )
        await ask(run, DeleteGroupsRequest(groups_names=[run.group]), version, "twice")


@scenario("A69", "9 expiry: consumer groups", on="small")
async def offsets_of_topics_that_members_read_outlive_their_time(run: Run) -> None:
    """They were committed with an end, before members came: those of the topic that is read by none go."""
    reader, alice = Actor(run, "reader"), NewMember(run, "alice")
    await reader.commit(4, {(TOPIC, 0): 1, (OTHER_TOPIC, 0): 2}, retention_time_ms=3_000)
    await alice.beat()

    async def until_left(*offsets: int) -> None:
        wanted = reader.fetch_request(9, [(TOPIC, 0), (OTHER_TOPIC, 0)])

        def are_left(reply: Any) -> bool:
            return [topic.partitions[0].committed_offset for topic in reply.groups[0].topics] == list(offsets)

        await eventually(run, wanted, 9, are_left)

    await until_left(1, -1)
    await asyncio.sleep(2.5)  # Two rounds of the sweep.
    await reader.fetch(9, None, note="what is read is kept")
    await alice.leave()
    await until_left(-1, -1)
    await until_absent(run)
    await listed(run, 5)


async def until_absent(run: Run) -> None:
    """Wait for the group to be gone, and describe it."""
    request = ConsumerGroupDescribeRequest(group_ids=[run.group])
    await eventually(run, request, 1, lambda reply: bool(reply.groups[0].error_code))
    await describe_consumers(run)


@scenario("A69", "9 expiry: consumer groups", on="small")
async def offsets_of_a_consumer_group_expire_after_their_commits(run: Run) -> None:
    """Not after the group lost its members, as those of classic groups do: that was half of the time later."""
    alice, reader = NewMember(run, "alice"), Actor(run, "reader")
    await alice.beat()
    await commit(alice, 9, 0, "its epoch", 0)
    await asyncio.sleep(RETENTION_S / 2)
    await alice.beat(note="lives")
    await commit(alice, 9, 0, "later", 1)
    await alice.leave()
    await asyncio.sleep(RETENTION_S / 2 + 8)
    await reader.fetch(9, None, note="the first went")
    await describe_consumers(run)


@scenario("A69", "9 expiry: consumer groups", on="small")
async def a_consumer_group_without_members_and_offsets_goes(run: Run) -> None:
    alice = NewMember(run, "alice")
    await alice.beat()
    await asyncio.sleep(2.5)  # Two rounds of the sweep.
    await describe_consumers(run)
    await alice.leave()
    await until_absent(run)


# Described and listed.


def partitions_of(assignment: Any) -> int:
    return sum(len(topic.partitions) for topic in assignment.topic_partitions)


@scenario("A70", "9 ConsumerGroupDescribe: both kinds", versions=DESCRIBE_CONSUMERS)
async def what_members_have_and_are_to_have_is_described(run: Run, version: int) -> None:
    alice, bob = NewMember(run, "alice", instance_id="one"), NewMember(run, "bob")
    (carol,) = cast(run, "carol")

    async def described(state: str, assignor: str = "range") -> Any:
        (group,) = (await describe_consumers(run, version)).groups
        seen = (group.group_state, group.assignor_name)
        run.expect(seen == (state, assignor), f"{(state, assignor)}, not {seen}")
        return group

    await alice.beat(rack_id="r", server_assignor="range")
    await described("Stable")
    await bob.beat(subscribed_topic_regex="nothing.+")
    await described("Assigning")
    await asyncio.sleep(INTERVAL_S)
    await alice.beat(note="is to give up some")
    group = await described("Reconciling")
    (own,) = (member for member in group.members if member.member_id == alice.member_id)
    has, is_due = partitions_of(own.assignment), partitions_of(own.target_assignment)
    run.expect((has, is_due) == (3, 2), f"has what it is to give up: {(has, is_due)}")
    await alice.own("gave it up")
    carol.member_id = "carol-id"
    await carol.join()
    group = await described("Assigning")
    if version >= 1:
        types = {member.member_id: member.member_type for member in group.members}
        run.expect(types == {"alice-id": 1, "bob-id": 1, "carol-id": 0}, f"classic and others: {types}")
    await carol.leave()
    await alice.leave()
    await bob.leave()
    await described("Empty", "uniform")
    asked = ConsumerGroupDescribeRequest(group_ids=[run.group], include_authorized_operations=True)
    await ask(run, asked, version, "with operations")


@scenario("A70", versions=DESCRIBE_CONSUMERS)
async def partitions_of_topics_that_are_gone_are_not_described(run: Run, version: int) -> None:
    topic = await make_topic(run)
    alice = NewMember(run, "alice", topics=(TOPIC, topic))
    await alice.beat()
    await describe_consumers(run, version)
    await delete_topic(run, topic)
    request = ConsumerGroupDescribeRequest(group_ids=[run.group])

    def is_left_out(reply: Any) -> bool:
        return partitions_of(reply.groups[0].members[0].assignment) == 3

    await eventually(run, request, 1, is_left_out)
    await describe_consumers(run, version)


@scenario("A70", versions=DESCRIBE_CONSUMERS)
async def what_is_no_consumer_group_is_not_described_as_one(run: Run, version: int) -> None:
    (carol,) = cast(run, "carol")
    simple, absent = f"{run.group}-simple", f"{run.group}-absent"
    await carol.commit(group_id=simple)
    await stable(run, carol)
    reply = await describe_consumers(run, version, run.group, simple, absent, "", absent)
    for group in reply.groups:
        error = ErrorCode.INVALID_GROUP_ID if group.group_id == "" else NOT_FOUND
        run.expect((group.error_code, group.group_state) == (error, ""), f"{error} without a state: {group}")
    await ask(run, ConsumerGroupDescribeRequest(group_ids=[]), version, "nothing")


@scenario("A72", "9 DescribeGroups: of a consumer group", versions=DESCRIBE)
async def a_consumer_group_is_dead_to_classic_tools(run: Run, version: int) -> None:
    (carol,) = cast(run, "carol")
    simple = f"{run.group}-simple"
    await carol.commit(group_id=simple)
    alice = await consumer_scene(run, "Stable")
    for note in ("with a member", "Empty"):
        reply = await ask(run, DescribeGroupsRequest(groups=[run.group, simple]), version, note)
        found = {group.group_id: (group.group_state, group.error_code) for group in reply.groups}
        right = {run.group: ("Dead", NOT_FOUND if version >= 6 else 0), simple: ("Empty", 0)}
        run.expect(found == right, f"{right}, not {found}")
        if note == "with a member":
            await alice.leave()


@scenario("A73", "9 ListGroups: consumer groups", versions=LIST, choices=CONSUMER_STATES)
async def consumer_groups_are_listed(run: Run, version: int, state: str) -> None:
    await consumer_scene(run, state)
    (group,) = await listed(run, version)
    seen = (group.protocol_type, group.group_state, group.group_type)
    right = ("consumer", state if version >= 4 else "", "consumer" if version >= 5 else "")
    run.expect(seen == right, f"{right}, not {seen}")


@scenario("A73", versions=LIST[4:], choices=CONSUMER_STATES)
async def consumer_groups_are_listed_by_state(run: Run, version: int, state: str) -> None:
    await consumer_scene(run, state)
    others = [each for each in (*CONSUMER_STATES, "Dead", "PreparingRebalance") if each != state]
    for states, is_there in (
        ([state], True),
        ([state.lower()], True),
        ([f"\t{state.upper()} "], True),
        (["Dead", state], True),
        (others, False),
        (["", "Stabel"], False),
        ([], True),
    ):
        groups = await listed(run, version, f"{states}", states_filter=states)
        run.expect(len(groups) == is_there, f"{states}: {len(groups)} groups")
    if version < 5:
        return
    for types, is_there in (
        (["consumer"], True),
        (["CONSUMER"], True),
        (["classic", "Consumer"], True),
        (["classic"], False),
        (["share", "streams", "unknown", ""], False),
        ([" consumer "], False),
    ):
        groups = await listed(run, version, f"{types}", types_filter=types)
        run.expect(len(groups) == is_there, f"{types}: {len(groups)} groups")
    await listed(run, version, "both", types_filter=["consumer"], states_filter=[state])
    await listed(run, version, "one differs", types_filter=["classic"], states_filter=[state])


# The feature.


@scenario("A76", on="delayed", in_turn=GROUP_VERSION)
async def there_are_consumer_groups_while_the_feature_is_on(run: Run) -> None:
    """No other scenario on this broker may have members of the new protocol meanwhile."""
    alice = NewMember(run, "alice")
    joining = ConsumerGroupHeartbeatRequest(group_id=f"{run.group}-other", member_id="x", member_epoch=1)

    async def finalized(level: int, kind: int, error: int) -> None:
        update = FeatureUpdateKey(feature=GROUP_VERSION, max_version_level=level, upgrade_type=kind)
        await ask(run, UpdateFeaturesRequest(feature_updates=[update]), 2, f"to {level}")
        await eventually(run, joining, 1, lambda reply: reply.error_code == error)

    await shown_level(run, 1)
    await alice.beat()
    try:
        await finalized(0, SAFE_DOWNGRADE, UNSUPPORTED)
        await shown_level(run, 0)
        for version in BEAT:
            await alice.beat(version, UNSUPPORTED, "off")
            await alice.beat(version, UNSUPPORTED, "off, joins", member_id="other", member_epoch=0)
            await alice.beat(version, UNSUPPORTED, "off, blanks", group_id="", member_id="")
        for version in DESCRIBE_CONSUMERS:
            reply = await describe_consumers(run, version, run.group, "")
            errors = [group.error_code for group in reply.groups]
            run.expect(errors == [UNSUPPORTED] * 2, f"35 for each: {errors}")
        await listed(run, 5)
    finally:
        await finalized(1, UPGRADE, NOT_FOUND)
    await alice.beat(note="as before")


async def shown_level(run: Run, level: int) -> None:
    """Expect ApiVersions to show this level; 0 is not shown."""
    for version in (3, 4):
        hello = ApiVersionsRequest(client_software_name="c", client_software_version="1")
        connection = await run.free_connection("admin")
        reply = await connection.send(hello, version)
        served = [each for each in reply.supported_features if each.name == GROUP_VERSION]  # Not in v3.
        shown = [each for each in reply.finalized_features if each.name == GROUP_VERSION]
        run.saw(f"{GROUP_VERSION} in v{version}", [*served, *shown])
        levels = [(each.min_version_level, each.max_version_level) for each in shown]
        run.expect(levels == [(level, level)] * (level > 0), f"at {level}: {levels}")
