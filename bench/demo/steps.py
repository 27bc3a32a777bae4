"""The demo's steps on one cluster: produce, the group, its rebalances, Spark. Each adds what has to hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pandas as pd
from confluent_kafka.admin import AdminClient
from rich.console import Console

from bench.demo.flights import differences, expected_delays, expected_ids, found_delays
from bench.demo.group import GroupRun
from bench.demo.produce import FlightProducer
from bench.demo.rebalances import read_events, rebalances
from bench.demo.report import Check, GroupBars, bars, outcome_table, rebalance_table
from bench.demo.spark_job import run_job
from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind
from harness.observer import TIMEOUT_S, Observer
from harness.processes import wait_until
from muster.cluster import ClusterError

TOPIC, GROUP = "flights", "flights-demo"
PARTITIONS = 6
HISTORY_DEADLINE_S = 10.0  # The daemon writes its history a moment after the fact.


class Demo:
    """One demo. `checks` holds what its steps have found, and whether that is as it has to be."""

    def __init__(self, console: Console, bootstrap: str, flights: pd.DataFrame, folder: Path) -> None:
        self.checks: list[Check] = []
        self._console = console
        self._bootstrap = bootstrap
        self._flights = flights
        self._folder = folder
        self._observer = Observer(bootstrap)

    @contextmanager
    def topic(self) -> Iterator[None]:
        """Make the topic; delete it and the group at the end. Raises KafkaException if it exists already."""
        self._observer.create_named_topic(TOPIC, PARTITIONS)
        try:
            yield
        finally:
            admin = AdminClient({"bootstrap.servers": self._bootstrap})
            futures = {**admin.delete_consumer_groups([GROUP]), **admin.delete_topics([TOPIC])}
            for future in futures.values():
                future.exception(TIMEOUT_S)  # No reader is left for its error.

    def produce(self) -> None:
        """Write every flight to the topic, keyed by carrier."""
        with bars(self._console) as progress:
            task = progress.add_task(f"rows to topic {TOPIC}", total=len(self._flights), note="key = carrier")
            producer = FlightProducer(self._bootstrap, lambda rows: progress.update(task, completed=rows))
            produced = producer.produce(TOPIC, self._flights)
        log_ends = self._observer.log_ends(TOPIC, PARTITIONS)
        self.checks += [
            Check("rows produced", produced, len(self._flights)),
            Check("rows in the log", sum(log_ends.values()), len(self._flights)),
        ]

    def consume(self, seconds: float) -> GroupRun:
        """Run the group: three members start, one is killed, one joins; they would need `seconds`."""
        log_ends = self._observer.log_ends(TOPIC, PARTITIONS)
        consumer = {"bootstrap.servers": self._bootstrap, "group.id": GROUP}
        run = GroupRun(consumer, TOPIC, log_ends, seconds, self._folder)
        with closing(run), bars(self._console) as progress:
            run.run(self._is_committed, GroupBars(progress, run).update)
        self._check_group(run, log_ends)
        return run

    def explain(self, run: GroupRun, *, required: bool) -> None:
        """Show why the group rebalanced. Where that is not `required`, a cluster may have no history."""
        try:
            found = rebalances(wait_until(self._whole_history, "the history's end", HISTORY_DEADLINE_S))
        except ClusterError as missing:
            if required:
                raise
            self._console.print(f"[yellow]No rebalances to show: {missing}[/]")
            return
        self._console.print(rebalance_table(found))
        killed = run.killed
        assert killed is not None
        of_killed = [each for each in found if each.member_id == killed.member_id]
        blamed = [each.reason for each in of_killed if each.cause == CauseKind.SESSION_EXPIRED.slug]
        self.checks.append(Check("rebalances", len(found)))
        self.checks.append(Check(f"of them by the end of {killed.name}", len(blamed), 1, "".join(blamed)))

    def spark(self) -> None:
        """Let Spark compute the delays from the topic, and compare them with what pandas finds."""
        with bars(self._console) as progress:
            note = "starts; the first time it fetches its Kafka source, which takes a minute"
            task = progress.add_task("rows read by Spark", total=None, note=note)

            def on_rows(rows: int) -> None:
                note = "mean delay per airport and hour"
                progress.update(task, total=len(self._flights), completed=rows, note=note)

            parquet = run_job(self._bootstrap, TOPIC, self._folder, on_rows)
        self._check_spark(found_delays(parquet), expected_delays(self._flights))

    def show(self) -> bool:
        """Show all that was checked; returns whether all of it holds."""
        self._console.print(outcome_table("The outcome", self.checks))
        return all(check.holds for check in self.checks)

    def _is_committed(self) -> bool:
        log_ends = self._observer.log_ends(TOPIC, PARTITIONS)
        return self._behind(log_ends) == []

    def _behind(self, log_ends: dict[int, int]) -> list[int]:
        """The partitions whose committed offset is not the log's end; an empty one needs no commit."""
        committed = self._observer.committed(GROUP, TOPIC)
        return [partition for partition, end in log_ends.items() if committed.get(partition, 0) != end]

    def _check_group(self, run: GroupRun, log_ends: dict[int, int]) -> None:
        killed = run.killed
        assert killed is not None
        twice = run.seen_twice()
        by_killed = len(twice.intersection(killed.flights))
        strangers = run.times_read.keys() - expected_ids(self._flights)
        at_end = len(log_ends) - len(self._behind(log_ends))
        empty = sum(end == 0 for end in log_ends.values())
        self.checks += [
            Check("distinct rows consumed", run.distinct, len(self._flights)),
            Check("rows that were never produced", len(strangers), 0),
            Check("rows seen twice", len(twice), note=f"{by_killed:,} read by {killed.name}, not committed"),
            Check(
                "partitions committed up to their end", at_end, len(log_ends), f"{empty} empty" * bool(empty)
            ),
        ]

    def _whole_history(self) -> list[GroupEvent]:
        """The group's events once they end with its last member's leaving; empty until then."""
        events = read_events(self._bootstrap, GROUP)
        return events if events and events[-1].to_state == "Empty" else []

    def _check_spark(self, found: pd.DataFrame, expected: pd.DataFrame) -> None:
        for what, column in (
            ("flights", "flights"),
            ("departures", "departed"),
            ("minutes of delay", "delay_minutes"),
        ):
            self.checks.append(
                Check(f"Spark: {what}", int(found[column].sum()), int(expected[column].sum()), "as by pandas")
            )
        wrong = differences(found, expected)
        note = "; ".join(wrong) or "each as by pandas"
        self.checks.append(Check("Spark: airport hours", len(found), len(expected), note))
        self.checks.append(Check("Spark: differences", len(wrong), 0))
