"""Runs simulated clients against the coordinator's own core, whose records and events become the history.

`SimulatedGroups` owns a shard per partition of `__consumer_offsets`, the very `Shard` that serves real clients,
and a queue of what is to happen when. Every JoinGroup, SyncGroup, LeaveGroup and fired timer goes through
`Shard.handle`; its records and events are the history, so a transition that the coordinator would
refuse cannot be in it. Of heartbeats, which no history shows, only their two consequences are played: how long a
member takes to learn of a rebalance, and when the session of one that died is over. Commits are `consumption`'s;
they change no group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from random import Random
from typing import Any, Final
from uuid import UUID

from coordinator.effects import (
    Appendable,
    AppendFinished,
    CoordinatorRecord,
    Event,
    GroupEvent,
    ProducerAndEpoch,
    Reply,
    ReplyTo,
    RequestContext,
    RequestReceived,
    SetTimer,
    TimerFired,
)
from coordinator.groups.classic.states import PREPARING_REBALANCE, STABLE
from coordinator.groups.classic.timers import SessionTimer
from coordinator.groups.group_settings import GroupSettings
from coordinator.shard.shard import Shard
from harness.doubles.core_driver import CoreDriver
from muster.log.offsets import NoTopics
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupResponse
from protocol.messages.sync_group import SyncGroupRequestAssignment, SyncGroupResponse
from tools.simulate.clients import (
    HEARTBEAT_MS,
    REQUEST_VERSIONS,
    SESSION_TIMEOUT_MS,
    Client,
    GroupPlan,
    Phase,
    assignments_of,
    join_request,
    leave_request,
    new_client,
    sync_request,
)

Written = tuple[int, int, CoordinatorRecord]
Action = Callable[..., None]

NETWORK_MS: Final = (1, 4)  # From a response's arrival to that of the next request.
FLUSH_MS: Final = (2, 9)  # From the append of a record until it is durable.
LEADER_MS: Final = (5, 60)  # How long the leader takes to compute the assignment.
HOSTS: Final = 1 << 24


class SimulatedGroups:
    """The groups of `plans` on `shards` shards. Times are ms since 1970; the clock is the queue's next time."""

    def __init__(self, plans: Sequence[GroupPlan], shards: int, seed: int) -> None:
        self.plans = plans
        self.now_ms = 0
        self._by_group = {plan.group_id: plan for plan in plans}
        self.chance = Random(f"story {seed}")
        self.records: list[Written] = []  # (time, partition, record) of appends not yet taken.
        self.events: list[GroupEvent] = []
        settings = GroupSettings()
        self.shards = [Shard(number, settings, NoTopics()) for number in range(shards)]
        self._drivers = [SimulatedGroupsDriver(self, shard) for shard in self.shards]
        self._queue: list[tuple[int, int, Action, tuple[Any, ...]]] = []
        self._queued = 0
        self._deadlines: dict[Any, int] = {}  # Deadline of each armed timer, by its key.

    def at(self, when_ms: int, action: Action, *arguments: Any) -> None:
        """Call `action` at `when_ms`, or now if that is over; calls for one time keep the order of asking."""
        self._queued += 1
        heappush(self._queue, (max(when_ms, self.now_ms), self._queued, action, arguments))

    def after(self, low_ms: float, high_ms: float, action: Action, *arguments: Any) -> None:
        """Call `action` after a random time between `low_ms` and `high_ms`."""
        self.at(self.now_ms + round(self.chance.uniform(low_ms, high_ms)), action, *arguments)

    def run_until(self, end_ms: int) -> None:
        """Run all calls that are due before `end_ms`, and move the clock there."""
        queue = self._queue
        while queue and queue[0][0] < end_ms:
            self.now_ms, _, action, arguments = heappop(queue)
            action(*arguments)
        self.now_ms = end_ms

    # What clients do.

    def start(self, plan: GroupPlan, ordinal: int) -> None:
        """Start a process of the group under this ordinal, on a new host, and let it join, unless one runs."""
        before = plan.clients.get(ordinal)
        if before is not None and before.is_up:
            return
        client = plan.clients[ordinal] = new_client(plan, ordinal, self.chance.randrange(HOSTS))
        self.join(client, "")

    def stop(self, client: Client) -> None:
        """Shut the client down in order. A static member sends no LeaveGroup: it means to come back (KIP-345)."""
        if not client.is_up:
            return
        if client.instance_id is not None:
            self.crash(client)
            return
        client.is_up = False
        if client.member_id:
            self._ask(client, leave_request(client, "the consumer is being closed"))

    def crash(self, client: Client) -> None:
        """End the client without LeaveGroup; its session expires a timeout after its last heartbeat."""
        if not client.is_up:
            return
        client.is_up = False
        if client.member_id:
            key = SessionTimer(client.plan.group_id, client.member_id)
            self.after(SESSION_TIMEOUT_MS - HEARTBEAT_MS, SESSION_TIMEOUT_MS, self._fire_session, key)

    def overstay(self, client: Client, busy_ms: int) -> None:
        """Let the client exceed max.poll.interval.ms: it leaves, and joins again after `busy_ms`."""
        if not client.is_up or client.phase is not Phase.SETTLED:
            return
        self._ask(client, leave_request(client, "consumer poll timeout has expired."))
        client.phase, client.member_id, client.rejoins_at_ms = Phase.APART, "", None
        self.at(self.now_ms + busy_ms, self.join, client, "")

    def join(self, client: Client, reason: str) -> None:
        """Send JoinGroup if the client is up."""
        if client.is_up:
            client.phase = Phase.JOINING
            client.rejoins_at_ms = None
            self._ask(client, join_request(client, reason))

    def _rejoin(self, client: Client, when_ms: int) -> None:
        if client.rejoins_at_ms == when_ms and client.phase is not Phase.JOINING:
            self.join(client, "rebalance in progress")

    def _call_to_rejoin(self, client: Client, when_ms: int) -> None:
        """Let the client learn of the rebalance at `when_ms`, unless it is to learn of it earlier."""
        if client.is_up and (client.rejoins_at_ms is None or when_ms < client.rejoins_at_ms):
            client.rejoins_at_ms = when_ms
            self.at(when_ms, self._rejoin, client, when_ms)

    def _sync(
        self, client: Client, generation_id: int, assignments: list[SyncGroupRequestAssignment]
    ) -> None:
        if client.is_up and client.phase is Phase.SYNCING and client.generation_id == generation_id:
            self._ask(client, sync_request(client, assignments))

    # What the coordinator does.

    def _ask(self, client: Client, request: Any) -> None:
        new_uuid = str(UUID(int=self.chance.getrandbits(128), version=4))
        version = REQUEST_VERSIONS[type(request)]
        context = RequestContext(client, version, client.client_id, client.client_host, new_uuid)
        client.plan.by_member_id.setdefault(f"{client.instance_id or client.client_id}-{new_uuid}", client)
        self._handle(client.plan, RequestReceived(request, context, self.now_ms))

    def _handle(self, plan: GroupPlan, event: Event) -> None:
        self._drivers[plan.partition].handle_at(event, self.now_ms)

    def set_timer(self, driver: SimulatedGroupsDriver, timer: SetTimer) -> None:
        """Arm or cancel a timer. The session timer of a client that is up never fires; others fire when due."""
        key, deadline_ms = timer.key, timer.deadline_ms
        if isinstance(key, SessionTimer):
            client = self._by_group[key.group_id].by_member_id.get(key.member_id)
            if deadline_ms is not None and (client is None or not client.is_up):
                self.at(deadline_ms, self._fire_session, key)
        elif deadline_ms is None:
            self._deadlines.pop(key, None)
        else:
            self._deadlines[key] = deadline_ms
            self.at(deadline_ms, self._fire, driver, key, deadline_ms)

    def _fire(self, driver: SimulatedGroupsDriver, key: Any, deadline_ms: int) -> None:
        if self._deadlines.get(key) == deadline_ms:
            del self._deadlines[key]
            driver.handle_at(TimerFired(key, self.now_ms), self.now_ms)

    def _fire_session(self, key: SessionTimer) -> None:
        plan = self._by_group[key.group_id]
        client = plan.by_member_id.get(key.member_id)
        if client is None or not client.is_up:
            self._handle(plan, TimerFired(key, self.now_ms))

    def answer(self, client: Any, response: Any) -> None:
        """Let the client handle `response` if it is up."""
        if not client.is_up:
            return
        if isinstance(response, JoinGroupResponse):
            self._joined(client, response)
        elif isinstance(response, SyncGroupResponse):
            self._synced(client, response)
        else:
            assert isinstance(response, LeaveGroupResponse), response

    def _joined(self, client: Client, response: JoinGroupResponse) -> None:
        if response.error_code == ErrorCode.NONE:
            client.phase, client.member_id = Phase.SYNCING, response.member_id
            client.generation_id = response.generation_id
            assignments = assignments_of(client.plan, response)
            delay_ms = LEADER_MS if assignments else NETWORK_MS
            self.after(*delay_ms, self._sync, client, response.generation_id, assignments)
            return
        client.phase = Phase.APART
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = response.member_id
            reason = f"need to re-join with the given member-id: {client.member_id}"
            self.after(*NETWORK_MS, self.join, client, reason)
        elif response.error_code == ErrorCode.FENCED_INSTANCE_ID:
            client.is_up = False  # A newer process has taken over its group.instance.id.
        else:
            client.member_id = ""
            self.after(*NETWORK_MS, self.join, client, "")

    def _synced(self, client: Client, response: SyncGroupResponse) -> None:
        if response.error_code == ErrorCode.NONE:
            client.phase = Phase.SETTLED
            return
        if response.error_code == ErrorCode.FENCED_INSTANCE_ID:
            client.is_up = False
            return
        if response.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            client.member_id = ""
        client.phase = Phase.APART
        self._call_to_rejoin(client, self.now_ms + self.chance.randint(*NETWORK_MS))

    def record_event(self, event: GroupEvent) -> None:
        """Record the event; let members learn of a rebalance that it begins by their next heartbeat."""
        self.events.append(event)
        plan = self._by_group[event.group_id]
        group = self.shards[plan.partition].groups[plan.group_id]
        plan.member_count, plan.generation_id = len(group.members), group.generation_id
        for member_id in event.removed_member_ids:
            plan.by_member_id.pop(member_id, None)
        if event.from_state == event.to_state:
            return
        self._consume(plan, event.to_state == STABLE.value)
        if event.to_state == PREPARING_REBALANCE.value:
            for client in plan.clients.values():
                if client.phase in (Phase.SETTLED, Phase.SYNCING):
                    self._call_to_rejoin(client, self._next_heartbeat_ms(client))

    def _next_heartbeat_ms(self, client: Client) -> int:
        """The time at which the client, having processed its last poll, learns of a rebalance from a heartbeat."""
        poll_ms = self.chance.expovariate(1 / client.plan.poll_ms)
        return self.now_ms + round(self.chance.uniform(0, HEARTBEAT_MS) + poll_ms)

    def _consume(self, plan: GroupPlan, is_consuming: bool) -> None:
        if plan.is_consuming != is_consuming:
            plan.is_consuming = is_consuming
            if plan.turns is not None:
                plan.turns.append((self.now_ms, is_consuming))


