"""Plays cases against the targets and judges what came out. Knows no scenario and no broker's command line."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tests.conformance.comparison import Difference, differences, normalised
from tests.conformance.registry import Case
from tests.conformance.restarts import Restarts
from tests.conformance.run import Run
from tests.conformance.targets import Target
from tests.conformance.wanted import Wanted, reason_for

AT_A_TIME: Final = 12
"""Cases side by side: most of what they do is wait, but requests have to be answered within milliseconds."""
CASE_TIMEOUT_S: Final = 150.0
ATTEMPTS: Final = 3
"""What differed while others were played beside it is played again, one case at a time, and the report tells.

Scripts go by the clock, and a slow moment of the machine is no difference; what differs by rule differs each time.
"""
PLAYED_AGAIN_MAX: Final = 10
"""If more cases differ than that, it was no slow moment: they are not played again."""


@dataclass
class Outcome:
    """One case, played on each target there was."""

    case: Case
    runs: dict[str, Run] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)  # By kind of target: the script broke off.
    unexpected: list[Difference] = field(default_factory=list)
    wanted: list[tuple[Wanted, Difference]] = field(default_factory=list)
    attempts: int = 1

    @property
    def broken_promises(self) -> list[tuple[str, str]]:
        """(target, promise): what the script said would be and was not."""
        return [(kind, promise) for kind, run in self.runs.items() for promise in run.unmet]

    @property
    def is_equal(self) -> bool:
        """All as the script says on either side, and no difference but wanted ones.

        A script promises only what both sides keep: what is wanted to differ is told in the table alone.
        """
        return not self.failures and not self.unexpected and not self.broken_promises


async def play(case: Case, targets: list[Target], restarts: dict[str, Restarts], attempt: int = 1) -> Outcome:
    """Play `case` on all `targets` side by side and compare; each attempt has groups of its own."""
    outcome = Outcome(case, attempts=attempt)
    await asyncio.gather(*[_play_on(target, case, outcome, restarts) for target in targets])
    if {"kafka", "muster"} <= outcome.runs.keys():
        transcripts = {kind: normalised(run.transcript, run.bootstrap) for kind, run in outcome.runs.items()}
        for difference in differences(transcripts["kafka"], transcripts["muster"]):
            row = reason_for(case.name, difference)
            if row is None:
                outcome.unexpected.append(difference)
            else:
                outcome.wanted.append((row, difference))
    return outcome


async def _play_on(target: Target, case: Case, outcome: Outcome, restarts: dict[str, Restarts]) -> None:
    name = case.name if outcome.attempts == 1 else f"{case.name}/{outcome.attempts}"
    run = Run(name, target.bootstrap, dict(target.topic_ids), restarts.get(target.kind))
    outcome.runs[target.kind] = run
    try:
        async with asyncio.timeout(CASE_TIMEOUT_S):
            await case.play(run)
    except Exception as error:  # The report shows it; the other cases go on.
        where = traceback.extract_tb(error.__traceback__)
        lines = [
            f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}"
            for frame in where
            if "conformance" in frame.filename
        ]
        outcome.failures[target.kind] = f"{type(error).__name__}: {error} ({' > '.join(lines[-4:])})"
    finally:
        run.close()
        await run.give_up_restart()


async def play_all(cases: Iterable[Case], targets: list[Target]) -> list[Outcome]:
    """Play every case on the targets that have its configuration; the configurations side by side."""
    by_configuration: dict[str, list[Target]] = {}
    for target in targets:
        by_configuration.setdefault(target.configuration, []).append(target)
    given = list(cases)
    played = await asyncio.gather(
        *[
            _play_on_configuration([case for case in given if case.scenario.on == name], its_targets)
            for name, its_targets in by_configuration.items()
        ]
    )
    return [outcome for outcomes in played for outcome in outcomes]


async def _play_on_configuration(cases: list[Case], targets: list[Target]) -> list[Outcome]:
    """Those that restart the broker come last, all together: one restart serves them all."""
    gate = asyncio.Semaphore(AT_A_TIME)

    async def through_the_gate(case: Case) -> Outcome:
        async with gate:
            return await play(case, targets, {})

    quiet = [case for case in cases if not case.scenario.restarts]
    outcomes = await _play_again(await asyncio.gather(*map(through_the_gate, quiet)), targets)
    loud = [case for case in cases if case.scenario.restarts]
    restarts = {target.kind: Restarts(target.restart, len(loud)) for target in targets}
    return outcomes + await asyncio.gather(*[play(case, targets, restarts) for case in loud])


async def _play_again(outcomes: list[Outcome], targets: list[Target]) -> list[Outcome]:
    """Give those that differ two more tries, unless they are many."""
    if sum(not outcome.is_equal for outcome in outcomes) > PLAYED_AGAIN_MAX:
        return outcomes
    final: list[Outcome] = []
    for outcome in outcomes:
        while not outcome.is_equal and outcome.attempts < ATTEMPTS:
            outcome = await play(outcome.case, targets, {}, outcome.attempts + 1)
        final.append(outcome)
    return final
