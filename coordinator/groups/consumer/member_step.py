"""One step of a member: what it says of itself, the group's epoch, the target, what it has.

Whatever request it comes with, each is a function below, in Kafka's order, and all that changes is in the
records that it adds: so what a step finds is the group as stored, and its member beside it as it will be.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from coordinator.effects import CoordinatorRecord, Effects, Moment
from coordinator.groups.causes import Cause, CauseKind
from coordinator.groups.classic.group import Group
from coordinator.groups.consumer.assignors import ASSIGNORS
from coordinator.groups.consumer.assignors.specs import MemberSpec, Target, as_kept, in_table_order
from coordinator.groups.consumer.computing import Compute, ComputedTarget, ComputeTarget
from coordinator.groups.consumer.events import Course, Standing
from coordinator.groups.consumer.group import ConsumerGroup, take_one
from coordinator.groups.consumer.java_order import JavaTable, string_hash
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.membership import Found
from coordinator.groups.consumer.reconciliation import (
    CurrentAssignment,
    Goal,
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
from coordinator.groups.consumer.shard_groups import ConsumerGroups
from coordinator.groups.consumer.states import GroupState, MemberState, group_state
from coordinator.groups.consumer.target import changed_targets
from coordinator.groups.consumer.waited_for import GivenUp, held_by
from protocol.errors import ErrorCode

UNKNOWN_STATE = (
    "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
)
NOT_COMPUTED = 0
"""The time of a target of which it is not known when it was computed."""


@dataclass(slots=True)
class MemberStep:
    """The group as stored, the member as found and as it will be, and what it reports to own (None: nothing)."""

    shard: ConsumerGroups
    group: ConsumerGroup
    found: Found
    member: ConsumerMember
    owned: Partitions | None
    at: Moment
    effects: Effects
    describes: Callable[[str], bool] | None = None  # Which topics the client may know of; None: all.
    epoch: int = field(init=False)  # The group's, which the step may raise.
    is_homogeneous: bool = field(init=False)
    assignment_epoch: int = field(init=False)  # Of the target, which the step may compute.
    is_changed: bool = False  # Whether the member subscribes to something else now.
    topic_changes: str | None = (
        None  # What became of the group's topics, in words; None if that is not known.
    )

    def __post_init__(self) -> None:
        self.epoch = self.group.epoch
        self.assignment_epoch = self.group.assignment_epoch
        self.is_homogeneous = self.group.is_homogeneous

    def describe(self) -> None:
        """Record what the member says of itself, and raise the group's epoch if that or the topics call for it.

        Raises Refused: INVALID_REGULAR_EXPRESSION.
        """
        names_changed = self.update_member()
        regex = change_regex(self.group, self.found.member, self.member, self.effects)
        change = (self.found.member, self.member)
        maybe_resolve(self.shard, self.group, change, self.at, self.effects, self.describes)
        self.is_changed = names_changed or regex is not RegexChange.NONE
        # An expression of which it is not known what it matches raises it later; a classic member has none.
        is_known = regex is RegexChange.RESOLVED or self.member.classic is not None
        self.maybe_bump(is_due=names_changed or (self.is_changed and is_known))

    def advance(self) -> Generator[ComputeTarget, tuple[ComputedTarget, Moment], CurrentAssignment]:
        """Ask for the target if it is due, and bring the member nearer to it; return what it has then.

        Raises Refused: FENCED_MEMBER_EPOCH; UNKNOWN_SERVER_ERROR if the target could not be computed.
        """
        group, member_id = self.group, self.member.member_id
        target_epoch = group.assignment_epoch
        target = group.targets.get(self.found.took_over_from or member_id, {})
        if self._is_target_due():
            try:
                computed, self.at = yield Compute(group.group_id, self._weight(), self._compute_target)
            except Refused:
                self._ask_for_nothing()
                raise
            self.add(*computed.records)
            self.add(new_target_epoch_record(group.group_id, self.epoch, self.at.wall_ms))
            target_epoch = self.assignment_epoch = self.epoch
            target = target if computed.own is None else computed.own
        return self.maybe_reconcile(target_epoch, target)

    def add(self, *records: CoordinatorRecord) -> None:
        self.effects.records += records

    def update_member(self) -> bool:
        """Record what the member says of itself, if that is new; return whether it subscribes to other names."""
        if self.member is self.found.member or self.member == self.found.member:
            return False
        self.add(new_member_record(self.group.group_id, self.member))
        return not self.member.subscribes_as(self.found.member)

    def maybe_bump(self, *, is_due: bool) -> None:
        """Raise the group's epoch if the member subscribes to other topics, or these are others by now (A15)."""
        group, soft = self.group, self.shard.soft(self.group.group_id)
        if not is_due and not soft.is_stale(self.at.now_ms, group.epoch, self.shard.topics.version):
            return
        is_new = (
            self.member.member_id not in group.members
            and group.static_member(self.member.instance_id) is None
        )
        with group.subscriptions.supposing(self.found.member, self.member):
            names = group.subscriptions.topics()
            metadata_hash = self.shard.hash_of(names)
            self.is_homogeneous = group.subscriptions.are_homogeneous(len(group.members) + is_new)
        if metadata_hash != soft.topics.metadata_hash:
            images = self.shard.images(sorted(names))
            self.topic_changes = soft.topics.changes(group.metadata_hash, images)
            soft.topics.watch(metadata_hash, images)
        if is_due or metadata_hash != group.metadata_hash:
            self.epoch += 1
            self.add(new_epoch_record(group.group_id, self.epoch, metadata_hash))
        if group.group_id in self.shard.groups:  # One that this step makes is looked at again with the next.
            soft.refreshed(self.at.now_ms, self.epoch, self.shard.topics.version)
        if group.has_partition_metadata:
            self.add(new_partition_metadata_tombstone(group.group_id))

    def _is_target_due(self) -> bool:
        """Whether the target is of an older epoch, and the last one was computed long enough ago (A19)."""
        group = self.group
        if group.assignment_epoch >= self.epoch:
            return False
        interval_ms = self.shard.settings.of(group.group_id).assignment_interval_ms
        is_due = group.assignment_wall_ms == NOT_COMPUTED or interval_ms == 0
        since_ms = self.at.wall_ms - group.assignment_wall_ms
        return is_due or not 0 <= since_ms < interval_ms  # Below 0 the clock was set back.

    def _weight(self) -> int:
        """How much the target that is due takes to compute; see MOST_WEIGHT."""
        subscriptions = self.group.subscriptions
        weight = len(self.group.members) + subscriptions.size + subscriptions.size_of(self.member)
        if weight > self.shard.settings.most_weight:
            return weight  # Whatever partitions there are.
        names = {*subscriptions.topics(), *self.member.topic_names}
        return weight + sum(len(image.racks_by_partition) for image in self.shard.images(names))

    def _compute_target(self) -> ComputedTarget:
        """Compute the target; reads the group and the topics, and changes nothing."""
        group, member_id = self.group, self.member.member_id
        preferred = group.assignor_votes.preferred_with(self.found.member, self.member)
        assignor = ASSIGNORS[preferred or self.shard.settings.assignors[0]]
        specs, counts = self.specs()
        changed = list(
            changed_targets(assignor, specs, counts, group.targets, is_homogeneous=self.is_homogeneous)
        )
        records = [new_target_record(group.group_id, each.member_id, each.target) for each in changed]
        own = next((each.target for each in changed if each.member_id == member_id), None)
        return ComputedTarget(group.group_id, records, own)

    def specs(self) -> tuple[list[MemberSpec], dict[bytes, int]]:
        """All members as an assignor sees them, in the order of their map; and how many partitions topics have."""
        group, replaced = self.group, self.found.took_over_from
        topics = _SubscribedTopics(self.shard, group)
        specs = [
            topics.spec(group.members[member_id], group.targets.get(member_id, {}))
            for member_id in group.table
        ]
        target = group.targets.get(replaced or self.member.member_id, {})
        if replaced is not None:
            target = as_kept(target)  # It is recorded even if it stays as it is.
        specs = in_table_order(specs, topics.spec(self.member, target), replaced)
        return specs, topics.counts

    def maybe_reconcile(self, target_epoch: int, target: Target) -> CurrentAssignment:
        """Bring the member a step nearer to its target; return what it has then (A24 to A29)."""
        before = self.found.current
        if not self.is_changed and before.is_reconciled_to(target_epoch):
            return before
        names = self.group.subscriptions.topics_of(self.member, self.member.topic_names)
        subscribed = {image.topic_id for image in self.shard.images(names)}
        goal = Goal(target_epoch, target, subscribed, bool(names))
        try:
            after = reconcile(
                before,
                goal,
                self.owned,
                self.group.held.epoch_of,
                is_subscription_changed=self.is_changed,
            )
        except UnknownMemberState:
            self._ask_for_nothing()
            raise Refused(ErrorCode.FENCED_MEMBER_EPOCH, UNKNOWN_STATE) from None
        if after != before:
            self.add(new_current_record(self.group.group_id, self.member.member_id, after))
            self._set_revocation_timer(after)
            return after
        return before

    def _ask_for_nothing(self) -> None:
        """Forget the run that the step may have asked for: the step is refused, so it does not begin."""
        if self.effects.background:
            self.shard.soft(self.group.group_id).is_resolving = False

    def _set_revocation_timer(self, current: CurrentAssignment) -> None:
        soft, member = self.shard.soft(self.group.group_id), self.member
        if member.classic is not None:
            return  # It has a timer for its next JoinGroup.
        if current.state is MemberState.UNREVOKED_PARTITIONS:
            deadline_ms = self.at.now_ms + member.rebalance_timeout_ms
            soft.await_revocation(member.member_id, current.member_epoch, deadline_ms, self.effects)
        else:
            soft.end_revocation(member.member_id, self.effects)

    def record(self, current: CurrentAssignment, classic: Group | None = None) -> None:
        """Add what the step did to the group's history; `classic` is the group that it upgraded."""
        group, course = self.group, self.shard.soft(self.group.group_id).course
        course.begin_event(group)
        came_from = None
        if classic is not None:
            came_from = classic.state.value
            course.take_over(classic)
        elif group.group_id not in self.shard.groups:
            came_from = GroupState.EMPTY.value
        last = self._last(course, current, came_from)
        replaced = group.currents.get(self.found.took_over_from or self.member.member_id)
        is_another = self.found.took_over_from is not None or group.group_id not in self.shard.groups
        if not is_another and self._stands_as_before(replaced, current):
            return
        standings = dict(group.standings)
        if replaced is not None:
            take_one(standings, replaced.standing)
        standings[current.standing] = standings.get(current.standing, 0) + 1
        state = group_state(self.epoch, self.assignment_epoch, standings)
        after = Standing(self.epoch, state, sum(standings.values()))
        if self.epoch != group.epoch or state is not group.state or is_another:
            cause = self._cause(state, is_upgrade=classic is not None)
            if state is GroupState.STABLE:
                named = last.named(self.shard.topics)
                after = after._replace(last=last.fields(named))
                if cause.kind is CauseKind.MEMBERS_RECONCILED:
                    cause = cause._replace(detail=last.words(named))
            course.record(group, after, cause, self.at, self.effects, came_from)

    def _last(self, course: Course, current: CurrentAssignment, came_from: str | None) -> GivenUp:
        """Note what the member gives up, and return who was waited for if the step ends a rebalance.

        That is the member itself, unless all that it did was to wait for what others had.
        """
        before, releases = self.found.current, course.releases
        if self.epoch != self.group.epoch:
            releases.begin_anew(self.epoch)
        if current is before:
            return GivenUp(self.member, (), 0)  # It ends no rebalance.
        state = came_from or self.group.state.value
        after_ms = course.rebalancing_ms(state, self.at.now_ms)
        had, has = held_by(before), held_by(current)
        own = GivenUp(self.member, tuple(had - has), after_ms)
        releases.note(own)
        if (
            before.state is not MemberState.UNRELEASED_PARTITIONS
            or before.member_epoch < releases.since_epoch
        ):
            return own
        return releases.last_of(has - had) or own

    def _stands_as_before(self, before: CurrentAssignment | None, after: CurrentAssignment) -> bool:
        """Whether group and member are in the epochs and the member in the state that they were in."""
        group = self.group
        return (
            before is not None
            and before.standing == after.standing
            and self.epoch == group.epoch
            and self.assignment_epoch == group.assignment_epoch
        )

    def _cause(self, state: GroupState, *, is_upgrade: bool) -> Cause:
        """Why the group goes on to another epoch or state, by the first of these that is so."""
        is_bumped = self.epoch != self.group.epoch
        if is_upgrade:
            kind = CauseKind.GROUP_UPGRADED
        elif self.found.took_over_from is not None:
            kind = CauseKind.STATIC_MEMBER_REPLACED
        elif self.member.member_id not in self.group.members:
            kind = CauseKind.MEMBER_JOINED
        elif is_bumped and not self.is_changed:
            return Cause(CauseKind.TOPICS_CHANGED, self.topic_changes)  # No doing of this member.
        elif is_bumped:
            kind = CauseKind.MEMBER_METADATA_CHANGED
        elif state is GroupState.STABLE:
            kind = CauseKind.MEMBERS_RECONCILED
        else:
            kind = CauseKind.ASSIGNMENT_COMPUTED
        replaced = self.found.took_over_from
        return Cause.by(self.member, kind, removed=() if replaced is None else (replaced,))


