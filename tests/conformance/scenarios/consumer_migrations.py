"""Classic groups that become consumer groups as a member of the new protocol joins them, and those that do not."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from protocol.errors import ErrorCode
from tests.conformance.actors import OTHER_TOPIC, TOPIC, Actor
from tests.conformance.classic_members import assigned, classic, classic_group, subscribed
from tests.conformance.consumer_scenes import settle, shown, target_at_once, until_shown
from tests.conformance.group_log import GroupLog, types
from tests.conformance.new_members import BEAT, GROUP_VERSION, NewMember
from tests.conformance.registry import BOTH, Ending, scenario
from tests.conformance.run import Run
from tests.conformance.scenes import cast, completing, rejoin_all, stable, undisturbed
from tests.conformance.topic_scenes import delete_topic, make_topic

REFUSED: Final = ErrorCode.GROUP_ID_NOT_FOUND
UNREADABLE: Final = b"\x00"
CUSTOM: Final = assigned(TOPIC, 0, user_data=b"mine")


@scenario("9 migration: up and down", "A55", "A62", versions=BEAT)
async def a_classic_group_is_upgraded_and_comes_back(run: Run, version: int) -> None:
    (carol,) = await classic_group(run, {"carol": assigned(TOPIC, 0, 1, 2)})
    new = NewMember(run, "new")
    await new.beat(version, note="upgrades")
    await shown(run)
    await carol.heartbeat(error=ErrorCode.REBALANCE_IN_PROGRESS)
    await carol.join()
    await carol.sync()
    await new.beat(version, error=None, note="what is free by now")
    await shown(run)
    await new.leave(version)
    await run.describe("PreparingRebalance")
    await carol.heartbeat(error=ErrorCode.REBALANCE_IN_PROGRESS)
    await carol.join()
    await carol.sync(assignments={carol.member_id: assigned(TOPIC, 0)})
    await run.describe("Stable")


WRONG: Final[dict[str, tuple[str, bytes, bytes]]] = {
    "another type": ("connect", subscribed(TOPIC), assigned(TOPIC, 0)),
    "another type, unreadable": ("connect", UNREADABLE, UNREADABLE),
    "unreadable assignment": ("consumer", subscribed(TOPIC), UNREADABLE),
    "unreadable subscription": ("consumer", UNREADABLE, assigned(TOPIC, 0)),
    "custom assignor": ("consumer", subscribed(TOPIC), CUSTOM),
    "custom assignor, unreadable subscription": ("consumer", UNREADABLE, CUSTOM),
}
"""Of a member the protocol type, what it subscribes to and what it is assigned, for which it is not upgraded."""


@scenario("9 migration: refused", "A54", versions=BEAT, choices=WRONG, thin=True)
async def a_classic_group_that_cannot_be_upgraded(run: Run, version: int, wrong: str) -> None:
    protocol_type, metadata, assignment = WRONG[wrong]
    fields: dict[str, Any] = {"protocol_type": protocol_type, "protocols": [("range", metadata)]}
    (carol,) = await classic_group(run, {"carol": assignment}, **fields)
    new = NewMember(run, "new")
    await new.beat(version, REFUSED)
    await new.beat(version, REFUSED, member_epoch=1)
    await new.leave(version, error=REFUSED)
    await undisturbed(run, carol)


@scenario("A54", on="delayed", in_turn=GROUP_VERSION)
async def a_classic_group_that_is_too_large_is_not_upgraded(run: Run) -> None:
    """Two members are as many as there may be: such a group is upgraded, and then has no room (81)."""
    carol, dave = await classic_group(run, {"carol": UNREADABLE, "dave": b""})
    new = NewMember(run, "new")
    await new.beat(error=REFUSED, note="malformed")
    erin = Actor(run, "erin")
    await erin.get_id()
    erins = await erin.send_join()
    await run.until("PreparingRebalance", 3)
    await new.beat(error=REFUSED, note="too large, and malformed")
    carols = await carol.send_join()
    await dave.leave()
    await carol.joined(carols)
    await erin.joined(erins)
    await carol.sync(assignments={carol.member_id: assigned(TOPIC, 0)})
    await erin.sync()
    await new.beat(error=ErrorCode.GROUP_MAX_SIZE_REACHED, note="just not too large")
    await undisturbed(run, carol, erin)


@scenario(
    "A54",
    "9 classic members: refused when disabled",
    on="delayed",
    in_turn=GROUP_VERSION,
    restarts=(Ending.TERM,),
)
async def all_migration_is_disabled(run: Run) -> None:
    """An upgrade is refused before all else then, and classic members do not come in; Empty groups change."""
    (carol,) = await classic_group(run, {"carol": UNREADABLE})
    await run.restarted()
    new = NewMember(run, "new")
    await new.beat(error=REFUSED, note="disabled, and malformed")
    await carol.leave()
    await new.beat(note="the group is empty")
    await carol.join(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id="")
    await carol.join(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, protocol_type="connect", member_id="")
    await new.leave()
    await shown(run)
    await carol.join(error=ErrorCode.MEMBER_ID_REQUIRED, member_id="")


@scenario("A54", "A62", restarts=(Ending.KILL,), on="restarted")
async def groups_are_downgraded_only(run: Run) -> None:
    """Afterwards no classic group is upgraded, and a consumer group becomes a classic one."""
    new, (carol,) = NewMember(run, "new"), cast(run, "carol")
    await stable(run, carol)
    other = f"{run.group}-other"
    await target_at_once(run, other)
    dave = classic(run, "dave")
    await new.beat(group_id=other)
    await dave.join(group_id=other)
    await run.restarted()
    late = NewMember(run, "late")
    await late.beat(error=REFUSED, note="disabled")
    await new.leave(group_id=other)
    await dave.heartbeat(error=None, group_id=other)
    await dave.join(group_id=other)
    await late.beat(error=REFUSED, note="disabled", group_id=other)
    await undisturbed(run, carol)


@scenario("A55", "A56")
async def a_group_is_upgraded_in_the_midst_of_a_rebalance(run: Run) -> None:
    """What members had is what they have, but for a topic that is gone; who just joined has nothing."""
    topic, gone = await make_topic(run, "a", 3), await make_topic(run, "b", 1)
    metadata = subscribed(topic, gone)
    fields: dict[str, Any] = {"protocols": [("range", metadata)]}
    assignments = {"carol": assigned(topic, 0), "dave": assigned(topic, 1, others={gone: [0]})}
    carol, dave = await classic_group(run, assignments, **fields)
    erin = Actor(run, "erin", **fields)
    erins = await erin.send_enter()
    await run.until("PreparingRebalance", 3)
    await delete_topic(run, gone)
    await make_topic(run, "later", 1)  # When this is there, the coordinator has seen that the other is gone.
    new = NewMember(run, "new", (OTHER_TOPIC,))
    await new.beat(note="upgrades")
    await run.answer(erins, ErrorCode.REBALANCE_IN_PROGRESS)
    group = await shown(run)
    run.expect((group.group_epoch, group.assignment_epoch) == (3, 3), "a target at once")
    for member in (carol, dave):
        await member.heartbeat(error=ErrorCode.REBALANCE_IN_PROGRESS, note="there is a new target")
    await erin.heartbeat(error=None, generation_id=1)


@scenario("A56")
async def what_waits_in_sync_is_sent_back_by_an_upgrade(run: Run) -> None:
    topic = await make_topic(run)
    carol, dave = cast(run, "carol", "dave")
    carol.protocols, dave.protocols = [("range", subscribed(TOPIC))], [("range", subscribed(OTHER_TOPIC))]
    await completing(run, carol, dave)
    syncing = await dave.send_sync()
    await run.parked(syncing)
    new = NewMember(run, "new", (topic,))
    await new.beat(note="upgrades")
    await run.answer(syncing, ErrorCode.REBALANCE_IN_PROGRESS)
    group = await shown(run)
    having = [member.client_id for member in group.members if member.assignment.topic_partitions]
    run.expect(having == ["new"], "the others were not assigned anything yet")
    for member in (carol, dave):
        await member.heartbeat(error=ErrorCode.REBALANCE_IN_PROGRESS)


@scenario("A56")
async def sessions_begin_anew_with_an_upgrade(run: Run) -> None:
    """As long as they were: carol's has passed two thirds when the group is upgraded."""
    (carol,) = await classic_group(run, {"carol": assigned(TOPIC, 0, 1, 2)}, session_timeout_ms=3_000)
    begun = time.monotonic()
    await asyncio.sleep(2.0)
    new = NewMember(run, "new")
    await new.beat(note="upgrades")
    await asyncio.sleep(begun + 4.0 - time.monotonic())
    group = await shown(run)
    run.expect(len(group.members) == 2, "it began anew")
    await until_shown(run, lambda group: len(group.members) == 1)
    run.expect(4.5 <= time.monotonic() - begun <= 7.0, "it is as long as before")
    await carol.heartbeat(error=ErrorCode.UNKNOWN_MEMBER_ID)


