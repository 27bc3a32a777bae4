"""Requests that can be decoded and make no sense: the error they get, and that the group is undisturbed.

Those with a null where none may be are in `nulls`; records that are too large are docs/kafka.md 3.87 as well.
"""

from __future__ import annotations

from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.join_group import JoinGroupRequestProtocol
from protocol.messages.leave_group import MemberIdentity
from tests.conformance.actors import (
    COMMIT,
    DELETE,
    DESCRIBE,
    FETCH,
    FIND,
    HEARTBEAT,
    JOIN,
    LEAVE,
    MEMBER_ID_REQUIRED_SINCE,
    STATIC_COMMIT_SINCE,
    STATIC_JOIN_SINCE,
    STATIC_SINCE,
    SYNC,
    TOPIC,
    subscription,
)
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.scenarios.administration import ask, delete_offsets
from tests.conformance.scenes import all_sync, cast, completing, scene, stable, undisturbed

INT32_MIN: Final = -(2**31)
LONGEST_TEXT: Final = "x" * 32_767
TEN_MEGABYTES: Final = 10 << 20
BAD_GROUP: Final = ErrorCode.INVALID_GROUP_ID
BAD_TIMEOUT: Final = ErrorCode.INVALID_SESSION_TIMEOUT
FULL_RECORD: Final = ErrorCode.UNKNOWN_SERVER_ERROR
NO_MATCH: Final = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
OLD: Final = ErrorCode.ILLEGAL_GENERATION
UNKNOWN: Final = ErrorCode.UNKNOWN_MEMBER_ID


def offers(*names: str, metadata: bytes = b"m") -> list[JoinGroupRequestProtocol]:
    """Protocols of a JoinGroup with these names."""
    return [JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names]


# JoinGroup


@scenario("bad input JoinGroup: empty ids", versions=JOIN)
async def join_with_empty_ids(run: Run, version: int) -> None:
    alice, bob, dave = cast(run, "alice", "bob", "dave")
    await stable(run, alice, bob)
    await dave.join(version, BAD_GROUP, group_id="")
    await bob.join(version, BAD_GROUP, group_id="", note="a member")
    await dave.join(version, NO_MATCH, protocol_type="", note="no type")
    await bob.join(version, NO_MATCH, protocol_type="", note="no type, a member")
    await dave.join(version, NO_MATCH, protocols=[], note="no protocol")
    await bob.join(version, NO_MATCH, protocols=[], note="no protocol, a member")
    await dave.join(version, NO_MATCH, protocols=offers(""), note="a protocol without a name")
    if version >= STATIC_JOIN_SINCE:
        await bob.join(version, UNKNOWN, group_instance_id="", note="an instance without a name")
    if version >= MEMBER_ID_REQUIRED_SINCE:
        await dave.join(version, ErrorCode.MEMBER_ID_REQUIRED, note="no member id")
    await undisturbed(run, alice, bob)


@scenario("bad input JoinGroup: negative timeouts", versions=JOIN)
async def join_with_negative_timeouts(run: Run, version: int) -> None:
    alice, bob, dave = cast(run, "alice", "bob", "dave")
    await stable(run, alice, bob)
    for timeout_ms in (-1, 0, INT32_MIN):
        for who in (dave, bob):
            await who.join(version, BAD_TIMEOUT, session_timeout_ms=timeout_ms, note=f"session {timeout_ms}")
        if version >= 1:  # An unchanged follower is answered at once, and its timeouts stay as they are.
            await bob.join(version, rebalance_timeout_ms=timeout_ms, note=f"rebalance {timeout_ms}")
        if version >= MEMBER_ID_REQUIRED_SINCE:
            required = ErrorCode.MEMBER_ID_REQUIRED
            await dave.join(
                version, required, rebalance_timeout_ms=timeout_ms, note=f"rebalance {timeout_ms}"
            )
    await undisturbed(run, alice, bob)


@scenario("bad input JoinGroup: negative timeouts", versions=JOIN)
async def join_with_timeouts_that_make_no_sense_together(run: Run, version: int) -> None:
    """The longest session timeout is refused; the longest rebalance timeout is taken."""
    (alice,) = cast(run, "alice")
    await alice.get_id(version)
    await alice.join(version, BAD_TIMEOUT, session_timeout_ms=2**31 - 1)
    alice.rebalance_timeout_ms = 2**31 - 1
    await alice.join(version)
    await all_sync(run, alice)
    await undisturbed(run, alice)


