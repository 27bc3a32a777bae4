"""DescribeGroups, ListGroups, DeleteGroups, OffsetDelete and FindCoordinator (docs/kafka.md 2.3, 3.74 to 3.78)."""

from __future__ import annotations

from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.conformance.actors import (
    DELETE,
    DESCRIBE,
    JOIN,
    LIST,
    OTHER_TOPIC,
    PLAYED,
    TOPIC,
    Actor,
    subscription,
)
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.scenes import STATES, Scene, cast, completing, scene, stable

NOT_FOUND: Final = ErrorCode.GROUP_ID_NOT_FOUND
NON_EMPTY: Final = ErrorCode.NON_EMPTY_GROUP
UNREADABLE: Final = {"empty": b"", "short": b"\x00", "negative version": b"\xff\xff"}
LYING: Final = {
    "cut": b"\x00\x00\x00\x00\x00\x01",
    "count": b"\x00\x00\x00\x7f\x00\x00\x00\x05",
    "length": b"\x00\x00\x00\x00\x00\x01\x00\x05ab",
    "text": b"some text that is not a subscription",
}
"""Subscriptions that claim to hold more than there is."""


async def ask(run: Run, request: Any, version: int, note: str = "") -> Any:
    return await run.answer(await run.send("admin", request, version, note))


@scenario("2 versions of the group APIs")
async def the_versions_that_there_are_are_all_played(run: Run) -> None:
    connection = await run.free_connection("admin")
    reply = await connection.send(ApiVersionsRequest(), 4)
    ours = [api for api in reply.api_keys if api.api_key in PLAYED]
    for api in sorted(ours, key=lambda api: api.api_key):
        run.saw(f"the versions of {api.api_key}", api)
        got, right = range(api.min_version, api.max_version + 1), PLAYED[api.api_key]
        run.expect(got == right, f"scenarios play {right} of {api.api_key}, there are {got}")


# DescribeGroups


@scenario("3.28", "2.3 DescribeGroups: not Stable", versions=DESCRIBE, choices=STATES)
async def describe_in_every_state(run: Run, version: int, state: str) -> None:
    await scene(run, state)
    for asks in (False, True)[: 2 if version >= 3 else 1]:
        changed = {"include_authorized_operations": asks} if version >= 3 else {}
        reply = await ask(run, DescribeGroupsRequest(groups=[run.group], **changed), version)
        (group,) = reply.groups
        has_protocol = bool(group.protocol_data) or any(member.member_metadata for member in group.members)
        run.expect(
            has_protocol == (state == "Stable"), f"the protocol is described while Stable only: {group}"
        )
        if state == "absent":
            seen = (group.group_state, group.error_code)
            run.expect(seen == ("Dead", NOT_FOUND if version >= 6 else 0), f"Dead, an error since v6: {seen}")


@scenario("3.28", versions=DESCRIBE)
async def describe_static_members(run: Run, version: int) -> None:
    await scene(run, "Stable", static=True)
    await ask(run, DescribeGroupsRequest(groups=[run.group]), version)