@scenario("A56")
async def a_join_that_is_refused_as_it_upgrades(run: Run) -> None:
    """Its expression is none: the group stays as it is, but Kafka has answered what waits in it."""
    carol, dave = cast(run, "carol", "dave")
    await completing(run, carol, dave)
    syncing = await dave.send_sync()
    await run.parked(syncing)
    new = NewMember(run, "new")
    await new.beat(error=ErrorCode.INVALID_REGULAR_EXPRESSION, subscribed_topic_regex="(")
    await run.answer_if_any(syncing)
    await run.describe("CompletingRebalance")
    await carol.sync(assignments={dave.member_id: b"dave"})
    await dave.sync()
    await undisturbed(run, carol, dave)


@scenario("A57", on="delayed", in_turn=GROUP_VERSION)
async def a_group_in_its_first_rebalance_is_not_upgraded(run: Run) -> None:
    carol = Actor(run, "carol")
    await carol.get_id()
    joining = await carol.send_join()
    await run.until("PreparingRebalance", 1)
    new = NewMember(run, "new")
    await new.beat(error=None)
    await run.answer_if_any(joining, within_s=0.3)


@scenario("A57")
async def a_group_that_is_about_to_change_its_protocol_is_not_upgraded(run: Run) -> None:
    """The newcomer does not offer the protocol of the last generation."""
    carol, dave = cast(run, "carol", "dave")
    carol.protocols = [(name, subscribed(TOPIC)) for name in ("range", "roundrobin")]
    dave.protocols = [("roundrobin", subscribed(TOPIC))]
    await completing(run, carol)
    await carol.sync(assignments={carol.member_id: assigned(TOPIC, 0)})
    joining = await dave.send_enter()
    await run.until("PreparingRebalance", 2)
    new = NewMember(run, "new")
    await new.beat(error=None)
    reply = await run.answer_if_any(joining)
    await run.describe("PreparingRebalance")
    if reply is not None:
        joining = await dave.send_join()
    await carol.join()
    await dave.joined(joining)
    run.expect(carol.protocol_name == "roundrobin", "the protocol has changed")
    dealt = {carol.member_id: assigned(TOPIC, 0, 1), dave.member_id: assigned(TOPIC, 2)}
    await carol.sync(assignments=dealt)
    await dave.sync()
    await new.beat(note="upgrades")


