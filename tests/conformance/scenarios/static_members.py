"""Static members that come back, are fenced, or are missed (docs/kafka.md 3.33 to 3.42)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from protocol.errors import ErrorCode
from tests.conformance.actors import (
    COMMIT,
    LEAVE,
    STATIC_COMMIT_SINCE,
    STATIC_JOIN_SINCE,
    Actor,
    subscription,
)
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.scenes import cast, completing, scene, stable

STATIC_JOIN: Final = range(STATIC_JOIN_SINCE, 10)
FENCED: Final = ErrorCode.FENCED_INSTANCE_ID
UNKNOWN: Final = ErrorCode.UNKNOWN_MEMBER_ID


def back(actor: Actor) -> Actor:
    """The same instance in a new process: it does not know its id, and has a connection of its own."""
    return replace(actor, name=f"{actor.name}-again", member_id="", generation_id=-1, leads=False)


@scenario("3.33", "3.37", "3.39", versions=STATIC_JOIN)
async def a_static_follower_comes_back_without_a_rebalance(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob", static=True)
    await stable(run, alice, bob)
    again = back(bob)
    await again.join(version)
    run.expect(again.generation_id == bob.generation_id, "the same generation")
    run.expect(again.member_id != bob.member_id, "a new id")
    await run.describe("Stable")
    reply = await again.sync()
    run.expect(reply.assignment == b"bob", "the assignment is kept")
    await again.heartbeat()
    await bob.heartbeat(error=FENCED, note="old id and instance")
    await bob.heartbeat(error=UNKNOWN, group_instance_id=None, note="old id alone")
    await bob.sync(error=FENCED)
    await bob.sync(error=UNKNOWN, group_instance_id=None)
    await bob.join(version, FENCED)
    await bob.join(version, UNKNOWN, group_instance_id=None)
    await bob.leave(errors=[FENCED])
    await bob.leave(2, error=UNKNOWN)
    await run.describe("Stable")


@scenario("3.37", versions=COMMIT)
async def the_replaced_id_may_not_commit(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob", static=True)
    await stable(run, alice, bob)
    again = back(bob)
    await again.join()
    await bob.commit(version, errors=FENCED if version >= STATIC_COMMIT_SINCE else UNKNOWN)
    await again.commit(version)


@scenario("3.37", versions=LEAVE)
async def the_replaced_id_may_not_leave(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob", static=True)
    await stable(run, alice, bob)
    await back(bob).join()
    await bob.leave_with(FENCED if version >= 3 else UNKNOWN, version)
    await run.describe("Stable")


@scenario("3.34", versions=STATIC_JOIN)
async def a_static_leader_comes_back_and_leaves_the_assignment_alone(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob", static=True)
    await stable(run, alice, bob)
    again = back(alice)
    reply = await again.join(version)
    if version >= 9:
        run.expect(
            reply.skip_assignment and len(reply.members) == 2, "it leads, and is to skip the assignment"
        )
    else:
        run.expect(reply.leader == alice.member_id and not reply.members, "it is to think that it follows")
    await again.sync()
    await bob.heartbeat()
    await run.describe("Stable")
    join = await again.send_join(version, note="later")
    await run.parked(join)
    await bob.join()
    await again.joined(join)
    run.expect(again.leads, "and it leads the next generation")


@scenario("3.33", versions=STATIC_JOIN)
async def a_static_member_alone_comes_back(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice", static=True)
    await stable(run, alice, version=version)
    again = back(alice)
    await again.join(version)
    await again.sync(assignments={again.member_id: b"ignored"})
    await run.describe("Stable")


@scenario("3.33", versions=STATIC_JOIN, choices=("metadata", "timeouts", "protocols"))
async def a_static_member_comes_back_with_another_offer(run: Run, version: int, what: str) -> None:
    """As long as the chosen protocol stays, other metadata is no reason for a rebalance."""
    alice, bob = cast(run, "alice", "bob", static=True)
    await stable(run, alice, bob)
    again = back(bob)
    if what == "metadata":
        again.protocols = [("range", subscription("orders", "returns"))]
    elif what == "timeouts":
        again.session_timeout_ms, again.rebalance_timeout_ms = 50_000, 40_000
    else:
        again.protocols = [("range", subscription("orders")), ("more", subscription("orders"))]
    join = await again.send_join(version)
    await asyncio.wait([join.reply], timeout=0.5)
    await run.describe()
    if not join.reply.done():
        await alice.join(version)
    await again.joined(join)


@scenario("3.35", versions=STATIC_JOIN)
async def a_static_member_comes_back_and_changes_the_protocol(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob", static=True)
    both = [("a", subscription("orders")), ("b", subscription("orders"))]
    alice.protocols, bob.protocols = both, both
    await stable(run, alice, bob)
    again = back(bob)
    again.protocols = [("b", subscription("orders"))]
    join = await again.send_join(version)
    await run.parked(join)
    await run.describe("PreparingRebalance")
    await alice.join(version)
    await again.joined(join)
    run.expect(again.protocol_name == "b", "the only one in common")


@scenario("3.36", "3.37", versions=STATIC_JOIN)
async def a_static_member_comes_back_while_completing(run: Run, version: int) -> None:
    alice, bob, carol = cast(run, "alice", "bob", "carol", static=True)
    await completing(run, alice, bob, carol)
    carols = await carol.send_sync()
    bobs = await bob.send_sync()
    await run.parked(carols)
    await run.parked(bobs)
    again = back(bob)
    join = await again.send_join(version)
    await run.answer(bobs, FENCED)
    await run.answer(carols, ErrorCode.REBALANCE_IN_PROGRESS)
    await run.parked(join)
    await run.describe("PreparingRebalance")


@scenario("3.36", "3.37", versions=STATIC_JOIN)
async def a_static_member_comes_back_while_preparing(run: Run, version: int) -> None:
    made = await scene(run, "PreparingRebalance", static=True)
    bobs = await made.bob.send_join(version)
    await run.parked(bobs)
    again = back(made.bob)
    join = await again.send_join(version)
    await run.answer(bobs, FENCED)
    await run.parked(join)
    await made.alice.join(version)
    await again.joined(join)
    await made.carol.joined(made.waiting[0])


@scenario("3.36", "3.9", versions=STATIC_JOIN)
async def the_last_one_missing_comes_back_under_a_new_id(run: Run, version: int) -> None:
    made = await scene(run, "PreparingRebalance", static=True)
    alices = await made.alice.send_join(version)
    await run.parked(alices)
    again = back(made.bob)
    await again.join(version)
    run.expect(again.member_id != made.bob.member_id, "each join gets another id")
    await made.alice.joined(alices)
    await made.carol.joined(made.waiting[0])


@scenario("3.36", versions=STATIC_JOIN)
async def a_static_leader_comes_back_while_completing(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob", static=True)
    await completing(run, alice, bob)
    bobs = await bob.send_sync()
    await run.parked(bobs)
    again = back(alice)
    join = await again.send_join(version)
    await run.answer(bobs, ErrorCode.REBALANCE_IN_PROGRESS)
    await run.parked(join)
    await bob.join(version)
    await again.joined(join)
    run.expect(again.leads, "the lead stays with the instance")


@scenario("3.39", "3.24", versions=STATIC_JOIN)
async def a_static_member_that_knows_its_id_is_like_any_other(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob", static=True)
    await stable(run, alice, bob)
    await bob.join(version)
    run.expect(bob.generation_id == 2, "unchanged, a follower: no rebalance")
    await bob.join(version, error=None, group_instance_id=None, note="by its id alone")
    await run.describe("Stable")


@scenario("3.39", versions=range(STATIC_JOIN_SINCE))
async def a_static_member_rejoins_in_an_old_version(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob", static=True)
    await stable(run, alice, bob)
    await bob.join(version)
    await run.describe("Stable")


@scenario("3.42", "3.17", versions=STATIC_JOIN)
async def a_static_member_that_misses_the_join_phase_stays(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob", static=True)
    for each in (alice, bob):
        each.rebalance_timeout_ms = 700
    await stable(run, alice, bob)
    async with run.taking(0.4, 4.0):
        reply = await alice.join(version)
    run.expect(len(reply.members) == 2, "the leader may assign to the one that is missing")
    await alice.sync(assignments={alice.member_id: b"a", bob.member_id: b"b"})
    await run.describe("Stable")
    await bob.heartbeat(error=ErrorCode.ILLEGAL_GENERATION)


@scenario("3.18", "3.42")
async def a_phase_that_no_member_joined_is_extended(run: Run) -> None:
    alice, bob = cast(run, "alice", "bob", static=True)
    carol = Actor(run, "carol")
    for each in (alice, bob, carol):
        each.rebalance_timeout_ms = 700
    await stable(run, alice, bob)
    join = await carol.send_enter()
    await run.parked(join)
    await carol.leave()
    await run.answer(join, UNKNOWN)
    await asyncio.sleep(1.2)
    await run.describe("PreparingRebalance")
    async with run.taking(0.0, 3.0):
        await bob.join()
    run.expect(bob.generation_id == 3, "still only one generation on")
    await run.describe("CompletingRebalance")


@scenario("3.40", "3.42", "3.54")
async def a_static_member_expires_in_the_end(run: Run) -> None:
    alice, bob = cast(run, "alice", "bob", static=True)
    for each in (alice, bob):
        each.rebalance_timeout_ms = 500
    bob.session_timeout_ms = 2_500
    await stable(run, alice, bob)
    await alice.join()
    await alice.sync(assignments={bob.member_id: b"b"})
    await run.describe("Stable")
    await run.until("PreparingRebalance", 1)
    await bob.heartbeat(error=UNKNOWN)
    await back(bob).join(error=None, protocols=[])
    await run.describe()


@scenario("3.7", versions=STATIC_JOIN)
async def a_new_instance_needs_no_id_in_a_group_that_is_there(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob", static=True)
    await stable(run, alice)
    join = await bob.send_join(version)
    await run.parked(join)
    await alice.join(version)
    await bob.joined(join)


@scenario("3.7", versions=STATIC_JOIN)
async def an_empty_instance_id_is_an_instance_id(run: Run, version: int) -> None:
    alice = Actor(run, "alice", instance_id="")
    await alice.join(version, error=None)
    await run.describe()
