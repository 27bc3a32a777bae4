"""How much has been produced to each partition by when: a mean rate under a daily curve, in closed form.

`log_ends` never falls with time, so an offset and the time of its record are two readings of one curve.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tools.simulate.population import Floats, Ints, Topics

DAY_MS: Final = 86_400_000
DAILY_SWING: Final = 0.6
"""At its peak a topic gets 1.6 times its mean rate, twelve hours later 0.4 times."""

GOLDEN: Final = 0.6180339887498949  # The golden ratio; the fractions of its multiples are evenly spread.

BASE_DAYS: Final = 30
"""How many days before the history begins the topics were created."""


PARTITION_SKEW: Final = 0.5
"""A partition gets 0.75 to 1.25 times what the topic's partitions get on average."""


def partition_rates(topics: Topics, numbers: Ints, partitions: Ints) -> Floats:
    """Records per second of each partition, given by the numbers of topic and partition; keys are never even."""
    spread = (numbers * 131 + partitions * 17 + 1) * GOLDEN % 1.0
    rates: Floats = topics.rates[numbers] * (1 - PARTITION_SKEW / 2 + PARTITION_SKEW * spread)
    return rates


def log_ends(rates: Floats, peak_hours: Floats, times_ms: Ints, start_ms: int) -> Ints:
    """The log end offset of partitions with these rates and peak hours at `times_ms`."""
    swing_ms = DAILY_SWING * DAY_MS / (2 * np.pi)
    since_peak = (times_ms / DAY_MS - peak_hours / 24.0) * (2 * np.pi)
    produced_ms = times_ms - (start_ms - BASE_DAYS * DAY_MS) + swing_ms * (1 + np.sin(since_peak))
    return np.floor(rates * produced_ms / 1_000.0).astype(np.int64)


def daily_level(peak_hour: float, now_ms: int) -> float:
    """The rate of production at `now_ms` as a multiple of the topic's mean rate."""
    return 1 + DAILY_SWING * float(np.cos((now_ms / DAY_MS - peak_hour / 24.0) * 2 * np.pi))
