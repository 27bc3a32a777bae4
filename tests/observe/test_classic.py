"""What the GroupMetadata records of a classic group show, rule by rule."""

from __future__ import annotations

import pytest

from coordinator.history.events import encode_event
from coordinator.history.rebalances import FIRST_PHASES
from muster.groups.event_records import read_event
from muster.groups.rebalance_views import rebalance_views
from muster.observe.evidence import REMOVED_IDS_MAX
from tests.observe.offsets_log import OffsetsLog, evidence, generation, member, members_of, told, tombstone

APP_1, APP_2, APP_3 = member("app-1"), member("app-2"), member("app-3")


def test_a_first_generation_is_one_rebalance_in_which_its_members_joined() -> None:
    log = OffsetsLog()
    assert log.generation(0) == [], "made by a first JoinGroup, which is no change that anybody looks for"
    events = log.generation(1, APP_1, APP_2)
    assert told(events) == [
        (1, "Empty > CompletingRebalance", "member joined: inferred, in the first generation"),
        (1, "CompletingRebalance", "member joined: inferred, in the first generation"),
        (1, "CompletingRebalance > Stable", "leader's assignment stored"),
    ]
    assert evidence(events) == [
        ("member_joined", "members_compared"),
        ("member_joined", "members_compared"),
        ("assignment_stored", "record"),
    ]
    assert [event.member_count for event in events] == [1, 2, 2]
    assert [event.client_id for event in events] == ["app-1", "app-2", "app-1"]
    end = events[-1]
    assert end.observed is not None
    assert end.observed.leader_id == "app-1-id"
    assert members_of(end) == ["app-1", "app-2"]
    assert (end.observed.partition, end.observed.offset) == (0, 1)


def test_the_leader_is_the_one_of_the_record_whatever_the_ids_of_members() -> None:
    log = OffsetsLog()
    first, second = log.generation(1, APP_2, APP_1)[-1], log.generation(2, APP_3, APP_1, APP_2)[-1]
    assert first.observed is not None
    assert second.observed is not None
    assert (first.observed.leader_id, second.observed.leader_id) == ("app-2-id", "app-3-id")


def test_who_is_gone_may_have_left_or_expired() -> None:
    log = OffsetsLog()
    log.generation(1, APP_1, APP_2)
    events = log.generation(2, APP_1, APP_3)
    assert told(events) == [
        (2, "Stable > CompletingRebalance", "member left or expired: inferred, in generation 1 and not in 2"),
        (2, "CompletingRebalance", "member joined: inferred, not in generation 1"),
        (2, "CompletingRebalance > Stable", "leader's assignment stored"),
    ]
    assert [event.member_count for event in events] == [1, 2, 2]
    assert events[0].removed_member_ids == ("app-2-id",)
    assert events[0].removed_count == 1
    assert events[2].rebalance_cause == "member_gone"


def test_of_many_that_are_gone_each_is_named() -> None:
    crowd = [member(f"app-{number}") for number in range(2 * REMOVED_IDS_MAX + 3)]
    log = OffsetsLog()
    log.generation(1, *crowd)
    events = log.generation(2)
    assert [len(event.removed_member_ids) for event in events] == [REMOVED_IDS_MAX, REMOVED_IDS_MAX, 3, 0]
    assert {each for event in events for each in event.removed_member_ids} == {
        each.member_id for each in crowd
    }
    assert told(events)[-1] == (2, "PreparingRebalance > Empty", "no members remain")
    assert [event.member_count for event in events] == [13, 3, 0, 0]


def test_the_time_of_syncing_is_known_and_that_of_joining_is_not() -> None:
    log = OffsetsLog()
    events = log.generation(1, APP_1)
    assert [event.wall_ms for event in events] == [log.now_ms - 40, log.now_ms]
    assert events[-1].phase_ms == events[-1].rebalance_ms == {"CompletingRebalance": 40}
    (view,) = rebalance_views(events)
    assert view.rebalance is not None
    assert view.spent_ms(FIRST_PHASES) is None, "not 0: nobody knows"
    known = (view.rebalance.join_ms, view.rebalance.sync_ms, view.rebalance.duration_ms)
    assert known == (None, 40, None), "what is not known is no 0, and no part of a sum"
    assert (view.rebalance.ended_at - view.rebalance.started_at, view.rebalance.attempts) == (40, 1)


