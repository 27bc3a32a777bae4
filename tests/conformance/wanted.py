"""Differences that are meant to be: where Muster's answer is better for stock clients than Kafka's.

Every row has a reason, and there are at most ten. A row that matched nothing in a complete run is stale.
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


TURNED_AWAY: Final = (
    "when the last one missing is turned away (81), the phase ends; Kafka waits out the rebalance timeout"
)

WANTED: Final[list[Wanted]] = [
    Wanted(
        "*one_protocol_twice*",
        "*",
        "a protocol named twice counts once; Kafka counts it twice, so that nobody can choose it, and with no "
        "other protocol its join phase throws and no JoinGroup is ever answered",
    ),
    Wanted(
        "a_subscription_that_lies_about_its_size/*",
        "*",
        "a subscription that cannot be read is one to everything (O21); where it claims more elements than it "
        "holds, Kafka's join phase throws and no JoinGroup is ever answered",
    ),
    Wanted(
        "in_a_rebalance_parked_joins_are_counted/*",
        "*",
        TURNED_AWAY,
    ),
    Wanted(
        "a_member_parked_in_sync_leaves/*",
        "bob: SyncGroup *",
        "a member that leaves gets its parked SyncGroup answered (25); Kafka forgets the request, which blocks "
        "its connection for good",
    ),
    Wanted("a_group_over_its_size_is_rebalanced_and_shrinks", "*", TURNED_AWAY),
    Wanted(
        "find_the_coordinator*",
        "admin: FindCoordinator *",
        "the message of an INVALID_REQUEST says what is not served; Kafka's is the code's own text",
        lambda difference: all(path.endswith("error_message") for path, _, _ in difference.fields),
    ),
]

assert len(WANTED) <= ROWS_MAX, "more differences than anybody will remember the reasons of"


def reason_for(case: str, difference: Difference) -> Wanted | None:
    """The row that wants `difference`, if there is one."""
    return next((row for row in WANTED if row.covers(case, difference)), None)
