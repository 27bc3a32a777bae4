"""A `Witness` of groups with members of both protocols, which may change their kind at any moment.

While a group is a classic one, all that `Witness` holds of it is held. Of consumer groups it keeps the claims of
members (`claims`), by what went in and came out: no partition has two owners, nobody is removed
without a reason or stays beyond one, no epoch goes back, and what was answered is there after every crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from coordinator.effects import (
    Event,
    PreparedCommitReceived,
    RequestReceived,
    Result,
    WorkFinished,
)
from coordinator.groups.classic.states import STABLE
from coordinator.groups.consumer.computing import Compute, Computed
from coordinator.groups.consumer.downgrade import GroupDowngraded
from coordinator.groups.consumer.group import LEFT_FOR_NOW_EPOCH
from coordinator.groups.consumer.upgrade import GroupUpgraded
from coordinator.runtime.clock import STALL_MS
from coordinator.shard.shard import Shard
from protocol.consumer import PROTOCOL_TYPE, decode_subscription
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.sync_group import SyncGroupRequest
from tests.simulation.accounts import Before, own_answer
from tests.simulation.claims import Claims, MemberClaims, Where
from tests.simulation.consumer_rows import ConsumerRows
from tests.simulation.marks import Marks
from tests.simulation.mixed_before import ConsumerBefore, ended, members_of, staying
from tests.simulation.mixed_marks import KNOWN
from tests.simulation.mixed_sights import MixedSights
from tests.simulation.ownership import partitions_in
from tests.simulation.removals import Removed, objection
from tests.simulation.witness import HEARTBEAT_ANSWERS, Witness, stores_any

if TYPE_CHECKING:
    from tests.simulation.call import Call

ASIDE_MS: Final = 30_000
"""What all the computations may take that an answer waits for, in a group of which each request may need one."""
TOLD = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)


@dataclass(frozen=True, slots=True)
class Given:
    """What an answer that is not made yet gives to a member."""

    response: Any
    group_id: str
    member_id: str
    epoch: int | None  # None in a classic group, whose generations may be lost.
    partitions: frozenset[Where]


class MixedWitness(Witness):
    """One for a whole simulation."""

    def __init__(self, session_ms: int) -> None:
        super().__init__()
        self.claims = Claims(self.violated, self.marks)
        self.mixed = MixedSights(self.marks)
        self.rows = ConsumerRows(self.violated)
        self.deadlines.aside_ms = ASIDE_MS
        self.heartbeat_answers = (
            *HEARTBEAT_ANSWERS,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,  # In a consumer group it waits for the disk.
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        )
        self._session_ms = session_ms
        self._given: dict[int, Given] = {}  # By call.
        self._of_consumer_groups: dict[int, Any] = {}  # Calls whose answers show what consumer groups store.
        self._targets: dict[str, tuple[int, Computed]] = {}  # As they were when their computation began.

    def _new_marks(self) -> Marks:
        return Marks(KNOWN)

    @property
    def _topics(self) -> Any:
        assert self.server is not None
        return self.server.topics

    # What happens inside a shard.

    def before(self, shard: Shard, event: Event, now_ms: int) -> Any:
        if isinstance(event, WorkFinished) and isinstance(event.outcome, Computed):
            self._check_computed(event.outcome)
        self.mixed.before(shard, event, self._targets)
        return super().before(shard, event, now_ms)

    def _before_request(self, shard: Shard, group_id: str) -> Any:
        group = shard.consumer_groups.get(group_id)
        classic = shard.groups.get(group_id)
        if classic is not None and classic.members:
            self.claims.check_group_epoch(group_id, classic.generation_id)
        if group is None or classic is not None:
            return super()._before_request(shard, group_id)
        self.claims.check_group_epoch(group_id, group.epoch)
        self.rows.before(group)
        epochs = {
            member_id: (current.member_epoch, current.previous_epoch)
            for member_id, current in group.currents.items()
        }
        instances = {each.member_id: each.instance_id for each in group.members.values()}
        return ConsumerBefore(group.epoch, instances, epochs)

    def _check_computed(self, computed: Computed) -> None:
        """What a group is must not change while its target is computed."""
        version, expected = self._targets.pop(computed.group_id, (-1, None))
        if version == self._topics.version and computed != expected:
            self.violated(f"the target of {computed.group_id} is {computed}, as it was asked for {expected}")

    def after(self, shard: Shard, event: Event, result: Result, before: Any, now_ms: int) -> None:
        for work in result.background:
            if isinstance(work, Compute):
                target: Computed = work.compute()
                self._targets[target.group_id] = self._topics.version, target
        super().after(shard, event, result, before, now_ms)
        self.mixed.after(shard, event, result)
        self.rows.after(result)
        for group_id in ended(result):
            self.claims.ended(group_id)

    def _follow_group(
        self, shard: Shard, group_id: str, event: Event, result: Result, before: Any, now_ms: int
    ) -> None:
        is_upgraded = isinstance(result.then, GroupUpgraded)
        if not isinstance(before, ConsumerBefore) and not is_upgraded:
            super()._follow_group(shard, group_id, event, result, before, now_ms)
        is_classic = isinstance(before, Before) and not is_upgraded
        if isinstance(before, ConsumerBefore):
            self._check_stored_commit(before, event, result)
        if isinstance(event, RequestReceived):
            self._check_fenced(before, event, result)
            self._hear(group_id, event.request, result, event.context.reply_to)
        self._follow_removals(shard, group_id, event, result, before, now_ms)
        if isinstance(result.then, GroupUpgraded):
            self._on_upgraded(result.then, now_ms)
        elif isinstance(result.then, GroupDowngraded):
            is_classic = True
            self.claims.begin_anew(group_id, now_ms)
            self._on_downgraded(shard, group_id)
        is_classic = is_classic or (before is None and group_id in shard.groups)
        for reply in result.replies:
            self._follow_reply(group_id, reply.reply_to, reply.response, now_ms, is_classic=is_classic)
        if is_classic or self._log(shard.partition).met_no_room:
            self.claims.stand_still(group_id, now_ms)
        self.claims.check_overdue(group_id, now_ms)

    def _check_fenced(self, before: Any, event: RequestReceived, result: Result) -> None:
        """A heartbeat is taken of a member's epoch alone, or of the one before."""
        request, answer = event.request, own_answer(result, event.context.reply_to)
        if not isinstance(request, ConsumerGroupHeartbeatRequest) or request.member_epoch <= 0:
            return
        if answer is not None and not answer.error_code:
            epochs = before.epochs.get(request.member_id, ()) if isinstance(before, ConsumerBefore) else ()
            self.require(request.member_epoch in epochs, f"{request} was taken at {epochs}")

    def _check_stored_commit(self, before: ConsumerBefore, event: Event, result: Result) -> None:
        """Offsets are stored of members alone, of no epoch still to come; of others if there is no member."""
        if isinstance(event, PreparedCommitReceived):
            request: Any = event.commit.request
        elif isinstance(event, RequestReceived) and isinstance(event.request, OffsetCommitRequest):
            request, answer = event.request, own_answer(result, event.context.reply_to)
            if answer is None or not stores_any(answer):
                return
        else:
            return
        epoch = request.generation_id_or_member_epoch
        known = before.epochs.get(request.member_id)
        is_right = not before.members if epoch < 0 else known is not None and epoch <= known[0]
        self.require(is_right, f"{request} was stored, members are at {before.epochs}")

    def _hear(self, group_id: str, request: Any, result: Result, reply_to: Any) -> None:
        """What a member says of what it has; also if it is refused."""
        match request:
            case ConsumerGroupHeartbeatRequest() if request.member_epoch < 0:
                self._says(group_id, request.member_id, ())
            case ConsumerGroupHeartbeatRequest() if request.topic_partitions is not None:
                owned = [(each.topic_id, p) for each in request.topic_partitions for p in each.partitions]
                self._says(group_id, request.member_id, owned)
            case JoinGroupRequest() if request.protocol_type == PROTOCOL_TYPE:
                said = decode_subscription(bytes(request.protocols[0].metadata)).owned_partitions
                names = [(each.topic, p) for each in said for p in each.partitions]
                self._says(group_id, request.member_id, self._by_id(names))

    def _says(self, group_id: str, member_id: str, owned: Iterable[Where]) -> None:
        if member_id in self.claims.known(group_id):
            self.claims.says(group_id, member_id, owned)

    def _by_id(self, names: Iterable[tuple[str, int]]) -> Iterator[Where]:
        for name, partition in names:
            topic_id = self._topics.topic_id(name)
            if topic_id is not None:
                yield topic_id, partition

    # Removals and changes of kind.

    def _follow_removals(
        self, shard: Shard, group_id: str, event: Event, result: Result, before: Any, now_ms: int
    ) -> None:
        members = members_of(before)
        left = staying(shard, group_id, members, result)
        is_consumer = isinstance(before, ConsumerBefore)
        for member_id, instance_id in members.items():
            if member_id in left:
                continue
            claims = self.claims.member(group_id, member_id)
            removed = Removed(member_id, instance_id, claims, self._session_ms)
            why = objection(removed, event, now_ms, self.marks) if is_consumer else None
            if why is not None:
                self.violated(f"{member_id} of {group_id} was removed {why}")
            self._check_unread(event, member_id)
            self.claims.removed(group_id, member_id)

    def _check_unread(self, event: Event, member_id: str) -> None:
        """No heartbeat of a member that a timer removed lies in the sockets for long."""
        if isinstance(event, RequestReceived):
            return
        assert self.server is not None
        since_ms = self.server.timeline.now_ms - STALL_MS
        kinds = (HeartbeatRequest, ConsumerGroupHeartbeatRequest)
        unread = [call.request for at_ms, call in self.server.unread if at_ms <= since_ms]
        beats = [each for each in unread if isinstance(each, kinds) and each.member_id == member_id]
        self.require(not beats, f"{member_id} expired while its heartbeat was unread: {beats}")

    def _on_upgraded(self, upgraded: GroupUpgraded, now_ms: int) -> None:
        for member in upgraded.classic.members.values():
            claims = self.claims.member(upgraded.classic.group_id, member.member_id)
            self.require(not member.is_parked, f"{member.member_id} waits in a group that was upgraded")
            claims.is_classic, claims.heard_ms = True, now_ms
            claims.session_ms, claims.rebalance_ms = member.session_timeout_ms, member.rebalance_timeout_ms
            claims.rejoin_ms = claims.sync_ms = None
            if upgraded.classic.state is not STABLE and member.assignment:
                given = self._by_id(partitions_in(member.assignment))
                self._says(upgraded.classic.group_id, member.member_id, given)
            elif upgraded.classic.state is not STABLE:
                # Amid a rebalance the leader's last assignment counts, which may be forgotten by then (A55): a
                # cooperative member may have what another is given, until it joins again. As in Kafka.
                self._says(upgraded.classic.group_id, member.member_id, ())

    def _on_downgraded(self, shard: Shard, group_id: str) -> None:
        """What counts is the target (A63): what a member has beyond it is forgotten, as in Kafka.

        Each is to join again. But one that has not heard of it may have what another is given, if the coordinator
        dies first and the group is upgraded then.
        """
        for member in shard.groups[group_id].members.values():
            given = self._by_id(partitions_in(member.assignment)) if member.assignment else ()
            self._says(group_id, member.member_id, given)

    # Replies, as they are made.

    def _follow_reply(
        self, group_id: str, reply_to: Any, response: Any, now_ms: int, *, is_classic: bool
    ) -> None:
        request = getattr(reply_to, "request", None)
        if not is_classic:
            self._of_consumer_groups[id(reply_to)] = response
        match request:
            case ConsumerGroupHeartbeatRequest() if response.error_code:
                pass
            case ConsumerGroupHeartbeatRequest(member_epoch=epoch) if epoch >= 0:
                self._on_beat(request, reply_to, response, now_ms)
            case ConsumerGroupHeartbeatRequest(member_epoch=epoch) if epoch == LEFT_FOR_NOW_EPOCH:
                self.claims.leaves_for_now(group_id, request.member_id)
            case SyncGroupRequest() if not response.error_code and is_classic:
                given = set(self._by_id(partitions_in(bytes(response.assignment))))
                self.claims.is_given_by_leader(group_id, request.member_id, given)
                self._note(Given(response, group_id, request.member_id, None, frozenset(given)), reply_to)
            case SyncGroupRequest() | HeartbeatRequest() | JoinGroupRequest() if not is_classic:
                self._on_classic_reply(request, reply_to, response, now_ms)

    def _on_beat(self, request: Any, reply_to: Any, response: Any, at_ms: int) -> None:
        group_id, member_id, epoch = request.group_id, response.member_id, response.member_epoch
        claims = self.claims.member(group_id, member_id)
        claims.is_classic, claims.heard_ms, claims.session_ms = False, at_ms, self._session_ms
        claims.rejoin_ms, claims.sync_ms, claims.is_away = None, None, False
        if request.rebalance_timeout_ms != -1:
            claims.rebalance_ms = request.rebalance_timeout_ms
        given = None
        if response.assignment is not None:
            topics = response.assignment.topic_partitions
            given = {(each.topic_id, p) for each in topics for p in each.partitions}
        self.claims.check_member_epoch(group_id, member_id, epoch)
        self.claims.is_told(group_id, member_id, given, at_ms)
        self._note(Given(response, group_id, member_id, epoch, frozenset(given or ())), reply_to)
        if 0 < request.member_epoch < claims.shown_epoch:
            self.marks.reach("epoch_before_taken")

    def _on_classic_reply(self, request: Any, reply_to: Any, response: Any, at_ms: int) -> None:
        """JoinGroup, SyncGroup and Heartbeat of a classic member of a consumer group."""
        error, group_id = ErrorCode(response.error_code), request.group_id
        member_id = request.member_id
        if isinstance(request, JoinGroupRequest):
            member_id = response.member_id
        if error not in TOLD or (error and member_id not in self.claims.known(group_id)):
            return
        claims = self.claims.member(group_id, member_id)
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            if not isinstance(
                request, JoinGroupRequest
            ):  # Else it waited in a classic group that was upgraded.
                self._told_to_rejoin(claims, request, at_ms)
        elif isinstance(request, JoinGroupRequest):
            self._on_joined(claims, request, at_ms)
            self.claims.check_member_epoch(group_id, member_id, response.generation_id)
            epoch = response.generation_id
            self._note(Given(response, group_id, member_id, epoch, frozenset()), reply_to)
        elif isinstance(request, SyncGroupRequest):
            claims.heard_ms, claims.sync_ms = at_ms, None
            given = set(self._by_id(partitions_in(bytes(response.assignment))))
            self.claims.is_told(group_id, member_id, given, at_ms)
            epoch = request.generation_id
            self._note(Given(response, group_id, member_id, epoch, frozenset(given)), reply_to)
        else:
            claims.heard_ms = at_ms

    def _told_to_rejoin(self, claims: MemberClaims, request: Any, at_ms: int) -> None:
        if isinstance(request, HeartbeatRequest):
            claims.heard_ms = at_ms
        if claims.rejoin_ms is None:
            claims.rejoin_ms = at_ms

    def _on_joined(self, claims: MemberClaims, request: JoinGroupRequest, at_ms: int) -> None:
        timeout_ms = request.rebalance_timeout_ms
        claims.is_classic, claims.heard_ms, claims.rejoin_ms = True, at_ms, None
        claims.session_ms, claims.sync_ms = request.session_timeout_ms, at_ms
        claims.rebalance_ms = request.session_timeout_ms if timeout_ms == -1 else timeout_ms

    def _note(self, given: Given, reply_to: Any) -> None:
        self._given[id(reply_to)] = given

    # Answers, as they leave.

    def on_made(self, call: Call, response: Any) -> None:
        super().on_made(call, response)
        if self._of_consumer_groups.get(id(call)) is not response:
            self._of_consumer_groups.pop(id(call), None)
        given = self._given.pop(id(call), None)
        if given is not None and given.response is response:
            self.claims.was_made(given.group_id, given.member_id, given.epoch, given.partitions)
        self.mixed.on_made(call, response)

    def _on_classic_answer(self, call: Call, response: Any) -> None:
        if self._of_consumer_groups.pop(id(call), None) is None:
            super()._on_classic_answer(call, response)

    # Lives.

    def on_loaded(self, shard: Shard, now_ms: int) -> None:
        super().on_loaded(shard, now_ms)
        assert self.server is not None
        for group_id in sorted(self.server.groups_of(shard.partition)):
            self._targets.pop(group_id, None)
            for call, given in list(self._given.items()):
                if given.group_id == group_id:
                    del self._given[call]
            self.claims.forget_unshown(group_id)
            self._check_loaded(shard, group_id)
            self.claims.begin_anew(group_id, now_ms)
        self.mixed.on_loaded(shard)
        for group in shard.consumer_groups.values():
            self.rows.on_loaded(group)

    def _check_loaded(self, shard: Shard, group_id: str) -> None:
        """What members were shown that they have, they have."""
        group, classic = shard.consumer_groups.get(group_id), shard.groups.get(group_id)
        for member_id, member in () if group is None else group.members.items():
            self.claims.member(group_id, member_id).is_classic = member.classic is not None
        for member_id, claims in list(self.claims.known(group_id).items()):
            current = None if group is None else group.currents.get(member_id)
            if current is None or group is None:
                if classic is None or member_id not in classic.members:
                    self.claims.removed(group_id, member_id)
                continue
            held = {(t, p) for t, each in current.assigned.items() for p in each}
            held |= {(t, p) for t, each in current.pending_revocation.items() for p in each}
            lost = [each for each in sorted(claims.held.keys() - held) if self._topics.topic_name(each[0])]
            self.require(not lost, f"{member_id} of {group_id} has {lost}, and the log does not say so")
            claims.rebalance_ms = group.members[member_id].rebalance_timeout_ms
            claims.is_away = current.member_epoch == LEFT_FOR_NOW_EPOCH
            pending = {(t, p) for t, each in current.pending_revocation.items() for p in each}
            claims.to_give_up = frozenset(claims.held.keys() & pending)

    def on_resumed(self, shard: Shard, now_ms: int) -> None:
        """The shard may write again: all sessions begin anew."""
        for group_id in (*shard.groups, *shard.consumer_groups):
            self.claims.begin_sessions(group_id, now_ms)

    def on_no_room(self) -> None:
        self.mixed.on_no_room(self._targets)

    def on_crash(self) -> None:
        self.mixed.on_crash(self._targets)
        super().on_crash()
        self._given.clear()
        self._of_consumer_groups.clear()
        self._targets.clear()