@pytest.mark.parametrize("stored", [-1, 10**18], ids=["by an old broker", "in the future"])
def test_without_the_end_of_the_join_phase_no_time_is_known(stored: int) -> None:
    log = OffsetsLog()
    events = log.write(generation(1, APP_1, wall_ms=stored))
    assert [event.wall_ms for event in events] == [log.now_ms, log.now_ms]
    assert events[-1].phase_ms == events[-1].rebalance_ms == {}


def test_the_same_members_are_no_cause() -> None:
    log = OffsetsLog()
    log.generation(1, APP_1, APP_2)
    events = log.generation(2, APP_2, APP_1)
    assert told(events)[0] == (
        2, "Stable > CompletingRebalance", "cause not known: the same members as in generation 1",
    )  # fmt: skip
    assert evidence(events)[0] == ("cause_unknown", "members_compared")


def test_other_topics_of_a_member_are_a_cause() -> None:
    log = OffsetsLog()
    log.generation(1, APP_1, APP_2)
    events = log.generation(2, APP_1, member("app-2", topics=["orders", "refunds"]))
    assert evidence(events)[0] == ("member_metadata_changed", "subscriptions_compared")
    assert events[0].client_id == "app-2"


def test_the_order_of_topics_and_bytes_that_are_none_are_no_cause() -> None:
    log = OffsetsLog()
    log.generation(1, member("app-1", topics=["a", "b"]), APP_2)
    blind = member("app-2")
    blind.subscription = b"\xff"
    events = log.generation(2, member("app-1", topics=["b", "a"]), blind)
    assert evidence(events)[0] == ("cause_unknown", "members_compared")


def test_another_assignor_is_a_cause_of_which_nobody_is_known() -> None:
    log = OffsetsLog()
    log.generation(1, APP_1)
    events = log.generation(2, APP_1, protocol="sticky")
    assert told(events)[0][2] == "member metadata changed: inferred, the assignor is sticky and was range"
    assert events[0].member_id is None


def test_more_partitions_of_an_eager_assignor_are_new_ones() -> None:
    log = OffsetsLog()
    log.generation(1, member("app-1", partitions=[0, 1]), member("app-2", partitions=[2, 3]))
    events = log.generation(2, member("app-1", partitions=[0, 1, 2]), member("app-2", partitions=[3, 4, 5]))
    assert told(events)[0][2] == (
        "partition counts changed: inferred, 6 partitions of orders are assigned, before 4"
    )
    assert evidence(events)[0] == ("partition_counts_changed", "assignments_compared")


def test_what_a_cooperative_assignor_gives_a_generation_later_is_not_new() -> None:
    log = OffsetsLog()
    protocol = {"protocol": "cooperative-sticky"}
    log.generation(1, member("app-1", partitions=[0, 1, 2]), **protocol)
    log.generation(2, member("app-1", partitions=[0, 1]), APP_2, **protocol)
    events = log.generation(
        3, member("app-1", partitions=[0, 1]), member("app-2", partitions=[2]), **protocol
    )
    assert evidence(events)[0] == ("cause_unknown", "members_compared")


def test_a_static_member_under_a_new_id_neither_joined_nor_left() -> None:
    log = OffsetsLog()
    log.generation(1, member("app-1", "i-1"), APP_2)
    again = member("app-1b", "i-1")
    events = log.generation(1, again, APP_2)
    assert told(events) == [(1, "Stable", "static member replaced")]
    assert events[0].removed_member_ids == ("app-1-id",)
    assert events[0].member_id == "app-1b-id"
    assert members_of(events[0]) == ["app-2", "app-1b"], "by their names, static ones behind the others"
    assert log.generation(1, again, APP_2) == [], "the same record again says nothing"
    events = log.generation(2, member("app-1c", "i-1"))
    assert [event.cause for event in events] == ["member_gone", "static_member_replaced", "assignment_stored"]
    assert [event.member_count for event in events] == [1, 1, 1]


