"""Many clients that shake hands and log in at the same moment, beside one that is in and sends heartbeats.

Their connections are open before the clock runs, so that no queue of a listener is in it. The clock stops when the
last login is answered.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from bench.pairs import frames, generator
from bench.pairs.frames import HEARTBEAT
from bench.pairs.generator import GeneratedLoad
from bench.pairs.lanes import Lane, LoadError, ask
from bench.pairs.plan import Plan
from bench.pairs.rounds import KAFKA, Section
from bench.pairs.secured import CONDITIONS, contending_secured, encrypted, login
from bench.pairs.singles import lanes_of
from bench.pairs.storms import NO_DELAY, play_in_turns
from bench.pairs.targets import judged
from harness.processes import ServerProcess

PAUSE_S: Final = 0.01
"""Between the heartbeats of the one that is in."""

TABLE: Final = (
    "| server | s until all are in | lowest to highest | server CPU of each, us | the generator's, us "
    "| heartbeats meanwhile, p50, ms | longest, ms |\n"
    "|---|---|---|---|---|---|---|"
)


@dataclass(slots=True)
class Logins:
    """One server's rounds: `lanes` are what logs in, each with a heartbeat to send; `witness` is in already."""

    name: str
    server: ServerProcess
    lanes: Sequence[Lane]
    witness: Lane
    loads: list[GeneratedLoad] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)
    """How long each heartbeat of the one that is in took, of all rounds."""

    def log_in(self) -> None:
        """One more round: all at once, and one heartbeat of each behind it."""
        with encrypted(self.server, self.lanes) as fresh, self._heartbeats():
            self.loads.append(generator.run(fresh, 0.0, self.server.pid, login=login()))

    @contextmanager
    def _heartbeats(self) -> Iterator[None]:
        over = threading.Event()

        def beat() -> None:
            while not over.is_set():
                start = time.perf_counter()
                if ask(self.witness.socket, self.witness.frame) != self.witness.answer:
                    raise LoadError(f"{self.server}: a heartbeat was refused while others logged in")
                self.waits_s.append(time.perf_counter() - start)
                over.wait(PAUSE_S)

        with ThreadPoolExecutor(1) as threads:
            beating = threads.submit(beat)
            try:
                yield
            finally:
                over.set()
        beating.result()

    @property
    def seconds(self) -> list[float]:
        return sorted(load.login_s for load in self.loads)

    @property
    def row(self) -> str:
        times, count = self.seconds, len(self.lanes)
        cpu_us = median(load.login_cpu.total_us for load in self.loads) / count
        own_us = median(load.login_own_us for load in self.loads) / count
        return (
            f"| {self.name} | {median(times):.2f} | {times[0]:.2f} to {times[-1]:.2f} | {cpu_us:,.0f} "
            f"| {own_us:,.0f} | {median(self.waits_s) * 1e3:.1f} | {max(self.waits_s) * 1e3:.1f} |"
        )


def handshakes(plan: Plan) -> list[Section]:
    """As many clients as log in at once; servers in turns."""
    count = plan.sizes["logins"]
    with contending_secured(plan, NO_DELAY) as servers:
        every = [_logins(name, server, count, "witness") for name, server in servers.items()]
        warm_up = _logins(KAFKA, every[-1].server, count, "warm-witness")
        play_in_turns(every, plan.rounds, lambda each, _: each.log_in(), warm_up, plan.storm_warm_ups)
        for each in (*every, warm_up):
            each.witness.socket.close()
    *ours, theirs = every
    ratios = [median(each.seconds) / min(theirs.seconds) for each in ours]
    conditions = (
        f"{plan.rounds} rounds of each in turns, after {plan.storm_warm_ups} that do not count for Kafka and none "
        f"for Muster; Kafka's best against the median of ours. The one that is in sends a heartbeat every "
        f"{PAUSE_S * 1e3:g} ms over a plain connection, and waits for a core like all others. {CONDITIONS}"
    )
    title = f"{count:,} TLS handshakes and logins at once"
    rows = [TABLE, *(each.row for each in every)]
    return [Section(title, rows, [judged("handshakes", plan, ratios)], conditions)]


def _logins(name: str, server: ServerProcess, count: int, group: str) -> Logins:
    """All lanes have the frame of the same member: it is heartbeats that each login is followed by."""
    (witness,) = lanes_of(server, group, 1, frames.heartbeat, HEARTBEAT)
    return Logins(name, server, [witness] * count, witness)
