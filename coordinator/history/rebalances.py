"""Folds one group's events, one by one, into rebalances: the one place that counts them, for whoever does.

A rebalance lasts from the first change until the group is Stable, Empty or Dead, however often it begins again,
and also where the group becomes one of the other kind meanwhile; in a consumer group one event may be all of it.
The event that ends it has its cause and its time in each phase; the rest is gathered on the way. So a rebalance
that was running when the topic began has a row as well, with what is known. One without an event of its end (that
was dropped, or the coordinator died) is over with the first later event that shows it: it then lasts until the
last event of its own. Plain functions of events: nothing is read or shown here.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any, Final, NamedTuple

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind, current_slug
from coordinator.groups.classic.states import COMPLETING_REBALANCE, DEAD, PREPARING_REBALANCE
from coordinator.groups.consumer.states import GroupState as ConsumerGroupState

# The phases of classic groups, and of consumer groups: there the coordinator assigns, then members go there.
JOINING: Final = PREPARING_REBALANCE.value
SYNCING: Final = COMPLETING_REBALANCE.value
ASSIGNING: Final = ConsumerGroupState.ASSIGNING.value
RECONCILING: Final = ConsumerGroupState.RECONCILING.value
FIRST_PHASES: Final = (JOINING, ASSIGNING)
LAST_PHASES: Final = (SYNCING, RECONCILING)
REBALANCING: Final = frozenset((*FIRST_PHASES, *LAST_PHASES))
UNKNOWN: Final = "Unknown"  # Kafka's name for an unknown state.

ENDS_OF_A_PHASE: Final = frozenset(
    kind.slug
    for kind in (
        CauseKind.ALL_MEMBERS_JOINED,
        CauseKind.INITIAL_DELAY_OVER,
        CauseKind.ASSIGNMENT_STORED,
        CauseKind.ASSIGNMENT_COMPUTED,
        CauseKind.MEMBERS_RECONCILED,
    )
)
"""Causes of the regular end of a phase, which are never a rebalance's reason; a timeout can be a reason."""

CHANGES_OF_KIND: Final = frozenset((CauseKind.GROUP_UPGRADED.slug, CauseKind.GROUP_DOWNGRADED.slug))
"""Causes by which a group becomes one of the other kind (KIP-848). A rebalance that is on goes on in it, while the
coordinator's own sums of it begin anew: those of all its events count then."""

CAUSES_MAX: Final = 40
"""The number of different causes kept for one rebalance; today's events have about as many."""

_TEXTS: Final = {kind.slug: kind.text for kind in CauseKind}


class Rebalance(NamedTuple):
    """One rebalance, as the table `rebalances` has it; times in ms since 1970."""

    group_id: str
    generation_id: int
    started_at: int
    ended_at: int
    duration_ms: int | None  # This and the next two are None where records do not show it.
    join_ms: int | None
    sync_ms: int | None
    attempts: int
    cause: str
    reason: str
    causes: list[str]
    member_id: str | None
    client_id: str | None
    client_host: str | None
    last_member_id: str | None
    last_client_id: str | None
    last_client_host: str | None
    last_arrival_ms: int | None
    last_group_instance_id: str | None
    last_given_up_count: int
    last_given_up: list[str]
    member_count: int
    outcome: str


NOBODY: Final[tuple[Any, ...]] = (None, None, None, None, None, 0, [])
"""The fields `last_*` of a rebalance of which nobody is known to be the last."""


