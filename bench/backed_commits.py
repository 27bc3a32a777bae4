"""Commits of a node whose log is on Kafka, beside the daemon with its own log under `os`, in turns, in one run.

    python -m bench.backed_commits [--rounds 9] [--seconds 3]

500 groups of one member commit one offset each, over and over; `bench/pairs/generator.c` makes the load, and Kafka
runs on the same machine, with one replica. CPU is that of the node's process, without the JVM's. Targets, of the
medians: at least 0.6 of the throughput, at most 1.2 times the CPU each, and 3 times the 99th percentile. The exit
status is 1 if one is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench.machine import machine
from bench.pairs.frames import COMMIT
from bench.pairs.rounds import TABLE, Contender, take_turns, target
from bench.pairs.singles import commit_of, lanes_of, make_topic
from bench.pairs.steady import close, contender
from harness.daemon import MusterDaemon
from harness.gateway import Gateway
from harness.processes import ServerProcess

CONNECTIONS: Final = 500
SESSION: Final = {"group.max.session.timeout.ms": "3600000"}
THROUGHPUT_MIN, CPU_MAX, P99_MAX = 0.6, 1.2, 3.0
WARM_S: Final = 10.0
P99: Final = 0.99


def measured(server: ServerProcess, name: str) -> Contender:
    make_topic(server, 1)
    return contender(name, server, lanes_of(server, "commit", CONNECTIONS, commit_of(1), COMMIT))


def run(rounds: int, seconds: float) -> bool:
    """Print the rows and the ratios; return whether all targets are met."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        own = running.enter_context(
            MusterDaemon(Path(folder, "own"), {**SESSION, "muster.flush.policy": "os"})
        )
        node = running.enter_context(Gateway(Path(folder, "backed"), SESSION))
        contenders = [measured(own, "own log, `os`"), measured(node, "log on Kafka")]
        contenders[1].load(WARM_S, 1)  # Its JVM is to have compiled what it does here.
        take_turns(contenders, rounds, seconds, 1, WARM_S)
        close(contenders)
    embedded, backed = contenders
    ratios = [
        target("throughput", [backed.per_second / embedded.per_second], THROUGHPUT_MIN, at_least=True),
        target("CPU each", [backed.cpu_us / embedded.cpu_us], CPU_MAX),
        target("99th percentile", [_p99_us(backed) / _p99_us(embedded)], P99_MAX),
    ]
    print("\n".join([machine(), "", TABLE, embedded.row, backed.row, "", *[each.row for each in ratios]]))
    return all(each.is_met for each in ratios)


def _p99_us(of: Contender) -> float:
    return of.of(lambda load: load.latency_us(P99))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=3.0)
    arguments = parser.parse_args()
    return 0 if run(arguments.rounds, arguments.seconds) else 1


if __name__ == "__main__":
    sys.exit(main())
