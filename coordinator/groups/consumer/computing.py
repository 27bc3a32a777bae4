"""The computation of a target, which may take longer than the loop may be held: then another thread does it.

A request that needs one is a course of steps: it asks for the target once, and goes on with it. While a large one
is computed the request waits, and all else that concerns its group waits behind it: so the thread reads a group
that does not change, and no answer shows an older target than it would have if nothing had taken any time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from coordinator.effects import CoordinatorRecord, Effects, ReplyTo, WorkFailed
from coordinator.groups.consumer.assignors.specs import Target
from coordinator.groups.consumer.refusal import Refused
from protocol.errors import ErrorCode

MOST_WEIGHT: Final = 1_000
"""Members, partitions, and the topics of each member, counted together, of a target that is computed at once.

Those of the worst shapes take 5 ms: many members of one topic, or few that subscribe to different ones of many.
"""


@dataclass(frozen=True, slots=True)
class ComputedTarget:
    """The records of a target's changed members, and the new target of the member that asked, if it changed."""

    group_id: str
    records: Sequence[CoordinatorRecord]
    own: Target | None


@dataclass(frozen=True, slots=True)
class FailedTarget(WorkFailed):
    """No target: its assignor failed, or is none that is known here, as another coordinator's log may name one."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ComputeTarget:
    """Asks for a target. `compute` reads a group that does not change meanwhile, and may run on any thread."""

    group_id: str
    weight: int
    compute: Callable[[], ComputedTarget]

    def run(self) -> ComputedTarget | FailedTarget:
        try:
            return self.compute()
        except Exception as error:  # Whatever: it refuses the one request that asks, and no other.
            return FailedTarget(error, self.group_id)


Course: TypeAlias = Generator[ComputeTarget, ComputedTarget, Effects]
"""A request's way through its steps: asks for a target at most once, and returns all effects of the request."""


@dataclass(slots=True)
class Suspended:
    """A request that waits for a target, and by whom it was sent."""

    course: Course
    reply_to: ReplyTo
    computed: ComputedTarget | FailedTarget | None = None
    is_held: bool = False  # Whether what concerns the group is known to wait.


def follow(
    suspended_in: dict[str, Suspended],
    most_weight: int,
    group_id: str,
    begin: Callable[[], Course],
    reply_to: ReplyTo,
    effects: Effects,
) -> None:
    """Take a request through its course; one that waited for its target goes on where it was.

    Where the target fails the course is thrown Refused: UNKNOWN_SERVER_ERROR, without a message, as in Kafka. One
    that fails at once is computed aside again, where that is logged.
    """
    suspended = suspended_in.pop(group_id, None)
    if suspended is None:
        course = begin()
        work, done = _first(course)
        if work is None:
            effects.add(done.result())
            return
        computed: ComputedTarget | FailedTarget | None = None
        if work.weight <= most_weight:
            computed = work.run()
        if not isinstance(computed, ComputedTarget):
            suspended_in[group_id] = Suspended(course, reply_to)
            effects.background.append(work)
            return
    else:
        course, target = suspended.course, suspended.computed
        assert target is not None, "all else of the group waits while its target is computed"
        assert reply_to is suspended.reply_to, "it is the first that goes on"
        computed = target
    effects.add(_last(course, computed).result())


def _first(course: Course) -> tuple[ComputeTarget | None, Effects]:
    """What the course asks for first; None, with its effects, if it asks for nothing."""
    try:
        return next(course), Effects()
    except StopIteration as ended:
        effects: Effects = ended.value
        return None, effects


def _last(course: Course, computed: ComputedTarget | FailedTarget) -> Effects:
    """Take the course to its end, with the target or without."""
    try:
        if isinstance(computed, FailedTarget):
            course.throw(Refused(ErrorCode.UNKNOWN_SERVER_ERROR))
        else:
            course.send(computed)
    except StopIteration as ended:
        effects: Effects = ended.value
        return effects
    raise AssertionError("a request asks for one target")
