"""Offsets of consumer groups: who may commit and fetch them, by epochs (docs/kafka.md A65 to A68, KIP-1251)."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from protocol.errors import ErrorCode
from tests.conformance.actors import COMMIT, FETCH, OTHER_TOPIC, PARTITIONS, TOPIC, Actor, Offsets
from tests.conformance.classic_members import assigned
from tests.conformance.new_members import NewMember
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.scenarios.transactional_offsets import ENDS, TXN_COMMIT, Committer
from tests.conformance.scenes import cast, completing, stable

NONE: Final = ErrorCode.NONE
UNKNOWN: Final = ErrorCode.UNKNOWN_MEMBER_ID
STALE: Final = ErrorCode.STALE_MEMBER_EPOCH
OLD: Final = ErrorCode.ILLEGAL_GENERATION
MISSING: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
TOO_LARGE: Final = ErrorCode.OFFSET_METADATA_TOO_LARGE
WITH_EPOCHS: Final = range(9, 11)
"""Versions of OffsetCommit that members of the new protocol may use, and of OffsetFetch that name one."""
NAMED_TXN_COMMIT: Final = range(3, 6)
ALL: Final = tuple((topic, partition) for topic in (TOPIC, OTHER_TOPIC) for partition in range(PARTITIONS))
INTERVAL_S: Final = 1.1
"""A little more than the time between two targets."""


def named(member_id: str, epoch: int) -> dict[str, Any]:
    """The fields of an OffsetCommit that name its member."""
    return {"member_id": member_id, "generation_id_or_member_epoch": epoch}


async def commit(
    member: NewMember,
    version: int,
    error: int | list[int] | None,
    note: str,
    *partitions: int,
    **changed: Any,
) -> None:
    """Commit offsets of these partitions in the member's name and epoch, or another one."""
    offsets: Offsets = {(TOPIC, partition): 100 + partition for partition in partitions or (0,)}
    actor = Actor(member.run, member.name, instance_id=member.instance_id)
    given = named(member.member_id, member.epoch) | {"offsets": offsets} | changed
    await actor.commit(version, errors=error, note=note, **given)


def partitions_of(member: NewMember) -> list[int]:
    return list(member.owned.get(member.run.topic_ids[TOPIC], ()))


async def shared(run: Run) -> tuple[NewMember, NewMember]:
    """Alice and bob at epoch 3: what alice has was hers in epoch 2, what bob has he got in epoch 3."""
    alice, bob = NewMember(run, "alice"), NewMember(run, "bob")
    await alice.beat()
    await bob.beat()
    await asyncio.sleep(INTERVAL_S)
    await alice.beat(note="is to give up some")
    await alice.own("gave it up")
    await bob.beat(note="gets it")
    both = sorted(partitions_of(alice) + partitions_of(bob))
    run.expect((alice.epoch, bob.epoch, both) == (3, 3, [0, 1, 2]), f"shared in epoch 3: {alice}, {bob}")
    return alice, bob


@scenario("A65", choices=("classic", "consumer"))
async def offsets_survive_every_change_of_a_groups_kind(run: Run, first: str) -> None:
    """A group is upgraded and downgraded, and replaced by one of the other kind when it is Empty."""
    (carol,) = cast(run, "carol")
    new = NewMember(run, "new")
    offsets: Offsets = {(TOPIC, 0): 5, (OTHER_TOPIC, 1): 6}
    await carol.commit(offsets=offsets, metadata="kept", note="a simple group")
    if first == "consumer":
        await new.beat(note="of a simple group")
        await carol.fetch(offsets=ALL)
        await new.leave()
    await completing(run, carol)
    await carol.sync(assignments={carol.member_id: assigned(TOPIC, 0, 1, 2)}, note="a classic group")
    await carol.fetch(offsets=ALL)
    await new.beat(member_epoch=0, note="upgrades")
    await carol.fetch(offsets=ALL)
    await new.leave()
    await run.describe("PreparingRebalance")
    await carol.fetch(offsets=ALL, note="downgraded")
    await carol.join()
    await carol.leave()
    await new.beat(member_epoch=0, note="takes the place of an Empty classic group")
    await carol.fetch(offsets=ALL)
    await new.leave()
    carol.member_id, carol.generation_id = "", -1
    await stable(run, carol)
    reply = await carol.fetch(offsets=ALL, note="a classic group took the place of an Empty consumer group")
    found = [each.committed_offset for topic in reply.groups[0].topics for each in topic.partitions]
    run.expect(found == [5, -1, -1, -1, 6, -1], f"as they were committed: {found}")


