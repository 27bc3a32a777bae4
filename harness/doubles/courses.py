"""Takes a course to its end at once, computing the target that it asks for."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from coordinator.effects import Moment
from coordinator.groups.consumer.computing import ComputedTarget, ComputeTarget

T = TypeVar("T")


def at_once(course: Generator[ComputeTarget, tuple[ComputedTarget, Moment], T], at: Moment) -> T:
    """What the course returns, all of it at one moment."""
    try:
        computed = next(course).run()
        assert isinstance(computed, ComputedTarget), computed
        course.send((computed, at))
    except StopIteration as ended:
        returned: T = ended.value
        return returned
    raise AssertionError("a request asks for one target")
