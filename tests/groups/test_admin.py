"""Describing, listing and deleting groups (docs/kafka.md 2.3, 3.28, 3.74 to 3.78)."""

from __future__ import annotations

import pytest

from coordinator.effects import CoordinatorRecord, RequestContext, RequestReceived
from coordinator.groups.group_operations import GROUP_OPERATIONS
from coordinator.groups.record_schemas import GroupMetadataKey, OffsetCommitKey
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
)
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from tests.groups.consumer import Consumer, form_group, subscription
from tests.groups.driver import Driver


@pytest.fixture
def driver() -> Driver:
    return Driver()


def describe(driver: Driver, group_id: str = "g", version: int = 5, **kwargs: bool) -> DescribedGroup:
    (group,) = driver.call(DescribeGroupsRequest(groups=[group_id], **kwargs), version).groups
    assert isinstance(group, DescribedGroup)
    return group


def listed(driver: Driver, *, states: list[str] | None = None, types: list[str] | None = None) -> list[str]:
    request = ListGroupsRequest(states_filter=states or [], types_filter=types or [])
    return [group.group_id for group in driver.call(request, 5).groups]


def test_a_stable_group_is_shown_with_what_members_offered_and_were_given(driver: Driver) -> None:
    consumer = Consumer(driver, "billing", instance_id="i")
    form_group(driver, consumer)
    assert describe(driver) == DescribedGroup(
        group_id="g",
        group_state="Stable",
        protocol_type="consumer",
        protocol_data="range",
        members=[
            DescribedGroupMember(
                member_id=consumer.member_id,
                group_instance_id="i",
                client_id="billing",
                client_host="/10.0.0.1",
                member_metadata=subscription("orders"),
                member_assignment=consumer.member_id.encode(),
            )
        ],
    )


@pytest.mark.parametrize(("letter", "bytes_each"), [("x", 1), ("ö", 2)])
def test_an_absent_group_has_no_message_where_its_name_leaves_no_room(
    driver: Driver, letter: str, bytes_each: int
) -> None:
    group_id = letter * (32_767 // bytes_each)
    described = describe(driver, group_id, version=6)
    assert described == DescribedGroup(
        group_id=group_id, group_state="Dead", error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=None
    )


def test_a_group_that_rebalances_shows_no_protocol_and_no_metadata(driver: Driver) -> None:
    consumer = Consumer(driver)
    consumer.join()
    described = describe(driver)
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert described.members[0].member_metadata == b""
    driver.advance(3_000)
    assert describe(driver).group_state == "CompletingRebalance"


def test_3_28_client_id_and_host_are_those_of_the_join(driver: Driver) -> None:
    consumer = Consumer(driver, "billing")
    form_group(driver, consumer)
    (member,) = describe(driver).members
    assert (member.client_id, member.client_host) == ("billing", "/10.0.0.1")


def test_an_absent_group_is_dead_and_since_version_6_an_error(driver: Driver) -> None:
    assert describe(driver, "absent", 5) == DescribedGroup(group_id="absent", group_state="Dead")
    assert describe(driver, "absent", 6) == DescribedGroup(
        group_id="absent",
        group_state="Dead",
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message="Group absent not found.",
    )


def test_operations_are_shown_only_if_asked_for_and_without_error(driver: Driver) -> None:
    Consumer(driver).join()
    assert describe(driver).authorized_operations == -(2**31)
    assert describe(driver, include_authorized_operations=True).authorized_operations == GROUP_OPERATIONS
    absent = describe(driver, "absent", 6, include_authorized_operations=True)
    assert absent.authorized_operations == -(2**31)
    assert GROUP_OPERATIONS == 3400


def test_groups_are_listed_by_state_and_type_whatever_the_case(driver: Driver) -> None:
    form_group(driver, Consumer(driver, group_id="stable"))
    Consumer(driver, group_id="preparing").join()
    Consumer(driver, group_id="simple").commit(1)
    assert listed(driver) == ["stable", "preparing", "simple"]
    assert listed(driver, states=["stable", " EMPTY "]) == ["stable", "simple"]
    assert listed(driver, types=["CLASSIC"], states=["PreparingRebalance"]) == ["preparing"]
    assert listed(driver, types=["consumer"]) == []
    assert listed(driver, types=["nonsense"]) == []
    assert listed(driver, states=["nonsense"]) == []


def test_3_77_a_simple_group_is_listed_empty_without_a_type_and_may_become_a_real_one(driver: Driver) -> None:
    Consumer(driver).commit(1)
    (simple,) = driver.call(ListGroupsRequest(), 5).groups
    assert simple == ListedGroup(group_id="g", protocol_type="", group_state="Empty", group_type="classic")
    form_group(driver, Consumer(driver))
    assert driver.group().protocol_type == "consumer"


def test_3_74_deleting_an_empty_group_takes_its_offsets_with_it(driver: Driver) -> None:
    consumer = Consumer(driver)
    form_group(driver, consumer)
    consumer.commit(5, "orders", 1)
    consumer.leave()
    assert driver.call(DeleteGroupsRequest(groups_names=["g"]), 2) == DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id="g")]
    )
    assert describe(driver).group_state == "Dead"
    assert listed(driver) == []
    assert driver.shard.offsets.count() == 0
    assert [entry.value for entry in driver.log[-2:]] == [None, None]
    assert driver.last_event().reason == "group deleted by admin"
    driver.restart()
    assert driver.shard.groups == {}


