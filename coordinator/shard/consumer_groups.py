"""The consumer groups of a shard: requests, timers and outcomes of work, handed on to `groups.consumer`."""

from __future__ import annotations

from typing import TypeAlias

from coordinator.effects import Effects, Moment, RequestContext, Result
from coordinator.groups.causes import Cause, CauseKind
from coordinator.groups.consumer.classic_members import on_classic_timer
from coordinator.groups.consumer.describe import consumer_group_describe
from coordinator.groups.consumer.downgrade import GroupDowngraded, on_downgrade_stored
from coordinator.groups.consumer.events import restart_row
from coordinator.groups.consumer.heartbeat import consumer_group_heartbeat
from coordinator.groups.consumer.leave import (
    MembersRemoved,
    on_removal_stored,
    on_revocation_timer,
    on_session_timer,
)
from coordinator.groups.consumer.regexes import RegexesResolved, on_regexes_resolved
from coordinator.groups.consumer.states import MemberState
from coordinator.groups.consumer.timers import (
    ClassicJoinTimer,
    ClassicSyncTimer,
    MemberSessionTimer,
    RevocationTimer,
)
from coordinator.groups.consumer.upgrade import GroupUpgraded, on_upgrade_stored
from coordinator.offsets.shard_offsets import ShardOffsets
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

ConsumerGroupTimer: TypeAlias = MemberSessionTimer | RevocationTimer | ClassicJoinTimer | ClassicSyncTimer

ConsumerGroupStored: TypeAlias = GroupUpgraded | GroupDowngraded | MembersRemoved
"""The kinds of `Result.then` of a group that became one of the other kind, or that several members left."""


def heartbeat(
    shard: ShardOffsets,
    request: ConsumerGroupHeartbeatRequest,
    context: RequestContext,
    at: Moment,
    effects: Effects,
) -> None:
    """ConsumerGroupHeartbeat (key 68)."""
    consumer_group_heartbeat(shard.consumers, request, context, at, effects)


def describe(
    shard: ShardOffsets, request: ConsumerGroupDescribeRequest, context: RequestContext, at: Moment
) -> Result:
    """ConsumerGroupDescribe (key 69)."""
    return consumer_group_describe(shard.consumers, request, context, at)


def on_timer(shard: ShardOffsets, timer: ConsumerGroupTimer, at: Moment, effects: Effects) -> None:
    """Handle a timer of a member; it does nothing once the member is gone."""
    match timer:
        case MemberSessionTimer():
            on_session_timer(shard.consumers, timer, at, effects)
        case RevocationTimer():
            on_revocation_timer(shard.consumers, timer, at, effects)
        case _:
            on_classic_timer(shard.consumers, timer, at, effects)


def on_work_finished(shard: ShardOffsets, outcome: object, at: Moment, effects: Effects) -> None:
    """Use what another thread found out."""
    assert isinstance(outcome, RegexesResolved), f"no run that was asked for: {outcome!r}"
    on_regexes_resolved(shard.consumers, outcome, at, effects)


def on_stored(
    shard: ShardOffsets, changed: ConsumerGroupStored, error: ErrorCode, at: Moment, effects: Effects
) -> None:
    """Put a group back as it was, and the timers of its members, if its change was not stored."""
    match changed:
        case GroupUpgraded():
            on_upgrade_stored(shard.consumers, changed, error, at, effects)
        case GroupDowngraded():
            on_downgrade_stored(shard.consumers, changed, error, at, effects)
        case MembersRemoved():
            on_removal_stored(shard.consumers, changed, error, at, effects)


def revive(shard: ShardOffsets, at: Moment, effects: Effects) -> None:
    """Begin sessions after a load, and say in the history of each group with members that it was read."""
    begin_sessions(shard, at.now_ms, effects)
    for group in shard.consumers.groups.values():
        if group.members:
            cause = Cause(CauseKind.COORDINATOR_RESTARTED)
            shard.consumers.soft(group.group_id).course.begin_anew(group, cause, at)
            effects.history.append(restart_row(group, at, cause))


def begin_sessions(shard: ShardOffsets, now_ms: int, effects: Effects) -> None:
    """Give every member a full session from now, and time to confirm what it has to give up, as after a load.

    A classic member gets the session of the others, as in Kafka; its own comes with its next heartbeat.
    """
    consumers = shard.consumers
    for group in consumers.groups.values():
        soft, timeout_ms = (
            consumers.soft(group.group_id),
            consumers.settings.of(group.group_id).session_timeout_ms,
        )
        for member_id, current in sorted(group.currents.items()):  # Whatever order a load found them in.
            soft.begin_session(member_id, now_ms, timeout_ms, effects)
            if current.state is MemberState.UNREVOKED_PARTITIONS:
                deadline_ms = now_ms + group.members[member_id].rebalance_timeout_ms
                soft.await_revocation(member_id, current.member_epoch, deadline_ms, effects)
