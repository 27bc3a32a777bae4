"""Who of a topic's subscribers gives next, and who receives, when partitions are levelled out (A42)."""

from __future__ import annotations

from collections.abc import Sequence


class Levels:
    """Members in the order of how much they have, as a landscape: receivers at its foot, donors at its top.

    Receivers take turns, first to last, among those that had least; when each has received one they stand a
    level higher, and those that had as much from the start join them. Donors take turns likewise, last to first
    and downwards. `sizes`, which say how many partitions each member has, are kept by the caller: what is given
    or received has to show in them before the next one is asked for.
    """

    __slots__ = (
        "_foot_end",
        "_foot_level",
        "_next_donor",
        "_next_receiver",
        "_order",
        "_sizes",
        "_top_end",
        "_top_level",
        "_top_start",
        "spread",
    )

    def __init__(self, members: Sequence[int], sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self._order = sorted(members, key=lambda member: (sizes[member], member))
        least, most = sizes[self._order[0]], sizes[self._order[-1]]
        self.spread = most - least
        self._foot_level, self._foot_end, self._next_receiver = least - 1, 0, 0
        self._top_level, self._top_start, self._top_end = most + 1, len(self._order), len(self._order)
        self._next_donor = self._top_start - 1

    @property
    def are_level(self) -> bool:
        """Whether one more move would only swap who has more."""
        return self._top_level - self._foot_level <= 1

    def next_receiver(self) -> int:
        """Return the member that receives next."""
        order = self._order
        if self._next_receiver >= self._foot_end:
            self._foot_level += 1
            while self._foot_end < len(order) and self._sizes[order[self._foot_end]] == self._foot_level:
                self._foot_end += 1
            self._next_receiver = 0
        self._next_receiver += 1
        return order[self._next_receiver - 1]

    def next_donor(self) -> int | None:
        """Return the member that gives next; None if all were set aside."""
        order = self._order
        if self._next_donor < self._top_start:
            if self._top_end <= self._top_start and self._top_start > 0:
                self._top_level = self._sizes[order[self._top_start - 1]]  # All of this level were set aside.
            else:
                self._top_level -= 1
            while self._top_start > 0 and self._sizes[order[self._top_start - 1]] == self._top_level:
                self._top_start -= 1
            self._next_donor = self._top_end - 1
        if self._next_donor < 0:
            return None
        self._next_donor -= 1
        return order[self._next_donor + 1]

    def set_aside_donor(self) -> None:
        """Take the last donor out of its level: it has nothing of this topic to give."""
        order, place = self._order, self._next_donor + 1
        self._top_end -= 1
        order[place], order[self._top_end] = order[self._top_end], order[place]
