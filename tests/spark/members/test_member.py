"""The life of members, on a real broker and without Spark: what they read, commit, and when they end."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka import ConsumerGroupType, IsolationLevel, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from harness.observer import Observer, unique
from harness.processes import ServerProcess, wait_until
from muster.spark.members import stop
from muster.spark.members.member import ExecutorMember, Task
from muster.spark.members.plan import COOPERATIVE, MemberContext, MembersError, SupersededError
from muster.spark.members.report import MemberReport, RebalanceKind
from protocol.topic_partition import TopicPartition
from tests.spark.members.member_threads import CONSUMER, Sink, group_type, members_of, plan_for, run_threads
from tests.spark.provoked_rebalances import WireMember, rejoin

pytestmark = pytest.mark.xdist_group("spark")
PARTITIONS = 4
TIMEOUT_S = 60
RANGE = {"partition.assignment.strategy": "range"}


@pytest.fixture
def topic(observer: Observer) -> str:
    """Here without Spark. A broker is shown as the leader of a new partition a moment before it is."""
    name = observer.create_topic("members", PARTITIONS)

    def is_led() -> bool:
        try:
            return len(observer.log_ends(name, PARTITIONS)) == PARTITIONS
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
            return False

    wait_until(is_led, f"all partitions of {name} have their leader", TIMEOUT_S)
    return name


@pytest.fixture
def group() -> str:
    return unique("members")


def write(observer: Observer, topic: str, count: int, prefix: str = "a") -> list[tuple[int, str]]:
    """Rows round the partitions; partition and value of each, sorted."""
    rows = [(number % PARTITIONS, f"{prefix}-{number}") for number in range(count)]
    for partition in range(PARTITIONS):
        observer.write(topic, [value for where, value in rows if where == partition], partition)
    return sorted(rows)


def transact(
    broker: ServerProcess, observer: Observer, topic: str, values: list[str], *, commit: bool
) -> None:
    """Write to partition 0 in a transaction: its marker takes the offset behind the last value.

    A producer is answered before that is there.
    """
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": unique("writer")})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush(TIMEOUT_S)
    (producer.commit_transaction if commit else producer.abort_transaction)(TIMEOUT_S)

    def decided() -> int:
        return observer.log_ends(topic, 1, IsolationLevel.READ_COMMITTED)[0]

    wait_until(lambda: decided() == len(values) + 1, "the marker is durable", TIMEOUT_S)


def values(sink: Sink) -> list[tuple[int, str]]:
    return sorted((partition, value) for partition, _, value in sink.rows)


@pytest.mark.parametrize(
    "settings", [{}, RANGE, CONSUMER], ids=["cooperative", "eager", "the consumer protocol"]
)
def test_two_members_read_every_row_once_and_leave_together(
    broker: ServerProcess, observer: Observer, topic: str, group: str, settings: dict[str, str]
) -> None:
    written, sink = write(observer, topic, 400), Sink()
    plan = plan_for(broker.bootstrap, group, topic, sink.process, members=2, settings=settings, batch_rows=20)
    reports = run_threads(plan)
    assert values(sink) == written
    assert observer.committed(group, topic) == observer.log_ends(topic, PARTITIONS)
    assert observer.state(group) == "EMPTY", "no member has stayed behind"
    assert sum(report.rows for report in reports) == 400
    read = sorted((span.partition, span.rows) for report in reports for span in report.ranges)
    assert sum(rows for _, rows in read) == 400
    for report in reports:
        owned = [0, *(_change(each.kind, len(each.partitions)) for each in report.rebalances)]
        assert all(0 <= count <= PARTITIONS for count in itertools.accumulate(owned))
        assert report.rebalance_count == len(report.rebalances)


def _change(kind: RebalanceKind, partitions: int) -> int:
    return partitions if kind is RebalanceKind.ASSIGNED else -partitions


def test_a_second_run_reads_what_has_come_since_and_nothing_else(
    broker: ServerProcess, observer: Observer, topic: str, group: str
) -> None:
    write(observer, topic, 40)
    run_threads(plan_for(broker.bootstrap, group, topic, Sink().process))
    later, sink = write(observer, topic, 12, "b"), Sink()
    plan = plan_for(broker.bootstrap, group, topic, sink.process)
    write(observer, topic, 8, "after the start")
    (report,) = run_threads(plan)
    assert values(sink) == later
    assert report.rows == 12
    again = Sink()
    run_threads(plan_for(broker.bootstrap, group, topic, again.process))
    assert {value.split("-")[0] for _, value in values(again)} == {"after the start"}


@pytest.mark.parametrize("commit", [True, False], ids=["committed", "aborted"])
def test_a_log_that_ends_with_a_marker_has_an_end_all_the_same(
    broker: ServerProcess, observer: Observer, topic: str, group: str, commit: bool
) -> None:
    transact(broker, observer, topic, ["x", "y"], commit=commit)
    sink = Sink()
    (report,) = run_threads(plan_for(broker.bootstrap, group, topic, sink.process))
    assert values(sink) == ([(0, "x"), (0, "y")] if commit else [])
    assert observer.committed(group, topic)[0] == 3, "the marker's offset is behind us"
    assert report.rows == (2 if commit else 0)


def test_what_an_open_transaction_has_written_is_not_waited_for(
    broker: ServerProcess, observer: Observer, topic: str, group: str
) -> None:
    observer.write(topic, ["before"], 0)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": unique("writer")})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, "open", partition=0)
    producer.flush(TIMEOUT_S)
    sink = Sink()
    run_threads(plan_for(broker.bootstrap, group, topic, sink.process))
    producer.abort_transaction(TIMEOUT_S)
    assert values(sink) == [(0, "before")]


def test_what_retention_has_removed_is_left_out_and_an_emptied_log_has_an_end(
    broker: ServerProcess, observer: Observer, topic: str, group: str
) -> None:
    """One log begins behind what the group has committed, another has nothing left at all."""
    written, sink = write(observer, topic, 40), Sink()
    observer.commit(group, topic, {0: 2})
    remove_before(broker, topic, {0: 6, 1: 10})
    (report,) = run_threads(plan_for(broker.bootstrap, group, topic, sink.process))
    gone = {(0, f"a-{4 * offset}") for offset in range(6)} | {each for each in written if each[0] == 1}
    assert values(sink) == sorted(set(written) - gone)
    assert [span.start_offset for span in report.ranges if span.partition == 0] == [6]
    assert observer.committed(group, topic) == dict.fromkeys(range(PARTITIONS), 10)


def remove_before(broker: ServerProcess, topic: str, offsets: dict[int, int]) -> None:
    """What retention does in time, at once."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    asked = [ClientPartition(topic, partition, offset) for partition, offset in offsets.items()]
    for future in admin.delete_records(asked, request_timeout=TIMEOUT_S).values():
        future.result(TIMEOUT_S)


