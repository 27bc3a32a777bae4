"""What a rebalance waits for: who has come, who has not, what is known of those, and until when."""

from __future__ import annotations

import pytest

from coordinator.groups.classic import waited_members as classic
from coordinator.groups.consumer import waited_members as consumer
from coordinator.groups.consumer.shard_groups import ConsumerGroupSettings
from coordinator.groups.waited_members import LATE_HEARTBEAT_MS, Says, Waited, Waiting, heard_ms, is_silent
from tests.groups.consumer import REBALANCE_MS, SESSION_MS, Consumer, form_group
from tests.groups.consumer_groups.new_member import NewMember, settle
from tests.groups.driver import Driver


@pytest.fixture
def driver() -> Driver:
    return Driver()


def waiting(driver: Driver) -> Waiting:
    found = classic.waiting_of(driver.group(), driver.now_ms)
    assert found is not None
    return found


def says(driver: Driver) -> dict[str, tuple[Says, int | None]]:
    """What each member that is waited for says, and how long ago it was heard."""
    found = waiting(driver)
    missing = {each.member_id: (each.says, each.heard_ms) for each in found.missing}
    assert found.missing_count == len(missing)
    return missing


def test_a_group_that_does_not_rebalance_waits_for_nothing(driver: Driver) -> None:
    form_group(driver, Consumer(driver, "a"))
    assert classic.waiting_of(driver.group(), driver.now_ms) is None


