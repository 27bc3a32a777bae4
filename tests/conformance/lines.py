"""What of KAFKA.md is to be covered, and what cannot be: the lists behind the counts that a run prints."""

from __future__ import annotations

from typing import Final

GROUP_LINES: Final = tuple(f"3.{number}" for number in (*range(1, 79), *range(85, 91)))
OFFSET_LINES: Final = tuple(f"O{number}" for number in range(1, 29))
MEMBERSHIP_ROWS: Final = tuple(f"2.2 {api}" for api in ("Join", "Sync", "Heartbeat", "Leave", "Commit"))
ADMIN_ROWS: Final = tuple(
    f"2.3 {api}"
    for api in (
        "OffsetCommit",
        "OffsetFetch",
        "OffsetDelete",
        "ListGroups",
        "DescribeGroups",
        "DeleteGroups",
        "FindCoordinator",
    )
)

ELSEWHERE: Final = {
    "3.27": "a wait of five minutes that no setting shortens: proved in the simulation",
    "3.29": "shows in logs only",
    "3.38": "needs a failing log: proved in the simulation",
    "3.49": "needs a failing log: proved in the simulation",
    "3.50": "needs a slow log: proved in the simulation",
    "3.69": "one healthy broker loads in no time: proved in the simulation",
    "3.70": "needs a second broker: proved in the simulation",
    "3.71": "needs a second broker: proved in the simulation",
    "3.72": "needs a second broker: proved in the simulation",
    "3.73": "needs a broker that is just stopping: proved in the simulation",
    "3.85": "needs a failing log: proved in the simulation",
    "3.86": "shows in the log only: proved in the simulation",
    "3.88": "needs a slow log: proved in the simulation",
    "O28": "a metric: no API shows it",
    "O13": "transactions come with the data plane",
    "O14": "transactions come with the data plane",
    "O15": "transactions come with the data plane",
    "O16": "transactions come with the data plane",
    "O20": "transactions come with the data plane",
}

TO_COVER: Final = tuple(
    line for line in (*MEMBERSHIP_ROWS, *ADMIN_ROWS, *GROUP_LINES, *OFFSET_LINES) if line not in ELSEWHERE
)
