"""Requests with a null where Kafka allows none: nothing can be decoded, and the connection ends.

Our own codec would not write them, so a null is put in the place of an empty text, list or byte string.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from protocol.codec.codec import spec
from protocol.framing import encode_request
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from protocol.messages.sync_group import SyncGroupRequestAssignment
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
from tests.conformance.run import CLOSED, Run
from tests.conformance.scenes import cast, stable, undisturbed
from tests.fields import with_fields

Build = Callable[[Any], Any]
"""A request with this in the place that is to be null."""
SIZE_BYTES: Final = 4


def with_null(build: Build, some: str | bytes | list[Any], version: int) -> bytes:
    """The frame of a request with a null where `build` puts what it is given; `some` is not empty there.

    An empty value and one of length 1 part at the length's last byte: that is where the null goes.
    """
    one = build(some)
    empty, full = (
        encode_request(request, version, CORRELATION_ID, "alice")[SIZE_BYTES:]
        for request in (build(type(some)()), one)
    )
    last = next(at for at, (left, right) in enumerate(zip(empty, full, strict=False)) if left != right)
    width = 1 if spec(type(one)).is_flexible(version) else 2 if isinstance(some, str) else 4
    null = b"\x00" if width == 1 else b"\xff" * width
    body = empty[: last + 1 - width] + null + empty[last + 1 :]
    return len(body).to_bytes(SIZE_BYTES, "big") + body


async def ask_with_nulls(
    run: Run, version: int, places: dict[str, tuple[Build, str | bytes | list[Any]]]
) -> None:
    """One request for each of `places`, each on a connection of its own."""
    for what, (build, some) in places.items():
        request = build(some)
        key = spec(type(request)).api_key
        assert key is not None
        name = type(request).__name__.removesuffix("Request")
        frame = with_null(build, some, version)
        asked = await run.send_frame(f"null-{what}", frame, key, version, f"{name} v{version} with no {what}")
        reply = await run.answer(asked)
        run.expect(reply == CLOSED, f"{name} v{version} with no {what}: should end the connection")


def field_of(build: Callable[..., Any], field: str) -> Build:
    """`build` with a field that is given later."""
    return lambda value: build(**{field: value})


async def two_members(run: Run) -> tuple[Actor, Actor]:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    return alice, bob


@scenario("bad input JoinGroup: nulls", versions=JOIN)
async def join_with_nulls(run: Run, version: int) -> None:
    alice, bob = await two_members(run)

    def join(**changed: Any) -> Any:
        return alice.join_request(version, **changed)

    def offering(**given: Any) -> Any:
        return join(protocols=[JoinGroupRequestProtocol(**({"name": "range", "metadata": b"m"} | given))])

    protocol = JoinGroupRequestProtocol(name="range", metadata=b"m")
    places: dict[str, tuple[Build, Any]] = {
        field: (field_of(join, field), "x") for field in ("group_id", "member_id", "protocol_type")
    }
    places |= {"protocols": (field_of(join, "protocols"), [protocol])}
    places |= {"name": (field_of(offering, "name"), "x"), "metadata": (field_of(offering, "metadata"), b"x")}
    await ask_with_nulls(run, version, places)
    await undisturbed(run, alice, bob)


@scenario("bad input SyncGroup: nulls", versions=SYNC)
async def sync_with_nulls(run: Run, version: int) -> None:
    alice, bob = await two_members(run)

    def sync(**changed: Any) -> Any:
        return alice.sync_request(version, **changed)

    def with_assignments(assignments: Any) -> Any:
        request = sync()
        request.assignments = assignments
        return request

    def assigning(**given: Any) -> Any:
        return with_assignments(
            [SyncGroupRequestAssignment(**({"member_id": "m", "assignment": b"a"} | given))]
        )

    one = SyncGroupRequestAssignment(member_id="m", assignment=b"a")
    places: dict[str, tuple[Build, Any]] = {
        "group_id": (field_of(sync, "group_id"), "x"),
        "member_id": (field_of(sync, "member_id"), "x"),
        "assignments": (with_assignments, [one]),
        "assigned member_id": (field_of(assigning, "member_id"), "x"),
        "assignment": (field_of(assigning, "assignment"), b"x"),
    }
    await ask_with_nulls(run, version, places)
    await undisturbed(run, alice, bob)


@scenario("bad input Heartbeat: nulls", versions=HEARTBEAT)
async def heartbeat_with_nulls(run: Run, version: int) -> None:
    alice, bob = await two_members(run)

    def heartbeat(**changed: Any) -> Any:
        return alice.heartbeat_request(version, **changed)

    await ask_with_nulls(
        run, version, {field: (field_of(heartbeat, field), "x") for field in ("group_id", "member_id")}
    )
    await undisturbed(run, alice, bob)


@scenario("bad input JoinGroup: text that is not UTF-8", versions=JOIN)
async def join_with_text_that_is_not_utf_8(run: Run, version: int) -> None:
    """What cannot be decoded is replaced, and the reply says so."""
    alice, bob = await two_members(run)
    damaged = (
        b"\xff\xc3(\xe2\x82|\xf0\x9f\x98|\xc0\xaf|\xf8\x88\x80\x80\x80|\xf4\x90\x80\x80|\xe0\x80\x80|\xe2"
    )
    stand_in = "?" * len(damaged)
    for field in ("group_id", "member_id", "protocol_type"):
        body = body_of(alice.join_request(version, **{field: stand_in}), version)
        body = body.replace(stand_in.encode(), damaged)
        frame = len(body).to_bytes(SIZE_BYTES, "big") + body
        asked = await run.send_frame(
            "odd", frame, 11, version, f"JoinGroup v{version} with {field} not UTF-8"
        )
        await run.answer(asked)
    await undisturbed(run, alice, bob)


@scenario("bad input Heartbeat: bytes too many", versions=HEARTBEAT)
async def heartbeat_with_bytes_too_many(run: Run, version: int) -> None:
    """Bytes behind the message are not read."""
    alice, bob = await two_members(run)
    body = body_of(alice.heartbeat_request(version), version)
    await beat(run, body + b"and more", version, "bytes too many", HeartbeatResponse)
    await undisturbed(run, alice, bob)


@scenario("bad input Heartbeat: bytes too few", versions=HEARTBEAT)
async def heartbeat_with_bytes_too_few(run: Run, version: int) -> None:
    alice, bob = await two_members(run)
    body = body_of(alice.heartbeat_request(version), version)
    for missing in (1, 3, 20):
        await beat(run, body[:-missing], version, f"{missing} bytes too few", str)
    await undisturbed(run, alice, bob)


@scenario("bad input Heartbeat: unknown tag", versions=range(4, 5))
async def heartbeat_with_an_unknown_tag(run: Run, version: int) -> None:
    """Tagged fields that a broker does not know are passed over."""
    alice, bob = await two_members(run)
    body = body_of(alice.heartbeat_request(version), version)
    one_field = bytes((1, 77, 3)) + b"abc"
    await beat(run, body[:-1] + one_field, version, "an unknown tag", HeartbeatResponse)
    await beat(run, body[:-1] + one_field[:-1], version, "an unknown tag cut short", str)
    await undisturbed(run, alice, bob)


def body_of(request: Any, version: int) -> bytes:
    return encode_request(request, version, CORRELATION_ID, "alice")[SIZE_BYTES:]


async def beat(run: Run, body: bytes, version: int, note: str, expected: type) -> None:
    """Send `body` as a Heartbeat; the answer is an `expected`, or a word."""
    frame = len(body).to_bytes(SIZE_BYTES, "big") + body
    asked = await run.send_frame("odd", frame, 12, version, f"Heartbeat v{version} with {note}")
    reply = await run.answer(asked)
    run.expect(isinstance(reply, expected), f"Heartbeat v{version} with {note}: {reply}")


@scenario("bad input LeaveGroup: nulls", versions=LEAVE)
async def leave_with_nulls(run: Run, version: int) -> None:
    alice, bob = await two_members(run)
    own = {"member_id": "x"} if version < 3 else {"members": [MemberIdentity(member_id="x")]}

    def leave(**changed: Any) -> Any:
        return LeaveGroupRequest(**({"group_id": run.group} | own | changed))

    def naming(**given: Any) -> Any:
        return leave(members=[MemberIdentity(**given)])

    places: dict[str, tuple[Build, Any]] = {"group_id": (field_of(leave, "group_id"), "x")}
    if version < 3:
        places |= {"member_id": (field_of(leave, "member_id"), "x")}
    else:
        places |= {"members": (field_of(leave, "members"), own["members"])}
        places |= {"member_id": (field_of(naming, "member_id"), "x")}
    await ask_with_nulls(run, version, places)
    await undisturbed(run, alice, bob)


@scenario("bad input OffsetCommit: nulls", versions=COMMIT)
async def commit_with_nulls(run: Run, version: int) -> None:
    alice, bob = await two_members(run)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)

    def commit(**changed: Any) -> Any:
        return alice.commit_request(version, {(TOPIC, 0): 1}, **changed)

    def of_topic(**given: Any) -> Any:
        return commit(topics=[OffsetCommitRequestTopic(**({"partitions": [partition]} | given))])

    places: dict[str, tuple[Build, Any]] = {
        "group_id": (field_of(commit, "group_id"), "x"),
        "member_id": (field_of(commit, "member_id"), "x"),
        "topics": (field_of(commit, "topics"), commit().topics),
        "partitions": (field_of(of_topic, "partitions"), [partition]),
    }
    if version < 10:
        places |= {"name": (field_of(of_topic, "name"), "x")}
    await ask_with_nulls(run, version, places)
    await alice.fetch(9, None, note="nothing was stored")
    await undisturbed(run, alice, bob)


@scenario("bad input OffsetFetch: nulls", versions=FETCH)
async def fetch_with_nulls(run: Run, version: int) -> None:
    alice, bob = await two_members(run)
    await ask_with_nulls(run, version, _places_of_fetch(version))
    await undisturbed(run, alice, bob)


def _places_of_fetch(version: int) -> dict[str, tuple[Build, Any]]:
    topic_class = OffsetFetchRequestTopics if version >= 8 else OffsetFetchRequestTopic

    def fetch(topics: Any = None, **own: Any) -> Any:
        if version >= 8:
            group = OffsetFetchRequestGroup(group_id="g", topics=topics)
            return OffsetFetchRequest(groups=[with_fields(group, **own)])
        return with_fields(OffsetFetchRequest(group_id="g", topics=topics or []), **own)

    def of_topic(**given: Any) -> Any:
        return fetch([topic_class(**({"name": "t", "partition_indexes": [0]} | given))])

    places: dict[str, tuple[Build, Any]] = {
        "group_id": (field_of(fetch, "group_id"), "x"),
        "partition_indexes": (field_of(of_topic, "partition_indexes"), [0]),
    }
    if version < 10:
        places |= {"name": (field_of(of_topic, "name"), "x")}
    if version >= 8:
        one = OffsetFetchRequestGroup(group_id="g", topics=None)
        places |= {"groups": (lambda value: OffsetFetchRequest(groups=value), [one])}
    if version < 2:
        places |= {"topics": (fetch, [topic_class(name="t", partition_indexes=[0])])}
    return places


@scenario("bad input OffsetDelete: nulls")
async def delete_offsets_with_nulls(run: Run) -> None:
    alice, bob = await two_members(run)
    partition = OffsetDeleteRequestPartition(partition_index=0)
    topic = OffsetDeleteRequestTopic(name="t", partitions=[partition])

    def delete(**given: Any) -> Any:
        return OffsetDeleteRequest(**({"group_id": run.group, "topics": [topic]} | given))

    def of_topic(**given: Any) -> Any:
        return delete(topics=[OffsetDeleteRequestTopic(**({"name": "t", "partitions": [partition]} | given))])

    places: dict[str, tuple[Build, Any]] = {
        "group_id": (field_of(delete, "group_id"), "x"),
        "topics": (field_of(delete, "topics"), [topic]),
        "name": (field_of(of_topic, "name"), "x"),
        "partitions": (field_of(of_topic, "partitions"), [partition]),
    }
    await ask_with_nulls(run, 0, places)
    await undisturbed(run, alice, bob)


def filtered_by(field: str, value: Any) -> ListGroupsRequest:
    return ListGroupsRequest(**{field: value})


def filtered_by_one(field: str, value: Any) -> ListGroupsRequest:
    return filtered_by(field, [value])


@scenario("bad input ListGroups: nulls", versions=range(4, 6))
async def list_with_nulls(run: Run, version: int) -> None:
    alice, bob = await two_members(run)
    fields = ("states_filter", "types_filter")[: version - 3]
    places: dict[str, tuple[Build, Any]] = {}
    for field in fields:
        places[field] = partial(filtered_by, field), ["Stable"]
        places[f"text in {field}"] = partial(filtered_by_one, field), "x"
    await ask_with_nulls(run, version, places)
    await undisturbed(run, alice, bob)


@scenario("bad input DescribeGroups: nulls", versions=DESCRIBE)
async def describe_with_nulls(run: Run, version: int) -> None:
    alice, bob = await two_members(run)
    places: dict[str, tuple[Build, Any]] = {
        "groups": (lambda value: DescribeGroupsRequest(groups=value), ["x"]),
        "group id": (lambda value: DescribeGroupsRequest(groups=[value]), "x"),
    }
    await ask_with_nulls(run, version, places)
    await undisturbed(run, alice, bob)


@scenario("bad input DeleteGroups: nulls", "2.3 DeleteGroups: null", versions=DELETE)
async def delete_with_nulls(run: Run, version: int) -> None:
    alice, bob = await two_members(run)
    places: dict[str, tuple[Build, Any]] = {
        "groups": (lambda value: DeleteGroupsRequest(groups_names=value), ["x"]),
        "group id": (lambda value: DeleteGroupsRequest(groups_names=[value]), "x"),
    }
    await ask_with_nulls(run, version, places)
    await undisturbed(run, alice, bob)


@scenario("bad input FindCoordinator: nulls", versions=range(7))
async def find_the_coordinator_with_nulls(run: Run, version: int) -> None:
    alice, bob = await two_members(run)
    places: dict[str, tuple[Build, Any]] = {"key": (lambda value: FindCoordinatorRequest(key=value), "x")}
    if version >= 4:
        places = {
            "keys": (lambda value: FindCoordinatorRequest(coordinator_keys=value), ["x"]),
            "key": (lambda value: FindCoordinatorRequest(coordinator_keys=[value]), "x"),
        }
    await ask_with_nulls(run, version, places)
    await undisturbed(run, alice, bob)
