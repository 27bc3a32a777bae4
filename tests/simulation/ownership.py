"""Who owns what, by what leaders were given to decide and by what they decided.

Every partition of every topic that a generation subscribed to has exactly one owner in it, who subscribed to that
topic. A static member that comes back while the group is Stable takes over what its predecessor has, be its own
subscription what it may (docs/kafka.md 3.33): then it is the predecessor's subscription that counts, until the
next generation. In a cooperative group a partition that moves is unowned for a generation: the member that said in
its JoinGroup that it holds one is the only one that may be given it (KIP-429). Knows no sessions and no log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from protocol.consumer import ConsumerProtocolSubscription, decode_assignment, decode_subscription
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.sync_group import SyncGroupRequest
from tests.simulation.marks import Marks
from tests.simulation.profile import CONNECT, CONNECT_TASKS, CONNECT_TOPIC, COOPERATIVE
from tests.simulation.sticky import Partition, holders

if TYPE_CHECKING:
    from tests.simulation.catalogue import Catalogue
    from tests.simulation.consumer import Consumer

Roster = dict[str, ConsumerProtocolSubscription]
Generation = tuple[str, int]
"""Group and generation id: after a crash one may come a second time, and then the second counts."""


class Ownership:
    """Fed with every JoinGroup answer of a leader, its SyncGroup, and every static member that takes over."""

    def __init__(self, violated: Callable[[str], None], marks: Marks) -> None:
        self._violated = violated
        self._marks = marks
        self._rosters: dict[Generation, Roster] = {}
        self._answered: set[Generation] = set()  # Since the group began.
        self._holders: dict[Generation, dict[Partition, str]] = {}  # In cooperative groups.
        self._assigned: dict[Generation, list[Partition]] = {}
        self._predecessors: dict[str, str] = {}  # Member ids; they are never handed out twice.

    def on_leader_answered(self, request: JoinGroupRequest, answer: Any) -> None:
        """A leader has been given the members it assigns to."""
        generation = request.group_id, answer.generation_id
        self._answered.add(generation)
        if request.protocol_type == CONNECT:
            plain = ConsumerProtocolSubscription(topics=[CONNECT_TOPIC])
            self._rosters[generation] = dict.fromkeys((m.member_id for m in answer.members), plain)
            return
        self._rosters[generation] = roster = {
            member.member_id: decode_subscription(bytes(member.metadata)) for member in answer.members
        }
        self._holders[generation] = holders(roster) if answer.protocol_name == COOPERATIVE else {}

    def on_leader_assigned(self, request: SyncGroupRequest) -> None:
        """What a leader has decided is about to be stored."""
        assigned = [where for each in request.assignments for where in partitions_in(bytes(each.assignment))]
        generation = request.group_id, request.generation_id
        self._assigned[generation] = sorted(assigned)
        if not self._holders.get(generation, {}).keys() <= set(assigned):
            self._marks.reach("partition_unowned_for_a_generation")

    def on_replaced(
        self, request: JoinGroupRequest, member_id: str, old_member_id: str, kept: int | None
    ) -> None:
        """A static member came back, and `kept` its place in this generation if there is one."""
        self._predecessors[member_id] = old_member_id
        if kept is not None and (origin := self._origin((request.group_id, kept), old_member_id)):
            said = decode_subscription(bytes(request.protocols[0].metadata)).topics
            if set(said) != set(self._rosters[request.group_id, kept][origin].topics):
                self._marks.reach("kept_with_other_subscription")

    def on_group_ended(self, group_id: str) -> None:
        """Its generations are counted from the start again, unless that is lost in a crash."""
        self._answered = {each for each in self._answered if each[0] != group_id}

    def was_answered(self, group_id: str, generation_id: int) -> bool:
        """Whether a leader has been given the members of this generation."""
        return (group_id, generation_id) in self._answered

    def on_assignment(self, request: SyncGroupRequest, assignment: bytes) -> None:
        """A member has been given its partitions."""
        generation = request.group_id, request.generation_id
        held = self._holders.get(generation, {})
        origin = self._origin(generation, request.member_id)
        for where in partitions_in(assignment) if held else ():
            holder = held.get(where, origin)
            if holder != origin:
                self._violated(
                    f"{where} went from {holder} to {origin} in {generation}, and was not given up"
                )

    def _origin(self, generation: Generation, member_id: str) -> str | None:
        """Under which id a member of the generation subscribed."""
        roster = self._rosters.get(generation, {})
        origin: str | None = member_id
        while origin is not None and origin not in roster:
            origin = self._predecessors.get(origin)
        return origin

    def unsettled(self, generation: Generation, live: Sequence[Consumer], topics: Catalogue) -> Iterator[str]:
        """What `live`, all members of a Stable group, own otherwise than they should."""
        roster = self._rosters.get(generation, {})
        for consumer in live:
            origin = self._origin(generation, consumer.member_id)
            if origin is None:
                yield f"{consumer.member_id} is in no list of {generation}"
                return
            subscribed = set(roster[origin].topics)
            if origin == consumer.member_id and subscribed != set(consumer.subscription):
                yield f"{origin} of {generation} subscribed to {consumer.subscription}, not {subscribed}"
            if not {topic for topic, _ in consumer.owned} <= subscribed:
                yield f"{consumer.member_id} owns {consumer.owned} in {generation}, subscribed to {subscribed}"
        wanted = {topic for subscription in roster.values() for topic in subscription.topics}
        everything = sorted((topic, p) for topic in wanted for p in range(_count(topic, topics)))
        owned = sorted(where for consumer in live for where in consumer.owned)
        assigned = self._assigned.get(generation)
        if owned != assigned:
            yield f"{generation} owns {owned}, assigned were {assigned}"
        # A leader that knows it has looked at the topics since. One that came back as a follower does not, nor one
        # that must not assign, nor has one that decided twice, as its first request was late: the first is kept.
        if owned != everything and any(consumer.leads and consumer.decided == assigned for consumer in live):
            yield f"{generation} owns {owned} of {everything}"


def _count(topic: str, topics: Catalogue) -> int:
    return CONNECT_TASKS if topic == CONNECT_TOPIC else topics.partition_count(topic) or 0


def partitions_in(assignment: bytes) -> Iterator[Partition]:
    """What an assignment gives; nothing if it is empty."""
    for assigned in decode_assignment(assignment).assigned_partitions if assignment else ():
        for partition in assigned.partitions:
            yield assigned.topic, partition
