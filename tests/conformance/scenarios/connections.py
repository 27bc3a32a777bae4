"""Clients that ask twice, hang up, or come back on another connection (docs/kafka.md 3.26, 3.28, 3.89, 3.90)."""

from __future__ import annotations

from typing import Final

from tests.conformance.actors import JOIN, MEMBER_ID_REQUIRED_SINCE, SYNC, Actor
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.scenes import cast, completing, stable

WITH_IDS: Final = range(MEMBER_ID_REQUIRED_SINCE, 10)
WITHOUT_IDS: Final = range(MEMBER_ID_REQUIRED_SINCE)


@scenario("3.26", versions=JOIN)
async def a_second_join_replaces_the_parked_one(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    first = await alice.send_join(version)  # The leader's join starts a rebalance.
    await run.until("PreparingRebalance", 2)
    await run.parked(first)
    second = await alice.send_join(version, note="again")
    await run.parked(second)
    await bob.join()
    await alice.joined(second)
    await run.unanswered(first)


@scenario("3.26", versions=WITH_IDS)
async def a_second_join_with_a_new_id_replaces_the_parked_one(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice)
    first = await bob.send_enter(version)
    await run.until("PreparingRebalance", 2)
    await run.parked(first)
    second = await bob.send_join(version, note="again")
    await run.parked(second)
    await alice.join(version)
    await bob.joined(second)
    await run.unanswered(first)


@scenario("3.26", versions=WITHOUT_IDS)
async def an_old_client_that_asks_twice_is_two_members(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice)
    first = await bob.send_join(version)
    await run.until("PreparingRebalance", 2)
    second = await bob.send_join(version, note="again")
    await run.until("PreparingRebalance", 3)
    await alice.join(version)
    await bob.joined(first)
    await bob.joined(second)


@scenario("3.90", versions=JOIN)
async def an_id_is_not_bound_to_a_connection(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    twin = Actor(run, "twin", member_id=bob.member_id, generation_id=bob.generation_id)
    await twin.heartbeat()
    await twin.join(version)
    await twin.sync()
    await run.describe("Stable")


@scenario("3.89", versions=JOIN)
async def a_member_that_hung_up_while_parked_stays(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice)
    join = await bob.send_enter(version)
    await run.parked(join)
    run.hang_up("bob")
    await run.describe("PreparingRebalance")
    await alice.join(version)
    await run.describe("CompletingRebalance")


@scenario("3.89", versions=SYNC)
async def a_member_that_hung_up_while_its_sync_was_parked_stays(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await completing(run, alice, bob)
    sync = await bob.send_sync(version)
    await run.parked(sync)
    run.hang_up("bob")
    await alice.sync(assignments={bob.member_id: b"bobs"})
    await run.describe("Stable")
    reply = await bob.sync(version)
    run.expect(reply.assignment == b"bobs", "it is a member, and may ask again")


@scenario("3.28", versions=JOIN)
async def describe_shows_who_joined_from_where(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await stable(run, alice, version=version)
    described = await run.describe("Stable")
    member = described.members[0]
    run.expect(member.client_id == "alice", "the client id of the join")
    run.expect(member.client_host == "/127.0.0.1", "the host with a slash")
