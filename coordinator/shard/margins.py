"""The heartbeat margins of one group's members, of whichever kind the group is."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.groups.margins import Heard, begin_window, margin_of
from coordinator.offsets.shard_offsets import ShardOffsets


def margins(shard: ShardOffsets, group_id: str) -> dict[str, float]:
    """The heartbeat margins by member id, of those members that were heard of late."""
    found = ((name, margin_of(heard, timeout_ms)) for name, heard, timeout_ms in _heard(shard, group_id))
    return {member_id: margin for member_id, margin in found if margin is not None}


def begin_margin_window(shard: ShardOffsets, group_id: str) -> None:
    """Let a new window of the margins begin; the two newest count."""
    for _, heard, _ in _heard(shard, group_id):
        begin_window(heard)


def _heard(shard: ShardOffsets, group_id: str) -> Iterator[tuple[str, Heard, int]]:
    """Yield each member's id, what is known of when it was heard, and its session timeout."""
    classic = shard.groups.get(group_id)
    if classic is not None:
        for member in classic.members.values():
            yield member.member_id, member, member.session_timeout_ms
        return
    group, soft = shard.consumer_group(group_id), shard.consumers.known_soft(group_id)
    if group is None or soft is None:
        return
    default_ms = shard.consumers.settings.of(group_id).session_timeout_ms
    for member_id, session in soft.sessions.items():
        known = group.members.get(member_id)
        if known is not None:
            yield member_id, session, known.session_timeout_ms(default_ms)
