"""Requests that can be decoded and make no sense: the error they get, and that nobody else is hurt.

Where a field must not be null but is, nothing can be decoded, and the connection ends.
"""

from __future__ import annotations

from typing import Any, Final

from protocol.codec import spec
from protocol.errors import ErrorCode
from protocol.framing import encode_request
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_delete import OffsetDeleteRequest
from tests.conformance.actors import (
    COMMIT,
    DELETE,
    DESCRIBE,
    FETCH,
    HEARTBEAT,
    JOIN,
    LEAVE,
    SYNC,
    TOPIC,
    Actor,
)
from tests.conformance.connection import CORRELATION_ID
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.scenes import cast, scene, stable

STANDS_FOR_NULL: Final = "NULL?"


def with_nulls(request: Any, version: int) -> bytes:
    """The frame of `request`, in which every string that is STANDS_FOR_NULL is null."""
    flexible = spec(type(request)).is_flexible(version)
    text = STANDS_FOR_NULL.encode()
    present = bytes([len(text) + 1]) + text if flexible else len(text).to_bytes(2, "big") + text
    null = b"\x00" if flexible else b"\xff\xff"
    frame = encode_request(request, version, CORRELATION_ID, "alice")
    body = frame[4:].replace(present, null)
    return len(body).to_bytes(4, "big") + body


async def ask_with_nulls(run: Run, request: Any, version: int, what: str) -> None:
    key = spec(type(request)).api_key
    assert key is not None
    name = type(request).__name__.removesuffix("Request")
    frame = with_nulls(request, version)
    await run.answer(
        await run.send_frame(f"alice-{run.asked}", frame, key, version, f"{name} v{version} with {what}")
    )
    run.asked += 1


@scenario("2.2 Join", versions=JOIN)
async def join_with_nulls(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await stable(run, alice)
    for field in ("group_id", "member_id", "protocol_type"):
        request = alice.join_request(version, **{field: STANDS_FOR_NULL})
        await ask_with_nulls(run, request, version, f"no {field}")
    await run.describe("Stable")


@scenario("2.2 Sync", versions=SYNC)
async def sync_with_nulls(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await stable(run, alice)
    for field in ("group_id", "member_id"):
        request = alice.sync_request(version, None, **{field: STANDS_FOR_NULL})
        await ask_with_nulls(run, request, version, f"no {field}")
    await run.describe("Stable")


@scenario("2.2 Heartbeat", versions=HEARTBEAT)
async def heartbeat_with_nulls(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await stable(run, alice)
    for field in ("group_id", "member_id"):
        request = alice.heartbeat_request(version, **{field: STANDS_FOR_NULL})
        await ask_with_nulls(run, request, version, f"no {field}")
    await run.describe("Stable")


@scenario("2.2 Leave", versions=LEAVE)
async def leave_with_nulls(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await stable(run, alice)
    null = STANDS_FOR_NULL
    one: dict[str, Any] = (
        {"member_id": null} if version < 3 else {"members": [MemberIdentity(member_id=null)]}
    )
    await ask_with_nulls(run, LeaveGroupRequest(group_id=run.group, **one), version, "no member id")
    own: dict[str, Any] = {"member_id": "x"} if version < 3 else {"members": [MemberIdentity(member_id="x")]}
    await ask_with_nulls(run, LeaveGroupRequest(group_id=null, **own), version, "no group id")
    await run.describe("Stable")


@scenario("2.3 OffsetCommit", versions=COMMIT)
async def commit_with_nulls(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    for field in ("group_id", "member_id"):
        request = alice.commit_request(version, {(TOPIC, 0): 1}, **{field: STANDS_FOR_NULL})
        await ask_with_nulls(run, request, version, f"no {field}")
    if version < 10:
        request = alice.commit_request(version, {(STANDS_FOR_NULL, 0): 1})
        await ask_with_nulls(run, request, version, "no topic name")
    await run.describe("Dead")


@scenario("2.3 OffsetFetch", versions=FETCH)
async def fetch_with_nulls(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await ask_with_nulls(
        run, alice.fetch_request(version, [(TOPIC, 0)], STANDS_FOR_NULL), version, "no group id"
    )
    if version < 10:
        await ask_with_nulls(
            run, alice.fetch_request(version, [(STANDS_FOR_NULL, 0)]), version, "no topic name"
        )


@scenario("2.3 DeleteGroups", versions=DELETE)
async def delete_with_nulls(run: Run, version: int) -> None:
    await ask_with_nulls(run, DeleteGroupsRequest(groups_names=[STANDS_FOR_NULL]), version, "no name")


@scenario("2.3 DescribeGroups", versions=DESCRIBE)
async def describe_with_nulls(run: Run, version: int) -> None:
    await ask_with_nulls(run, DescribeGroupsRequest(groups=[STANDS_FOR_NULL]), version, "no name")


@scenario("2.3 OffsetDelete")
async def delete_offsets_with_nulls(run: Run) -> None:
    await ask_with_nulls(run, OffsetDeleteRequest(group_id=STANDS_FOR_NULL, topics=[]), 0, "no group id")


@scenario("O3", versions=COMMIT)
async def metadata_as_long_as_a_string_can_be(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await alice.commit(version, metadata="x" * 32_767, errors=ErrorCode.OFFSET_METADATA_TOO_LARGE)
    await alice.fetch()


@scenario("2.2 Join", versions=(3, 4, 5, 9))
async def join_with_long_ids(run: Run, version: int) -> None:
    long = "x" * 32_767
    alice = Actor(run, "alice")
    await alice.join(version, error=None, member_id=long)
    await alice.join(version, error=None, protocol_type=long)
    await alice.join(version, error=None, group_id=long)


@scenario("3.87", versions=(3, 5, 9))
async def join_with_metadata_that_fits_no_record(run: Run, version: int) -> None:
    """Every member's metadata is in the record that the leader's SyncGroup writes."""
    (alice,) = cast(run, "alice")
    alice.protocol_type = "plain"
    alice.protocols = [("range", bytes(2 << 20))]
    await alice.enter(version)
    await alice.sync(error=None)
    await run.describe()
    await alice.heartbeat(error=None)


@scenario("2.2 Sync", "3.43", versions=SYNC)
async def assignments_for_nobody_known(run: Run, version: int) -> None:
    made = await scene(run, "CompletingRebalance")
    strange = {f"nobody-{number}": b"x" for number in range(1_000)} | {"": b"no id"}
    await made.alice.sync(version, strange)
    await made.bob.sync(version)
    await run.describe("Stable")
