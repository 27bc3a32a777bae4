"""Pushes are decoded one at a time, addresses in turn, at a tenth of a CPU; and dropped when the daemon stops."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from coordinator.telemetry.decode_queue import MAX_PER_ADDRESS, MAX_WAITING, REST, DecodeQueue, Push
from coordinator.telemetry.payload import NotMetrics, Said
from harness.doubles.inline_workers import finished


class Rest:
    """One call that the queue has set for later."""

    def __init__(self, seconds: float, call: Callable[[], None]) -> None:
        self.seconds, self.call, self.is_cancelled = seconds, call, False

    def cancel(self) -> None:
        self.is_cancelled = True


class Scene:
    """A queue whose thread and time the test plays."""

    def __init__(self) -> None:
        self.running: list[tuple[Callable[[], Any], Callable[[Future[Any]], None]]] = []
        self.rests: list[Rest] = []
        self.cpu_s = 0.0
        self.ended: list[str] = []
        self.queue = DecodeQueue(self, self.later, lambda: self.cpu_s)

    def submit(self, work: Callable[[], Any], done: Callable[[Future[Any]], None]) -> None:
        self.running.append((work, done))

    def later(self, seconds: float, call: Callable[[], None]) -> Rest:
        self.rests.append(Rest(seconds, call))
        return self.rests[-1]

    def push(self, name: str, cpu_s: float = 0.0, address: str = "a", error: Exception | None = None) -> bool:
        def decode() -> Said:
            self.cpu_s += cpu_s
            if error is not None:
                raise error
            return Said()

        if not self.queue.has_room_for(address):
            return False
        done = lambda decoded: self.ended.append(f"{name} {decoded.exception()!r}")  # noqa: E731
        self.queue.add(Push(address, decode, done, lambda: self.ended.append(f"{name} dropped")))
        return True

    def decode(self) -> None:
        """Have the one push decoded that is on the thread."""
        ((work, done),) = self.running
        self.running.clear()
        done(finished(work))

    def rested(self) -> None:
        self.rests.pop().call()


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.parametrize("error", [None, NotMetrics("no")])
def test_after_a_push_it_rests_for_nine_times_what_it_took(scene: Scene, error: Exception | None) -> None:
    assert scene.push("first", 0.05, error=error)
    assert scene.push("second", 0.01, "b")
    assert len(scene.running) == 1, "one at a time"
    scene.decode()
    assert scene.ended == [f"first {error!r}"]
    assert [rest.seconds for rest in scene.rests] == [pytest.approx(0.05 * REST)]
    assert REST == 9
    assert scene.running == [], "nobody's push is decoded while it rests"
    assert scene.push("third", 0.0, "c")
    assert scene.running == []
    scene.rested()
    scene.decode()
    assert scene.ended[1:] == ["second None"]
    assert [rest.seconds for rest in scene.rests] == [pytest.approx(0.01 * REST)]


def test_addresses_take_turns(scene: Scene) -> None:
    for name, address in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("c1", "c")):
        assert scene.push(name, address=address)
    for _ in range(5):
        scene.decode()
        scene.rested()
    assert [each.split()[0] for each in scene.ended] == ["a1", "a2", "b1", "c1", "a3"]
    assert (scene.running, scene.rests) == ([], [])


def test_few_wait_and_of_one_address_fewer(scene: Scene) -> None:
    assert scene.push("on the thread")
    assert [scene.push(f"a{number}") for number in range(MAX_PER_ADDRESS + 1)] == [True] * MAX_PER_ADDRESS + [
        False
    ]
    others = [scene.push("b", address=f"b{number}") for number in range(MAX_WAITING)]
    assert others == [True] * (MAX_WAITING - MAX_PER_ADDRESS) + [False] * MAX_PER_ADDRESS
    scene.decode()
    scene.rested()
    assert [scene.push("a"), scene.push("a")] == [True, False]


def test_what_waits_is_dropped_when_it_is_closed_and_nothing_follows(scene: Scene) -> None:
    for name in ("first", "second", "third"):
        assert scene.push(name, 0.05)
    scene.queue.close()
    assert scene.ended == ["second dropped", "third dropped"]
    scene.decode()
    assert scene.ended[2:] == ["first None"]
    assert (scene.running, scene.rests, scene.push("fourth")) == ([], [], False)


def test_closed_while_it_rests_it_calls_off_the_rest(scene: Scene) -> None:
    scene.push("first", 0.05)
    scene.decode()
    scene.queue.close()
    assert [rest.is_cancelled for rest in scene.rests] == [True]
