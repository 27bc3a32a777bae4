"""The longest turn of the event loop in each of several scenarios, as the daemon's own watchdog saw it.

    python -m bench.pauses                      # all of them
    python -m bench.pauses storm herd load      # some

CPU time is that of the loop's thread, beside it the time on the wall, which other processes lengthen. Each
scenario has a daemon of its own with default settings, but for the initial delay, which is 0. No part of `make
bench`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.machine import machine
from bench.offsets_log import GROUPS, group_name, write_offsets_log
from bench.pairs.crowd import Crowd, await_coordinator, joined
from bench.pairs.lanes import connect
from bench.pairs.servers import LongestTurn, muster
from harness.daemon import MusterDaemon
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest

SETTINGS: Final = {"group.initial.rebalance.delay.ms": "0"}
DEADLINE_S: Final = 120.0
MANY: Final = 100_000
"""Groups that are listed and described."""
STORMS: Final = 20
OFFSETS: Final = 1_000_000


def storm(daemon: MusterDaemon, members: int = 5_000) -> None:
    """Groups of ten join at once over open connections."""
    group_ids = [f"storm-{index:05d}" for index in range(members // 10)]
    for connection, _ in joined(daemon.port, group_ids, 10, DEADLINE_S):
        connection.close()


def herd(daemon: MusterDaemon) -> None:
    """One group of 2,000 joins at once."""
    for connection, _ in joined(daemon.port, ["herd"], 2_000, DEADLINE_S):
        connection.close()


def load(daemon: MusterDaemon) -> None:
    """A start on a million offsets; ended when every group is served."""
    daemon.terminate()
    write_offsets_log(daemon.log_dir, OFFSETS, 200)
    daemon.restart()
    await_coordinator(daemon.port, [group_name(number) for number in range(GROUPS)])


def many(daemon: MusterDaemon) -> None:
    """100,000 groups are listed and described, three times."""
    daemon.terminate()
    write_offsets_log(daemon.log_dir, 10 * MANY, 200, groups=MANY)
    daemon.restart()
    names = [group_name(number) for number in range(MANY)]
    await_coordinator(daemon.port, names[:1000])
    with WireClient(f"127.0.0.1:{daemon.port}") as client:
        wait_until(
            lambda: len(client.ask(ListGroupsRequest(), 4).groups) == MANY, "all are there", DEADLINE_S
        )
        for _ in range(3):
            assert len(client.ask(ListGroupsRequest(), 4).groups) == MANY
            assert len(client.ask(DescribeGroupsRequest(groups=names), 5).groups) == MANY


def storms(daemon: MusterDaemon) -> None:
    """Storms of 2,000 members one after the other, whose clients vanish; the memory is shown after each fifth."""
    for number in range(STORMS):
        group_ids = [f"storm-{number}-{index:05d}" for index in range(200)]
        await_coordinator(daemon.port, group_ids)
        connections = [connect(daemon.port) for _ in range(2_000)]
        Crowd(group_ids, 10, connections).join(DEADLINE_S)
        for connection in connections:
            connection.close()
        time.sleep(1)
        if number % 5 == 4:
            print(f"  after {number + 1} storms: {resident_mb(daemon.pid):.0f} MB resident", flush=True)


SCENARIOS: Final[dict[str, Callable[[MusterDaemon], None]]] = {
    each.__name__: each for each in (storm, herd, load, many, storms)
}


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def longest_turn(name: str) -> LongestTurn:
    """Play one scenario; return the longest turn of its last daemon."""
    with tempfile.TemporaryDirectory() as directory:
        settings = SETTINGS if name != "storms" else SETTINGS | {"group.min.session.timeout.ms": "1000"}
        with muster(Path(directory), settings) as daemon:
            SCENARIOS[name](daemon)
        return daemon.longest_turns[-1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenarios", nargs="*", default=[*SCENARIOS], help=f"of {', '.join(SCENARIOS)}")
    options = parser.parse_args()
    load_average = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    print(f"Machine: {machine()}. Load average at the start: {load_average}.\n")
    print("| scenario | longest turn, ms of CPU | ms on the wall |\n|---|---|---|")
    for name in options.scenarios:
        cpu_ms, wall_ms = longest_turn(name)
        print(f"| {name} | {cpu_ms:.1f} | {wall_ms:.1f} |", flush=True)


if __name__ == "__main__":
    main()
