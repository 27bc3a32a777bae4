"""A flame graph of the daemon under one load: where the time of a request goes, all threads, by `py-spy`.

python -m bench.pairs.profile heartbeat|commit|large-commit [--out docs/images/flame-NAME.svg] [--seconds 15]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.pairs import frames, lanes
from bench.pairs.frames import COMMIT, HEARTBEAT, Joined
from bench.pairs.page import ROOT
from bench.pairs.servers import muster
from bench.pairs.singles import PARTITIONS, commit_of, lanes_of, make_topic

SAMPLES_PER_S: Final = 400
PY_SPY: Final = Path(sys.executable).with_name("py-spy")


LOADS: Final[dict[str, tuple[Callable[[Joined], bytes], tuple[int, int], int]]] = {
    "heartbeat": (frames.heartbeat, HEARTBEAT, 500),
    "commit": (commit_of(1), COMMIT, 500),
    "large-commit": (commit_of(PARTITIONS), COMMIT, 50),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("load", choices=LOADS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--flush-policy", choices=("fsync", "os"), default="fsync")
    asked = parser.parse_args()
    out = asked.out or ROOT / "docs" / "images" / f"flame-{asked.load}.svg"
    with TemporaryDirectory(prefix="bench-") as directory:
        record(Path(directory), asked.load, out, asked.seconds, asked.flush_policy)
    print(out)


def record(directory: Path, load: str, out: Path, seconds: int, policy: str) -> None:
    """Put the load on a daemon of its own, and draw what it does meanwhile."""
    frame_of, api, connections = LOADS[load]
    # Pure Python: what is compiled has no frames that py-spy could show.
    with muster(directory, {"muster.flush.policy": policy}, tree=ROOT) as daemon:
        make_topic(daemon)
        loaded = lanes_of(daemon, "profile", connections, frame_of, api)
        lanes.run(loaded, 1.0, daemon.pid)
        command = [str(PY_SPY), "record", "--pid", str(daemon.pid), "--duration", str(seconds)]
        command += ["--rate", str(SAMPLES_PER_S), "--threads", "--output", str(out)]
        spy = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        lanes.run(loaded, seconds + 3.0, daemon.pid)
        if spy.wait(60):
            raise SystemExit(f"py-spy ended with {spy.returncode}")
    # It takes its command line for a title; where things lie on this machine does not belong there.
    out.write_text(out.read_text().replace(str(PY_SPY), "py-spy").replace(str(out), out.name))


if __name__ == "__main__":
    main()
