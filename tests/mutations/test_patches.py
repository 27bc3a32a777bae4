"""The mutants are of today's code: a patch that no longer applies would catch nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.mutations.__main__ import ROOT, patches

WANTED = {
    "forget_the_sync_timer",
    "answer_before_durable",
    "skip_the_pending_id_wait",
    "keep_a_dead_leader",
    "let_a_fenced_static_id_commit",
    "count_pending_ids_toward_the_maximum",
    "expire_a_parked_member",
    "reinstate_an_old_generation_on_replay",
    "lose_a_tombstone",
    "restart_timers_short_after_load",
    "forget_late_timers_when_there_is_room",
    "read_a_shard_twice_when_there_is_room",
    "overlook_tombstones_in_cleaning",
}


def test_the_mutants_that_matter_are_there() -> None:
    assert {patch.stem for patch in patches()} >= WANTED


@pytest.mark.parametrize("patch", patches(), ids=lambda patch: patch.stem)
def test_a_mutant_can_be_made_of_todays_code(patch: Path) -> None:
    applied = subprocess.run(
        ["git", "apply", "--check", str(patch)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert applied.returncode == 0, applied.stderr
