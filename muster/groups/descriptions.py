"""What the command line shows of one group: its members, what each has and is to have, and its progress.

Groups are of two types. A consumer group (KIP-848) is asked for by ConsumerGroupDescribe, as Kafka's admin client
does; a broker that does not know of such groups, or has a classic one under that name, is asked by DescribeGroups.
So it works on any cluster. Epochs and targets are a consumer group's alone. Nothing is shown here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, NamedTuple, TypeAlias

from muster.cluster import Cluster, ClusterError, UnspokenError, check, retried
from muster.groups.admin import groups_of, offsets_at, partitions_of
from muster.groups.offsets import Committed, committed
from muster.sentences import counted, shown_id
from protocol.consumer import PROTOCOL_TYPE, decode_assignment
from protocol.errors import DecodeError, ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeMember,
    ConsumerGroupDescribeRequest,
)
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsRequest
from protocol.messages.list_offsets import LATEST
from protocol.topic_partition import TopicPartition

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
DEAD: Final = "Dead"
_NO_MEMBERS: Final = frozenset({"Empty", DEAD})
_NO_LEADER: Final = -1
LEFT_FOR_NOW: Final = -2  # The epoch of a static member whose place is kept.
_UPGRADED: Final = {0: False, 1: True}  # By `member_type`; -1 in version 0, which does not say.

_UNDESCRIBED: Final = (
    "{} is a consumer group, and the cluster does not answer ConsumerGroupDescribe (group.version is 0, "
    "or consumer is not in group.coordinator.rebalance.protocols)"
)

Partitions: TypeAlias = tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member, and the partitions that it has; of one that gives some up, with these.

    The others are None in a classic group: its epoch, the partitions it is to have, and whether it is upgraded,
    which is whether it uses the consumer protocol.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    partitions: Partitions
    member_epoch: int | None = None
    target_partitions: Partitions | None = None
    upgraded: bool | None = None  # None too where the broker is too old to say.


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """A group's progress on one partition. A None offset is not known, or was never committed."""

    topic: str
    partition: int
    committed_offset: int | None
    log_end_offset: int | None
    member_id: str | None
    leader_epoch: int | None = None  # This and the metadata were committed with the offset.
    metadata: str = ""
    client_id: str | None = None  # This and the host are of the member that has the partition.
    client_host: str | None = None

    @property
    def lag(self) -> int | None:
        """The number of offsets from the committed one to the log's end; None if either is not known.

        Negative where the commit is beyond the end, as after a topic was made anew: such a group reads nothing.
        """
        if self.committed_offset is None or self.log_end_offset is None:
            return None
        return self.log_end_offset - self.committed_offset


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """All that the cluster reports about one group; a classic one has no epochs. `protocol` is the assignor."""

    group_id: str
    group_type: str
    state: str
    protocol_type: str
    protocol: str
    group_epoch: int | None
    target_assignment_epoch: int | None
    coordinator: int
    coordinator_address: str
    members: tuple[MemberDescription, ...]
    progress: tuple[PartitionProgress, ...]


class LiveMembersError(ClusterError):
    """The group has members, or keeps the places of some."""


class NoSuchGroupError(ClusterError):
    """There is no group of that name."""


async def describe_group(cluster: Cluster, group_id: str) -> GroupDescription:
    """The members and progress of one group. Raises ClusterError, also if the group does not exist."""
    group = await describe_members(cluster, group_id)
    offsets = await committed(cluster, group_id)
    if group.state == DEAD and not offsets:
        raise NoSuchGroupError(f"there is no group {shown_id(group_id)}")
    return (await with_progress(cluster, [group], [offsets]))[0]


async def describe_members(cluster: Cluster, group_id: str) -> GroupDescription:
    """The group without its progress; one that is not there is Dead. Raises ClusterError."""
    coordinator = await cluster.coordinator(group_id)
    place = (coordinator, cluster.address(coordinator))
    return whole(place, group_id, await _described(cluster, coordinator, group_id))


def whole(place: tuple[int, str], group_id: str, group: Described) -> GroupDescription:
    """The description of a group without its progress; `place` is its coordinator, and where that is."""
    return GroupDescription(
        group_id,
        group.group_type,
        group.state,
        group.protocol_type,
        group.protocol,
        group.group_epoch,
        group.target_assignment_epoch,
        *place,
        group.members,
        (),
    )


async def require_no_members(cluster: Cluster, group_id: str) -> None:
    """Raise LiveMembersError if the group has members: their next commit would undo a reset."""
    group = await _described(cluster, await cluster.coordinator(group_id), group_id)
    if group.state in _NO_MEMBERS:
        return
    away = [str(each.group_instance_id) for each in group.members if each.member_epoch == LEFT_FOR_NOW]
    if live := len(group.members) - len(away) or not away:
        raise LiveMembersError(
            f"group {shown_id(group_id)} has {counted(live, 'live member')} (state {group.state}); "
            f"stop {'it' if live == 1 else 'them'} first"
        )
    raise LiveMembersError(f"group {shown_id(group_id)} {_kept_places(away)}")


def _kept_places(instances: list[str]) -> str:
    """What is to be said of static members that have left, but whose places the group still keeps."""
    one = len(instances) == 1
    return (
        f"keeps the {'place' if one else 'places'} of {counted(len(instances), 'static member')} that "
        f"{'has' if one else 'have'} left for now ({', '.join(map(shown_id, instances))}): wait until "
        f"{'its session is' if one else 'their sessions are'} over (45 s unless changed), "
        f"or remove {'it' if one else 'them'}"
    )


