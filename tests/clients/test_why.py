"""`muster groups why` on a daemon whose clients behave in a certain way: what it says, compared whole.

Each script is one row of the rules, or a few, played by real clients as processes of their own. Times, spans and the
names of group and topic differ from run to run, and are replaced.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.observer import Observer
from harness.processes import ServerProcess, wait_until
from tests.clients.fleet import DEADLINE_S, ROOT, Fleet, Worker
from tests.clients.groups import Group

POLL_MS = 6_500
"""Of slow poll loops: no less than a session, as librdkafka wants it."""

_SPAN = r"\d+(\.\d)? m?s\b|\d+ min( \d+ s)?"
_REPLACED = (
    (r"\d\d:\d\d:\d\d", "TIME"),
    (_SPAN, "SPAN"),
    (r"\d+% of its session", "N% of its session"),
    (r"generation \d+ to \d+", "generation N to M"),
    (r"generation \d+", "generation N"),
    (r"epoch \d+", "epoch N"),
)


@pytest.fixture(autouse=True)
def _on_muster_alone(target: str) -> None:
    if target == "kafka":
        pytest.skip("Kafka keeps no history of its groups")


@pytest.fixture
def group(quick_fleet: Fleet, watcher: Observer) -> Group:
    return Group(quick_fleet, watcher)


@pytest.fixture
def why(quick_broker: ServerProcess) -> Iterator[Why]:
    yield Why(quick_broker.bootstrap)


class Why:
    """Asks as users do, and reads the answer as they do."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._last = ""

    def run(self, group: str, *options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "muster", "groups", "why", group, "--bootstrap", self._bootstrap]
        return subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, timeout=60)

    def says(self, group: Group, rule: str, *, is_over: bool = True) -> list[str]:
        """The lines about `group`, once the last rebalance is explained by `rule`, and over if it is to be."""

        def explained() -> dict[str, Any] | None:
            ran = self.run(group.name, "--json")
            self._last = ran.stdout + ran.stderr
            if ran.returncode:
                return None
            answer: dict[str, Any] = json.loads(ran.stdout)
            return answer if _rule(answer) == rule and answer["is_over"] is is_over else None

        try:
            answer = wait_until(explained, f"{rule} of {group.name}", DEADLINE_S)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self._last}") from None
        assert answer is not None
        return [normal(line, group) for line in answer["text"]]


def _rule(answer: dict[str, Any]) -> str | None:
    return answer["why"] and answer["why"]["rule"]


def normal(line: str, group: Group) -> str:
    """The line without what differs from run to run."""
    line = line.replace(group.name, "billing").replace(group.topic, "orders")
    for pattern, replacement in _REPLACED:
        line = re.sub(pattern, replacement, line)
    return line


def members(group: Group, family: str, count: int, **config: object) -> list[Worker]:
    """Members app-1, app-2, ... that share the topic."""
    started = [
        group.start(family, client_id=f"app-{number + 1}", assignor="range", **config)
        for number in range(count)
    ]
    group.await_shared(*started)
    return started


def test_a_member_that_is_closed(java: Path, group: Group, why: Why) -> None:
    first, second = members(group, "java", 2)
    second.stop()
    group.await_shared(first)
    assert why.says(group, "left_closed") == []


def test_a_crash(group: Group, why: Why) -> None:
    first, second = members(group, "confluent", 2)
    second.kill()
    group.await_shared(first)
    assert why.says(group, "expired") == []


def test_a_slow_poll_loop(java: Path, group: Group, why: Why) -> None:
    first, _ = members(group, "java", 2, max_poll_interval_ms=POLL_MS)
    slow = group.start("java", client_id="app-3", assignor="range", holds=True, max_poll_interval_ms=POLL_MS)
    group.write()
    slow.wait_for_event("holding")
    assert why.says(group, "left_poll_timeout") == []
