"""Plays cases against the targets and judges what came out. Knows no scenario and no broker's command line."""

from __future__ import annotations

import asyncio
import traceback
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from tests.conformance.comparison import (
    Difference,
    NodeIds,
    Tally,
    differences,
    normalised,
    surplus_differences,
)
from tests.conformance.earlier import CORRECTED, EARLIER, Question, without_rows
from tests.conformance.registry import Case, Ending
from tests.conformance.restarts import Restarts
from tests.conformance.run import Run
from tests.conformance.secured import SECURED
from tests.conformance.targets import MUSTER, RestartOf, Target
from tests.conformance.wanted import Wanted, reason_for

AT_A_TIME: Final = 12
"""Cases side by side: most of what they do is wait, but requests have to be answered within milliseconds."""
CASE_TIMEOUT_S: Final = 150.0
REPLAYS_MAX: Final = 2
"""Of so many scenarios, what differed beside others is played again, once and alone, in a whole run.

Scripts go by the clock, and a slow moment of the machine is no difference. It meets all versions of a scenario
that are played side by side, so these count as one. If more differ than that it was no slow moment: none of them
is played again. The report shows each replay, and what differed at first.
"""


@dataclass
class Outcome:
    """One case, played on each target there was."""

    case: Case
    runs: dict[str, Run] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)  # Why the script broke off, by kind of target.
    unexpected: list[Difference] = field(default_factory=list)
    wanted: list[tuple[Wanted, Difference]] = field(default_factory=list)
    at_first: Outcome | None = None  # What came of it beside others, where it was played again.
    unserved: set[Question] = field(
        default_factory=set
    )  # What it asked and an earlier commit does not serve.
    tally: Tally = field(default_factory=Tally)
    reason_to_differ: str = ""  # Of principle; without one nothing may.

    @property
    def broken_promises(self) -> list[tuple[str, str]]:
        """(target, promise): what the script said would be and was not."""
        return [(kind, promise) for kind, run in self.runs.items() for promise in run.unmet]

    @property
    def is_left_out(self) -> bool:
        """Whether an earlier commit is known to answer otherwise, or not at all."""
        return EARLIER in self.runs and (bool(self.unserved) or self.case.scenario.name in CORRECTED)

    @property
    def is_equal(self) -> bool:
        """Whether both sides did as the script says, without a difference but wanted ones; or cannot be compared.

        A script promises only what both sides keep: what is wanted to differ stands in the table alone.
        """
        if EARLIER in self.runs:
            return self.is_left_out or not (self.unexpected or len(self.failures) == 1)
        return not self.failures and not self.unexpected and not self.broken_promises

    @property
    def is_expected(self) -> bool:
        """Whether it is equal, or has a reason not to be and is not: one on Kafka's side is none."""
        if not self.reason_to_differ:
            return self.is_equal
        return not self.is_equal and "kafka" not in {*self.failures, *dict(self.broken_promises)}


async def play(
    case: Case, targets: list[Target], restarts: dict[str, Restarts], at_first: Outcome | None = None
) -> Outcome:
    """Play `case` on all `targets` side by side and compare; a replay has groups of its own."""
    outcome = Outcome(case, at_first=at_first)
    await asyncio.gather(*[_play_on(target, case, outcome, restarts) for target in targets])
    others = [kind for kind in outcome.runs if kind != MUSTER]
    if others and MUSTER in outcome.runs:
        new = {key for target in targets for key, _ in target.unserved}
        _compare(outcome, others[0], new, {target.kind: target.node_ids for target in targets})
    for run in outcome.runs.values():
        run.forget_answers()
    return outcome


def _compare(outcome: Outcome, other: str, new: set[int], node_ids: dict[str, NodeIds]) -> None:
    """Compare with the other kind's run; nothing is wanted to differ from an earlier commit but `new` keys."""
    theirs, ours = outcome.runs[other], outcome.runs[MUSTER]
    before, now = (
        normalised(without_rows(run.transcript, new), *run.bootstraps, node_ids=node_ids[kind])
        for kind, run in ((other, theirs), (MUSTER, ours))
    )
    found = differences(before, now, outcome.tally)
    found += surplus_differences(theirs.surplus, ours.surplus)
    for difference in found:
        row = None if other == EARLIER else reason_for(outcome.case.name, difference)
        if row is None:
            outcome.unexpected.append(difference)
        else:
            outcome.wanted.append((row, difference))


