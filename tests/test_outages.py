"""What waits for a disk is tried again, at the times that the docs promise."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from coordinator.runtime.outages import Outages
from harness.doubles.manual_timers import ManualTimers
from storage.files import StorageError

PROMISED_MS = 10_000  # docs/decisions.md: "tried again every ten seconds"
PROBE_MS = 1_000  # "one trial write a second"
BEGIN_MS = 5_000
NO_ROOM = StorageError("write", Path("file"), "no room", errno.ENOSPC)


class World(ManualTimers):
    """Timers that a test moves, and a disk that has room when it says so."""

    def __init__(self) -> None:
        super().__init__(BEGIN_MS)
        self.has_room = False
        self.probes_at_ms: list[int] = []
        self.outages = Outages(self, self._probe, self._run)

    def _probe(self) -> None:
        self.probes_at_ms.append(self.time_ms)
        if not self.has_room:
            raise NO_ROOM

    def _run(self, work: Callable[[], None], done: Callable[[Any], None]) -> None:
        outcome: Future[None] = Future()
        try:
            work()
        except StorageError as error:
            outcome.set_exception(error)
        else:
            outcome.set_result(None)
        done(outcome)


class Waiting:
    """A log that cannot be used until it is tried again."""

    def __init__(self, world: World) -> None:
        self.tried_at_ms: list[int] = []
        self._world = world

    def try_again(self) -> None:
        self.tried_at_ms.append(self._world.time_ms)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    assert all(deadline_ms is not None for _, _, deadline_ms in made.calls), "no timer is cancelled"


def test_a_log_that_the_disk_would_not_let_us_use_is_tried_again_after_ten_seconds(world: World) -> None:
    log = Waiting(world)
    world.outages.try_later(log)
    world.advance_to(BEGIN_MS + PROMISED_MS - 1)
    assert log.tried_at_ms == []
    world.advance_to(BEGIN_MS + PROMISED_MS)
    assert log.tried_at_ms == [BEGIN_MS + PROMISED_MS]
    world.advance_to(BEGIN_MS + 10 * PROMISED_MS)
    assert len(log.tried_at_ms) == 1, "it waits again only if it says so"


def test_a_full_disk_is_probed_once_a_second_for_all_that_wait(world: World) -> None:
    logs = [Waiting(world), Waiting(world)]
    for log in logs:
        world.outages.wait_for_disk_space(log, NO_ROOM)
    world.advance_to(BEGIN_MS + 3 * PROBE_MS)
    world.has_room = True
    world.advance_to(BEGIN_MS + 10 * PROBE_MS)
    assert world.probes_at_ms == [BEGIN_MS + count * PROBE_MS for count in (1, 2, 3, 4)]
    assert [log.tried_at_ms for log in logs] == [[BEGIN_MS + 4 * PROBE_MS]] * 2
    assert not world.outages.is_full


def test_a_stop_has_nothing_tried_any_more(world: World) -> None:
    log = Waiting(world)
    world.outages.try_later(log)
    world.outages.wait_for_disk_space(log, NO_ROOM)
    world.outages.stop()
    world.has_room = True
    world.advance_to(BEGIN_MS + PROMISED_MS)
    assert (log.tried_at_ms, world.probes_at_ms) == ([], [])
