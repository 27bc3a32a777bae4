"""What a request costs the daemon, in units of the floor: CPU time of both, in turns in one run, never the clock.

The floor (`bench.floor`) answers heartbeats and does nothing else. A machine that is slow, or shared, makes both
dearer, and the ratio stays. The bounds leave a third for noise, and go down when a path gets shorter; what they
catch is one that has grown. It is the checkout that is measured, never a build of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from os import getpid
from statistics import median

import pytest

from bench.pairs import frames, lanes
from bench.pairs.frames import COMMIT, HEARTBEAT, Joined
from bench.pairs.lanes import Lane
from bench.pairs.servers import Floor, cpu_of, muster
from bench.pairs.singles import commit_of, lanes_of, make_topic
from bench.pairs.steady import floor_lanes
from harness.processes import ServerProcess

pytestmark = pytest.mark.measured

CONNECTIONS = 50
HEARTBEAT_FLOORS, COMMIT_FLOORS, LARGE_COMMIT_FLOORS = 1.6, 25, 350
ROUNDS, SECONDS = 9, 0.5  # As many as steady the median beside other work.
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "muster.flush.policy": "os"}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    with ExitStack() as stack:
        daemon = stack.enter_context(muster(tmp_path_factory.mktemp("daemon"), SETTINGS))
        make_topic(daemon)
        yield daemon, stack.enter_context(Floor(tmp_path_factory.mktemp("floor")))


def cpu_us(server: ServerProcess, loaded: list[Lane]) -> float:
    return lanes.run(loaded, SECONDS, server.pid).cpu.total_us


def in_floors(
    servers: tuple[ServerProcess, ServerProcess],
    name: str,
    frame_of: Callable[[Joined], bytes],
    api: tuple[int, int],
) -> float:
    """The CPU time of a request, over that of the floor's answer to a heartbeat: the median of the pairs."""
    daemon, floor = servers
    ours = lanes_of(daemon, name, CONNECTIONS, frame_of, api)
    beating = lanes_of(daemon, f"unit-{name}", CONNECTIONS, frames.heartbeat, HEARTBEAT)
    bare = floor_lanes(floor, beating)
    pairs = [cpu_us(daemon, ours) / cpu_us(floor, bare) for _ in range(ROUNDS)]
    for lane in (*ours, *beating, *bare):
        lane.socket.close()
    print(f"{name}: {median(pairs):.2f} floors ({min(pairs):.2f} to {max(pairs):.2f})")
    return median(pairs)


def test_a_heartbeat(servers: tuple[ServerProcess, ServerProcess]) -> None:
    assert in_floors(servers, "heartbeat", frames.heartbeat, HEARTBEAT) < HEARTBEAT_FLOORS


def test_a_commit_of_one_partition(servers: tuple[ServerProcess, ServerProcess]) -> None:
    assert in_floors(servers, "commit-1", commit_of(1), COMMIT) < COMMIT_FLOORS


def test_a_commit_of_a_thousand_partitions(servers: tuple[ServerProcess, ServerProcess]) -> None:
    """By columns: one that goes object by object costs some thousand floors."""
    assert in_floors(servers, "commit-1000", commit_of(1000), COMMIT) < LARGE_COMMIT_FLOORS


def test_the_account_is_of_this_process_and_grows() -> None:
    """A guard that counts nothing would pass."""
    before = cpu_of(getpid())
    while cpu_of(getpid()).since(before).total_us < 50_000:
        pass
