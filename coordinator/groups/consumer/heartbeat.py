"""ConsumerGroupHeartbeat (key 68): the one request of a member of the new protocol (KIP-848).

A heartbeat may change what its member says of itself, raise the group's epoch, compute a target, and bring the member a
step nearer to its own; each of these is a function below, in Kafka's order, and all that it changes is in the records that it adds.
So what a heartbeat finds is the group as stored, and the member beside it as it will be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from coordinator.effects import CoordinatorRecord, Effects, Moment, RequestContext
from coordinator.groups.consumer.assignors import ASSIGNORS
from coordinator.groups.consumer.assignors.specs import MemberSpec, Target
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.java_order import JavaTable, string_hash
from coordinator.groups.consumer.leave import leave
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.membership import Found, find_member
from coordinator.groups.consumer.metadata_hash import group_hash
from coordinator.groups.consumer.reconciliation import (
    CurrentAssignment,
    Goal,
    PartitionEpochs,
    Partitions,
    UnknownMemberState,
    reconcile,
)
from coordinator.groups.consumer.records import (
    new_current_record,
    new_epoch_record,
    new_member_record,
    new_partition_metadata_tombstone,
    new_target_epoch_record,
    new_target_record,
)
from coordinator.groups.consumer.refusal import Refused
from coordinator.groups.consumer.regexes import RegexChange, change_regex, maybe_resolve
from coordinator.groups.consumer.request_checks import JOIN_EPOCH, UNCHANGED_TIMEOUT, check_request
from coordinator.groups.consumer.shard_groups import ConsumerGroups
from coordinator.groups.consumer.states import MemberState
from coordinator.groups.consumer.target import changed_targets
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)

UNKNOWN_STATE = (
    "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
)
NOT_COMPUTED = 0
"""The time of a target of which it is not known when it was computed."""


def consumer_group_heartbeat(
    shard: ConsumerGroups,
    request: ConsumerGroupHeartbeatRequest,
    context: RequestContext,
    at: Moment,
    effects: Effects,
) -> None:
    """Answer a member, and bring it a step nearer to its target. A refusal leaves no trace (A4).

    Errors: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR, GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID, FENCED_MEMBER_EPOCH.
    """
    own = Effects()
    try:
        check_request(request, context.api_version, shard.settings.assignors)
        if request.member_epoch < JOIN_EPOCH:
            response = leave(shard, request, at, own)
        else:
            response = _Heartbeat.of(shard, request, context, at, own).handle()
    except Refused as refused:
        response = ConsumerGroupHeartbeatResponse(error_code=refused.error, error_message=refused.message)
        effects.reply(context.reply_to, response)
        return
    effects.add(own.result())
    if own.background:
        effects.background += own.background
        shard.soft(request.group_id).is_resolving = True
    effects.reply(context.reply_to, response)


@dataclass(slots=True)
class _Heartbeat:
    """One heartbeat: the group as stored, the member as found and as it will be, and the epoch of the group by then."""

    shard: ConsumerGroups
    request: ConsumerGroupHeartbeatRequest
    at: Moment
    effects: Effects
    group: ConsumerGroup
    found: Found
    member: ConsumerMember
    epoch: int
    is_homogeneous: bool

    @classmethod
    def of(
        cls,
        shard: ConsumerGroups,
        request: ConsumerGroupHeartbeatRequest,
        context: RequestContext,
        at: Moment,
        effects: Effects,
    ) -> _Heartbeat:
        """Find group and member. Raises Refused."""
        group = _find_group(shard, request)
        _check_capacity(group, request.member_id, shard.settings.max_size)
        found = find_member(group, request.member_id or context.new_uuid, request, effects)
        member = _described(found.member, request, context)
        is_homogeneous = group.subscriptions.are_homogeneous(len(group.members))
        return cls(shard, request, at, effects, group, found, member, group.epoch, is_homogeneous)

    def handle(self) -> ConsumerGroupHeartbeatResponse:
        names_changed = self.update_member()
        regex = change_regex(self.group, self.found.member, self.member, self.effects)
        maybe_resolve(self.shard, self.group, self.found.member, self.member, self.at, self.effects)
        self.maybe_bump(is_due=names_changed or regex is RegexChange.RESOLVED)
        is_changed = names_changed or regex is not RegexChange.NONE
        target_epoch, target = self.maybe_compute_target()
        current = self.maybe_reconcile(target_epoch, target, is_changed=is_changed)
        settings = self.shard.settings.of(self.group.group_id)
        soft = self.shard.soft(self.group.group_id)
        soft.begin_session(self.member.member_id, self.at.now_ms, settings.session_timeout_ms, self.effects)
        response = ConsumerGroupHeartbeatResponse(
            member_id=self.member.member_id,
            member_epoch=current.member_epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
        )
        if self.is_whole or current.assigned != self.found.current.assigned:
            response.assignment = _assignment(current.assigned)
        return response

    @property
    def is_whole(self) -> bool:
        """Whether the member says all of itself, as it does when it joins, and after an error (A1)."""
        request = self.request
        names_topics = (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
        return request.member_epoch == JOIN_EPOCH or (
            request.rebalance_timeout_ms != UNCHANGED_TIMEOUT
            and names_topics
            and request.topic_partitions is not None
        )

    def add(self, *records: CoordinatorRecord) -> None:
        self.effects.records += records

    def update_member(self) -> bool:
        """Record what the member says of itself, if that is new; return whether it subscribes to other names."""
        if self.member == self.found.member:
            return False
        self.add(new_member_record(self.group.group_id, self.member))
        return not self.member.subscribes_as(self.found.member)

    def maybe_bump(self, *, is_due: bool) -> None:
        """Raise the group's epoch if the member subscribes to other topics, or if its topics are others by now (A15)."""
        group, soft = self.group, self.shard.soft(self.group.group_id)
        if not is_due and not soft.is_stale(self.at.now_ms, group.epoch):
            return
        is_new = (
            self.member.member_id not in group.members
            and group.static_member(self.member.instance_id) is None
        )
        with group.subscriptions.supposing(self.found.member, self.member):
            metadata_hash = group_hash(self.shard.images(group.subscriptions.topics()))
            self.is_homogeneous = group.subscriptions.are_homogeneous(len(group.members) + is_new)
        if is_due or metadata_hash != group.metadata_hash:
            self.epoch += 1
            self.add(new_epoch_record(group.group_id, self.epoch, metadata_hash))
        soft.refreshed(self.at.now_ms, self.epoch)
        if group.has_partition_metadata:
            self.add(new_partition_metadata_tombstone(group.group_id))

    def maybe_compute_target(self) -> tuple[int, Target]:
        """Compute the group's target if it is of an older epoch; return its epoch, and the member's part of it (A19)."""
        group, member_id = self.group, self.member.member_id
        stored = group.targets.get(self.found.took_over_from or member_id, {})
        interval_ms = self.shard.settings.of(group.group_id).assignment_interval_ms
        is_due = group.assignment_wall_ms == NOT_COMPUTED or interval_ms == 0
        is_due = is_due or self.at.wall_ms >= group.assignment_wall_ms + interval_ms
        if group.assignment_epoch >= self.epoch or not is_due:
            return group.assignment_epoch, stored
        preferred = group.assignor_votes.preferred_with(self.found.member, self.member)
        assignor = ASSIGNORS[preferred or self.shard.settings.assignors[0]]
        specs, counts = self.specs()
        for changed in changed_targets(
            assignor, specs, counts, group.targets, is_homogeneous=self.is_homogeneous
        ):
            self.add(new_target_record(group.group_id, changed.member_id, changed.target))
            if changed.member_id == member_id:
                stored = changed.target
        self.add(new_target_epoch_record(group.group_id, self.epoch, self.at.wall_ms))
        return self.epoch, stored

    def specs(self) -> tuple[list[MemberSpec], dict[bytes, int]]:
        """All members as an assignor sees them, in the order in which the broker gathers them; and their topics."""
        group = self.group
        counts: dict[bytes, int] = {}
        specs = []
        for member_id in group.table:
            if member_id not in (self.member.member_id, self.found.took_over_from):
                specs.append(self._spec(group.members[member_id], group.targets.get(member_id, {}), counts))
            elif member_id == self.member.member_id:
                specs.append(self._own_spec(counts))
        if self.member.member_id not in group.members:
            specs.append(self._own_spec(counts))
        return specs, counts

    def _own_spec(self, counts: dict[bytes, int]) -> MemberSpec:
        target = self.group.targets.get(self.found.took_over_from or self.member.member_id, {})
        return self._spec(self.member, target, counts)

    def _spec(self, member: ConsumerMember, target: Target, counts: dict[bytes, int]) -> MemberSpec:
        names = self.group.subscriptions.topics_of(member, JavaTable.of_list(string_hash, member.topic_names))
        topic_ids = []
        for name in names:
            image = self.shard.topics.image(name)
            if image is not None:
                counts[image.topic_id] = len(image.racks_by_partition)
                topic_ids.append(image.topic_id)
        return MemberSpec(member.member_id, member.instance_id, tuple(topic_ids), len(names), target)

    def maybe_reconcile(self, target_epoch: int, target: Target, *, is_changed: bool) -> CurrentAssignment:
        """Bring the member a step nearer to its target; return what it has then (A24 to A29)."""
        before = self.found.current
        if not is_changed and before.is_reconciled_to(target_epoch):
            return before
        names = self.group.subscriptions.topics_of(self.member, self.member.topic_names)
        subscribed = {image.topic_id for image in self.shard.images(names)}
        goal = Goal(target_epoch, target, subscribed, bool(names))
        try:
            after = reconcile(
                before,
                goal,
                _owned(self.request),
                self.group.held.epoch_of,
                is_subscription_changed=is_changed,
            )
        except UnknownMemberState:
            raise Refused(ErrorCode.FENCED_MEMBER_EPOCH, UNKNOWN_STATE) from None
        if after != before:
            self.add(new_current_record(self.group.group_id, self.member.member_id, after))
            self._set_revocation_timer(after)
        return after

    def _set_revocation_timer(self, current: CurrentAssignment) -> None:
        soft, member = self.shard.soft(self.group.group_id), self.member
        if current.state is MemberState.UNREVOKED_PARTITIONS:
            deadline_ms = self.at.now_ms + member.rebalance_timeout_ms
            soft.await_revocation(member.member_id, current.member_epoch, deadline_ms, self.effects)
        else:
            soft.end_revocation(member.member_id, self.effects)


