"""How the cost of a cluster of nodes grows with its nodes, shards and groups: measured, and on paper.

    python -m bench.cluster_growth [--sizes 3x50x10000 100x1000x1000000] [--without-sessions] [--no-group]

Of each size one node is measured in a process of its own, real but for sockets and with a Kafka that is played
(`played_kafka`), in virtual time: while nothing happens, beside others that write, at its start, and when another
node dies. Then what a node answers about the cluster, the sizes of the group in which nodes are members, and real
members at a daemon on the loopback. CPU is that of the node alone, in pure Python. It takes some ten minutes.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Final

import structlog

from bench.cluster_growth import paper
from bench.cluster_growth.answers import KnownCluster
from bench.cluster_growth.group_of_nodes import MAX_MESSAGE_BYTES, at_work, most_nodes, sizes
from bench.cluster_growth.one_node import Asked, Measured, Memory, Size, Span, measure
from bench.machine import machine

SIZES: Final = (
    Size(3, 50, 10_000),
    Size(3, 1_000, 10_000),
    Size(10, 200, 100_000),
    Size(30, 1_000, 100_000),
    Size(100, 1_000, 100_000),
    Size(100, 1_000, 1_000_000),
)
RATES: Final = (20, 200, 1_000)
GROUPS: Final = ((3, 50), (10, 200), (30, 200), (30, 1_000), (100, 1_000))
AT_WORK: Final = ((3, 50), (10, 200), (30, 1_000), (100, 1_000))
SHARDS: Final = (50, 200, 1_000)


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    print(f"\n| {' | '.join(headings)} |\n{'|---' * len(headings)}|")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |", flush=True)


def measured_apart(size: Size, has_sessions: bool) -> Measured:
    """Measure in another process, whose memory is this node's alone."""
    command = [sys.executable, "-m", "bench.cluster_growth", "--one", _text(size)]
    command += [] if has_sessions else ["--without-sessions"]
    answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return read(answer)


def read(answer: dict[str, Any]) -> Measured:
    """What another process has measured."""
    spans = {name: Span(**answer[name]) for name in ("start", "serving", "quiet", "takeover")}
    busy = {int(rate): Span(**span) for rate, span in answer["busy"].items()}
    size, memory = Size(**answer["size"]), Memory(**answer["memory"])
    return Measured(size, memory, busy=busy, owned=answer["owned"], taken=answer["taken"], **spans)


def _text(size: Size) -> str:
    return f"{size.nodes}x{size.shards}x{size.groups}"


def _size(text: str) -> Size:
    return Size(*map(int, text.split("x")))


def _named(size: Size) -> tuple[str, ...]:
    return str(size.nodes), f"{size.shards:,}", f"{size.groups:,}"


def quiet_row(one: Measured) -> list[str]:
    span, size = one.quiet, one.size
    bytes_s = (span.sent_bytes + span.received_bytes) / span.took_s
    said = span.partitions.get("Produce", 0) / span.took_s
    busy = [f"{100 * each.cpu_s / each.took_s:.1f} ({each.rate('Fetch'):,.0f})" for each in one.busy.values()]
    return [
        *_named(size), str(one.owned), f"{100 * span.cpu_s / span.took_s:.2f}",
        f"{span.rate('Fetch'):.2f} ({paper.fetches(size):.2f})", f"{bytes_s / 1000:.2f}",
        f"{said:.3f} ({one.owned / size.shards * paper.keep_alives(size):.3f})",
        f"{paper.heartbeats(size):,.0f}",
        f"{paper.partitions_looked_at(size):,.0f}", *busy,
    ]  # fmt: skip


QUIET: Final = (
    "nodes", "shards", "groups", "own shards", "CPU of a quiet node, %", "its Fetches a second (paper)",
    "its KB a second", "its keep-alives a second (paper)", "heartbeats of all a second",
    "partitions that brokers look into a second",
    *(f"CPU beside {rate:,} batches a second, % (Fetches a second)" for rate in RATES),
)  # fmt: skip


