"""What `/api/v1/groups` costs with many groups: CPU of a page, and the longest step of the loop.

    python -m bench.http_groups [--groups 100000]

The groups are living ones in 50 shards, Empty and without offsets; the handler's steps are done as the daemon does
them, without a socket.
"""

from __future__ import annotations

import argparse
import time
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlencode

from coordinator.groups.classic.group import Group
from coordinator.http.exchange import JSON, Question
from coordinator.http.group_list import GroupList
from coordinator.http.work import StepQueue, Work
from coordinator.metrics.metrics import Metrics
from coordinator.runtime.loop import Runtime

SHARDS = 50
QUESTIONS: tuple[dict[str, str], ...] = (
    {},
    {"sort": "-lag"},
    {"sort": "-members", "q": "group-77"},
    {"limit": "1000"},
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--groups", type=int, default=100_000)
    count = parser.parse_args().groups
    groups = GroupList(cast(Runtime, runtime_of(count)), cast(Metrics, metrics_of(count)))
    for question in QUESTIONS:
        cpu_ms, longest_ms, turns = measured(groups, question)
        print(
            f"{count:,} groups, ?{urlencode(question)}: {cpu_ms:.0f} ms of CPU in {turns} turns, "
            f"the longest step {longest_ms:.2f} ms"
        )


def runtime_of(count: int) -> Any:
    shards = [
        SimpleNamespace(groups={}, consumer_groups={}, consumers=SimpleNamespace(settings=None))
        for _ in range(SHARDS)
    ]
    for number in range(count):
        group_id = f"group-{number}"
        shards[number % SHARDS].groups[group_id] = Group(group_id)
    return SimpleNamespace(runners=[SimpleNamespace(shard=shard) for shard in shards])


def metrics_of(count: int) -> Any:
    """Lags by look-up, as the daemon's metrics have them."""
    lags = {f"group-{number}": number * 7_919 % 10_007 for number in range(count)}
    return SimpleNamespace(lag_records=lags.get, figures=lambda group_id: None)


def measured(groups: GroupList, question: dict[str, str]) -> tuple[float, float, int]:
    """CPU ms of an answer, that of its longest step, and the number of its turns."""
    ready: list[Any] = []
    queue = StepQueue(ready.append, lambda: False, lambda work, done: None)
    work = Taken(queue, groups.answer(Question(question)))
    began, longest, turns = time.thread_time(), 0.0, 0
    work.begin()
    while ready:
        before = time.thread_time()
        ready.pop(0)()
        longest, turns = max(longest, time.thread_time() - before), turns + 1
    assert work.size > 100, f"no {JSON}"
    return (time.thread_time() - began) * 1_000, longest * 1_000, turns


class Taken(Work):
    """Takes the parts of an answer, and throws them away."""

    size = 0

    def on_part(self, part: bytes) -> bool:
        self.size += len(part)
        return True


if __name__ == "__main__":
    main()
