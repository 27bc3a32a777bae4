"""The computation of a target, which may take longer than the loop may be held: then another thread does it.

A request that needs one is a course of steps: it asks for the target, and goes on with it. So it does for what a
large classic group becomes. While that is computed the request waits, and all else that concerns its group waits
behind it: so the thread reads a group that does not change, and no answer shows an older target than it would have
if nothing had taken any time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeAlias, TypeVar

from coordinator.effects import CoordinatorRecord, Effects, Moment, ReplyTo, WorkFailed
from coordinator.groups.consumer.assignors.specs import Target
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.refusal import Refused
from protocol.errors import ErrorCode

MOST_WEIGHT: Final = 1_000
"""Members, partitions, and the topics of each member, counted together, of a target that is computed at once.

Those of the worst shapes take 5 ms: many members of one topic, or few that subscribe to different ones of many.
"""


@dataclass(frozen=True, slots=True)
class Computed:
    """What a request of a group asked for."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ComputedTarget(Computed):
    """The records of a target's changed members, and the new target of the member that asked, if it changed."""

    records: Sequence[CoordinatorRecord]
    own: Target | None


@dataclass(frozen=True, slots=True)
class ComputedUpgrade(Computed):
    """The consumer group that a classic one becomes, which its records say; or why it becomes none."""

    upgraded: ConsumerGroup | Refused = field(compare=False)
    records: Sequence[CoordinatorRecord] = ()


C_co = TypeVar("C_co", bound=Computed, covariant=True)


@dataclass(frozen=True, slots=True)
class NotComputed(WorkFailed):
    """Nothing: an assignor failed, or is none that is known here, as another coordinator's log may name one."""

    group_id: str


@dataclass(frozen=True, slots=True)
class Compute(Generic[C_co]):
    """Asks for something. `compute` reads a group that does not change meanwhile, and may run on any thread."""

    group_id: str
    weight: int
    compute: Callable[[], C_co]

    def run(self) -> C_co | NotComputed:
        try:
            return self.compute()
        except Exception as error:  # Whatever: it refuses the one request that asks, and no other.
            return NotComputed(error, self.group_id)


ComputeTarget: TypeAlias = Compute[ComputedTarget]

Course: TypeAlias = Generator[Compute[Computed], Any, Effects]
"""A request's way through its steps: is sent what it asks for with the time by then, from which on sessions and
timers run, and returns all effects of the request."""


@dataclass(slots=True)
class Suspended:
    """A request that waits for what it asked for, and by whom it was sent."""

    course: Course
    reply_to: ReplyTo
    computed: Computed | NotComputed | None = None
    is_held: bool = False  # Whether what concerns the group is known to wait.


def follow(
    suspended_in: dict[str, Suspended],
    most_weight: int,
    group_id: str,
    begin: Callable[[], Course],
    reply_to: ReplyTo,
    at: Moment,
    effects: Effects,
) -> None:
    """Take a request through its course; one that waited for what it asked for goes on where it was.

    Where that fails the course is thrown Refused: UNKNOWN_SERVER_ERROR, without a message, as in Kafka. What fails
    at once is computed aside again, where that is logged.
    """
    suspended = suspended_in.pop(group_id, None)
    computed: Computed | NotComputed | None = None
    if suspended is None:
        course = begin()
    else:
        course, computed = suspended.course, suspended.computed
        assert computed is not None, "all else of the group waits while its target is computed"
        assert reply_to is suspended.reply_to, "it is the first that goes on"
    while True:
        try:
            work = _next_question(course, computed, at)
        except StopIteration as ended:
            effects.add(ended.value.result())
            return
        computed = work.run() if work.weight <= most_weight else None
        if not isinstance(computed, Computed):
            suspended_in[group_id] = Suspended(course, reply_to)
            effects.background.append(work)
            return


def _next_question(course: Course, answer: Computed | NotComputed | None, at: Moment) -> Compute[Computed]:
    if isinstance(answer, NotComputed):
        return course.throw(Refused(ErrorCode.UNKNOWN_SERVER_ERROR))
    return course.send(None if answer is None else (answer, at))
