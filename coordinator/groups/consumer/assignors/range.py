"""The range assignor: of each topic one block of partitions to each subscriber, computed anew each time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from coordinator.groups.consumer.assignors.specs import MemberSpec, PartitionCounts, Target
from coordinator.groups.consumer.java_order import JavaTable, utf16_units, uuid_hash


def assign_ranges(
    members: Sequence[MemberSpec], partition_counts: PartitionCounts, *, is_homogeneous: bool
) -> dict[str, Target]:
    """Targets of all members. Static ones come first, by their instance id; dynamic ones by their member id."""
    in_order = sorted(members, key=_rank)
    # Where all count as alike the first one stands for all; one that has joined since may be another.
    alike = in_order[:1] * len(in_order) if is_homogeneous else in_order
    subscriber_counts = Counter(topic_id for like in alike for topic_id in like.topic_ids)
    blocks = {
        topic_id: _blocks(partition_counts[topic_id], count) for topic_id, count in subscriber_counts.items()
    }
    targets: dict[str, Target] = {}
    for member, like in zip(in_order, alike, strict=True):
        table_size = len(like.topic_ids) if is_homogeneous else like.name_count
        targets[member.member_id] = _next_blocks(like.topic_ids, table_size, blocks)
    return targets


def _rank(member: MemberSpec) -> tuple[bool, bytes]:
    name = member.member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, utf16_units(name)


def _blocks(partition_count: int, subscriber_count: int) -> Iterator[range]:
    share, extras = divmod(partition_count, subscriber_count)
    start = 0
    for number in range(subscriber_count):
        end = start + share + (number < extras)
        yield range(start, end)
        start = end


def _next_blocks(
    topic_ids: Sequence[bytes], table_size: int, blocks: Mapping[bytes, Iterator[range]]
) -> Target:
    order = JavaTable(uuid_hash, int(table_size / 0.75) + 1)
    own: dict[bytes, range] = {}
    for topic_id in topic_ids:
        if block := next(blocks[topic_id]):
            order.put(topic_id)
            own[topic_id] = block
    return {topic_id: own[topic_id] for topic_id in order}