@scenario("A65", choices=ENDS)
async def offsets_of_a_transaction_survive_a_change_of_the_groups_kind(run: Run, outcome: str) -> None:
    (carol,) = cast(run, "carol")
    producer, new = Committer(run), NewMember(run, "new")
    await producer.ready(5)
    await producer.commit(5, {(TOPIC, 0): 5, (OTHER_TOPIC, 1): 6}, note="a simple group")
    await new.beat(note="takes its place")
    await carol.fetch(offsets=ALL, require_stable=True, note="open")
    await new.leave()
    await stable(run, carol)
    await carol.fetch(offsets=ALL, require_stable=True, note="open, and classic again")
    await producer.finish(5, outcome)
    await carol.fetch(offsets=ALL, require_stable=True, note="ended")


@scenario("A66", "9 OffsetCommit: by epochs", versions=COMMIT)
async def a_member_commits_in_its_epoch(run: Run, version: int) -> None:
    alice, reader = NewMember(run, "alice"), Actor(run, "reader")
    await alice.beat()
    await alice.leave()
    for note, error, by in (
        ("on its own", NONE, named("", -1)),
        ("a member id, no epoch", NONE, named("x", -1)),
        ("epoch -3", NONE, named("", -3)),
        ("an epoch", UNKNOWN, named("", 0)),
        ("a former member", UNKNOWN, named(alice.member_id, 2)),
    ):
        await reader.commit(version, errors=error, note=f"no members, {note}", **by)
    await asyncio.sleep(INTERVAL_S)  # Or a slow moment decides on whether there is a target at once.
    await alice.beat(member_epoch=0)
    mine, epoch = alice.member_id, alice.epoch
    old = ErrorCode.UNSUPPORTED_VERSION if version < WITH_EPOCHS[0] else None
    for note, error, by in (
        ("its epoch", old or NONE, named(mine, epoch)),
        ("a newer one", old or STALE, named(mine, epoch + 1)),
        ("one before it had anything", old or STALE, named(mine, epoch - 1)),
        ("epoch 0", old or STALE, named(mine, 0)),
        ("no epoch", old or STALE, named(mine, -1)),
        ("epoch -2", old or STALE, named(mine, -2)),
        ("not a member", UNKNOWN, named("x", epoch)),
        ("on its own", UNKNOWN, named("", -1)),
        ("on its own, epoch -2", UNKNOWN, named("", -2)),
        ("not a member, no epoch", UNKNOWN, named("x", -1)),
    ):
        await reader.commit(version, {(TOPIC, 1): 7}, error, note, **by)
    await reader.fetch(offsets=ALL)
    await alice.beat(note="undisturbed")


@scenario("A66", "9 OffsetCommit: by older epochs", versions=WITH_EPOCHS)
async def a_member_commits_what_it_had_in_an_older_epoch(run: Run, version: int) -> None:
    alice, bob = await shared(run)
    (kept, *more), (given, *_) = partitions_of(alice), partitions_of(bob)
    await commit(alice, version, NONE, "had since", kept, *more, generation_id_or_member_epoch=2)
    await commit(alice, version, STALE, "another's now", given, generation_id_or_member_epoch=2)
    for order in ((kept, given), (given, kept)):
        await commit(alice, version, STALE, f"one of both {order}", *order, generation_id_or_member_epoch=2)
    await commit(alice, version, STALE, "before it had it", kept, generation_id_or_member_epoch=1)
    await commit(bob, version, STALE, "given since", given, generation_id_or_member_epoch=2)
    await commit(bob, version, NONE, "its own epoch, another's", kept)
    await commit(bob, version, NONE, "its own", given)
    other: Offsets = {(TOPIC, kept): 7, (OTHER_TOPIC, 0): 7}
    await commit(alice, version, STALE, "another topic", offsets=other, generation_id_or_member_epoch=2)
    absent: Offsets = {(TOPIC, PARTITIONS): 8, (TOPIC, kept): 8}
    await commit(
        alice, version, [MISSING, NONE], "not there", offsets=absent, generation_id_or_member_epoch=2
    )
    await one_is_too_long(alice, version, kept, given)
    await Actor(run, "reader").fetch(offsets=ALL)


