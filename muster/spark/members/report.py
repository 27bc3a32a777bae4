"""What a run of members reports when it is over: what each member read, and which rebalances it saw.

Plain dataclasses: members send them from their executors to the driver. A member that lives for weeks keeps its
newest ranges and rebalances only, and the counts of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from protocol.topic_partition import TopicPartition

KEPT_RANGES: Final = 1000  # Per member. A range grows as long as its member owns the partition.
KEPT_REBALANCES: Final = 1000


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Rows of one partition, from `start_offset` up to `end_offset`, exclusive.

    There may be fewer rows than offsets: markers of transactions have offsets, and compaction takes rows away.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    rows: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class RebalanceKind(StrEnum):
    ASSIGNED = "assigned"
    REVOKED = "revoked"  # What was processed in these partitions has been committed.
    LOST = "lost"  # The group removed this member: others read again what it had not committed.


@dataclass(frozen=True, slots=True)
class MemberRebalance:
    """One change of a member's partitions; `at_ms` is ms since 1970 by the executor's clock."""

    kind: RebalanceKind
    at_ms: int
    partitions: tuple[TopicPartition, ...]

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.at_ms / 1000, UTC)


@dataclass(frozen=True, slots=True)
class MemberReport:
    """What one member did in the last attempt, from joining to leaving.

    `ranges` and `rebalances` are the newest KEPT_RANGES and KEPT_REBALANCES, oldest first; `rebalance_count` is
    of all. `commits_refused` were refused because the group had moved on, `commits_failed` got no answer or one
    that may pass: either way they were made again, or others read the rows again. `superseded` counts batches
    that `process` refused because another member had gone on from there.
    """

    member: int
    member_id: str
    host: str
    task_attempt_id: int
    rows_by_partition: dict[TopicPartition, int]
    batches: int
    ranges: tuple[OffsetRange, ...]
    rebalances: tuple[MemberRebalance, ...]
    rebalance_count: int
    commits: int
    commits_refused: int
    commits_failed: int
    superseded: int
    is_stopped: bool

    @property
    def rows(self) -> int:
        return sum(self.rows_by_partition.values())


@dataclass(frozen=True, slots=True)
class RunReport:
    """The report of a finished run. `members` are those of the last attempt; earlier reports are lost.

    `failures` are the reasons of the earlier attempts, in a line each; none if nothing failed. `ends` are the log
    ends known at the start (empty in a continuous run). `is_stopped` says that it was ended by `stop`.
    """

    group_id: str
    run_id: str
    failures: tuple[str, ...]
    ends: dict[TopicPartition, int]
    members: tuple[MemberReport, ...]

    @property
    def attempts(self) -> int:
        """The number of times that Spark ran the stage: 1 if nothing failed."""
        return 1 + len(self.failures)

    @property
    def rows(self) -> int:
        """The number of rows that the members of the last attempt read."""
        return sum(member.rows for member in self.members)

    @property
    def is_stopped(self) -> bool:
        return any(member.is_stopped for member in self.members)

    def rows_by_partition(self) -> dict[TopicPartition, int]:
        """The number of rows of all members per partition, sorted by topic and partition."""
        total: Counter[TopicPartition] = Counter()
        for member in self.members:
            total.update(member.rows_by_partition)
        return dict(sorted(total.items()))

    def lines(self) -> Iterator[str]:
        """A sentence for the run and one for each member."""
        ending = "stopped" if self.is_stopped else "at the end"
        outcome = f"{self.group_id}: {self.rows:,} rows by {len(self.members)} members, {ending}"
        yield outcome if self.attempts == 1 else f"{outcome}, in attempt {self.attempts}"
        for member in self.members:
            yield (
                f"member {member.member} on {member.host}: {member.rows:,} rows of "
                f"{len(member.rows_by_partition)} partitions, {member.rebalance_count} rebalances"
            )