class _Absence(Enum):
    """Why there is no description of a consumer group: there is none, or the cluster describes none."""

    NOT_FOUND = auto()
    NOT_ANSWERED = auto()


class Described(NamedTuple):
    """A group as its coordinator describes it."""

    group_type: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[MemberDescription, ...]
    group_epoch: int | None = None
    target_assignment_epoch: int | None = None


async def _described(cluster: Cluster, coordinator: int, group_id: str) -> Described:
    """The group by the request for its type; one that is not there is a Dead classic one.

    Raises ClusterError for a consumer group that the cluster lists and does not describe: to DescribeGroups it is
    Dead as well.
    """
    of_consumers = await _consumer_group(cluster, coordinator, group_id)
    if isinstance(of_consumers, Described):
        return of_consumers
    group = await _classic_group(cluster, coordinator, group_id)
    if group.state == DEAD and of_consumers is _Absence.NOT_ANSWERED:
        for listed in await groups_of(cluster, coordinator):
            if listed.group_id == group_id and listed.group_type.lower() == CONSUMER:
                raise ClusterError(_UNDESCRIBED.format(shown_id(group_id)))
    return group


async def _consumer_group(cluster: Cluster, coordinator: int, group_id: str) -> Described | _Absence:
    """The consumer group, or why there is no description of one of that name."""

    async def ask() -> Described | _Absence:
        try:
            answer = await cluster.send(coordinator, ConsumerGroupDescribeRequest(group_ids=[group_id]))
        except UnspokenError:
            return _Absence.NOT_ANSWERED
        group: ConsumerGroupDescribeGroup = answer.groups[0]
        if group.error_code == ErrorCode.UNSUPPORTED_VERSION:
            return _Absence.NOT_ANSWERED
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            return _Absence.NOT_FOUND
        check(f"describing group {shown_id(group_id)}", group.error_code)
        return of_consumers(group)

    return await retried(ask, cluster.patience_s)


def of_consumers(group: ConsumerGroupDescribeGroup) -> Described:
    """What a ConsumerGroupDescribe response says of a group."""
    members = tuple(_consumer_member(member) for member in group.members)
    epochs = (group.group_epoch, group.assignment_epoch)
    return Described(CONSUMER, group.group_state, PROTOCOL_TYPE, group.assignor_name, members, *epochs)


async def _classic_group(cluster: Cluster, coordinator: int, group_id: str) -> Described:
    """The DescribeGroups response for one group; an unknown group is Dead in every version."""

    async def ask() -> Described:
        answer = await cluster.send(coordinator, DescribeGroupsRequest(groups=[group_id]))
        group: DescribedGroup = answer.groups[0]
        if group.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
            check(f"describing group {shown_id(group_id)}", group.error_code)
        return of_classic(group)

    return await retried(ask, cluster.patience_s)


def of_classic(group: DescribedGroup) -> Described:
    """What a DescribeGroups response says of a group."""
    members = tuple(_classic_member(member, group.protocol_type) for member in group.members)
    return Described(CLASSIC, group.group_state, group.protocol_type, group.protocol_data, members)


def _consumer_member(member: ConsumerGroupDescribeMember) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        _named(member.assignment),
        member.member_epoch,
        _named(member.target_assignment),
        _UPGRADED.get(member.member_type),
    )


def _named(assignment: ConsumerGroupDescribeAssignment) -> Partitions:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, number)
            for topic in assignment.topic_partitions
            for number in topic.partitions
        )
    )


def _classic_member(member: DescribedGroupMember, protocol_type: str) -> MemberDescription:
    partitions = _assigned(member.member_assignment) if protocol_type == PROTOCOL_TYPE else ()
    return MemberDescription(
        member.member_id, member.group_instance_id, member.client_id, member.client_host, partitions
    )


def _assigned(assignment: bytes) -> Partitions:
    """The partitions in a client's assignment bytes; empty if they cannot be decoded."""
    try:
        topics = decode_assignment(assignment).assigned_partitions
    except DecodeError:
        return ()
    return tuple(
        sorted(TopicPartition(topic.topic, number) for topic in topics for number in topic.partitions)
    )


async def with_progress(
    cluster: Cluster,
    groups: Sequence[GroupDescription],
    offsets: Sequence[Mapping[TopicPartition, Committed]],
) -> list[GroupDescription]:
    """The groups with their progress, by what each has committed. Raises ClusterError."""
    owners = [{where: member for member in group.members for where in member.partitions} for group in groups]
    shown = [sorted(of.keys() | owned.keys()) for of, owned in zip(offsets, owners, strict=True)]
    every = {where for of_group in shown for where in of_group}
    leaders = await partitions_of(cluster, {where.topic for where in every})
    led = {where: leaders[where] for where in every if leaders.get(where, _NO_LEADER) != _NO_LEADER}
    ends = await offsets_at(cluster, led, LATEST)
    return [
        replace(group, progress=tuple(_row(at, of.get(at), ends.get(at), owned.get(at)) for at in rows))
        for group, of, owned, rows in zip(groups, offsets, owners, shown, strict=True)
    ]


def _row(
    where: TopicPartition,
    found: Committed | None,
    log_end_offset: int | None,
    owner: MemberDescription | None,
) -> PartitionProgress:
    return PartitionProgress(
        where.topic,
        where.partition,
        None if found is None else found.offset,
        log_end_offset,
        None if owner is None else owner.member_id,
        None if found is None else found.leader_epoch,
        "" if found is None else found.metadata,
        None if owner is None else owner.client_id,
        None if owner is None else owner.client_host,
    )