async def one_is_too_long(alice: NewMember, version: int, kept: int, given: int) -> None:
    """Commit in an older epoch, with metadata too long for the one partition that is not the member's."""
    actor = Actor(alice.run, alice.name)
    offsets: Offsets = {(TOPIC, given): 9, (TOPIC, kept): 9}
    request = actor.commit_request(version, offsets, **named(alice.member_id, 2))
    request.topics[0].partitions[0].committed_metadata = "x" * 5_000
    reply = await alice.run.answer(await alice.run.send(alice.name, request, version, "one too long"))
    errors = [partition.error_code for partition in reply.topics[0].partitions]
    alice.run.expect(errors == [TOO_LARGE, NONE], f"each its own: {errors}")


@scenario("A66", "9 OffsetCommit: by older epochs", versions=WITH_EPOCHS)
async def a_member_commits_what_it_is_to_give_up(run: Run, version: int) -> None:
    """The epoch rises in between, for a topic that is not there: alice keeps all, and stands at epoch 3."""
    alice, bob = NewMember(run, "alice"), NewMember(run, "bob")
    await alice.beat()
    await asyncio.sleep(INTERVAL_S)
    await alice.beat(subscribed_topic_names=[TOPIC, "nowhere"])
    run.expect((alice.epoch, partitions_of(alice)) == (3, [0, 1, 2]), f"all in epoch 3: {alice}")
    await bob.beat()
    await asyncio.sleep(INTERVAL_S)
    await alice.beat(note="is to give up some")
    (doomed, *_) = {0, 1, 2}.difference(partitions_of(alice))
    run.expect(alice.epoch == 3, "still in its epoch")
    await commit(alice, version, NONE, "to be given up", doomed, generation_id_or_member_epoch=2)
    await commit(alice, version, STALE, "before it had it", doomed, generation_id_or_member_epoch=1)
    await commit(alice, version, NONE, "all", 0, 1, 2, generation_id_or_member_epoch=2)
    await alice.own("gave it up")
    await commit(alice, version, STALE, "given up", doomed, generation_id_or_member_epoch=2)
    await commit(alice, version, STALE, "given up, the last epoch", doomed, generation_id_or_member_epoch=3)
    await commit(alice, version, NONE, "given up, its epoch", doomed)
    await Actor(run, "reader").fetch(offsets=ALL)


@scenario("A66", "9 OffsetCommit: of static members", versions=WITH_EPOCHS)
async def a_static_member_that_left_for_now_commits(run: Run, version: int) -> None:
    alice = NewMember(run, "alice", instance_id="one")
    await alice.beat()
    await commit(alice, version, NONE, "its epoch")
    await commit(alice, version, NONE, "another instance", group_instance_id="two")
    await commit(alice, version, NONE, "no instance", group_instance_id=None)
    await commit(alice, version, UNKNOWN, "its instance, no id", member_id="")
    await alice.beat(member_epoch=-2, note="leaves for now")
    for epoch in (2, 1, 0, -1):
        await commit(alice, version, STALE, f"gone, epoch {epoch}", generation_id_or_member_epoch=epoch)
    await commit(alice, version, NONE, "gone, epoch -2", generation_id_or_member_epoch=-2)
    await commit(alice, version, STALE, "gone, epoch -3", generation_id_or_member_epoch=-3)
    await Actor(run, "reader").commit(version, errors=UNKNOWN, note="on its own", **named("", -1))
    await alice.beat(member_epoch=0, note="is back")
    await commit(alice, version, NONE, "back")
    await commit(alice, version, STALE, "back, epoch -2", generation_id_or_member_epoch=-2)
    await Actor(run, "reader").fetch(offsets=ALL)


async def classic_among_others(run: Run) -> tuple[Actor, int, int]:
    """Carol, a classic member in generation 2; what she has had since generation 1, and what she gave up."""
    (carol,) = cast(run, "carol")
    await completing(run, carol)
    await carol.sync(assignments={carol.member_id: assigned(TOPIC, 0, 1, 2)})
    new = NewMember(run, "new")
    await new.beat(note="upgrades")
    await carol.heartbeat(error=ErrorCode.REBALANCE_IN_PROGRESS)
    await carol.join()
    await carol.sync()
    await new.beat(note="what is free by now")
    run.expect((carol.generation_id, new.epoch) == (2, 2), f"both at 2: {carol}, {new}")
    (given, *_) = partitions_of(new)
    (kept, *_) = {0, 1, 2}.difference(partitions_of(new))
    return carol, kept, given


