"""What the log says of a group, and the living group built from it when a shard is loaded.

A StoredGroup is replaced as a whole by each GroupMetadata record and never edited. Building the living
group forgets nothing the record holds and invents nothing it does not: of each member's protocols only
the chosen one is left, and a group with members is Stable, whatever it was doing (3.66, 3.67).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from coordinator.effects import new_tuple
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.member import Member, OfferedProtocol
from coordinator.groups.classic.states import EMPTY, STABLE
from coordinator.groups.record_schemas import GroupMetadataValue, MemberMetadata

NO_TIMESTAMP: Final = -1


class StoredMember(NamedTuple):
    """A member of a stored generation. Timeouts in ms."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes

    @classmethod
    def from_record(cls, member: MemberMetadata) -> StoredMember:
        """Return the stored member; where an old record has no rebalance timeout it is the session timeout."""
        stored_ms = member.rebalance_timeout
        fields = (
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.session_timeout if stored_ms == -1 else stored_ms,
            member.session_timeout,
            bytes(member.subscription),
            bytes(member.assignment),
        )
        return new_tuple(cls, fields)

    def to_record(self) -> MemberMetadata:
        """What `from_record` reads this out of."""
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.subscription,
            assignment=self.assignment,
        )


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """The last GroupMetadata record of a group, in the core's terms."""

    group_id: str
    protocol_type: str | None
    generation_id: int
    protocol_name: str | None
    leader: str | None
    state_wall_ms: int | None  # When the group took this state; None in the oldest records.
    members: tuple[StoredMember, ...]

    @classmethod
    def from_record(cls, group_id: str, value: GroupMetadataValue) -> StoredGroup:
        """Return the stored group; an empty protocol type and a timestamp of -1 become None."""
        timestamp = value.current_state_timestamp
        return cls(
            group_id=group_id,
            protocol_type=value.protocol_type or None,
            generation_id=value.generation,
            protocol_name=value.protocol,
            leader=value.leader,
            state_wall_ms=None if timestamp == NO_TIMESTAMP else timestamp,
            members=tuple(StoredMember.from_record(member) for member in value.members),
        )

    def value(self) -> GroupMetadataValue:
        """The value of a record that says this: what `from_record` reads it out of."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=self.protocol_name,
            leader=self.leader,
            current_state_timestamp=NO_TIMESTAMP if self.state_wall_ms is None else self.state_wall_ms,
            members=[member.to_record() for member in self.members],
        )


def living_group(stored: StoredGroup, now_ms: int) -> Group:
    """Return the living group after a restart: Stable, or Empty if it has no members (3.65, 3.68)."""
    group = Group(
        stored.group_id,
        state=STABLE if stored.members else EMPTY,
        generation_id=stored.generation_id,
        protocol_type=stored.protocol_type,
        protocol_name=stored.protocol_name,
        leader=stored.leader,
        state_since_ms=now_ms,
        state_wall_ms=stored.state_wall_ms,
    )
    for member in stored.members:
        group.add(_living_member(member, stored.protocol_name), stored.protocol_type or "")
    group.compute_subscribed_topics()
    return group


def _living_member(stored: StoredMember, protocol_name: str | None) -> Member:
    return Member(
        member_id=stored.member_id,
        group_instance_id=stored.group_instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        rebalance_timeout_ms=stored.rebalance_timeout_ms,
        session_timeout_ms=stored.session_timeout_ms,
        protocols=(OfferedProtocol(protocol_name or "", stored.subscription),),
        assignment=stored.assignment,
    )
