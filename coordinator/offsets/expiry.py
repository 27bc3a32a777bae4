"""The sweep that expires offsets, and removes groups without members and offsets (KIP-211, O17 to O22).

Offsets of a topic that members read do not expire. The retention of a group without members counts from when it
lost them, that of a consumer without a group from its last commit. The sweep runs in slices, so that a
shard full of groups does not hold up the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from coordinator.effects import CoordinatorRecord, Effects, Moment
from coordinator.groups.causes import NO_OFFSETS_LEFT, Cause, CauseKind, counted
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.records import new_offset_commit_tombstone
from coordinator.groups.classic.states import EMPTY, STABLE
from coordinator.groups.classic.timers import OffsetExpiryTimer
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.group_settings import GroupSettings
from coordinator.offsets.committed import NO_EXPIRY, CommittedOffset, CommittedOffsets
from coordinator.offsets.remove_group import remove_consumer_group, remove_group
from coordinator.offsets.shard_offsets import ShardOffsets

SWEEP_SLICE_OFFSETS: Final = 2_000
"""Number of offsets and groups after which the sweep yields to other events: about 2 ms of work."""

BaseTime: TypeAlias = Callable[[CommittedOffset], int]
"""Gives the time (ms since the epoch) from which the retention of an offset counts."""


class OffsetSweep:
    """One shard's sweep: its timer, and the groups not yet visited in the present round."""

    def __init__(
        self, partition: int, settings: GroupSettings, slice_offsets: int = SWEEP_SLICE_OFFSETS
    ) -> None:
        self._key = OffsetExpiryTimer(partition)
        self._settings = settings
        self._slice_offsets = slice_offsets
        self._remaining: Iterator[str] | None = None

    def schedule(self, now_ms: int, effects: Effects) -> None:
        """Set the timer of the next round, `offsets.retention.check.interval.ms` from now."""
        self._remaining = None
        deadline_ms = now_ms + self._settings.offsets_retention_check_interval_ms
        effects.set_timer(self._key, deadline_ms)

    def on_timer(self, shard: ShardOffsets, at: Moment, effects: Effects) -> None:
        """Expire the offsets of the next slice of groups, and set the timer of the next slice or round."""
        groups, offsets = shard.groups, shard.offsets
        if self._remaining is None:
            self._remaining = iter((*groups, *shard.consumers.groups))
        retention_ms = self._settings.offsets_retention_ms
        weight = 0
        for group_id in self._remaining:
            if group_id in shard.consumers.suspended:
                continue  # A request waits for its target, and goes on with the group as it is.
            weight += 1 + sum(len(offsets.of_topic(group_id, each)) for each in offsets.topics_of(group_id))
            if (group := groups.get(group_id)) is not None:
                expire_group(groups, offsets, group, retention_ms, at, effects)
            elif (consumer_group := shard.consumer_group(group_id)) is not None:
                expire_consumer_group(shard, consumer_group, retention_ms, at, effects)
            if weight >= self._slice_offsets:
                effects.set_timer(self._key, at.now_ms + 1)
                return
        self.schedule(at.now_ms, effects)


def expire_group(
    groups: dict[str, Group],
    offsets: CommittedOffsets,
    group: Group,
    retention_ms: int,
    at: Moment,
    effects: Effects,
) -> None:
    """Write tombstones for the expired offsets, and for the group if it has no members or offsets left (O22)."""
    expired = expired_offsets(offsets, group, retention_ms, at.wall_ms)
    offset_count = sum(1 for _ in offsets.of_group(group.group_id))
    is_in_transaction = bool(offsets.transactions.of_group(group.group_id))  # Then the group stays (O20).
    if group.state is EMPTY and len(expired) == offset_count and not is_in_transaction:
        remove_group(groups, offsets, group, at, _removed_by_sweep(offset_count), effects)
    elif expired:
        effects.records += expired
        effects.atomic = False


def expire_consumer_group(
    shard: ShardOffsets, group: ConsumerGroup, retention_ms: int, at: Moment, effects: Effects
) -> None:
    """The same for a consumer group, where the retention of each offset counts from its commit (A69)."""
    offsets = shard.offsets
    expired = _expired(offsets, group, _commit_time, retention_ms, at.wall_ms)
    offset_count = sum(1 for _ in offsets.of_group(group.group_id))
    is_in_transaction = bool(offsets.transactions.of_group(group.group_id))
    if not group.members and len(expired) == offset_count and not is_in_transaction:
        cause = _removed_by_sweep(offset_count)
        remove_consumer_group(shard.consumers, offsets, group, at, cause, effects)
    elif expired:
        effects.records += expired
        effects.atomic = False


def _removed_by_sweep(offset_count: int) -> Cause:
    """Why a group goes: with its last offsets, or since it has none, as one that never committed."""
    detail = counted(offset_count, "offset") if offset_count else NO_OFFSETS_LEFT
    return Cause(CauseKind.OFFSETS_EXPIRED, detail)


def expired_offsets(
    offsets: CommittedOffsets, group: Group, retention_ms: int, wall_ms: int
) -> list[CoordinatorRecord]:
    """Return a tombstone for each expired offset, except in subscribed topics and in open transactions."""
    base = base_time(group)
    return [] if base is None else _expired(offsets, group, base, retention_ms, wall_ms)


def _expired(
    offsets: CommittedOffsets, group: Group | ConsumerGroup, base: BaseTime, retention_ms: int, wall_ms: int
) -> list[CoordinatorRecord]:
    return [
        new_offset_commit_tombstone(group.group_id, topic, partition)
        for topic in offsets.topics_of(group.group_id)
        if not group.is_subscribed_to(topic)
        for partition, committed in offsets.of_topic(group.group_id, topic).items()
        if _has_expired(committed, base(committed), retention_ms, wall_ms)
        and not offsets.transactions.holds(group.group_id, topic, partition)  # O20
    ]


def base_time(group: Group) -> BaseTime | None:
    """Return from when the retention of the group's offsets counts; None while they do not expire (O18)."""
    if group.protocol_type is None:
        return _commit_time  # A simple group: its commits are the only sign that it is in use.
    if group.state is EMPTY:
        emptied_ms = group.state_wall_ms
        return _commit_time if emptied_ms is None else lambda _: emptied_ms
    knows_topics = group.uses_consumer_protocol and group.subscribed_topics is not None
    return _commit_time if group.state is STABLE and knows_topics else None


def _commit_time(committed: CommittedOffset) -> int:
    return committed.commit_wall_ms


def _has_expired(committed: CommittedOffset, base_ms: int, retention_ms: int, wall_ms: int) -> bool:
    """Whether an offset has expired; an expiry that the client asked for overrides the retention (O19)."""
    if committed.expire_wall_ms != NO_EXPIRY:
        return wall_ms >= committed.expire_wall_ms
    return wall_ms - base_ms >= retention_ms
