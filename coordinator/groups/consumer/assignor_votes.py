"""Which assignor the members of a consumer group prefer: the one that most of them name (A22).

Of two with as many votes it is the one that comes first, in a broker's table of them; which is another table, in another
order, while a member is about to vote otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinator.groups.consumer.java_order import JavaTable, TimelineTable, string_hash
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
        _count(self._counts, self._table, before, after)

    def preferred_with(self, before: ConsumerMember | None, after: ConsumerMember | None) -> str | None:
        """Return the assignor that is preferred once a member is another."""
        counts = dict(self._counts)
        table = JavaTable(string_hash, int(len(counts) / 0.75) + 1) if counts else JavaTable(string_hash)
        for name in self._table:
            table.put(name)
        _count(counts, table, before, after)
        return _first_of_most(table, counts)


def _count(
    counts: dict[str, int],
    table: JavaTable[str] | TimelineTable,
    before: ConsumerMember | None,
    after: ConsumerMember | None,
) -> None:
    if before is not None and before.server_assignor in counts:
        counts[before.server_assignor] -= 1
        if not counts[before.server_assignor]:
            del counts[before.server_assignor]
            table.remove(before.server_assignor)
    if after is not None and after.server_assignor is not None:
        counts[after.server_assignor] = counts.get(after.server_assignor, 0) + 1
        table.compute_if_absent(after.server_assignor)


def _first_of_most(names: Iterable[str], counts: Mapping[str, int]) -> str | None:
    return max(names, key=lambda name: counts[name], default=None)
