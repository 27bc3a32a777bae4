"""Who owns what, by what leaders were given to decide: the subscriptions of each generation, as answers said them.

Every partition of every topic that a generation subscribed to has exactly one owner in it, who subscribed to that
topic. A static member that comes back while the group is Stable takes over what its predecessor has, be its own
subscription what it may (KAFKA.md 3.33): then it is the predecessor's subscription that counts, until the next
generation. Knows no sessions and no log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from protocol.consumer import ConsumerProtocolSubscription, decode_subscription

if TYPE_CHECKING:
    from tests.groups.driver import Topics
    from tests.simulation.consumer import Consumer

Roster = dict[str, ConsumerProtocolSubscription]


class Ownership:
    """Fed with every JoinGroup answer of a leader, and every static member that takes over."""

    def __init__(self) -> None:
        self._rosters: dict[tuple[str, int], Roster] = {}  # By group and generation.
        self._predecessors: dict[str, str] = {}  # Member ids; they are never handed out twice.

    def on_leader_answered(self, group_id: str, answer: Any) -> None:
        """A leader has been given the members it assigns to."""
        self._rosters[group_id, answer.generation_id] = {
            member.member_id: decode_subscription(bytes(member.metadata)) for member in answer.members
        }

    def on_replaced(self, member_id: str, old_member_id: str) -> None:
        self._predecessors[member_id] = old_member_id

    def subscription_of(self, group_id: str, generation_id: int, member_id: str) -> tuple[str, bool] | None:
        """Under which id a member of the generation subscribed, and whether that was another process's."""
        roster = self._rosters.get((group_id, generation_id), {})
        origin: str | None = member_id
        while origin is not None and origin not in roster:
            origin = self._predecessors.get(origin)
        return None if origin is None else (origin, origin != member_id)

    def unsettled(
        self, group_id: str, generation_id: int, live: Sequence[Consumer], topics: Topics
    ) -> Iterator[str]:
        """What `live`, all members of a Stable group, own otherwise than they should."""
        roster = self._rosters.get((group_id, generation_id), {})
        for consumer in live:
            found = self.subscription_of(group_id, generation_id, consumer.member_id)
            if found is None:
                yield f"{consumer.member_id} of {group_id} is in no list of generation {generation_id}"
                return
            origin, is_taken_over = found
            subscribed = set(roster[origin].topics)
            if not is_taken_over and subscribed != set(consumer.subscription):
                yield f"{consumer.member_id} of {group_id} subscribed to {consumer.subscription}, not {subscribed}"
            if not {topic for topic, _ in consumer.owned} <= subscribed:
                yield f"{consumer.member_id} of {group_id} owns {consumer.owned}, subscribed to {subscribed}"
        wanted = {topic for subscription in roster.values() for topic in subscription.topics}
        everything = sorted((topic, p) for topic in wanted for p in range(topics.partition_count(topic) or 0))
        owned = sorted(where for consumer in live for where in consumer.owned)
        if owned != everything:
            yield f"{group_id} owns {owned}"
