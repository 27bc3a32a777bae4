"""What the group tests share: members as processes, a steady stream of records, what must hold at the end."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tests.clients.fleet import DEADLINE_S, Fleet, Worker
from tests.clients.observer import Observer, unique
from tests.processes import wait_until

T = TypeVar("T")

PARTITIONS = 6
BATCH = 30
PAUSE_S = 0.05  # 600 records a second: members are always in the middle of some.


class Group:
    """One group on one topic of six partitions, with the processes that are its members."""

    def __init__(self, fleet: Fleet, observer: Observer) -> None:
        self.topic = observer.create_topic("shared", PARTITIONS)
        self.name = unique("group")
        self.written: list[str] = []
        self._fleet = fleet
        self._observer = observer
        self._numbers = itertools.count()

    def start(self, family: str, **config: object) -> Worker:
        """Start a member of this client library."""
        return self._fleet.start(family, "member", group=self.name, topics=[self.topic], **config)

    def write(self, count: int = 300) -> None:
        """Write `count` records, each with a value of its own, spread over the partitions."""
        values = [f"record-{next(self._numbers)}" for _ in range(count)]
        self._observer.write(self.topic, values)
        self.written += values

    @contextlib.contextmanager
    def steady_writer(self) -> Iterator[None]:
        """Write in the background for as long as the block runs; an error there fails the test here."""
        stop, errors = threading.Event(), []

        def write() -> None:
            try:
                while not stop.wait(PAUSE_S):
                    self.write(BATCH)
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(DEADLINE_S)
        assert not errors, errors[0]

    def await_shared(self, *members: Worker) -> None:
        """Wait until broker and members agree: Stable, each partition owned once, each member has a share."""
        everything = sorted(f"{self.topic}-{partition}" for partition in range(PARTITIONS))

        def agreed() -> bool:
            shares = [_share(member) for member in members]
            reported = sorted(itertools.chain(*shares))
            return all(shares) and reported == everything == self._observer.owned(self.name)

        _wait(agreed, f"{len(members)} members share {self.topic}", members)

    def await_everything_read(self, *members: Worker) -> Counter[str]:
        """Wait until each written record was seen by one of `members`; return how often each was."""

        def all_seen() -> Counter[str] | None:
            seen = Counter(itertools.chain(*map(values_seen, members)))
            return seen if not set(self.written) - seen.keys() else None

        seen = _wait(all_seen, f"all {len(self.written)} records read", members)
        assert seen is not None
        return seen

    def await_everything_committed(self, *members: Worker) -> None:
        """Wait until the committed offset of every partition is its log's end."""
        ends = self._observer.log_ends(self.topic, PARTITIONS)

        def committed() -> bool:
            return self._observer.committed(self.name, self.topic) == ends

        _wait(committed, f"commits at the ends {ends}", members)

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


def _share(member: Worker) -> list[str]:
    events = member.of("owns")
    return events[-1]["partitions"] if events else []


def _wait(condition: Callable[[], T], what: str, members: Iterable[Worker]) -> T:
    try:
        return wait_until(condition, what, DEADLINE_S)
    except TimeoutError as error:
        stories = "\n".join(member.story() for member in members)
        raise AssertionError(f"{error}\n{stories}") from None