class SimulatedGroupsDriver(CoreDriver[Shard]):
    """Carries out the effects of one shard of `groups`, at the simulated times."""

    def __init__(self, groups: SimulatedGroups, shard: Shard) -> None:
        self.shard = shard
        shard.is_loaded = True
        self._groups = groups

    def append(self, record: Appendable, producer: ProducerAndEpoch | None) -> None:
        assert isinstance(record, CoordinatorRecord), "these clients commit elsewhere"
        self._groups.records.append((self._groups.now_ms, self.shard.partition, record))
        self.shard.replay(record, 0)

    def await_append(self, then: Any) -> None:
        self._groups.after(*FLUSH_MS, self._flushed, then)

    def _flushed(self, then: Any) -> None:
        now_ms = self._groups.now_ms
        self.handle_at(AppendFinished(then, ErrorCode.NONE, now_ms), now_ms)

    def set_timer(self, timer: SetTimer) -> None:
        self._groups.set_timer(self, timer)

    def answer(self, reply: Reply) -> None:
        self._groups.answer(reply.reply_to, reply.response)

    def record_event(self, event: GroupEvent) -> None:
        self._groups.record_event(event)

    def supersede(self, reply_to: ReplyTo) -> None:
        """Do nothing: a simulated client sends no second request before the first is answered."""
