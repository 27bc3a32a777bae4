"""Who has which partition of a group with members of both protocols, by what was said on the wire alone.

A member has a partition from the answer that gave it until it says in a request that it has it no more, leaves, or
is removed; and it may be removed only for a reason: its session, or the time to give up or to join again, is over;
it left, or another process took its instance. Times are the daemon's own, which stand still while it is stopped.
Until its answer is made, what was given can be lost with the coordinator: then it has never been.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from tests.simulation.marks import Marks

Where = tuple[bytes, int]
"""A partition, by the id of its topic: one that was made again is another."""

SLACK_MS: Final = 12_000
"""So much later than it is due may a timer be carried out: targets are computed first."""


@dataclass(slots=True)
class MemberClaims:
    """What is known of one member."""

    held: dict[Where, bool] = field(default_factory=dict)  # And whether the answer that gave it was made.
    heard_ms: int = 0
    session_ms: int = 0
    rebalance_ms: int = 0
    is_classic: bool = False
    is_away: bool = False  # A static one that said that it will be back.
    shown_epoch: int = 0
    to_give_up: frozenset[Where] = frozenset()  # Of `held`, what its last assignment was without.
    told_ms: int = 0  # When `to_give_up` changed last,
    told_first_ms: int = 0  # and when there was nothing in it before.
    rejoin_ms: int | None = None  # Since when it has been told to join again.
    stood_ms: int = 0  # When no timer of it could end, last.
    sync_ms: int | None = None  # Since when it has had to send SyncGroup.


class Claims:
    """Of all groups."""

    def __init__(self, violated: Callable[[str], None], marks: Marks) -> None:
        self._violated = violated
        self._marks = marks
        self._groups: dict[str, dict[str, MemberClaims]] = defaultdict(dict)
        self._shown_epochs: dict[str, int] = defaultdict(int)

    def member(self, group_id: str, member_id: str) -> MemberClaims:
        """What is known of a member; made when it is first asked for."""
        return self._groups[group_id].setdefault(member_id, MemberClaims())

    def known(self, group_id: str) -> dict[str, MemberClaims]:
        return self._groups[group_id]

    # What members say, and are answered.

    def says(self, group_id: str, member_id: str, owned: Iterable[Where]) -> None:
        """A member says what it has: all else it has no more."""
        member, owned = self.member(group_id, member_id), set(owned)
        member.held = {where: shown for where, shown in member.held.items() if where in owned}

    def is_told(self, group_id: str, member_id: str, given: set[Where] | None, now_ms: int) -> None:
        """A member is answered with an assignment, or with none as it is the one of before."""
        member = self.member(group_id, member_id)
        if given is not None:
            self._check_free(group_id, member_id, given)
            to_give_up = frozenset(member.held.keys() - given)
            for where in sorted(given):
                member.held.setdefault(where, False)
        else:
            to_give_up = member.to_give_up & member.held.keys()
        if to_give_up != member.to_give_up:
            member.told_ms = now_ms
            if not member.to_give_up:
                member.told_first_ms = now_ms
        member.to_give_up = to_give_up

    def _check_free(self, group_id: str, member_id: str, given: set[Where]) -> None:
        for other_id, other in self._groups[group_id].items():
            if other_id != member_id and (both := other.held.keys() & given):
                self._violated(f"{group_id}: {sorted(both)} was given to {member_id}, and {other_id} has it")

    def is_given_by_leader(self, group_id: str, member_id: str, given: set[Where]) -> None:
        """A member of a classic group has its partitions: who of a former generation had them has them no more."""
        for other_id, other in self._groups[group_id].items():
            if other_id != member_id:
                other.held = {where: shown for where, shown in other.held.items() if where not in given}
        member = self.member(group_id, member_id)
        member.held, member.to_give_up = dict.fromkeys(sorted(given), False), frozenset()
        member.rejoin_ms = member.sync_ms = None

    def was_made(self, group_id: str, member_id: str, epoch: int | None, given: Iterable[Where]) -> None:
        """The answer is made, so all of it is durable."""
        member = self._groups[group_id].get(member_id)
        if member is not None:
            member.held |= dict.fromkeys((where for where in given if where in member.held), True)
            if epoch is not None:
                member.shown_epoch = max(member.shown_epoch, epoch)
                self._shown_epochs[group_id] = max(self._shown_epochs[group_id], epoch)

    # Removals.

    def leaves_for_now(self, group_id: str, member_id: str) -> None:
        """Its place is kept with all that it was to keep; what it had to give up others may have (A9)."""
        member = self.member(group_id, member_id)
        member.is_away = True
        member.held = {where: shown for where, shown in member.held.items() if where not in member.to_give_up}
        member.to_give_up = frozenset()

    def removed(self, group_id: str, member_id: str) -> None:
        self._groups[group_id].pop(member_id, None)

    def ended(self, group_id: str) -> None:
        """The group goes, or another takes its place: epochs begin anew."""
        self._groups.pop(group_id, None)
        self._shown_epochs.pop(group_id, None)

    # Epochs.

    def check_group_epoch(self, group_id: str, epoch: int) -> None:
        """What was shown is durable, so no later state of the group is older."""
        if epoch < self._shown_epochs[group_id]:
            self._violated(f"{group_id} is at {epoch}, and has shown {self._shown_epochs[group_id]}")

    def check_member_epoch(self, group_id: str, member_id: str, epoch: int) -> None:
        shown = self.member(group_id, member_id).shown_epoch
        if epoch < shown:
            self._violated(f"{member_id} of {group_id} is at {epoch}, and was shown {shown}")

    # Time.

    def check_overdue(self, group_id: str, now_ms: int) -> None:
        """Nobody is still a member whose time to give up, to join again or to sync is over for long."""
        for member_id, member in self._groups[group_id].items():
            late_ms = member.rebalance_ms + SLACK_MS
            who = f"{member_id} of {group_id}"
            stood_ms = member.stood_ms
            if (
                member.to_give_up
                and not member.is_classic
                and now_ms - max(member.told_ms, stood_ms) > late_ms
            ):
                self._violated(f"{who} has not given up {sorted(member.to_give_up)} since {member.told_ms}")
            if member.rejoin_ms is not None and now_ms - max(member.rejoin_ms, stood_ms) > late_ms:
                self._violated(f"{who} has not joined again since {member.rejoin_ms}")
            if member.sync_ms is not None and now_ms - max(member.sync_ms, stood_ms) > late_ms:
                self._violated(f"{who} has not sent SyncGroup since {member.sync_ms}")

    def begin_anew(self, group_id: str, now_ms: int) -> None:
        """All timers begin anew, as the shard was loaded, or the group is of another kind now."""
        self.begin_sessions(group_id, now_ms)
        for member in self._groups[group_id].values():
            member.told_ms, member.rejoin_ms, member.sync_ms = now_ms, None, None

    def begin_sessions(self, group_id: str, now_ms: int) -> None:
        """Sessions begin anew, as the shard may write again."""
        self.stand_still(group_id, now_ms)
        for member in self._groups[group_id].values():
            member.heard_ms = now_ms

    def stand_still(self, group_id: str, now_ms: int) -> None:
        """No timer of these ends: the shard cannot write, or the group is a classic one."""
        for member in self._groups[group_id].values():
            member.stood_ms = now_ms

    def forget_unshown(self, group_id: str) -> None:
        """What was given and not shown may be lost."""
        for member in self._groups[group_id].values():
            member.held = {where: True for where, shown in member.held.items() if shown}
            member.to_give_up = frozenset()  # It is told again, or was told before: then the log says so.
