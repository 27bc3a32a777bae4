"""JoinGroup's refusals, in the order of Kafka's checks (docs/kafka.md 2.2), and member ids (3.1 to 3.10)."""

from __future__ import annotations

import asyncio
import re
from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequestProtocol
from tests.conformance.actors import (
    JOIN,
    MEMBER_ID_REQUIRED_SINCE,
    STATIC_JOIN_SINCE,
    Actor,
)
from tests.conformance.comparison import UUID
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.scenes import STATES, cast, completing, scene, stable

WITH_IDS: Final = range(MEMBER_ID_REQUIRED_SINCE, 10)
WITHOUT_IDS: Final = range(MEMBER_ID_REQUIRED_SINCE)
STATIC_JOIN: Final = range(STATIC_JOIN_SINCE, 10)
INT32_MAX: Final = 2**31 - 1


@scenario("2.2 Join: empty group id", "2.2 Join: what a refusal carries", versions=JOIN)
async def join_with_an_empty_group_id(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    refused = await alice.send_join(version, group_id="")
    await run.answer(
        refused,
        ErrorCode.INVALID_GROUP_ID,
        generation_id=-1,
        leader="",
        members=[],
        protocol_type=None,
        protocol_name="" if version < 7 else None,
    )
    await alice.join(
        version, ErrorCode.INVALID_GROUP_ID, group_id="", member_id="some-id", note="echoes the id"
    )
    await alice.join(
        version, ErrorCode.INVALID_GROUP_ID, group_id="", session_timeout_ms=1, note="comes first"
    )


@scenario("2.2 Join: session timeout outside", versions=JOIN)
async def join_with_a_session_timeout_out_of_range(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    for timeout_ms in (99, 0, -1, 1_800_001, INT32_MAX, -INT32_MAX - 1):
        await alice.join(
            version,
            ErrorCode.INVALID_SESSION_TIMEOUT,
            session_timeout_ms=timeout_ms,
            member_id="some-id",
            note=f"{timeout_ms} ms",
        )
    await run.describe("Dead")


@scenario("2.2 Join: session timeout outside", versions=JOIN)
async def join_with_a_session_timeout_at_either_end_of_the_range(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    alice.session_timeout_ms = 1_800_000
    await alice.enter(version)
    await alice.leave()
    (bob,) = cast(run, "bob")
    bob.session_timeout_ms = 100
    if version < MEMBER_ID_REQUIRED_SINCE:
        await bob.join(version)
    else:
        await bob.join(version, ErrorCode.MEMBER_ID_REQUIRED)


@scenario(
    "2.2 Join: id given, group absent",
    "2.2 state Join with a pending id or v<4/absent",
    "2.2 state Join of a member, same metadata/absent",
    "2.2 state Join of a member, new metadata/absent",
    versions=JOIN,
)
async def join_with_an_id_to_a_group_that_is_not_there(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await alice.join(version, ErrorCode.UNKNOWN_MEMBER_ID, member_id="some-id")
    if version >= STATIC_JOIN_SINCE:
        await alice.join(version, ErrorCode.UNKNOWN_MEMBER_ID, member_id="some-id", group_instance_id="i")
    await run.describe("Dead")


@scenario("2.2 Join: no protocol on an empty group", versions=JOIN)
async def join_without_a_protocol_to_a_new_group(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await alice.join(version, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, protocol_type="")
    await run.describe()
    await alice.join(version, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, protocols=[])
    await run.describe()
    await alice.join(
        version,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        protocols=[],
        member_id="some-id",
        note="now it is there",
    )


@scenario(
    "2.2 Join: type differs",
    "2.2 Join: no protocol in common",
    "2.2 Join: protocols that do not fit, id echoed",
    "3.22",
    "3.23",
    versions=JOIN,
    choices=STATES[2:],
    thin=True,
)
async def join_with_protocols_that_do_not_fit(run: Run, version: int, state: str) -> None:
    made = await scene(run, state)
    dave = Actor(run, "dave")
    refused = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    cooperative = [JoinGroupRequestProtocol(name="cooperative-sticky", metadata=b"x")]
    await dave.join(version, refused, protocol_type="connect", note="another type")
    await dave.join(version, refused, protocol_type="", note="no type")
    await dave.join(version, refused, protocols=cooperative, note="nothing in common")
    await dave.join(version, refused, protocols=[], note="no protocols")
    await dave.join(version, refused, protocols=cooperative, member_id="some-id", note="echoes the id")
    await made.bob.join(version, refused, protocols=cooperative, note="a member")
    await made.alice.join(version, refused, protocol_type="connect", note="the leader")
    await run.describe(state)


@scenario("3.23", versions=JOIN)
async def any_protocol_type_is_taken_when_empty(run: Run, version: int) -> None:
    await scene(run, "Empty")
    dave = Actor(run, "dave", protocol_type="connect", protocols=[("eager", b"opaque")])
    await dave.enter(version)
    await run.describe("CompletingRebalance")


@scenario(
    "2.2 Join: id required", "2.2 state Join of a newcomer/{choice}", "3.3", versions=WITH_IDS, choices=STATES
)
async def a_newcomer_is_handed_an_id_first(run: Run, version: int, state: str) -> None:
    """In no state does the id alone begin a rebalance."""
    await scene(run, state)
    dave = Actor(run, "dave")
    reply = await dave.join(version, ErrorCode.MEMBER_ID_REQUIRED)
    run.expect(
        re.fullmatch(f"dave-{UUID.pattern}", reply.member_id) is not None, "the id is <client.id>-<uuid>"
    )
    again = await dave.join(version, ErrorCode.MEMBER_ID_REQUIRED, note="asks again")
    run.expect(again.member_id != reply.member_id, "each gets its own id")
    await run.describe("Empty" if state == "absent" else state)


@scenario("3.1", "3.2", "3.21", versions=WITHOUT_IDS)
async def an_old_client_is_in_at_once(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await run.describe("Dead")
    reply = await alice.join(version)
    run.expect(
        re.fullmatch(f"alice-{UUID.pattern}", reply.member_id) is not None, "the id is <client.id>-<uuid>"
    )
    run.expect(reply.generation_id == 1, "the first generation is 1")
    await run.describe("CompletingRebalance")


@scenario("3.1", "3.3", "3.21", versions=WITH_IDS)
async def the_first_join_makes_the_group(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await alice.get_id(version)
    await run.describe("Empty")
    reply = await alice.join(version)
    run.expect(reply.generation_id == 1, "the first generation is 1")
    await run.describe("CompletingRebalance")


@scenario("3.4", versions=WITH_IDS)
async def an_id_that_is_not_used_in_time_is_dropped(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await completing(run, alice)
    bob.session_timeout_ms = 300
    await bob.get_id(version)
    await asyncio.sleep(1.0)
    bob.session_timeout_ms = 60_000
    await bob.join(version, ErrorCode.UNKNOWN_MEMBER_ID, note="too late")


@scenario("3.5", "3.16", versions=WITH_IDS)
async def a_pending_id_holds_up_the_join_phase_until_it_joins(run: Run, version: int) -> None:
    alice, bob, carol = cast(run, "alice", "bob", "carol")
    await stable(run, alice)
    await carol.get_id(version)
    bob_join = await bob.send_enter(version)
    await run.until("PreparingRebalance", 2)
    alice_join = await alice.send_join(version)
    await run.parked(alice_join)
    await run.parked(bob_join)
    await run.describe("PreparingRebalance")
    await carol.join(version)
    await alice.joined(alice_join)
    await bob.joined(bob_join)


@scenario("3.5", "3.4", versions=WITH_IDS)
async def a_pending_id_holds_up_the_join_phase_until_it_times_out(run: Run, version: int) -> None:
    alice, bob, carol = cast(run, "alice", "bob", "carol")
    await stable(run, alice)
    carol.session_timeout_ms = 1_000
    await carol.get_id(version)
    bob_join = await bob.send_enter(version)
    await run.until("PreparingRebalance", 2)
    alice_join = await alice.send_join(version)
    await run.parked(alice_join)
    await alice.joined(alice_join)
    await bob.joined(bob_join)
    await run.describe("CompletingRebalance")


@scenario("3.5", "3.6", "2.2 Leave: member", versions=range(6))
async def a_pending_id_that_leaves_lets_the_join_phase_end(run: Run, version: int) -> None:
    alice, bob, carol = cast(run, "alice", "bob", "carol")
    await stable(run, alice)
    await carol.get_id()
    bob_join = await bob.send_enter()
    await run.until("PreparingRebalance", 2)
    alice_join = await alice.send_join()
    await run.parked(alice_join)
    await carol.leave_with(ErrorCode.NONE, version)
    await alice.joined(alice_join)
    await bob.joined(bob_join)
    await carol.join(error=ErrorCode.UNKNOWN_MEMBER_ID, note="its id is gone")


@scenario("3.6", versions=range(6), choices=("Empty", "CompletingRebalance", "Stable"))
async def a_pending_id_that_leaves_starts_a_rebalance(run: Run, version: int, state: str) -> None:
    made = await scene(run, state)
    await made.carol.get_id()
    await made.carol.leave_with(ErrorCode.NONE, version)
    await run.describe("Empty" if state == "Empty" else "PreparingRebalance")  # Kafka asks no further.
    await made.carol.leave_with(ErrorCode.UNKNOWN_MEMBER_ID, version, note="twice")


@scenario("3.2", versions=WITHOUT_IDS, choices=("no", "an empty"))
async def an_old_client_without_a_name(run: Run, version: int, kind: str) -> None:
    (alice,) = cast(run, "alice")
    client_id = None if kind == "no" else ""
    request = alice.join_request(version)
    await alice.joined(await run.send_from("alice", client_id, request, version, f"{kind} client id"))
    await run.describe("CompletingRebalance")


@scenario("3.3", versions=WITH_IDS, choices=("no", "an empty"))
async def a_client_without_a_name(run: Run, version: int, kind: str) -> None:
    (alice,) = cast(run, "alice")
    client_id = None if kind == "no" else ""
    for error in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.NONE):
        request = alice.join_request(version)
        asked = await run.send_from("alice", client_id, request, version, f"{kind} client id")
        reply = await alice.joined(asked, error)
        alice.member_id = reply.member_id
    await run.describe("CompletingRebalance")


@scenario("3.7", "3.9", versions=STATIC_JOIN)
async def a_static_member_is_in_at_once(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice", static=True)
    reply = await alice.join(version)
    run.expect(
        re.fullmatch(f"alice-instance-{UUID.pattern}", reply.member_id) is not None,
        "the id is <instance.id>-<uuid>",
    )
    again = await alice.join(version, member_id="")
    run.expect(again.member_id != reply.member_id, "each join gets another id")
    await run.describe("CompletingRebalance")


@scenario("3.8", "2.1 JoinGroup: unexpected", versions=STATIC_JOIN)
async def a_pending_id_may_not_come_back_with_an_instance_id(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice)
    await bob.get_id(version)
    await bob.join(version, ErrorCode.UNKNOWN_SERVER_ERROR, group_instance_id="bob-instance")
    await run.describe("Stable")
    await alice.heartbeat()


@scenario("2.2 Join: id unknown", versions=JOIN, choices=STATES[1:])
async def join_with_an_id_that_the_group_does_not_know(run: Run, version: int, state: str) -> None:
    await scene(run, state)
    dave = Actor(run, "dave")
    await dave.join(version, ErrorCode.UNKNOWN_MEMBER_ID, member_id="some-id")
    if version >= STATIC_JOIN_SINCE:
        await dave.join(
            version,
            ErrorCode.UNKNOWN_MEMBER_ID,
            member_id="some-id",
            group_instance_id="unknown",
            note="static",
        )
    await run.describe(state)


@scenario(
    "2.2 Join: instance under another id",
    "2.2 Join: instance unknown, id given",
    "3.37",
    versions=STATIC_JOIN,
    choices=STATES[1:],
)
async def join_with_the_wrong_id_for_a_static_member(run: Run, version: int, state: str) -> None:
    made = await scene(run, state, static=True)
    is_empty = state == "Empty"
    fenced = ErrorCode.UNKNOWN_MEMBER_ID if is_empty else ErrorCode.FENCED_INSTANCE_ID
    await made.alice.join(version, fenced, member_id="some-id", note="not its id")
    await made.alice.join(
        version, fenced, member_id=made.bob.member_id or "bobs-id", note="another member's id"
    )
    await made.alice.join(
        version, ErrorCode.UNKNOWN_MEMBER_ID, group_instance_id="unknown", note="its id, an unknown instance"
    )
    await run.describe(state)


@scenario(
    "2.2 Join: id known, group Empty",
    "2.2 state Join of a member, same metadata/Empty",
    "2.2 state Join of a member, new metadata/Empty",
    versions=JOIN,
)
async def a_former_member_is_not_known_to_an_empty_group(run: Run, version: int) -> None:
    made = await scene(run, "Empty")
    await made.alice.join(version, ErrorCode.UNKNOWN_MEMBER_ID)
    made.alice.protocols = [("other", b"new")]
    await made.alice.join(version, ErrorCode.UNKNOWN_MEMBER_ID, note="offers something else")
    await run.describe("Empty")


@scenario("3.10", versions=(0, 1))
async def version_0_takes_the_session_timeout_for_the_rebalance_timeout(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    alice.session_timeout_ms = 800 if version == 0 else 30_000
    alice.rebalance_timeout_ms = 800
    await alice.join(version)
    await alice.sync()
    bob.session_timeout_ms = 700
    bob.rebalance_timeout_ms = 700
    async with run.taking(0.4, 4.0):
        await bob.join(version)
    await run.describe("CompletingRebalance")


@scenario("3.48", versions=range(1, 10), choices=(-1, 0, -1000), thin=True)
async def join_with_a_rebalance_timeout_that_is_no_time(run: Run, version: int, timeout_ms: int) -> None:
    """There is no time to sync either: the member is out at once."""
    (alice,) = cast(run, "alice")
    alice.rebalance_timeout_ms = timeout_ms
    await alice.enter(version)
    await run.until("Empty", 0)
    await alice.heartbeat(error=ErrorCode.UNKNOWN_MEMBER_ID)


@scenario("bad input JoinGroup: empty ids", versions=JOIN)
async def join_with_empty_names_and_metadata(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    alice.protocols = [("", b"")]
    await alice.enter(version)
    await run.describe("CompletingRebalance")
    await alice.sync(assignments={alice.member_id: b"all"}, protocol_name="")
    await run.describe("Stable")
    await alice.heartbeat()