@scenario("A66", "9 OffsetCommit: of classic members", versions=COMMIT)
async def a_classic_member_commits_in_a_consumer_group(run: Run, version: int) -> None:
    carol, kept, given = await classic_among_others(run)
    mine = carol.member_id
    for note, error, by, partitions in (
        ("its generation", NONE, named(mine, 2), (kept,)),
        ("its generation, another's", NONE, named(mine, 2), (given,)),
        ("a newer one", OLD, named(mine, 3), (kept,)),
        ("an older one, had since", NONE, named(mine, 1), (kept,)),
        ("an older one, given up", OLD, named(mine, 1), (given,)),
        ("an older one, one of both", OLD, named(mine, 1), (kept, given)),
        ("before it had it", OLD, named(mine, 0), (kept,)),
        ("no generation", OLD, named(mine, -1), (kept,)),
        ("not a member", UNKNOWN, named("x", 2), (kept,)),
    ):
        offsets: Offsets = {(TOPIC, partition): 7 for partition in partitions}
        await carol.commit(version, offsets, error, note, **by)
    await carol.fetch(offsets=ALL)


@scenario("A67", "9 TxnOffsetCommit: of members", versions=NAMED_TXN_COMMIT)
async def a_member_commits_within_a_transaction(run: Run, version: int) -> None:
    alice, bob = await shared(run)
    (kept, *_), (given, *_) = partitions_of(alice), partitions_of(bob)
    producer, mine = Committer(run), alice.member_id
    await producer.ready(version)
    for note, error, member_id, epoch, partitions in (
        ("unchecked", NONE, "", -1, (kept,)),
        ("its epoch", NONE, mine, 3, (kept, given)),
        ("a newer one", OLD, mine, 4, (kept,)),
        ("an older one, had since", NONE, mine, 2, (kept,)),
        ("an older one, another's", OLD, mine, 2, (given,)),
        ("an older one, one of both", OLD, mine, 2, (kept, given)),
        ("before it had it", OLD, mine, 1, (kept,)),
        ("no epoch", OLD, mine, -1, (kept,)),
        ("not a member", UNKNOWN, "x", 3, (kept,)),
        ("not a member, no epoch", UNKNOWN, "x", -1, (kept,)),
        ("an epoch, no id", UNKNOWN, "", 3, (kept,)),
        ("epoch -2, no id", UNKNOWN, "", -2, (kept,)),
    ):
        offsets: Offsets = {(TOPIC, partition): 10 + epoch for partition in partitions}
        by: dict[str, Any] = {"member_id": member_id, "generation_id": epoch}
        await producer.commit(version, offsets, error, note, **by)
    await producer.commit(version, errors=UNKNOWN, note="an instance alone", group_instance_id="i")
    await producer.finish(version)
    await Actor(run, "reader").fetch(offsets=ALL, require_stable=True)


@scenario("A67", "9 TxnOffsetCommit: of classic members", versions=NAMED_TXN_COMMIT)
async def a_classic_member_commits_within_a_transaction(run: Run, version: int) -> None:
    carol, kept, given = await classic_among_others(run)
    producer = Committer(run)
    await producer.ready(version)
    for note, error, epoch, partition in (
        ("its generation", NONE, 2, given),
        ("a newer one", OLD, 3, kept),
        ("an older one, had since", NONE, 1, kept),
        ("an older one, given up", OLD, 1, given),
        ("no generation", OLD, -1, kept),
    ):
        by: dict[str, Any] = {"member_id": carol.member_id, "generation_id": epoch}
        await producer.commit(version, {(TOPIC, partition): 10 + epoch}, error, note, **by)
    await producer.finish(version, "abort")
    await carol.fetch(offsets=ALL, require_stable=True)


@scenario("A67", "9 TxnOffsetCommit: unchecked", versions=TXN_COMMIT)
async def a_producer_that_names_no_member_commits(run: Run, version: int) -> None:
    """Whether the consumer group has members or not."""
    alice, producer = NewMember(run, "alice"), Committer(run)
    await alice.beat()
    await producer.ready(version)
    await producer.commit(version, {(TOPIC, 0): 5})
    await alice.leave()
    await producer.commit(version, {(TOPIC, 1): 6}, note="no members")
    if version >= NAMED_TXN_COMMIT[0]:
        by: dict[str, Any] = {"member_id": "x", "generation_id": 3}
        await producer.commit(version, errors=UNKNOWN, note="no members, an epoch", **by)
    await producer.finish(version)
    await Actor(run, "reader").fetch(offsets=ALL, require_stable=True)


