"""docs/spark-progress.md says what the code does: every argument, every attribute of the handle, the times."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from muster.spark import progress
from muster.spark.progress import follower, group_progress
from muster.spark.progress.checkpoint_files import CheckpointFiles
from muster.spark.progress.positions import ProgressError

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "spark-progress.md").read_text()


def in_first_column(page: str) -> set[str]:
    """The names in backticks that begin a table's row, without what is called with."""
    rows = re.findall(r"^\| (`[^|]*`) \|", page, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)", row)}


def test_every_argument_and_every_attribute_is_on_the_page() -> None:
    arguments = set(inspect.signature(progress.follow).parameters) - {"spark"}
    attributes = {name for name in vars(progress.Follower) if not name.startswith("_")} - {"start", "wake"}
    assert in_first_column(PAGE) == arguments | attributes


def test_the_times_are_those_of_the_code() -> None:
    assert f"every {follower.LOOK_EVERY_S:g} s" in PAGE
    assert (
        f"after {follower.FIRST_RETRY_S:g} s at first and every {follower.LAST_RETRY_S:g} s at last" in PAGE
    )
    assert f"flush(timeout_s={follower.FLUSH_TIMEOUT_S:g})" in PAGE
    assert f"waited for at the start ({follower.START_TIMEOUT_S:g})" in PAGE
    assert group_progress.REFRESH_EVERY_S == 3_600, "the page says: every hour"


def test_a_session_without_a_jvm_of_its_own_is_refused() -> None:
    with pytest.raises(ProgressError, match="Spark Connect"):
        CheckpointFiles(object(), "/checkpoint")  # type: ignore[arg-type]  # No session, on purpose.
