"""Sees everything that goes into the coordinator and comes out of it, and says when a promise is broken.

It keeps accounts of its own - who was heard of when, which ids are open, what is durable - and never asks the
daemon for them: a rule that believes what it checks finds nothing. What it finds it notes (`violations`);
whoever drives the simulation looks after each step.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coordinator.clock import STALL_MS
from coordinator.effects import CommitRun, Event, RequestReceived, Result, TimerFired
from coordinator.groups.group import Group
from coordinator.groups.group_settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from coordinator.groups.record_schemas import GroupMetadataKey
from coordinator.groups.shard import Shard
from coordinator.groups.states import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE, GroupState
from coordinator.groups.timers import JoinTimer, PendingMemberTimer, SessionTimer
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.sync_group import SyncGroupRequest
from tests.simulation.house_rules import broken_rules
from tests.simulation.ledger import Ledger
from tests.simulation.log_facts import LogFacts, OffsetKey
from tests.simulation.promises import Promises

if TYPE_CHECKING:
    from tests.simulation.disk import SimulatedLog
    from tests.simulation.server import Call, Server

ALIVE = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
HEARTBEAT_ANSWERS = (
    *ALIVE,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.NOT_COORDINATOR,  # Of a shard that gave up, or has stopped.
)
"""Whatever the disk does: a heartbeat needs none."""
STORE_SLACK_MS = 9_000
"""Beyond its timer a phase may last as long as the slowest disk takes to store what ends it."""


@dataclass(frozen=True, slots=True)
class MemberBefore:
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
    phase_since_ms: int = 0
    phase_timeout_ms: int = 0


class Witness:
    """One for a whole simulation."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.server: Server | None = None
        self.facts = LogFacts()
        self.expired = 0
        self.crashes = 0
        self.calls: list[tuple[int, Call]] = []  # All that came, and when.
        self.superseded: set[int] = set()
        self._shadows: dict[int, Shard] = {}
        self._accounts: dict[str, Account] = defaultdict(Account)
        self._due_at: dict[int, tuple[Any, int, int]] = {}  # By call: response, partition, position.
        self._due_again: dict[
            int, tuple[int, int]
        ] = {}  # By call that went the short way: partition, position.
        self._promises = Promises(self.facts, self.require)
        self._grew: set[int] = set()  # Partitions with newly durable records.

    def violated(self, promise: str) -> None:
        self.violations.append(promise)

    def require(self, holds: bool, promise: str) -> None:
        if not holds:
            self.violated(promise)

    # Requests and their answers.

    def on_arrival(self, call: Call) -> None:
        assert self.server is not None
        self.calls.append((self.server.timeline.now_ms, call))

    def on_read(self, call: Call) -> None:
        self._promises.on_read(call)

    def on_answer(self, call: Call, response: Any) -> None:
        """An answer leaves the daemon: the only one, and nothing in it that a crash could take back."""
        if call.answer is not None:  # (Telling of a request costs more than checking it.)
            self.violated(f"{call.request} was answered twice")
        if id(call) in self.superseded:
            self.violated(f"{call.request} was superseded, and answered")
        if isinstance(call.request, HeartbeatRequest) and response.error_code not in HEARTBEAT_ANSWERS:
            self.violated(f"{call.request} was answered {response.error_code}")
        made, partition, position = self._due_at.pop(id(call), (None, 0, 0))
        if made is response and (durable := self._log(partition).durable_offset) < position:
            self.violated(f"answered at {durable}, had seen {position}: {call.request}")
        partition, position = self._due_again.pop(id(call), (0, 0))
        if (durable := self._log(partition).durable_offset) < position and _stores_any(response):
            self.violated(f"answered at {durable}, wrote up to {position}: {call.request}")
        self._promises.on_answer(call, response)

    def on_commit_again(self, shard: Shard, call: Call, now_ms: int) -> None:
        """A commit is about to go the short way, past `handle`: may it, and what must its answer wait for?"""
        request = call.request
        before = self._before_request(shard, request.group_id)
        if before is None:
            self.violated(f"a commit for a group that is not there went the short way: {request}")
            return
        self._check_commit(before, request)
        self.heard(request.group_id, request.member_id, now_ms)
        count = sum(len(topic.partitions) for topic in request.topics)
        self._due_again[id(call)] = (shard.partition, self._runner_position(shard.partition) + count)

    def on_transaction_committed(self, held: dict[OffsetKey, int]) -> None:
        """A producer has been told that its transaction, with these offsets in it, is committed."""
        self._promises.on_transaction_committed(held)

    # What happens inside a shard.

    def before(self, shard: Shard, event: Event, now_ms: int) -> Before | None:
        group_id = _group_of(event)
        return None if group_id is None else self._before_request(shard, group_id)

    def _before_request(self, shard: Shard, group_id: str) -> Before | None:
        group = shard.groups.get(group_id)
        if group is None:
            return None
        members = {
            member_id: MemberBefore(m.session_timeout_ms, m.is_parked, m.is_new)
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

    def after(self, shard: Shard, event: Event, result: Result, before: Before | None, now_ms: int) -> None:
        """Compare what came out with what went in."""
        self._note_replies(shard, result)
        self._count_tombstones(result)
        group_id = _group_of(event)
        group = shard.groups.get(group_id) if group_id is not None else None
        if group is None or group_id is None:
            return
        stands_still = self._log(shard.partition).met_no_room
        rules = broken_rules(group, now_ms, timers_wait=stands_still)
        self.violations += [f"{group_id}: {rule}" for rule in rules]
        state = EMPTY if before is None else before.state
        self._check_history(group, before, result)
        self._check_generation(group, before)
        account = self._accounts[group_id]
        self._follow_ids(account, event, result, group, now_ms)
        self._follow_phases(account, group, state, event, now_ms)
        self._follow_members(account, group, before, event, result, now_ms)
        if before is not None and isinstance(event, RequestReceived):
            self._check_request(before, event, result, now_ms)

    def heard(self, group_id: str, member_id: str, now_ms: int) -> None:
        self._accounts[group_id].heard_ms[member_id] = now_ms

    def _note_replies(self, shard: Shard, result: Result) -> None:
        position = self._runner_position(shard.partition) + len(result.records)
        for reply in result.replies:
            if reply.reveals_stored:
                self._due_at[id(reply.reply_to)] = (reply.response, shard.partition, position)
        self.superseded.update(map(id, result.superseded))

    def _count_tombstones(self, result: Result) -> None:
        for record in result.records:
            if isinstance(record, CommitRun):
                continue
            if isinstance(record.key, GroupMetadataKey) and record.value is None:
                self._promises.on_group_ended(record.key.group)
                self._accounts.pop(record.key.group, None)

    def _check_history(self, group: Group, before: Before | None, result: Result) -> None:
        """Every transition and every change of membership is told."""
        ledger = Ledger(EMPTY.value, set())
        if before is not None:
            ledger = Ledger(before.state.value, set(before.members))
        if wrong := ledger.take(result.history):
            self.violated(f"{group.group_id}: {wrong}")
            return
        found = Ledger(group.state.value, set(group.members))
        self.require(ledger == found, f"{group.group_id} is {found}, told was {ledger}")

    def _check_generation(self, group: Group, before: Before | None) -> None:
        if before is not None:
            step = group.generation_id - before.generation_id
            self.require(step in (0, 1), f"{group.group_id}: generation moved by {step}")

    def _follow_ids(self, account: Account, event: Event, result: Result, group: Group, now_ms: int) -> None:
        """Which ids were handed out and are not used yet (3.4 to 3.6)."""
        match event:
            case RequestReceived(JoinGroupRequest() as request, context):
                answer = _own_answer(result, context.reply_to)
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
        if group.state is not state:
            account.phase_since_ms, account.phase_timeout_ms = now_ms, group.rebalance_timeout_ms
        if state is EMPTY and group.state is PREPARING_REBALANCE:
            account.left_empty_ms = now_ms
        if state is PREPARING_REBALANCE and group.state is not PREPARING_REBALANCE:
            self._on_join_completed(account, group, timer, now_ms)
        if group.state is COMPLETING_REBALANCE:
            waited_ms = now_ms - account.phase_since_ms
            limit_ms = account.phase_timeout_ms + STORE_SLACK_MS
            self.require(
                waited_ms <= limit_ms, f"{group.group_id} waits for its SyncGroups for {waited_ms} ms"
            )

    def _on_join_completed(self, account: Account, group: Group, timer: Any, now_ms: int) -> None:
        assert self.server is not None
        open_ids = [each for each, until_ms in account.open_ids.items() if until_ms > now_ms]
        waited = isinstance(timer, JoinTimer) or not group.members
        self.require(waited or not open_ids, f"{group.group_id}: joined without {open_ids}, handed out (3.5)")
        delay_ms = self.server.settings.group_initial_rebalance_delay_ms
        # One whose time runs out ends the delay, as in Kafka.
        cut_short = isinstance(timer, (SessionTimer, PendingMemberTimer)) or not group.members
        if account.left_empty_ms is not None and not cut_short:
            took_ms = now_ms - account.left_empty_ms
            self.require(took_ms >= delay_ms, f"{group.group_id}: initial delay of {took_ms} ms (3.11)")
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
        """Who was heard of when; and that nobody's session ends before its time (3.54 to 3.57)."""
        own = event.context.reply_to if isinstance(event, RequestReceived) else None
        begun = before is not None and before.state is not group.state and group.state is COMPLETING_REBALANCE
        for reply in result.replies:
            request = getattr(reply.reply_to, "request", None)
            if isinstance(request, (JoinGroupRequest, SyncGroupRequest)) and (
                reply.reply_to is not own or begun
            ):
                told = getattr(reply.response, "member_id", "") or request.member_id
                account.heard_ms[told] = now_ms
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
        self.expired += 1
        member = before.members[member_id]
        who = f"{member_id} of {before.group_id}"
        if member.is_parked:
            waited_ms = now_ms - account.joined_ms.get(member_id, now_ms)
            patient = member.is_new and waited_ms >= NEW_MEMBER_JOIN_TIMEOUT_MS
            self.require(patient, f"{who} expired while it waited on our account, {waited_ms} ms (3.55)")
            return
        silent_ms = now_ms - account.heard_ms.get(member_id, 0)
        self.require(
            silent_ms >= member.session_timeout_ms,
            f"{who} expired after {silent_ms} ms of silence, allowed are {member.session_timeout_ms}",
        )
        assert self.server is not None
        since_ms = self.server.timeline.now_ms - STALL_MS  # A shorter stop is ordinary lateness.
        unread = [
            call.request
            for at_ms, call in self.server.unread
            if at_ms <= since_ms and _beats_for(call.request, member_id)
        ]
        self.require(not unread, f"{who} expired while its heartbeat was unread: {unread}")

    def _check_request(self, before: Before, event: RequestReceived, result: Result, now_ms: int) -> None:
        request, answer = event.request, _own_answer(result, event.context.reply_to)
        if isinstance(request, OffsetCommitRequest) and answer is not None and _stores_any(answer):
            self._check_commit(before, request)
            self.heard(request.group_id, request.member_id, now_ms)
        if isinstance(answer, JoinGroupResponse) and answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED:
            assert self.server is not None
            counted = before.joined if before.state is PREPARING_REBALANCE else len(before.members)
            enough = counted >= self.server.settings.group_max_size
            self.require(enough, f"{before.group_id} with {counted} members was called full (3.30, 3.32)")

    def _check_commit(self, before: Before, request: OffsetCommitRequest) -> None:
        if request.generation_id_or_member_epoch < 0:
            self.require(before.state is EMPTY, f"a stranger committed in {before.state.value}: {request}")
            return
        known = request.member_id in before.members
        current = request.generation_id_or_member_epoch == before.generation_id
        self.require(known and current, f"a stale member committed: {request}")
        holder = before.static_members.get(request.group_instance_id or "", request.member_id)
        self.require(holder == request.member_id, f"a fenced member committed: {request} (3.37)")

    # Lives of the server.

    def on_loaded(self, shard: Shard, now_ms: int) -> None:
        """Read from the log: what is stored is what the log says, and everybody gets a full session (3.65)."""
        self._compare(shard)
        assert self.server is not None
        for group_id in self.server.groups_of(shard.partition):
            self._accounts.pop(group_id, None)
        for group in shard.groups.values():
            self.violations += [f"{group.group_id}: {rule}" for rule in broken_rules(group, now_ms)]
            account = self._accounts[group.group_id] = Account(phase_since_ms=now_ms)
            for member_id in group.members:
                account.heard_ms[member_id] = account.joined_ms[member_id] = now_ms

    def on_crash(self, logs: list[SimulatedLog]) -> None:
        self.crashes += 1
        self._due_at.clear()
        self._due_again.clear()
        self._grew.clear()

    def on_durable(self, log: SimulatedLog, batch: bytearray) -> None:
        self.facts.take(self._shadow(log.partition), batch)
        self._grew.add(log.partition)

    def look(self) -> None:
        """After a step: where all that was appended is durable, log, shadow and living shard agree."""
        if self.server is None or not self._grew:
            return
        for runner in self.server.runners:
            if runner.partition not in self._grew or runner.shard is None:
                continue
            if runner.position == runner.log.durable_offset:
                self._grew.discard(runner.partition)
                self._compare(runner.shard)

    def _compare(self, shard: Shard) -> None:
        assert self.server is not None
        shadow = self._shadow(shard.partition)
        agree = shadow.stored == shard.stored and shadow.offsets == shard.offsets
        self.require(
            agree, f"the shadow of partition {shard.partition} differs: {shadow.stored}, {shard.stored}"
        )
        self.violations += self.facts.differences(shard, self.server.groups_of(shard.partition))

    def _shadow(self, partition: int) -> Shard:
        assert self.server is not None
        if partition not in self._shadows:
            self._shadows[partition] = Shard(partition, self.server.settings, self.server.topics)
        return self._shadows[partition]

    def _log(self, partition: int) -> SimulatedLog:
        assert self.server is not None
        return self.server.logs[partition]

    def _runner_position(self, partition: int) -> int:
        assert self.server is not None
        return self.server.runners[partition].position

    # The end.

    def unanswered(self, before_ms: int) -> list[Any]:
        """Requests that came before then, whose connection is there, and that nobody has answered."""
        return [
            call.request
            for at_ms, call in self.calls
            if at_ms < before_ms and call.is_open and call.answer is None and id(call) not in self.superseded
        ]


def _group_of(event: Event) -> str | None:
    """The one group that an event is about, if it is about one."""
    match event:
        case RequestReceived(request, _):
            return getattr(request, "group_id", None)
        case TimerFired(key, _):
            return getattr(key, "group_id", None)
    return getattr(getattr(event, "then", None), "group_id", None)


def _own_answer(result: Result, reply_to: object) -> Any:
    return next((reply.response for reply in result.replies if reply.reply_to is reply_to), None)


def _stores_any(answer: Any) -> bool:
    return any(not p.error_code for topic in answer.topics for p in topic.partitions)


def _beats_for(request: Any, member_id: str) -> bool:
    return isinstance(request, HeartbeatRequest) and request.member_id == member_id
