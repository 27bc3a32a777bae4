"""Differences that are meant to be: where Muster's answer is better for stock clients than Kafka's.

Every row has a reason, and there are at most ten. A row that matched nothing in a complete run is stale,
and fails it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from tests.conformance.comparison import Difference

ROWS_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Wanted:
    """Differences in the cases and steps that match these patterns, if `is_so` holds for them."""

    case: str
    step: str
    reason: str
    is_so: Callable[[Difference], bool] = lambda _: True

    def covers(self, case: str, difference: Difference) -> bool:
        return (
            fnmatchcase(case, self.case)
            and fnmatchcase(difference.what, self.step)
            and self.is_so(difference)
        )


WANTED: Final[list[Wanted]] = []

assert len(WANTED) <= ROWS_MAX, "more differences than anybody will remember the reasons of"


def reason_for(case: str, difference: Difference) -> Wanted | None:
    """The row that wants `difference`, if there is one."""
    return next((row for row in WANTED if row.covers(case, difference)), None)
