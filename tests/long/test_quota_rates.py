"""What a client that ignores throttle times gets through is within a tenth of what Kafka lets through."""

from __future__ import annotations

import pytest

from harness.processes import ServerProcess
from tests.quotas.test_against_kafka import both as both
from tests.quotas.test_against_kafka import compare_rates

TENTH = 1.1


@pytest.mark.usefixtures("java")
@pytest.mark.timeout(180)
def test_the_rates_are_within_a_tenth_of_kafkas(both: tuple[ServerProcess, ServerProcess]) -> None:
    compare_rates(both, TENTH)
