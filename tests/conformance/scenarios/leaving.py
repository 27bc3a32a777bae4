"""LeaveGroup: single and in batches, by id and by instance (docs/kafka.md 2.2, 3.41, 3.60 to 3.63)."""

from __future__ import annotations

from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.leave_group import MemberIdentity
from tests.conformance.actors import LEAVE, STATIC_SINCE, Actor
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.scenes import STATES, cast, completing, scene, stable

ONE: Final = range(STATIC_SINCE)
BATCH: Final = range(STATIC_SINCE, 6)
UNKNOWN: Final = ErrorCode.UNKNOWN_MEMBER_ID


@scenario("2.2 Leave: empty group id", versions=LEAVE)
async def leave_with_an_empty_group_id(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    alice.member_id = "some-id"
    await alice.leave(version, error=ErrorCode.INVALID_GROUP_ID, group_id="")


@scenario("2.2 Leave: group absent", "2.2 state Leave/absent", "3.60", versions=LEAVE)
async def leave_a_group_that_is_not_there(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    alice.member_id = "some-id"
    await alice.leave_with(UNKNOWN, version)
    alice.member_id = ""
    await alice.leave_with(UNKNOWN, version, note="no id")
    if version >= STATIC_SINCE:
        both = [MemberIdentity(member_id="a"), MemberIdentity(member_id="", group_instance_id="i")]
        await alice.leave(version, both, errors=[UNKNOWN, UNKNOWN])
        await alice.leave(version, [], errors=[])
    await run.describe("Dead")


@scenario("2.2 Leave: unknown member", "2.2 state Leave/{choice}", "3.60", versions=LEAVE, choices=STATES[1:])
async def leave_in_every_state(run: Run, version: int, state: str) -> None:
    made = await scene(run, state)
    dave = Actor(run, "dave", member_id="some-id")
    await dave.leave_with(UNKNOWN, version, note="not a member")
    await run.describe(state)
    sync = await made.bob.send_sync() if state == "CompletingRebalance" else None
    await made.alice.leave_with(UNKNOWN if state == "Empty" else ErrorCode.NONE, version)
    await run.describe()
    if sync is not None:
        await run.answer(sync, ErrorCode.REBALANCE_IN_PROGRESS)
    if made.waiting:
        await made.bob.leave_with(ErrorCode.NONE, version)
        await made.carol.joined(made.waiting[0])
        await run.describe("CompletingRebalance")


@scenario("2.2 Leave: member", "3.21", versions=LEAVE)
async def the_last_member_leaves(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice)
    await alice.leave_with(ErrorCode.NONE, version)
    await run.describe("Empty")
    await alice.leave_with(UNKNOWN, version, note="twice")
    await bob.enter()
    run.expect(bob.generation_id == 3, "Empty was generation 2")


@scenario("3.60", "3.61", "3.41", "2.2 Leave: fenced", versions=BATCH)
async def a_batch_leaves_with_mixed_success(run: Run, version: int) -> None:
    alice, bob, carol = cast(run, "alice", "bob", "carol", static=True)
    await stable(run, alice, bob, carol)
    batch = [
        MemberIdentity(member_id="unknown"),
        MemberIdentity(member_id=bob.member_id, group_instance_id=bob.instance_id),
        MemberIdentity(member_id="", group_instance_id="unknown"),
        MemberIdentity(member_id="", group_instance_id=carol.instance_id),
        MemberIdentity(member_id="some-id", group_instance_id=alice.instance_id),
        MemberIdentity(member_id=alice.member_id, group_instance_id="unknown"),
        MemberIdentity(member_id=bob.member_id, group_instance_id=bob.instance_id),
        MemberIdentity(member_id=""),
    ]
    fenced = ErrorCode.FENCED_INSTANCE_ID
    errors = [UNKNOWN, 0, UNKNOWN, 0, fenced, UNKNOWN, UNKNOWN, UNKNOWN]
    await alice.leave(version, batch, errors=errors)
    await run.describe("PreparingRebalance")
    await alice.join()
    run.expect(alice.generation_id == 3, "one rebalance for all that left")


@scenario("3.60", versions=BATCH)
async def an_empty_batch_changes_nothing(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await stable(run, alice)
    await alice.leave(version, [], errors=[])
    await run.describe("Stable")


@scenario("3.60", versions=BATCH)
async def all_members_leave_in_one_batch(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    both = [MemberIdentity(member_id=each.member_id) for each in (bob, alice)]
    await alice.leave(version, both, errors=[0, 0])
    await run.describe("Empty")


@scenario("3.60", versions=BATCH)
async def a_batch_of_unknown_members_changes_nothing(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await stable(run, alice)
    await alice.leave(
        version, [MemberIdentity(member_id="a"), MemberIdentity(member_id="b")], errors=[UNKNOWN] * 2
    )
    await run.describe("Stable")


@scenario("3.41", versions=BATCH, choices=("CompletingRebalance", "Stable", "PreparingRebalance"))
async def an_admin_removes_a_static_member_by_its_instance(run: Run, version: int, state: str) -> None:
    made = await scene(run, state, static=True)
    admin = Actor(run, "admin")
    removed = MemberIdentity(member_id="", group_instance_id=made.bob.instance_id)
    await admin.leave(version, [removed], errors=[ErrorCode.NONE])
    await made.bob.heartbeat(error=UNKNOWN)
    await run.describe("PreparingRebalance")
    await admin.leave(version, [removed], errors=[UNKNOWN], note="twice")


@scenario("3.60", versions=BATCH)
async def a_dynamic_member_is_removed_by_its_id(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    wrong = MemberIdentity(member_id=bob.member_id, group_instance_id="some-instance")
    await Actor(run, "admin").leave(version, [wrong], errors=[UNKNOWN])
    await run.describe("Stable")
    await Actor(run, "admin").leave(version, [MemberIdentity(member_id=bob.member_id)], errors=[0])
    await run.describe("PreparingRebalance")


@scenario("2.2 Leave: member", versions=ONE)
async def an_old_client_removes_a_static_member_by_its_id(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob", static=True)
    await stable(run, alice, bob)
    await bob.leave(version)
    await run.describe("PreparingRebalance")


@scenario("2.2 state Leave/CompletingRebalance", versions=LEAVE)
async def a_member_parked_in_sync_leaves(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await completing(run, alice, bob)
    sync = await bob.send_sync()
    await run.parked(sync)
    await bob.leave_with(ErrorCode.NONE, version)
    await run.describe("PreparingRebalance")
    await alice.join()
    await run.answer_if_any(sync, 0.5)


@scenario("3.16", "2.2 state Leave/PreparingRebalance", versions=LEAVE)
async def a_member_that_leaves_lets_those_who_wait_go_on(run: Run, version: int) -> None:
    made = await scene(run, "PreparingRebalance")
    join = await made.alice.send_join()
    await run.parked(join)
    await made.bob.leave_with(ErrorCode.NONE, version)
    await made.alice.joined(join)
    await made.carol.joined(made.waiting[0])


@scenario("3.40", "3.42")
async def a_static_member_that_hangs_up_stays_until_its_session_ends(run: Run) -> None:
    alice, bob = cast(run, "alice", "bob", static=True)
    bob.session_timeout_ms = 1_500
    await stable(run, alice, bob)
    run.hang_up("bob")
    await run.describe("Stable")
    await alice.heartbeat()
    await run.until("PreparingRebalance", 1)
    await alice.join()
    await run.describe("CompletingRebalance")