@scenario("A57")
async def a_group_with_a_partition_that_two_have_is_not_upgraded(run: Run) -> None:
    twice = {"carol": assigned(TOPIC, 0, 1), "dave": assigned(TOPIC, 1, 2)}
    members = await classic_group(run, twice)
    new = NewMember(run, "new")
    await new.beat(error=ErrorCode.UNKNOWN_SERVER_ERROR)
    await undisturbed(run, *members)


TABLE: Final = ("AaAaAa", "kilo", "BBBBBB", "lima", "AaBBAa")
"""Three of them share a bucket in every table."""


@scenario("A55", "A32", "A33", "A51", "A63")
async def upgraded_members_stand_in_the_order_of_tables(run: Run) -> None:
    """They come from a consumer group, where the ids are their own: who keeps what depends on these alone."""
    await target_at_once(run)
    topic = await make_topic(run, partitions=17)
    metadata = subscribed(topic, version=0)
    new = NewMember(run, "new", (topic,))
    await new.beat()
    members = [classic(run, name, metadata, member_id=name) for name in TABLE]
    for member in members:
        await member.join()
    await shown(run)
    log = await GroupLog.of(run)
    await new.leave()
    down = types(await log.written("the downgrade"))
    run.expect(
        down == [*[-8] * 6, *[-7] * 6, -6, *[-5] * 6, -4, -3, 2], f"tombstones, then the group: {down}"
    )
    await run.describe("PreparingRebalance")
    await rejoin_all(run, *members)
    (leader,) = [member for member in members if member.leads]
    run.saw("the leader", leader.name)
    syncs = [await member.send_sync() for member in members if member is not leader]
    dealt = {name: assigned(topic, *range(index, 17, len(TABLE))) for index, name in enumerate(TABLE)}
    await leader.sync(assignments=dealt)
    for asked in syncs:
        await run.answer(asked, ErrorCode.NONE)
    late = NewMember(run, "late", (topic,))
    await log.written("a generation")
    await late.beat(note="upgrades")
    up = types(await log.written("the upgrade"))
    run.expect(up[:18] == [-2, *[5] * 5, 3, *[7] * 5, 6, *[8] * 5], f"the group of before: {up}")
    await shown(run)


@scenario("A55", on="restarted", restarts=BOTH)
async def an_upgraded_group_is_kept(run: Run) -> None:
    """The classic group is gone with its record, and all of the other is there, its classic member included."""
    (carol,) = await classic_group(run, {"carol": assigned(TOPIC, 0, 1, 2)})
    new = NewMember(run, "new")
    await new.beat(note="upgrades")
    await shown(run)
    await run.restarted()
    await shown(run)
    await run.describe("Dead")
    await carol.heartbeat(error=ErrorCode.REBALANCE_IN_PROGRESS)
    await carol.join()
    await carol.sync()
    await settle(new)
    await shown(run)


@scenario("9 migration: empty groups", "A54", "A64", "A65", versions=BEAT)
async def groups_without_members_change_their_kind(run: Run, version: int) -> None:
    (carol,) = cast(run, "carol")
    await stable(run, carol)
    await carol.commit()
    await carol.leave()
    new = NewMember(run, "new")
    await new.beat(version)
    await shown(run)
    await carol.fetch()
    await new.leave(version)
    await shown(run)
    carol.member_id, carol.generation_id = "", -1
    await stable(run, carol)
    await run.describe("Stable")
    await shown(run)
    await carol.fetch()
