"""The row that ends a rebalance of a consumer group names whom it waited for, to give up what, for how long."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.effects import GroupEvent
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.waited_for import GIVEN_UP_MAX, GivenUp, Releases
from harness.doubles.topics import Topics, topic_id_of
from protocol.consumer import ConsumerProtocolSubscription, encode_subscription
from protocol.messages.shared import TopicPartitions
from tests.groups.consumer import Consumer
from tests.groups.consumer_groups.new_member import ORDERS, NewMember, settle
from tests.groups.consumer_groups.test_shard import classic_group
from tests.groups.driver import Driver
from tests.groups.history_consumer_cases import new_group

ALL_THERE = "all members have what they are to have"


@pytest.fixture
def driver() -> Driver:
    return Driver()


def ended(driver: Driver) -> list[GroupEvent]:
    """The events that ended a rebalance; none says that it waited for longer than it took."""
    found = [event for event in driver.history if event.rebalance_cause is not None]
    for event in found:
        assert (event.last_arrival_ms or 0) <= sum(event.rebalance_ms.values())
    return found


def waited_for(event: GroupEvent) -> tuple[Any, ...]:
    return event.last_member_id, event.last_arrival_ms, event.last_given_up


def waiting_for(driver: Driver, *names: str, **joins: Any) -> tuple[list[NewMember], NewMember]:
    """A group of these that another has joined, at the epoch already: it waits for what others give up."""
    members = new_group(driver, *names, **joins)
    late = NewMember(driver, "late")
    late.beat()
    assert driver.shard.consumer_groups["g"].epoch == late.epoch
    return members, late


def test_it_waits_for_the_member_that_confirms_what_it_gave_up(driver: Driver) -> None:
    (first,), late = waiting_for(driver, "a")
    driver.advance(700)
    first.beat()
    driver.advance(300)
    first.own()
    driver.advance(50)
    late.own()
    (event,) = ended(driver)
    assert waited_for(event) == ("a", 1_000, ("orders-2", "orders-3"))
    assert event.reason == f"{ALL_THERE}: orders-2 and orders-3 came from a"


def test_it_waits_for_a_member_that_gives_up_in_one_step(driver: Driver) -> None:
    """It asked nobody: it had revoked before it was told to (A28)."""
    (first,), late = waiting_for(driver, "a")
    driver.advance(700)
    first.assigned = {ORDERS: [0, 1]}
    first.own()
    driver.advance(50)
    late.own()
    (event,) = ended(driver)
    assert waited_for(event) == ("a", 700, ("orders-2", "orders-3"))


def test_of_several_it_waits_for_the_one_that_gives_up_last(driver: Driver) -> None:
    driver.topics.grow("orders", 6)
    (first, second), late = waiting_for(driver, "a", "b")
    for member, after_ms in ((second, 400), (first, 900)):
        driver.advance(after_ms)
        member.beat()
        member.own()
    late.own()
    (event,) = ended(driver)
    assert (event.last_member_id, event.last_arrival_ms, event.last_given_up_count) == ("a", 1_300, 1)


def test_a_member_that_comes_last_to_the_epoch_is_the_one_that_was_waited_for(driver: Driver) -> None:
    """The other gave something up in time, and is a bystander."""
    (first, second), late = waiting_for(driver, "a", "b")
    second.beat()
    second.own()
    late.own()
    driver.advance(2_000)
    first.own()
    (event,) = ended(driver)
    assert (event.member_id, *waited_for(event)) == ("a", "a", 2_000, ())
    assert event.reason == ALL_THERE


@pytest.mark.parametrize(
    ("how", "words"),
    [("revocation", "which did not give up in time"), ("session", "which expired"), ("leave", "which left")],
)
def test_it_waits_for_a_member_until_that_is_removed(driver: Driver, how: str, words: str) -> None:
    (first,), late = waiting_for(driver, "a")
    first.beat()
    removed_after_ms = {"revocation": 60_000, "session": 45_000, "leave": 3_000}[how]
    for _ in range(removed_after_ms // 1_000):
        driver.advance(1_000)
        late.own()
        if how == "revocation" and first.member_id in driver.shard.consumer_groups["g"].members:
            first.beat()
    if how == "leave":
        first.leave()
    driver.advance(200)
    late.own()
    (event,) = ended(driver)
    assert (event.member_id, event.rebalance_cause) == ("late", "member_joined")
    assert waited_for(event) == ("a", removed_after_ms, tuple(f"orders-{each}" for each in range(4)))
    assert event.reason == f"{ALL_THERE}: orders-0, orders-1, orders-2 and orders-3 came from a, {words}"


def test_two_that_are_removed_one_by_one_are_one_wait(driver: Driver) -> None:
    (first, second), late = waiting_for(driver, "a", "b")
    first.beat(), second.beat()
    driver.advance(1_000)
    first.leave()
    driver.advance(1_000)
    second.leave()
    late.own()
    driver.advance(1_000)
    late.own()
    event = ended(driver)[-1]
    assert event.last_member_id == "b"
    assert event.reason.endswith("came from b, which left")


def test_a_new_epoch_forgets_what_was_given_up_in_the_one_before(driver: Driver) -> None:
    (first,), late = waiting_for(driver, "a")
    driver.advance(500)
    first.beat()
    first.own()
    driver.advance(500)
    driver.topics.grow("orders", 5)
    first.own()
    driver.advance(1_500)
    late.own()
    driver.advance(100)
    first.own()
    assert [event.last_member_id for event in ended(driver)] == [driver.last_event().member_id]


def test_a_restart_forgets_it_too(driver: Driver) -> None:
    (first,), late = waiting_for(driver, "a")
    first.beat()
    first.own()
    driver.restart()
    driver.advance(250)
    late.own()
    (event,) = ended(driver)
    assert waited_for(event) == ("late", 250, ())


def test_a_static_member_that_was_away_is_named_as_it_is_back(driver: Driver) -> None:
    first, away = new_group(driver, "a"), NewMember(driver, "b", instance_id="i")
    away.beat()
    settle(*first, away)
    driver.advance(5_000)
    settle(*first, away)
    driver.history.clear()
    away.epoch = -2
    away.beat(instance_id="i")
    driver.advance(4_000)
    back = NewMember(driver, "b-again", instance_id="i")
    back.beat()
    settle(*first, back)
    event = ended(driver)[-1]
    assert (event.last_member_id, event.last_group_instance_id, event.last_arrival_ms) == (
        "b-again",
        "i",
        4_000,
    )


def test_it_waits_for_the_join_of_a_classic_member(driver: Driver) -> None:
    (first,) = new_group(driver, "a")
    subscription = encode_subscription(ConsumerProtocolSubscription(topics=["orders"]), 1)
    classic = Consumer(driver, "old", protocols=(("range", subscription),))
    classic.join()
    settle(first)
    classic.heartbeat()
    classic.join(), classic.sync({})
    driver.advance(2_000)
    driver.history.clear()
    late = NewMember(driver, "late")
    late.beat()
    first.own()
    driver.advance(800)
    classic.heartbeat()
    keeps = encode_subscription(
        ConsumerProtocolSubscription(
            topics=["orders"], owned_partitions=[TopicPartitions(topic="orders", partitions=[2])]
        ),
        1,
    )
    classic.protocols = (("range", keeps),)
    classic.join()
    late.own()
    event = ended(driver)[-1]
    assert (event.member_id, event.last_member_id, event.last_arrival_ms) == ("late", classic.member_id, 800)
    assert event.last_given_up_count == 1


def test_an_upgrade_amid_a_rebalance_counts_the_wait_from_its_begin(driver: Driver) -> None:
    """The classic group's phases are part of it."""
    first, second = classic_group(driver)
    driver.advance(2_000)
    driver.history.clear()
    first.protocols = (
        ("range", encode_subscription(ConsumerProtocolSubscription(topics=["orders", "clicks"]))),
    )
    first.send_join()
    driver.advance(600)
    new = NewMember(driver, "new")
    new.beat()
    driver.advance(400)
    for member in (first, second):
        member.join(), member.sync({})
    new.own()
    event = ended(driver)[-1]
    assert event.rebalance_cause != "group_upgraded"
    assert (event.last_arrival_ms, sum(event.rebalance_ms.values())) == (1_000, 1_000)


