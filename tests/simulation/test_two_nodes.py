"""Histories of two nodes between which shards move: whatever they were doing, no promise of one node is broken.

`python -m tests.simulation --two-nodes --seeds 2000` plays more; `two_nodes` says what is checked.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from coordinator.runtime.loop import Runtime
from tests.simulation.__main__ import main
from tests.simulation.held_logs import SHARDS
from tests.simulation.simulation import Failure
from tests.simulation.two_nodes import TwoNodes

SEEDS = 80
SEEDS_PER_TEST = 10
ENOUGH = {
    "opened": 1_000,
    "closed": 500,
    "closed with requests parked": 10,
    "closed while flushed": 20,
    "closed while written behind": 8,
    "closed while loaded": 20,
    "closed without room": 3,
    "orphaned": 100,
}
"""How often things have to happen in all of the seeds, for a history in which nothing happens passes as well."""


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_no_promise_is_broken_wherever_shards_are(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        TwoNodes(seed).run()  # Raises, with the seed's command.


def test_shards_move_amid_everything() -> None:
    met: Counter[str] = Counter()
    for seed in range(25):
        simulation = TwoNodes(seed)
        simulation.run()
        met += simulation.server.met
    missing = {what: met[what] for what, enough in ENOUGH.items() if met[what] * SEEDS < enough * 25}
    assert missing == {}


def test_two_nodes_that_serve_one_shard_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself: a node opens all that there is."""
    simulation = TwoNodes(0)
    (shard, *_) = SHARDS
    simulation.server.start()
    simulation.server.holders[shard] = 1
    for node in simulation.server.nodes:
        monkeypatch.setattr(node.runner_of(shard), "shard", object())
    simulation.server.look()
    assert simulation.witness.violations == [f"{shard} is served by nodes [1, 2]"]


def test_a_node_that_touches_a_log_of_the_other_is_found() -> None:
    simulation = TwoNodes(0)
    (shard, *_) = SHARDS
    simulation.server.holders[shard] = 2
    node = simulation.server.nodes[0]
    node.storage.logs_of(shard[0])[shard[1]].fail_back()
    (violation,) = simulation.witness.violations
    assert violation == f"cut by node 1 of {shard}, which 2 holds"


def test_a_seed_says_all_there_is_to_say(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = TwoNodes(3), TwoNodes(3)
    assert first.run() == second.run()
    assert first.server.met == second.server.met
    assert main(["--two-nodes", "--seed", "3"]) == 0
    assert "\nseed 3\n" in capsys.readouterr().out
    assert main(["--two-nodes", "--seeds", "2", "--workers", "1"]) == 0


def test_a_failure_names_its_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Runtime, "close_shard", lambda runtime, runner, done: runner.release())
    with pytest.raises(Failure, match=r"python -m tests.simulation --two-nodes --seed 3"):
        TwoNodes(3).run()


def test_a_request_whose_client_waits_no_longer_is_owed_nothing_by_a_dead_node() -> None:
    """Of hundreds that a node had when it died: found by this seed, whose overdue answers were nobody's."""
    TwoNodes(659).run()