def test_what_process_does_not_finish_is_not_committed(
    broker: ServerProcess, observer: Observer, topic: str, group: str
) -> None:
    written, sink = write(observer, topic, 40), Sink()

    def fail(batch: pa.RecordBatch, context: MemberContext) -> None:
        if sink.rows:
            raise ValueError("no more")
        sink.process(batch, context)

    with pytest.raises(ValueError, match="no more"):
        run_threads(plan_for(broker.bootstrap, group, topic, fail, batch_rows=10))
    assert sum(observer.committed(group, topic).values()) == 10
    assert observer.state(group) == "EMPTY"
    rest = Sink()
    run_threads(plan_for(broker.bootstrap, group, topic, rest.process))
    assert sorted(values(sink) + values(rest)) == written


@pytest.mark.parametrize("settings", [{}, CONSUMER], ids=["classic", "consumer"])
def test_a_run_without_end_goes_on_until_it_is_asked_to_stop(
    broker: ServerProcess, observer: Observer, topic: str, group: str, settings: dict[str, str]
) -> None:
    written, sink = write(observer, topic, 40), Sink()
    plan = plan_for(
        broker.bootstrap, group, topic, sink.process, members=2, continuous=True, settings=settings
    )
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_threads, plan)
        wait_until(lambda: len(sink.rows) == 40, "the first rows", TIMEOUT_S, _failure(running))
        written += write(observer, topic, 20, "b")
        wait_until(lambda: len(sink.rows) == 60, "rows that came later", TIMEOUT_S, _failure(running))
        assert group_type(broker.bootstrap, group) is (
            ConsumerGroupType.CONSUMER if settings else ConsumerGroupType.CLASSIC
        )
        stop(broker.bootstrap, group, topic, settings)
        reports = running.result(TIMEOUT_S)
    assert values(sink) == sorted(written)
    assert all(report.is_stopped for report in reports)
    assert observer.committed(group, topic) == observer.log_ends(topic, PARTITIONS)
    assert observer.state(group) == "EMPTY"


