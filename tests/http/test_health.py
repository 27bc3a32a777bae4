"""`/livez` and `/readyz`: what they answer while something is not as it should be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator.http.exchange import HttpProblem, Question, Steps
from coordinator.http.health import LATE_MS, NAMED_MAX, Health
from coordinator.runtime.loop import Runtime
from coordinator.runtime.shard_states import ShardState
from storage.log.log_states import LogState


class World:
    """A runtime of some shards."""

    def __init__(self, *states: ShardState) -> None:
        self.runners = [self._runner(number, state) for number, state in enumerate(states)]
        self.transaction_runners: list[Any] = []
        self.outages = SimpleNamespace(is_full=False)
        self.clock_ms = 0
        self.others: list[str] = []
        self.health = Health(cast(Runtime, self), lambda: self.clock_ms, lambda: self.others)

    def _runner(self, partition: int, state: ShardState) -> Any:
        durable_log = SimpleNamespace(state=LogState.ACTIVE)
        return SimpleNamespace(partition=partition, state=state, durable_log=durable_log)

    def runner_for(self, group_id: str) -> Any:
        return self.runners[int(group_id)]

    def not_ready(self, **query: str) -> list[str]:
        """The reasons; none if it is ready."""
        steps = self.health.ready(Question(query))
        try:
            answer = done(steps)
        except HttpProblem as problem:
            reasons: list[str] = problem.document()["not_ready"]
            return reasons if problem.status == 503 else [f"{problem.status}"]
        return [] if answer == {"status": "ready"} else [f"{answer}"]


def done(steps: Steps) -> Any:
    try:
        while True:
            next(steps)
    except StopIteration as ended:
        return ended.value


def test_a_node_is_ready_once_it_serves_its_own() -> None:
    world = World(ShardState.LOADING, ShardState.ACTIVE)
    world.others = ["not among the others yet"]
    assert world.not_ready() == ["shard 0 is loading", "not among the others yet"]
    assert world.not_ready(group="1") == [], "asked for one group"


def test_it_is_ready_once_every_shard_is_loaded() -> None:
    world = World(ShardState.ACTIVE, ShardState.LOADING, ShardState.FAILED, ShardState.ELSEWHERE)
    world.transaction_runners = [world._runner(7, ShardState.LOADING)]
    assert world.not_ready() == [
        "shard 1 is loading",
        "shard 2 is out of service: its log cannot be read",
        "transaction shard 7 is loading",
    ]
    for runner in (*world.runners[1:3], *world.transaction_runners):
        runner.state = ShardState.ACTIVE
    assert world.not_ready() == []


def test_one_group_asks_about_its_own_shard() -> None:
    world = World(ShardState.ACTIVE, ShardState.LOADING)
    assert world.not_ready(group="0") == []
    assert world.not_ready(group="1") == ["shard 1 is loading"]


def test_a_disk_without_room_is_an_outage() -> None:
    world = World(ShardState.ACTIVE)
    world.outages.is_full = True
    assert world.not_ready() == ["no room on the disk: writes are refused"]
    world.outages.is_full = False
    world.runners[0].durable_log.state = LogState.OFFLINE
    assert world.not_ready() == ["shard 0 cannot be written"]


def test_few_reasons_are_named_and_the_others_counted() -> None:
    world = World(*[ShardState.LOADING] * (NAMED_MAX + 5))
    reasons = world.not_ready()
    assert len(reasons) == NAMED_MAX + 1
    assert reasons[-1] == "and 5 more"


@pytest.mark.parametrize(("late_ms", "is_live"), [(0, True), (LATE_MS, True), (LATE_MS + 1, False)])
def test_a_loop_whose_next_turn_comes_late_does_not_live(late_ms: int, is_live: bool) -> None:
    world = World()
    steps = world.health.live(Question())
    world.clock_ms += late_ms
    if is_live:
        assert done(steps) == {"status": "live"}
    else:
        with pytest.raises(HttpProblem) as refused:
            done(steps)
        assert refused.value.status == 503
