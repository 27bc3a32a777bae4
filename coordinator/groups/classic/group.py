"""The living group: its members, its generation, and what can be asked about them.

This is bookkeeping only: counts and indexes that follow the members, so that no question costs more
than a look-up. What a change of membership leads to is in `rebalance`; what the log holds of the group is
in `stored`. Nothing here knows a request or sets a timer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from coordinator.effects import ReplyTo
from coordinator.groups.classic.member import Member, OfferedProtocol, Parked
from coordinator.groups.classic.states import EMPTY, PREPARING_REBALANCE, GroupState
from protocol.consumer import PROTOCOL_TYPE as CONSUMER_PROTOCOL_TYPE
from protocol.consumer import decode_subscription
from protocol.errors import DecodeError, ErrorCode

PENDING_MEMBERS_MAX: Final = 10_000
"""The most member ids of one group that were handed out and are not used yet (about 150 bytes each).

Kafka sets no bound. Ids expire with their session timeout, so only a faulty client reaches this one.
"""


class InitialDelay(NamedTuple):
    """How long a group that left Empty waits for more members, slice by slice (3.11, 3.12); all in ms."""

    first_slice_ms: int  # `group.initial.rebalance.delay.ms`; no later slice is longer.
    slice_ms: int
    remaining_ms: int
    member_came: bool = False  # A member joined during this slice, so there will be another one.


class PendingMember(NamedTuple):
    """A member id that was handed out and is not used yet; monotonic ms."""

    deadline_ms: int  # When it is forgotten.
    timer_ms: int  # When its timer fires, which becomes the session timer of the member that uses the id.


@dataclass(frozen=True, slots=True)
class AssignmentStored:
    """`Result.then` of storing the leader's assignment: its generation, and the assignment of each member."""

    group_id: str
    generation_id: int
    assignments: dict[str, bytes]


class Arrival(NamedTuple):
    """A member that arrived in the present phase of a rebalance, and when (monotonic ms)."""

    member_id: str
    client_id: str
    client_host: str
    now_ms: int
    group_instance_id: str | None = None


