"""Takes a course to its end at once, computing the target that it asks for."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from coordinator.groups.consumer.computing import ComputedTarget, ComputeTarget

T = TypeVar("T")


def at_once(course: Generator[ComputeTarget, ComputedTarget, T]) -> T:
    """What the course returns."""
    try:
        computed = next(course).run()
        assert isinstance(computed, ComputedTarget), computed
        course.send(computed)
    except StopIteration as ended:
        returned: T = ended.value
        return returned
    raise AssertionError("a request asks for one target")
