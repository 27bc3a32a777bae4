"""Few examples of each message are enough only if each run has others, and every message is drawn."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.protocol.message_strategies import PAIRS, VERSIONS_OF_MESSAGES, of_groups, of_others

SHOWN = """
import tests.conftest
from tests.protocol.message_strategies import FEW, MORE
print(FEW.derandomize, MORE.derandomize)
"""


def test_every_run_has_other_examples() -> None:
    """Hypothesis itself draws the same ones for ever where it finds that CI runs it."""
    environment = {**os.environ, "CI": "true"}
    ran = subprocess.run(
        [sys.executable, "-c", SHOWN], env=environment, check=True, capture_output=True, text=True
    )
    assert ran.stdout == "False False\n"


def test_every_message_is_of_groups_or_of_others() -> None:
    parts = of_groups(VERSIONS_OF_MESSAGES), of_others(VERSIONS_OF_MESSAGES)
    assert sorted(each.id for part in parts for each in part) == sorted(each.id for each in PAIRS)
    assert len(parts[0]) > 100