def test_a_join_phase_waits_for_members_that_have_not_joined_again(driver: Driver) -> None:
    """One that was heard since it began knows of it, and goes on: it heartbeats, but does not poll."""
    one, two, three = (Consumer(driver, client) for client in ("one", "two", "three"))
    form_group(driver, one, two, three)
    driver.advance(1_000)
    one.send_join()
    assert says(driver) == {
        two.member_id: (Says.NOT_HEARD, 1_000),
        three.member_id: (Says.NOT_HEARD, 1_000),
    }
    driver.advance(500)
    two.heartbeat()
    driver.advance(300)
    assert says(driver) == {two.member_id: (Says.HEARTBEATS, 300), three.member_id: (Says.NOT_HEARD, 1_800)}
    driver.advance(SESSION_MS // 3)
    two.heartbeat()
    assert says(driver) == {
        two.member_id: (Says.HEARTBEATS, 0),
        three.member_id: (Says.SILENT, 1_800 + SESSION_MS // 3),
    }
    found = waiting(driver)
    assert (found.joined_count, list(found.joined)) == (1, [one.member_id])
    assert found.ends_in_ms == REBALANCE_MS - 800 - SESSION_MS // 3


def test_a_member_that_is_waited_for_is_named_by_the_process_that_it_is(driver: Driver) -> None:
    static = Consumer(driver, "static", instance_id="i")
    form_group(driver, Consumer(driver, "other"), static)
    Consumer(driver, "new").join()
    found = {each.member_id: each for each in waiting(driver).missing}
    expected = Waited(static.member_id, "i", "static", "/10.0.0.1", 0, Says.NOT_HEARD)
    assert found[static.member_id] == expected


def test_a_member_id_that_was_handed_out_and_is_not_used_is_waited_for_until_it_expires(
    driver: Driver,
) -> None:
    one = Consumer(driver, "one")
    form_group(driver, one)
    new = Consumer(driver, "new")
    token = new.send_join()
    unused = driver.replies[token].member_id
    driver.advance(1_000)
    one.protocols = (("range", b"other"),)
    one.send_join()
    found = waiting(driver)
    assert (found.joined_count, found.missing_count) == (1, 1)
    assert list(found.missing) == [Waited(unused, None, "", "", None, Says.ID_UNUSED, SESSION_MS - 1_000)]


def test_behind_the_join_phase_the_leader_is_waited_for_then_the_others(driver: Driver) -> None:
    leader, other = Consumer(driver, "leader"), Consumer(driver, "other")
    for each in (leader, other):
        each.join()
    while not driver.answered(leader.parked):
        driver.advance(driver.settings.group_initial_rebalance_delay_ms)
    leader.collect_join()
    other.collect_join()
    driver.advance(200)
    assert says(driver) == {leader.member_id: (Says.LEADS, 200), other.member_id: (Says.SYNCS_NOT, 200)}
    other.send_sync()
    found = waiting(driver)
    assert list(found.joined) == [other.member_id]
    assert [each.member_id for each in found.missing] == [leader.member_id]
    assert (found.joined_count, found.missing_count) == (1, 1)
    assert found.ends_in_ms == REBALANCE_MS - 200


def test_what_it_waits_for_is_read_of_a_copy_so_it_may_be_read_bit_by_bit(driver: Driver) -> None:
    members = [Consumer(driver, f"m{number}") for number in range(5)]
    form_group(driver, *members)
    members[0].send_join()
    found = waiting(driver)
    first = next(found.missing)
    for each in members[1:]:
        each.leave()
    assert 1 + len(list(found.missing)) == 4
    assert first.says is Says.NOT_HEARD


def test_when_a_member_was_heard_follows_from_its_deadline() -> None:
    assert heard_ms(10_000, 6_000, 4_500) == 500
    assert heard_ms(10_000, 6_000, 3_000) == 0  # A first session may be longer than the timeout.


@pytest.mark.parametrize(
    ("session_ms", "heard_ms_ago", "silent"),
    [
        (6_000, 2_001, False),  # The default heartbeat.interval.ms is 3 s, whatever the session is.
        (6_000, 4_000, False),
        (6_000, 4_001, True),
        (45_000, 16_000, False),  # Who sets another one is advised to take a third of the session.
        (45_000, 16_001, True),
    ],
)
def test_a_member_is_silent_only_if_it_has_missed_a_heartbeat(
    session_ms: int, heard_ms_ago: int, silent: bool
) -> None:
    assert is_silent(heard_ms_ago, session_ms) is silent
    driver = Driver()
    leader = Consumer(driver, "leader", session_ms=60_000)
    one = Consumer(driver, "one", session_ms=session_ms)
    form_group(driver, leader, one)
    leader.send_join()
    driver.advance(heard_ms_ago)
    assert says(driver)[one.member_id] == (Says.SILENT if silent else Says.NOT_HEARD, heard_ms_ago)


# Consumer groups.


@pytest.fixture
def newer() -> Driver:
    return Driver(consumer_settings=ConsumerGroupSettings(assignment_interval_ms=0))


def waiting_newer(driver: Driver) -> Waiting | None:
    shard = driver.shard
    return consumer.waiting_of(shard.consumers, shard.consumer_groups["g"], driver.now_ms)


def test_a_stable_consumer_group_waits_for_nothing(newer: Driver) -> None:
    settle(NewMember(newer, "a"))
    assert waiting_newer(newer) is None


def test_a_consumer_group_waits_for_who_gives_up_and_for_who_is_to_get(newer: Driver) -> None:
    one, two = NewMember(newer, "one"), NewMember(newer, "two")
    settle(one)
    newer.advance(1_000)
    two.beat()
    newer.advance(200)
    one.beat()  # Is told to give up half of them.
    newer.advance(300)
    two.beat()
    found = waiting_newer(newer)
    assert found is not None
    assert (found.joined_count, found.missing_count, found.ends_in_ms) == (0, 2, None)
    assert {each.member_id: (each.says, each.heard_ms, each.ends_in_ms) for each in found.missing} == {
        "one": (Says.GIVES_UP, 300, 60_000 - 300),
        "two": (Says.AWAITS, 0, None),
    }
    one.own()
    one.own()
    found = waiting_newer(newer)
    assert found is not None
    assert list(found.joined) == ["one"]
    assert [(each.member_id, each.says) for each in found.missing] == [("two", Says.AWAITS)]


def test_a_member_of_a_consumer_group_that_is_silent_is_said_to_be(newer: Driver) -> None:
    one, two = NewMember(newer, "one"), NewMember(newer, "two")
    settle(one)
    two.beat()
    newer.advance(newer.consumer_settings.session_timeout_ms // 3 + LATE_HEARTBEAT_MS + 1)
    two.beat()
    found = waiting_newer(newer)
    assert found is not None
    assert {each.member_id: each.says for each in found.missing} == {"one": Says.SILENT, "two": Says.AWAITS}


def test_a_member_of_a_consumer_group_heartbeats_as_often_as_its_group_has_it() -> None:
    settings = ConsumerGroupSettings(
        assignment_interval_ms=0, session_timeout_ms=12_000, heartbeat_interval_ms=8_000
    )
    driver = Driver(consumer_settings=settings)
    one, two = NewMember(driver, "one"), NewMember(driver, "two")
    settle(one)
    two.beat()
    for passed_ms, silent in ((8_000 + LATE_HEARTBEAT_MS, False), (1, True)):
        driver.advance(passed_ms)
        two.beat()
        found = waiting_newer(driver)
        assert found is not None
        assert ({each.member_id: each.says for each in found.missing}["one"] is Says.SILENT) is silent


def test_a_static_member_that_left_for_now_is_said_to_be_away(newer: Driver) -> None:
    static, other = NewMember(newer, "static", instance_id="i"), NewMember(newer, "other")
    settle(static)
    other.beat()
    static.beat(member_epoch=-2, instance_id="i")
    found = waiting_newer(newer)
    assert found is not None
    away = {each.member_id: (each.says, each.group_instance_id) for each in found.missing}
    assert away["static"] == (Says.AWAY, "i")
