"""Which assignor the members of a consumer group prefer: the one that most of them name (A22).

Of two with as many votes it is the one that comes first, in a broker's table of them; which is another table, in
another order, while a member is about to vote otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinator.groups.consumer.java_order import (
    TimelineTable,
    copied_table,
    count_computed,
    count_names,
)
from coordinator.groups.consumer.member import ConsumerMember


class AssignorVotes:
    """The votes of all members."""

    __slots__ = ("_counts", "_table")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._table = TimelineTable()

    @property
    def preferred(self) -> str | None:
        """The assignor that most members name; None if none names one."""
        return _first_of_most(self._table, self._counts)

    def change(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        """Count the vote of a member as it is now, and no longer as it was."""
        count_names(self._counts, self._table, _vote(before), _vote(after))

    def preferred_with(self, before: ConsumerMember | None, after: ConsumerMember | None) -> str | None:
        """Return the assignor that is preferred once a member is another."""
        counts = dict(self._counts)
        table = copied_table(self._table, len(counts))
        count_computed(counts, table, _vote(before), _vote(after))
        return _first_of_most(table, counts)


def _vote(member: ConsumerMember | None) -> str | None:
    return None if member is None else member.server_assignor


def _first_of_most(names: Iterable[str], counts: Mapping[str, int]) -> str | None:
    return max(names, key=lambda name: counts[name], default=None)
