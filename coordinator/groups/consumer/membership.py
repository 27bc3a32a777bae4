"""Who a heartbeat is from: a member, one that it makes, or one that it takes over (docs/kafka.md 9.1, A12)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from coordinator.effects import Effects
from coordinator.groups.consumer.assignors.specs import as_kept
from coordinator.groups.consumer.group import LEFT_FOR_NOW_EPOCH, ConsumerGroup
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.reconciliation import CurrentAssignment, PartitionEpochs
from coordinator.groups.consumer.records import (
    member_tombstones,
    new_current_record,
    new_member_record,
    new_target_record,
)
from coordinator.groups.consumer.refusal import Refused
from coordinator.groups.consumer.replay import NEW_MEMBER
from coordinator.groups.consumer.request_checks import JOIN_EPOCH
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatTopicPartitions,
)

FENCED: Final = (
    "The consumer group member has a {how} member epoch ({received}) than the one known by the group coordinator "
    "({known}). The member must abandon all its partitions and rejoin."
)


class Found(NamedTuple):
    """A member as it was, and what it has; `took_over_from` is the id of the static one that it replaces."""

    member: ConsumerMember
    current: CurrentAssignment
    took_over_from: str | None = None


def find_member(
    group: ConsumerGroup, member_id: str, request: ConsumerGroupHeartbeatRequest, effects: Effects
) -> Found:
    """Return the member that a heartbeat is from. Raises Refused; the records of a takeover are among the effects.

    Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID, FENCED_MEMBER_EPOCH.
    """
    if request.instance_id is None:
        found = known_member(group, member_id) if member_id in group.members else None
        if found is None and request.member_epoch != JOIN_EPOCH:
            raise Refused(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}."
            )
    else:
        holder = group.static_member(request.instance_id)
        if request.member_epoch == JOIN_EPOCH:
            if holder is not None:
                _check_has_left(group, holder, member_id, request.instance_id)
                return take_over(group, holder, member_id, effects)
            found = known_member(group, member_id) if member_id in group.members else None
        else:
            found = known_member(group, check_instance(holder, member_id, request.instance_id).member_id)
    found = found or Found(ConsumerMember(member_id), NEW_MEMBER)
    _check_epoch(found.current, request)
    return found


def check_instance(holder: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
    """Return the member that has an instance id. Raises Refused if there is none, or it has another id."""
    if holder is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        message = (
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{holder.member_id}."
        )
        raise Refused(ErrorCode.FENCED_INSTANCE_ID, message)
    return holder


def known_member(group: ConsumerGroup, member_id: str) -> Found:
    """A member that is there, with what it has."""
    return Found(group.members[member_id], group.currents[member_id])


def _check_has_left(group: ConsumerGroup, holder: ConsumerMember, member_id: str, instance_id: str) -> None:
    """Of two members of the new protocol the second takes over only if the first has left for now."""
    epoch = group.currents[holder.member_id].member_epoch
    if holder.classic is None and epoch != LEFT_FOR_NOW_EPOCH:
        message = (
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
            f"instance id is owned by {holder.member_id} member."
        )
        raise Refused(ErrorCode.UNRELEASED_INSTANCE_ID, message)


def take_over(group: ConsumerGroup, holder: ConsumerMember, member_id: str, effects: Effects) -> Found:
    """Let a static member that joins be the one that has its instance id, with all that that one has."""
    member = replace(holder, member_id=member_id)
    current = replace(group.currents[holder.member_id], member_epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    effects.records += member_tombstones(group.group_id, holder.member_id)
    effects.records.append(new_member_record(group.group_id, member))
    target = as_kept(group.targets.get(holder.member_id, {}))
    effects.records.append(new_target_record(group.group_id, member_id, target))
    effects.records.append(new_current_record(group.group_id, member_id, current))
    return Found(member, current, None if holder.member_id == member_id else holder.member_id)


def _check_epoch(current: CurrentAssignment, request: ConsumerGroupHeartbeatRequest) -> None:
    """Raise Refused if the heartbeat is of another epoch; the one before may be an answer that was lost (A31)."""
    received, known = request.member_epoch, current.member_epoch
    if received in (JOIN_EPOCH, known):
        return
    owned = request.topic_partitions
    if received == current.previous_epoch and received < known and _are_of(owned, current.assigned):
        return
    how = "greater" if received > known else "smaller"
    raise Refused(ErrorCode.FENCED_MEMBER_EPOCH, FENCED.format(how=how, received=received, known=known))


def _are_of(owned: list[ConsumerGroupHeartbeatTopicPartitions] | None, assigned: PartitionEpochs) -> bool:
    if owned is None:
        return False
    return all(
        each.topic_id in assigned and assigned[each.topic_id].keys() >= set(each.partitions) for each in owned
    )