@scenario(
    "2.3 DescribeGroups: group absent",
    "2.3 DescribeGroups: empty group id",
    "bad input DescribeGroups: empty ids",
    versions=DESCRIBE,
)
async def describe_several_groups(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    names = [f"{run.group}/{number}" for number in range(6)]
    for name in names[:4]:
        await alice.commit(group_id=name)
    await ask(run, DescribeGroupsRequest(groups=names), version)
    await ask(run, DescribeGroupsRequest(groups=[names[5], "", names[0], names[0]]), version, "twice, empty")
    await ask(run, DescribeGroupsRequest(groups=[]), version, "nothing")


@scenario("3.78", versions=DESCRIBE)
async def describe_a_group_that_is_not_of_consumers(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    for each in (alice, bob):
        each.protocol_type, each.protocols = "connect", [("sessioned", b"\x00worker"), ("eager", b"")]
    await stable(run, alice, bob)
    await ask(run, DescribeGroupsRequest(groups=[run.group]), version)


# ListGroups


async def listed(run: Run, version: int, note: str = "", **filters: list[str]) -> list[Any]:
    """The groups of this run as ListGroups shows them; the broker has many others."""
    asked = await run.send("admin", ListGroupsRequest(**filters), version, note)
    reply: ListGroupsResponse = await asked.reply
    reply.groups = [group for group in reply.groups if group.group_id.startswith(run.group)]
    run.saw(asked.what, reply)
    return reply.groups


@scenario("2.3 ListGroups: state since v4, type since v5", versions=LIST, choices=STATES)
async def list_in_every_state(run: Run, version: int, state: str) -> None:
    await scene(run, state)
    groups = await listed(run, version)
    right = [(state if version >= 4 else "", "classic" if version >= 5 else "")] * (state != "absent")
    got = [(group.group_state, group.group_type) for group in groups]
    run.expect(got == right, f"listed if it is there: {got}")


@scenario("2.3 ListGroups: filter of states", versions=(4, 5), choices=STATES[1:])
async def list_by_state(run: Run, version: int, state: str) -> None:
    await scene(run, state)
    assert len(await listed(run, version, states_filter=[state])) == 1
    await listed(run, version, "lower case", states_filter=[state.lower()])
    await listed(run, version, "upper case", states_filter=[state.upper()])
    await listed(run, version, "two states", states_filter=["Dead", state])
    await listed(run, version, "another state", states_filter=["Dead"])
    await listed(run, version, "unknown states", states_filter=["", "Stabel"])
    await listed(run, version, "unknown and right", states_filter=["Stabel", state])
    await listed(run, version, "blanks around", states_filter=[f" {state} "])
    await listed(run, version, "no filter", states_filter=[])


@scenario("2.3 ListGroups: filter of types", "2.3 ListGroups: unknown type", versions=(5,))
async def list_by_type(run: Run, version: int) -> None:
    await scene(run, "Stable")
    for types in (
        ["classic"],
        ["Classic"],
        ["CLASSIC"],
        ["consumer"],
        ["consumer", "classic"],
        ["unknown"],
        [""],
    ):
        groups = await listed(run, version, f"{types}", types_filter=types)
        matches = any(each.lower() == "classic" for each in types)
        run.expect(len(groups) == matches, f"{types}: {len(groups)} groups")
    await listed(run, version, "blanks around", types_filter=[" classic "])
    await listed(run, version, "unknown and right", types_filter=["nothing", "classic"])
    await listed(run, version, "both filters", types_filter=["classic"], states_filter=["Stable"])
    await listed(run, version, "state differs", types_filter=["classic"], states_filter=["Empty"])


@scenario("3.77", "3.78", versions=LIST)
async def list_simple_and_other_groups(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await alice.commit(group_id=f"{run.group}/simple")
    bob.protocol_type, bob.protocols = "connect", [("eager", b"")]
    await stable(run, bob)
    await listed(run, version)


# DeleteGroups


@scenario(
    "2.3 DeleteGroups: non-empty",
    "2.3 DeleteGroups: group absent",
    "3.74",
    "3.75",
    "O25",
    versions=DELETE,
    choices=STATES,
)
async def delete_in_every_state(run: Run, version: int, state: str) -> None:
    made = await scene(run, state)
    if state == "Empty":
        await Actor(run, "outsider").commit()
    reply = await ask(run, DeleteGroupsRequest(groups_names=[run.group]), version)
    error = {"absent": NOT_FOUND, "Empty": ErrorCode.NONE}.get(state, NON_EMPTY)
    got = reply.results[0].error_code
    run.expect(got == error, f"should be {error}, is {got}")
    is_gone = state in ("absent", "Empty")
    await run.describe("Dead" if is_gone else state)
    await listed(run, 5)
    if is_gone:
        await made.alice.fetch(9, None)
        await made.alice.fetch(9, [(TOPIC, 0)])
        await ask(run, DeleteGroupsRequest(groups_names=[run.group]), version, "twice")
        await made.alice.heartbeat(error=ErrorCode.UNKNOWN_MEMBER_ID)
        await made.alice.leave(errors=[ErrorCode.UNKNOWN_MEMBER_ID])
        made.alice.member_id = ""
        await made.alice.enter()
        run.expect(made.alice.generation_id == 1, "it begins again")


@scenario(
    "2.3 DeleteGroups: duplicates",
    "2.3 DeleteGroups: empty group id",
    "bad input DeleteGroups: empty ids",
    "3.75",
    versions=DELETE,
)
async def delete_several_groups(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice)
    names = [f"{run.group}/{number}" for number in range(6)]
    for name in names:
        await bob.commit(group_id=name)
    mixed = [names[0], run.group, names[1], "nowhere", names[0], "", names[3]]
    reply = await ask(run, DeleteGroupsRequest(groups_names=mixed), version)
    run.expect(len(reply.results) == len(set(mixed)), "one that is named twice is answered once")
    errors = {result.group_id: result.error_code for result in reply.results}
    run.expect(errors[run.group] == NON_EMPTY and errors["nowhere"] == NOT_FOUND, f"each its own: {errors}")
    await ask(run, DeleteGroupsRequest(groups_names=[]), version, "nothing")
    await ask(run, DescribeGroupsRequest(groups=[run.group, *names]), 6)
    await bob.fetch(9, None, *names)


@scenario("3.74", versions=DELETE)
async def a_simple_group_is_deleted(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await alice.commit()
    await ask(run, DeleteGroupsRequest(groups_names=[run.group]), version)
    await run.describe("Dead")
    await alice.fetch(9, None)


@scenario("3.74", versions=DELETE)
async def a_group_with_a_pending_id_only_is_deleted(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await alice.get_id()
    await ask(run, DeleteGroupsRequest(groups_names=[run.group]), version)
    await run.describe("Dead")
    await alice.join(error=ErrorCode.UNKNOWN_MEMBER_ID)


@scenario("3.74", "2.2 Join: id given, group absent", versions=JOIN)
async def a_deleted_group_is_joined(run: Run, version: int) -> None:
    """DescribeGroups calls it Dead; to a JoinGroup there is no group: an id is unknown, without one it is made."""
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice)
    await alice.leave()
    await ask(run, DeleteGroupsRequest(groups_names=[run.group]), 2)
    await run.describe("Dead")
    await alice.join(version, ErrorCode.UNKNOWN_MEMBER_ID, note="with its former id")
    await run.describe("Dead")
    await bob.enter(version)
    run.expect(bob.generation_id == 1, "without an id, the group is created again")
    await run.describe("CompletingRebalance")


# OffsetDelete


async def delete_offsets(run: Run, *wanted: tuple[str, int], group: str | None = None, note: str = "") -> Any:
    topics: dict[str, OffsetDeleteRequestTopic] = {}
    for name, index in wanted:
        topic = topics.setdefault(name, OffsetDeleteRequestTopic(name=name, partitions=[]))
        topic.partitions.append(OffsetDeleteRequestPartition(partition_index=index))
    request = OffsetDeleteRequest(
        group_id=run.group if group is None else group, topics=list(topics.values())
    )
    return await ask(run, request, 0, note)


@scenario(
    "2.3 OffsetDelete: empty group id", "2.3 OffsetDelete: group absent", "bad input OffsetDelete: empty ids"
)
async def delete_offsets_of_an_empty_group_id_and_of_no_group(run: Run) -> None:
    reply = await delete_offsets(run, (TOPIC, 0), group="")
    run.expect(reply.error_code == ErrorCode.INVALID_GROUP_ID, "24")
    reply = await delete_offsets(run, (TOPIC, 0), ("nowhere", 0))
    run.expect(reply.error_code == NOT_FOUND, "69")
    await delete_offsets(run, note="no topics")


@scenario(
    "2.3 OffsetDelete: subscribed topic",
    "2.3 OffsetDelete: unknown partition",
    "2.3 OffsetDelete: absent offset",
    "O24",
    choices=STATES[1:],
)
async def delete_offsets_in_every_state(run: Run, state: str) -> None:
    made = await scene(run, state)
    await commit_both(run, made, state)
    wanted = ((TOPIC, 0), (OTHER_TOPIC, 0), ("nowhere", 0), (TOPIC, 9), (OTHER_TOPIC, 1))
    reply = await delete_offsets(run, *wanted)
    got = {(t.name, p.partition_index): p.error_code for t in reply.topics for p in t.partitions}
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    read = 0 if state == "Empty" else ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    right = dict(zip(wanted, (read, 0, missing, missing, 0), strict=True))
    run.expect(got == right, f"errors should be {right}, are {got}")
    await made.alice.fetch(9, None)
    await delete_offsets(run, (OTHER_TOPIC, 0), note="twice")
    await delete_offsets(run, note="nothing")
    await run.describe(state)


async def commit_both(run: Run, made: Scene, state: str) -> None:
    """An offset of a topic that is read, and one of a topic that is not."""
    offsets = {(TOPIC, 0): 1, (OTHER_TOPIC, 0): 2, (TOPIC, 1): 3}
    if state == "Empty":
        await Actor(run, "outsider").commit(offsets=offsets)
    elif state != "CompletingRebalance":
        await made.alice.commit(offsets=offsets)


@scenario("2.3 OffsetDelete: non-empty, not of consumers", "3.78", choices=STATES[1:])
async def delete_offsets_of_a_group_that_is_not_of_consumers(run: Run, state: str) -> None:
    alice, bob, carol = cast(run, "alice", "bob", "carol")
    for each in (alice, bob, carol):
        each.protocol_type, each.protocols = "connect", [("eager", b"opaque")]
    await completing(run, alice, bob)
    if state != "CompletingRebalance":
        await bob.leave()
        await alice.join()
        await alice.sync()
        await alice.commit()
    if state == "Empty":
        await alice.leave()
    elif state == "PreparingRebalance":
        await carol.send_enter()
        await run.until(state, 2)
    reply = await delete_offsets(run, (TOPIC, 0), ("nowhere", 0), (OTHER_TOPIC, 0))
    run.expect(reply.error_code == (0 if state == "Empty" else NON_EMPTY), "refused unless empty")
    await alice.fetch(9, None)


@scenario("O21", choices=tuple(UNREADABLE))
async def a_subscription_that_cannot_be_read_is_to_everything(run: Run, kind: str) -> None:
    (alice,) = cast(run, "alice")
    alice.protocols = [("range", UNREADABLE[kind])]
    await stable(run, alice)
    await alice.commit(offsets={(TOPIC, 0): 1, (OTHER_TOPIC, 0): 2})
    reply = await delete_offsets(run, (TOPIC, 0), (OTHER_TOPIC, 0))
    errors = {p.error_code for topic in reply.topics for p in topic.partitions}
    run.expect(errors == {ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}, f"86 for all: {errors}")
    await alice.fetch(9, None)


@scenario("O21", choices=tuple(LYING))
async def a_subscription_that_lies_about_its_size(run: Run, kind: str) -> None:
    (alice,) = cast(run, "alice")
    await alice.get_id()
    alice.protocols = [("range", LYING[kind])]
    await run.answer_if_any(await alice.send_join())
    await run.describe()


@scenario("O24", "2.3 OffsetDelete: subscribed topic")
async def the_topics_of_all_members_are_subscribed_to(run: Run) -> None:
    alice, bob = cast(run, "alice", "bob")
    bob.protocols = [("range", subscription(OTHER_TOPIC))]
    await stable(run, alice, bob)
    await alice.commit(offsets={(TOPIC, 0): 1, (OTHER_TOPIC, 0): 2})
    await delete_offsets(run, (TOPIC, 0), (OTHER_TOPIC, 0))
    await bob.leave()
    await delete_offsets(run, (TOPIC, 0), (OTHER_TOPIC, 0), note="bob is gone, alice has not rejoined")
    await alice.join()
    await delete_offsets(run, (TOPIC, 0), (OTHER_TOPIC, 0), note="alice alone")
    await alice.fetch(9, None)


# FindCoordinator


@scenario("2.3 FindCoordinator: share group before v6", versions=range(1, 6))
async def find_the_coordinator_of_a_share_group_in_an_old_version(run: Run, version: int) -> None:
    await refused_coordinator(run, version, 2)


@scenario("2.3 FindCoordinator: node of a refusal", versions=range(1, 7))
async def find_a_coordinator_of_no_known_type(run: Run, version: int) -> None:
    for key_type in (3, -1, 127):
        await refused_coordinator(run, version, key_type)


async def refused_coordinator(run: Run, version: int, key_type: int) -> None:
    own = {"key": run.group} if version < 4 else {"coordinator_keys": [run.group, ""]}
    request = FindCoordinatorRequest(key_type=key_type, **own)
    reply = await ask(run, request, version, f"type {key_type}")
    for each in [reply] if version < 4 else reply.coordinators:
        node = (each.error_code, each.node_id, each.host, each.port)
        run.expect(node == (ErrorCode.INVALID_REQUEST, -1, "", -1), f"42 and no node: {node}")


@scenario("bad input FindCoordinator: empty ids", versions=range(4))
async def find_the_coordinator_of_one_group(run: Run, version: int) -> None:
    await ask(run, FindCoordinatorRequest(key=run.group), version)
    await ask(run, FindCoordinatorRequest(key=""), version, "an empty id")


@scenario("bad input FindCoordinator: empty ids", versions=range(4, 7))
async def find_the_coordinators_of_several_groups(run: Run, version: int) -> None:
    keys = [f"{run.group}/{number}" for number in range(3)]
    await ask(run, FindCoordinatorRequest(coordinator_keys=keys), version)
    await ask(run, FindCoordinatorRequest(coordinator_keys=[keys[0], "", keys[0]]), version, "twice, empty")
    await ask(run, FindCoordinatorRequest(coordinator_keys=[]), version, "nothing")
