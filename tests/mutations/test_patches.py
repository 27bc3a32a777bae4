"""The mutants are of today's code: a patch that no longer applies, or whose net is gone, would catch nothing."""

from __future__ import annotations

import subprocess

import pytest

from tests.mutations.mutants import ROOT, Mutant, mutants

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
    "sync_nothing",
    "lose_the_wake_up_of_a_late_flush",
    "take_any_verification_for_the_one_shown",
    "keep_the_topic_id_of_a_repeated_commit",
    "find_segments_behind_the_check",
    "deliver_markers_of_a_former_life",
    "replace_segments_beside_a_flush",
    "clean_a_log_that_has_failed",
    "leave_the_interpreter_hurried",
    "read_short_logs_on_the_loop",
}


def test_the_mutants_that_matter_are_there() -> None:
    assert {mutant.name for mutant in mutants()} >= WANTED


@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_made_of_todays_code(mutant: Mutant) -> None:
    applied = subprocess.run(
        ["git", "apply", "--check", str(mutant.patch)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert applied.returncode == 0, applied.stderr


@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.name)
def test_its_net_is_there(mutant: Mutant) -> None:
    for test in mutant.net:
        path, *names = test.split("::")
        assert (ROOT / path).exists(), test
        assert all(f" {name.partition('[')[0]}" in (ROOT / path).read_text() for name in names), test
