"""Sees everything that goes into the coordinator and comes out of it, and says when a promise is broken.

It keeps accounts of its own - who was heard of when, which ids are open, what is durable - and never asks the
daemon for them: a rule that believes what it checks finds nothing. What it finds it notes (`violations`);
the driver of the simulation looks after each step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.effects import (
    CoordinatorRecord,
    Event,
    PreparedCommitReceived,
    RequestReceived,
    Result,
    TimerFired,
)
from coordinator.groups.classic.group import AssignmentStored, Group
from coordinator.groups.classic.states import EMPTY, PREPARING_REBALANCE, STABLE
from coordinator.groups.record_schemas import GroupMetadataKey
from coordinator.shard.shard import Shard
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.sync_group import SyncGroupResponse
from tests.simulation.accounts import Accounts, Before, before_of, own_answer
from tests.simulation.deadlines import Deadlines
from tests.simulation.house_rules import broken_rules
from tests.simulation.ledger import Ledger
from tests.simulation.log_facts import LogFacts, OffsetKey
from tests.simulation.marks import Marks
from tests.simulation.ownership import Ownership
from tests.simulation.promises import Promises
from tests.simulation.sights import Sights
from tests.simulation.story import Story
from tests.simulation.transaction_witness import TransactionWitness

if TYPE_CHECKING:
    from tests.simulation.call import Call
    from tests.simulation.catalogue import Catalogue
    from tests.simulation.disk import Log
    from tests.simulation.server import Server

ALIVE = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
HEARTBEAT_ANSWERS = (
    *ALIVE,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.NOT_COORDINATOR,  # Of a shard that gave up, or has stopped.
)
"""Whatever the disk does: a heartbeat needs none."""


class Witness:
    """One for a whole simulation."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.server: Server | None = None
        self.story: Story | None = None  # Where each step is shown, if it is.
        self.facts = LogFacts()
        self.heartbeat_answers: tuple[ErrorCode, ...] = HEARTBEAT_ANSWERS
        self.expired = 0
        self.crashes = 0
        self.calls = 0  # That came.
        self.deadlines = Deadlines(self.violated)
        self.marks = self._new_marks()
        self.ownership = Ownership(self.violated, self.marks)
        self.sights = Sights(self, self.marks)
        self.superseded: set[Any] = set()
        self._shadows: dict[int, Shard] = {}
        self._accounts = Accounts(self)
        self._due_at: dict[int, tuple[Any, int, int]] = {}  # By call: response, partition, position.
        self._promises = Promises(self.facts, self.require)
        self.transactions = TransactionWitness(self.facts, self.violated)
        self._grew: set[int] = set()  # Partitions with newly durable records.

    def _new_marks(self) -> Marks:
        return Marks()

    def knows_topics(self, topics: Catalogue) -> None:
        """Requests of today's clients name topics by id."""
        self._promises.name_of = topics.name_ever

    def violated(self, promise: str) -> None:
        self.violations.append(promise)

    def require(self, holds: bool, promise: str) -> None:
        if not holds:
            self.violated(promise)

    # Requests and their answers.

    def on_arrival(self, call: Call) -> None:
        self.calls += 1
        if not call.is_ordered:
            self._expect_answer(call)

    def _expect_answer(self, call: Call) -> None:
        assert self.server is not None
        self.deadlines.on_arrival(call, self.server.timeline.now_ms)

    def on_read(self, call: Call) -> None:
        if call.is_ordered:  # What it waited for before belongs to the requests before it.
            self._expect_answer(call)
        self._promises.on_read(call)
        self.sights.on_read(call)

    def on_answer(self, call: Call, response: Any) -> None:
        """An answer leaves the daemon: the only one, and nothing in it that a crash could take back."""
        self.sights.on_answer(call, response)
        if call.answer is not None:  # (Describing a request costs more than checking it.)
            self.violated(f"{call.request} was answered twice")
        self.deadlines.on_answer(call)
        if call in self.superseded:
            self.violated(f"{call.request} was superseded, and answered")
        if isinstance(call.request, HeartbeatRequest) and response.error_code not in self.heartbeat_answers:
            self.violated(f"{call.request} was answered {response.error_code}")
        self._promises.on_answer(call, response)
        self.transactions.on_answer(call, response)
        self._on_classic_answer(call, response)

    def _on_classic_answer(self, call: Call, response: Any) -> None:
        match response:
            case JoinGroupResponse(members=[_, *_], skip_assignment=False):
                self.ownership.on_leader_answered(call.request, response)
            case SyncGroupResponse(error_code=ErrorCode.NONE):
                self._promises.on_assignment(call.request, bytes(response.assignment))
                self.ownership.on_assignment(call.request, bytes(response.assignment))

    def on_made(self, call: Call, response: Any) -> None:
        """The daemon has made an answer, which leaves now, or when those before it on its connection have."""
        self.transactions.on_made(call, response)
        made, partition, position = self._due_at.pop(id(call), (None, 0, 0))
        if made is response and (durable := self._log(partition).durable_offset) < position:
            self.violated(f"answered at {durable}, had seen {position}: {call.request}")

    def on_topic_deleted(self, topic: str) -> None:
        """The topic is about to go: what was committed for it counts no more."""
        assert self.server is not None
        positions = {each: self.server.runner_for(each).position for each in self.server.group_ids}
        self._promises.on_topic_deleted(topic, positions)
        self.sights.on_topic_deleted()

    def on_transaction_committed(self, held: dict[OffsetKey, int]) -> None:
        """A producer has the answer that its transaction, with these offsets in it, is committed."""
        self._promises.on_transaction_committed(held)

    # What happens inside a shard.

    def before(self, shard: Shard, event: Event, now_ms: int) -> Before | None:
        self.sights.before(shard, event)
        group_id = group_of(event)
        return None if group_id is None else self._before_request(shard, group_id)

    def _before_request(self, shard: Shard, group_id: str) -> Before | None:
        group = shard.groups.get(group_id)
        return None if group is None else before_of(group)

    def after(self, shard: Shard, event: Event, result: Result, before: Before | None, now_ms: int) -> None:
        """Compare what came out with what went in."""
        if self.story is not None:
            self.story.on_event(event, result)
        self._note_replies(shard, result)
        self._count_tombstones(result)
        self.sights.after(event, result)
        group_id = group_of(event)
        if group_id is not None:
            self._follow_group(shard, group_id, event, result, before, now_ms)

    def _follow_group(
        self, shard: Shard, group_id: str, event: Event, result: Result, before: Any, now_ms: int
    ) -> None:
        """An event has happened that is about one group."""
        group = shard.groups.get(group_id)
        if group is None:
            return
        stands_still = self._log(shard.partition).met_no_room
        is_held = group_id in shard._waiting._events  # Its upgrade waits for a target.
        rules = broken_rules(group, now_ms, timers_wait=stands_still or is_held)
        self.violations += [f"{group_id}: {rule}" for rule in rules]
        self.sights.after_group(group, before, event)
        self._check_history(group, before, result)
        self._check_generation(group, before)
        self._accounts.follow(group, before, event, result, now_ms)
        if isinstance(result.then, AssignmentStored) and isinstance(event, RequestReceived):
            self.ownership.on_leader_assigned(event.request)
        if isinstance(event, RequestReceived) and before is not None:
            self._note_replaced(before, group, event.request)
            self._check_request(before, event, result, now_ms)
        if isinstance(event, PreparedCommitReceived):
            self._check_prepared(before, event, now_ms)

    def _note_replaced(self, before: Before, group: Group, request: Any) -> None:
        """A static member without an id takes the place of the one that has its instance id."""
        if isinstance(request, JoinGroupRequest) and request.group_instance_id is not None:
            old = before.static_members.get(request.group_instance_id)
            new = group.static_members.get(request.group_instance_id)
            if old is not None and new is not None and old != new:
                kept = before.state is STABLE and group.state is STABLE
                self.ownership.on_replaced(request, new, old, group.generation_id if kept else None)

    def heard(self, group_id: str, member_id: str, now_ms: int) -> None:
        self._accounts.heard(group_id, member_id, now_ms)

    def _note_replies(self, shard: Shard, result: Result) -> None:
        position = self._runner_position(shard.partition) + sum(record.count for record in result.records)
        for reply in result.replies:
            if reply.reveals_stored:
                self._due_at[id(reply.reply_to)] = (reply.response, shard.partition, position)
        for reply_to in result.superseded:
            self.superseded.add(reply_to)
            self.deadlines.excuse(reply_to)

    def _count_tombstones(self, result: Result) -> None:
        for record in result.records:
            if not isinstance(record, CoordinatorRecord):
                continue
            if isinstance(record.key, GroupMetadataKey) and record.value is None:
                self._promises.on_group_ended(record.key.group)
                self.ownership.on_group_ended(record.key.group)
                self._accounts.forget(record.key.group)

    def _check_history(self, group: Group, before: Before | None, result: Result) -> None:
        """Every transition and every change of membership is an event."""
        ledger = Ledger(EMPTY.value, set())
        if before is not None:
            ledger = Ledger(before.state.value, set(before.members))
        if wrong := ledger.take(result.history):
            self.violated(f"{group.group_id}: {wrong}")
            return
        found = Ledger(group.state.value, set(group.members))
        if ledger != found:
            self.violated(f"{group.group_id} is {found}, its events say {ledger}")

    def _check_generation(self, group: Group, before: Before | None) -> None:
        if before is not None:
            step = group.generation_id - before.generation_id
            self.require(step in (0, 1), f"{group.group_id}: generation moved by {step}")

    def _check_request(self, before: Before, event: RequestReceived, result: Result, now_ms: int) -> None:
        request, answer = event.request, own_answer(result, event.context.reply_to)
        if isinstance(request, OffsetCommitRequest) and answer is not None and stores_any(answer):
            self._check_commit(before, request)
            self.heard(request.group_id, request.member_id, now_ms)
        if isinstance(answer, JoinGroupResponse) and answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED:
            assert self.server is not None
            counted = before.joined if before.state is PREPARING_REBALANCE else len(before.members)
            enough = counted >= self.server.settings.group_max_size
            self.require(enough, f"{before.group_id} with {counted} members was called full (3.30, 3.32)")

    def _check_prepared(self, before: Before | None, event: PreparedCommitReceived, now_ms: int) -> None:
        """All of it is stored, whatever is found: so only its member may send it."""
        self.marks.reach("commit_was_prepared")
        request: OffsetCommitRequest = event.commit.request
        if before is None:
            self.violated(f"a prepared commit for a group that is not there: {request}")
            return
        self._check_commit(before, request)
        self.heard(request.group_id, request.member_id, now_ms)

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

    def on_server(self, happened: str) -> None:
        """The server starts, dies or stands still: a line of the story."""
        if self.story is not None:
            self.story.on_server(happened)

    def on_loaded(self, shard: Shard, now_ms: int) -> None:
        """Read from the log: what is stored is what the log says, and every member gets a full session (3.65)."""
        self._compare(shard)
        self.sights.on_loaded(shard)
        groups = set() if self.server is None else self.server.groups_of(shard.partition)
        self._promises.on_read_again(groups, self._log(shard.partition).durable_offset)
        assert self.server is not None
        for group_id in self.server.groups_of(shard.partition):
            self._accounts.forget(group_id)
        for group in shard.groups.values():
            self.violations += [f"{group.group_id}: {rule}" for rule in broken_rules(group, now_ms)]
            self._accounts.begin(group, now_ms)

    def on_crash(self) -> None:
        self.crashes += 1
        self.sights.on_crash()
        self.deadlines.on_crash()
        self._due_at.clear()
        self.transactions.on_crash()
        self._grew.clear()

    def on_node_crash(self, calls: list[Call]) -> None:
        """One of several nodes died, and with it what it was asked."""
        self.crashes += 1
        for call in calls:
            self.deadlines.excuse(call)
            self._due_at.pop(id(call), None)

    def on_durable(self, log: Log, batch: bytearray) -> None:
        self.facts.take(self._shadow(log.partition), batch)
        self._grew.add(log.partition)

    def look(self) -> None:
        """After a step: where all that was appended is durable, log, shadow and living shard agree."""
        if self.server is None:
            return
        self.deadlines.look(self.server.timeline.now_ms, self.server.loop.is_stopped)
        if not self._grew:
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
        if shadow.stored != shard.stored or shadow.offsets != shard.offsets:
            said = f"{shadow.stored}, {shard.stored}"
            self.violated(f"the shadow of partition {shard.partition} differs: {said}")
        self.violations += self.facts.differences(shard, self.server.groups_of(shard.partition))

    def _shadow(self, partition: int) -> Shard:
        assert self.server is not None
        if partition not in self._shadows:
            self._shadows[partition] = Shard(partition, self.server.settings, self.server.topics)
        return self._shadows[partition]

    def _log(self, partition: int) -> Log:
        assert self.server is not None
        log: Log = self.server.logs[partition]
        return log

    def _runner_position(self, partition: int) -> int:
        assert self.server is not None
        return self.server.runners[partition].position


def group_of(event: Event) -> str | None:
    """The one group that an event is about, if it is about one."""
    match event:
        case RequestReceived(request, _):
            return getattr(request, "group_id", None)
        case PreparedCommitReceived(commit):
            return str(commit.request.group_id)
        case TimerFired(key, _):
            return getattr(key, "group_id", None)
    return getattr(getattr(event, "then", None), "group_id", None)


def stores_any(answer: Any) -> bool:
    return any(not p.error_code for topic in answer.topics for p in topic.partitions)
