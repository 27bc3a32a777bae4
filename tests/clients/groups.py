"""What the group tests share: members as processes, a steady stream of records, what must hold at the end."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from coordinator.effects import GroupEvent
from harness.observer import Observer, unique
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.clients import chronicle
from tests.clients.chronicle import Generation
from tests.clients.fleet import DEADLINE_S, Fleet, Worker

T = TypeVar("T")

PARTITIONS = 6
COMMIT_VERSION = 8
BATCH = 30
ALTER_S = 60.0
LONG_SESSION_MS = 20_000
"""So long that on a busy machine the next client starts in it, and nobody is put out who is well."""
PAUSE_S = 0.05  # 600 records a second: members are always in the middle of some.


class Group:
    """One group on one topic of its own, with the processes that are its members."""

    def __init__(self, fleet: Fleet, observer: Observer, partitions: int = PARTITIONS) -> None:
        self.topic = observer.create_topic("shared", partitions)
        self.name = unique("group")
        self.written: list[str] = []
        self._partitions = partitions
        self._fleet = fleet
        self._observer = observer
        self._numbers = itertools.count()

    @property
    def bootstrap(self) -> str:
        return self._observer.bootstrap

    def start(self, family: str, **config: object) -> Worker:
        """Start a member of this client library."""
        return self._fleet.start(family, "member", group=self.name, topics=[self.topic], **config)

    def write(self, count: int = 300) -> None:
        """Write `count` records, each with a value of its own, spread over the partitions."""
        values = [f"record-{next(self._numbers)}" for _ in range(count)]
        self._observer.write(self.topic, values)
        self.written += values

    def set_sessions(self, timeout_ms: int) -> None:
        """Let sessions of members by the new protocol last so long."""
        entry = ConfigEntry(
            "consumer.session.timeout.ms", str(timeout_ms), incremental_operation=AlterConfigOpType.SET
        )
        asked = ConfigResource(ResourceType.GROUP, self.name, incremental_configs=[entry])
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        (done,) = admin.incremental_alter_configs([asked]).values()
        done.result(ALTER_S)

    def grow(self, partitions: int) -> None:
        """Grow the topic to `partitions` partitions, which are all to be shared from now on."""
        self._observer.grow_topic(self.topic, partitions)
        self._partitions = partitions

    @contextlib.contextmanager
    def steady_writer(self) -> Iterator[None]:
        """Write in the background for as long as the block runs; an error there fails the test here."""
        stop, errors = threading.Event(), []

        def write() -> None:
            try:
                while not stop.wait(PAUSE_S):
                    self.write(BATCH)
            except Exception as error:  # Raised where the test is, once the thread has ended.
                errors.append(error)

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(DEADLINE_S)
        assert not errors, errors[0]

    def await_shared(self, *workers: Worker, members: int | None = None, idle: int = 0) -> None:
        """Wait until broker and members agree: Stable, each partition owned once, each member has a share.

        A worker is one member, unless they host more: then `members` of them. `idle` members have no share.
        """
        everything = sorted(f"{self.topic}-{partition}" for partition in range(self._partitions))
        expected = members or len(workers)

        def agreed() -> bool:
            shares = [share for worker in workers for share in shares_of(worker).values()]
            reported = sorted(itertools.chain(*shares))
            return (
                len(shares) == expected
                and shares.count([]) == idle
                and reported == everything == self._observer.owned(self.name)
            )

        wait_for_members(agreed, f"{expected} members share {self.topic}", workers)

    def await_state(self, *states: str) -> None:
        """Wait until the broker says that the group is in one of these states, by the observer's names."""
        wait_until(lambda: self._observer.state(self.name) in states, f"{self.name} is {states}", DEADLINE_S)

    def await_everything_read(self, *members: Worker) -> Counter[str]:
        """Wait until each written record was seen by one of `members`; return how often each was."""

        def all_seen() -> Counter[str] | None:
            seen = Counter(itertools.chain(*map(values_seen, members)))
            return seen if not set(self.written) - seen.keys() else None

        seen = wait_for_members(all_seen, f"all {len(self.written)} records read", members)
        assert seen is not None
        return seen

    def await_everything_committed(self, *members: Worker) -> None:
        """Wait until the committed offset of every partition is its log's end."""
        ends = self._observer.log_ends(self.topic, self._partitions)
        ends = {partition: end for partition, end in ends.items() if end}  # An empty partition has no commit.
        wait_for_members(lambda: self.committed() == ends, f"commits at the ends {ends}", members)

    def kind(self) -> str:
        """The group's type as ListGroups has it: "CLASSIC" or "CONSUMER"."""
        return self._observer.kind(self.name)

    def committed(self) -> dict[int, int]:
        """The committed offset of each partition that has one."""
        return self._observer.committed(self.name, self.topic)

    def commit_as(self, member_id: str, generation: int) -> int:
        """Commit the beginning of partition 0 in a member's name; return the broker's error code."""
        offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
        request = OffsetCommitRequest(
            group_id=self.name,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[OffsetCommitRequestTopic(name=self.topic, partitions=[offset])],
        )
        with WireClient(self._observer.bootstrap) as client:
            answer = client.ask(request, COMMIT_VERSION)
        return int(answer.topics[0].partitions[0].error_code)

    def member_ids(self) -> set[str]:
        """The ids of the group's members, as the broker describes them."""
        return {member.member_id for member in self._observer.describe(self.name).members}

    def generations(self) -> list[Generation]:
        """Every generation the coordinator stored, oldest first."""
        return chronicle.generations(self._observer, self.name)

    def reconnect(self) -> None:
        """Connect the observer again, once the broker is back from a restart."""
        self._observer.connect()

    def history(self) -> list[GroupEvent]:
        """The whole history of the group, which must be empty by now. On Muster only."""
        return chronicle.history(self._observer, self.name)

    def stop(self, *members: Worker) -> None:
        """Close every member in good order; the group must be empty at once, with no session to wait for."""
        for member in members:
            member.request_stop()
        for member in members:
            member.finish()
        assert self._observer.state(self.name) == "EMPTY"


def values_seen(member: Worker) -> list[str]:
    """Every value a member reported, repeats kept."""
    return [value for event in member.of("records") for value in event["values"]]


def shares_of(worker: Worker) -> dict[int, list[str]]:
    """What each of the worker's members said last that it owns, by its number."""
    return {event["member"]: event["partitions"] for event in worker.of("owns")}


def wait_for_members(condition: Callable[[], T], what: str, members: Iterable[Worker]) -> T:
    """Wait for a truthy `condition`; AssertionError, with what the members said, if it takes too long."""
    try:
        return wait_until(condition, what, DEADLINE_S)
    except TimeoutError as error:
        stories = "\n".join(member.story() for member in members)
        raise AssertionError(f"{error}\n{stories}") from None
