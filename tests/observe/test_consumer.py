"""What the records of a consumer group show (KIP-848), rule by rule."""

from __future__ import annotations

from coordinator.history.events import encode_event
from muster.groups.event_records import read_event
from muster.groups.rebalance_views import rebalance_views
from muster.observe.consumer import LISTED_MAX
from tests.observe.offsets_log import (
    OffsetsLog,
    current,
    epoch,
    evidence,
    expression,
    members_of,
    new_member,
    removed_group,
    removed_member,
    target,
    told,
)

UNREVOKED = 1


def group_of_one() -> OffsetsLog:
    log = OffsetsLog()
    log.write(new_member("app-1"), epoch(2), target(2), current("app-1", 2))
    return log


def group_of_two() -> OffsetsLog:
    log = group_of_one()
    log.write(new_member("app-2"), epoch(3), target(3), current("app-2", 3))
    log.write(current("app-1", 3))
    return log


def test_a_first_epoch_may_be_over_with_the_write_that_began_it() -> None:
    log = group_of_one()
    assert told(log.events) == [(2, "Empty > Stable", "member joined")]
    (event,) = log.events
    assert (event.rebalance_cause, event.rebalance_ms, event.member_count) == ("member_joined", {}, 1)
    assert evidence(log.events) == [("member_joined", "record")]
    assert members_of(event) == ["app-1"]


def test_an_epoch_is_over_when_all_members_have_reached_it() -> None:
    log = group_of_two()
    assert told(log.events[1:]) == [
        (3, "Stable > Reconciling", "member joined"),
        (3, "Reconciling > Stable", "all members have what they are to have"),
    ]
    began, over = log.events[1:]
    assert began.client_id == "app-2"
    assert members_of(began) == ["app-1", "app-2"]
    assert over.phase_ms == over.rebalance_ms == {"Reconciling": 1_000}
    assert over.rebalance_cause == "member_joined"


def test_a_target_that_comes_later_is_a_phase_of_its_own() -> None:
    log = group_of_one()
    log.write(new_member("app-2"), epoch(3))
    log.write(target(3), current("app-2", 3))
    log.write(current("app-1", 2, UNREVOKED))
    log.write(current("app-1", 3))
    assert told(log.events[1:]) == [
        (3, "Stable > Assigning", "member joined"),
        (3, "Assigning > Reconciling", "assignment computed"),
        (3, "Reconciling > Stable", "all members have what they are to have"),
    ]
    assert log.events[-1].rebalance_ms == {"Assigning": 1_000, "Reconciling": 2_000}


def test_a_member_that_is_gone_left_or_expired() -> None:
    log = group_of_two()
    events = log.write(*removed_member("app-2"), epoch(4), target(4), current("app-1", 4))
    assert told(events) == [(4, "Stable", "member left or expired: its records were removed")]
    assert evidence(events) == [("member_gone", "tombstone")]
    assert (events[0].removed_member_ids, events[0].member_count) == (("app-2-id",), 1)
    events = log.write(*removed_member("app-1"), epoch(5))
    assert told(events) == [(5, "Stable > Empty", "member left or expired: its records were removed")]


def test_two_epochs_of_one_batch_and_one_millisecond_are_two() -> None:
    log = group_of_one()
    log.write(new_member("app-2"), epoch(3), target(3), current("app-2", 3), settled=False)
    log.write_also(new_member("app-3"), epoch(4), target(4), current("app-3", 4), settled=False)
    log.write_also(*removed_member("app-3"), epoch(5))
    assert [(event.generation_id, members_of(event)) for event in log.events] == [
        (2, ["app-1"]),
        (3, ["app-1", "app-2"]),
        (4, ["app-1", "app-2", "app-3"]),
        (5, ["app-1", "app-2"]),
    ]


def test_an_epoch_within_a_rebalance_goes_on_with_it() -> None:
    log = group_of_one()
    log.write(new_member("app-2"), epoch(3), target(3), current("app-2", 3))
    log.write(new_member("app-3"), epoch(4), target(4), current("app-3", 4))
    log.write(current("app-1", 4), current("app-2", 4))
    views = rebalance_views(log.events)
    assert [view.rebalance.generation_id for view in views if view.rebalance] == [2, 4]
    assert log.events[-1].rebalance_ms == {"Reconciling": 2_000}


def test_a_subscription_that_changed_is_a_cause() -> None:
    log = group_of_one()
    events = log.write(
        new_member("app-1", topics=["orders", "refunds"]), epoch(3), target(3), current("app-1", 3)
    )
    assert evidence(events) == [("member_metadata_changed", "record")]
    assert events[0].client_id == "app-1"


