"""What a run of members is to do: a plain value, made by the driver and sent to every member."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from muster.spark.members.report import OffsetRange
from protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS: Final = 5_000
COMMIT_INTERVAL_S: Final = 1.0
STALL_TIMEOUT_S: Final = 600.0  # Twice what a stock client may take for a batch (max.poll.interval.ms).

# Settings of the stock client on which the promises of a run depend.
SET_BY_RUN: Final = (
    "bootstrap.servers",
    "group.id",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "group.instance.id",  # A static member does not leave the group when it is closed.
)
COOPERATIVE: Final = "cooperative-sticky"
DEFAULTS: Final[Mapping[str, str]] = {
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "partition.assignment.strategy": COOPERATIVE,
    # Not the client's 45 s: a member whose worker was killed by Spark delays the others for as long.
    "session.timeout.ms": "10000",
    "heartbeat.interval.ms": "1000",  # Not 3 s: a heartbeat's answer reports a rebalance.
}
# Settings that a client refuses with group.protocol=consumer (KIP-848), for they are the broker's there.
OF_CLASSIC_PROTOCOL: Final = (
    "partition.assignment.strategy",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "group.protocol.type",
)


class MembersError(Exception):
    """A run of members cannot begin, or has failed; the message is a sentence."""


class SupersededError(Exception):
    """Raised by `process`: another member has gone on from where this batch begins, and nothing was stored.

    The member goes back to where `positions` says.
    """


@dataclass(frozen=True, slots=True)
class MemberContext:
    """The member that `process` works for. `task_attempt_id` is unique in the Spark application.

    `ranges` are the offsets of the batch at hand, one range for each of its partitions. As long as a member owns a
    partition each range begins where the one before it ended, the first where `positions` said: a store that
    keeps the end of the last range knows by its beginning whether the next one is to be written.
    """

    group_id: str
    run_id: str
    member: int
    members: int
    task_attempt_id: int
    ranges: tuple[OffsetRange, ...] = ()


Process = Callable[["pa.RecordBatch", MemberContext], None]
"""Called with the rows of a batch in columns of `arrow_rows.SCHEMA`. When it returns, they are processed."""
Positions = Callable[[Sequence[TopicPartition], MemberContext], Mapping[TopicPartition, int]]
"""Called on assignment; returns where to begin instead of the group's offsets. Below 0: the log's beginning."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one run. `ends` are the log ends known at the start, None for a continuous run."""

    bootstrap: str
    group_id: str
    run_id: str
    topics: Sequence[str]
    members: int
    process: Process
    positions: Positions | None = None
    ends: Mapping[TopicPartition, int] | None = None
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)  # A password may be among them.
    batch_rows: int = BATCH_ROWS
    commit_interval_s: float = COMMIT_INTERVAL_S
    stall_timeout_s: float = STALL_TIMEOUT_S

    @property
    def is_cooperative(self) -> bool:
        """Whether partitions come and go one by one; by the consumer protocol they always do."""
        return self.settings.get("partition.assignment.strategy", COOPERATIVE) == COOPERATIVE

    @property
    def is_classic(self) -> bool:
        """Whether members join by JoinGroup and SyncGroup, and not by the consumer protocol (KIP-848)."""
        return str(self.settings.get("group.protocol", "classic")).lower() != "consumer"

    @property
    def end_mark(self) -> str:
        """The metadata of a commit at a log end, by which it shows that this run has read so far."""
        return f"end of run {self.run_id}"

    @property
    def stop_group_id(self) -> str:
        return stop_group_id(self.group_id)

    def watch_settings(self) -> dict[str, str | bool]:
        """The settings of a consumer that never joins, and reads whether to stop."""
        name = {"client.id": f"{self.group_id}-watch", "group.id": self.stop_group_id}
        return {**self.consumer_settings(0), **name}

    def consumer_settings(self, member: int) -> dict[str, str | bool]:
        """The settings of a member's consumer."""
        return {
            "client.id": f"{self.group_id}-{member}",
            **self.settings,
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group_id,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
        }


def stop_group_id(group_id: str) -> str:
    """The group in which a commit asks the members of `group_id` to stop. It never has members."""
    return f"{group_id}.stop"


def effective_settings(given: Mapping[str, str], *, has_positions: bool) -> dict[str, str]:
    """The user's settings over DEFAULTS. Raises MembersError for settings that a user may not set."""
    taken = sorted(set(given) & set(SET_BY_RUN))
    if taken:
        raise MembersError(f"{', '.join(taken)} cannot be given among the settings: members.run sets them")
    defaults = dict(DEFAULTS)
    if (
        has_positions
    ):  # Rows that the topic has lost must not be skipped silently where a store has the positions.
        defaults["auto.offset.reset"] = "error"
    if str(given.get("group.protocol")).lower() == "consumer":
        if refused := sorted(set(given) & set(OF_CLASSIC_PROTOCOL)):
            raise MembersError(
                f"{', '.join(refused)} cannot be given among the settings with group.protocol=consumer: "
                "the broker decides on that"
            )
        defaults = {name: value for name, value in defaults.items() if name not in OF_CLASSIC_PROTOCOL}
    return {**defaults, **{name: str(value) for name, value in given.items()}}
