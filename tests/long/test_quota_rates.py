"""What a client that ignores throttle times gets through is within a tenth of what Kafka lets through."""

from __future__ import annotations

import pytest

from harness.processes import ServerProcess
from tests.quotas.test_against_kafka import both as both
from tests.quotas.test_against_kafka import compare_rates

TENTH = 1.1
BATCHES = 145
"""Of 20 KB, at 100 KB a second: half a minute, in which a wait of two seconds more or less is within a tenth."""


@pytest.mark.usefixtures("java")
@pytest.mark.timeout(180)
def test_the_rates_are_within_a_tenth_of_kafkas(both: tuple[ServerProcess, ServerProcess]) -> None:
    compare_rates(both, BATCHES, TENTH)
