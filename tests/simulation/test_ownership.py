"""What the simulation holds against a group's owners, shown by histories in which one thing is wrong."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from protocol.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_assignment,
    encode_subscription,
)
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.shared import TopicPartitions
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.simulation.catalogue import Catalogue
from tests.simulation.marks import Marks
from tests.simulation.ownership import Ownership
from tests.simulation.profile import COOPERATIVE
from tests.simulation.sticky import assign, holders

ORDERS = [("orders", 0), ("orders", 1)]
G1 = ("g", 1)


def subscription(*topics: str, holds: int | None = None, since: int = -1) -> ConsumerProtocolSubscription:
    owned = [] if holds is None else [TopicPartitions(topic="orders", partitions=[holds])]
    return ConsumerProtocolSubscription(topics=list(topics), owned_partitions=owned, generation_id=since)


def assignment(*partitions: tuple[str, int]) -> bytes:
    parts = [TopicPartitions(topic=topic, partitions=[p]) for topic, p in partitions]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=parts))


def join(*topics: str) -> JoinGroupRequest:
    metadata = encode_subscription(subscription(*topics))
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=1,
        member_id="",
        group_instance_id="i",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


def sync(member_id: str, **assigned: bytes) -> SyncGroupRequest:
    given = [SyncGroupRequestAssignment(member_id=name, assignment=data) for name, data in assigned.items()]
    return SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id, assignments=given)


def consumer(member_id: str, *owned: tuple[str, int], leads: bool = False, wants: str = "orders") -> Any:
    return SimpleNamespace(
        member_id=member_id,
        owned=list(owned),
        leads=leads,
        decided=ORDERS,
        subscription=(wants,),
        profile=SimpleNamespace(is_worker=False),
    )


class Group:
    """Generation 1 of a group of a and b, who read two partitions."""

    def __init__(self, protocol: str = "range", **subscriptions: ConsumerProtocolSubscription) -> None:
        self.found: list[str] = []
        self.marks = Marks()
        self.ownership = Ownership(self.found.append, self.marks)
        self.topics = Catalogue(orders=2, clicks=1)
        members = [
            SimpleNamespace(member_id=name, metadata=encode_subscription(said))
            for name, said in (
                subscriptions or {"a": subscription("orders"), "b": subscription("orders")}
            ).items()
        ]
        answer = SimpleNamespace(generation_id=1, protocol_name=protocol, members=members)
        self.ownership.on_leader_answered(join("orders"), answer)
        self.ownership.on_leader_assigned(sync("a", a=assignment(ORDERS[0]), b=assignment(ORDERS[1])))

    def unsettled(self, *live: Any) -> list[str]:
        return list(self.ownership.unsettled(G1, live, self.topics))


A, B = consumer("a", ORDERS[0], leads=True), consumer("b", ORDERS[1])


def test_all_is_well_when_each_has_what_it_was_assigned() -> None:
    assert Group().unsettled(A, B) == []


@pytest.mark.parametrize(
    "live",
    [
        pytest.param([A, consumer("b")], id="one has nothing"),
        pytest.param([A, consumer("b", ORDERS[0])], id="two have the same"),
        pytest.param([A, consumer("b", ORDERS[1], ("clicks", 0))], id="one has what it did not subscribe to"),
        pytest.param([A, consumer("c", ORDERS[1])], id="one was never listed"),
        pytest.param([A, consumer("b", ORDERS[1], wants="clicks")], id="one subscribed to something else"),
    ],
)
def test_what_is_wrong_is_said(live: list[Any]) -> None:
    assert Group().unsettled(*live)


def test_a_partition_that_is_new_has_an_owner_once_the_leader_has_seen_it() -> None:
    group = Group()
    group.topics.grow("orders", 3)
    assert group.unsettled(A, B)
    follower = consumer("a", ORDERS[0], leads=False)
    assert group.unsettled(follower, B) == [], "a leader that does not know it looks at no topics"


def test_a_static_member_that_came_back_has_its_predecessors_place_whatever_it_wants() -> None:
    group = Group()
    group.ownership.on_replaced(join("clicks"), "b2", "b", kept=1)
    assert group.unsettled(A, consumer("b2", ORDERS[1], wants="clicks")) == []
    assert group.unsettled(A, consumer("b2", wants="clicks")), "not with nothing"
    assert group.marks.reached == {"kept_with_other_subscription"}


def cooperative(**holds: int) -> Group:
    members = {name: subscription("orders", holds=holds.get(name), since=0) for name in "ab"}
    return Group(COOPERATIVE, **members)


def test_what_one_still_holds_is_given_to_no_other() -> None:
    group = cooperative(a=1)
    group.ownership.on_assignment(sync("b"), assignment(ORDERS[1]))
    (found,) = group.found
    assert "went from a to b" in found


def test_what_was_given_up_may_move() -> None:
    group = cooperative(a=0)
    group.ownership.on_assignment(sync("b"), assignment(ORDERS[1]))
    group.ownership.on_assignment(sync("a"), assignment(ORDERS[0]))
    assert group.found == []


# The sticky assignor.


def test_what_moves_is_owned_by_no_member_for_a_generation() -> None:
    both = {"a": subscription("orders"), "b": subscription("orders")}
    both["a"].owned_partitions = [TopicPartitions(topic="orders", partitions=[0, 1])]
    both["a"].generation_id = 4
    first = assign(both, lambda topic: 2)
    assert first == {"a": [ORDERS[0]], "b": []}
    both["a"].owned_partitions = [TopicPartitions(topic="orders", partitions=[0])]
    assert assign(both, lambda topic: 2) == {"a": [ORDERS[0]], "b": [ORDERS[1]]}


def test_the_newest_word_counts_of_who_holds_what() -> None:
    said = {"a": subscription("orders", holds=0, since=3), "b": subscription("orders", holds=0, since=4)}
    assert holders(said) == {ORDERS[0]: "b"}
    said["a"].generation_id = 4
    assert holders(said) == {}, "two that say the same are both wrong"