def moving_row(one: Measured) -> list[str]:
    size, memory, start, taken = one.size, one.memory, one.start, one.takeover
    return [
        *_named(size), f"{memory.made / 1e6:.0f}", f"{(memory.followed - memory.made) / 1e6:.0f}",
        f"{start.cpu_s:.1f}", f"{start.received_bytes / 1e6:.0f}", f"{start.longest_turn_ms:,.0f}",
        f"{one.serving.took_s:.1f}", f"{one.serving.longest_turn_ms:,.0f}",
        f"{one.taken} ({paper.taken(size):.2f})", f"{taken.took_s:.1f} ({paper.takeover_s():.1f})",
        f"{1000 * taken.cpu_s:,.0f}", f"{taken.longest_turn_ms:,.0f}", str(sum(taken.requests.values())),
    ]  # fmt: skip


MOVING: Final = (
    "nodes", "shards", "groups", "MB of a new node", "MB of what it follows", "start: CPU, s", "MB read",
    "longest turn, ms", "own shards served, s", "longest turn, ms", "shards taken of a dead node (paper)",
    "until served, s (paper)", "CPU, ms", "longest turn, ms", "requests",
)  # fmt: skip


def group_rows() -> Iterable[Sequence[str]]:
    for nodes, shards in GROUPS:
        one = sizes(nodes, shards)
        share = f"{100 * one.record / MAX_MESSAGE_BYTES:.1f}"
        yield str(nodes), f"{shards:,}", str(one.shown), f"{one.table:,}", f"{one.record:,}", share


def report_group() -> None:
    table(
        ("nodes", "shards", "bytes that a node shows", "table", "record of the group", "% of 1 MiB"),
        group_rows(),
    )
    most = ((f"{shards:,}", most_nodes(shards)) for shards in SHARDS)
    table(("shards", "most nodes whose group a broker keeps"), most)
    done = (at_work(nodes, shards) for nodes, shards in AT_WORK)
    rows = (
        (
            each.nodes,
            f"{each.shards:,}",
            f"{each.joined_s:.1f}",
            f"{each.left_s:.2f}",
            f"{each.heartbeats:.2f}",
        )
        for each in done
    )
    headings = (
        "nodes",
        "shards",
        "all at once: until all have the table, s",
        "one leaves, s",
        "heartbeats of each",
    )
    table(headings, rows)


def report_answers(chosen: Iterable[Size]) -> None:
    rows = (
        (size.nodes, f"{size.shards:,}", each.what, f"{each.size:,}", f"{each.cpu_us:,.0f}")
        for size in sorted({Size(size.nodes, size.shards, 0) for size in chosen}, key=lambda each: each.nodes)
        for each in KnownCluster(size).answers()
    )
    table(("nodes", "shards", "answer", "bytes", "CPU, us"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=_size, nargs="*", default=SIZES, help="nodes x shards x groups")
    parser.add_argument("--without-sessions", action="store_true", help="the brokers have none to give")
    parser.add_argument("--no-group", action="store_true", help="nothing of the group of nodes")
    parser.add_argument("--one", type=_size, help=argparse.SUPPRESS)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    logging.disable(logging.CRITICAL)  # aiokafka's members say much.
    has_sessions = not options.without_sessions
    if options.one is not None:
        print(json.dumps(asdict(measure(Asked(options.one, RATES, has_sessions=has_sessions)))))
        return
    print(f"Machine: {machine()}.")
    measured = []
    for size in options.sizes:
        print(f"measuring {_text(size)}", file=sys.stderr, flush=True)
        measured.append(measured_apart(size, has_sessions))
    table(QUIET, map(quiet_row, measured))
    table(MOVING, map(moving_row, measured))
    report_answers(options.sizes)
    if not options.no_group:
        report_group()


if __name__ == "__main__":
    main()
