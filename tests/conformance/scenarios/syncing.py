"""SyncGroup: its refusals in Kafka's order (docs/kafka.md 2.2), and how assignments get around (3.43 to 3.52)."""

from __future__ import annotations

from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.sync_group import SyncGroupRequestAssignment as Assignment
from tests.conformance.actors import STATIC_SINCE, SYNC, Actor, subscription
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.scenes import STATES, all_sync, cast, completing, rejoin_all, scene, stable

WITH_PROTOCOL: Final = range(5, 6)
STATIC_SYNC: Final = range(STATIC_SINCE, 6)
BY_STATE: Final = {
    "Empty": ErrorCode.UNKNOWN_MEMBER_ID,
    "PreparingRebalance": ErrorCode.REBALANCE_IN_PROGRESS,
    "Stable": ErrorCode.NONE,
}


@scenario("2.2 Sync: empty group id", versions=SYNC)
async def sync_with_an_empty_group_id(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await alice.sync(
        version, error=ErrorCode.INVALID_GROUP_ID, group_id="", member_id="some-id", generation_id=1
    )


@scenario("2.2 Sync: no protocol named", "3.52", versions=WITH_PROTOCOL, choices=STATES)
async def sync_without_a_protocol(run: Run, version: int, state: str) -> None:
    made = await scene(run, state)
    refused = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    alice = made.alice
    await alice.sync(version, error=refused, protocol_type=None, note="no type")
    await alice.sync(version, error=refused, protocol_name=None, note="no name")
    await alice.sync(version, error=refused, protocol_type=None, protocol_name=None, note="neither")
    await alice.sync(version, error=None, protocol_type=None, group_id="", note="nor a group")
    await alice.sync(version, error=refused, protocol_type=None, member_id="some-id", note="not a member")
    await run.describe(state if state != "absent" else "Dead")


@scenario("2.2 Sync: group absent", "2.2 state Sync/absent", versions=SYNC)
async def sync_in_a_group_that_is_not_there(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await alice.sync(version, error=ErrorCode.UNKNOWN_MEMBER_ID, member_id="some-id", generation_id=1)
    await alice.sync(version, error=ErrorCode.UNKNOWN_MEMBER_ID, member_id="", generation_id=-1)
    await run.describe("Dead")


@scenario(
    "2.2 Sync: not a member",
    "2.2 Sync: wrong generation",
    "2.2 Sync: 25 before 22",
    versions=SYNC,
    choices=STATES[1:],
)
async def sync_of_another_member_or_for_another_generation(run: Run, version: int, state: str) -> None:
    made = await scene(run, state)
    alice, bob = made.alice, made.bob
    unknown, old = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION
    if state == "Empty":
        old = unknown
    await alice.sync(version, error=unknown, member_id="some-id", note="not a member")
    await alice.sync(version, error=unknown, member_id="", note="no id")
    await alice.sync(version, error=old, generation_id=alice.generation_id - 1, note="the last generation")
    await alice.sync(version, error=old, generation_id=alice.generation_id + 1, note="the next generation")
    await alice.sync(version, error=old, generation_id=-1, note="no generation")
    await bob.sync(version, error=unknown, member_id="some-id", generation_id=-5, note="neither")
    if version >= STATIC_SINCE:
        await alice.sync(version, error=unknown, group_instance_id="unknown", note="an unknown instance")
    await run.describe(state)


@scenario(
    "2.2 Sync: protocol differs",
    "2.2 Sync: 22 before 23",
    "3.52",
    versions=WITH_PROTOCOL,
    choices=STATES[2:],
)
async def sync_with_another_protocol(run: Run, version: int, state: str) -> None:
    made = await scene(run, state)
    alice = made.alice
    odd, old = ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.ILLEGAL_GENERATION
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    await alice.sync(version, error=odd, protocol_type="connect", note="another type")
    await alice.sync(version, error=odd, protocol_name="another", note="another name")
    await alice.sync(version, error=odd, protocol_name="", note="an empty name")
    await alice.sync(version, error=old, protocol_name="another", generation_id=77, note="22 before 23")
    await alice.sync(version, error=unknown, protocol_name="another", member_id="x", note="25 before 23")
    await run.describe(state)


@scenario("2.2 Sync: fenced", "2.2 Sync: 82 before 22", "3.37", versions=STATIC_SYNC, choices=STATES[1:])
async def sync_of_a_static_member_under_the_wrong_id(run: Run, version: int, state: str) -> None:
    made = await scene(run, state, static=True)
    alice, bob = made.alice, made.bob
    fenced = ErrorCode.FENCED_INSTANCE_ID if state != "Empty" else ErrorCode.UNKNOWN_MEMBER_ID
    await alice.sync(version, error=fenced, member_id="some-id", note="not its id")
    await alice.sync(version, error=fenced, member_id=bob.member_id or "x", note="another member's id")
    await alice.sync(version, error=fenced, member_id="some-id", generation_id=77, note="82 before 22")
    await alice.sync(
        version, error=ErrorCode.UNKNOWN_MEMBER_ID, group_instance_id="unknown", note="unknown instance"
    )
    await run.describe(state)


@scenario("2.2 state Sync/{choice}", versions=SYNC, choices=("Empty", "PreparingRebalance", "Stable"))
async def sync_as_it_should_be(run: Run, version: int, state: str) -> None:
    made = await scene(run, state)
    await made.alice.sync(version, error=BY_STATE[state], assignments={made.alice.member_id: b"other"})
    if state != "Empty":
        await made.bob.sync(version, error=BY_STATE[state])
    await run.describe(state)


@scenario("3.39", versions=STATIC_SYNC, choices=("PreparingRebalance", "Stable"))
async def sync_of_a_static_member(run: Run, version: int, state: str) -> None:
    made = await scene(run, state, static=True)
    await made.alice.sync(version, error=BY_STATE[state])
    await made.bob.sync(version, error=BY_STATE[state])
    await made.bob.sync(version, error=BY_STATE[state], group_instance_id=None, note="by its id alone")
    await run.describe(state)


@scenario("3.43", "3.44", "3.45", "3.46", "2.2 state Sync/CompletingRebalance", versions=SYNC)
async def followers_wait_for_the_leaders_assignment(run: Run, version: int) -> None:
    alice, bob, carol = cast(run, "alice", "bob", "carol")
    await completing(run, alice, bob, carol)
    bobs = await bob.send_sync(version)
    await run.parked(bobs)
    await run.describe("CompletingRebalance")
    assignments = {
        bob.member_id: b"for bob",
        "unknown": b"for an unknown member",
        alice.member_id: b"for alice",
    }
    await alice.sync(version, assignments)
    reply = await run.answer(bobs, ErrorCode.NONE, assignment=b"for bob")
    run.expect(version < 5 or reply.protocol_name == "range", "v5 names the protocol")
    late = await carol.sync(version)
    run.expect(late.assignment == b"", "who was left out gets nothing")
    await run.describe("Stable")


@scenario("3.43", versions=SYNC)
async def the_leader_assigns_nothing_at_all(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await completing(run, alice, bob)
    bobs = await bob.send_sync(version)
    await run.parked(bobs)
    await alice.sync(version)
    await run.answer(bobs, ErrorCode.NONE, assignment=b"")
    await run.describe("Stable")


@scenario("3.43", versions=SYNC)
async def one_member_assigned_twice(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await completing(run, alice)
    twice = [Assignment(member_id=alice.member_id, assignment=each) for each in (b"first", b"second")]
    request = alice.sync_request(version)
    request.assignments = twice
    await run.answer(await run.send(alice.name, request, version), ErrorCode.NONE)
    await run.describe("Stable")


@scenario("3.43", versions=SYNC)
async def a_followers_assignments_count_for_nothing(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await completing(run, alice, bob)
    bobs = await bob.send_sync(version, {bob.member_id: b"all for bob"})
    await run.parked(bobs)
    await alice.sync(version, {alice.member_id: b"all for alice"})
    await run.answer(bobs, ErrorCode.NONE, assignment=b"")


@scenario("3.45", "3.47", versions=SYNC)
async def the_leader_syncs_twice(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await completing(run, alice, bob)
    await alice.sync(version, {alice.member_id: b"first", bob.member_id: b"bobs"})
    await alice.sync(version, {alice.member_id: b"second"})
    reply = await bob.sync(version)
    run.expect(reply.assignment == b"bobs", "the first assignment stands")
    await run.describe("Stable")


@scenario("3.44", versions=SYNC)
async def a_second_sync_replaces_the_parked_one(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await completing(run, alice, bob)
    first = await bob.send_sync(version)
    await run.parked(first)
    second = await bob.send_sync(version, note="again")
    await run.parked(second)
    await alice.sync(assignments={bob.member_id: b"bobs"})
    await run.answer(second, ErrorCode.NONE)
    await run.unanswered(first)


@scenario("3.48", versions=SYNC)
async def who_does_not_sync_in_time_is_out(run: Run, version: int) -> None:
    alice, bob, carol = cast(run, "alice", "bob", "carol")
    for each in (alice, bob, carol):
        each.rebalance_timeout_ms = 900
    await completing(run, alice, bob, carol)
    bobs = await bob.send_sync(version)
    alices = await alice.sync(version, {bob.member_id: b"bobs", carol.member_id: b"carols"})
    run.expect(alices.error_code == ErrorCode.NONE, "the leader is served")
    await run.answer(bobs, ErrorCode.NONE)
    await run.describe("Stable")
    await run.until("PreparingRebalance", 2)
    await bob.heartbeat(error=ErrorCode.REBALANCE_IN_PROGRESS)
    await carol.heartbeat(error=ErrorCode.UNKNOWN_MEMBER_ID)
    await carol.sync(version, error=ErrorCode.UNKNOWN_MEMBER_ID)


@scenario("3.48", versions=SYNC)
async def a_leader_that_does_not_sync_in_time_is_out(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    for each in (alice, bob):
        each.rebalance_timeout_ms = 900
    await completing(run, alice, bob)
    bobs = await bob.send_sync(version)
    async with run.taking(0.4, 5.0):
        await run.answer(bobs, ErrorCode.REBALANCE_IN_PROGRESS)
    await run.describe("PreparingRebalance")
    await bob.join()
    run.expect(bob.leads, "bob leads now")
    await alice.heartbeat(error=ErrorCode.UNKNOWN_MEMBER_ID)


@scenario("3.48", versions=SYNC)
async def no_member_syncs_in_time(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    for each in (alice, bob):
        each.rebalance_timeout_ms = 900
    await completing(run, alice, bob)
    await run.until("Empty", 0)
    await run.describe("Empty")
    await bob.sync(version, error=ErrorCode.UNKNOWN_MEMBER_ID)


@scenario("3.51", versions=SYNC, choices=range(6), thin=True)
async def a_leader_that_leaves_before_its_sync(run: Run, version: int, leave_version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await completing(run, alice, bob)
    bobs = await bob.send_sync(version)
    await run.parked(bobs)
    await alice.leave_with(ErrorCode.NONE, leave_version)
    await run.answer(bobs, ErrorCode.REBALANCE_IN_PROGRESS)
    await bob.join()
    run.expect(bob.leads, "bob leads now")


@scenario("3.52", versions=range(5))
async def old_versions_are_not_asked_for_the_protocol(run: Run, version: int) -> None:
    alice = Actor(run, "alice", protocol_type="connect", protocols=[("eager", b"opaque")])
    await completing(run, alice)
    await alice.sync(version, {alice.member_id: b"opaque too"})
    await run.describe("Stable")


@scenario("bad input SyncGroup: 10 MB", "3.87", versions=SYNC)
async def sync_with_an_assignment_of_ten_megabytes(run: Run, version: int) -> None:
    """The assignment fits no record: the error of 3.87."""
    alice, bob = cast(run, "alice", "bob")
    await completing(run, alice, bob)
    bobs = await bob.send_sync(version)
    await run.parked(bobs)
    await alice.sync(version, {alice.member_id: bytes(10 << 20)}, error=ErrorCode.UNKNOWN_SERVER_ERROR)
    await run.answer(bobs, ErrorCode.UNKNOWN_SERVER_ERROR)
    await run.describe("PreparingRebalance")
    await bob.heartbeat(error=ErrorCode.REBALANCE_IN_PROGRESS)
    await rejoin_all(run, alice, bob)
    await all_sync(run, alice, bob)
    await run.describe("Stable")


@scenario("3.87", "2.1 SyncGroup: record too large", versions=SYNC)
async def an_assignment_that_fits_no_record(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await completing(run, alice, bob)
    bobs = await bob.send_sync(version)
    await run.parked(bobs)
    await alice.sync(version, {alice.member_id: bytes(2 << 20)}, error=ErrorCode.UNKNOWN_SERVER_ERROR)
    await run.answer(bobs, ErrorCode.UNKNOWN_SERVER_ERROR)
    await run.describe("PreparingRebalance")
    joins = [await alice.send_join(), await bob.send_join()]
    await alice.joined(joins[0])
    await bob.joined(joins[1])


@scenario("3.87", "2.1 JoinGroup: record too large", versions=range(5, 10))
async def a_static_replacement_that_fits_no_record(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice", static=True)
    await stable(run, alice)
    alice.protocols = [("range", subscription("orders") + bytes(2 << 20))]
    await alice.join(version, ErrorCode.UNKNOWN_SERVER_ERROR, member_id="")
    await run.describe("Stable")
    await alice.heartbeat(note="its id is as before")
