"""A sticky assignor by the rules of cooperative rebalancing (KIP-429): what moves is first given up.

Each member says what it holds and since which generation. It keeps as much of that as is its share; what is to
move is given to no member in this generation, so that its holder gives it up and joins again, and is given to
its new owner in the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from protocol.consumer import ConsumerProtocolSubscription

Partition = tuple[str, int]
Assigned = dict[str, list[Partition]]


def holders(members: Mapping[str, ConsumerProtocolSubscription]) -> dict[Partition, str]:
    """Who holds what, by the newest word; what two hold since the same generation neither does."""
    newest: dict[Partition, tuple[int, str | None]] = {}
    for member_id, subscription in sorted(members.items()):
        for each in subscription.owned_partitions:
            for partition in each.partitions:
                key, since = (each.topic, partition), subscription.generation_id
                known = newest.get(key, (-2, None))[0]
                if since >= known:
                    newest[key] = (since, None if since == known else member_id)
    return {key: member_id for key, (_, member_id) in newest.items() if member_id is not None}


def assign(
    members: Mapping[str, ConsumerProtocolSubscription], partition_count: Callable[[str], int | None]
) -> Assigned:
    """What each member is to own in this generation."""
    held = holders(members)
    topics = sorted({topic for subscription in members.values() for topic in subscription.topics})
    everything = [(topic, p) for topic in topics for p in range(partition_count(topic) or 0)]
    wanted = _balanced(members, held, everything)
    return {
        member_id: [key for key in keys if held.get(key, member_id) == member_id]
        for member_id, keys in wanted.items()
    }


def _balanced(
    members: Mapping[str, ConsumerProtocolSubscription],
    held: Mapping[Partition, str],
    everything: Iterable[Partition],
) -> Assigned:
    wanted: Assigned = {member_id: [] for member_id in members}
    rest = []
    share = -(-len(list(everything)) // len(members))
    for key in everything:
        holder = held.get(key)
        if holder is not None and key[0] in members[holder].topics and len(wanted[holder]) < share:
            wanted[holder].append(key)
        else:
            rest.append(key)
    for key in rest:
        readers = [member_id for member_id in sorted(members) if key[0] in members[member_id].topics]
        wanted[min(readers, key=lambda member_id: len(wanted[member_id]))].append(key)
    return wanted