def test_few_of_many_partitions_are_named_and_those_of_deleted_topics_are_left_out() -> None:
    topics = Topics(orders=40, clicks=2)
    deleted = b"?" * 16
    partitions = ((deleted, 1), (topic_id_of(2), 1), *((topic_id_of(1), each) for each in range(30)))
    given_up = GivenUp(ConsumerMember("m", client_id="c", client_host="/h"), partitions, 5)
    names = ["clicks-1", *(f"orders-{each}" for each in range(GIVEN_UP_MAX - 1))]
    fields = given_up.fields(given_up.named(topics))
    assert (fields["last_given_up"], fields["last_given_up_count"]) == (tuple(names), 31)
    assert given_up.words(given_up.named(topics)) == f"{', '.join(names)} and 21 more came from c"
    only_deleted = given_up._replace(partitions=((deleted, 1),))
    named = only_deleted.named(topics)
    assert (named, only_deleted.words(named)) == (([], 0), None)


def test_what_was_given_up_twice_is_of_the_member_that_did_so_later() -> None:
    releases = Releases()
    first, second = (GivenUp(ConsumerMember(name), ((b"t", 1),), 7) for name in "ab")
    releases.note(first)
    releases.note(second)
    releases.note(first._replace(partitions=((b"t", 2),)))
    assert releases.last_of([(b"t", 1)]) == second
    assert releases.last_of([(b"t", 1), (b"t", 2)]) == first._replace(partitions=((b"t", 2),))
    assert releases.last_of([(b"t", 3)]) is None
    releases.begin_anew(2)
    assert releases.last_of([(b"t", 1)]) is None
