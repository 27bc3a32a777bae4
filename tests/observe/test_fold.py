"""All groups of a log: groups that change their kind, records that say nothing, and what is bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coordinator.effects import CoordinatorRecord
from coordinator.groups.record_codec import encode_record
from coordinator.history.events import encode_event
from muster.groups.event_records import WALL_MS_MAX, read_event
from muster.groups.rebalance_views import rebalance_views
from muster.observe.evidence import At
from muster.observe.fold import Fold
from muster.observe.lines import event_line
from tests.observe.offsets_log import (
    GROUP,
    START_MS,
    OffsetsLog,
    commit,
    current,
    epoch,
    evidence,
    generation,
    member,
    members_of,
    new_member,
    removed_group,
    removed_member,
    target,
    told,
    tombstone,
)

APP_1, APP_2 = member("app-1", partitions=[0]), member("app-2")
UPGRADE = (
    tombstone(),
    new_member("app-1"),
    epoch(1),
    target(1),
    current("app-1", 1),
    new_member("app-2"),
    epoch(2),
    target(2),
    current("app-2", 2),
)
HOSTILE = ("..", "a/b", "x" * 32_000, "группа-グループ-δ", "pay\u202egnp\u2069", 'say "hi"\n\x1b[2J', "")


def test_a_classic_group_that_is_upgraded_goes_on_as_a_consumer_group() -> None:
    log = OffsetsLog()
    log.generation(1, APP_1)
    events = log.write(*UPGRADE)
    assert evidence(events) == [("group_upgraded", "record")]
    assert told(events)[0][:2] == (2, "Stable > Reconciling")
    assert events[0].member_id == "app-2-id", "the first member of the new protocol"
    assert members_of(events[0]) == ["app-1", "app-2"]
    log.write(current("app-1", 2))
    assert [view.rebalance.cause for view in rebalance_views(log.events) if view.rebalance] == [
        "member_joined",
        "group_upgraded",
    ]


def test_an_empty_classic_group_gives_way_to_a_new_one() -> None:
    log = OffsetsLog()
    log.generation(1, APP_1)
    log.generation(2)
    events = log.write(tombstone(), new_member("app-2"), epoch(2), target(2), current("app-2", 2))
    assert evidence(events) == [("group_upgraded", "record")]
    assert members_of(events[0]) == ["app-2"]


def downgraded() -> OffsetsLog:
    log = OffsetsLog()
    log.generation(1, APP_1)
    log.write(*UPGRADE)
    log.write(current("app-1", 2))
    gone = [record for name in ("app-1", "app-2") for record in removed_member(name)]
    log.write(*gone, *removed_group(), generation(2, APP_1, wall_ms=log.now_ms + 1_000))
    return log


def test_a_consumer_group_that_is_downgraded_goes_on_as_a_classic_group() -> None:
    log = downgraded()
    assert told(log.events)[-2:] == [
        (2, "Stable", "member left or expired: inferred, in epoch 2 and not in generation 2"),
        (2, "Stable", "last member of the consumer protocol gone, group is classic again"),
    ]
    assert members_of(log.events[-1]) == ["app-1"]
    assert "group_removed" not in {event.cause for event in log.events}


def test_what_a_downgraded_group_had_is_not_all_that_there_was() -> None:
    """Seen on Kafka 4.3.1: its members had their share of a consumer group, so more of them is nothing new."""
    log = downgraded()
    events = log.generation(3, member("app-1", partitions=[0, 1, 2]))
    assert evidence(events)[0] == ("cause_unknown", "members_compared")


@pytest.mark.parametrize("later", ["another write", "another group", "nothing"])
def test_a_tombstone_with_nothing_of_its_write_behind_it_is_a_removal(later: str) -> None:
    log = OffsetsLog()
    log.generation(1)
    log.write(tombstone(), settled=False)
    if later == "another write":
        log.write(new_member("app-1"), epoch(2), target(2), current("app-1", 2), settled=False)
    elif later == "another group":
        log.write_also(generation(1, APP_1, group="other"))
    log.events += log.fold.settle()
    removed = [event for event in log.events if event.to_state == "Dead"]
    assert evidence(removed) == [("group_removed", "tombstone")]


def test_a_record_of_a_later_version_is_an_event_of_its_group_and_its_number_a_gap() -> None:
    log = OffsetsLog()
    log.generation(1, APP_1)
    key, value = encode_record(generation(2, APP_1))
    assert value is not None
    later = (5).to_bytes(2, "big") + value[2:]
    events = log.write_bytes((key, later), (key, later))
    why = "GroupMetadataValue of version 5, known are up to 4"
    assert told(events) == [(1, "Stable", f"a record of the group could not be read: {why}")]
    assert log.fold.unreadable == 2, "of several in a row one event"
    events = log.generation(3, APP_1)
    assert told(events)[0][2] == "generations are missing: 2, not readable, or never stored"
    assert "never stored, as no" in told(log.generation(5, APP_1))[0][2], "that is over with the next one"
    assert len(log.write_bytes((key, later))) == 1


def test_other_records_that_cannot_be_read_are_counted() -> None:
    log = OffsetsLog()
    assert log.write_bytes((None, b"x"), (b"\x00", None), (b"\x00\x02\x00\x09x", b"")) == []
    assert log.fold.unreadable == 3


def test_records_of_other_kinds_of_groups_are_passed_over() -> None:
    log = OffsetsLog()
    share = (11).to_bytes(2, "big") + b"\x00\x01s"
    unknown = (99).to_bytes(2, "big") + b"whatever"
    assert log.write_bytes((share, b"\x00\x00"), (unknown, b"\x00\x00")) == []
    assert (log.fold.unreadable, len(log.fold)) == (0, 0)


def test_parts_of_a_group_of_which_nothing_is_known_are_no_group_when_they_go() -> None:
    log = OffsetsLog()
    assert log.write(*removed_member("app-1"), *removed_group(), tombstone()) == []
    assert len(log.fold) == 0


def test_a_commit_says_when_its_group_was_last_heard_of() -> None:
    log = OffsetsLog()
    log.generation(1, APP_1)
    heard = log.fold.heard_ms(GROUP)
    assert log.write(commit(), commit("nobody-knows")) == []
    assert log.fold.heard_ms(GROUP) == log.now_ms == (heard or 0) + 1_000
    log.now_ms += 1_000
    log.write_bytes((encode_record(commit())[0], b"\x00\x63of a later version"))
    log.write(CoordinatorRecord(commit().key, None))
    assert log.fold.heard_ms(GROUP) == log.now_ms - 1_000, "that an offset is removed is no sign of life"
    assert log.fold.heard_ms("nobody-knows") is None
    assert len(log.fold) == 1


def test_too_many_groups_are_forgotten_from_the_one_heard_of_longest_ago() -> None:
    log = OffsetsLog(Fold(max_groups=2))
    for group in ("a", "b", "c"):
        log.generation(1, APP_1, group=group)
        log.write(commit("a"))
    assert [log.fold.heard_ms(group) is None for group in ("a", "b", "c")] == [False, True, False]
    assert log.fold.forgotten == 1
    assert told(log.generation(2, APP_1, group="b"))[1][2].startswith("cause not known: the first record")


def test_a_group_that_is_forgotten_is_told_to_its_end() -> None:
    """Its tombstone waits for a further record of the same write, which cannot come any more."""
    log = OffsetsLog(Fold(max_groups=1))
    log.generation(1)
    log.write(tombstone(), settled=False)
    log.write_also(generation(1, APP_1, group="other"))
    assert [event.cause for event in log.events if event.group_id == GROUP][-1] == "group_removed"
    assert log.fold.forgotten == 1


def test_too_many_members_have_groups_forgotten() -> None:
    log = OffsetsLog(Fold(max_members=5))
    log.generation(1, APP_1, APP_2, group="a")
    log.generation(1, APP_1, APP_2, group="b")
    log.generation(2, APP_1, group="b")
    log.generation(1, APP_1, APP_2, group="c")
    assert log.fold.forgotten == 0, "five are not too many"
    log.generation(1, *(member(f"app-{number}") for number in range(9)), group="huge")
    assert (log.fold.forgotten, len(log.fold)) == (3, 1)


@pytest.mark.parametrize("group", HOSTILE)
def test_any_group_id_is_read_back_and_shown_on_one_line(group: str) -> None:
    log = OffsetsLog()
    named = member("app\u202e\n", "i\x1b[0m")
    log.generation(1, named, group=group)
    for event in log.events:
        assert read_event(*encode_event(event)) == event
        assert event.group_id == group
        line = event_line(event)
        assert line.isprintable()
        assert len(line) < 2_000


@pytest.mark.parametrize("wall_ms", [-1, 2**62])
def test_a_time_that_cannot_be_is_kept_within_what_readers_take(wall_ms: int) -> None:
    fold = Fold()
    events = fold.take(*encode_record(generation(1, APP_1, wall_ms=wall_ms)), At(0, 0, wall_ms))
    assert [read_event(*encode_event(event)) for event in events] == events
    assert {event.wall_ms for event in events} <= {0, WALL_MS_MAX}


def scripted() -> list[tuple[CoordinatorRecord, ...]]:
    """Writes in which every kind of thing happens."""
    gone = [record for name in ("app-1", "app-2") for record in removed_member(name)]
    return [
        (generation(1, APP_1),),
        UPGRADE,
        (current("app-1", 2),),
        (commit(),),
        (new_member("app-3", "i-3"), epoch(3)),
        (target(3), current("app-3", 3)),
        (*removed_member("app-3"), epoch(5), target(5)),
        (*gone, *removed_group(), generation(5, APP_1)),
        (generation(9, APP_1, APP_2, wall_ms=-1),),
        (generation(10),),
        (tombstone(),),
    ]


@pytest.mark.parametrize("cut", range(1, len(scripted())))
def test_a_restart_between_any_two_writes_changes_nothing(cut: int) -> None:
    whole, cut_in_two = OffsetsLog(), OffsetsLog()
    for number, records in enumerate(scripted()):
        if number == cut:
            dumped: Any = json.loads(json.dumps(cut_in_two.fold.dump()))
            cut_in_two.fold = Fold()
            cut_in_two.fold.load(dumped)
            assert cut_in_two.fold.dump() == whole.fold.dump()
        whole.write(*records)
        cut_in_two.write(*records)
    assert whole.events == cut_in_two.events
    assert whole.events[0].wall_ms < START_MS + 10_000


def test_where_the_log_is_cut_into_reads_changes_nothing() -> None:
    """Settled once at the end, or behind each write: the events are the same."""
    often, once = OffsetsLog(), OffsetsLog()
    for records in scripted():
        often.write(*records)
        once.write(*records, settled=False)
    once.events += once.fold.settle()
    assert often.events == once.events
