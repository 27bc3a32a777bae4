"""docs/spark-members.md: its example is run as it stands, and its numbers are those of the code."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.observer import Observer, unique
from harness.processes import ServerProcess
from muster.spark.members.driver import ATTEMPTS
from muster.spark.members.group_watch import ASK_INTERVAL_S
from muster.spark.members.plan import BATCH_ROWS, COMMIT_INTERVAL_S, DEFAULTS, SET_BY_RUN, STALL_TIMEOUT_S
from muster.spark.members.slots import EXECUTORS_START_S

pytestmark = pytest.mark.xdist_group("spark")
ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "spark-members.md").read_text()
ROWS = 400
QUICK = {"fetch.wait.max.ms": "50", "heartbeat.interval.ms": "300"}


def example() -> dict[str, Any]:
    """What the page's program defines."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    names: dict[str, Any] = {"__name__": "example_of_the_page"}
    exec(compile(code, "spark-members.md", "exec"), names)
    return names


def dying_after_its_third_batch(process_into: Any, flag: Path) -> Any:
    """Once: what it has stored then, the group does not know of."""
    path = str(flag)

    def dying_process_into(database: str) -> Any:
        process, calls = process_into(database), [0]

        def process_and_die(batch: Any, context: Any) -> None:
            import os

            process(batch, context)
            calls[0] += 1
            if calls[0] == 3 and not os.path.exists(path):
                open(path, "w").close()
                raise RuntimeError("stored, and not committed")

        return process_and_die

    return dying_process_into


def test_the_example_stores_every_row_exactly_once_though_a_member_fails(
    broker: ServerProcess, observer: Observer, spark: SparkSession, tmp_path: Path
) -> None:
    names, database, flag = example(), str(tmp_path / "results.db"), tmp_path / "has-failed"
    topic, group = observer.create_topic("example", 4), unique("example")
    rows = [f"row-{number}" for number in range(ROWS)]
    observer.write(topic, rows)
    names["process_into"] = dying_after_its_third_batch(names["process_into"], flag)
    options = {"batch_rows": 20, "commit_interval_s": 60.0, "settings": QUICK}
    report = names["run"](spark, broker.bootstrap, topic, group, database, **options)
    assert report.failures == ("RuntimeError: stored, and not committed",)
    with closing(sqlite3.connect(database)) as store:
        assert sorted(value for (value,) in store.execute("SELECT value FROM results")) == sorted(rows)
        stored = dict(store.execute("SELECT partition, next_offset FROM offsets"))
    assert stored == observer.log_ends(topic, 4) == observer.committed(group, topic)
    assert report.rows < ROWS, "what was stored before the failure was not read again"


def test_the_numbers_on_the_page_are_those_of_the_code() -> None:
    assert COMMIT_INTERVAL_S == 1, "the page says once a second"
    assert ASK_INTERVAL_S == 0.5, "the page says twice a second"
    assert STALL_TIMEOUT_S == 600, "the page says ten minutes"
    assert EXECUTORS_START_S == 60, "the page says a minute"
    text = " ".join(PAGE.split())
    numbers = [
        f"at most `batch_rows` rows ({BATCH_ROWS:,})",
        f"at most `attempts` ({ATTEMPTS}) times",
        f"`session.timeout.ms` ({int(DEFAULTS['session.timeout.ms']) // 1000} s)",
        *(f"`{name}={value}`" for name, value in DEFAULTS.items()),
    ]
    assert [number for number in numbers if number not in text] == []
    assert not set(SET_BY_RUN) & set(DEFAULTS)


def test_every_link_and_every_test_on_the_page_is_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
    tests = re.findall(r"tests/\S+\.py", PAGE)
    assert tests
    assert [test for test in tests if not (ROOT / test).exists()] == []
