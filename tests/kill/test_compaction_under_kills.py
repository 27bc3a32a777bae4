"""The short run of `python -m tests.soak_log`: commits, kills and compaction against a model."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.soak_log import soak

SECONDS = float(os.environ.get("MUSTER_SOAK_LOG_SECONDS", "20"))


@pytest.mark.timeout(180 + 2 * SECONDS)
def test_commits_against_compaction_and_kills_are_as_the_model_has_them(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    seed = random.randrange(1 << 30)
    record_property("figure", f"seed {seed}: {soak(tmp_path, SECONDS, seed)}")
