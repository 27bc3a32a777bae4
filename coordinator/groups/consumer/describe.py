"""ConsumerGroupDescribe (key 69): consumer groups with their members, what these have and are to have (A70)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, cast, overload

from coordinator.effects import Moment, Reply, RequestContext, Result
from coordinator.groups.consumer.assignors.specs import NO_TARGET, Target
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.reconciliation import CurrentAssignment
from coordinator.groups.consumer.shard_groups import ConsumerGroups
from coordinator.groups.group_operations import GROUP_OPERATIONS
from coordinator.topic_catalog import TopicImages
from protocol.codec.primitives import MAX_STRING_BYTES
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeMember,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeTopicPartitions,
)

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1

MOST_DESCRIBED_AT_ONCE: Final = 200
"""Members and the topics that they subscribe to, counted together, of a group that is described at once: 1 ms."""


class _Stored(NamedTuple):
    """A member as stored, of which nothing changes in place: another one takes its place."""

    member: ConsumerMember
    current: CurrentAssignment
    target: Target


class _Snapshot:
    """The members of a group as they are now. The group's tables are copied, and read when a member is asked for.

    Of 10,000 members a copy takes 0.5 ms; to find each of them, in the order of the group's table, takes 10.
    """

    __slots__ = ("_currents", "_ids", "_members", "_table", "_targets")

    def __init__(self, group: ConsumerGroup) -> None:
        self._table = group.table.copy()
        self._members = group.members.copy()
        self._currents = group.currents.copy()
        self._targets = group.targets.copy()
        self._ids: list[str] | None = None

    def __len__(self) -> int:
        return len(self._members)

    def ids(self) -> list[str]:
        """The ids of the members, in the order in which a broker shows them."""
        if self._ids is None:
            self._ids = list(self._table)
        return self._ids

    def topic_ids(self) -> set[bytes]:
        """Ids of the topics of which a member has partitions, has to give them up, or is to have them."""
        found: set[bytes] = set()
        for current in self._currents.values():
            found.update(current.assigned, current.pending_revocation)
        for target in self._targets.values():
            found.update(target)
        return found

    def stored(self, member_id: str) -> _Stored:
        target = self._targets.get(member_id, NO_TARGET)
        return _Stored(self._members[member_id], self._currents[member_id], target)


class DescribedMembers(Sequence[ConsumerGroupDescribeMember]):
    """The members of a large group as they were when it was asked for, each described where the answer is encoded.

    That may be another thread. Topics have the names that they have then, and those deleted by then are left out.
    """

    __slots__ = ("_snapshot", "_topics")

    def __init__(self, snapshot: _Snapshot, topics: TopicImages) -> None:
        self._snapshot, self._topics = snapshot, topics

    def topic_names(self) -> set[str]:
        """Names of the topics in the assignments and targets of all members."""
        names = map(self._topics.topic_name, self._snapshot.topic_ids())
        return {name for name in names if name is not None}

    def __len__(self) -> int:
        return len(self._snapshot)

    @overload
    def __getitem__(self, index: int) -> ConsumerGroupDescribeMember: ...
    @overload
    def __getitem__(self, index: slice) -> list[ConsumerGroupDescribeMember]: ...
    def __getitem__(
        self, index: int | slice
    ) -> ConsumerGroupDescribeMember | list[ConsumerGroupDescribeMember]:
        found = self._snapshot.ids()[index]
        return self._described(found) if isinstance(found, str) else [self._described(each) for each in found]

    def __iter__(self) -> Iterator[ConsumerGroupDescribeMember]:
        return map(self._described, self._snapshot.ids())

    def _described(self, member_id: str) -> ConsumerGroupDescribeMember:
        return _member(self._snapshot.stored(member_id), self._topics)


def consumer_group_describe(
    shard: ConsumerGroups, request: ConsumerGroupDescribeRequest, context: RequestContext, at: Moment
) -> Result:
    """Describe each group that the request names. Errors, per group: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND."""
    described = [
        _describe(shard, group_id, request.include_authorized_operations) for group_id in request.group_ids
    ]
    return Result(replies=(Reply(context.reply_to, ConsumerGroupDescribeResponse(groups=described)),))


def _describe(shard: ConsumerGroups, group_id: str, with_operations: bool) -> ConsumerGroupDescribeGroup:
    if not group_id:
        return ConsumerGroupDescribeGroup(group_id="", error_code=ErrorCode.INVALID_GROUP_ID)
    group = shard.groups.get(group_id)
    if group is None:
        return _absent(group_id, is_classic=group_id in shard.classic_groups)
    described = describe_group(group, shard)
    if with_operations:
        described.authorized_operations = GROUP_OPERATIONS
    return described


def _absent(group_id: str, *, is_classic: bool) -> ConsumerGroupDescribeGroup:
    message = f"Group {group_id} {'is not a consumer group' if is_classic else 'not found'}."
    return ConsumerGroupDescribeGroup(
        group_id=group_id,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=message if len(message.encode()) <= MAX_STRING_BYTES else None,
    )


def describe_group(group: ConsumerGroup, shard: ConsumerGroups) -> ConsumerGroupDescribeGroup:
    """The group as it is now; the members of a large one are described when they are looked at."""
    members = DescribedMembers(_Snapshot(group), shard.topics)
    is_large = len(members) + group.subscriptions.size > MOST_DESCRIBED_AT_ONCE
    return ConsumerGroupDescribeGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor_votes.preferred or shard.settings.assignors[0],
        members=cast(list[ConsumerGroupDescribeMember], members) if is_large else list(members),
    )


def _member(stored: _Stored, topics: TopicImages) -> ConsumerGroupDescribeMember:
    member, current, target = stored
    # What it has to give up it still has, until it confirms.
    held: dict[bytes, list[int]] = {}
    for partitions in (current.assigned, current.pending_revocation):
        for topic_id, epochs in partitions.items():
            held.setdefault(topic_id, []).extend(epochs)
    return ConsumerGroupDescribeMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=current.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(held, topics),
        target_assignment=_assignment(target, topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(
    partitions: Mapping[bytes, Iterable[int]], topics: TopicImages
) -> ConsumerGroupDescribeAssignment:
    """Partitions of topics that exist, with their names."""
    named = ((topic_id, topics.topic_name(topic_id), of_topic) for topic_id, of_topic in partitions.items())
    return ConsumerGroupDescribeAssignment(
        topic_partitions=[
            ConsumerGroupDescribeTopicPartitions(
                topic_id=topic_id, topic_name=name, partitions=list(of_topic)
            )
            for topic_id, name, of_topic in named
            if name is not None
        ]
    )