def test_a_member_that_stops_within_a_rebalance_leaves_when_that_is_over(
    broker: ServerProcess, topic: str, group: str
) -> None:
    """A consumer that is closed while it waits for its assignment would be waited for by all others."""
    arrived, leader = threading.Event(), WireMember(broker.bootstrap, group, "leader")
    member = ExecutorMember(
        plan_for(broker.bootstrap, group, topic, Sink().process, continuous=True),
        Task(0, 0, arrived.set),
    )
    with closing(leader), ThreadPoolExecutor(1) as pool:
        leader.protocol = COOPERATIVE
        rejoin(leader)
        running = pool.submit(member.run)
        wait_until(lambda: members_of(broker.bootstrap, group) == 2, "a second member", TIMEOUT_S)
        leader.send_join()
        leader.joins()
        stop(broker.bootstrap, group, topic)
        assert arrived.wait(TIMEOUT_S)
        assert not wait([running], timeout=1).done, "it leaves before it may"
        leader.send_sync()
        leader.syncs()
        assert running.result(TIMEOUT_S).is_stopped
        assert members_of(broker.bootstrap, group) == 1


def test_runs_of_both_protocols_are_members_of_one_group(
    broker: ServerProcess, observer: Observer, topic: str, group: str
) -> None:
    """As where one takes the place of the other: the group is upgraded, and rows are still seen once."""
    classic, new, written = Sink(), Sink(), write(observer, topic, 40)
    plans = [
        plan_for(broker.bootstrap, group, topic, sink.process, continuous=True, settings=settings)
        for sink, settings in ((classic, {}), (new, CONSUMER))
    ]
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(run_threads, plans[0])]
        wait_until(lambda: len(classic.rows) == 40, "the first rows", TIMEOUT_S, _failure(running[0]))
        running.append(pool.submit(run_threads, plans[1]))
        numbers = itertools.count()

        def is_read_by_the_second() -> bool:
            written.extend(write(observer, topic, PARTITIONS, f"b{next(numbers)}"))
            return bool(new.rows)

        wait_until(is_read_by_the_second, "rows of the second run", TIMEOUT_S, _failure(running[1]))
        assert group_type(broker.bootstrap, group) is ConsumerGroupType.CONSUMER
        wait_until(
            lambda: len(classic.rows) + len(new.rows) >= len(written),
            "all rows",
            TIMEOUT_S,
            _failure(running[0]),
        )
        stop(broker.bootstrap, group, topic)
        for each in running:
            each.result(TIMEOUT_S)
    assert sorted([*values(classic), *values(new)]) == sorted(written)


def _failure(running: Future[list[MemberReport]]) -> Callable[[], str | None]:
    return lambda: "the members have ended" if running.done() else None


def test_a_stop_meant_for_an_earlier_run_is_forgotten(
    broker: ServerProcess, observer: Observer, topic: str, group: str
) -> None:
    written, sink = write(observer, topic, 8), Sink()
    stop(broker.bootstrap, group, topic)
    (report,) = run_threads(plan_for(broker.bootstrap, group, topic, sink.process))
    assert values(sink) == written
    assert not report.is_stopped