class _SubscribedTopics:
    """The topics of members, found once for all that subscribe alike, and how many partitions they have."""

    def __init__(self, shard: ConsumerGroups, group: ConsumerGroup) -> None:
        self._shard, self._group = shard, group
        self._found: dict[tuple[tuple[str, ...], str], tuple[tuple[bytes, ...], int]] = {}
        self.counts: dict[bytes, int] = {}

    def spec(self, member: ConsumerMember, target: Target) -> MemberSpec:
        subscription = member.topic_names, member.topic_regex
        found = self._found.get(subscription)
        if found is None:
            found = self._found[subscription] = self._topics(member)
        return MemberSpec(member.member_id, member.instance_id, *found, target)

    def _topics(self, member: ConsumerMember) -> tuple[tuple[bytes, ...], int]:
        """The ids of those that exist, and the number of all names."""
        names = self._group.subscriptions.topics_of(
            member, JavaTable.of_list(self._hash_of, member.topic_names)
        )
        images = self._shard.images(names)
        self.counts |= {image.topic_id: len(image.racks_by_partition) for image in images}
        return tuple(image.topic_id for image in images), len(names)

    def _hash_of(self, name: str) -> int:
        """A name of no topic is in no order that matters, and may be as long as a request can make it."""
        return 0 if self._shard.topics.image(name) is None else string_hash(name)
