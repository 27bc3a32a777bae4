"""One member from start to end: a stock consumer that joins the group, passes batches on, commits, and leaves.

All members end together. One that has nothing left to read stays in the group, for its leaving would only move
partitions about, until the group's offsets say that everything is done (`group_watch`), or until it is asked to
stop; then it waits, still in the group, until all members know, and they leave at once.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Final, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from muster.spark.clients import new_consumer
from muster.spark.members.arrow_rows import record_batch
from muster.spark.members.group_watch import GroupWatch
from muster.spark.members.plan import MemberContext, MembersError, Plan, SupersededError
from muster.spark.members.report import (
    KEPT_REBALANCES,
    MemberRebalance,
    MemberReport,
    RebalanceKind,
)
from muster.spark.members.share import ProcessedOffset, RowBatch, Share
from protocol.topic_partition import TopicPartition

POLL_S: Final = 0.1
LEAVE_TIMEOUT_S: Final = 10.0  # Where others hold the rebalance up for longer, the group expires the member.
SUPERSEDED_MAX: Final = 10  # In a row: after so many it is not another member that has gone on.

# Errors by which the group has moved on without this member, or is about to: its partitions may be another's.
_REFUSED: Final = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError._ASSIGNMENT_LOST,
    }
)
# Errors after which the commit may or may not have happened. Repeating the commit does no harm.
_UNANSWERED: Final = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._WAIT_COORD,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


def run_member(plan: Plan) -> MemberReport:
    """Run the member for this barrier task until the run is over, and return its report."""
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    task = Task(context.partitionId(), context.taskAttemptId(), context.barrier)
    return ExecutorMember(plan, task).run()


@dataclass(frozen=True, slots=True)
class Task:
    """A member's Spark task. `arrive` returns when the tasks of all members have called it."""

    member: int
    task_attempt_id: int
    arrive: Callable[[], None]


@dataclass(slots=True)
class _Counts:
    batches: int = 0
    rebalances: int = 0
    commits: int = 0
    refused: int = 0
    failed: int = 0
    superseded: int = 0
    superseded_in_a_row: int = 0


