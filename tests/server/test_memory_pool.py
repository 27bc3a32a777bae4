"""What requests may hold over all connections, by plain calls; the time is an argument."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coordinator.runtime.clock import Clock
from coordinator.server.memory_pool import FRAME_MS, STALLED_MS, UNCOUNTED_BYTES, MemoryPool
from harness.doubles.manual_timers import ManualTimers

MB = 1 << 20
CAPACITY = 256 * MB


class Peer:
    """A connection as the pool sees it."""

    def __init__(self) -> None:
        self.last_request_ms = 0
        self.received_bytes = 0
        self.waits_for_answers = False
        self.memory = 0
        self.closed_for = ""

    def on_admitted(self) -> None:
        self.memory += 1

    def give_way(self, reason: str) -> None:
        self.closed_for = reason


class World(ManualTimers):
    def __init__(self, capacity_bytes: int = CAPACITY) -> None:
        super().__init__(1_000_000)
        self.pool = MemoryPool(capacity_bytes, Clock(lambda: self.time_ms * 1_000_000), self.set_timer)

    def pass_ms(self, ms: int) -> None:
        self.advance_to(self.time_ms + ms)

    def claiming(self, frame_bytes: int) -> Peer:
        peer = Peer()
        if self.pool.claim(peer, frame_bytes):
            peer.memory += 1
        self.check_timers()
        return peer

    def check_timers(self) -> None:
        assert all((owner, key) == (self.pool, None) for owner, key, _ in self.calls)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.check_timers()
    assert made.pool.used_bytes >= 0


def test_a_frame_counts_as_a_whole_from_its_beginning(world: World) -> None:
    peer = world.claiming(100 * MB)
    assert (peer.memory, world.pool.used_bytes) == (1, 100 * MB)
    world.pool.forget(peer)
    assert world.pool.used_bytes == 0


def test_what_was_received_of_it_is_not_counted_twice(world: World) -> None:
    peer = Peer()
    assert world.pool.keep(peer, 20_000)
    assert world.pool.claim(peer, MB)
    assert world.pool.keep(peer, 0)
    assert world.pool.used_bytes == MB
    world.pool.forget(peer)
    assert world.pool.used_bytes == 0


def test_very_large_frames_leave_a_quarter_to_others(world: World) -> None:
    large = [world.claiming(60 * MB) for _ in range(5)]
    assert [peer.memory for peer in large] == [1, 1, 1, 0, 0]
    assert [world.claiming(MB).memory for _ in range(70)].count(1) == 64, "what is left, to the last byte"


def test_those_that_wait_come_in_their_order_and_none_passes_another(world: World) -> None:
    first, second = world.claiming(100 * MB), world.claiming(100 * MB)
    small_enough = world.claiming(10 * MB)
    assert (first.memory, second.memory, small_enough.memory) == (1, 0, 0)
    world.pool.forget(first)
    assert (second.memory, small_enough.memory) == (1, 1)


def test_a_very_large_frame_that_waits_is_not_passed_for_ever(world: World) -> None:
    """While it waits, frames of a usual size keep to the quarter that is theirs, so the rest becomes free."""
    usual = [world.claiming(4 * MB) for _ in range(64)]
    large = world.claiming(100 * MB)
    assert large.memory == 0
    following = []
    for peer in usual:
        world.pool.forget(peer)
        following.append(world.claiming(4 * MB))
    assert large.memory == 1
    assert sum(peer.memory for peer in following) >= 16, "and they went on meanwhile"


@pytest.mark.parametrize("frame_bytes", [40 * MB, MB])
def test_a_frame_larger_than_the_pool_comes_alone(frame_bytes: int) -> None:
    world = World(capacity_bytes=frame_bytes // 2)
    first, second = world.claiming(frame_bytes), world.claiming(frame_bytes)
    assert (first.memory, second.memory) == (1, 0)
    world.pool.forget(first)
    assert second.memory == 1


def test_without_a_limit_nothing_waits() -> None:
    world = World(capacity_bytes=-1)
    assert all(world.claiming(100 * MB).memory for _ in range(1000))


def test_a_frame_that_does_not_come_is_given_up_for_one_that_waits(world: World) -> None:
    silent, coming = world.claiming(60 * MB), world.claiming(60 * MB)
    world.claiming(60 * MB)
    world.pass_ms(10 * STALLED_MS)
    assert not silent.closed_for, "it harms no other"
    waiting = world.claiming(60 * MB)
    for _ in range(4):
        coming.received_bytes += 1
        world.pass_ms(STALLED_MS // 2)
    assert "others wait" in silent.closed_for
    assert not coming.closed_for
    world.pool.forget(silent)
    assert waiting.memory == 1
    world.pass_ms(STALLED_MS - 1)
    assert not waiting.closed_for, "it was not read while it waited"


def test_a_frame_that_drips_is_given_up_after_the_time_of_a_request(world: World) -> None:
    dripping = [world.claiming(60 * MB) for _ in range(3)]
    waiting = world.claiming(60 * MB)
    for _ in range(FRAME_MS // 1000 + 2):
        for peer in dripping:
            peer.received_bytes += 1
        world.pass_ms(1000)
    assert all("not whole" in peer.closed_for for peer in dripping)
    for peer in dripping:
        world.pool.forget(peer)
    assert waiting.memory == 1


def test_what_waits_for_our_own_disk_is_not_given_up(world: World) -> None:
    behind = Peer()
    behind.waits_for_answers = True
    world.pool.keep(behind, MB)
    held = [world.claiming(60 * MB) for _ in range(4)]
    world.pass_ms(3 * STALLED_MS)
    assert held[0].closed_for
    assert not behind.closed_for


def test_beginnings_of_small_frames_are_given_up_too(world: World) -> None:
    """However small they are: many of them hold all memory as well as a few large ones."""
    beginnings = [Peer() for _ in range(CAPACITY // 40_000)]
    for peer in beginnings:
        peer.received_bytes = 40_000
        assert world.pool.keep(peer, 40_000)
    world.claiming(3 * MB)
    waiting = world.claiming(3 * MB)
    assert waiting.memory == 0
    world.pass_ms(STALLED_MS)
    assert all(peer.closed_for for peer in beginnings)


def test_received_bytes_have_a_last_bound(world: World) -> None:
    peers = [Peer() for _ in range(400)]
    kept = [world.pool.keep(peer, MB) for peer in peers]
    assert kept == [True] * 288 + [False] * 112
    for peer in peers:
        world.pool.forget(peer)
    assert world.pool.used_bytes == 0


def test_a_few_bytes_are_not_counted(world: World) -> None:
    assert world.pool.keep(Peer(), UNCOUNTED_BYTES)
    assert world.pool.used_bytes == 0


def test_requests_that_wait_for_the_disk_count_and_let_others_in_when_answered(world: World) -> None:
    world.pool.take(250 * MB)
    first, second, large = world.claiming(4 * MB), world.claiming(4 * MB), world.claiming(100 * MB)
    assert (first.memory, second.memory, large.memory) == (1, 0, 0)
    world.pool.take(4 * MB)
    world.pool.on_frame_complete(first)
    assert second.memory == 0, "a frame that has become whole still counts"
    world.pool.release(254 * MB)
    assert (second.memory, large.memory) == (1, 1)


def test_beginnings_of_very_large_frames_that_fill_the_pool_do_not_stop_it(world: World) -> None:
    """None of them is read, so none can be blamed: one comes after the other."""
    waiting = [Peer() for _ in range(CAPACITY // (200 << 10) + 100)]
    for peer in waiting:
        world.pool.keep(peer, 200 << 10)
        peer.memory += world.pool.claim(peer, 90 * MB)
    for peer in waiting:
        assert peer.memory == 1
        world.pool.forget(peer)
    assert world.pool.used_bytes == 0


def test_one_that_goes_while_it_waits_is_forgotten(world: World) -> None:
    large = [world.claiming(100 * MB) for _ in range(3)]
    world.pool.forget(large[1])
    world.pool.forget(large[0])
    assert [peer.memory for peer in large] == [1, 0, 1]
    world.pool.forget(large[2])
    assert world.pool.used_bytes == 0
