"""Heartbeat in every state, and what keeps a session alive or ends it (docs/kafka.md 3.53 to 3.59)."""

from __future__ import annotations

import asyncio
from typing import Final

from protocol.errors import ErrorCode
from tests.conformance.actors import COMMIT, FETCH, HEARTBEAT, JOIN, STATIC_SINCE, SYNC, TOPIC
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.scenes import STATES, cast, completing, scene, stable

BY_STATE: Final = {
    "Empty": ErrorCode.UNKNOWN_MEMBER_ID,
    "PreparingRebalance": ErrorCode.REBALANCE_IN_PROGRESS,
    "CompletingRebalance": ErrorCode.NONE,
    "Stable": ErrorCode.NONE,
}
SESSION_MS: Final = 800
STATIC_HEARTBEAT: Final = range(STATIC_SINCE, 5)


@scenario("2.2 Heartbeat: empty group id", versions=HEARTBEAT)
async def heartbeat_with_an_empty_group_id(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await alice.heartbeat(version, ErrorCode.INVALID_GROUP_ID, group_id="", member_id="some-id")
    await alice.heartbeat(version, ErrorCode.INVALID_GROUP_ID, group_id="", member_id="")


@scenario("2.2 Heartbeat: group absent", "2.2 state Heartbeat/absent", versions=HEARTBEAT)
async def heartbeat_in_a_group_that_is_not_there(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await alice.heartbeat(version, ErrorCode.UNKNOWN_MEMBER_ID, member_id="some-id", generation_id=1)
    await alice.heartbeat(version, ErrorCode.UNKNOWN_MEMBER_ID, member_id="")
    await run.describe("Dead")


@scenario(
    "2.2 state Heartbeat/{choice}",
    "2.2 Heartbeat: not a member",
    "2.2 Heartbeat: wrong generation",
    "2.2 Heartbeat: 25 before 22",
    versions=HEARTBEAT,
    choices=STATES[1:],
)
async def heartbeat_in_every_state(run: Run, version: int, state: str) -> None:
    made = await scene(run, state)
    alice, bob = made.alice, made.bob
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    old = unknown if state == "Empty" else ErrorCode.ILLEGAL_GENERATION
    await alice.heartbeat(version, BY_STATE[state], note="as it should be")
    if state != "Empty":
        await bob.heartbeat(version, BY_STATE[state], note="as it should be")
    await alice.heartbeat(version, unknown, member_id="some-id", note="not a member")
    await alice.heartbeat(version, unknown, member_id="", note="no id")
    await alice.heartbeat(version, old, generation_id=alice.generation_id - 1, note="the last generation")
    await alice.heartbeat(version, old, generation_id=alice.generation_id + 1, note="the next generation")
    await alice.heartbeat(version, old, generation_id=-1, note="no generation")
    await alice.heartbeat(version, unknown, generation_id=77, member_id="some-id", note="25 before 22")
    if version >= STATIC_SINCE:
        await alice.heartbeat(version, unknown, group_instance_id="unknown", note="an unknown instance")
    await run.describe(state)


@scenario("2.2 state Heartbeat/PreparingRebalance", "2.2 Heartbeat: wrong generation", versions=HEARTBEAT)
async def a_rebalance_shows_in_heartbeats(run: Run, version: int) -> None:
    """Heartbeats answer 27 while there is time to rejoin, 22 only to one that missed it and is still a member."""
    alice, bob = cast(run, "alice", "bob", static=True)
    bob.rebalance_timeout_ms = alice.rebalance_timeout_ms = 700
    await stable(run, alice, bob)
    join = await alice.send_join()
    await run.until("PreparingRebalance", 2)
    await bob.heartbeat(version, ErrorCode.REBALANCE_IN_PROGRESS, note="time to rejoin")
    await alice.joined(join)
    await bob.heartbeat(version, ErrorCode.ILLEGAL_GENERATION, note="too late")


@scenario(
    "2.2 Heartbeat: fenced",
    "2.2 Heartbeat: 82 before 22",
    "3.37",
    "3.39",
    versions=STATIC_HEARTBEAT,
    choices=STATES[1:],
)
async def heartbeat_of_a_static_member_in_every_state(run: Run, version: int, state: str) -> None:
    made = await scene(run, state, static=True)
    alice, bob = made.alice, made.bob
    fenced = ErrorCode.UNKNOWN_MEMBER_ID if state == "Empty" else ErrorCode.FENCED_INSTANCE_ID
    await alice.heartbeat(version, BY_STATE[state], note="as it should be")
    await alice.heartbeat(version, BY_STATE[state], group_instance_id=None, note="by its id alone")
    await alice.heartbeat(version, fenced, member_id="some-id", note="not its id")
    await alice.heartbeat(version, fenced, member_id=bob.member_id or "x", note="another member's id")
    await alice.heartbeat(version, fenced, member_id="some-id", generation_id=77, note="82 before 22")
    await alice.heartbeat(
        version, ErrorCode.UNKNOWN_MEMBER_ID, group_instance_id="unknown", note="unknown instance"
    )
    await run.describe(state)


@scenario("2.2 Heartbeat: not a member", versions=HEARTBEAT)
async def a_pending_id_may_not_beat(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice)
    await bob.get_id()
    await bob.heartbeat(version, ErrorCode.UNKNOWN_MEMBER_ID, generation_id=alice.generation_id)
    await bob.heartbeat(version, ErrorCode.UNKNOWN_MEMBER_ID, generation_id=-1)


@scenario("3.54", "3.58", versions=JOIN)
async def a_silent_member_is_out_after_its_session(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    bob.session_timeout_ms = SESSION_MS
    if version == 0:
        bob.session_timeout_ms = 3_000
    await stable(run, alice, bob, version=version)
    async with run.taking(0.3, 8.0):
        await run.until("PreparingRebalance", 1)
    await bob.heartbeat(error=ErrorCode.UNKNOWN_MEMBER_ID)
    await alice.heartbeat(error=ErrorCode.REBALANCE_IN_PROGRESS)
    await alice.join(version)
    await run.describe("CompletingRebalance")


@scenario("3.59", "3.54")
async def the_last_member_that_expires_leaves_the_group_empty(run: Run) -> None:
    alice, bob = cast(run, "alice", "bob")
    alice.session_timeout_ms = SESSION_MS
    await stable(run, alice)
    await run.until("Empty", 0)
    await run.describe("Empty")
    await bob.enter()
    run.expect(bob.generation_id == 3, "Empty was generation 2")


@scenario("3.54")
async def a_member_expires_while_completing(run: Run) -> None:
    alice, bob = cast(run, "alice", "bob")
    alice.session_timeout_ms = SESSION_MS
    await completing(run, alice, bob)
    bobs = await bob.send_sync()
    await run.answer(bobs, ErrorCode.REBALANCE_IN_PROGRESS)
    await run.describe("PreparingRebalance")
    await bob.join()


@scenario("3.53", versions=HEARTBEAT)
async def heartbeats_between_join_and_sync(run: Run, version: int) -> None:
    """Leader and followers are answered 0, whether their SyncGroup is still to come or parked."""
    alice, bob = cast(run, "alice", "bob")
    await completing(run, alice, bob)
    for who in (alice, bob):
        await who.heartbeat(version, note="before its sync")
    sync = await bob.send_sync()
    await run.parked(sync)
    await bob.heartbeat(version, note="its sync is parked")
    await run.describe("CompletingRebalance")


@scenario("3.54", "3.16")
async def a_member_that_expires_while_others_wait_lets_them_go_on(run: Run) -> None:
    alice, bob = cast(run, "alice", "bob")
    alice.session_timeout_ms = SESSION_MS
    await stable(run, alice)
    async with run.taking(0.0, 6.0):
        reply = await bob.enter()
    run.expect(reply.leader == bob.member_id, "only bob is left")
    await run.describe("CompletingRebalance")


@scenario("3.55", versions=JOIN)
async def a_member_parked_in_join_does_not_expire(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    alice.session_timeout_ms = 300
    join = await alice.send_join(version)
    await run.parked(join, 1.2)
    await run.describe("PreparingRebalance")
    if version == 0:
        return  # There the session timeout is the rebalance timeout as well; bob's is the longer one.
    await bob.join(version)
    await alice.joined(join)


@scenario("3.55", "3.56", versions=SYNC)
async def a_member_parked_in_sync_does_not_expire(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    bob.session_timeout_ms = 500
    await completing(run, alice, bob)
    sync = await bob.send_sync(version)
    await run.parked(sync, 1.4)
    await alice.sync(assignments={bob.member_id: b"bobs"})
    await run.answer(sync, ErrorCode.NONE)
    await bob.heartbeat()
    await run.until("PreparingRebalance", 1)


@scenario("3.55", versions=JOIN)
async def a_newcomer_parked_in_join_outlives_its_session_timeout(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice)
    bob.session_timeout_ms = 300
    join = await bob.send_enter(version)
    await run.parked(join, 1.0)
    await run.describe("PreparingRebalance")
    await alice.join(version)
    await bob.joined(join)


@scenario(
    "3.53",
    "2.2 state Heartbeat/{choice}",
    versions=HEARTBEAT,
    choices=("CompletingRebalance", "PreparingRebalance", "Stable"),
)
async def heartbeats_keep_a_session_alive(run: Run, version: int, state: str) -> None:
    alice, bob, carol = cast(run, "alice", "bob", "carol")
    bob.session_timeout_ms = 900
    await (completing if state == "CompletingRebalance" else stable)(run, alice, bob)
    if state == "PreparingRebalance":
        await carol.send_enter()
        await run.until(state, 3)
    for _ in range(6):
        await bob.heartbeat(version, BY_STATE[state])
        await asyncio.sleep(0.25)
    await run.describe(state)


@scenario(
    "3.57", "2.2 state Commit of a member/{choice}", versions=COMMIT, choices=("Stable", "PreparingRebalance")
)
async def commits_keep_a_session_alive(run: Run, version: int, state: str) -> None:
    alice, bob, carol = cast(run, "alice", "bob", "carol")
    bob.session_timeout_ms = 900
    await stable(run, alice, bob)
    if state == "PreparingRebalance":
        await carol.send_enter()
        await run.until(state, 3)
    for _ in range(6):
        await bob.commit(version)
        await asyncio.sleep(0.25)
    await run.describe(state)


@scenario("3.57", versions=COMMIT)
async def a_commit_while_completing_keeps_no_session_alive(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    bob.session_timeout_ms = 900
    await completing(run, alice, bob)
    for _ in range(3):
        await bob.commit(version, errors=ErrorCode.REBALANCE_IN_PROGRESS)
        await asyncio.sleep(0.2)
    await run.until("PreparingRebalance", 1, timeout_s=3)


@scenario("3.57", versions=FETCH)
async def fetching_offsets_keeps_no_session_alive(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    alice.session_timeout_ms = 900
    await stable(run, alice)
    for _ in range(6):
        await alice.fetch(version, [(TOPIC, 0)])
        await asyncio.sleep(0.25)
    await run.until("Empty", 0)
    await run.describe("Empty")


@scenario("3.58", versions=JOIN)
async def the_session_timeout_is_the_last_one_sent(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    alice.session_timeout_ms = 900 if version else 4_000
    join = await alice.send_join(version)
    await run.until("PreparingRebalance", 2)
    await bob.join()
    await alice.joined(join)
    await bob.heartbeat()
    await run.until("PreparingRebalance", 1)
    await alice.heartbeat(error=ErrorCode.UNKNOWN_MEMBER_ID)


@scenario("3.58", "3.24", versions=JOIN)
async def a_rejoin_without_a_rebalance_does_not_change_the_session_timeout(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    bob.session_timeout_ms = 400
    await bob.join(version)
    await asyncio.sleep(1.2)
    await bob.heartbeat()
    await asyncio.sleep(1.2)
    await run.describe("Stable")


@scenario("3.56", versions=JOIN)
async def the_session_starts_again_with_the_join_answer(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    bob.session_timeout_ms = 4_000
    await stable(run, alice, bob)
    join = await alice.send_join()
    await run.until("PreparingRebalance", 2)
    await asyncio.sleep(2.4)
    await bob.join(version)
    await alice.joined(join)
    await asyncio.sleep(2.0)
    await bob.heartbeat(note="more than a session after the last sign of life before the join")
