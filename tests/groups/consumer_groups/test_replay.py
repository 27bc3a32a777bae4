"""What records of consumer groups mean, in the order in which they are written and in others (A50 to A53)."""

from __future__ import annotations

import pytest

from coordinator.effects import CoordinatorRecord
from coordinator.groups.consumer.group import FIRST_EPOCH, LEFT_EPOCH, LEFT_FOR_NOW_EPOCH, ConsumerGroup
from coordinator.groups.consumer.member import ClassicMember, ConsumerMember, OfferedProtocol
from coordinator.groups.consumer.partition_epochs import PartitionHeldTwice
from coordinator.groups.consumer.reconciliation import FREE, CurrentAssignment
from coordinator.groups.consumer.record_schemas import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    CurrentTopicPartitions,
)
from coordinator.groups.consumer.records import (
    group_tombstones,
    member_tombstones,
    new_current_record,
    new_epoch_record,
    new_member_record,
    new_partition_metadata_tombstone,
    new_regex_record,
    new_regex_tombstone,
    new_target_epoch_record,
    new_target_record,
)
from coordinator.groups.consumer.replay import BadSequence, replay_record
from coordinator.groups.consumer.states import GroupState, MemberState
from coordinator.groups.consumer.subscriptions import ResolvedRegex

TOPIC, OTHER = b"T" * 16, b"O" * 16
ALICE = ConsumerMember(
    "alice",
    instance_id="one",
    rack_id="r1",
    client_id="c",
    client_host="/127.0.0.1",
    rebalance_timeout_ms=5000,
    topic_names=("a", "b"),
    server_assignor="range",
)
BOB = ConsumerMember("bob", client_id="c", topic_names=("b",), topic_regex="b.*")
HELD = CurrentAssignment(2, 0, MemberState.STABLE, {TOPIC: {0: 2, 1: 2}})


class Log:
    """The groups that come out of records, one after the other."""

    def __init__(self, *records: CoordinatorRecord) -> None:
        self.groups: dict[str, ConsumerGroup] = {}
        self.add(*records)

    def add(self, *records: CoordinatorRecord) -> None:
        for record in records:
            replay_record(self.groups, record.key, record.value)

    @property
    def group(self) -> ConsumerGroup:
        return self.groups["g"]


def joined() -> Log:
    """A group after its first member has joined, in Kafka's order."""
    return Log(
        new_member_record("g", ALICE),
        new_epoch_record("g", 2, 77),
        new_target_record("g", "alice", {TOPIC: (0, 1)}),
        new_target_epoch_record("g", 2, 1234),
        new_current_record("g", "alice", HELD),
    )


def test_a_group_is_what_its_records_say() -> None:
    group = joined().group
    assert (group.epoch, group.metadata_hash) == (2, 77)
    assert (group.assignment_epoch, group.assignment_wall_ms) == (2, 1234)
    assert group.members == {"alice": ALICE}
    assert group.currents == {"alice": HELD}
    assert group.targets == {"alice": {TOPIC: (0, 1)}}
    assert group.static_member("one") == ALICE
    assert group.assignor_votes.preferred == "range"
    assert group.subscriptions.topics() == {"a", "b"}
    assert [group.held.epoch_of(TOPIC, partition) for partition in range(3)] == [2, 2, FREE]
    assert (list(group.table), group.state) == (["alice"], GroupState.STABLE)


def test_a_new_group_is_at_its_first_epoch() -> None:
    group = Log(new_member_record("g", BOB)).group
    assert (group.epoch, group.assignment_epoch) == (FIRST_EPOCH, FIRST_EPOCH)
    assert group.currents["bob"] == CurrentAssignment(member_epoch=0, previous_epoch=-1)


def test_a_description_again_keeps_what_the_member_has() -> None:
    log = joined()
    again = ConsumerMember("alice", instance_id="one", topic_names=("c",), server_assignor="uniform")
    log.add(new_member_record("g", again))
    assert (log.group.members["alice"], log.group.currents["alice"]) == (again, HELD)
    assert log.group.subscriptions.topics() == {"c"}
    assert log.group.assignor_votes.preferred == "uniform"
    assert log.group.held.epoch_of(TOPIC, 0) == 2


