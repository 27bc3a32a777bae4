"""The readers of what strangers and files say: some hundred cases each, always the same ones (F5 to F7, A12).

`make fuzz-security` plays new ones for as long as is wanted.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings

from tests.security.fuzz.all_properties import PROPERTIES
from tests.security.fuzz.properties import Property

EXAMPLES: Final = {"sasl": 200, "jaas": 300, "tokens": 200, "stores": 200, "acls": 100}


@pytest.mark.filterwarnings("ignore:PKCS#12 bundle could not be parsed")  # As it says of damaged ones.
@pytest.mark.parametrize("fuzzed", PROPERTIES.values(), ids=PROPERTIES)
def test_no_case_does_more_than_it_may(fuzzed: Property) -> None:
    outcomes: Counter[str] = Counter()

    @settings(
        max_examples=EXAMPLES[fuzzed.name],
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(fuzzed.cases)
    def play(case: object) -> None:
        outcomes[fuzzed.check(case)] += 1

    play()
    assert fuzzed.outcomes <= set(outcomes), f"the cases do not reach all there is: {outcomes}"
