"""Exactly once holds for a minute of kills: see transaction_loop. `make soak-transactions` runs it for ten."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients import transaction_loop
from tests.clients.conftest import TARGETS
from tests.clients.transaction_loop import TransactionLoop

SECONDS = float(os.environ.get("MUSTER_LOOP_SECONDS", "60"))
SEED = 6_04


@pytest.mark.xdist_group("transaction-loop")
@pytest.mark.timeout(SECONDS + 300, func_only=True)
def test_every_row_comes_through_exactly_once(
    target: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with TARGETS[target](tmp_path / "broker", transaction_loop.SETTINGS) as broker:
        figures = TransactionLoop(broker, tmp_path, random.Random(SEED)).run(SECONDS)
    record_property("figure", f"transaction loop, {SECONDS:g} s: {figures}")
