"""Storms of joins one after the other for half an hour: the memory of the daemon must not creep up.

    python -m tests.soak_storms --minutes 30

Some 200 groups of ten join at once, 2,000 members on a connection each; then the clients vanish, their
sessions end, and other groups have their storm; after four storms the first come back. So what lives is the
same after each round. Resident memory is taken after every round; the most of the last tenth of the time has
to be at most 10 % above the least after the first tenth. Shows also the longest turn of the event loop. Exits
with 1 where memory grew.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.pairs.crowd import Crowd, await_coordinator
from bench.pairs.lanes import connect
from bench.pairs.servers import muster, resident_mb
from harness.wire import WireClient
from protocol.messages.describe_groups import DescribeGroupsRequest

GROUPS: Final = 200
MEMBERS: Final = 10
SETS: Final = 4
"""Storms of different groups in one round."""
SESSION_MS: Final = 2_000
DEADLINE_S: Final = 120.0
GROWTH_MAX: Final = 1.1
GONE: Final = ("Empty", "Dead")
"""Every ten minutes a sweep removes the groups that have neither members nor offsets."""

SETTINGS: Final = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}


def storm(port: int, group_ids: Sequence[str]) -> None:
    """All members of the groups join at once; when every group is stable their clients vanish."""
    connections = [connect(port) for _ in range(len(group_ids) * MEMBERS)]
    Crowd(group_ids, MEMBERS, connections, SESSION_MS).join(DEADLINE_S)
    for connection in connections:
        connection.close()


def await_empty(port: int, group_ids: Sequence[str]) -> None:
    """Wait until the sessions of all members have ended. Raises TimeoutError with the groups that have some."""
    with WireClient(f"127.0.0.1:{port}") as client:
        deadline_s = time.monotonic() + DEADLINE_S
        while True:
            groups = client.ask(DescribeGroupsRequest(groups=list(group_ids)), 5).groups
            left = [
                f"{group.group_id} is {group.group_state} with {len(group.members)}"
                for group in groups
                if group.group_state not in GONE
            ]
            if not left:
                return
            if time.monotonic() > deadline_s:
                raise TimeoutError(
                    f"after {DEADLINE_S:g} s, of {len(group_ids)} groups: {', '.join(left[:20])}"
                )
            time.sleep(0.1)


def growth(samples: Sequence[tuple[float, float]], seconds: float) -> float:
    """The most of the last tenth of the time to the least after the first tenth, of (seconds, MB)."""
    settled = [mb for at_s, mb in samples if at_s >= 0.1 * seconds]
    last = [mb for at_s, mb in samples if at_s >= 0.9 * seconds]
    return max(last) / min(settled)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    seconds = parser.parse_args(arguments).minutes * 60
    sets = [[f"storm-{number}-{index:03d}" for index in range(GROUPS)] for number in range(SETS)]
    samples: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as directory, muster(Path(directory), SETTINGS) as daemon:
        for group_ids in sets:
            await_coordinator(daemon.port, group_ids)
        start = time.monotonic()
        while not samples or samples[-1][0] < seconds:
            for group_ids in sets:
                storm(daemon.port, group_ids)
            await_empty(daemon.port, sets[-1])
            await_empty(daemon.port, sets[0])
            samples.append((time.monotonic() - start, resident_mb(daemon.pid)))
            at_s, mb = samples[-1]
            print(f"{at_s:6.0f} s, {len(samples) * SETS:4} storms: {mb:.1f} MB resident", flush=True)
    (turn,) = daemon.longest_turns
    grew = growth(samples, seconds)
    print(
        f"{len(samples) * SETS} storms of {GROUPS * MEMBERS:,} members: memory {grew:.3f} times what it was "
        f"(at most {GROWTH_MAX}); longest turn {turn.cpu_ms:.1f} ms of CPU, {turn.wall_ms:.1f} ms on the wall"
    )
    return int(grew > GROWTH_MAX)


if __name__ == "__main__":
    sys.exit(main())
