"""What a server-side assignor is given, and the draft of a target that it works on (A36)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from coordinator.groups.consumer.java_order import (
    DEFAULT_CAPACITY,
    JavaTable,
    int_hash,
    string_hash,
    uuid_hash,
)

Target: TypeAlias = Mapping[bytes, Sequence[int]]
"""Partitions by topic id, in the order in which its record has them."""

PartitionCounts: TypeAlias = Mapping[bytes, int]
"""Number of partitions of each topic that exists, by its id."""

NO_TARGET: Final[Target] = {}


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """One member: what it subscribes to, and its target as it is.

    `topic_ids` are those of the subscribed topics that exist, in the order of the set of their names; `name_count`
    counts also the names of topics that do not exist.
    """

    member_id: str
    instance_id: str | None
    topic_ids: tuple[bytes, ...]
    name_count: int
    target: Target


def in_table_order(
    specs: Sequence[MemberSpec], updated: MemberSpec, replaced: str | None
) -> list[MemberSpec]:
    """Return the members in the order of the map that they are put into, one after the other.

    First `specs`, in the order of the group's own table; then `updated`, a member of the group or one that joins
    now; and the member `replaced` is taken out, before or after that as a table of these two has it: the map may
    have grown by then.
    """
    by_id = {spec.member_id: spec for spec in (*specs, updated)}
    table = JavaTable(string_hash)
    for spec in specs:
        table.put(spec.member_id)
    changes = JavaTable(string_hash)
    changes.put(updated.member_id)
    if replaced is not None:
        changes.put(replaced)
    for member_id in changes:
        if member_id == replaced:
            table.remove(member_id)
        else:
            table.put(member_id)
    return [by_id[member_id] for member_id in table]


class Draft:
    """A member's target while it is computed: the old one, and once it changes a copy in tables of its own."""

    __slots__ = ("_copy", "_old", "_order")

    def __init__(self, old: Target) -> None:
        self._old = old
        self._order = JavaTable(uuid_hash)
        for topic_id in old:
            self._order.put(topic_id)
        self._copy: dict[bytes, JavaTable[int]] | None = None

    def topic_ids(self) -> list[bytes]:
        """The topics, in the order of their table."""
        return list(self._order)

    def partitions(self, topic_id: bytes) -> list[int]:
        """The partitions of a topic that the draft has, in the order of their set."""
        return list(_partition_set(self._old[topic_id]) if self._copy is None else self._copy[topic_id])

    def add(self, topic_id: bytes, partition: int, capacity: int = DEFAULT_CAPACITY) -> None:
        """Add a partition; a topic that is new gets a set of this capacity."""
        copy = self._changed()
        self._order.compute_if_absent(topic_id)
        if topic_id not in copy:
            copy[topic_id] = JavaTable(int_hash, capacity)
        copy[topic_id].put(partition)

    def remove(self, topic_id: bytes, partition: int) -> None:
        """Remove a partition, and its topic with the last one."""
        copy = self._changed()
        copy[topic_id].remove(partition)
        if not copy[topic_id]:
            self.remove_topic(topic_id)

    def remove_topic(self, topic_id: bytes) -> None:
        del self._changed()[topic_id]
        self._order.remove(topic_id)

    def built(self) -> Target:
        """The target, as its record will have it."""
        if self._copy is None:
            return self._old
        return {topic_id: tuple(self._copy[topic_id]) for topic_id in self._order}

    def _changed(self) -> dict[bytes, JavaTable[int]]:
        if self._copy is None:
            order = JavaTable(uuid_hash, len(self._order))
            self._copy = {}
            for topic_id in self._order:
                order.put(topic_id)
                self._copy[topic_id] = JavaTable.of_list(int_hash, _partition_set(self._old[topic_id]))
            self._order = order
        return self._copy


def as_kept(target: Target) -> Target:
    """The same target in the order of the tables in which a broker keeps it, which is not that of its record."""
    kept = Draft(target)
    return {topic_id: kept.partitions(topic_id) for topic_id in kept.topic_ids()}


def _partition_set(partitions: Sequence[int]) -> JavaTable[int]:
    return JavaTable.of_list(int_hash, partitions)
