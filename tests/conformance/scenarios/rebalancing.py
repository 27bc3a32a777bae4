"""Rebalances: what starts one and what does not, and how the join phase ends (docs/kafka.md 2.2, 3.16 to 3.25)."""

from __future__ import annotations

from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.leave_group import MemberIdentity
from tests.conformance.actors import JOIN, STATIC_JOIN_SINCE, Actor, subscription
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.scenes import cast, completing, rejoin_all, scene, stable

STATIC_JOIN: Final = range(STATIC_JOIN_SINCE, 10)


@scenario("3.19", "3.18", versions=JOIN)
async def the_leader_alone_gets_the_members(run: Run, version: int) -> None:
    alice, bob, carol = cast(run, "alice", "bob", "carol")
    await completing(run, alice, bob, carol, version=version)
    run.expect(alice.leads and not bob.leads and not carol.leads, "the first one leads")


@scenario("3.21", versions=JOIN)
async def each_join_phase_is_one_generation(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, version=version)
    await alice.join(version)
    run.expect(alice.generation_id == 2, "generation 2")
    await alice.sync(assignments={alice.member_id: b""})
    await alice.leave()
    await run.describe("Empty")
    await bob.enter(version)
    run.expect(bob.generation_id == 4, "Empty was generation 3")


@scenario("3.20", versions=JOIN)
async def most_votes_choose_the_protocol(run: Run, version: int) -> None:
    alice, bob, carol = cast(run, "alice", "bob", "carol")
    for each in (alice, bob, carol):
        each.protocol_type = "votes"
    alice.protocols = [("a", b"alice a"), ("b", b"alice b"), ("c", b"alice c")]
    bob.protocols = [("x", b"bob x"), ("b", b"bob b"), ("a", b"bob a")]
    carol.protocols = [("b", b"carol b"), ("y", b""), ("a", b"carol a")]
    await completing(run, alice, bob, carol, version=version)
    run.expect(bob.protocol_name == "b", "two of three like b better")


