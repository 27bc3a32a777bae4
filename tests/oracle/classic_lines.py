"""The lines of Migrations.java on its classic group: as it stands, and as a downgrade made it.

What an assignment lists is compared, not its bytes: a table's order is in them.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from coordinator.groups.classic.group import Group
from coordinator.groups.classic.member import Member, OfferedProtocol, Parked
from coordinator.groups.classic.states import GroupState
from coordinator.groups.classic.timers import JoinTimer, SessionTimer
from coordinator.groups.record_schemas import GroupMetadataValue
from protocol.consumer import decode_assignment, subscription_version

GROUP = "g"
VERSION = 5  # In which requests are parked.


def classic_group_of(said: dict[str, Any]) -> Group:
    """Return the classic group that a line describes; its requests are parked as "join m" or "sync m"."""
    group = Group(
        GROUP,
        state=GroupState(said["state"]),
        generation_id=said["generation"],
        protocol_name=said["protocol"],
        leader=said["leader"],
        protocol_type=said["protocolType"],
    )
    for each in said["members"]:
        group.add(_member_of(each), said["protocolType"])
    return group


def _member_of(said: dict[str, Any]) -> Member:
    member_id = said["memberId"]
    return Member(
        member_id=member_id,
        group_instance_id=said["groupInstanceId"],
        client_id=said["clientId"],
        client_host=said["clientHost"],
        rebalance_timeout_ms=said["rebalanceTimeout"],
        session_timeout_ms=said["sessionTimeout"],
        protocols=tuple(
            OfferedProtocol(each["name"], b64decode(each["metadata"])) for each in said["protocols"]
        ),
        assignment=b64decode(said["assignment"]),
        awaiting_join=Parked(f"join {member_id}", VERSION) if said["joins"] else None,
        awaiting_sync=Parked(f"sync {member_id}", VERSION) if said["syncs"] else None,
    )


def compare_downgraded(line: dict[str, Any], group: Group, timers: Mapping[Any, int]) -> bool:
    """Whether a downgrade made the same group of it, and the same timers. Raises AssertionError if not."""
    theirs = classic_group_of(line["downgraded"])
    for name in ("state", "generation_id", "protocol_type", "protocol_name", "leader", "static_members"):
        assert getattr(group, name) == getattr(theirs, name), f"another {name}: {getattr(group, name)}"
    assert _described(group) == _described(theirs), "other members"
    wanted: dict[Any, int] = {
        JoinTimer(GROUP)
        if key == f"join-{GROUP}"
        else SessionTimer(GROUP, key.removeprefix(f"heartbeat-{GROUP}-")): deadline_ms
        for key, deadline_ms in line["timers"].items()
    }
    assert timers == wanted, f"other timers: {timers}"
    return True


def _described(group: Group) -> dict[str, Any]:
    return {
        member_id: (
            each.group_instance_id,
            each.client_id,
            each.client_host,
            each.rebalance_timeout_ms,
            each.session_timeout_ms,
            each.protocols,
            each.is_parked,
            partitions_of(each.assignment),
        )
        for member_id, each in group.members.items()
    }


def group_metadata(record: dict[str, Any]) -> dict[str, Any]:
    """A GroupMetadata record of Kafka's, with its members in the order of their ids and what they are assigned."""
    value = record["value"]
    if value is None:
        return record
    members = [
        {**each, "assignment": partitions_of(b64decode(each["assignment"]))} for each in value["members"]
    ]
    by_id = sorted(members, key=lambda each: str(each["memberId"]))
    return {**record, "value": {**value, "members": by_id}}


def value_of_group(value: GroupMetadataValue) -> dict[str, Any]:
    """One of ours, in the form of `group_metadata`."""
    return {
        "protocolType": value.protocol_type,
        "generation": value.generation,
        "protocol": value.protocol,
        "leader": value.leader,
        "currentStateTimestamp": value.current_state_timestamp,
        "members": [
            {
                "memberId": each.member_id,
                "groupInstanceId": each.group_instance_id,
                "clientId": each.client_id,
                "clientHost": each.client_host,
                "rebalanceTimeout": each.rebalance_timeout,
                "sessionTimeout": each.session_timeout,
                "subscription": b64encode(each.subscription).decode(),
                "assignment": partitions_of(each.assignment),
            }
            for each in sorted(value.members, key=lambda each: each.member_id)
        ],
    }


def partitions_of(assignment: bytes) -> tuple[int, dict[str, list[int]]]:
    """Version and partitions of an assignment of the consumer protocol."""
    topics = decode_assignment(assignment).assigned_partitions
    return subscription_version(assignment), {each.topic: sorted(each.partitions) for each in topics}
