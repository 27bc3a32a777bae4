"""The comparison itself: what is renamed, what is sorted, and that nothing else passes for equal."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from protocol import messages
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from protocol.messages.find_coordinator import Coordinator
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from protocol.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseTopic
from tests.conformance.comparison import (
    UNORDERED,
    UNORDERED_WHEN_ALL,
    Difference,
    Entry,
    differences,
    normalised,
)

A, B = "alice-11111111-1111-1111-1111-111111111111", "bob-22222222-2222-2222-2222-222222222222"
C, D = "alice-ffffffff-ffff-ffff-ffff-ffffffffffff", "bob-eeeeeeee-eeee-eeee-eeee-eeeeeeeeeeee"


def compare(kafka: list[Entry], muster: list[Entry]) -> list[Difference]:
    return differences(normalised(kafka, "127.0.0.1:1111"), normalised(muster, "127.0.0.1:2222"))


def joined(leader: str, member_id: str, *members: str, **fields: Any) -> Entry:
    listed = [JoinGroupResponseMember(member_id=each, metadata=each[:3].encode()) for each in members]
    reply = JoinGroupResponse(leader=leader, member_id=member_id, members=listed, generation_id=1, **fields)
    return Entry("join", reply)


def test_member_ids_are_renamed_one_to_one_and_members_come_in_any_order() -> None:
    kafka = [joined(A, A, A, B), joined(A, B)]
    muster = [joined(C, C, D, C), joined(C, D)]
    assert compare(kafka, muster) == []


def test_another_member_in_the_same_place_is_a_difference() -> None:
    kafka = [joined(A, A, A, B), joined(A, B)]
    muster = [joined(C, C, D, C), joined(D, D)]
    assert [each.fields for each in compare(kafka, muster)] == [(("leader", "alice-#1", "bob-#2"),)]


def test_the_readable_part_of_an_id_is_compared() -> None:
    assert compare([joined("", A)], [joined("", A.replace("alice", "carol"))])[0].fields[0][0] == "member_id"


def test_an_id_that_the_broker_generated_is_renamed_and_one_that_a_client_brought_is_not() -> None:
    first, second = "VooKj2pSSSWdB8Gq15U2UQ", "r7AH8D5HQeq-IhaSSJ40kQ"
    assert compare([joined("", first), joined("", first)], [joined("", second), joined("", second)]) == []
    assert compare([joined("", first), joined("", first)], [joined("", second), joined("", first)]) != []
    assert compare([joined("", "alice-id")], [joined("", "bob-id")]) != []


def test_members_with_generated_ids_come_in_any_order() -> None:
    """What a broker generated decides on no order: the name that it was given for it does."""
    low, high = "A" * 22, "z" * 22
    kafka, muster = ([joined("", each), joined("", each, "bob-id", each)] for each in (low, high))
    for entries, own in ((kafka, low), (muster, high)):
        for member in entries[1].seen.members:
            member.metadata = b"hers" if member.member_id == own else b"his"
    assert compare(kafka, muster) == []


def test_null_is_not_empty_and_a_number_not_a_flag() -> None:
    kafka, muster = [joined("", "", protocol_name=None)], [joined("", "", protocol_name="")]
    assert compare(kafka, muster)[0].fields == (("protocol_name", None, ""),)
    assert compare([Entry("x", 1)], [Entry("x", True)]) != []


def test_throttle_times_have_to_be_plausible_only() -> None:
    fine = [Entry("beat", HeartbeatResponse(throttle_time_ms=3))]
    assert compare(fine, [Entry("beat", HeartbeatResponse())]) == []
    assert compare(fine, [Entry("beat", HeartbeatResponse(throttle_time_ms=-1))]) != []


def test_the_address_is_the_brokers_own_or_a_difference() -> None:
    def found(host: str, port: int) -> list[Entry]:
        return [Entry("find", Coordinator(key="g", node_id=1, host=host, port=port))]

    assert compare(found("127.0.0.1", 1111), found("127.0.0.1", 2222)) == []
    assert compare(found("127.0.0.1", 1111), found("127.0.0.1", 1111)) != []
    assert compare(found("", -1), found("", -1)) == []


def test_a_nodes_id_is_its_own_at_its_own_address_and_a_difference_elsewhere() -> None:
    own = {"127.0.0.1:2222": (7, 8), "127.0.0.1:3333": (1,)}

    def compared(node_id: int, port: int) -> list[Difference]:
        kafka = [Entry("find", Coordinator(key="g", node_id=1, host="127.0.0.1", port=1111))]
        muster = [Entry("find", Coordinator(key="g", node_id=node_id, host="127.0.0.1", port=port))]
        theirs = normalised(kafka, "127.0.0.1:1111", node_ids={"127.0.0.1:1111": (1,)})
        return differences(theirs, normalised(muster, "127.0.0.1:2222", node_ids=own))

    assert compared(7, 2222) == compared(8, 2222) == compared(1, 3333) == []
    for node_id, port in ((9, 2222), (1, 2222), (7, 3333), (7, 4444), (-1, 2222)):
        assert compared(node_id, port) != []


def test_described_members_are_matched_by_what_they_say() -> None:
    def described(*members: tuple[str, bytes]) -> Entry:
        listed = [
            DescribedGroupMember(member_id=m, client_id="c", client_host="/h", member_assignment=a)
            for m, a in members
        ]
        return Entry("described", DescribedGroup(group_id="g", members=listed))

    assert compare([described((A, b"1"), (B, b"2"))], [described((D, b"2"), (C, b"1"))]) == []
    swapped = compare([described((A, b"1"), (B, b"2"))], [described((D, b"1"), (C, b"2"))])
    assert swapped != []


def test_the_order_of_topics_counts_where_they_were_named() -> None:
    def fetched(*names: str) -> OffsetFetchResponse:
        return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name=n, partitions=[]) for n in names])

    assert compare([Entry("fetch", fetched("a", "b"))], [Entry("fetch", fetched("b", "a"))]) != []
    everything = [Entry("fetch", fetched(*names), UNORDERED_WHEN_ALL) for names in ("ab", "ba")]
    assert compare(everything[:1], everything[1:]) == []


def test_a_script_that_broke_off_differs_in_all_that_it_did_not_see() -> None:
    whole = [Entry("one", "seen"), Entry("two", "seen")]
    assert [each.what for each in compare(whole, whole[:1])] == ["two"]
    assert [each.what for each in compare(whole[:1], whole)] == ["two"]


def test_the_lists_without_an_order_are_lists_of_messages() -> None:
    """They are named by class and field: a class that is renamed would have its lists compared in their order."""
    declared = {
        (cls.__name__, field)
        for module in iter_modules(messages.__path__, f"{messages.__name__}.")
        for cls in vars(import_module(module.name)).values()
        if isinstance(cls, type)
        for field in getattr(cls, "__annotations__", ())
    }
    assert (UNORDERED | UNORDERED_WHEN_ALL) - declared == set()