@scenario("3.24", "2.2 state Join of a member, same metadata/Stable", versions=JOIN)
async def an_unchanged_follower_rejoins_without_a_rebalance(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    await bob.join(version)
    run.expect(bob.generation_id == 2, "the generation that is on")
    await run.describe("Stable")


@scenario("3.24", "2.2 state Join of a member, same metadata/Stable", versions=JOIN)
async def a_leader_that_rejoins_starts_a_rebalance(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    join = await alice.send_join(version)
    await run.parked(join)
    await run.describe("PreparingRebalance")
    await bob.heartbeat(error=ErrorCode.REBALANCE_IN_PROGRESS)
    await bob.join(version)
    await alice.joined(join)


@scenario(
    "3.24",
    "2.2 state Join of a member, new metadata/Stable",
    versions=JOIN,
    choices=("metadata", "order", "more", "fewer"),
    thin=True,
)
async def a_follower_that_offers_something_else_starts_a_rebalance(run: Run, version: int, how: str) -> None:
    alice, bob = cast(run, "alice", "bob")
    alice.protocols = [("a", b"1"), ("b", b"2")]
    bob.protocols = [("a", b"1"), ("b", b"2")]
    await stable(run, alice, bob)
    bob.protocols = {
        "metadata": [("a", b"1"), ("b", b"3")],
        "order": [("b", b"2"), ("a", b"1")],
        "more": [("a", b"1"), ("b", b"2"), ("c", b"")],
        "fewer": [("a", b"1")],
    }[how]
    join = await bob.send_join(version)
    await run.parked(join)
    await alice.join(version)
    await bob.joined(join)


@scenario("3.24", versions=JOIN)
async def other_timeouts_alone_are_no_change(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    bob.session_timeout_ms, bob.rebalance_timeout_ms = 50_000, 40_000
    await bob.join(version)
    await run.describe("Stable")


@scenario("3.25", "2.2 state Join of a member, same metadata/CompletingRebalance", versions=JOIN)
async def unchanged_members_rejoin_a_generation_that_is_not_synced(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await completing(run, alice, bob)
    await bob.join(version)
    reply = await alice.join(version)
    run.expect(alice.generation_id == 2 and alice.leads, "the same generation")
    run.expect(len(reply.members) == 2, "the leader gets the members again")
    await run.describe("CompletingRebalance")


@scenario("2.2 state Join of a member, new metadata/CompletingRebalance", versions=JOIN)
async def a_change_while_completing_starts_over(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await completing(run, alice, bob)
    sync = await bob.send_sync()
    await run.parked(sync)
    alice.protocols = [("range", subscription("orders", "returns"))]
    join = await alice.send_join(version)
    await run.answer(sync, ErrorCode.REBALANCE_IN_PROGRESS)
    await run.parked(join)
    await bob.join(version)
    await alice.joined(join)


@scenario(
    "2.2 state Join with a pending id or v<4/{choice}",
    versions=JOIN,
    choices=("CompletingRebalance", "Stable"),
)
async def a_newcomer_starts_a_rebalance(run: Run, version: int, state: str) -> None:
    made = await scene(run, state)
    sync = None
    if state == "CompletingRebalance":
        sync = await made.bob.send_sync()
        await run.parked(sync)
    await made.carol.get_id(version)
    await run.describe(state)
    join = await made.carol.send_join(version)
    if sync is not None:
        await run.answer(sync, ErrorCode.REBALANCE_IN_PROGRESS)
    await run.parked(join)
    await run.describe("PreparingRebalance")
    await rejoin_all(run, made.alice, made.bob, version=version)
    await made.carol.joined(join)


@scenario("3.16", "2.2 state Join of a member, same metadata/PreparingRebalance", versions=JOIN)
async def the_join_phase_ends_with_the_last_join(run: Run, version: int) -> None:
    made = await scene(run, "PreparingRebalance")
    join = await made.bob.send_join(version)
    await run.parked(join)
    await made.alice.join(version)
    await made.bob.joined(join)
    await made.carol.joined(made.waiting[0])


@scenario("2.2 state Join with a pending id or v<4/PreparingRebalance", "3.16", versions=JOIN)
async def a_newcomer_joins_a_rebalance_that_is_on(run: Run, version: int) -> None:
    made = await scene(run, "PreparingRebalance")
    dave = Actor(run, "dave")
    daves = await dave.send_enter(version)
    await run.parked(daves)
    await run.describe("PreparingRebalance")
    await rejoin_all(run, made.alice, made.bob)
    await dave.joined(daves)
    await made.carol.joined(made.waiting[0])
    run.expect(dave.generation_id == made.carol.generation_id == 3, "one generation for both newcomers")


@scenario("2.2 state Join of a member, new metadata/PreparingRebalance", versions=JOIN)
async def a_member_changes_its_offer_while_preparing(run: Run, version: int) -> None:
    made = await scene(run, "PreparingRebalance")
    made.bob.protocols = [("range", subscription("orders", "returns"))]
    bobs = await made.bob.send_join(version)
    await run.parked(bobs)
    await run.describe("PreparingRebalance")
    reply = await made.alice.join(version)
    offered = {member.member_id: member.metadata for member in reply.members}
    run.expect(
        offered[made.bob.member_id] == subscription("orders", "returns"), "the leader gets the new offer"
    )
    await made.bob.joined(bobs)
    await made.carol.joined(made.waiting[0])


@scenario("3.29", versions=JOIN[8:])
async def a_reason_shows_in_no_answer(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice)
    await bob.get_id(version)
    join = await bob.send_join(version, reason="it is so dark")
    await run.until("PreparingRebalance", 2)
    await alice.join(version, reason="x" * 300)
    await bob.joined(join)
    own = [MemberIdentity(member_id=bob.member_id, reason="so long")]
    await bob.leave(5, own, errors=[ErrorCode.NONE])
    await run.describe("PreparingRebalance")


@scenario("3.19", versions=STATIC_JOIN)
async def the_leader_gets_the_instances(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob", static=True)
    carol = Actor(run, "carol")
    joins = []
    await alice.enter(version)
    for number, each in enumerate((bob, carol)):
        joins.append(await each.send_enter(version))
        await run.until("PreparingRebalance", number + 2)
    reply = await alice.join(version)
    got = {member.group_instance_id for member in reply.members}
    run.expect(got == {alice.instance_id, bob.instance_id, None}, f"the instances there are: {got}")
    for each, join in zip((bob, carol), joins, strict=True):
        followers = await each.joined(join)
        run.expect(followers.members == [], "followers get no members")


@scenario("3.16", "3.17", versions=JOIN)
async def who_does_not_rejoin_in_time_is_out(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    alice.rebalance_timeout_ms = bob.rebalance_timeout_ms = 700
    alice.session_timeout_ms = bob.session_timeout_ms = 700 if version == 0 else 60_000
    await alice.enter(version)
    await alice.sync()
    async with run.taking(0.4, 4.0):
        reply = await bob.enter(version)
    run.expect(reply.leader == bob.member_id, "the leader did not come: another one leads")
    await alice.heartbeat(error=ErrorCode.UNKNOWN_MEMBER_ID)
    await run.describe("CompletingRebalance")


@scenario("3.18", versions=JOIN)
async def a_leader_that_leaves_is_replaced(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    await alice.leave()
    await bob.join(version)
    run.expect(bob.leads, "the one that is left leads")


@scenario("3.18", "3.17", versions=STATIC_JOIN)
async def a_static_leader_that_does_not_rejoin_stays_and_leads_no_more(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob", static=True)
    for each in (alice, bob):
        each.rebalance_timeout_ms = 700
    await stable(run, alice, bob, version=version)
    bob.protocols = [("range", subscription("orders", "returns"))]
    async with run.taking(0.4, 4.0):
        reply = await bob.join(version)
    run.expect(reply.leader == bob.member_id, "who joined leads")
    run.expect(len(reply.members) == 2, "the missing static member is still there")
    await run.describe("CompletingRebalance")


@scenario("3.62", versions=range(6))
async def a_parked_member_that_leaves_is_answered_unknown(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice)
    await bob.get_id()
    join = await bob.send_join()
    await run.parked(join)
    await bob.leave_with(ErrorCode.NONE, version)
    await run.answer(join, ErrorCode.UNKNOWN_MEMBER_ID)
    await run.describe("PreparingRebalance")
    await alice.join()
