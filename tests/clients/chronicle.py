"""What a coordinator wrote down about a group: its generations, and on Muster its history.

A coordinator keeps one record in `__consumer_offsets` for each generation that got an assignment, and one
more for each static member that was replaced: there a test counts what a rebalance has cost, on Kafka and
Muster alike. The topic `__group_events` is Muster's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from confluent_kafka import Message

from coordinator.effects import GroupEvent
from coordinator.groups.partitioning import partition_for
from coordinator.groups.record_codec import decode_record
from coordinator.groups.record_schemas import GroupMetadataKey, GroupMetadataValue
from coordinator.history.events import TOPIC as HISTORY_TOPIC
from coordinator.history.events import decode_event
from harness.gateway import TRANSACTING
from harness.observer import Observer
from harness.processes import wait_until
from protocol.consumer import decode_assignment

OFFSETS_TOPIC, BEHIND_GATEWAY = "__consumer_offsets", "__muster_offsets"
HISTORY_DEADLINE_S = 60


@dataclass(frozen=True)
class Generation:
    """A generation as it was stored: each member's partitions, as "topic-0"."""

    number: int
    shares: dict[str, frozenset[str]]


def generations(observer: Observer, group: str) -> list[Generation]:
    """Every generation stored with members, oldest first; again for each static member replaced."""
    is_ours = observer.has_topic(BEHIND_GATEWAY) and not group.startswith(TRANSACTING)
    topic = BEHIND_GATEWAY if is_ours else OFFSETS_TOPIC
    partition = partition_for(group, observer.partition_count(topic))
    values = _group_metadata(observer.read(topic, partition), group)
    return [Generation(value.generation, _shares(value)) for value in values if value.members]


def history(observer: Observer, group: str) -> list[GroupEvent]:
    """The events of a group that is now empty, oldest first. Waits for that last one: it is written late."""

    def complete() -> list[GroupEvent] | None:
        events = _events(observer, group)
        return events if events and events[-1].to_state == "Empty" else None

    events = wait_until(complete, f"the end of {group} on {HISTORY_TOPIC}", HISTORY_DEADLINE_S)
    assert events is not None
    return events


def handed_over_at_once(generations: Iterable[Generation]) -> set[str]:
    """Partitions that went from one member to another, who both stayed, without a generation between."""
    moved: set[str] = set()
    earlier = Generation(0, {})
    for generation in generations:
        for member, share in generation.shares.items():
            for other in (earlier.shares.keys() & generation.shares.keys()) - {member}:
                moved |= share & earlier.shares[other]
        earlier = generation
    return moved


def _group_metadata(messages: Iterable[Message], group: str) -> Iterator[GroupMetadataValue]:
    for message in messages:
        record = decode_record(message.key(), message.value())
        if record is not None and record.key == GroupMetadataKey(group=group) and record.value is not None:
            yield record.value


def _shares(value: GroupMetadataValue) -> dict[str, frozenset[str]]:
    return {member.member_id: _partitions(member.assignment) for member in value.members}


def _partitions(assignment: bytes) -> frozenset[str]:
    if not assignment:
        return frozenset()
    topics = decode_assignment(assignment).assigned_partitions
    return frozenset(f"{topic.topic}-{partition}" for topic in topics for partition in topic.partitions)


def _events(observer: Observer, group: str) -> list[GroupEvent]:
    count = observer.partition_count(HISTORY_TOPIC)
    messages = (message for partition in range(count) for message in observer.read(HISTORY_TOPIC, partition))
    return [decode_event(message.value()) for message in messages if message.key() == group.encode()]
