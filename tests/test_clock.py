"""Time that leaves out our own stops."""

from __future__ import annotations

from coordinator.clock import STALL_MS, Clock


def test_ordinary_lateness_is_kept() -> None:
    clock = Clock()
    assert clock.forgive(clock.now_ms() - STALL_MS // 2) == 0


def test_a_stall_is_taken_out_so_that_deadlines_move_with_it() -> None:
    clock = Clock()
    expected_ms = clock.now_ms() - 60_000
    assert 60_000 <= clock.forgive(expected_ms) < 61_000
    assert 0 <= clock.now_ms() - expected_ms < STALL_MS, "as if the alarm had come when it was due"