async def _play_on(target: Target, case: Case, outcome: Outcome, restarts: dict[str, Restarts]) -> None:
    name = case.name if outcome.at_first is None else f"{case.name}/again"
    run = Run(name, target.bootstrap, dict(target.topic_ids), restarts.get(target.kind), case.ending)
    run.other_bootstraps, run.leaders = target.other_bootstraps, target.leaders
    run.offsets_topic = target.offsets_topic
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
        outcome.unserved |= run.questions & target.unserved
        run.give_up_restart()


async def play_all(
    cases: Iterable[Case], targets: list[Target], reasons: Mapping[str, str] = MappingProxyType({})
) -> list[Outcome]:
    """Play every case on the targets that have its configuration; the configurations side by side.

    `reasons` are those for which scenarios, by name, have to come out otherwise.
    That with security comes last: its table of rights keeps all cores busy, and the others are about time.
    """
    by_configuration: dict[str, list[Target]] = {}
    for target in targets:
        by_configuration.setdefault(target.configuration, []).append(target)
    given, replays = list(cases), Replays(reasons)
    outcomes: list[Outcome] = []
    for names in (by_configuration.keys() - {SECURED}, by_configuration.keys() & {SECURED}):
        played = await asyncio.gather(
            *[
                _play_on_configuration(
                    [case for case in given if case.scenario.on == name], by_configuration[name], replays
                )
                for name in by_configuration
                if name in names
            ]
        )
        outcomes += [outcome for each in played for outcome in each]
    return outcomes


class Replays:
    """The replays that are left in a run."""

    def __init__(self, reasons: Mapping[str, str] = MappingProxyType({})) -> None:
        self.reasons = reasons
        self._left = REPLAYS_MAX

    async def play(self, outcomes: list[Outcome], targets: list[Target]) -> list[Outcome]:
        """Play the cases that differ once more, alone, unless they are of too many scenarios."""
        for outcome in outcomes:
            outcome.reason_to_differ = self.reasons.get(outcome.case.scenario.name, "")
        different = {outcome.case.scenario.name for outcome in outcomes if not outcome.is_expected}
        if len(different) > self._left:
            return outcomes
        self._left -= len(different)
        return [
            each if each.is_expected else await play(each.case, targets, {}, at_first=each)
            for each in outcomes
        ]


async def _play_on_configuration(cases: list[Case], targets: list[Target], replays: Replays) -> list[Outcome]:
    """Play the cases; those that restart the broker come last, together: one restart of each kind serves all."""
    gate = asyncio.Semaphore(AT_A_TIME)
    turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def through_the_gate(case: Case) -> Outcome:
        word = case.scenario.in_turn
        async with nullcontext() if word is None else turns[word], gate:
            return await play(case, targets, {})

    quiet = [case for case in cases if case.ending is None]
    outcomes = await replays.play(await asyncio.gather(*map(through_the_gate, quiet)), targets)
    return outcomes + await _play_restarting([case for case in cases if case.ending is not None], targets)


async def _play_restarting(cases: list[Case], targets: list[Target]) -> list[Outcome]:
    """Play one restart after the other; the scripts of the next begin while those of the last check the rest.

    Each restart waits for all scripts that share it, and for us: until those of the one before have ended.
    """
    playing: list[asyncio.Future[list[Outcome]]] = []
    for ending in Ending:
        sharing = [case for case in cases if case.ending is ending]
        if not sharing:
            continue
        restarts = {target.kind: Restarts(RestartOf(target, ending), len(sharing) + 1) for target in targets}
        scripts = asyncio.gather(*[play(case, targets, restarts) for case in sharing])
        await asyncio.gather(*playing)
        for restart in restarts.values():
            restart.give_up()
        await asyncio.gather(*[restart.over() for restart in restarts.values()])
        playing.append(scripts)
    return [outcome for outcomes in await asyncio.gather(*playing) for outcome in outcomes]
