"""A restart of the broker (docs/kafka.md 3.64 to 3.68, 3.31): what is stored is back, the rest was never promised.

All scripts on one broker share one restart by SIGTERM, and then one by SIGKILL. After the first a group may
have four members at most, after the second three; where joins are delayed, offsets are kept for a minute only.
"""

from __future__ import annotations

import asyncio
from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from tests.conformance.actors import JOIN, OTHER_TOPIC, SYNC, TOPIC
from tests.conformance.registry import BOTH, scenario
from tests.conformance.run import Run
from tests.conformance.scenes import cast, completing, scene, stable
from tests.conformance.targets import MAX_SIZE_AFTER

EMPTY_BEFORE_S: Final = 15.0
WITHOUT_ID: Final = 3
"""A JoinGroup that needs no id first: where groups are swept each second, one with a pending id alone goes."""
RETENTION_S: Final = 60.0
OLD: Final = ErrorCode.ILLEGAL_GENERATION
UNKNOWN: Final = ErrorCode.UNKNOWN_MEMBER_ID


@scenario("3.65", "3.64", "3.47", versions=SYNC, on="restarted", restarts=BOTH)
async def a_stable_group_carries_on(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    await run.restarted()
    await run.describe("Stable")
    await alice.heartbeat(min(version, 4))
    await bob.heartbeat(min(version, 4))
    again = await bob.sync(version)
    run.expect(again.assignment == b"bob", "the assignment is kept")
    await alice.commit()
    await bob.leave()
    await alice.heartbeat(error=ErrorCode.REBALANCE_IN_PROGRESS)
    await alice.join()
    run.expect(alice.generation_id == 3 and alice.leads, "the next generation, the same leader")


@scenario("3.65", "3.39", on="restarted", restarts=BOTH)
async def static_members_are_known_after_a_restart(run: Run) -> None:
    alice, bob = cast(run, "alice", "bob", static=True)
    await stable(run, alice, bob)
    old_id = bob.member_id
    await run.restarted()
    await run.describe("Stable")
    await bob.heartbeat()
    await bob.join(member_id="")
    run.expect(bob.generation_id == 2, "no rebalance")
    await bob.heartbeat()
    await bob.heartbeat(error=ErrorCode.FENCED_INSTANCE_ID, member_id=old_id)


@scenario("3.65", "3.37", on="restarted", restarts=BOTH)
async def a_replaced_id_stays_replaced(run: Run) -> None:
    alice, bob = cast(run, "alice", "bob", static=True)
    await stable(run, alice, bob)
    old_id = bob.member_id
    await bob.join(member_id="")
    await run.restarted()
    await run.describe("Stable")
    await bob.heartbeat()
    await bob.heartbeat(error=ErrorCode.FENCED_INSTANCE_ID, member_id=old_id)


@scenario("3.65", on="restarted", restarts=BOTH)
async def sessions_are_full_again_after_a_restart(run: Run) -> None:
    alice, bob = cast(run, "alice", "bob")
    bob.session_timeout_ms = 3_000
    await stable(run, alice, bob)
    await run.restarted()
    await run.until("PreparingRebalance", 1)
    await alice.heartbeat(error=ErrorCode.REBALANCE_IN_PROGRESS)
    await bob.heartbeat(error=UNKNOWN)


@scenario("3.66", "3.64", versions=SYNC, on="restarted", restarts=BOTH)
async def a_generation_that_no_member_synced_is_lost(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice)
    bobs = await bob.send_enter()
    await run.until("PreparingRebalance", 2)
    await alice.join()
    await bob.joined(bobs)
    await run.restarted()
    await run.describe("Stable")
    await alice.heartbeat(min(version, 4), error=OLD)
    await alice.sync(version, error=OLD)
    await bob.sync(version, error=UNKNOWN)
    await alice.join()
    run.expect(alice.generation_id == 2, "the number is used again")


@scenario("3.66", on="restarted", restarts=BOTH)
async def a_rebalance_that_was_on_is_lost(run: Run) -> None:
    made = await scene(run, "PreparingRebalance")
    await run.restarted()
    await run.describe("Stable")
    await made.alice.heartbeat()
    await made.bob.heartbeat()


@scenario("3.66", "3.64", on="restarted", restarts=BOTH)
async def a_first_generation_that_no_member_synced_leaves_the_group_empty(run: Run) -> None:
    (alice,) = cast(run, "alice")
    await completing(run, alice)
    await run.restarted()
    await run.describe()
    await alice.sync(error=UNKNOWN)
    await alice.heartbeat(error=UNKNOWN)
    await alice.join(error=UNKNOWN)
    alice.member_id = ""
    await alice.enter()
    run.expect(alice.generation_id == 1, "the number is used again")


@scenario("3.64", on="restarted", restarts=BOTH)
async def a_pending_id_is_lost(run: Run) -> None:
    (alice,) = cast(run, "alice")
    await alice.get_id()
    await run.restarted()
    await run.describe()
    await alice.join(error=UNKNOWN)


@scenario("3.67", versions=JOIN, on="restarted", restarts=BOTH)
async def only_the_chosen_protocol_is_known_after_a_restart(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    for each in (alice, bob):
        each.protocols = [(name, b"") for name in ("range", "sticky")]
        each.protocol_type = "plain"
    await stable(run, alice, bob)
    await run.restarted()
    await alice.heartbeat()
    join = await bob.send_join(version)
    await run.until("PreparingRebalance", 2)
    await run.parked(join)
    await alice.heartbeat(error=ErrorCode.REBALANCE_IN_PROGRESS)
    await alice.join(version)
    await bob.joined(join)


@scenario("3.67", "3.24", versions=JOIN, on="restarted", restarts=BOTH)
async def a_member_with_one_protocol_is_unchanged_after_a_restart(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    await run.restarted()
    await bob.join(version)
    await run.describe("Stable")


@scenario("3.68", "3.63", "3.64", on="restarted", restarts=BOTH)
async def an_empty_group_is_empty_after_a_restart(run: Run) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice)
    await alice.leave()
    await run.restarted()
    await run.describe("Empty")
    await alice.heartbeat(error=UNKNOWN)
    await bob.enter()
    run.expect(bob.generation_id == 3, "generations go on")


@scenario("3.59", "3.68", on="restarted", restarts=BOTH)
async def a_group_whose_last_member_expired_is_empty_after_a_restart(run: Run) -> None:
    alice, bob = cast(run, "alice", "bob")
    alice.session_timeout_ms = 2_000
    await stable(run, alice)
    await run.until("Empty", 0)
    await run.restarted()
    await run.describe("Empty")
    await bob.enter()
    run.expect(bob.generation_id == 3, "Empty was generation 2, and stored")


@scenario("3.68", "O18", on="delayed", restarts=BOTH)
async def a_group_was_empty_before_the_restart(run: Run) -> None:
    """How long a group has been empty is counted from when it became so, not from the restart."""
    (alice,) = cast(run, "alice")
    await stable(run, alice, version=WITHOUT_ID)
    await alice.commit()
    await alice.leave()
    await asyncio.sleep(EMPTY_BEFORE_S)
    await run.restarted()
    await run.describe("Empty")
    async with run.taking(0.0, RETENTION_S - EMPTY_BEFORE_S + 5.0):
        await run.until("Dead", 0, timeout_s=RETENTION_S)
    await alice.fetch(9, None)


@scenario("3.74", "3.64", on="restarted", restarts=BOTH)
async def a_deleted_group_stays_deleted(run: Run) -> None:
    (alice,) = cast(run, "alice")
    await stable(run, alice)
    await alice.commit()
    await alice.leave()
    await run.answer(await run.send("admin", DeleteGroupsRequest(groups_names=[run.group]), 2))
    await run.restarted()
    await run.describe("Dead")
    await alice.fetch(9, None)


@scenario("O1", "3.77", on="restarted", restarts=BOTH)
async def offsets_are_kept(run: Run) -> None:
    (alice,) = cast(run, "alice")
    await alice.commit(offsets={(TOPIC, 0): 5, (OTHER_TOPIC, 2): 6}, metadata="kept")
    await alice.commit(10, offsets={(TOPIC, 1): 7})
    await alice.commit(4, offsets={(TOPIC, 2): 8}, retention_time_ms=3_600_000)
    await run.restarted()
    await run.describe("Empty")
    for version in (1, 5, 9, 10):
        await alice.fetch(version, [(TOPIC, 0), (TOPIC, 1), (TOPIC, 2), (OTHER_TOPIC, 2)])


@scenario("3.31", "3.30", versions=JOIN, on="restarted", restarts=BOTH)
async def a_group_over_its_size_is_rebalanced_and_shrinks(run: Run, version: int) -> None:
    assert run.ending is not None
    members = cast(run, "alice", "bob", "carol", "dave", "erin")[: MAX_SIZE_AFTER[run.ending] + 1]
    *first, last_but_one, last = members
    await stable(run, *members)
    await run.restarted()
    await run.describe("PreparingRebalance")
    joins = []
    for each in first:
        joins.append(await each.send_join(version))
        await run.parked(joins[-1])
    await last.heartbeat(error=ErrorCode.REBALANCE_IN_PROGRESS)
    await run.parked(await last_but_one.send_join(version))
    await last.join(version, ErrorCode.GROUP_MAX_SIZE_REACHED)
    await run.answer_if_any(joins[0])
    await last.heartbeat(error=None, note="turned away")
