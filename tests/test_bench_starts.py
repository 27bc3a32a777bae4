"""The starts of the bench: which of them count, and how a server ends before the next."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

import pytest

from bench.pairs import starts
from bench.pairs.plan import quick
from bench.pairs.starts import CLEAN, KILLED
from bench.pairs.storms import NO_DELAY
from harness.daemon import MusterDaemon


class Recorded(MusterDaemon):
    """A daemon that says how it was ended."""

    ends: list[str]

    def terminate(self) -> int:
        self.ends.append(CLEAN)
        return super().terminate()

    def kill(self) -> None:
        self.ends.append(KILLED)
        super().kill()


def test_a_server_ends_as_the_restart_is_named(tmp_path: Path) -> None:
    """What it had is served again after both, and its members are in their generation: `_restart` asks each."""
    daemon = Recorded(tmp_path, NO_DELAY)
    daemon.ends = []
    with daemon:
        members = starts.filled(daemon, 2, 2)
        for how in (CLEAN, KILLED, CLEAN):
            took_s, cpu_s = starts._restart(daemon, members, how)
            assert 0 < took_s < starts.RESTART_DEADLINE_S
            assert cpu_s > 0
        assert daemon.ends == [CLEAN, KILLED, CLEAN]


class Started(MusterDaemon):
    """A start that takes no time, of this process."""

    count = stops = 0

    @property
    def pid(self) -> int:
        return os.getpid()

    def start(self) -> Self:
        type(self).count += 1
        return self

    def terminate(self) -> int:
        type(self).stops += 1
        return 0


@pytest.mark.parametrize("warm_ups", [0, 2])
def test_warm_ups_do_not_count(tmp_path: Path, warm_ups: int) -> None:
    Started.count = Started.stops = 0
    times, cpu_s = starts._started_in_turns({"one": Started(tmp_path)}, warm_ups, 3)
    assert Started.count == warm_ups + 3
    assert Started.stops == Started.count, "what was killed starts later: a broker waits for its own session"
    assert len(times["one"]) == len(cpu_s["one"]) == 3


def test_a_little_run_still_judges_each_start_that_it_makes(tmp_path: Path) -> None:
    plan = quick(tmp_path)
    assert plan.start_warm_ups + plan.rounds >= 1
    assert plan.of_rounds(7).restart_rounds == plan.of_rounds(7).herd_rounds == 7
