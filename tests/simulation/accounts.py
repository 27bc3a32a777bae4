"""What the witness knows of each group by what went in and came out: who was heard of, how long a phase lasts.

It holds against the daemon what it finds: no session ends before its time, no phase lasts longer than it may, no
id that was handed out is passed over.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coordinator.effects import Event, RequestReceived, Result, TimerFired
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.states import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    GroupState,
)
from coordinator.groups.classic.timers import JoinTimer, SessionTimer
from coordinator.groups.group_settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from coordinator.runtime.clock import STALL_MS
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from tests.simulation.witness import Witness

STORE_SLACK_MS = 9_000
"""Beyond its timer a phase may last as long as the slowest disk takes to store what ends it."""


@dataclass(frozen=True, slots=True)
class MemberBefore:
    client_id: str
    session_timeout_ms: int
    is_parked: bool
    is_new: bool


@dataclass(frozen=True, slots=True)
class Before:
    """A group as it was when an event came."""

    group_id: str
    state: GroupState
    generation_id: int
    joined: int
    rebalance_timeout_ms: int
    members: dict[str, MemberBefore]
    static_members: dict[str, str]


@dataclass
class Account:
    """What the witness knows of one group, in the present life of its coordinator. Times by its clock."""

    heard_ms: dict[str, int] = field(default_factory=dict)  # When each member was last heard of.
    joined_ms: dict[str, int] = field(default_factory=dict)  # When it became a member.
    open_ids: dict[str, int] = field(default_factory=dict)  # Handed out with 79: until when they are good.
    left_empty_ms: int | None = None
    generation_id: int = -1
    phase_since_ms: int = 0
    phase_timeout_ms: int = 0


def before_of(group: Group) -> Before:
    """The group as it is."""
    members = {
        member_id: MemberBefore(m.client_id, m.session_timeout_ms, m.is_parked, m.is_new)
        for member_id, m in group.members.items()
    }
    return Before(
        group.group_id,
        group.state,
        group.generation_id,
        sum(m.awaiting_join is not None for m in group.members.values()),
        group.rebalance_timeout_ms,
        members,
        dict(group.static_members),
    )


def own_answer(result: Result, reply_to: object) -> Any:
    """What `result` answers to this one; None if nothing."""
    return next((reply.response for reply in result.replies if reply.reply_to is reply_to), None)


class Accounts:
    """Of all groups."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._accounts: dict[str, Account] = defaultdict(Account)

    def heard(self, group_id: str, member_id: str, now_ms: int) -> None:
        self._accounts[group_id].heard_ms[member_id] = now_ms

    def forget(self, group_id: str) -> None:
        """The group has ended, or its shard's life has."""
        self._accounts.pop(group_id, None)

    def begin(self, group: Group, now_ms: int) -> None:
        """The group was loaded: each member has a full session from now on."""
        account = self._accounts[group.group_id] = Account(
            generation_id=group.generation_id,
            phase_since_ms=now_ms,
            phase_timeout_ms=group.rebalance_timeout_ms,
        )
        for member_id in group.members:
            account.heard_ms[member_id] = account.joined_ms[member_id] = now_ms

    def follow(self, group: Group, before: Before | None, event: Event, result: Result, now_ms: int) -> None:
        """An event has happened to `group`."""
        account = self._accounts[group.group_id]
        state = EMPTY if before is None else before.state
        self._follow_ids(account, event, result, group, now_ms)
        self._follow_phases(account, group, state, event, now_ms)
        self._follow_members(account, group, before, event, result, now_ms)
        if isinstance(event, RequestReceived):
            self._note_waiting(account, group, event)

    def _note_waiting(self, account: Account, group: Group, event: RequestReceived) -> None:
        """A join and a sync may wait for as long as the phase lasts that is on now."""
        if isinstance(event.request, (JoinGroupRequest, SyncGroupRequest)):
            assert self._witness.server is not None
            delay_ms = self._witness.server.settings.group_initial_rebalance_delay_ms
            phase_ms = max(account.phase_timeout_ms, group.rebalance_timeout_ms, delay_ms)
            self._witness.deadlines.on_parked(event.context.reply_to, phase_ms)

    def _follow_ids(self, account: Account, event: Event, result: Result, group: Group, now_ms: int) -> None:
        """Which ids were handed out and are not used yet (3.4 to 3.6)."""
        match event:
            case RequestReceived(JoinGroupRequest() as request, context):
                answer = own_answer(result, context.reply_to)
                error = None if answer is None else answer.error_code
                if error == ErrorCode.MEMBER_ID_REQUIRED:
                    account.open_ids[answer.member_id] = now_ms + request.session_timeout_ms
                elif error == ErrorCode.GROUP_MAX_SIZE_REACHED or request.member_id in group.members:
                    account.open_ids.pop(request.member_id, None)
            case RequestReceived(LeaveGroupRequest() as request, context):
                for member_id in [request.member_id, *(member.member_id for member in request.members)]:
                    account.open_ids.pop(member_id, None)

    def _follow_phases(
        self, account: Account, group: Group, state: GroupState, event: Event, now_ms: int
    ) -> None:
        timer = event.key if isinstance(event, TimerFired) else None
        if group.state is not state or group.generation_id != account.generation_id:
            # A member that joins alone may end one sync phase and begin the next in one event.
            account.generation_id = group.generation_id
            account.phase_since_ms, account.phase_timeout_ms = now_ms, group.rebalance_timeout_ms
        if state is EMPTY and group.state is PREPARING_REBALANCE:
            account.left_empty_ms = now_ms
        if state is PREPARING_REBALANCE and group.state is not PREPARING_REBALANCE:
            self._on_join_completed(account, group, timer, now_ms)
        if group.state is COMPLETING_REBALANCE:
            waited_ms = now_ms - account.phase_since_ms
            limit_ms = account.phase_timeout_ms + STORE_SLACK_MS
            self._witness.require(
                waited_ms <= limit_ms, f"{group.group_id} waits for its SyncGroups for {waited_ms} ms"
            )

    def _on_join_completed(self, account: Account, group: Group, timer: Any, now_ms: int) -> None:
        assert self._witness.server is not None
        open_ids = [each for each, until_ms in account.open_ids.items() if until_ms > now_ms]
        waited = isinstance(timer, JoinTimer) or not group.members
        self._witness.require(
            waited or not open_ids, f"{group.group_id}: joined without {open_ids}, handed out (3.5)"
        )
        delay_ms = self._witness.server.settings.group_initial_rebalance_delay_ms
        # One whose time runs out ends the delay, as in Kafka.
        cut_short = isinstance(timer, SessionTimer) or not group.members
        if account.left_empty_ms is not None and not cut_short:
            took_ms = now_ms - account.left_empty_ms
            self._witness.require(
                took_ms >= delay_ms, f"{group.group_id}: initial delay of {took_ms} ms (3.11)"
            )
        account.left_empty_ms = None

    def _follow_members(
        self,
        account: Account,
        group: Group,
        before: Before | None,
        event: Event,
        result: Result,
        now_ms: int,
    ) -> None:
        """When each member was heard of; and that no session ends before its time (3.54 to 3.57)."""
        own = event.context.reply_to if isinstance(event, RequestReceived) else None
        begun = before is not None and before.state is not group.state and group.state is COMPLETING_REBALANCE
        for reply in result.replies:
            request = getattr(reply.reply_to, "request", None)
            if isinstance(request, (JoinGroupRequest, SyncGroupRequest)) and (
                reply.reply_to is not own or begun
            ):
                joined_id = getattr(reply.response, "member_id", "") or request.member_id
                account.heard_ms[joined_id] = now_ms
        if begun or group.state is STABLE:
            for member_id in group.members.keys() - (before.members.keys() if before else set()):
                account.heard_ms[member_id] = now_ms
        for member_id in group.members.keys() - account.joined_ms.keys():
            account.joined_ms[member_id] = now_ms
        if isinstance(event, TimerFired) and isinstance(event.key, SessionTimer) and before is not None:
            member_id = event.key.member_id
            if member_id in before.members and member_id not in group.members:
                self._on_expired(account, before, member_id, now_ms)

    def _on_expired(self, account: Account, before: Before, member_id: str, now_ms: int) -> None:
        self._witness.expired += 1
        member = before.members[member_id]
        self._witness.sights.on_expired(member.client_id)
        who = f"{member_id} of {before.group_id}"
        if member.is_parked:
            waited_ms = now_ms - account.joined_ms.get(member_id, now_ms)
            patient = member.is_new and waited_ms >= NEW_MEMBER_JOIN_TIMEOUT_MS
            self._witness.require(
                patient, f"{who} expired while it waited on our account, {waited_ms} ms (3.55)"
            )
            return
        silent_ms = now_ms - account.heard_ms.get(member_id, 0)
        self._witness.require(
            silent_ms >= member.session_timeout_ms,
            f"{who} expired after {silent_ms} ms of silence, allowed are {member.session_timeout_ms}",
        )
        assert self._witness.server is not None
        since_ms = self._witness.server.timeline.now_ms - STALL_MS  # A shorter stop is ordinary lateness.
        unread = [
            call.request
            for at_ms, call in self._witness.server.unread
            if at_ms <= since_ms and _beats_for(call.request, member_id)
        ]
        self._witness.require(not unread, f"{who} expired while its heartbeat was unread: {unread}")


def _beats_for(request: Any, member_id: str) -> bool:
    return isinstance(request, HeartbeatRequest) and request.member_id == member_id
