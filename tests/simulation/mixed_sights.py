"""Notices rare events of groups with members of both protocols; never says that anything is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from coordinator.effects import (
    AppendFinished,
    CoordinatorRecord,
    Event,
    RequestReceived,
    Result,
    TimerFired,
    WorkFinished,
)
from coordinator.groups.classic.states import COMPLETING_REBALANCE, PREPARING_REBALANCE
from coordinator.groups.consumer.downgrade import GroupDowngraded
from coordinator.groups.consumer.group import LEFT_FOR_NOW_EPOCH
from coordinator.groups.consumer.record_schemas import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMetadataKey,
)
from coordinator.groups.consumer.regexes import RegexesResolved
from coordinator.groups.consumer.states import GroupState, MemberState
from coordinator.groups.consumer.upgrade import GroupUpgraded
from coordinator.shard.shard import Shard
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.offset_commit import OffsetCommitResponse
from tests.simulation.marks import Marks
from tests.simulation.witness import group_of

if TYPE_CHECKING:
    from tests.simulation.call import Call

UNFINISHED = (GroupState.ASSIGNING, GroupState.RECONCILING)


class MixedSights:
    """One for a whole simulation."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._upgrades: Counter[str] = Counter()

    # What happens inside a shard.

    def before(self, shard: Shard, event: Event, computed: Collection[str]) -> None:
        """`computed` are the groups whose targets are computed at present."""
        if group_of(event) in computed:
            if isinstance(event, RequestReceived):
                self._marks.reach("waited_for_target")
            elif isinstance(event, TimerFired):
                self._marks.reach("timer_waited_for_target")
        if isinstance(event, WorkFinished) and isinstance(event.outcome, RegexesResolved):
            self._on_resolved(shard, event.outcome)

    def _on_resolved(self, shard: Shard, outcome: RegexesResolved) -> None:
        self._marks.reach("expression_resolved")
        group = shard.consumer_groups.get(outcome.group_id)
        for regex, resolved in outcome.resolved.items():
            known = None if group is None else group.subscriptions.resolved.get(regex)
            if known is not None and set(known.topics) != set(resolved.topics):
                self._marks.reach("expression_met_new_topic")

    def after(self, shard: Shard, event: Event, result: Result) -> None:
        match result.then:
            case GroupUpgraded(classic) if classic.members:
                self._on_upgraded(classic)
            case GroupDowngraded():
                self._marks.reach("downgraded")
                if isinstance(event, RequestReceived) and isinstance(event.request, JoinGroupRequest):
                    self._marks.reach("downgraded_by_static_member")
        changed_kind = isinstance(getattr(event, "then", None), (GroupUpgraded, GroupDowngraded))
        if isinstance(event, AppendFinished) and event.error and changed_kind:
            self._marks.reach("change_of_kind_not_stored")
        for record in result.records:
            if isinstance(record, CoordinatorRecord):
                self._on_record(shard, event, record)

    def _on_upgraded(self, classic: Any) -> None:
        self._marks.reach("upgraded")
        self._upgrades[classic.group_id] += 1
        if self._upgrades[classic.group_id] > 1:
            self._marks.reach("back_and_forth")
        if classic.state in (PREPARING_REBALANCE, COMPLETING_REBALANCE):
            self._marks.reach("upgraded_amid_rebalance")

    def _on_record(self, shard: Shard, event: Event, record: CoordinatorRecord) -> None:
        key, value = record.key, record.value
        request = event.request if isinstance(event, RequestReceived) else None
        is_gone = isinstance(key, ConsumerGroupMetadataKey) and value is None
        if is_gone and isinstance(request, JoinGroupRequest):
            if shard.consumer_groups[key.group_id].members:
                return
            self._marks.reach("gave_way")
        if not isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            return
        if value is None:
            is_join = getattr(request, "member_epoch", None) == 0
            if is_join and request is not None and request.instance_id is not None:
                self._marks.reach("taken_over")
        elif value.member_epoch == LEFT_FOR_NOW_EPOCH:
            self._marks.reach("away")
        elif value.state == MemberState.UNRELEASED_PARTITIONS:
            self._marks.reach("held_others_up")

    # Answers.

    def on_made(self, call: Call, response: Any) -> None:
        request = call.request
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            match ErrorCode(response.error_code):
                case ErrorCode.FENCED_MEMBER_EPOCH:
                    self._marks.reach("epoch_fenced")
                case ErrorCode.UNRELEASED_INSTANCE_ID:
                    self._marks.reach("instance_unreleased")
                case ErrorCode.GROUP_ID_NOT_FOUND if "upgrade is disabled" in (response.error_message or ""):
                    self._marks.reach("upgrade_refused")
        elif isinstance(request, JoinGroupRequest):
            if response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
                self._marks.reach("classic_refused")
        elif isinstance(response, OffsetCommitResponse):
            errors = {each.error_code for topic in response.topics for each in topic.partitions}
            if ErrorCode.STALE_MEMBER_EPOCH in errors:
                self._marks.reach("commit_of_stale_epoch")

    # Lives.

    def on_loaded(self, shard: Shard) -> None:
        for group in shard.consumer_groups.values():
            if group.state in UNFINISHED:
                self._marks.reach("restarted_amid_reconciliation")

    def on_crash(self, computed: Collection[str]) -> None:
        if computed:
            self._marks.reach("crash_while_computing")

    def on_no_room(self, computed: Collection[str]) -> None:
        if computed:
            self._marks.reach("no_room_while_computing")
