"""What being watched costs: heartbeats and commits with a scrape a second and ten open streams of events.

    python -m bench.observed [--rounds 15] [--seconds 6] [--base TREE] [--loads heartbeats commits]

One daemon is under the same load throughout, `bench/pairs/generator.c`, and is scraped and followed in every other
second: machines that are shared change their pace within a few. What counts is the user CPU of each request, added
up for the six seconds of each kind that a round has: the median of the rounds' ratios, and the interval that holds
it in 95 of 100 cases. The bound is 3 % dearer. One daemon, since two of the same tree differ by more
than that: by where their memory lies. With `--base` the seconds without are those of a daemon of another
tree without HTTP, as before something was added: good for what is dearer than that difference.
"""

from __future__ import annotations

import argparse
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from math import comb
from pathlib import Path
from statistics import median
from typing import Final
from urllib.request import urlopen

from bench.pairs import frames
from bench.pairs.consumers import LONG_SESSIONS
from bench.pairs.frames import COMMIT, HEARTBEAT
from bench.pairs.lanes import Lane
from bench.pairs.rounds import Contender
from bench.pairs.singles import commit_of, lanes_of, make_topic
from bench.pairs.steady import close, contender
from harness.daemon import MusterDaemon
from harness.processes import free_port

ROOT: Final = Path(__file__).resolve().parent.parent
CONNECTIONS: Final = 500
STREAMS: Final = 10
SCRAPE_EVERY_S: Final = 1.0
BOUND: Final = 1.03
SETTLED_S: Final = 0.1
"""Streams stay open for hours: opening and closing them is not what is measured."""
CONFIDENCE: Final = 0.95
READ_BYTES: Final = 1 << 16


class Watchers:
    """A scraper and some followers of events; they do nothing outside of `watching`."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.scrapes = 0
        self.scraped_bytes = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Scrape once a second, the first time at once, and keep the streams open."""
        is_over = threading.Event()
        streams = [self._stream() for _ in range(STREAMS)]
        scraper = threading.Thread(target=self._scrape, args=(is_over,))
        time.sleep(SETTLED_S)
        scraper.start()
        try:
            yield
        finally:
            is_over.set()
            scraper.join()
            for stream in streams:
                stream.close()
            time.sleep(SETTLED_S)

    def _stream(self) -> socket.socket:
        stream = socket.create_connection(("127.0.0.1", self._port), timeout=10)
        stream.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head = stream.recv(READ_BYTES)
        assert head.startswith(b"HTTP/1.1 200"), head
        return stream

    def _scrape(self, is_over: threading.Event) -> None:
        while True:
            with urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=10) as answer:
                self.scraped_bytes = len(answer.read())
            self.scrapes += 1
            if is_over.wait(SCRAPE_EVERY_S):
                return


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """The interval that holds the median, from order alone: no shape of the noise is supposed."""
    count, ordered = len(ratios), sorted(ratios)
    left_out, beyond = 0, 0.5**count
    while left_out < count // 2 and 2 * beyond <= 1 - CONFIDENCE:
        left_out += 1
        beyond += comb(count, left_out) * 0.5**count
    left_out = max(left_out - 1, 0)
    return ordered[left_out], ordered[-1 - left_out]


def compare(
    what: str, base: Contender, watched: Contender, watchers: Watchers, rounds: int, seconds: int
) -> bool:
    """Play the rounds in turns, print what came of them, and return whether the bound is kept."""
    for each in (base, watched):
        each.load(1.0, 1)
    ratios = []
    for _ in range(rounds):
        users_us: dict[str, float] = {base.name: 0.0, watched.name: 0.0}
        for second in range(seconds):
            for each in (base, watched) if second % 2 else (watched, base):
                with watchers.watching() if each is watched else nullcontext():
                    each.loads.append(each.load(SCRAPE_EVERY_S, 1))
                users_us[each.name] += each.loads[-1].cpu.user_us
        ratios.append(users_us[watched.name] / users_us[base.name])
    low, high = interval(ratios)
    print(f"{what}: {base.user_us:.2f} us of user CPU each, watched {watched.user_us:.2f};")
    print(f"    ratio {median(ratios):.3f}, within {low:.3f} to {high:.3f}, {rounds} rounds;")
    print(f"    {base.per_second:,.0f} and {watched.per_second:,.0f} a second")
    return median(ratios) <= BOUND


Lanes = Callable[[MusterDaemon], list[Lane]]

LOADS: Final[dict[str, Lanes]] = {
    "heartbeats": lambda daemon: lanes_of(daemon, "beat", CONNECTIONS, frames.heartbeat, HEARTBEAT),
    "commits": lambda daemon: lanes_of(daemon, "commit", CONNECTIONS, commit_of(1), COMMIT),
}


def run(rounds: int, seconds: int, base_tree: Path | None, loads: Sequence[str]) -> bool:
    kept = []
    for what in loads:
        lanes = LOADS[what]
        with ExitStack() as stack:
            port = free_port()
            http = {"muster.http.listeners": f"http://127.0.0.1:{port}"}
            watched = started(stack, http, ROOT)
            base = started(stack, {}, base_tree) if base_tree else watched
            followed = contender("watched", watched, lanes(watched))
            alone = contender("alone", base, lanes(base) if base_tree else followed.lanes)
            watchers = Watchers(port)
            kept.append(compare(what, alone, followed, watchers, rounds, seconds))
            print(
                f"    {watchers.scrapes} scrapes, the last of {watchers.scraped_bytes:,} bytes; {STREAMS} streams"
            )
            close((alone, followed))
    return all(kept)


def started(stack: ExitStack, settings: dict[str, str], tree: Path) -> MusterDaemon:
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    daemon = stack.enter_context(
        MusterDaemon(directory, {**LONG_SESSIONS, "muster.flush.policy": "os", **settings}, tree=tree)
    )
    make_topic(daemon)
    return daemon


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=int, default=6, help="of each kind in a round")
    parser.add_argument(
        "--base", type=Path, metavar="TREE", help="without it one daemon is compared with itself"
    )
    parser.add_argument("--loads", nargs="+", choices=LOADS, default=[*LOADS], help="all without it")
    arguments = parser.parse_args()
    if not run(arguments.rounds, arguments.seconds, arguments.base, arguments.loads):
        raise SystemExit(f"more than {BOUND - 1:.0%} dearer")


if __name__ == "__main__":
    main()