def test_another_hash_of_its_topics_is_a_cause() -> None:
    log = group_of_one()
    events = log.write(epoch(3, topics_hash=2), target(3), current("app-1", 3))
    assert evidence(events) == [("topics_changed", "record")]


def test_an_expression_that_was_resolved_is_a_cause() -> None:
    log = group_of_one()
    events = log.write(expression("ord.*"), epoch(3, topics_hash=2), target(3), current("app-1", 3))
    assert evidence(events) == [("expression_resolved", "record")]


def test_an_epoch_without_any_change_is_of_an_unknown_cause() -> None:
    log = group_of_one()
    events = log.write(epoch(3), target(3), current("app-1", 3))
    assert told(events)[0][2] == "cause not known: the same members and topics as in epoch 2"
    assert evidence(events) == [("cause_unknown", "members_compared")]


def test_a_static_member_goes_for_now_and_comes_back_under_another_id() -> None:
    log = OffsetsLog()
    log.write(new_member("app-1", "i-1"), epoch(2), target(2), current("app-1", 2))
    events = log.write(current("app-1", -2))
    assert told(events) == [(2, "Stable > Reconciling", "static member left for now")]
    events = log.write(*removed_member("app-1"), new_member("app-1b", "i-1"), current("app-1b", 2))
    assert told(events) == [(2, "Reconciling > Stable", "static member replaced")]
    assert events[0].removed_member_ids == ("app-1-id",)
    assert events[0].member_id == "app-1b-id"
    assert evidence(events) == [("static_member_replaced", "record")]


def test_missing_epochs_are_a_gap() -> None:
    log = group_of_two()
    log.skip(9)
    events = log.write(new_member("app-3"), epoch(6), target(6), current("app-3", 6))
    assert told(events) == [
        (5, "Stable", "generations are missing: 4 to 5, not on the log, compacted or never stored"),
        (6, "Stable > Reconciling", "member joined"),
    ]
    assert [event.member_count for event in events] == [2, 3]


def test_of_a_group_that_is_first_seen_late_no_member_joined() -> None:
    log = OffsetsLog()
    events = log.write(new_member("app-1"), epoch(9), target(9), current("app-1", 9))
    assert told(events) == [
        (8, "Dead", "generations are missing: 1 to 8, not on the log, compacted or never stored"),
        (9, "Dead > Stable", "cause not known: the first record that is known of the group"),
    ]
    assert members_of(events[1]) == ["app-1"]


def test_a_group_that_compaction_left_in_pieces_is_whole_with_its_epoch() -> None:
    """Of each key the newest record is left, at different times: members before the newest epoch."""
    log = OffsetsLog()
    log.write(new_member("app-1"))
    log.skip(3)
    log.write(new_member("app-2"))
    log.skip(3)
    log.write(epoch(9), target(9))
    assert members_of(log.events[-1]) == ["app-1", "app-2"]
    log.write(current("app-1", 9), current("app-2", 9))
    assert told(log.events)[-1] == (9, "Reconciling > Stable", "all members have what they are to have")


def test_a_tombstone_ends_a_group() -> None:
    log = group_of_one()
    log.write(*removed_member("app-1"), epoch(3))
    assert told(log.write(*removed_group())) == [
        (3, "Empty > Dead", "group deleted or expired: a tombstone of it")
    ]
    assert len(log.fold) == 0
    assert told(log.write(new_member("app-1"), epoch(2), target(2), current("app-1", 2))) == [
        (2, "Empty > Stable", "member joined")
    ]


def test_epochs_that_begin_again_show_a_removal_that_was_compacted() -> None:
    log = group_of_two()
    events = log.write(new_member("app-9"), epoch(2), target(2), current("app-9", 2))
    assert evidence(events) == [("group_removed", "numbers_compared"), ("member_joined", "record")]
    assert members_of(events[1]) == ["app-9"]


def test_of_a_large_group_members_are_named_as_they_come_and_go_alone() -> None:
    log = OffsetsLog()
    crowd = [new_member(f"app-{number}") for number in range(LISTED_MAX)]
    log.write(*crowd, epoch(2), target(2))
    assert len(members_of(log.events[0]) or ()) == LISTED_MAX
    log.write(new_member("one-more"), epoch(3), target(3))
    assert members_of(log.events[-1]) is None
    assert log.events[-1].client_id == "one-more"
    assert log.events[-1].member_count == LISTED_MAX + 1


def test_every_event_is_read_as_the_topic_is() -> None:
    log = group_of_two()
    log.write(*removed_member("app-2"), epoch(7))
    assert [read_event(*encode_event(event)) for event in log.events] == log.events