def test_missing_numbers_are_a_gap_that_names_them() -> None:
    log = OffsetsLog()
    log.generation(1, APP_1)
    events = log.generation(4, APP_1, APP_2)
    assert told(events) == [
        (3, "Stable", "generations are missing: 2 to 3, never stored, as no assignment of them came"),
        (4, "Stable > CompletingRebalance", "member joined: inferred, not in generation 1"),
        (4, "CompletingRebalance > Stable", "leader's assignment stored"),
    ]
    gap = events[0]
    assert gap.observed is not None
    assert gap.observed.missing_generations == (2, 3)
    assert gap.member_count == 1
    assert [view.is_rebalance for view in rebalance_views(log.events)] == [True, False, True]


def test_behind_a_hole_of_the_log_nobody_knows_why_numbers_are_missing() -> None:
    log = OffsetsLog()
    log.generation(1, APP_1)
    log.skip(5)
    events = log.generation(3, APP_1)
    assert told(events)[0][2] == "generations are missing: 2, not on the log, compacted or never stored"


def test_a_hole_before_the_last_generation_hides_nothing() -> None:
    log = OffsetsLog()
    log.skip(5)
    log.generation(1, APP_1)
    assert "never stored, as" in told(log.generation(3, APP_1))[0][2]


def test_of_a_group_that_is_first_seen_late_no_member_joined() -> None:
    log = OffsetsLog()
    events = log.generation(7, APP_1, APP_2)
    assert told(events) == [
        (6, "Dead", "generations are missing: 1 to 6, not on the log, compacted or never stored"),
        (7, "Dead > CompletingRebalance", "cause not known: the first record that is known of the group"),
        (7, "CompletingRebalance > Stable", "leader's assignment stored"),
    ]
    assert evidence(events)[1] == ("cause_unknown", "nothing")
    assert members_of(events[-1]) == ["app-1", "app-2"]


def test_a_tombstone_ends_a_group_and_its_numbers_begin_anew() -> None:
    log = OffsetsLog()
    log.generation(1, APP_1)
    log.generation(2)
    assert told(log.write(tombstone())) == [
        (2, "Empty > Dead", "group deleted or expired: a tombstone of it")
    ]
    assert len(log.fold) == 0
    assert told(log.generation(1, APP_2))[0][2] == "member joined: inferred, in the first generation"


def test_numbers_that_begin_again_show_a_removal_that_was_compacted() -> None:
    log = OffsetsLog()
    log.generation(8, APP_1)
    events = log.generation(1, APP_2)
    assert told(events)[0] == (
        8, "Stable > Dead", "group deleted or expired: inferred, its generations begin again",
    )  # fmt: skip
    assert evidence(events)[0] == ("group_removed", "numbers_compared")
    assert told(events)[1][2] == "member joined: inferred, in the first generation"


def test_a_group_of_another_protocol_type_has_its_members_compared_alone() -> None:
    log = OffsetsLog()
    worker = member("worker")
    worker.subscription = worker.assignment = b"of Kafka Connect"
    log.generation(1, worker, protocol_type="connect", protocol="sessioned")
    assert evidence(log.generation(2, worker, protocol_type="connect", protocol="sessioned"))[0] == (
        "cause_unknown", "members_compared",
    )  # fmt: skip


def test_every_event_is_read_as_the_topic_is() -> None:
    log = OffsetsLog()
    log.generation(1, APP_1, member("app-2", "i-2"))
    log.generation(5, member("app-2b", "i-2"))
    log.write(tombstone())
    assert [read_event(*encode_event(event)) for event in log.events] == log.events
