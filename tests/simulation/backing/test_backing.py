"""Histories of shards whose logs are on another Kafka: whatever it does to them, no promise is broken.

`python -m tests.simulation --backing --seeds 2000` plays more; what happens is in `history`, what must in `watch`.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.backing.claims import Claim, ClaimKind, Writer
from coordinator.backing.events import AppendError, OutgoingBatch
from coordinator.backing.ownership import Ownership
from tests.simulation.__main__ import are_reached, main
from tests.simulation.backing.epochs import EPOCH_MAX, EXPIRATION_MS, Epochs
from tests.simulation.backing.history import BackingHistory
from tests.simulation.backing.log import DAY_MS, Log, cleaned_batches
from tests.simulation.backing.marks import BACKING_MARKS, ENOUGH_SEEDS
from tests.simulation.marks import Marks
from tests.simulation.simulation import Failure
from tests.simulation.timeline import Timeline

SEEDS, SEEDS_PER_TEST = 100, 20
"""The first of those of `make simulation`."""
CLAIM = Claim(ClaimKind.CLAIMED, 1, 3_000)


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_no_promise_is_broken_whatever_kafka_does(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        BackingHistory(seed).run()  # Raises, with the seed's command.


@pytest.mark.parametrize("name", sorted(BACKING_MARKS))
def test_a_mark_can_be_reached(name: str) -> None:
    """Some line of the simulation notes it."""
    here = Path(__file__).resolve().parent
    noted = [path for path in here.glob("*.py") if path.name not in ("marks.py", Path(__file__).name)]
    assert any(f'"{name}"' in path.read_text() for path in noted)


def test_a_run_fails_that_does_not_reach_every_mark(capsys: pytest.CaptureFixture[str]) -> None:
    every = [frozenset(BACKING_MARKS)] * ENOUGH_SEEDS
    assert are_reached(BackingHistory, every)
    missing = min(BACKING_MARKS)
    assert not are_reached(BackingHistory, [each - {missing} for each in every])
    assert f"reached by none of {ENOUGH_SEEDS:,} seeds: {missing}" in capsys.readouterr().out


def test_a_seed_says_all_there_is_to_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert BackingHistory(3).run() == BackingHistory(3).run()
    assert main(["--backing", "--seed", "3"]) == 0
    assert "AskEpoch" in capsys.readouterr().out
    assert main(["--backing", "--seeds", "2", "--workers", "1"]) == 0


def test_a_failure_names_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ownership, "may_answer", lambda *_: False)
    with pytest.raises(Failure, match=r"python -m tests.simulation --backing --seed 3"):
        BackingHistory(3).run()


# The log is Kafka's (ProducerAppendInfo, ProducerStateEntry).


class Partition:
    """A log by itself; what was answered is kept."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        watcher: Any = SimpleNamespace(on_committed=lambda *_: None)
        self.log = Log("log", self.timeline, Random(0), Marks(BACKING_MARKS), watcher)
        self.log.is_peaceful = True

    def produce(self, epoch: int, sequence: int, content: Any = (("a", 1),)) -> AppendError | int:
        count = 1 if isinstance(content, Claim) else len(content)
        batch = OutgoingBatch(1, Writer(7, epoch), sequence, count, content)
        answers: list[AppendError | int] = []
        self.log.produce(self.log.leader, batch, answers.append)
        while not answers:
            self.timeline.step()
        return answers[0]


def test_a_leader_takes_a_producer_in_sequence() -> None:
    partition = Partition()
    assert partition.produce(0, 5) == 0  # Of an unknown producer any.
    assert partition.produce(0, 7) is AppendError.OUT_OF_SEQUENCE
    assert partition.produce(0, 6) == 1
    assert partition.produce(0, 6) == 1  # A duplicate.
    assert partition.produce(1, 1) is AppendError.OUT_OF_SEQUENCE
    assert partition.produce(1, 0) == 2
    assert partition.produce(0, 6) is AppendError.FENCED


def test_a_leader_remembers_five_batches() -> None:
    partition = Partition()
    assert [partition.produce(0, sequence) for sequence in range(6)] == [*range(6)]
    assert partition.produce(0, 1) == 1
    assert partition.produce(0, 0) is AppendError.OUT_OF_SEQUENCE


def test_a_leader_forgets_a_producer_after_a_day() -> None:
    partition = Partition()
    partition.produce(1, 0)
    partition.timeline.now_ms += DAY_MS - 1
    assert partition.produce(0, 0) is AppendError.FENCED
    partition.timeline.now_ms += 600_001
    assert partition.produce(0, 0) == 1


def test_the_cleaner_leaves_the_last_of_each_key() -> None:
    partition = Partition()
    partition.produce(0, 0, CLAIM)
    partition.produce(0, 1, (("a", 1), ("b", 1)))
    partition.produce(0, 3, (("a", 2),))
    partition.produce(1, 0, CLAIM)
    cleaned = cleaned_batches(partition.log.history)
    assert [(each.base_offset, each.end_offset) for each in cleaned] == [(1, 3), (3, 4), (4, 5)]
    assert [commit for each in cleaned for commit in each.commits] == [("b", 1), ("a", 2)]


def test_a_new_leader_has_all_that_was_committed() -> None:
    partition = Partition()
    partition.produce(0, 0)
    old = partition.log.leader
    batch = OutgoingBatch(2, Writer(7, 0), 1, 1, (("a", 2),))
    partition.log.produce(old, batch, lambda _: pytest.fail("it was never committed"))
    partition.log.move([1])
    assert partition.log.leader.batches[0] == old.batches[0]
    partition.log.leader.batches[1:] = []
    while partition.timeline.step():
        pass
    assert partition.log.committed_end == 1


def test_epochs_are_given_once() -> None:
    epochs = Epochs(Random(0), Marks(BACKING_MARKS))
    given = [epochs.init(1) for _ in range(EPOCH_MAX + 2)]
    assert len(set(given)) == len(given)
    assert max(writer.epoch for writer in given if writer) == EPOCH_MAX
    assert len({writer.producer_id for writer in given if writer}) == 2
    epochs.fail_until(10)
    assert epochs.init(9) is None
    before, after = epochs.init(10), epochs.init(10 + EXPIRATION_MS)
    assert before is not None
    assert after is not None
    assert before.producer_id != after.producer_id
