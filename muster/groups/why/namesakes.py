"""Members of one group that look alike: where several with one name were there at once, each is named with its id.

Others are named as they are. One that comes back has a new member id, and is no namesake of the one that it was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from coordinator.effects import GroupEvent
from coordinator.history.rebalances import Rebalance
from muster.groups.why.kinds import ARRIVALS, DEPARTURES
from muster.groups.why.words import member_name, name

WHOLE_MAX: Final = 12
"""The most characters of an id, without the client id in front of it, that is shown as it is."""
SHOWN_MIN: Final = 8
"""So many characters a longer one is shown with, or as many as tell it apart."""


class Named(NamedTuple):
    """A member without an instance id, which would tell it apart."""

    member_id: str
    client_id: str | None
    client_host: str | None


@dataclass(frozen=True, slots=True)
class Namesakes:
    """What tells members with the same name apart, by member id; nothing for all others."""

    marks: Mapping[str, str]

    def has(self, member_id: str | None) -> bool:
        """Whether this is a member that looks like another."""
        return member_id is not None and member_id in self.marks

    def told_apart(self, shown: str, member_id: str | None) -> str:
        """The name of a member, with its id if it needs one."""
        mark = self.marks.get(member_id or "")
        return shown if mark is None else f"{shown} (member {mark})"

    def of_event(self, event: GroupEvent) -> str:
        """The member behind an event."""
        client = (event.client_id, event.client_host)
        shown = member_name(event.group_instance_id, *client, event.member_id)
        return self.told_apart(shown, event.member_id)

    def last_of(self, rebalance: Rebalance) -> str:
        """The member that was the last, or was waited for."""
        client = (rebalance.last_client_id, rebalance.last_client_host)
        shown = member_name(rebalance.last_group_instance_id, *client, rebalance.last_member_id)
        return self.told_apart(shown, rebalance.last_member_id)


NONE: Final = Namesakes({})


def namesakes_of(events: Iterable[GroupEvent], members: Iterable[Named] = ()) -> Namesakes:
    """The namesakes among those who came and went by these events, oldest first, and among the members of now."""
    look = _Look()
    for event in events:
        look.add(event)
    look.there.clear()
    for member in members:
        look.arrive(member)
    return Namesakes(dict(look.marks()))


class _Look:
    """Who was there at once, by name."""

    def __init__(self) -> None:
        self.there: defaultdict[str, set[str]] = defaultdict(set)
        self._tails: defaultdict[str, dict[str, str]] = defaultdict(dict)  # Of all ids, by name and id.
        self._name_of: dict[str, str] = {}
        self._alike: set[str] = set()
        self._names: dict[tuple[str | None, str | None], str] = {}

    def add(self, event: GroupEvent) -> None:
        """Take in the next event; one that goes was there."""
        is_named = event.member_id is not None and event.group_instance_id is None
        if is_named and event.cause in ARRIVALS | DEPARTURES:
            assert event.member_id is not None
            self.arrive(Named(event.member_id, event.client_id, event.client_host))
        if event.cause in DEPARTURES:
            for member_id in filter(None, (event.member_id, *event.removed_member_ids)):
                self.there[self._name_of.get(member_id, "")].discard(member_id)
        if event.to_state in ("Empty", "Dead"):
            self.there.clear()

    def arrive(self, member: Named) -> None:
        """Note that the member is there now."""
        shown = self._name_of[member.member_id] = self._name(member)
        self._tails[shown][member.member_id] = (
            member.member_id.removeprefix(f"{member.client_id}-") or member.member_id
        )
        ids = self.there[shown]
        ids.add(member.member_id)
        if len(ids) > 1:
            self._alike |= ids

    def marks(self) -> Iterator[tuple[str, str]]:
        """The ids of namesakes, each with what is shown of it."""
        for tails in self._tails.values():
            if not self._alike.isdisjoint(tails):
                shown = _shortened(tails)
                yield from ((each, shown[each]) for each in tails if each in self._alike)

    def _name(self, member: Named) -> str:
        client = (member.client_id, member.client_host)
        if client not in self._names:
            self._names[client] = member_name(None, *client, member.member_id)
        return self._names[client]


def _shortened(tails: Mapping[str, str]) -> dict[str, str]:
    """What is shown of each id, by the part of it that is not the client id: enough to tell all of them apart."""
    shared = dict.fromkeys(tails, 0)
    for (one, first), (other, second) in pairwise(sorted(tails.items(), key=lambda each: each[1])):
        length = len(first)
        while not second.startswith(first[:length]):
            length -= 1
        shared[one], shared[other] = max(shared[one], length), length
    return {member_id: _cut(tail, shared[member_id], member_id) for member_id, tail in tails.items()}


def _cut(tail: str, shared: int, member_id: str) -> str:
    """What is shown of an id: all of it where another's goes on in the same way."""
    if shared >= len(tail):
        return name(member_id)
    shown = max(SHOWN_MIN, shared + 1)
    return name(tail) if len(tail) <= max(WHOLE_MAX, shown) else f"{name(tail[:shown])}…"