def test_a_classic_member_is_kept_with_its_protocols() -> None:
    classic = ConsumerMember(
        "old",
        classic=ClassicMember(45_000, (OfferedProtocol("range", b"x"), OfferedProtocol("sticky", b"y"))),
    )
    assert Log(new_member_record("g", classic)).group.members == {"old": classic}


def test_a_member_goes_with_its_tombstones() -> None:
    log = joined()
    log.add(*member_tombstones("g", "alice"), new_epoch_record("g", 3, 0))
    group = log.group
    assert (group.members, group.currents, group.targets, group.static_members) == ({}, {}, {}, {})
    assert list(group.table) == []
    assert (group.epoch, group.held.epoch_of(TOPIC, 0), group.assignor_votes.preferred) == (3, FREE, None)
    assert (group.subscriptions.topics(), group.state) == (set(), GroupState.EMPTY)


def test_an_assignment_that_is_removed_frees_its_partitions() -> None:
    log = joined()
    log.add(member_tombstones("g", "alice")[0])
    assert log.group.currents["alice"].member_epoch == LEFT_EPOCH
    assert log.group.held.epoch_of(TOPIC, 0) == FREE


def test_a_group_goes_with_its_tombstones() -> None:
    log = joined()
    log.add(new_regex_record("g", "b.*", ResolvedRegex(("b",), 5, 99)))
    log.add(*group_tombstones("g", ["alice"], ["b.*"]))
    assert not log.groups


@pytest.mark.parametrize("count", range(2))
def test_a_member_that_goes_too_early_is_damage(count: int) -> None:
    log = joined()
    log.add(*member_tombstones("g", "alice")[:count])
    with pytest.raises(BadSequence):
        log.add(CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id="g", member_id="alice"), None))


def test_a_target_epoch_that_goes_before_its_targets_is_damage() -> None:
    with pytest.raises(BadSequence):
        joined().add(CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id="g"), None))


@pytest.mark.parametrize("left_out", [0, 1, 2, 3])
def test_a_group_that_goes_before_its_parts_is_damage(left_out: int) -> None:
    """Its tombstones but for one: of what the member has, of its target, of the target's epoch, of the member."""
    log, tombstones = joined(), group_tombstones("g", ["alice"], [])
    with pytest.raises(BadSequence):
        log.add(*(each for number, each in enumerate(tombstones) if number != left_out))


def test_tombstones_of_what_is_not_there_say_nothing() -> None:
    log = Log(*group_tombstones("g", ["alice"], ["b.*"]), *member_tombstones("g", "alice"))
    assert not log.groups
    log = joined()
    log.add(*member_tombstones("g", "bob"), new_regex_tombstone("g", "x"))
    assert log.group.members == {"alice": ALICE}


def test_a_partition_with_two_holders_is_damage() -> None:
    log = joined()
    log.add(new_member_record("g", BOB))
    with pytest.raises(PartitionHeldTwice):
        log.add(new_current_record("g", "bob", CurrentAssignment(2, 0, MemberState.STABLE, {TOPIC: {1: 2}})))


def test_a_later_epoch_takes_a_partition_over() -> None:
    """Compaction may keep the record of who has it now, and one of who had it before."""
    log = joined()
    log.add(
        new_member_record("g", BOB),
        new_current_record("g", "bob", CurrentAssignment(3, 2, MemberState.STABLE, {TOPIC: {1: 3}})),
    )
    assert log.group.held.epoch_of(TOPIC, 1) == 3
    log.add(*member_tombstones("g", "alice"))
    assert [log.group.held.epoch_of(TOPIC, partition) for partition in (0, 1)] == [FREE, 3]


