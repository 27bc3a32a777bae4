"""A log of `__consumer_offsets` in the making: records as a broker writes them, handed to a fold one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from coordinator.effects import CoordinatorRecord, GroupEvent
from coordinator.groups.consumer import record_schemas as parts
from coordinator.groups.record_codec import encode_record
from coordinator.groups.record_schemas import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from muster.observe.evidence import At
from muster.observe.fold import Fold
from protocol.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_assignment,
    encode_subscription,
)
from protocol.messages.shared import TopicPartitions

START_MS: Final = 1_700_000_000_000
GROUP: Final = "billing"


def member(
    name: str,
    instance: str | None = None,
    topics: Sequence[str] = ("orders",),
    partitions: Sequence[int] = (),
) -> MemberMetadata:
    """A member of a classic generation, which owns these partitions of `orders`."""
    owned = [TopicPartitions(topic="orders", partitions=list(partitions))] if partitions else []
    return MemberMetadata(
        member_id=f"{name}-id",
        group_instance_id=instance,
        client_id=name,
        client_host="/10.0.0.1",
        session_timeout=45_000,
        subscription=encode_subscription(ConsumerProtocolSubscription(topics=list(topics))),
        assignment=encode_assignment(ConsumerProtocolAssignment(assigned_partitions=owned)),
    )


class OffsetsLog:
    """Appends records, and keeps the events that the fold makes of them. A second between two writes."""

    def __init__(self, fold: Fold | None = None) -> None:
        self.fold = Fold() if fold is None else fold
        self.events: list[GroupEvent] = []
        self.now_ms = START_MS
        self.offset = 0
        self.hole_at = -1

    def write(self, *records: CoordinatorRecord, settled: bool = True) -> list[GroupEvent]:
        """One write; returns its events. Without `settled` the next write is in the same batch of the log."""
        self.now_ms += 1_000
        return self.write_also(*records, settled=settled)

    def write_also(self, *records: CoordinatorRecord, settled: bool = True) -> list[GroupEvent]:
        """A write at the very time of the one before."""
        pairs = [encode_record(record) for record in records]
        return self.write_bytes(*pairs, settled=settled)

    def write_bytes(
        self, *records: tuple[bytes | None, bytes | None], settled: bool = True
    ) -> list[GroupEvent]:
        events: list[GroupEvent] = []
        for key, value in records:
            events += self.fold.take(key, value, At(0, self.offset, self.now_ms, self.hole_at))
            self.offset += 1
        if settled:
            events += self.fold.settle()
        self.events += events
        return events

    def skip(self, offsets: int) -> None:
        """Leave offsets out, as compaction does."""
        self.offset += offsets
        self.hole_at = self.offset

    def generation(
        self, number: int, *members: MemberMetadata, group: str = GROUP, **changes: Any
    ) -> list[GroupEvent]:
        """A classic generation, whose first member leads; its join phase ended 40 ms ago."""
        return self.write(generation(number, *members, group=group, wall_ms=self.now_ms + 960, **changes))


def generation(
    number: int, *members: MemberMetadata, group: str = GROUP, wall_ms: int = START_MS, **changes: Any
) -> CoordinatorRecord:
    fields: dict[str, Any] = {
        "protocol_type": "consumer",
        "generation": number,
        "protocol": "range" if members else None,
        "leader": members[0].member_id if members else None,
        "current_state_timestamp": wall_ms,
        "members": list(members),
    }
    return CoordinatorRecord(GroupMetadataKey(group=group), GroupMetadataValue(**(fields | changes)))


def tombstone(group: str = GROUP) -> CoordinatorRecord:
    return CoordinatorRecord(GroupMetadataKey(group=group), None)


def commit(group: str = GROUP) -> CoordinatorRecord:
    value = OffsetCommitValue(offset=7, metadata="", commit_timestamp=START_MS)
    return CoordinatorRecord(OffsetCommitKey(group=group, topic="orders", partition=0), value)


def new_member(
    name: str, instance: str | None = None, topics: Sequence[str] = ("orders",), regex: str = ""
) -> CoordinatorRecord:
    """The record of a consumer group's member."""
    value = parts.ConsumerGroupMemberMetadataValue(
        instance_id=instance,
        rack_id=None,
        client_id=name,
        client_host="/10.0.0.1",
        subscribed_topic_names=list(topics),
        subscribed_topic_regex=regex,
        rebalance_timeout_ms=300_000,
        server_assignor=None,
        classic_member_metadata=None,
    )
    key = parts.ConsumerGroupMemberMetadataKey(group_id=GROUP, member_id=f"{name}-id")
    return CoordinatorRecord(key, value)


def removed_member(name: str) -> list[CoordinatorRecord]:
    """The tombstones of a member, in the order in which a broker writes them."""
    names = {"group_id": GROUP, "member_id": f"{name}-id"}
    keys = (
        parts.ConsumerGroupCurrentMemberAssignmentKey,
        parts.ConsumerGroupTargetAssignmentMemberKey,
        parts.ConsumerGroupMemberMetadataKey,
    )
    return [CoordinatorRecord(key(**names), None) for key in keys]


def epoch(number: int, topics_hash: int = 1) -> CoordinatorRecord:
    value = parts.ConsumerGroupMetadataValue(epoch=number, metadata_hash=topics_hash)
    return CoordinatorRecord(parts.ConsumerGroupMetadataKey(group_id=GROUP), value)


def target(number: int) -> CoordinatorRecord:
    value = parts.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=number)
    return CoordinatorRecord(parts.ConsumerGroupTargetAssignmentMetadataKey(group_id=GROUP), value)


def current(name: str, number: int, state: int = 0) -> CoordinatorRecord:
    """What a member has: at an epoch, and Stable unless another state is given."""
    value = parts.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=number, previous_member_epoch=number - 1, state=state
    )
    key = parts.ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id=f"{name}-id")
    return CoordinatorRecord(key, value)


def expression(text: str) -> CoordinatorRecord:
    key = parts.ConsumerGroupRegularExpressionKey(group_id=GROUP, regular_expression=text)
    value = parts.ConsumerGroupRegularExpressionValue(topics=["orders"], version=1, timestamp=START_MS)
    return CoordinatorRecord(key, value)


def removed_group() -> list[CoordinatorRecord]:
    """The tombstones of a consumer group without members."""
    keys = (parts.ConsumerGroupTargetAssignmentMetadataKey, parts.ConsumerGroupMetadataKey)
    return [CoordinatorRecord(key(group_id=GROUP), None) for key in keys]


def told(events: Iterable[GroupEvent]) -> list[tuple[int, str, str]]:
    """Generation, states and reason of each event."""
    return [
        (event.generation_id, _states(event.from_state, event.to_state), event.reason) for event in events
    ]


def evidence(events: Iterable[GroupEvent]) -> list[tuple[str, str]]:
    """The cause of each event, and what it rests on."""
    return [(event.cause, event.observed.evidence if event.observed else "") for event in events]


def members_of(event: GroupEvent) -> list[str] | None:
    """The client ids of the members that an event lists."""
    assert event.observed is not None
    members: tuple[Mapping[str, str | None], ...] | None = event.observed.members
    return None if members is None else [str(each["client_id"]) for each in members]


def _states(from_state: str, to_state: str) -> str:
    return to_state if from_state == to_state else f"{from_state} > {to_state}"