@dataclass(slots=True)
class Running:
    """A rebalance that is not over, as known from its events so far."""

    started_ms: int
    cause: str | None = None  # This and the next four are None if its first event is missing.
    reason: str | None = None
    member_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    causes: list[str] = field(default_factory=list)
    attempts: int = 1
    last: list[Any] = field(default_factory=lambda: list(NOBODY))  # `last_*`, of the latest join phase.
    spent_ms: dict[str, int] = field(default_factory=dict)  # By phase, of the phases that ended.
    phase: str = JOINING
    phase_since_ms: int = 0
    heard_ms: int = 0
    generation_id: int = 0
    member_count: int = 0
    is_of_both_kinds: bool = False  # The group became one of the other kind within it.
    unknown: list[str] = field(default_factory=list)  # Its phases whose length no record of them shows.

    @classmethod
    def since(cls, event: GroupEvent) -> Running:
        """A running rebalance whose first known event is `event`, whether or not that event began it."""
        if event.from_state in REBALANCING:
            before_ms = sum(event.phase_ms.values()) if event.from_state != event.to_state else 0
            found = cls(max(event.wall_ms - before_ms, 0), phase=event.from_state)
        else:
            who = (event.member_id, event.client_id, event.client_host)
            found = cls(event.wall_ms, event.cause, event.reason, *who)
        found.phase_since_ms, found.generation_id = event.wall_ms, event.generation_id
        return found

    @classmethod
    def load(cls, dumped: dict[str, Any]) -> Running:
        """The rebalance from its stored fields; former slugs of causes are replaced by today's."""
        running = cls(**dumped)
        running.last += NOBODY[len(running.last) :]  # Stored by a version that had fewer of them.
        running.cause = None if running.cause is None else current_slug(running.cause)
        running.causes = [current_slug(cause) for cause in running.causes]
        return running

    def add(self, event: GroupEvent) -> None:
        """Take in the next event of the rebalance."""
        kinds_of_end = ENDS_OF_A_PHASE if event.from_state in REBALANCING else ()
        if event.cause not in (*kinds_of_end, *self.causes) and len(self.causes) < CAUSES_MAX:
            self.causes.append(event.cause)
        if event.from_state != event.to_state and event.from_state in REBALANCING:
            spent = event.phase_ms.get(event.from_state, 0)
            self.spent_ms[event.from_state] = self.spent_ms.get(event.from_state, 0) + spent
            if event.observed is not None and event.from_state in (JOINING, SYNCING):  # A classic group's.
                self.unknown += sorted({JOINING, event.from_state} - event.phase_ms.keys())
        is_anew = event.to_state in FIRST_PHASES or event.generation_id > self.generation_id
        if event.from_state in LAST_PHASES and is_anew:
            self.attempts += 1  # What members were about to have is replaced.
        if event.from_state != SYNCING and event.last_member_id is not None:
            origin = (event.last_client_id, event.last_client_host)
            given_up = (event.last_given_up_count, list(event.last_given_up))
            self.last = [
                event.last_member_id,
                *origin,
                event.last_arrival_ms,
                event.last_group_instance_id,
                *given_up,
            ]
        if event.to_state != self.phase:
            self.phase, self.phase_since_ms = event.to_state, event.wall_ms
        self.heard_ms = max(self.heard_ms, event.wall_ms)
        self.generation_id, self.member_count = event.generation_id, event.member_count

    def change_kind(self, event: GroupEvent) -> GroupEvent:
        """Note that the group is of the other kind from `event` on; return it with the phase that ends there.

        The other kind knows nothing of that phase: its time is the one between events.
        """
        self.is_of_both_kinds = True
        spent_ms = max(event.wall_ms - self.phase_since_ms, event.phase_ms.get(self.phase, 0))
        return replace(event, from_state=self.phase, phase_ms={self.phase: spent_ms})

    def ended_by(self, event: GroupEvent) -> Rebalance:
        """The rebalance as ended by `event`, which must have been added."""
        if event.rebalance_cause is not None and not self.is_of_both_kinds:
            self.cause, self.spent_ms = event.rebalance_cause, event.rebalance_ms
        return self._row(event.group_id, event.wall_ms, event.to_state)

    def cut_off(self, group_id: str, ended_ms: int, outcome: str) -> Rebalance:
        """The rebalance as known, ended at `ended_ms` although no event is its end."""
        rest_ms = max(ended_ms - self.phase_since_ms, 0)
        self.spent_ms = {**self.spent_ms, self.phase: self.spent_ms.get(self.phase, 0) + rest_ms}
        return self._row(group_id, ended_ms, outcome)

    def so_far(self, group_id: str) -> Rebalance:
        """The rebalance as known while it runs; `outcome` is its present phase."""
        return self._row(group_id, self.heard_ms, self.phase)

    def _row(self, group_id: str, ended_ms: int, outcome: str) -> Rebalance:
        cause = self.cause or ""
        join_ms, sync_ms = self._spent(FIRST_PHASES), self._spent(LAST_PHASES)
        known_ms = (join_ms or 0) + (sync_ms or 0)
        known_begin = self.reason is not None
        return Rebalance(
            group_id=group_id,
            generation_id=self.generation_id,
            started_at=self.started_ms if known_begin else max(ended_ms - known_ms, 0),
            ended_at=ended_ms,
            duration_ms=None if join_ms is None or sync_ms is None else known_ms,
            join_ms=join_ms,
            sync_ms=sync_ms,
            attempts=self.attempts,
            cause=cause,
            reason=_TEXTS.get(cause, cause) if self.reason is None else self.reason,
            causes=self.causes if cause in self.causes or not cause else [cause, *self.causes],
            member_id=self.member_id,
            client_id=self.client_id,
            client_host=self.client_host,
            last_member_id=self.last[0],
            last_client_id=self.last[1],
            last_client_host=self.last[2],
            last_arrival_ms=self.last[3],
            last_group_instance_id=self.last[4],
            last_given_up_count=self.last[5],
            last_given_up=self.last[6],
            member_count=self.member_count,
            outcome=outcome,
        )

    def _spent(self, phases: tuple[str, str]) -> int | None:
        """The time in these phases; None if it is not known of one of them."""
        if not set(phases).isdisjoint(self.unknown):
            return None
        return sum(self.spent_ms.get(phase, 0) for phase in phases)