class ExecutorMember:
    """One member in one attempt; `run` is all that it does."""

    def __init__(self, plan: Plan, task: Task) -> None:
        self._plan = plan
        self._task = task
        self._share = Share(plan.ends)
        self._consumer = new_consumer(plan.consumer_settings(task.member))
        self._watch = GroupWatch(plan, self._consumer)
        self._context = MemberContext(
            plan.group_id, plan.run_id, task.member, plan.members, task.task_attempt_id
        )
        self._counts = _Counts()
        self._rebalances: deque[MemberRebalance] = deque(maxlen=KEPT_REBALANCES)
        self._member_id = ""
        self._is_stopped = self._is_idle = False
        self._next_commit_s = self._answered_s = time.monotonic()

    def run(self) -> MemberReport:
        """Read until the run is over; return the report. What `process` raises is raised after a last commit."""
        try:
            self._consumer.subscribe(
                list(self._plan.topics),
                on_assign=self._on_assign,
                on_revoke=self._on_revoke,
                on_lost=self._on_lost,
            )
            while not self._is_over():
                self._turn()
            self._arrive_together()
        finally:
            self._leave()
        return self._report()

    def _leave(self) -> None:
        """Leave the group; closing the consumer revokes its partitions, which commits what is processed."""
        if not self._consumer.assignment():
            # librdkafka 2.16 closes a consumer that owns nothing without a LeaveGroup, and in the middle of a
            # rebalance puts off `unsubscribe`: it has left when it no longer has a member id.
            self._consumer.unsubscribe()
            deadline_s = time.monotonic() + LEAVE_TIMEOUT_S
            while self._plan.is_classic and self._consumer.memberid() and time.monotonic() < deadline_s:
                self._consumer.consume(self._plan.batch_rows, POLL_S)
        self._consumer.close()
        self._watch.close()

    def _is_over(self) -> bool:
        self._is_stopped = self._watch.is_stopped()
        if self._is_stopped:
            return True
        # A member that reads rows knows that the run is not done. One that reads none may have to wait for others.
        return self._is_idle and self._watch.is_done()

    def _turn(self) -> None:
        """Poll, process what came, and commit if it is time. Rebalances happen within `consume`."""
        batch = self._share.take(self._records(self._consumer.consume(self._plan.batch_rows, POLL_S)))
        self._is_idle = not batch.rows
        if batch.rows:
            self._watch.moved()
            if not self._process(batch):
                return
        self._share.mark_processed(batch)
        resting = self._share.newly_at_end()
        if resting:
            self._consumer.pause([ClientPartition(*where) for where in resting])
        if resting or time.monotonic() >= self._next_commit_s:
            self._commit(self._share.uncommitted())

    def _records(self, messages: Iterable[Message]) -> Iterator[tuple[TopicPartition, int, Message]]:
        """The records among the messages of a poll. Raises KafkaException for an error that does not pass."""
        for message in messages:
            error = message.error()
            if error is None:
                yield _partition(message), cast(int, message.offset()), message
            elif error.code() == KafkaError._PARTITION_EOF:
                self._share.reach(_partition(message), cast(int, message.offset()))
            elif error.code() != KafkaError._MAX_POLL_EXCEEDED:  # librdkafka has called `on_lost` for it.
                raise KafkaException(error)

    def _process(self, batch: RowBatch[Message]) -> bool:
        """Call `process`; False if another member has processed the batch, after seeking to the positions."""
        try:
            self._plan.process(record_batch(batch.rows), replace(self._context, ranges=batch.ranges))
        except SupersededError as error:
            self._counts.superseded += 1
            self._counts.superseded_in_a_row += 1
            if self._counts.superseded_in_a_row >= SUPERSEDED_MAX:
                raise MembersError(f"{SUPERSEDED_MAX} batches in a row were superseded: {error}") from error
            self._go_back([span.topic_partition for span in batch.ranges])
            return False
        self._counts.batches += 1
        self._counts.superseded_in_a_row = 0
        return True

    def _go_back(self, partitions: list[TopicPartition]) -> None:
        """Seek to the present positions of these partitions. Raises MembersError if one has none."""
        positions = self._positions(partitions)
        if positions.keys() != set(partitions):
            raise MembersError("process raised SupersededError, and no positions say where to go on")
        self._share.assign(positions)
        for (topic, partition), offset in positions.items():
            self._consumer.seek(ClientPartition(topic, partition, offset))

    def _positions(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets that the user's `positions` returns for these partitions; empty without `positions`."""
        if self._plan.positions is None:
            return {}
        found = self._plan.positions(partitions, self._context)
        return {where: found[where] for where in partitions if where in found}

    def _on_assign(self, consumer: Consumer, assigned: list[ClientPartition]) -> None:
        partitions = [_where(each) for each in assigned]
        self._record_rebalance(RebalanceKind.ASSIGNED, partitions)
        positions = self._positions(partitions)
        self._share.assign({where: positions.get(where) for where in partitions})
        for each in assigned:
            each.offset = positions.get(_where(each), each.offset)
        if self._plan.is_cooperative:
            consumer.incremental_assign(assigned)
        else:
            consumer.assign(assigned)

    def _on_revoke(self, consumer: Consumer, revoked: list[ClientPartition]) -> None:
        """Commit what is processed before the partitions are another member's, which begins at the commits."""
        partitions = [_where(each) for each in revoked]
        self._commit(self._share.uncommitted(partitions))
        self._give_up(consumer, RebalanceKind.REVOKED, revoked)

    def _on_lost(self, consumer: Consumer, lost: list[ClientPartition]) -> None:
        """Release the partitions without a commit, which the group would refuse."""
        self._give_up(consumer, RebalanceKind.LOST, lost)

    def _give_up(self, consumer: Consumer, kind: RebalanceKind, gone: list[ClientPartition]) -> None:
        partitions = [_where(each) for each in gone]
        self._record_rebalance(kind, partitions)
        self._share.release(partitions)
        if self._plan.is_cooperative:
            consumer.incremental_unassign(gone)
        else:
            consumer.unassign()

    def _record_rebalance(self, kind: RebalanceKind, partitions: list[TopicPartition]) -> None:
        self._counts.rebalances += 1
        self._member_id = self._consumer.memberid() or self._member_id
        self._rebalances.append(MemberRebalance(kind, time.time_ns() // 1_000_000, tuple(sorted(partitions))))

    def _commit(self, progress: list[ProcessedOffset]) -> None:
        """Commit and wait for the answer. What is refused, or not answered, remains uncommitted."""
        now_s = time.monotonic()
        self._next_commit_s = now_s + self._plan.commit_interval_s
        if not progress:
            self._answered_s = now_s
            return
        try:
            self._commit_now(progress)
        except KafkaException as error:
            if error.args[0].code() in _REFUSED:
                self._counts.refused += 1
            elif (
                error.args[0].code() in _UNANSWERED and now_s - self._answered_s < self._plan.stall_timeout_s
            ):
                self._counts.failed += 1
                return
            else:
                raise
        self._answered_s = time.monotonic()

    def _commit_now(self, progress: list[ProcessedOffset]) -> None:
        mark = self._plan.end_mark
        offsets = [
            ClientPartition(each.topic, each.partition, each.offset, mark if each.is_at_end else "")
            for each in progress
        ]
        for answer in self._consumer.commit(offsets=offsets, asynchronous=False):
            if answer.error is not None:
                raise KafkaException(answer.error)
        self._share.mark_committed(progress)
        self._counts.commits += 1

    def _arrive_together(self) -> None:
        """Wait until all members have called this, while staying in the group."""
        self._consumer.pause(self._consumer.assignment())
        deadline_s = time.monotonic() + self._plan.stall_timeout_s
        self._commit(self._share.uncommitted())
        while self._share.uncommitted() and time.monotonic() < deadline_s:
            self._stay()  # The commit was refused in a rebalance, which this member joins by polling.
            self._commit(self._share.uncommitted())
        arrived: Future[None] = Future()
        threading.Thread(target=_set_outcome, args=(arrived, self._task.arrive), daemon=True).start()
        while not arrived.done():
            self._stay()
            if time.monotonic() > deadline_s:
                waited = f"{self._plan.stall_timeout_s:g} s"
                raise MembersError(f"other members have not come to the end within {waited} of this one")
        arrived.result()

    def _stay(self) -> None:
        """Poll without processing anything: rows of partitions that are assigned only now are not committed."""
        for _ in self._records(self._consumer.consume(self._plan.batch_rows, POLL_S)):
            continue

    def _report(self) -> MemberReport:
        counts = self._counts
        return MemberReport(
            member=self._task.member,
            member_id=self._member_id,
            host=socket.gethostname(),
            task_attempt_id=self._task.task_attempt_id,
            rows_by_partition=dict(sorted(self._share.rows.items())),
            batches=counts.batches,
            ranges=self._share.ranges(),
            rebalances=tuple(self._rebalances),
            rebalance_count=counts.rebalances,
            commits=counts.commits,
            commits_refused=counts.refused,
            commits_failed=counts.failed,
            superseded=counts.superseded,
            is_stopped=self._is_stopped,
        )


def _where(client_partition: ClientPartition) -> TopicPartition:
    return TopicPartition(client_partition.topic, client_partition.partition)


def _partition(message: Message) -> TopicPartition:
    return TopicPartition(cast(str, message.topic()), cast(int, message.partition()))


def _set_outcome(future: Future[None], call: Callable[[], None]) -> None:
    """Set the result of `future` to the outcome of `call`, be it a return or an exception."""
    try:
        call()
    except BaseException as error:  # `future.result()` raises it.
        future.set_exception(error)
    else:
        future.set_result(None)