def test_3_75_a_group_with_members_is_not_deleted_and_the_others_of_the_batch_are(driver: Driver) -> None:
    form_group(driver, Consumer(driver, group_id="busy"))
    Consumer(driver, group_id="idle").commit(1)
    names = ["busy", "idle", "absent", "idle"]
    reply = driver.call(DeleteGroupsRequest(groups_names=names), 1)
    assert [(r.group_id, r.error_code) for r in reply.results] == [
        ("busy", ErrorCode.NON_EMPTY_GROUP),
        ("idle", ErrorCode.NONE),
        ("absent", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert listed(driver) == ["busy"]


def test_the_delete_is_answered_when_it_is_durable(driver: Driver) -> None:
    Consumer(driver).commit(1)
    driver.hold_disk()
    token = driver.send(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert not driver.answered(token)
    driver.flush()
    assert driver.answered(token)


def test_a_deleted_group_starts_again_from_nothing(driver: Driver) -> None:
    consumer = Consumer(driver)
    form_group(driver, consumer)
    consumer.leave()
    driver.call(DeleteGroupsRequest(groups_names=["g"]), 2)
    again = Consumer(driver)
    form_group(driver, again)
    assert again.generation_id == 1
    driver.assert_replay_agrees()


def test_timers_of_a_deleted_group_fire_without_effect(driver: Driver) -> None:
    consumer = Consumer(driver)
    driver.replies.pop(consumer.send_join())  # An id is handed out; its timer is armed.
    driver.call(DeleteGroupsRequest(groups_names=["g"]), 2)
    driver.advance(20_000)
    assert driver.shard.groups == {}


def test_3_78_a_connect_group_is_like_any_other_but_its_metadata_is_opaque(driver: Driver) -> None:
    worker = Consumer(driver, protocol_type="connect", protocols=(("compatible", b"\xff"),))
    form_group(driver, worker)
    described = describe(driver)
    assert (described.protocol_type, described.members[0].member_metadata) == ("connect", b"\xff")
    assert driver.group().subscribed_topics is None


def test_a_group_of_any_size_can_be_deleted_its_tombstones_stand_alone(driver: Driver) -> None:
    Consumer(driver).commit(1)
    request = DeleteGroupsRequest(groups_names=["g"])
    context = RequestContext(999, 2, "admin", "/h")
    result = driver.shard.handle(RequestReceived(request, context, driver.wall_ms), driver.now_ms)
    assert not result.atomic
    keys = [record.key for record in result.records if isinstance(record, CoordinatorRecord)]
    assert len(keys) == len(result.records)
    assert [type(key) for key in keys] == [OffsetCommitKey, GroupMetadataKey]
