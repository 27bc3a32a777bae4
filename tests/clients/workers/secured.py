"""What the walks over secured listeners have in common: cells, played on threads, and their outcomes.

An outcome is what the library shows its user: SERVED, or the name of an error and its text. Knows no library.
"""

from __future__ import annotations

import json
import os
import re
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.reporting import Config, report, require

SERVED: Final = "served"
NOTHING: Final = "nothing"
"""Neither served nor refused in the time that the cell waits, as far as the library says."""
THREADS: Final = 16
COMMIT_EVERY_S: Final = 0.2
COMMITS: Final = 5
"""How many a member has to make one after the other before its time begins, and at least in its time."""
LATE: Final = 6
"""How many connections a client that logs in again in time may lose where a busy machine makes it late: the three
that it has, twice. Whether it logs in again at all is seen by how long the longest of them lasts."""
OUTLIVED: Final = 1.5
"""Sessions that a connection lasts for only if its client has logged in again."""
MEMBER: Final[dict[str, Any]] = {
    "session_timeout_ms": 10_000,
    "heartbeat_interval_ms": 500,
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "fetch_max_wait_ms": 100,
}
"""A member's settings, by the names that aiokafka and kafka-python share."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a cell; `error` is SERVED if nothing went wrong."""

    error: str
    text: str = ""
    details: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the matrix: who connects to which listener, and what for.

    `lasts_s` is for members that stay, `session_s` how long a login of theirs is good for; a library that tries
    on after a refusal tries for `bootstrap_s`; `waits_s` is how long a refusal, or a first answer, is waited for.
    """

    name: str
    does: str
    bootstrap: str
    protocol: str
    authority: str
    topic: str
    group: str
    lasts_s: float
    session_s: float
    bootstrap_s: float
    waits_s: float
    mechanism: str | None = None
    user: str | None = None
    password: str | None = None
    token_url: str | None = None
    certificate: str | None = None
    group_protocol: str = "classic"

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])

    def token(self) -> tuple[str, float]:
        """A new token, and how many seconds it is good for by its issuer's word."""
        assert self.token_url is not None
        with urllib.request.urlopen(self.token_url, data=b"grant_type=client_credentials") as answer:
            granted = json.load(answer)
        return str(granted["access_token"]), float(granted["expires_in"])


Play = Callable[[Cell], Outcome]


def walk_cells(config: Config, plays: dict[str, Play]) -> None:
    """Play all cells, several at a time; one that raises what it does not expect ends the process."""
    cells = [Cell(**cell) for cell in config["cells"]]
    with ThreadPoolExecutor(THREADS) as threads:
        for future in [threads.submit(_played, plays[cell.does], cell) for cell in cells]:
            future.result()
    report("walked")


def _played(play: Play, cell: Cell) -> None:
    begun_s = time.monotonic()
    outcome = play(cell)
    took_s = round(time.monotonic() - begun_s, 2)
    report("outcome", cell=cell.name, took_s=took_s, **asdict(outcome))


class Stay:
    """Follows a member for several sessions: its commits, its assignments, the connections that it opens.

    Each turn of the member's loop begins with `goes_on`, which waits until a commit is due, and ends with
    `committed` or `failed`. Its time begins when it has settled: some libraries join twice at first.
    """

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._settles_by_s = time.monotonic() + cell.waits_s
        self._end_s: float | None = None
        self._in_a_row = 0
        self._commits = 0
        self._rebalances = 0
        self._failures: set[str] = set()
        self._seen_since_s: dict[int, float] = {}
        self._opened = 0
        self._longest_s = 0.0

    def goes_on(self) -> bool:
        """Whether another commit is due, which is waited for."""
        time.sleep(COMMIT_EVERY_S)
        if self._end_s is None:
            require(time.monotonic() < self._settles_by_s, f"does not settle: {self._failures}")
            if self._in_a_row == COMMITS:
                self._end_s = time.monotonic() + self._cell.lasts_s
                self._failures.clear()
                self._look()
                self._opened = 0
            return True
        self._look()
        return time.monotonic() < self._end_s

    def _look(self) -> None:
        """What connections there are; one that is gone begins anew should its port come again."""
        now_s, ports = time.monotonic(), established(self._cell.port)
        self._opened += len(ports - self._seen_since_s.keys())
        self._seen_since_s = {port: self._seen_since_s.get(port, now_s) for port in ports}
        self._longest_s = max(
            [self._longest_s, *(now_s - since_s for since_s in self._seen_since_s.values())]
        )

    def assigned(self) -> None:
        self._rebalances += self._end_s is not None
        self._in_a_row = 0

    def committed(self) -> None:
        self._commits += self._end_s is not None
        self._in_a_row += self._end_s is None

    def failed(self, name: str) -> None:
        self._failures.add(name)
        self._in_a_row = 0

    def outcome(self) -> Outcome:
        """Whether it went on as a member all the time, and over the connections that it had."""
        require(self._commits >= COMMITS, f"{self._commits} commits, {self._failures}")
        details = {"rebalances": self._rebalances, "connections": self._connections()}
        return Outcome(SERVED, ", ".join(sorted(self._failures)), details)

    def _connections(self) -> str:
        """A connection outlives a session where the client logs in again over it, and nowhere else."""
        if self._longest_s < OUTLIVED * self._cell.session_s:
            return "replaced"
        return "kept" if self._opened <= LATE else f"{self._opened} opened"


def established(port: int) -> set[int]:
    """The local ports of this process's connections to this port of loopback."""
    sockets = set()
    for entry in os.scandir("/proc/self/fd"):
        try:
            sockets.add(os.readlink(entry.path))
        except FileNotFoundError:
            continue
    found = set()
    for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, *rest = line.split()
        if remote.endswith(f":{port:04X}") and state == "01" and f"socket:[{rest[5]}]" in sockets:
            found.add(int(local.rpartition(":")[2], 16))
    return found


def shown(text: object) -> str:
    """A text without what differs from run to run: addresses, times, and places in OpenSSL."""
    return re.sub(r"\d+ms|127\.0\.0\.1'?(:|, )\d+|error:\w+", "...", str(text))
