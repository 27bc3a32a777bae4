"""Markers are written to every partition of a transaction, for as long as that takes, and reported once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from coordinator.effects import MarkersWanted
from coordinator.runtime.marker_sender import MarkerSender
from harness.doubles.manual_timers import ManualTimers
from protocol.errors import ErrorCode, OnDone
from protocol.records.control import Marker
from protocol.topic_partition import TopicPartition

MARKER = Marker(producer_id=7, producer_epoch=1, coordinator_epoch=0, is_commit=True)
ORDERS, CLICKS = TopicPartition("orders", 0), TopicPartition("clicks", 1)


class World(ManualTimers):
    """Partitions that answer when a test says so, timers, and the next turn of the loop."""

    def __init__(self) -> None:
        super().__init__(5_000)
        self.fired = 0
        self.writes: list[tuple[Marker, str, int]] = []
        self.outcomes: list[OnDone] = []
        self.posted: list[Callable[[], None]] = []
        self.done: list[str] = []
        self.sender = MarkerSender(self._write, self, self.posted.append)

    def _write(self, marker: Marker, topic: str, index: int, done: OnDone) -> None:
        self.writes.append((marker, topic, index))
        self.outcomes.append(done)

    def fire(self) -> None:
        assert self.timers == {(self.sender, None): 6_000}, "a second later"
        self.fired += 1
        self.fire_due(within_ms=1_000)

    def want(self, name: str, *partitions: TopicPartition) -> None:
        self.sender.write(MarkersWanted(MARKER, partitions, name), lambda: self.done.append(name))

    def end_writes(self, *errors: ErrorCode) -> None:
        """The oldest writes end so."""
        for error in errors:
            self.outcomes.pop(0)(error)

    def turn(self) -> None:
        posted = self.posted[:]
        self.posted.clear()
        for each in posted:
            each()


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    assert len(made.calls) == made.fired + len(made.timers), "one timer is enough"


def test_it_is_done_when_every_partition_has_the_marker(world: World) -> None:
    world.want("t", ORDERS, CLICKS)
    assert world.writes == [(MARKER, *ORDERS), (MARKER, *CLICKS)]
    world.end_writes(ErrorCode.NONE)
    world.turn()
    assert world.done == []
    world.end_writes(ErrorCode.NONE)
    assert world.done == [], "in a turn of its own"
    world.turn()
    assert world.done == ["t"]


def test_of_no_partitions_it_is_done_in_the_next_turn(world: World) -> None:
    world.want("t")
    assert world.done == []
    world.turn()
    assert world.done == ["t"]


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ],
)
def test_a_partition_that_needs_no_marker_is_done(world: World, error: ErrorCode) -> None:
    world.want("t", ORDERS)
    world.end_writes(error)
    world.turn()
    assert world.done == ["t"]
    assert world.timers == {}


def test_a_partition_that_knows_a_later_coordinator_gets_a_marker_of_a_later_one_yet(world: World) -> None:
    """As in a log that Kafka wrote; else the transaction would stay open there for ever."""
    world.want("t", ORDERS)
    known, tried = 5, []
    while world.outcomes:
        tried.append(world.writes[-1][0].coordinator_epoch)
        is_fenced = tried[-1] < known
        world.end_writes(ErrorCode.TRANSACTION_COORDINATOR_FENCED if is_fenced else ErrorCode.NONE)
    assert tried == [0, 1, 3, 7]
    world.turn()
    assert world.done == ["t"]


def test_the_search_for_a_later_coordinator_ends(world: World) -> None:
    world.want("t", ORDERS)
    while world.outcomes:
        world.end_writes(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    assert world.writes[-1][0].coordinator_epoch == 2**31 - 1
    assert len(world.timers) == 1, "then it waits like others"


def test_what_fails_is_tried_again_until_it_succeeds_all_at_once(world: World) -> None:
    world.want("t", ORDERS, CLICKS)
    world.want("u", ORDERS)
    world.end_writes(ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert len(world.writes) == 3
    for attempt in range(2, 4):
        world.fire()
        assert len(world.writes) == 3 + 2 * (attempt - 1)
        outcome = ErrorCode.KAFKA_STORAGE_ERROR if attempt < 3 else ErrorCode.NONE
        world.end_writes(outcome, outcome)
        world.turn()
    assert world.done == ["t", "u"]
    assert world.timers == {}


def test_what_a_shard_asked_for_before_it_was_read_again_is_given_up(world: World) -> None:
    """A late marker of it would end the next transaction of the same epoch."""
    world.want("t", ORDERS, CLICKS)
    world.end_writes(ErrorCode.KAFKA_STORAGE_ERROR)
    world.want("t", ORDERS, CLICKS)  # By a shard that was read again.
    world.end_writes(ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE, ErrorCode.NONE)
    world.turn()
    assert world.done == ["t"]
    written = len(world.writes)
    world.fire()
    assert len(world.writes) == written
    assert world.timers == {}


def test_another_transaction_of_the_same_producer_gives_up_nothing(world: World) -> None:
    world.want("t", ORDERS)
    world.want("u", ORDERS)
    world.end_writes(ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE)
    world.fire()
    world.end_writes(ErrorCode.NONE)
    world.turn()
    assert sorted(world.done) == ["t", "u"]


def test_what_the_shard_does_not_want_any_more_is_not_tried_again(world: World) -> None:
    """It moved to another node, which sends what is needed: late, a marker would end the next transaction."""
    wants = [True]
    world.sender.write(
        MarkersWanted(MARKER, (ORDERS,), "t"), lambda: world.done.append("t"), lambda: wants[0]
    )
    world.end_writes(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    wants.clear()
    wants.append(False)
    world.fire()
    assert (len(world.writes), world.done) == (1, [])
