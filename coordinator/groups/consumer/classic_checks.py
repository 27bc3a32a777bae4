"""What a request of a classic member of a consumer group has to be; checks raise Refused (docs/kafka.md 9.9)."""

from __future__ import annotations

from enum import Enum, unique

from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.member import ClassicMember, ConsumerMember
from coordinator.groups.consumer.reconciliation import CurrentAssignment
from coordinator.groups.consumer.refusal import Refused
from protocol.consumer import PROTOCOL_TYPE
from protocol.errors import ErrorCode
from protocol.messages.sync_group import SyncGroupRequest


@unique
class MigrationPolicy(Enum):
    """`group.consumer.migration.policy`: which way a group with members may change its protocol."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


def check_may_join(policy: MigrationPolicy, group: ConsumerGroup) -> None:
    """Any policy but `disabled` lets classic members into a consumer group."""
    if policy is MigrationPolicy.DISABLED:
        message = (
            f"Cannot join the consumer group {group.group_id} with the classic protocol because the group "
            "migration is disabled."
        )
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)


def check_classic(member: ConsumerMember) -> ClassicMember:
    """Return what only a classic member has; one of the new protocol is unknown to these requests."""
    if member.classic is None:
        message = f"Member {member.member_id} does not use the classic protocol."
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, message)
    return member.classic


def check_generation(member: ConsumerMember, current: CurrentAssignment, generation_id: int) -> None:
    """A classic member's generation is its epoch."""
    if generation_id != current.member_epoch:
        message = (
            f"The request generation id {generation_id} is not equal to the member epoch "
            f"{current.member_epoch} of member {member.member_id}."
        )
        raise Refused(ErrorCode.ILLEGAL_GENERATION, message)


def check_protocol(member: ConsumerMember, classic: ClassicMember, request: SyncGroupRequest) -> None:
    """A SyncGroup that names its protocol names the one that its JoinGroup was answered with: its first."""
    if request.protocol_type not in (None, PROTOCOL_TYPE):
        message = (
            f"The protocol type {request.protocol_type} from member {member.member_id} request is not equal to "
            f"the group protocol type {PROTOCOL_TYPE}."
        )
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
    name = classic.protocols[0].name
    if request.protocol_name not in (None, name):
        message = (
            f"The protocol name {request.protocol_name} from member {member.member_id} request is not equal to "
            f"the protocol name {name} returned in the join response."
        )
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