def _find_group(shard: ConsumerGroups, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroup:
    group = shard.groups.get(request.group_id)
    if group is not None:
        return group
    if request.member_epoch != JOIN_EPOCH:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {request.group_id} not found.")
    return ConsumerGroup(request.group_id)


def _check_capacity(group: ConsumerGroup, member_id: str, max_size: int) -> None:
    if len(group.members) >= max_size and member_id not in group.members:
        message = f"The consumer group has reached its maximum capacity of {max_size} members."
        raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def _described(
    found: ConsumerMember, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerMember:
    """The member as it is from now on; what the request leaves out stays."""
    changes: dict[str, object] = {"client_id": context.client_id, "client_host": context.client_host}
    optional = {
        "instance_id": request.instance_id,
        "rack_id": request.rack_id,
        "topic_regex": request.subscribed_topic_regex,
        "server_assignor": request.server_assignor,
    }
    changes |= {name: value for name, value in optional.items() if value is not None}
    if request.rebalance_timeout_ms != UNCHANGED_TIMEOUT:
        changes["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    names = request.subscribed_topic_names
    if names is not None and set(names) != set(found.topic_names):
        changes["topic_names"] = tuple(dict.fromkeys(names))
    return replace(found, classic=None, **changes)  # type: ignore[arg-type]  # Names of fields, with their values.


def _owned(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    if request.topic_partitions is None:
        return None
    owned: dict[bytes, list[int]] = {}
    for each in request.topic_partitions:
        owned.setdefault(each.topic_id, []).extend(each.partitions)
    return owned


def _assignment(assigned: PartitionEpochs) -> ConsumerGroupHeartbeatAssignment:
    topics = [
        ConsumerGroupHeartbeatTopicPartitions(topic_id=topic_id, partitions=list(epochs))
        for topic_id, epochs in assigned.items()
    ]
    return ConsumerGroupHeartbeatAssignment(topic_partitions=topics)
