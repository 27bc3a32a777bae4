"""The assignors that a broker offers to consumer groups (KIP-848): targets as Apache Kafka 4.3.1 computes them.

An assignor knows subscriptions, targets and partition counts, and neither epochs nor who holds what at present.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from coordinator.groups.consumer.assignors.range import assign_ranges
from coordinator.groups.consumer.assignors.specs import MemberSpec, PartitionCounts, Target
from coordinator.groups.consumer.assignors.uniform import assign_heterogeneous, assign_homogeneous

Assignor: TypeAlias = Callable[[Sequence[MemberSpec], PartitionCounts, bool], dict[str, Target]]
"""Computes targets of members in the order of their table; a member that it leaves out has an empty one."""


def _uniform(
    members: Sequence[MemberSpec], partition_counts: PartitionCounts, is_homogeneous: bool
) -> dict[str, Target]:
    if not members:
        return {}
    assign = assign_homogeneous if is_homogeneous else assign_heterogeneous
    return assign(members, partition_counts)


def _range(
    members: Sequence[MemberSpec], partition_counts: PartitionCounts, is_homogeneous: bool
) -> dict[str, Target]:
    return assign_ranges(members, partition_counts, is_homogeneous=is_homogeneous)


ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": _uniform, "range": _range}
"""By their names in `group.consumer.assignors`."""
