"""Consume, transform, produce in transactions, while workers and broker are killed; then the books are compared.

A writer fills a source topic. Three workers (the example of docs/delivery.md, on librdkafka) share a group and
copy it to a middle topic; an aiokafka process copies that to a last one. At seeded moments workers are killed
(SIGKILL) or stopped for seconds (SIGSTOP), and the broker is killed and started on its directory. A worker that we
killed is started again, and so is one that found no broker while that was away; any other end of a worker fails
the run. At the end each topic, read with `read_committed`, must hold
exactly the rows of the source, partition by partition in the same order, and the group's offsets must be where the
source ends.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message

from harness.messages import offset_of, value_of
from harness.observer import Observer
from harness.processes import ServerProcess, wait_until
from tests.clients.committed import CommittedView
from tests.clients.fleet import Fleet, Worker
from tests.clients.row_writer import RowWriter

SETTINGS = {
    "group.initial.rebalance.delay.ms": "200",
    "group.min.session.timeout.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "auto.create.topics.enable": "false",
    # Short segments and an eager cleaner: a restart reads what was rolled, indexed and compacted a moment ago.
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "log.roll.ms": "10000",
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.min.cleanable.ratio": "0.05",
    "log.cleaner.delete.retention.ms": "1000",
}
SOURCE, MIDDLE, LAST = "loop-source", "loop-middle", "loop-last"
GROUP, RELAY_GROUP = "transacting-loop", "transacting-relay"
WORKERS = 3
RELAY = WORKERS  # Its number behind those of the workers.
PARTITIONS = 6
ROWS_A_SECOND = 300
QUIET_S = (0.3, 4.0)  # Between two blows.
DOWN_S = (0.0, 1.5)  # How long a killed broker stays away.
STOPPED_S = (1.0, 5.0)  # On both sides of the session's length.
SESSION = ("session.timeout.ms=3000", "heartbeat.interval.ms=500", "fetch.wait.max.ms=100")
FINISH_S = 90.0
FOUND_NO_BROKER = "Unable to bootstrap from"
"""How aiokafka ends that is started while the broker is away. librdkafka waits, and neither is ever to be fenced:
each id has one living process, and no transaction lasts as long as its timeout."""


@dataclass
class TransactionLoop:
    """One run of the transaction loop, on a broker of its own."""

    broker: ServerProcess
    log_dir: Path
    chance: random.Random
    blows: Counter[str] = field(default_factory=Counter)
    deaths: Counter[str] = field(default_factory=Counter)  # Workers that found no broker, by their error.
    _started_s: dict[int, float] = field(default_factory=dict)  # When each worker was started last,
    _back_s: float = 0.0  # and when the broker was back; for ever while it is away.

    def run(self, seconds: float) -> str:
        """A sentence of figures. Raises AssertionError where a row is missing, repeated or out of order."""
        self._begin = time.monotonic()
        self.fleet = Fleet(self.broker.bootstrap, self.log_dir)
        self.observer = Observer(self.broker.bootstrap)
        for topic in (SOURCE, MIDDLE, LAST):
            self.observer.create_named_topic(topic, PARTITIONS)
        try:
            writer = RowWriter(self.broker.bootstrap, SOURCE, PARTITIONS, ROWS_A_SECOND)
            self.workers = [self._start(number) for number in range(WORKERS + 1)]
            self._strike_for(seconds)
            writer.stop()
            self._finish()
        finally:
            self.fleet.close()
        self._compare(writer.written)
        return self._figures(writer.written)

    # The blows.

    def _strike_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        strikes = (self._kill_one, self._kill_all, self._stop_one, self._kill_broker)
        while time.monotonic() < until:
            self._watch_for(self.chance.uniform(*QUIET_S))
            (strike,) = self.chance.choices(strikes, weights=(6, 1, 2, 3))
            name = strike.__name__.strip("_").replace("_", " ")
            self.blows[name] += 1
            self._log(name)
            strike()

    def _kill_one(self) -> None:
        self._kill(self.chance.randrange(WORKERS + 1))

    def _kill_all(self) -> None:
        for number in range(WORKERS + 1):
            self._kill(number)

    def _kill(self, number: int) -> None:
        self._log(f"worker {number} is killed")
        self.workers[number].kill()
        self.workers[number] = self._start(number)

    def _stop_one(self) -> None:
        """A worker sleeps: it may wake as one whose partitions are another's by now."""
        sleeper = self.workers[self.chance.randrange(WORKERS + 1)]
        if sleeper.status is None:
            self._log(f"worker {self.workers.index(sleeper)} sleeps")
            sleeper.pause()
            self._watch_for(self.chance.uniform(*STOPPED_S))
            sleeper.resume()
            self._log("and wakes")

    def _kill_broker(self) -> None:
        self._back_s = math.inf
        self.broker.kill()
        self._watch_for(self.chance.uniform(*DOWN_S))
        self.broker.start()
        self._back_s = time.monotonic()
        self._log("the broker is back")

    def _log(self, what: str) -> None:
        print(f"{time.monotonic() - self._begin:7.2f} s: {what}", flush=True)

    # The workers.

    def _start(self, number: int) -> Worker:
        self._started_s[number] = time.monotonic()
        own = f"{GROUP}-{number}"
        if number != RELAY:
            return self.fleet.start_example("exactly_once_transactions", SOURCE, GROUP, MIDDLE, own, *SESSION)
        topics = {"source": MIDDLE, "target": LAST, "partitions": PARTITIONS}
        return self.fleet.start_module("aiokafka_relay", group=RELAY_GROUP, transactional_id=own, **topics)

    def _watch_for(self, seconds: float) -> None:
        """Time passes; a worker that found no broker is started again."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._revive()
            time.sleep(min(left, 0.1))

    def _revive(self) -> None:
        for number, worker in enumerate(self.workers):
            if worker.status is not None:
                assert self._found_no_broker(number), f"worker {number} ended by itself\n{worker.story()}"
                self.deaths[f"{worker.name.rpartition('-')[0]}: {worker.last_words}"] += 1
                self._log(f"worker {number} ended by itself\n{worker.story()}")
                self.workers[number] = self._start(number)

    def _found_no_broker(self, number: int) -> bool:
        """Whether the worker ended because the broker was away when it was started."""
        was_away = self._back_s > self._started_s[number]
        return was_away and FOUND_NO_BROKER in self.workers[number].last_words

    # The end.

    def _finish(self) -> None:
        """Wait until all is copied; then the workers close in good order."""
        self.observer.connect()
        ends = self.observer.log_ends(SOURCE, PARTITIONS)
        self._wait(lambda: self._committed() == ends, f"offsets of {GROUP} at {ends}")
        last = CommittedView(self.broker.bootstrap, LAST, PARTITIONS)
        self._wait(lambda: len(last.values()) >= sum(ends.values()), f"{sum(ends.values())} rows at the end")
        last.close()
        self._wait(lambda: all(worker.events for worker in self.workers), "workers that know SIGTERM")
        for worker in self.workers:
            assert worker.terminate() == 0, worker.story()

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        def watched() -> bool:
            self._revive()
            return condition()

        try:
            wait_until(watched, what, FINISH_S)
        except TimeoutError as error:
            stories = "\n".join(worker.story() for worker in self.workers)
            members = self.observer.describe(GROUP).members
            known = ", ".join(
                f"{member.member_id}: {member.assignment.topic_partitions}" for member in members
            )
            raise AssertionError(f"{error}\n{self.deaths}\nmembers: {known}\n{stories}") from None

    def _committed(self) -> dict[int, int]:
        """The group's offsets; none while the broker still reads them, after a blow a moment ago."""
        try:
            return self.observer.committed(GROUP, SOURCE)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                raise
            return {}

    def _compare(self, written: int) -> None:
        source, middle, last = (self._read(topic) for topic in (SOURCE, MIDDLE, LAST))
        rows = [row for records in source.values() for row in _values(records)]
        assert sorted(rows) == sorted(f"row-{number}" for number in range(written)), _wrong(written, rows)
        for topic, copy in ((MIDDLE, middle), (LAST, last)):
            for partition, records in source.items():
                expected, found = _values(records), _values(copy[partition])
                assert found == expected, f"{topic}-{partition}: {_differs(expected, found)}"
        assert self.observer.committed(GROUP, SOURCE) == self.observer.log_ends(SOURCE, PARTITIONS)
        # Behind the last row of the middle topic there is still the mark of its transaction.
        ends = {partition: offset_of(records[-1]) + 1 for partition, records in middle.items()}
        assert self.observer.committed(RELAY_GROUP, MIDDLE) == ends

    def _read(self, topic: str) -> dict[int, list[Message]]:
        view = CommittedView(self.broker.bootstrap, topic, PARTITIONS)
        view.read_to_the_end()
        view.close()
        return view.records

    def _figures(self, written: int) -> str:
        blows = ", ".join(f"{name} {count}" for name, count in sorted(self.blows.items()))
        ended = "".join(f"\n  ended by itself {count} times: {why}" for why, count in self.deaths.items())
        return f"{written} rows exactly once through two loops; {blows}{ended}"


def _values(records: list[Message]) -> list[str]:
    return [value_of(record).decode() for record in records]


def _wrong(written: int, rows: list[str]) -> str:
    return "the source: " + _differs([f"row-{number}" for number in range(written)], rows)


def _differs(source: list[str], copied: list[str]) -> str:
    """What is wrong with a copy: rows that are missing, repeated or strange, or the first out of place."""
    known, counts = set(source), Counter(copied)
    found = {
        "missing": [row for row in source if row not in counts],
        "repeated": [row for row, count in counts.items() if count > 1],
        "strange": [row for row in counts if row not in known],
    }
    if any(found.values()):
        return ", ".join(f"{len(rows)} {name} ({rows[:5]})" for name, rows in found.items() if rows)
    first = next(index for index, row in enumerate(copied) if row != source[index])
    return f"out of order from {copied[first]} on, which should be {source[first]}"
