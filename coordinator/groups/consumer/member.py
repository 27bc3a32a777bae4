"""A member of a consumer group as it described itself: all that its record of type 5 says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from coordinator.groups.consumer.java_order import java_sorted
from coordinator.groups.consumer.record_schemas import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)


class OfferedProtocol(NamedTuple):
    """A protocol of a classic member, with its metadata."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """What only a member has that uses the classic protocol (KIP-848, migration)."""

    session_timeout_ms: int
    protocols: tuple[OfferedProtocol, ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """One member. Its topic names are a set, in the order in which they came."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""  # "/127.0.0.1", as Kafka shows it.
    rebalance_timeout_ms: int = -1
    topic_names: tuple[str, ...] = ()
    topic_regex: str = ""  # "" for none.
    server_assignor: str | None = None  # None: whatever the group has.
    classic: ClassicMember | None = None

    @property
    def origin(self) -> tuple[str, str]:
        """Client id and host of the process that is this member now."""
        return self.client_id, self.client_host

    @property
    def group_instance_id(self) -> str | None:
        """The instance id, under the name that causes know it by."""
        return self.instance_id

    def session_timeout_ms(self, of_group_ms: int) -> int:
        """Its own session timeout if it is a classic member, else that of its group."""
        return of_group_ms if self.classic is None else self.classic.session_timeout_ms

    def subscribes_as(self, other: ConsumerMember) -> bool:
        """Whether both name the same topics."""
        return set(self.topic_names) == set(other.topic_names)


def member_from_record(member_id: str, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    """Return the member of a record."""
    classic = value.classic_member_metadata
    return ConsumerMember(
        member_id=member_id,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topic_names=tuple(value.subscribed_topic_names),
        topic_regex=value.subscribed_topic_regex or "",
        server_assignor=value.server_assignor,
        # Without a protocol it is no classic member: the field is missing, as before it was thought of.
        classic=_classic_from_record(classic) if classic and classic.supported_protocols else None,
    )


def member_to_record(member: ConsumerMember) -> ConsumerGroupMemberMetadataValue:
    """Return the value of the member's record; its names are sorted as Java sorts."""
    classic = member.classic
    return ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=java_sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=None if classic is None else _classic_to_record(classic),
    )


def _classic_from_record(value: ClassicMemberMetadata) -> ClassicMember:
    offered = (OfferedProtocol(each.name, bytes(each.metadata)) for each in value.supported_protocols)
    return ClassicMember(value.session_timeout_ms, tuple(offered))


def _classic_to_record(classic: ClassicMember) -> ClassicMemberMetadata:
    return ClassicMemberMetadata(
        session_timeout_ms=classic.session_timeout_ms,
        supported_protocols=[
            ClassicProtocol(name=each.name, metadata=each.metadata) for each in classic.protocols
        ],
    )
