"""Targets are those of Apache Kafka 4.3.1, for whole histories of joins, leaves and changed subscriptions."""

from __future__ import annotations

import pytest

from coordinator.groups.consumer.assignors import ASSIGNORS
from coordinator.groups.consumer.assignors.specs import NO_TARGET, MemberSpec, Target, in_table_order
from coordinator.groups.consumer.java_order import JavaTable, TimelineTable, string_hash
from coordinator.groups.consumer.target import changed_targets
from tests.oracle.assignor_vectors import VECTORS, History, Step, Targets, histories

HISTORIES = histories(VECTORS.read_text())


class Group:
    """As much of a group as an assignor looks at: its members, their names, their targets as records have them."""

    def __init__(self, history: History) -> None:
        self.topics = {topic.name: topic for topic in history.topics}
        self.assign = ASSIGNORS[history.assignor]
        self.members = TimelineTable()
        self.names: dict[str, tuple[str, ...]] = {}
        self.targets: dict[str, Target] = {}

    def play(self, step: Step) -> None:
        if step.kind == "L":
            gone, heartbeating = step.members
            self.members.remove(gone)
            del self.names[gone], self.targets[gone]
            self.compute(heartbeating)
            return
        (member_id,) = step.members
        is_changed = set(self.names.get(member_id, ())) != set(step.names)
        self.names[member_id] = step.names
        if is_changed:
            self.compute(member_id)
        self.members.put(member_id)
        self.members.put(member_id)  # Its description, and then what it has.
        self.names[member_id] = tuple(sorted(step.names))

    def compute(self, heartbeating: str) -> None:
        specs = [self.spec(member_id) for member_id in self.members]
        members = in_table_order(specs, self.spec(heartbeating), None)
        subscriptions = [set(self.names[member.member_id]) for member in members]
        for changed in changed_targets(
            self.assign,
            members,
            {topic.topic_id: topic.partition_count for topic in self.topics.values()},
            self.targets,
            is_homogeneous=all(names == subscriptions[0] for names in subscriptions),
        ):
            self.targets[changed.member_id] = changed.target

    def spec(self, member_id: str) -> MemberSpec:
        names = JavaTable.of_list(string_hash, self.names[member_id])
        topic_ids = tuple(self.topics[name].topic_id for name in names)
        return MemberSpec(member_id, None, topic_ids, len(names), self.targets.get(member_id, NO_TARGET))

    @property
    def seen(self) -> Targets:
        names = {topic.topic_id: topic.name for topic in self.topics.values()}
        return {
            member_id: {names[topic_id]: sorted(partitions) for topic_id, partitions in target.items()}
            for member_id, target in self.targets.items()
        }


@pytest.mark.parametrize("history", HISTORIES, ids=str)
def test_targets_are_those_of_kafka(history: History) -> None:
    group = Group(history)
    for number, step in enumerate(history.steps):
        group.play(step)
        assert group.seen == step.targets, f"step {number}: {step.kind} {' '.join(step.members)}"


def test_the_histories_are_all_there() -> None:
    assert len(HISTORIES) == 92
    assert {history.assignor for history in HISTORIES} == set(ASSIGNORS)