@scenario("A68", "9 OffsetFetch: of members", versions=WITH_EPOCHS)
async def a_member_fetches_offsets_in_its_epoch(run: Run, version: int) -> None:
    alice, reader = NewMember(run, "alice"), Actor(run, "reader")
    other, absent = f"{run.group}-other", f"{run.group}-absent"
    await reader.commit(offsets={(TOPIC, 0): 5})
    await reader.commit(offsets={(TOPIC, 0): 6}, group_id=other)
    await alice.beat()
    epoch = alice.epoch
    for note, error, member_id, at in (
        ("nobody", NONE, None, -1),
        ("nobody, epoch -3", NONE, None, -3),
        ("its epoch", NONE, alice.member_id, epoch),
        ("a newer one", STALE, alice.member_id, epoch + 1),
        ("an older one", STALE, alice.member_id, epoch - 1),
        ("no epoch", STALE, alice.member_id, -1),
        ("not a member", UNKNOWN, "x", epoch),
        ("not a member, no epoch", UNKNOWN, "x", -1),
        ("an empty id, no epoch", UNKNOWN, "", -1),
        ("an epoch, no id", ErrorCode.UNKNOWN_SERVER_ERROR, None, epoch),
    ):
        for wanted in ([(TOPIC, 0)], None):
            by: dict[str, Any] = {"member_id": member_id, "member_epoch": at}
            reply = await reader.fetch(version, wanted, run.group, other, absent, note=note, **by)
            errors = [group.error_code for group in reply.groups]
            run.expect(errors == [error, 0, 0], f"{note}: {error} for its group: {errors}")
    await alice.leave()
    for member_id, at in ((None, -1), (alice.member_id, epoch)):
        await reader.fetch(version, note=f"no members, {member_id}", member_id=member_id, member_epoch=at)


@scenario("A68", "9 OffsetFetch: of classic members", versions=WITH_EPOCHS)
async def a_classic_member_fetches_offsets_in_a_consumer_group(run: Run, version: int) -> None:
    carol, kept, _ = await classic_among_others(run)
    await carol.commit(offsets={(TOPIC, kept): 5})
    for note, error, member_id, at in (
        ("its generation", NONE, carol.member_id, 2),
        ("a newer one", OLD, carol.member_id, 3),
        ("an older one", OLD, carol.member_id, 1),
        ("not a member", UNKNOWN, "x", 2),
    ):
        by: dict[str, Any] = {"member_id": member_id, "member_epoch": at}
        reply = await carol.fetch(version, [(TOPIC, kept)], note=note, **by)
        run.expect(reply.groups[0].error_code == error, f"{note}: {error}, not {reply.groups[0].error_code}")


@scenario("A68", "9 OffsetFetch: of groups of other kinds", versions=WITH_EPOCHS)
async def a_classic_group_asks_nothing_of_who_fetches(run: Run, version: int) -> None:
    (carol,) = cast(run, "carol")
    absent = f"{run.group}-absent"
    await carol.fetch(version, None, absent, member_id="x", member_epoch=7)
    await stable(run, carol)
    await carol.commit()
    for member_id, at in (("x", 7), (carol.member_id, 7), ("", -1), (None, 7)):
        by: dict[str, Any] = {"member_id": member_id, "member_epoch": at}
        reply = await carol.fetch(version, note=f"{member_id and '-'.join(member_id[:1])} at {at}", **by)
        (partition,) = reply.groups[0].topics[0].partitions
        run.expect(partition.committed_offset == 42, f"nothing is checked: {reply}")


@scenario("A68", "9 OffsetFetch: of nobody", versions=FETCH)
async def offsets_are_fetched_without_naming_a_member(run: Run, version: int) -> None:
    alice, reader = NewMember(run, "alice"), Actor(run, "reader")
    await alice.beat()
    await commit(alice, 9, NONE, "its epoch", 0, 2)
    await reader.fetch(version, ALL[:PARTITIONS])
    await alice.leave()
    await reader.fetch(version, ALL[:PARTITIONS], note="no members")
