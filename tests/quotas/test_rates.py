"""Throttle times are those of Kafka's own sensors, to the millisecond (Q8, Q9, Q13)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.quotas.rates import NO_LIMIT, Rate, TokenBucket, Windows, rounded_ms
from coordinator.topics.config_values import INT32_MAX
from harness import java_tools

JAVA = Path(__file__).parent / "java"
START_MS = 1_790_000_000_000
"""A time far from 0, at which buckets of Kafka, that fill from time 0 on, are full."""

Step = tuple[str, float, int]
"""`c` records and checks, `n` records alone, `s` checks and then records; a value; ms since the step before."""

Kafka = Callable[[str, Windows, float, Sequence[Step]], list[int]]


@pytest.fixture(scope="module")
def kafka(java: None) -> Iterator[Kafka]:
    """Plays steps on a sensor of Kafka's and returns the throttle time of each; times are absolute there."""
    command = [java_tools.java(), "-cp", java_tools.classpath(java_tools.compile_java(JAVA)), "Throttles"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def play(kind: str, windows: Windows, limit: float, steps: Sequence[Step]) -> list[int]:
            assert process.stdin is not None
            assert process.stdout is not None
            words = [kind, str(windows.samples), str(windows.sample_ms // 1_000), repr(limit)]
            words += [f"{what},{value!r},{at_ms}" for what, value, at_ms in steps]
            process.stdin.write(" ".join(words) + "\n")
            process.stdin.flush()
            return [int(wait) for wait in process.stdout.readline().split()]

        yield play
        process.stdin.close()
        assert process.wait(timeout=30) == 0


def absolute(steps: Sequence[Step]) -> list[Step]:
    at_ms, made = START_MS, []
    for kind, value, later_ms in steps:
        at_ms += later_ms
        made.append((kind, value, at_ms))
    return made


WINDOWS = st.builds(Windows, st.integers(1, 13), st.sampled_from((1_000, 2_000, 5_000)))
PAUSES = st.one_of(
    st.integers(0, 50), st.integers(0, 3_000), st.sampled_from((999, 1_000, 10_999, 11_000, 70_000))
)
VALUES = st.one_of(st.integers(1, 100_000).map(float), st.floats(0.001, 1e6))
LIMITS = st.one_of(st.integers(1, 10_000).map(float), st.floats(0.01, 1e7))


@settings(max_examples=400, deadline=None)
@given(
    windows=WINDOWS,
    limit=LIMITS,
    asked=st.lists(st.tuples(st.sampled_from("ccn"), VALUES, PAUSES), min_size=1, max_size=60),
)
def test_rates_throttle_as_those_of_kafka(
    kafka: Kafka, windows: Windows, limit: float, asked: list[Step]
) -> None:
    steps = absolute(asked)
    rate, waits = Rate(windows), []
    for kind, value, at_ms in steps:
        rate.record(value, at_ms)
        waits.append(rate.throttle_ms(limit, at_ms) if kind == "c" else 0)
    theirs = kafka("rate", windows, limit, steps)
    assert waits == [min(wait, INT32_MAX) for wait in theirs]


@settings(max_examples=200, deadline=None)
@given(
    windows=WINDOWS,
    limit=LIMITS,
    asked=st.lists(st.tuples(st.sampled_from("cs"), VALUES, PAUSES), min_size=1, max_size=40),
)
def test_buckets_throttle_as_those_of_kafka(
    kafka: Kafka, windows: Windows, limit: float, asked: list[Step]
) -> None:
    steps = absolute(asked)
    bucket, waits = TokenBucket(windows), []
    for kind, value, at_ms in steps:
        if kind == "s":
            waits.append(bucket.throttle_ms(limit, at_ms))
            if not waits[-1]:
                bucket.take(value, limit, at_ms)
        else:
            bucket.take(value, limit, at_ms)
            waits.append(bucket.throttle_ms(limit, at_ms))
    theirs = kafka("bucket", windows, limit, steps)
    assert waits == [min(wait, INT32_MAX) for wait in theirs]


def test_a_fresh_rate_lets_ten_seconds_worth_burst() -> None:
    """Q9: 20112 bytes at 1000 a second are 10112 ms too many; 10000 are none."""
    fresh = Rate(Windows())
    fresh.record(10_000, 0)
    assert fresh.throttle_ms(1_000, 0) == 0
    fresh.record(10_112, 0)
    assert fresh.throttle_ms(1_000, 0) == 10_112
    assert fresh.throttle_ms(NO_LIMIT, 0) == 0


def test_what_was_recorded_passes_with_its_windows() -> None:
    rate = Rate(Windows())
    rate.record(20_000, 0)
    assert [rate.throttle_ms(1_000, at_ms) for at_ms in (0, 5_000, 10_000, 10_999, 11_000)] == [
        *(10_000, 10_000, 10_000, 9_001, 0)
    ]


def test_what_is_taken_back_leaves_the_rate_as_it_was() -> None:
    rate = Rate(Windows())
    rate.record(9_000, 0)
    before = rate.measure(500)
    rate.record(5_000, 500)
    rate.record(-5_000, 500)
    assert rate.measure(500) == before


def test_a_bucket_goes_below_zero_and_comes_back() -> None:
    """Q13: at 1 a second 15 pass at once, then nothing for four seconds."""
    bucket = TokenBucket(Windows())
    assert bucket.left(1, START_MS) == 11
    bucket.take(15, 1, START_MS)
    assert [bucket.throttle_ms(1, START_MS + later_ms) for later_ms in (0, 1_500, 4_000)] == [4_000, 2_500, 0]


def test_times_are_rounded_as_in_java_and_fit_their_field() -> None:
    assert [rounded_ms(ms) for ms in (0.4, 0.5, 1.5, 2.5, 1e300)] == [0, 1, 2, 3, INT32_MAX]
