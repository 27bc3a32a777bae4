"""The demo without Spark, on few rows: the whole run, and that it knows a mismatch from a success."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
from rich.console import Console

from bench.demo.__main__ import main
from bench.demo.flights import (
    ROWS,
    differences,
    expected_delays,
    expected_ids,
    flight_id,
    json_lines,
    load_flights,
)
from bench.demo.rebalances import rebalances
from bench.demo.report import Check
from bench.demo.steps import Demo
from coordinator.effects import GroupEvent
from harness.processes import wait_until

SAMPLE = 3_000
COMMAND = [sys.executable, "-m", "bench.demo", "--no-spark", "--rows", str(SAMPLE)]
DEADLINE_S = 120
MEMBER_ENDS_S = 60
EVENT = GroupEvent("g", 1, "Empty", "PreparingRebalance", "member joined", 0, client_id="a", member_id="a-1")


@pytest.fixture(scope="module")
def flights() -> pd.DataFrame:
    return load_flights(SAMPLE)


def test_the_demo_ends_well_and_shows_what_it_found(tmp_path: Path) -> None:
    shown = subprocess.run(
        [*COMMAND, "--seconds", "3"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        env={**os.environ, "COLUMNS": "160", "TMPDIR": str(tmp_path)},
    )
    assert shown.returncode == 0, shown.stdout + shown.stderr
    for words in ("rows seen twice", "session expired", "Spark is left out: --no-spark", "as it should be"):
        assert words in shown.stdout
    assert list(tmp_path.iterdir()) == [], "the demo leaves nothing behind"


def test_a_demo_that_is_stopped_cleans_up(tmp_path: Path) -> None:
    demo = subprocess.Popen([*COMMAND, "--seconds", "60"], env={**os.environ, "TMPDIR": str(tmp_path)})
    wait_until(lambda: len(list(tmp_path.glob("*/flights-*.err"))) == 3, "the members start", DEADLINE_S)
    # The file of a member is there before its process is.
    processes = wait_until(lambda: four_children_of(demo.pid), "a daemon and three members", DEADLINE_S)
    demo.send_signal(signal.SIGTERM)
    assert demo.wait(DEADLINE_S) == 128 + signal.SIGTERM
    # A member that was only just starting ends by itself, when it finds its stdin closed.
    _, still_running = psutil.wait_procs(processes, timeout=MEMBER_ENDS_S)
    assert still_running == []
    assert list(tmp_path.iterdir()) == []


def four_children_of(pid: int) -> list[psutil.Process] | None:
    found = psutil.Process(pid).children(recursive=True)
    return found if len(found) == 4 else None


def test_the_demo_fails_in_a_sentence_where_no_cluster_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rows", "10", "--no-spark", "--bootstrap", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().out.startswith("The demo failed: no Kafka broker answers on 127.0.0.1:1")


def test_the_data_is_all_flights_of_the_year_each_with_an_id_of_its_own() -> None:
    flights = load_flights()
    assert len(flights) == ROWS == len(expected_ids(flights))


def test_a_flight_without_values_is_json_with_nulls(flights: pd.DataFrame) -> None:
    cancelled = flights[flights["dep_delay"].isna()]
    assert '"dep_delay":null' in next(json_lines(cancelled))
    assert '"dep_delay":2,' in next(json_lines(flights))


def test_a_flight_has_the_same_id_in_the_data_and_on_the_topic(flights: pd.DataFrame) -> None:
    on_topic = {flight_id(json.loads(line)) for line in json_lines(flights)}
    assert on_topic == expected_ids(flights)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("flights", "flights differs in 1 airport hours"),
        ("departed", "departed differs in 1 airport hours"),
        ("delay_minutes", "delay_minutes differs in 1 airport hours"),
        ("mean_delay_minutes", "the mean delay differs in 1 airport hours"),
    ],
)
def test_one_wrong_figure_is_found(flights: pd.DataFrame, column: str, words: str) -> None:
    expected = expected_delays(flights)
    assert differences(expected, expected) == []
    wrong = expected.copy()
    wrong[column] += (np.arange(len(wrong)) == 7).astype(int)
    assert differences(wrong, expected) == [words]


def test_a_missing_or_strange_airport_hour_is_found(flights: pd.DataFrame) -> None:
    expected = expected_delays(flights)
    assert len(differences(expected[1:], expected)) == 1
    assert len(differences(expected.rename(index={"JFK": "XXX"}), expected)) == 1


def test_a_check_holds_only_for_what_was_expected() -> None:
    assert Check("rows", 5, 5).holds
    assert Check("rows", 5).holds
    assert not Check("rows", 4, 5).holds


def test_one_check_that_does_not_hold_fails_the_demo(
    flights: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def summary(*_: object) -> bool:
        demo = Demo(Console(), "127.0.0.1:1", flights, tmp_path)
        demo.checks += [Check("rows produced", 5, 5), Check("distinct rows consumed", 4, 5)]
        return demo.show()

    monkeypatch.setattr("bench.demo.__main__.run", summary)
    assert main([]) == 1
    assert "expected 5" in capsys.readouterr().out


def test_a_history_reads_as_rebalances_with_their_causes_and_durations() -> None:
    def event(
        states: str, generation: int, ms: int, members: int, reason: str = "", client_id: str | None = None
    ) -> GroupEvent:
        from_state, to_state = states.split(" ")
        return GroupEvent(
            "g", generation, from_state, to_state, reason, 0, member_count=members,
            phase_ms={from_state: ms}, client_id=client_id,
        )  # fmt: skip

    found = rebalances(
        [
            EVENT,
            event("PreparingRebalance CompletingRebalance", 1, 3000, 1),
            event("CompletingRebalance PreparingRebalance", 1, 20, 2, "member joined", "b"),
            event("PreparingRebalance PreparingRebalance", 1, 0, 3, "member joined", "c"),
            event("PreparingRebalance CompletingRebalance", 2, 100, 2),
            event("CompletingRebalance Stable", 2, 5, 2),
            event("Stable PreparingRebalance", 2, 900, 0, "member left", "a"),
            event("PreparingRebalance Empty", 3, 1, 0),
        ]
    )
    figures = [(each.generation_id, each.member_count, each.join_ms, each.sync_ms) for each in found]
    assert figures == [(2, 2, 3100, 25), (3, 0, 1, 0)]
    causes = [(each.reason, each.client_id, each.attempts, each.outcome) for each in found]
    assert causes == [("member joined", "a", 2, "Stable"), ("member left", "a", 1, "Empty")]
