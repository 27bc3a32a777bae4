"""The upgrade of a classic group, as the first member of the new protocol joins it (KIP-848; docs/kafka.md 9.9).

The classic members keep what they had: the target and what each has are the classic assignment, in the epoch that
was its generation, and the joining member's step raises that epoch and computes the first target of its own. The
classic group is read here and not changed before all checks have passed: a refusal leaves it as it was.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from coordinator.effects import Effects, Moment
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.member import Member
from coordinator.groups.classic.records import new_group_tombstone
from coordinator.groups.classic.states import EMPTY, PREPARING_REBALANCE
from coordinator.groups.classic.timers import (
    JoinTimer,
    SessionTimer,
    SyncTimer,
    arm_session_timers,
    cancel_session_timer,
)
from coordinator.groups.consumer.assignors.specs import Target
from coordinator.groups.consumer.computing import Compute, Computed, ComputedUpgrade
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.java_order import JavaTable, int_hash, string_hash, uuid_hash
from coordinator.groups.consumer.member import ClassicMember, ConsumerMember, OfferedProtocol
from coordinator.groups.consumer.partition_epochs import PartitionHeldTwice
from coordinator.groups.consumer.reconciliation import CurrentAssignment
from coordinator.groups.consumer.records import group_records
from coordinator.groups.consumer.refusal import Refused
from coordinator.groups.consumer.shard_groups import ConsumerGroups
from protocol.consumer import decode_assignment, decode_subscription
from protocol.error_responses import response_with_error
from protocol.errors import DecodeError, ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.shared import TopicPartitions
from protocol.messages.sync_group import SyncGroupResponse

REFUSAL = "Cannot upgrade classic group {group_id} to consumer group because {why}."
CUSTOM_ASSIGNOR = (
    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor "
    "before re-attempting the upgrade"
)


MEMBER_WEIGHT: Final = 8
"""A classic member that is upgraded takes as long as so many members of a target, and its partitions on top."""

IN_FORCE = (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)
"""Outcomes of an append whose records are replayed, and stay: what comes of them later ends the log's epoch."""


@dataclass(frozen=True, slots=True)
class GroupUpgraded:
    """`Result.then` of storing an upgrade, with the classic group that is put back if it was not stored."""

    classic: Group


def upgrade(
    shard: ConsumerGroups, classic: Group, at: Moment, effects: Effects
) -> Generator[Compute[Computed], tuple[ComputedUpgrade, Moment], tuple[ConsumerGroup, Moment]]:
    """Return a classic group as the consumer group that it becomes; the records of that are among the effects.

    With it the time by when it is there.

    The group is not one of the shard's: it becomes one as its records are replayed. Raises Refused:
    GROUP_ID_NOT_FOUND, with a text that says why; COORDINATOR_LOAD_IN_PROGRESS while there is no generation yet;
    UNKNOWN_SERVER_ERROR if two members were assigned one partition.
    """
    effects.records.append(new_group_tombstone(classic.group_id))
    if classic.state is EMPTY:
        return ConsumerGroup(classic.group_id), at
    _check(shard, classic)
    weight = sum(MEMBER_WEIGHT + len(member.assignment) // 4 for member in classic.members.values())
    computed, at = yield Compute(classic.group_id, weight, partial(_computed, shard, classic))
    if isinstance(computed.upgraded, Refused):
        raise computed.upgraded
    effects.records += computed.records
    return computed.upgraded, at


def _computed(shard: ConsumerGroups, classic: Group) -> ComputedUpgrade:
    """Reads the classic group and the topics, and changes nothing."""
    try:
        group = _upgraded(shard, classic)
    except Refused as refused:
        return ComputedUpgrade(classic.group_id, refused)
    return ComputedUpgrade(classic.group_id, group, group_records(group))


def _check(shard: ConsumerGroups, classic: Group) -> None:
    if not shard.settings.migration_policy.allows_upgrade:
        raise _refusal(classic, "online upgrade is disabled")
    if not classic.uses_consumer_protocol:
        raise _refusal(classic, "the group does not use the consumer embedded protocol")
    if len(classic.members) > shard.settings.max_size:
        raise _refusal(classic, "the group size exceeds the consumer group maximum size")
    if any(classic.protocol_name not in each.protocol_names() for each in classic.members.values()):
        # In the first rebalance there is no protocol yet, in a later one that of before may be offered no more.
        # Kafka fails with an unknown error, for which a consumer gives up; of this one it tries again.
        raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def _refusal(classic: Group, why: str) -> Refused:
    return Refused(ErrorCode.GROUP_ID_NOT_FOUND, REFUSAL.format(group_id=classic.group_id, why=why))


def _upgraded(shard: ConsumerGroups, classic: Group) -> ConsumerGroup:
    epoch = classic.generation_id
    group = ConsumerGroup(classic.group_id, epoch, assignment_epoch=epoch)
    try:
        for member_id in _in_table_order(classic.members):
            member = classic.members[member_id]
            target = _target(shard, classic, member)
            assigned = {topic_id: dict.fromkeys(each, epoch) for topic_id, each in target.items()}
            current = CurrentAssignment(epoch, epoch, assigned=assigned)
            group.targets[member_id] = target
            group.put_member(_upgraded_member(classic, member), current)
    except PartitionHeldTwice:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR) from None
    except DecodeError:
        raise _refusal(classic, "the embedded consumer protocol is malformed") from None
    group.metadata_hash = shard.hash_of(group.subscriptions.topics())
    return group