@dataclass(slots=True)
class Group:
    """One classic group. `state` is assigned by `transition` alone."""

    group_id: str
    state: GroupState = EMPTY
    generation_id: int = 0
    protocol_type: str | None = None  # None: a simple group, which only has offsets.
    protocol_name: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)  # Instance id to member id.
    pending_members: dict[str, PendingMember] = field(default_factory=dict)  # By id; MEMBER_ID_REQUIRED.
    pending_sync: set[str] = field(default_factory=set)  # Ids of members that have not sent their SyncGroup.
    subscribed_topics: frozenset[str] | None = None  # None: not known.
    state_since_ms: int | None = None
    state_wall_ms: int | None = None  # When it took its state, as stored; offsets may age from then (O18).
    initial_delay: InitialDelay | None = None  # Set during a join phase that began in Empty.
    join_deadline_ms: int = 0
    sync_deadline_ms: int = 0
    storing: AssignmentStored | None = None  # The append that would make this generation Stable.
    last_arrival: Arrival | None = None  # The last member that arrived in the present phase.
    rebalance_cause: str | None = None  # Slug of the cause that began the present rebalance.
    rebalance_ms: dict[str, int] = field(default_factory=dict)  # Time spent in each of its phases that ended.
    assigned_counts: dict[str, int | None] = field(default_factory=dict)  # Kept by `partition_counts`.
    joined_count: int = 0  # Members with a parked JoinGroup.
    protocol_counts: Counter[str] = field(default_factory=Counter)  # How many members offer each protocol.

    @property
    def all_joined(self) -> bool:
        """Whether every member is parked in JoinGroup and every id that was handed out has been used."""
        return self.joined_count == len(self.members) and not self.pending_members

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether its members are consumers, whose subscriptions can be read."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout that any member asks for, in ms."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def membership_error(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Return NONE for a member with its own instance id; else FENCED_INSTANCE_ID or UNKNOWN_MEMBER_ID."""
        if group_instance_id is not None:
            holder = self.static_members.get(group_instance_id)
            if holder is not None and holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def accepts_protocols(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member may join with these: the group's protocol type, and a protocol all members offer."""
        if self.state is EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        is_shared = any(self.protocol_counts[name] == len(self.members) for name in names)
        return self.protocol_type == protocol_type and is_shared

    def has_room_for(self, member_id: str, group_max_size: int) -> bool:
        """Whether `member_id` ("" for a new member) may join a group of at most `group_max_size` (3.30)."""
        member = self.members.get(member_id)
        if self.state is EMPTY:
            return True
        if self.state is PREPARING_REBALANCE:
            # Parked members are counted, not all members: a group over its size rejects the last to rejoin.
            return (member is not None and member.awaiting_join is not None) or (
                self.joined_count < group_max_size
            )
        return member is not None or len(self.members) < group_max_size

    def add(self, member: Member, protocol_type: str) -> None:
        """Add `member`; the first one becomes leader, and sets the group's protocol type."""
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.leader = self.leader or member.member_id
        self.joined_count += member.awaiting_join is not None
        self._count_protocols(member)

    def remove(self, member_id: str) -> None:
        """Remove a member; if it was the leader, the member that has been in the group longest becomes leader."""
        member = self.members.pop(member_id)
        self.joined_count -= member.awaiting_join is not None
        self._uncount_protocols(member)
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_sync.discard(member_id)

    def rename(self, member: Member, member_id: str) -> None:
        """Give a static member a new member id; it keeps its assignment, and stays leader if it was."""
        old_id = member.member_id
        del self.members[old_id]
        member.member_id = member_id
        self.members[member_id] = member
        assert member.group_instance_id is not None, "only static members are renamed"
        self.static_members[member.group_instance_id] = member_id
        if self.leader == old_id:
            self.leader = member_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(member_id)

    def update_protocols(self, member: Member, protocols: tuple[OfferedProtocol, ...]) -> None:
        """Replace the protocols that `member` offers."""
        self._uncount_protocols(member)
        member.protocols = protocols
        self._count_protocols(member)

    def record_arrival(self, member: Member, now_ms: int) -> None:
        """Record that `member` has arrived in the present phase, as the last one so far."""
        self.last_arrival = Arrival(member.member_id, *member.origin, now_ms, member.group_instance_id)

    def park_join(self, member: Member, parked: Parked, now_ms: int) -> tuple[ReplyTo, ...]:
        """Park the member's JoinGroup until the join phase ends; return the parked request it replaces, if any."""
        before, member.awaiting_join = member.awaiting_join, parked
        self.record_arrival(member, now_ms)
        if before is None:
            self.joined_count += 1
            return ()
        return (before.reply_to,)

    def take_join(self, member: Member) -> Parked | None:
        """Remove and return the member's parked JoinGroup, for the caller to answer; None if it has none."""
        parked, member.awaiting_join = member.awaiting_join, None
        self.joined_count -= parked is not None
        return parked

    def elect_joined_leader(self) -> bool:
        """Keep a leader that joined, else elect a member that did; return False if none joined (3.18)."""
        if self.leader is None:
            return False
        if self.members[self.leader].awaiting_join is None:
            joined = (m.member_id for m in self.members.values() if m.awaiting_join is not None)
            self.leader = next(joined, self.leader)
        return self.members[self.leader].awaiting_join is not None

    def vote(self) -> str:
        """Return the protocol that most members prefer, of those that all offer; in a tie, the first voted for."""
        everyone = len(self.members)
        candidates = {name for name, count in self.protocol_counts.items() if count == everyone}
        if len(candidates) == 1:
            return candidates.pop()  # All members vote for it.
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(votes, key=votes.__getitem__)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members read `topic`; consumers whose subscription cannot be decoded may read any (O21)."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def compute_subscribed_topics(self) -> None:
        """Set `subscribed_topics` from the subscriptions of this generation's members."""
        self.subscribed_topics = self._read_subscriptions()

    def _read_subscriptions(self) -> frozenset[str] | None:
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        try:
            # Most members of a group have the same, byte by byte.
            metadata = dict.fromkeys(m.metadata(self.protocol_name) for m in self.members.values())
            wanted = [decode_subscription(each).topics for each in metadata]
        except DecodeError:
            return None
        return frozenset(topic for topics in wanted for topic in topics)

    def _count_protocols(self, member: Member) -> None:
        counts = self.protocol_counts
        for name in member.protocol_names():  # Counter.update takes 2 us, in every join.
            counts[name] += 1

    def _uncount_protocols(self, member: Member) -> None:
        counts = self.protocol_counts
        for name in member.protocol_names():
            counts[name] -= 1
            if not counts[name]:
                del counts[name]
