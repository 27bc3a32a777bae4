"""A flame graph of the daemon under one load: where the time of a request goes, all threads, by `py-spy`.

python -m bench.pairs.profile heartbeat|commit|large-commit|storm|herd [--out FILE] [--seconds 15]
python -m bench.pairs.profile cold [--out FILE]     # one whole life, its imports and its end included
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

from bench.pairs import cold, frames, lanes
from bench.pairs.frames import COMMIT, HEARTBEAT, Joined
from bench.pairs.page import ROOT
from bench.pairs.plan import Plan
from bench.pairs.servers import muster
from bench.pairs.singles import PARTITIONS, commit_of, lanes_of, make_topic
from bench.pairs.storms import NO_DELAY, SIZE, Storms
from harness.daemon import MusterDaemon
from harness.processes import ServerProcess

SAMPLES_PER_S: Final = 400
SAMPLES_OF_A_LIFE_PER_S: Final = 1_000
COLD: Final = "cold"
HERD_SIZE: Final = 2_000
PY_SPY: Final = Path(sys.executable).with_name("py-spy")


Load: TypeAlias = Callable[[float], object]
"""Puts its load on a daemon for so many seconds."""


def _steady(
    frame_of: Callable[[Joined], bytes], api: tuple[int, int], connections: int
) -> Callable[[ServerProcess], Load]:
    """Each connection sends one frame over and over."""

    def prepared(daemon: ServerProcess) -> Load:
        make_topic(daemon)
        loaded = lanes_of(daemon, "profile", connections, frame_of, api)
        return lambda seconds: lanes.run(loaded, seconds, daemon.pid)

    return prepared


def _storms(groups: int, size: int) -> Callable[[ServerProcess], Load]:
    """One storm after the other; the last one may begin just before the time is over."""

    def prepared(daemon: ServerProcess) -> Load:
        storms = Storms("profile", daemon)

        def load(seconds: float) -> None:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                storms.storm(f"profile-{len(storms.seconds)}", groups, size)

        return load

    return prepared


LOADS: Final[dict[str, Callable[[ServerProcess], Load]]] = {
    "heartbeat": _steady(frames.heartbeat, HEARTBEAT, 500),
    "commit": _steady(commit_of(1), COMMIT, 500),
    "large-commit": _steady(commit_of(PARTITIONS), COMMIT, 50),
    "storm": _storms(1_000, SIZE),
    "herd": _storms(1, HERD_SIZE),
}


class SpiedDaemon(MusterDaemon):
    """A daemon that py-spy starts, so that its first moments are drawn, too. py-spy ends behind it."""

    def __init__(self, directory: Path, out: Path) -> None:
        super().__init__(directory, NO_DELAY)
        self._out = out

    def _command(self) -> list[str]:
        rate = str(SAMPLES_OF_A_LIFE_PER_S)
        options = ["record", "--rate", rate, "--threads", "--output", str(self._out)]
        return [str(PY_SPY), *options, "--", *super()._command()]

    def end(self) -> None:
        """Stop the daemon, and wait until the graph is there."""
        assert self._process is not None
        (daemon,) = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        os.kill(int(daemon), signal.SIGTERM)
        if status := self._process.wait(60):
            raise SystemExit(f"py-spy ended with {status}\n{self.log_tail()}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("load", choices=[*LOADS, COLD])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--flush-policy", choices=("fsync", "os"), default="fsync")
    asked = parser.parse_args()
    out = asked.out or ROOT / "docs" / "images" / f"flame-{asked.load}.svg"
    with TemporaryDirectory(prefix="bench-") as directory:
        if asked.load == COLD:
            record_life(Path(directory), out)
        else:
            record(Path(directory), asked.load, out, asked.seconds, asked.flush_policy)
    # It takes its command line for a title; where things lie on this machine does not belong there.
    drawn = out.read_text().replace(str(PY_SPY), "py-spy").replace(str(out), out.name)
    out.write_text(drawn.replace(directory, "bench").replace(sys.executable, "python"))
    print(out)


def record(directory: Path, load: str, out: Path, seconds: int, policy: str) -> None:
    """Put the load on a daemon of its own, and draw what it does meanwhile."""
    settings = NO_DELAY | {"muster.flush.policy": policy}
    # Pure Python: what is compiled has no frames that py-spy could show.
    with muster(directory, settings, tree=ROOT) as daemon:
        run = LOADS[load](daemon)
        run(1.0)
        command = [str(PY_SPY), "record", "--pid", str(daemon.pid), "--duration", str(seconds)]
        command += ["--rate", str(SAMPLES_PER_S), "--threads", "--output", str(out)]
        spy = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        run(seconds + 3.0)
        if spy.wait(60):
            raise SystemExit(f"py-spy ended with {spy.returncode}")


def record_life(directory: Path, out: Path) -> None:
    """Draw the life of a daemon: its start, a little work, and its end, as `cold` measures it."""
    plan = Plan(directory, builds={})
    with SpiedDaemon(directory / "life", out) as daemon:
        cold.work(daemon, plan)
        daemon.end()


if __name__ == "__main__":
    main()