def _in_table_order(member_ids: Iterable[str]) -> JavaTable[str]:
    table = JavaTable(string_hash)
    for member_id in member_ids:
        table.put(member_id)
    return table


def _target(shard: ConsumerGroups, classic: Group, member: Member) -> Target:
    """What the classic leader assigned to a member, of topics that exist."""
    if not member.assignment:
        return {}  # It has just joined.
    assignment = decode_assignment(member.assignment)
    if assignment.user_data:
        raise _refusal(classic, CUSTOM_ASSIGNOR)
    return _by_topic_id(shard, assignment.assigned_partitions)


def _by_topic_id(shard: ConsumerGroups, topics: list[TopicPartitions]) -> Target:
    partitions: dict[bytes, tuple[int, ...]] = {}
    for each in topics:
        image = shard.topics.image(each.topic)
        existing = (
            [] if image is None else [p for p in each.partitions if 0 <= p < len(image.racks_by_partition)]
        )
        if image is not None and existing:  # The topic may be smaller, if it was deleted and made again.
            partitions[image.topic_id] = tuple(JavaTable.of_list(int_hash, existing))
    table = JavaTable(uuid_hash)
    for topic_id in partitions:
        table.put(topic_id)
    return {topic_id: partitions[topic_id] for topic_id in table}


def _upgraded_member(classic: Group, member: Member) -> ConsumerMember:
    assert classic.protocol_name is not None, "a generation with members has a protocol"
    subscription = decode_subscription(member.metadata(classic.protocol_name))
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topic_names=tuple(dict.fromkeys(subscription.topics)),
        classic=ClassicMember(
            member.session_timeout_ms, tuple(OfferedProtocol(*offered) for offered in member.protocols)
        ),
    )


def leave_classic(shard: ConsumerGroups, classic: Group, at: Moment, effects: Effects) -> None:
    """Let the classic group go, which is upgraded: members that wait in it are to join again.

    Their sessions begin anew, each as long as it was. Nothing here may be refused any more.
    """
    del shard.classic_groups[classic.group_id]
    soft = shard.soft(classic.group_id)
    for member in classic.members.values():
        send_back(classic, member, effects)
        cancel_session_timer(classic.group_id, member, effects)
        soft.begin_session(member.member_id, at.now_ms, member.session_timeout_ms, effects)
    for member_id in classic.pending_members:
        effects.set_timer(SessionTimer(classic.group_id, member_id), None)
    effects.set_timer(JoinTimer(classic.group_id), None)
    effects.set_timer(SyncTimer(classic.group_id), None)
    effects.hand_back(GroupUpgraded(classic))


def send_back(classic: Group, member: Member, effects: Effects) -> None:
    """Answer what a member of a classic group waits in with REBALANCE_IN_PROGRESS: it is to join again."""
    error = ErrorCode.REBALANCE_IN_PROGRESS
    if join := classic.take_join(member):
        refusal = response_with_error(JoinGroupResponse, error, join.api_version)
        refusal.member_id = member.member_id
        effects.reply(join.reply_to, refusal)
    sync, member.awaiting_sync = member.awaiting_sync, None
    if sync is not None:
        effects.reply(sync.reply_to, response_with_error(SyncGroupResponse, error, sync.api_version))


def on_upgrade_stored(
    shard: ConsumerGroups, upgraded: GroupUpgraded, error: ErrorCode, at: Moment, effects: Effects
) -> None:
    """If an upgrade was refused, put the classic group back, as it was but for who waited in it.

    One that the disk takes long to store is in force all the same.
    """
    if error in IN_FORCE:
        return
    classic = upgraded.classic
    shard.forget(classic.group_id, effects)
    shard.classic_groups[classic.group_id] = classic
    arm_session_timers(classic.group_id, classic.members.values(), at.now_ms, effects)
    for member_id, pending in classic.pending_members.items():
        effects.set_timer(SessionTimer(classic.group_id, member_id), pending.timer_ms)
    if classic.state is PREPARING_REBALANCE:
        effects.set_timer(JoinTimer(classic.group_id), classic.join_deadline_ms)
    if classic.pending_sync:
        effects.set_timer(SyncTimer(classic.group_id), classic.sync_deadline_ms)
