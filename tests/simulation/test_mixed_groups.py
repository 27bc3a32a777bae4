"""Histories of groups with members of both protocols: whatever kind a group is of, no promise is broken.

`python -m tests.simulation --mixed --seeds 2000` plays more; `mixed_groups` says what happens, and `mixed_witness`
what is checked.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.simulation.__main__ import main
from tests.simulation.marks import counted, not_reached, report
from tests.simulation.mixed_groups import MixedGroups
from tests.simulation.mixed_marks import ENOUGH_FOR_FREQUENT, FREQUENT, KNOWN, MIXED_MARKS
from tests.simulation.simulation import Failure

SEEDS_PER_TEST = 25
SEEDS = max(int(os.environ.get("MUSTER_SIMULATION_SEEDS", "2000")) // 8, SEEDS_PER_TEST)


@pytest.fixture(scope="session")
def mixed_marks(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """One directory for all processes of this run, where each test leaves what its seeds have reached."""
    base = tmp_path_factory.getbasetemp()
    found = (base if worker_id == "master" else base.parent) / "mixed-marks"
    found.mkdir(exist_ok=True)
    return found


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_no_promise_is_broken_of_whatever_kind_groups_are(first: int, mixed_marks: Path) -> None:
    """The last to end looks whether every mark that is not rare was reached by some seed."""
    seeds = range(first, first + SEEDS_PER_TEST)
    reached = [sorted(MixedGroups(seed).run().marks) for seed in seeds]  # Raises, with the seed's command.
    draft = mixed_marks / f"{first}.draft"
    draft.write_text(json.dumps(reached))
    draft.rename(mixed_marks / f"{first}.json")
    ended = [json.loads(each.read_text()) for each in mixed_marks.glob("*.json")]
    counts = counted((frozenset(seed) for some in ended for seed in some), FREQUENT)
    seeds_ended, enough = SEEDS_PER_TEST * len(ended), ENOUGH_FOR_FREQUENT
    assert not not_reached(counts, seeds_ended, FREQUENT, enough), "\n".join(
        report(counts, seeds_ended, FREQUENT, enough)
    )


@pytest.mark.parametrize("name", sorted(MIXED_MARKS))
def test_a_mark_can_be_reached(name: str) -> None:
    """Some line of the simulation notes it."""
    here = Path(__file__).resolve().parent
    assert any(f'reach("{name}")' in path.read_text() for path in here.glob("*.py"))
    assert name in KNOWN


def test_a_seed_says_all_there_is_to_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert MixedGroups(3).run() == MixedGroups(3).run()
    assert main(["--mixed", "--seed", "3"]) == 0
    assert "\n  consumer groups: " in capsys.readouterr().out
    assert main(["--mixed", "--seeds", "2", "--workers", "1"]) == 0


def test_a_failure_names_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MixedGroups, "_unsettled", lambda simulation: ["never"])
    with pytest.raises(Failure, match=r"python -m tests.simulation --mixed --seed 3"):
        MixedGroups(3).run()
