"""The target of a consumer group: what each member is to have, as an assignor computes it (A19 to A22)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from coordinator.groups.consumer.assignors import Assignor
from coordinator.groups.consumer.assignors.specs import MemberSpec, PartitionCounts, Target


@dataclass(frozen=True, slots=True)
class ChangedTarget:
    """A member whose target is another one now, or that had none."""

    member_id: str
    target: Target


def changed_targets(
    assignor: Assignor,
    members: Sequence[MemberSpec],
    partition_counts: PartitionCounts,
    stored: Mapping[str, Target],
    *,
    is_homogeneous: bool,
) -> Iterator[ChangedTarget]:
    """Compute the targets of `members`, and yield those that differ from the `stored` ones, in record order.

    The members are in the order of their map (`in_table_order`).
    """
    computed = assignor(members, partition_counts, is_homogeneous)
    for member in members:
        target = computed.get(member.member_id, {})
        before = stored.get(member.member_id)
        if before is None or not _are_equal(target, before):
            yield ChangedTarget(member.member_id, target)


def _are_equal(one: Target, other: Target) -> bool:
    """Whether both have the same partitions; their order says nothing."""
    return one.keys() == other.keys() and all(
        set(partitions) == set(other[topic_id]) for topic_id, partitions in one.items()
    )