class Store:
    """A store with offsets of its own, as a database would have it: rows and offsets change as one."""

    def __init__(self) -> None:
        self.next_offsets: dict[TopicPartition, int] = {}
        self.rows: list[tuple[int, str]] = []
        self.asked: list[str] = []
        self.lock = threading.Lock()

    def process(self, batch: pa.RecordBatch, context: MemberContext) -> None:
        with self.lock:
            for span in context.ranges:
                where = span.topic_partition
                if self.next_offsets.get(where, span.start_offset) != span.start_offset:
                    raise SupersededError(f"{where} is at {self.next_offsets[where]}")
            self.next_offsets |= {span.topic_partition: span.end_offset for span in context.ranges}
            self.rows += [(row["partition"], row["value"].decode()) for row in batch.to_pylist()]

    def positions(
        self, partitions: Sequence[TopicPartition], context: MemberContext
    ) -> dict[TopicPartition, int]:
        with self.lock:
            return {where: self.next_offsets.get(where, -2) for where in partitions}


def test_a_store_decides_where_to_go_on_whatever_the_group_has_committed(
    broker: ServerProcess, observer: Observer, topic: str, group: str
) -> None:
    written, store = write(observer, topic, 40), Store()
    store.next_offsets = {TopicPartition(topic, 0): 4, TopicPartition(topic, 1): 10}
    observer.commit(group, topic, {0: 10, 1: 2, 2: 10, 3: 10})
    plan = plan_for(broker.bootstrap, group, topic, store.process, members=2, positions=store.positions)
    run_threads(plan)
    stored_before = {
        *((0, f"a-{4 * offset}") for offset in range(4)),
        *(each for each in written if each[0] == 1),
    }
    assert sorted(store.rows) == sorted(set(written) - stored_before)
    assert store.next_offsets == {(topic, partition): 10 for partition in range(PARTITIONS)}
    assert observer.committed(group, topic) == dict.fromkeys(range(PARTITIONS), 10)


def test_a_batch_that_another_member_has_stored_is_left_out(
    broker: ServerProcess, observer: Observer, topic: str, group: str
) -> None:
    """The store moves on between the assignment and the first batch, as if this member had slept."""
    observer.write(topic, [f"v-{number}" for number in range(20)], 0)
    store = Store()

    def process(batch: pa.RecordBatch, context: MemberContext) -> None:
        if not store.rows:
            store.rows.append((0, "stored by another"))
            store.next_offsets[TopicPartition(topic, 0)] = 15
        store.process(batch, context)

    (report,) = run_threads(
        plan_for(broker.bootstrap, group, topic, process, positions=store.positions, batch_rows=5)
    )
    assert store.rows[1:] == [(0, f"v-{number}") for number in range(15, 20)]
    assert report.superseded == 1
    assert report.rows == 5


def test_a_store_that_refuses_every_batch_ends_the_run(
    broker: ServerProcess, observer: Observer, topic: str, group: str
) -> None:
    write(observer, topic, 4)

    def refuse(batch: pa.RecordBatch, context: MemberContext) -> None:
        raise SupersededError("always")

    with pytest.raises(MembersError, match="10 batches in a row were superseded: always"):
        run_threads(plan_for(broker.bootstrap, group, topic, refuse, positions=Store().positions))
    with pytest.raises(MembersError, match="no positions say where to go on"):
        run_threads(plan_for(broker.bootstrap, group, topic, refuse))


def test_a_group_that_stands_still_with_rows_to_read_ends_the_run(
    broker: ServerProcess, observer: Observer, topic: str, group: str
) -> None:
    """A log that has become shorter than it was at the start never comes to its end."""
    write(observer, topic, 8)
    plan = plan_for(broker.bootstrap, group, topic, Sink().process, stall_timeout_s=8.0)
    longer = {where: end + 5 for where, end in (plan.ends or {}).items()}
    with pytest.raises(MembersError, match=rf"4 partitions are not at their ends: {topic}-\d at 2 of 7"):
        run_threads(replace(plan, ends=longer))