@scenario("bad input JoinGroup: duplicate protocols", versions=JOIN)
async def join_with_one_protocol_twice(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    alice.protocols = [("range", b"first"), ("range", b"second"), ("other", b"")]
    await alice.enter(version)
    await alice.sync(assignments={alice.member_id: b"all"})
    await run.describe("Stable")


@scenario("bad input JoinGroup: duplicate protocols", versions=JOIN)
async def join_with_one_protocol_twice_and_no_other(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    alice.protocols = [("range", b"first"), ("range", b"second")]
    await alice.get_id(version)
    await run.answer_if_any(await alice.send_join(version))
    await run.describe()


@scenario("bad input JoinGroup: duplicate protocols", versions=JOIN)
async def join_a_group_with_one_protocol_twice(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice)
    bob.protocols = [("range", b"first"), ("range", b"second")]
    await bob.get_id(version)
    join = await bob.send_join(version)
    await run.parked(join)
    await run.answer_if_any(await alice.send_join(version))
    await run.answer_if_any(join)
    await run.describe()


@scenario("bad input JoinGroup: duplicate protocols", versions=JOIN)
async def join_with_one_protocol_twice_that_no_other_member_has(run: Run, version: int) -> None:
    alice, bob, dave = cast(run, "alice", "bob", "dave")
    await stable(run, alice, bob)
    for who in (dave, bob):
        await who.join(version, NO_MATCH, protocols=offers("other", "other"))
    await undisturbed(run, alice, bob)


@scenario("bad input JoinGroup: 5,000 protocols", versions=JOIN)
async def join_with_five_thousand_protocols(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    alice.protocols = [(f"protocol-{number}", subscription(TOPIC)) for number in range(5_000)]
    await alice.enter(version)
    await all_sync(run, alice)
    await undisturbed(run, alice)


@scenario("bad input JoinGroup: 5,000 protocols", versions=JOIN)
async def join_with_five_thousand_protocols_that_no_other_member_has(run: Run, version: int) -> None:
    alice, bob, dave = cast(run, "alice", "bob", "dave")
    await stable(run, alice, bob)
    many = offers(*[f"protocol-{number}" for number in range(5_000)])
    for who in (dave, bob):
        await who.join(version, NO_MATCH, protocols=many)
    await undisturbed(run, alice, bob)


@scenario("bad input JoinGroup: oversized metadata", versions=JOIN)
async def join_with_metadata_of_ten_megabytes(run: Run, version: int) -> None:
    alice, bob, dave = cast(run, "alice", "bob", "dave")
    await stable(run, alice, bob)
    await dave.join(version, NO_MATCH, protocols=offers("other", metadata=bytes(TEN_MEGABYTES)))
    if version >= MEMBER_ID_REQUIRED_SINCE:
        large = offers("range", metadata=bytes(TEN_MEGABYTES))
        await dave.join(version, ErrorCode.MEMBER_ID_REQUIRED, protocols=large, note="handed an id")
    await undisturbed(run, alice, bob)


@scenario("bad input JoinGroup: oversized metadata", "3.87", versions=JOIN)
async def join_with_metadata_that_fits_no_record(run: Run, version: int) -> None:
    """Every member's metadata is in the record that the leader's SyncGroup writes."""
    (alice,) = cast(run, "alice")
    alice.protocol_type = "plain"
    alice.protocols = [("range", bytes(2 << 20))]
    await alice.enter(version)
    await alice.sync(error=FULL_RECORD)
    await run.describe("PreparingRebalance")
    alice.protocols = [("range", b"less")]
    await alice.join(version)
    await all_sync(run, alice)
    await undisturbed(run, alice)


@scenario("bad input JoinGroup: empty ids", versions=JOIN)
async def join_with_long_ids(run: Run, version: int) -> None:
    alice, bob, dave = cast(run, "alice", "bob", "dave")
    await stable(run, alice, bob)
    await dave.join(version, UNKNOWN, member_id=LONGEST_TEXT)
    await dave.join(version, NO_MATCH, protocol_type=LONGEST_TEXT)
    await dave.join(version, NO_MATCH, protocols=offers(LONGEST_TEXT))
    await dave.join(version, UNKNOWN, group_id=LONGEST_TEXT, member_id="some-id")
    await undisturbed(run, alice, bob)


@scenario("bad input JoinGroup: ids that leave no room", versions=JOIN)
async def join_with_ids_that_leave_no_room_for_a_member_id(run: Run, version: int) -> None:
    """A member id is made of the client id or the instance id, and would be longer than a text can be."""
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    request = alice.join_request(version, member_id="")
    long_client = await run.send_from("client", LONGEST_TEXT, request, version, "long client id")
    await run.answer_if_any(long_client)
    if version >= STATIC_JOIN_SINCE:
        request = alice.join_request(version, member_id="", group_instance_id=LONGEST_TEXT)
        await run.answer_if_any(await run.send("client", request, version, "long instance id"))
    await run.describe()


# SyncGroup and Heartbeat


@scenario("bad input SyncGroup: empty ids", versions=SYNC)
async def sync_with_empty_ids(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    await alice.sync(version, error=BAD_GROUP, group_id="")
    await alice.sync(version, error=UNKNOWN, member_id="")
    await alice.sync(version, error=OLD, generation_id=INT32_MIN)
    if version >= STATIC_SINCE:
        await alice.sync(version, error=UNKNOWN, group_instance_id="", note="an instance without a name")
    if version >= 5:
        await alice.sync(version, error=NO_MATCH, protocol_type="", note="no type")
        await alice.sync(version, error=NO_MATCH, protocol_name="", note="no protocol")
    await undisturbed(run, alice, bob)


@scenario("bad input SyncGroup: 10 MB", versions=SYNC)
async def sync_again_with_an_assignment_of_ten_megabytes(run: Run, version: int) -> None:
    """Once there is an assignment, another is not read."""
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    for who in (alice, bob):
        reply = await who.sync(version, {alice.member_id: bytes(TEN_MEGABYTES)})
        run.expect(reply.assignment == who.name.encode(), "the assignment that there is")
    await undisturbed(run, alice, bob)


@scenario("bad input SyncGroup: 10 MB", versions=SYNC)
async def a_followers_ten_megabytes_count_for_nothing(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await completing(run, alice, bob)
    bobs = await bob.send_sync(version, {bob.member_id: bytes(TEN_MEGABYTES)})
    await run.parked(bobs)
    await alice.sync(version, {bob.member_id: b"bobs"})
    await run.answer(bobs, ErrorCode.NONE, assignment=b"bobs")
    await undisturbed(run, alice, bob)


@scenario("3.43", "bad input SyncGroup: unknown members", versions=SYNC)
async def assignments_for_unknown_members(run: Run, version: int) -> None:
    made = await scene(run, "CompletingRebalance")
    strange = {f"unknown-{number}": b"x" for number in range(1_000)} | {"": b"no id"}
    await made.alice.sync(version, strange)
    await made.bob.sync(version)
    await undisturbed(run, made.alice, made.bob)


@scenario("bad input Heartbeat: empty ids", versions=HEARTBEAT)
async def heartbeat_with_empty_ids(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    await alice.heartbeat(version, BAD_GROUP, group_id="")
    await alice.heartbeat(version, UNKNOWN, member_id="")
    await alice.heartbeat(version, UNKNOWN, member_id=LONGEST_TEXT)
    await alice.heartbeat(version, OLD, generation_id=INT32_MIN)
    if version >= STATIC_SINCE:
        await alice.heartbeat(version, UNKNOWN, group_instance_id="", note="an instance without a name")
    await undisturbed(run, alice, bob)


# LeaveGroup


@scenario("bad input LeaveGroup: empty ids", versions=LEAVE)
async def leave_with_empty_ids(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    await alice.leave(version, error=BAD_GROUP, group_id="")
    alices, alice.member_id = alice.member_id, ""
    await alice.leave_with(UNKNOWN, version)
    alice.member_id = alices
    if version >= STATIC_SINCE:
        strangers = [
            MemberIdentity(member_id="", group_instance_id=""),
            MemberIdentity(member_id=alices, group_instance_id=""),
            *[MemberIdentity(member_id=f"unknown-{number}") for number in range(1_000)],
        ]
        await alice.leave(version, strangers, errors=[UNKNOWN] * len(strangers))
        await alice.leave(version, [], errors=[], note="no member at all")
    await undisturbed(run, alice, bob)


# OffsetCommit, OffsetFetch and OffsetDelete


@scenario("bad input OffsetCommit: empty ids", versions=COMMIT)
async def commit_with_empty_ids(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    await alice.commit(version, errors=UNKNOWN, member_id="")
    await alice.commit(version, errors=UNKNOWN, member_id="", generation_id_or_member_epoch=-1)
    await alice.commit(version, errors=None, group_id="")
    if version >= STATIC_COMMIT_SINCE:
        await alice.commit(version, errors=UNKNOWN, group_instance_id="")
    if version < 10:
        await alice.commit(version, {("", 0): 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    await alice.fetch(9, None, note="nothing was stored")
    await undisturbed(run, alice, bob)


@scenario("bad input OffsetCommit: negative numbers", "O4", versions=COMMIT)
async def commit_with_negative_numbers(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await alice.commit(version, errors=OLD, generation_id_or_member_epoch=INT32_MIN)
    await alice.commit(version, errors=UNKNOWN, member_id="", generation_id_or_member_epoch=INT32_MIN)
    await alice.commit(version, {(TOPIC, -1): 1, (TOPIC, INT32_MIN): 1}, errors=missing)
    await alice.commit(version, {(TOPIC, 0): -7}, note="offsets may be anything")
    if 2 <= version < 5:
        await alice.commit(version, {(TOPIC, 1): 1}, retention_time_ms=-2, note="retention -2")
        await alice.commit(version, {(TOPIC, 2): 1}, retention_time_ms=-(2**63), note="retention -2^63")
    await alice.fetch(9, None)
    await undisturbed(run, alice, bob)


@scenario("O3", "bad input OffsetCommit: oversized metadata", versions=COMMIT)
async def metadata_as_long_as_a_string_can_be(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    await alice.commit(version, metadata=LONGEST_TEXT, errors=ErrorCode.OFFSET_METADATA_TOO_LARGE)
    await alice.fetch(9, None, note="nothing was stored")
    await undisturbed(run, alice, bob)


@scenario("bad input OffsetFetch: empty ids", versions=FETCH)
async def fetch_with_empty_ids(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    await alice.fetch(version, [(TOPIC, 0)], "")
    if version < 10:
        await alice.fetch(version, [("", 0)])
    if version >= 9:
        await alice.fetch(version, member_id="", member_epoch=5)
    await undisturbed(run, alice, bob)


@scenario("bad input OffsetFetch: negative numbers", versions=FETCH)
async def fetch_with_negative_numbers(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    await alice.fetch(version, [(TOPIC, -1), (TOPIC, INT32_MIN)])
    if version >= 9:
        await alice.fetch(version, member_id=alice.member_id, member_epoch=INT32_MIN)
    await undisturbed(run, alice, bob)


@scenario("bad input OffsetDelete: negative numbers", "2.3 OffsetDelete: unknown partition")
async def delete_offsets_with_negative_numbers(run: Run) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    await alice.commit()
    await delete_offsets(run, (TOPIC, -1), (TOPIC, INT32_MIN), ("", 0))
    await alice.fetch(9, None)
    await undisturbed(run, alice, bob)


# Ids as long as they can be, where there is no group by that name


@scenario("bad input DescribeGroups: long ids", versions=DESCRIBE)
async def describe_with_long_ids(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    await ask(run, DescribeGroupsRequest(groups=[LONGEST_TEXT, run.group]), version)
    await undisturbed(run, alice, bob)


@scenario("bad input DeleteGroups: long ids", versions=DELETE)
async def delete_with_long_ids(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    await ask(run, DeleteGroupsRequest(groups_names=[LONGEST_TEXT, run.group]), version)
    await undisturbed(run, alice, bob)


@scenario("bad input OffsetDelete: long ids")
async def delete_offsets_with_long_ids(run: Run) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    await delete_offsets(run, (TOPIC, 0), group=LONGEST_TEXT)
    await delete_offsets(run, (LONGEST_TEXT, 0))
    await undisturbed(run, alice, bob)


@scenario("bad input FindCoordinator: long ids", versions=FIND)
async def find_the_coordinator_with_long_ids(run: Run, version: int) -> None:
    key = {"key": LONGEST_TEXT} if version < 4 else {"coordinator_keys": [LONGEST_TEXT]}
    await ask(run, FindCoordinatorRequest(**key), version)


@scenario("bad input OffsetCommit: long ids", versions=COMMIT)
async def commit_with_long_ids(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    await alice.commit(version, errors=None, group_id=LONGEST_TEXT)
    await alice.commit(version, errors=UNKNOWN, member_id=LONGEST_TEXT)
    if version >= STATIC_COMMIT_SINCE:
        await alice.commit(version, errors=UNKNOWN, group_instance_id=LONGEST_TEXT)
    if version < 10:
        await alice.commit(version, {(LONGEST_TEXT, 0): 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    await undisturbed(run, alice, bob)


@scenario("bad input OffsetFetch: long ids", versions=FETCH)
async def fetch_with_long_ids(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    await alice.fetch(version, [(TOPIC, 0)], LONGEST_TEXT)
    if version < 10:
        await alice.fetch(version, [(LONGEST_TEXT, 0)])
    await undisturbed(run, alice, bob)


@scenario("bad input SyncGroup: long ids", versions=SYNC)
async def sync_with_long_ids(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    for field in ("group_id", "member_id"):
        long: dict[str, Any] = {field: LONGEST_TEXT}
        await alice.sync(version, error=UNKNOWN, note=f"long {field}", **long)
    if version >= 5:
        for field in ("protocol_type", "protocol_name"):
            long = {field: LONGEST_TEXT}
            await alice.sync(version, error=NO_MATCH, note=f"long {field}", **long)
    await undisturbed(run, alice, bob)


@scenario("bad input LeaveGroup: long ids", versions=LEAVE)
async def leave_with_long_ids(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    alices, alice.member_id = alice.member_id, LONGEST_TEXT
    await alice.leave_with(UNKNOWN, version)
    await alice.leave_with(UNKNOWN, version, group_id=LONGEST_TEXT, note="long group id")
    alice.member_id = alices
    await undisturbed(run, alice, bob)
