"""`make demo`: 336,776 real flights through one daemon, a group that loses a member, and a Spark job.

    python -m bench.demo [--rows N] [--seconds S] [--no-spark] [--bootstrap HOST:PORT]

It starts a daemon of its own on a free port, with its data in a temporary folder, unless --bootstrap names a
cluster; there it makes its topic and its group, and deletes both. The exit status is 0 only if every figure
is as it has to be.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from rich.console import Console

from bench.demo.flights import ROWS, load_flights
from bench.demo.spark_job import SparkJobError
from bench.demo.steps import GROUP, TOPIC, Demo
from harness.daemon import MusterDaemon
from muster.cluster import ClusterError
from muster.spark.java import SparkUnavailableError, require_spark

ANSWER_TIMEOUT_S = 5.0
SECONDS = 25.0  # What three members would need to read everything: long enough to watch one die.


def options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.demo", description="Muster at work on real data.")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"flights to use, of {ROWS:,}")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="pace: what three members would need")
    parser.add_argument("--no-spark", dest="spark", action="store_false", help="leave the Spark job out")
    parser.add_argument("--bootstrap", help="use this cluster instead of a daemon of the demo's own")
    return parser.parse_args(arguments)


@contextmanager
def cluster(bootstrap: str | None, folder: Path, console: Console) -> Iterator[str]:
    """The address of the cluster to use: the given one, or a daemon of our own until the block ends.

    Raises ClusterError if the given one does not answer.
    """
    if bootstrap:
        require_answer(bootstrap)
        yield bootstrap
        return
    with MusterDaemon(folder / "muster") as daemon:
        console.print(f"[bold]Muster[/] on {daemon.bootstrap}, all defaults, its data in a temporary folder")
        yield daemon.bootstrap


def require_answer(bootstrap: str) -> None:
    """Raises ClusterError unless a broker answers there."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    try:
        admin.list_topics(timeout=ANSWER_TIMEOUT_S)
    except KafkaException as error:
        raise ClusterError(f"no Kafka broker answers on {bootstrap} ({error.args[0].str()})") from None


def run(chosen: argparse.Namespace, console: Console, folder: Path) -> bool:
    """All steps; returns whether everything is as it has to be."""
    flights = load_flights(chosen.rows)
    with cluster(chosen.bootstrap, folder, console) as bootstrap:
        demo = Demo(console, bootstrap, flights, folder)
        with demo.topic():
            console.rule("1. A producer", align="left")
            demo.produce()
            console.rule(f"2. Group {GROUP}: three start, one is killed, one joins", align="left")
            group = demo.consume(chosen.seconds)
            demo.explain(group, required=chosen.bootstrap is None)
            console.rule(f"3. A Spark job on topic {TOPIC}", align="left")
            run_spark(chosen, console, demo)
            return demo.show()


def run_spark(chosen: argparse.Namespace, console: Console, demo: Demo) -> None:
    """The Spark step, where it is wanted and Java is there; otherwise it says that it is left out."""
    try:
        if not chosen.spark:
            raise SparkUnavailableError("--no-spark")
        require_spark()
    except SparkUnavailableError as missing:
        console.print(f"[yellow]Spark is left out: {missing}[/]")
        return
    demo.spark()


def main(arguments: Sequence[str]) -> int:
    console = Console(highlight=False)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # So that all is cleaned up.
    try:
        with tempfile.TemporaryDirectory(prefix="muster-demo-") as folder:
            fine = run(options(arguments), console, Path(folder))
    except KafkaException as trouble:
        return failed(console, trouble.args[0].str())
    except (ClusterError, SparkJobError, RuntimeError, TimeoutError) as trouble:
        return failed(console, str(trouble))
    except KeyboardInterrupt:
        console.print("stopped")
        return 130
    console.print(
        "[bold green]Everything is as it should be.[/]" if fine else "[bold red]There are mismatches.[/]"
    )
    return 0 if fine else 1


def failed(console: Console, why: str) -> int:
    """Say why on standard error; returns the exit status."""
    console.print("[bold red]The demo failed:[/] ", end="")
    console.print(why, markup=False)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
