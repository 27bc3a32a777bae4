"""The processes of a group and the requests that they send to the coordinator, which are those of Java's client.

Nothing happens here: `simulated_groups` says when a client does what, and what becomes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from protocol.consumer import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_assignment,
    encode_subscription,
)
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.shared import TopicPartitions
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tools.simulate.population import SPARSE, Groups, Topics

ASSIGNOR: Final = "range"
SESSION_TIMEOUT_MS: Final = 45_000
REBALANCE_TIMEOUT_MS: Final = 300_000  # The default of max.poll.interval.ms, which Java's client sends.
HEARTBEAT_MS: Final = 3_000
POLL_MS: Final = 200  # How long a poll's records take as a rule; a member rejoins only between two polls.
SLOW_POLL_MS: Final = 20_000

REQUEST_VERSIONS: Final[dict[type, int]] = {JoinGroupRequest: 9, SyncGroupRequest: 5, LeaveGroupRequest: 5}


class Phase(Enum):
    """What a client is doing, as far as its group is concerned."""

    APART = "apart"  # It is not in the group.
    JOINING = "joining"
    SYNCING = "syncing"
    SETTLED = "settled"


@dataclass(slots=True, eq=False)
class Client:
    """One process, from start to end; a restarted process is another Client under the same client id."""

    plan: GroupPlan
    ordinal: int
    client_id: str
    client_host: str
    instance_id: str | None
    member_id: str = ""
    generation_id: int = -1
    phase: Phase = Phase.APART
    is_up: bool = True
    rejoins_at_ms: int | None = None  # When it will have learned of the rebalance that it has to join.


@dataclass(slots=True, eq=False)
class GroupPlan:
    """One group of the population and its present state."""

    number: int  # The group's position in the population.
    group_id: str
    kind: int
    partition: int  # Of `__consumer_offsets`.
    size: int  # The number of clients that the group is meant to have.
    is_static: bool
    scales: bool
    is_stormy: bool
    poll_ms: int
    peak_hour: float
    topics: tuple[tuple[str, int], ...]  # Name and partition count.
    protocols: list[JoinGroupRequestProtocol]
    clients: dict[int, Client] = field(default_factory=dict)  # By ordinal: the running or last process.
    by_member_id: dict[str, Client] = field(default_factory=dict)
    is_deploying: bool = False
    is_stalled: bool = False  # What its members write to is down: they poll and make no progress.
    storm_until_ms: int = 0
    is_consuming: bool = False  # The group is Stable.
    member_count: int = 0
    generation_id: int = 0
    turns: list[tuple[int, bool]] | None = None  # (time, is_consuming) of each change; None: not recorded.


def new_plan(groups: Groups, topics: Topics, number: int, partition: int) -> GroupPlan:
    """The plan of group `number`, whose partition of `__consumer_offsets` is `partition`."""
    own = tuple((topics.names[topic], int(topics.partitions[topic])) for topic in groups.topics[number])
    metadata = encode_subscription(ConsumerProtocolSubscription(topics=[name for name, _ in own]))
    return GroupPlan(
        number=number,
        group_id=groups.names[number],
        kind=int(groups.kinds[number]),
        partition=partition,
        size=int(groups.members[number]),
        is_static=bool(groups.is_static[number]),
        scales=bool(groups.scales[number]),
        is_stormy=bool(groups.is_stormy[number]),
        poll_ms=SLOW_POLL_MS if groups.is_slow[number] else POLL_MS,
        peak_hour=float(topics.peak_hours[groups.topics[number][0]]),
        topics=own,
        protocols=[JoinGroupRequestProtocol(name=ASSIGNOR, metadata=metadata)],
    )


def new_client(plan: GroupPlan, ordinal: int, host: int) -> Client:
    """A process of the group; its address is made of `host`, a number below 2^24."""
    client_id = f"{plan.group_id}-{ordinal}"
    address = f"/10.{host >> 16 & 255}.{host >> 8 & 255}.{host & 255}"
    static = plan.is_static and plan.kind != SPARSE
    return Client(plan, ordinal, client_id, address, client_id if static else None)


def join_request(client: Client, reason: str) -> JoinGroupRequest:
    """A JoinGroup with the member id that the client has, or with none."""
    return JoinGroupRequest(
        group_id=client.plan.group_id,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        member_id=client.member_id,
        group_instance_id=client.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=client.plan.protocols,
        reason=reason,
    )


def sync_request(client: Client, assignments: list[SyncGroupRequestAssignment]) -> SyncGroupRequest:
    """A SyncGroup request; `assignments` is empty for all but the leader."""
    return SyncGroupRequest(
        group_id=client.plan.group_id,
        generation_id=client.generation_id,
        member_id=client.member_id,
        group_instance_id=client.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=ASSIGNOR,
        assignments=assignments,
    )


def leave_request(client: Client, reason: str) -> LeaveGroupRequest:
    identity = MemberIdentity(member_id=client.member_id, group_instance_id=client.instance_id, reason=reason)
    return LeaveGroupRequest(group_id=client.plan.group_id, members=[identity])


def assignments_of(plan: GroupPlan, answer: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
    """The leader's assignment: every partition to one member, in turn. Empty for a follower."""
    member_ids = sorted(member.member_id for member in answer.members)
    if not member_ids:
        return []
    owned: dict[str, list[TopicPartitions]] = {member_id: [] for member_id in member_ids}
    lane = 0
    for topic, count in plan.topics:
        for member_id, partitions in _dealt(member_ids, lane, count).items():
            owned[member_id].append(TopicPartitions(topic=topic, partitions=partitions))
        lane += count
    return [
        SyncGroupRequestAssignment(
            member_id=member_id,
            assignment=encode_assignment(ConsumerProtocolAssignment(assigned_partitions=parts)),
        )
        for member_id, parts in owned.items()
    ]


def _dealt(member_ids: Sequence[str], first: int, count: int) -> dict[str, list[int]]:
    """One topic's partitions by member id: lane n goes to member n mod m; partition 0 is lane `first`."""
    dealt: dict[str, list[int]] = {}
    for partition in range(count):
        dealt.setdefault(member_ids[(first + partition) % len(member_ids)], []).append(partition)
    return dealt
