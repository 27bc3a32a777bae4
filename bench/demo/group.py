"""The group: three members start, one is killed midway, one joins; who read what is counted.

Every step waits for something that the members have reported, never for time to pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from bench.demo.members import GroupMember
from harness.processes import wait_until

SESSION_TIMEOUT_MS = (
    6_000  # The shortest that Kafka allows by default; so long the dead keep their partitions.
)
MEMBERS = 3
KILL_AT = 0.3  # Of all rows read.
STEP_DEADLINE_S = 180.0


class GroupRun:
    """Runs a group on a topic of `log_ends` (rows by partition) until everything is read and committed.

    Three members would need about `seconds` for it. `consumer` holds the consumers' settings.
    """

    def __init__(
        self,
        consumer: dict[str, str],
        topic: str,
        log_ends: dict[int, int],
        seconds: float,
        log_dir: Path,
    ) -> None:
        self.members: list[GroupMember] = []
        self.killed: GroupMember | None = None
        self.times_read: Counter[str] = Counter()  # By flight.
        self.rows = sum(log_ends.values())
        self._consumer = consumer
        self._topic = topic
        self._log_ends = log_ends
        self._rows_per_s = max(1.0, self.rows / seconds / MEMBERS)
        self._log_dir = log_dir
        self._on_change: Callable[[], None] = lambda: None

    def run(self, is_committed: Callable[[], bool], on_change: Callable[[], None]) -> None:
        """The whole run. Raises RuntimeError or TimeoutError where it does not go as it should.

        `is_committed` says whether the committed offsets have reached the log ends; `on_change` is called
        often, as rows come in.
        """
        self._on_change = on_change
        for _ in range(MEMBERS):
            self._start()
        self._until(lambda: self.distinct >= KILL_AT * self.rows, "the group reads")
        self.killed = max(self.members, key=self._left_to_read)
        self.killed.kill()
        self._until(self._everything_is_owned, "the group goes on without the killed member")
        joining = self._start()
        self._until(lambda: bool(joining.partitions), f"{joining.name} gets its share")
        self._until(lambda: self.distinct == self.rows, "everything is read")
        self._until(is_committed, "everything is committed")
        self._stop()

    @property
    def distinct(self) -> int:
        """How many different flights have been read."""
        return len(self.times_read)

    @property
    def alive(self) -> list[GroupMember]:
        """The members that were not killed."""
        return [member for member in self.members if member is not self.killed]

    def seen_twice(self) -> set[str]:
        """The flights that were read more than once."""
        return {flight for flight, times in self.times_read.items() if times > 1}

    def close(self) -> None:
        """End every process that still runs."""
        for member in self.members:
            member.kill()

    def _start(self) -> GroupMember:
        name = f"flights-{len(self.members) + 1}"
        consumer = {
            **self._consumer,
            "client.id": name,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": 1_000,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        config = {"topic": self._topic, "rows_per_s": self._rows_per_s, "consumer": consumer}
        self.members.append(GroupMember(name, config, self._log_dir))
        return self.members[-1]

    def _stop(self) -> None:
        for member in self.alive:
            member.request_stop()
        for member in self.alive:
            member.wait()
        self._gather()
        for member in self.alive:
            member.state = "left"
        self._on_change()

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        def holds() -> bool:
            self._gather()
            return condition()

        try:
            wait_until(holds, what, STEP_DEADLINE_S, give_up=self._trouble)
        except TimeoutError as late:
            raise TimeoutError(
                "\n".join([str(late), *(member.summary() for member in self.members)])
            ) from None

    def _trouble(self) -> str | None:
        return next((member.summary() for member in self.alive if not member.is_running), None)

    def _gather(self) -> None:
        for member in self.members:
            self.times_read.update(member.gather())
        self._on_change()

    def _left_to_read(self, member: GroupMember) -> int:
        """Unread rows of the member's partitions: these wait until its session expires."""
        return sum(
            self._log_ends[partition] - sum(other.rows_of[partition] for other in self.members)
            for partition in member.partitions
        )

    def _everything_is_owned(self) -> bool:
        owned = sorted(partition for member in self.alive for partition in member.partitions)
        return owned == sorted(self._log_ends)