def known_ms(rebalance: Rebalance) -> int:
    """How long it took at least: the phases whose length is known."""
    return (rebalance.join_ms or 0) + (rebalance.sync_ms or 0)


def is_whole(event: GroupEvent) -> bool:
    """Whether the event is a rebalance by itself: one of a consumer group, which began and was over with it."""
    return event.rebalance_cause is not None and event.from_state not in REBALANCING


class EventRole(Enum):
    """How an event relates to the rebalances of its group, after the events before it."""

    LATE = "late"  # It belongs to a rebalance that is over: a repeat, or out of order.
    BESIDE = "beside"  # It belongs to no rebalance.
    BEGINS = "begins"
    CONTINUES = "continues"


@dataclass(slots=True)
class RebalanceFold:
    """The fold of one group's events: the rebalance that runs, and generation and end of the last one before."""

    running: Running | None = None
    ended_generation: int = -1
    ended_ms: int = -1

    def role_of(self, event: GroupEvent) -> EventRole:
        """The role of the group's next event."""
        if self._is_late(event):
            return EventRole.LATE
        if self.running is not None and event.from_state in REBALANCING:
            return EventRole.CONTINUES
        is_of_one = event.from_state in REBALANCING or event.to_state in REBALANCING
        return EventRole.BEGINS if is_of_one or is_whole(event) else EventRole.BESIDE

    def add(self, event: GroupEvent) -> list[Rebalance]:
        """Take in the group's next event; return the rebalances that it ends, oldest first, one as a rule."""
        role = self.role_of(event)
        if role is EventRole.LATE:
            return []
        over: list[Rebalance] = []
        if role is not EventRole.CONTINUES and self.running is not None:
            over.append(self._cut_off(self.running, event))
        if role is not EventRole.BESIDE:
            over += self._go_on(event)
        if event.to_state not in REBALANCING:
            self._forget_past_of(event)
        return over

    def _go_on(self, event: GroupEvent) -> list[Rebalance]:
        """Take in an event of the running rebalance, or begin one; return the rebalance if the event ends it."""
        if self.running is None:
            self.running = Running.since(event)
        elif event.cause in CHANGES_OF_KIND:
            event = self.running.change_kind(event)
        self.running.add(event)
        if event.to_state in REBALANCING:
            return []
        over = self.running.ended_by(event)
        self.running = None
        self.ended_generation, self.ended_ms = event.generation_id, event.wall_ms
        return [over]

    def _is_late(self, event: GroupEvent) -> bool:
        """Whether the event is of a rebalance that is over, and comes late or a second time."""
        if event.from_state == DEAD.value or event.to_state == DEAD.value:
            return False
        if event.from_state not in REBALANCING:
            if self.running is not None:
                return event.wall_ms < self.running.heard_ms
            newest = self.ended_generation + is_whole(event)  # Each of those is of an epoch of its own.
            return event.generation_id < newest and event.wall_ms <= self.ended_ms
        is_known = event.generation_id <= self.ended_generation and event.wall_ms <= self.ended_ms
        return self.running is None and is_known

    def _cut_off(self, running: Running, event: GroupEvent) -> Rebalance:
        """The running rebalance, ended by a restart, or at its last event if the event of its end is missing."""
        self.running = None
        if event.from_state == DEAD.value:
            running.causes.append(event.cause)
            return running.cut_off(event.group_id, max(event.wall_ms, running.heard_ms), DEAD.value)
        return running.cut_off(event.group_id, running.heard_ms, UNKNOWN)

    def _forget_past_of(self, event: GroupEvent) -> None:
        """Forget the last ended generation where they may begin again: at a removal, a restart, another kind."""
        if DEAD.value in (event.from_state, event.to_state) or event.cause in CHANGES_OF_KIND:
            self.ended_generation, self.ended_ms = -1, -1

    def dump(self) -> list[Any]:
        """The state for `load`, as values that fit into JSON."""
        return [asdict(self.running) if self.running else None, self.ended_generation, self.ended_ms]

    @classmethod
    def load(cls, dumped: list[Any]) -> RebalanceFold:
        running, ended_generation, ended_ms = dumped
        return cls(Running.load(running) if running else None, ended_generation, ended_ms)
