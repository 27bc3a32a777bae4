"""The steady heartbeat: one that says nothing new, of a member that has what it is to have.

Members send the same one again and again. What it would find is looked up by identity, since a member or an
assignment that changed is another object; and not again until a record of its group was replayed, or the settings
of some group changed. Then it moves the session on, as any heartbeat does, and nothing else.
"""

from __future__ import annotations

from typing import Final

from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.heartbeat import is_whole, says_nothing_new
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.shard_groups import ConsumerGroups
from coordinator.groups.consumer.soft_state import Session
from coordinator.groups.margins import note_left
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

NEVER_SEEN: Final = -1


class SteadyHeartbeat:
    """One request that is repeated, with its member as it was when this was made."""

    __slots__ = (
        "_current",
        "_group",
        "_member",
        "_seen_changes",
        "_seen_overrides",
        "_session",
        "_session_timeout_ms",
        "_shard",
        "_soft",
        "response",
    )

    def __init__(self, shard: ConsumerGroups, group: ConsumerGroup, member: ConsumerMember) -> None:
        self._shard, self._group, self._member = shard, group, member
        self._current = group.currents[member.member_id]
        self._soft = shard.soft(group.group_id)
        self._session: Session | None = None
        self._session_timeout_ms = 0
        self._seen_changes = self._seen_overrides = NEVER_SEEN
        self.response = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=self._current.member_epoch,
            heartbeat_interval_ms=shard.settings.of(group.group_id).heartbeat_interval_ms,
        )

    def beat(self, now_ms: int) -> bool:
        """Move the session on if the heartbeat holds; return whether it does."""
        session = self._session_if_it_holds(now_ms)
        if session is None:
            return False
        if (left_ms := session.deadline_ms - now_ms) < session.least_left_ms:
            note_left(session, left_ms)
        session.deadline_ms = now_ms + self._session_timeout_ms
        return True

    def holds(self, now_ms: int) -> bool:
        """Whether the request would be answered with `response`, and change nothing but the session's end."""
        return self._session_if_it_holds(now_ms) is not None

    def _session_if_it_holds(self, now_ms: int) -> Session | None:
        """The member's session, if the heartbeat holds; what changes by records is looked at if there were any."""
        shard, soft, group = self._shard, self._soft, self._group
        if (
            group.changes != self._seen_changes
            or shard.settings.override_changes != self._seen_overrides
            or soft.sessions.get(self._member.member_id) is not self._session
        ) and not self._has_looked_again():
            return None
        session = self._session
        if session is None or soft.is_stale(now_ms, group.epoch, shard.topics.version):
            return None
        # A session that is to be shorter, or over, takes a timer.
        if session.timer_ms > now_ms + self._session_timeout_ms or group.group_id in shard.suspended:
            return None
        return session

    def _has_looked_again(self) -> bool:
        """Note what the heartbeat depends on as it is now; return False, and note nothing, if it has changed."""
        shard, group, current = self._shard, self._group, self._current
        member_id, group_id = self._member.member_id, group.group_id
        settings = shard.settings.of(group_id)
        if (
            shard.groups.get(group_id) is group
            and shard.known_soft(group_id) is self._soft
            and group.members.get(member_id) is self._member
            and group.currents.get(member_id) is current
            and group.epoch == group.assignment_epoch
            and current.is_reconciled_to(group.epoch)
            and not group.subscriptions.by_regex  # Else it may be time to match the expressions again.
            and self.response.heartbeat_interval_ms == settings.heartbeat_interval_ms
        ):
            self._session = self._soft.sessions.get(member_id)
            self._session_timeout_ms = settings.session_timeout_ms
            self._seen_changes, self._seen_overrides = group.changes, shard.settings.override_changes
            return True
        return False


def steady_heartbeat(shard: ConsumerGroups, request: ConsumerGroupHeartbeatRequest) -> SteadyHeartbeat | None:
    """Return the steady heartbeat that a request is; None if it is none, whatever its member comes to be.

    Client id and host are not looked at: where they change, so does the member.
    """
    group = shard.groups.get(request.group_id)
    member = None if group is None else group.members.get(request.member_id)
    if group is None or member is None or member.classic is not None or is_whole(request):
        return None
    if request.member_epoch != group.currents[member.member_id].member_epoch or request.member_epoch <= 0:
        return None
    return SteadyHeartbeat(shard, group, member) if says_nothing_new(request, member) else None