def test_what_is_to_be_given_up_is_held() -> None:
    current = CurrentAssignment(2, 2, MemberState.UNREVOKED_PARTITIONS, {TOPIC: {0: 2}}, {OTHER: {4: 1}})
    log = Log(new_member_record("g", BOB), new_current_record("g", "bob", current))
    assert log.group.currents["bob"] == current
    assert (log.group.held.epoch_of(TOPIC, 0), log.group.held.epoch_of(OTHER, 4)) == (2, 2)


def test_a_static_member_that_will_be_back_holds_what_it_has() -> None:
    log = joined()
    gone = CurrentAssignment(LEFT_FOR_NOW_EPOCH, 2, MemberState.STABLE, {TOPIC: {0: 0, 1: 0}})
    log.add(new_current_record("g", "alice", gone))
    assert log.group.held.epoch_of(TOPIC, 0) == LEFT_FOR_NOW_EPOCH
    assert log.group.state is GroupState.RECONCILING  # N11


def test_an_instance_belongs_to_who_described_itself_last() -> None:
    log = joined()
    successor = ConsumerMember("alicia", instance_id="one")
    log.add(*member_tombstones("g", "alice"), new_member_record("g", successor))
    assert log.group.static_member("one") == successor
    assert log.group.static_member("two") is log.group.static_member(None) is None


def test_an_expression_matches_topics_until_it_is_removed() -> None:
    log = Log(new_member_record("g", BOB), new_regex_record("g", "b.*", ResolvedRegex(("bb", "b"), 5, 99)))
    assert log.group.subscriptions.resolved == {"b.*": ResolvedRegex(("b", "bb"), 5, 99)}
    assert log.group.subscriptions.topics() == {"b", "bb"}
    log.add(new_regex_tombstone("g", "b.*"))
    assert log.group.subscriptions.topics() == {"b"}


def test_metadata_of_before_4_1_is_remembered_until_it_is_removed() -> None:
    key = ConsumerGroupPartitionMetadataKey(group_id="g")
    log = Log(CoordinatorRecord(key, ConsumerGroupPartitionMetadataValue(topics=[])))
    assert log.group.has_partition_metadata
    log.add(new_partition_metadata_tombstone("g"))
    assert not log.group.has_partition_metadata


@pytest.mark.parametrize(
    ("member_epoch", "epochs", "expected"),
    [(7, None, 7), (-2, None, 0), (7, [3], 3), (7, [3, 4], 7)],
    ids=["none are known", "of a member that will be back", "known", "as many as do not fit"],
)
def test_epochs_of_partitions(member_epoch: int, epochs: list[int] | None, expected: int) -> None:
    topic = CurrentTopicPartitions(topic_id=TOPIC, partitions=[0], assignment_epochs=epochs)
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member_epoch, previous_member_epoch=0, state=0, assigned_partitions=[topic]
    )
    log = Log(new_member_record("g", BOB))
    log.add(CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="bob"), value))
    assert log.group.currents["bob"].assigned == {TOPIC: {0: expected}}


def test_a_state_of_a_later_version_is_unknown() -> None:
    value = ConsumerGroupCurrentMemberAssignmentValue(member_epoch=2, previous_member_epoch=1, state=9)
    log = Log(new_member_record("g", BOB))
    log.add(CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="bob"), value))
    assert log.group.currents["bob"].state is MemberState.UNKNOWN


def test_states_of_a_group() -> None:
    """Tested in this order, so that a group whose target is late is Assigning whatever its members do."""
    log, seen = joined(), []
    for record in (
        new_epoch_record("g", 3, 77),
        new_target_epoch_record("g", 3, 1240),
        new_current_record("g", "alice", CurrentAssignment(3, 2, MemberState.UNRELEASED_PARTITIONS)),
        new_current_record("g", "alice", CurrentAssignment(3, 3)),
    ):
        log.add(record)
        seen.append(log.group.state)
    assert seen == [
        GroupState.ASSIGNING,
        GroupState.RECONCILING,
        GroupState.RECONCILING,
        GroupState.STABLE,
    ]


def test_only_removal_needs_a_group_key() -> None:
    log = Log()
    log.add(CoordinatorRecord(ConsumerGroupMetadataKey(group_id="g"), None))
    assert not log.groups
