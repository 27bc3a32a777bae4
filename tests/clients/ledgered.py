"""A group under load whose members keep books, which have to agree at the end: see `ledger` for what must hold.

A writer fills the topic at a bounded rate, members of any library read it and commit after each poll, and a thread
asks OffsetFetch all the while. Members and broker may be ended in any way meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable

from confluent_kafka import Consumer, KafkaException, TopicPartition

from harness.observer import Observer
from harness.processes import ServerProcess
from tests.clients.fleet import Fleet, Worker
from tests.clients.groups import Group, wait_for_members
from tests.clients.ledger import Commit, Ledger, Read, Sample
from tests.clients.row_writer import RowWriter

ROWS_A_SECOND = 400
QUIET_ROWS = 50
"""Of the last partition, which gets no more: an offset that is lost there is not made good by the next commit."""
SAMPLE_S = 0.1
OFFSET_FETCH_S = 5.0


class OffsetWatch:
    """Asks OffsetFetch for all partitions again and again, beside the group, on a thread of its own."""

    def __init__(self, bootstrap: str, group: str, partitions: list[TopicPartition]) -> None:
        self.samples: list[Sample] = []
        self.failed: Counter[str] = (
            Counter()
        )  # Questions without an answer, by the error; also while no broker is there.
        self.answered = 0
        self._settings = {"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0}
        self._partitions = partitions
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, with a last answer to a question that is asked from now on."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        is_last, consumer = False, Consumer(self._settings)
        while not is_last:
            is_last = self._stop.wait(SAMPLE_S)
            asked_ns = time.monotonic_ns()
            try:
                found = consumer.committed(self._partitions, OFFSET_FETCH_S)
            except KafkaException as error:
                self.failed[error.args[0].name()] += 1
                consumer.close()  # The next one finds the coordinator anew, whatever this one still believes.
                consumer = Consumer(self._settings)
                continue
            self.answered += 1
            self.samples += [Sample(asked_ns, _name(each), max(each.offset, 0)) for each in found]
        consumer.close()


class LedgeredGroup(Group):
    """A group of `ledger` members on one topic, which is filled until `finish`, but for its last partition."""

    def __init__(self, broker: ServerProcess, fleet: Fleet, partitions: int) -> None:
        observer = Observer(broker.bootstrap)
        super().__init__(fleet, observer, partitions)
        self.broker = broker
        self._members: list[Worker] = []
        observer.write(self.topic, (f"quiet-{number}" for number in range(QUIET_ROWS)), partitions - 1)
        self._writer = RowWriter(broker.bootstrap, self.topic, partitions - 1, ROWS_A_SECOND)
        watched = [TopicPartition(self.topic, partition) for partition in range(partitions)]
        self._watch = OffsetWatch(broker.bootstrap, self.name, watched)

    def start(self, family: str, **config: object) -> Worker:
        """Start a member that keeps books."""
        worker = self._fleet.start(family, "ledger", group=self.name, topics=[self.topic], **config)
        self._members.append(worker)
        return worker

    def end_broker(self, how: str) -> None:
        """End the broker, by "restart" (SIGTERM) or "kill", and start it again."""
        if how == "kill":
            self.broker.kill()
            self.broker.start()
        else:
            self.broker.restart()
        self.reconnect()

    def await_under_way(self, *members: Worker) -> None:
        """Wait until each of these reads and commits, and the offset of the quiet partition is stored."""
        self.await_progress(*members)
        quiet = self._partitions - 1
        wait_for_members(
            lambda: self.committed().get(quiet) == QUIET_ROWS, "the quiet partition is read", members
        )

    def await_progress(self, *members: Worker) -> None:
        """Wait until each of these has read something from now on, and committed something."""
        before = [(len(each.of("read")), len(each.of("committed"))) for each in members]

        def all_went_on() -> bool:
            now = [(len(each.of("read")), len(each.of("committed"))) for each in members]
            return all(
                one > former
                for pair in zip(now, before, strict=True)
                for one, former in zip(*pair, strict=True)
            )

        wait_for_members(all_went_on, "each member reads and commits", members)

    def finish(self, *members: Worker) -> Ledger:
        """End the load, let the `members` that are left read all of it and leave; return the books, which agree.

        Raises AssertionError where they do not.
        """
        return self._finish(members, self.stop)

    def finish_static(self, *members: Worker) -> Ledger:
        """As `finish`, of members that stay in the group when they are closed, until their sessions are over."""
        return self._finish(members, lambda *closed: [member.stop() for member in closed])

    def _finish(self, members: tuple[Worker, ...], close: Callable[..., object]) -> Ledger:
        self._writer.stop()
        self.await_everything_committed(*members)
        close(*members)
        self._watch.stop()
        ledger = Ledger.of([*self._reads()], [*self._commits()], self._watch.samples)
        ends = self._observer.log_ends(self.topic, self._partitions)
        assert sum(ends.values()) == self._writer.written + QUIET_ROWS
        ledger.check({f"{self.topic}-{partition}": end for partition, end in ends.items()})
        return ledger

    def figures(self, ledger: Ledger) -> str:
        """What happened, in numbers."""
        commits = sum(len(each.of("committed")) for each in self._members)
        refused = Counter(event["error"] for each in self._members for event in each.of("commit_refused"))
        return (
            f"{self._writer.written} records, {ledger.repeated} times one was read again; "
            f"{commits} commits, refused: {dict(refused)}; "
            f"{self._watch.answered} answers of OffsetFetch, failed: {dict(self._watch.failed)}"
        )

    def _reads(self) -> Iterable[Read]:
        for member in self._members:
            for event in member.of("read"):
                for partition, first, last in event["ranges"]:
                    yield Read(event["at_ns"], partition, first, last, member.name)

    def _commits(self) -> Iterable[Commit]:
        for member in self._members:
            for event in member.of("committed"):
                for partition, offset in event["offsets"].items():
                    yield Commit(event["at_ns"], partition, offset)


def _name(partition: TopicPartition) -> str:
    if partition.error is not None:
        raise KafkaException(partition.error)
    return f"{partition.topic}-{partition.partition}"
