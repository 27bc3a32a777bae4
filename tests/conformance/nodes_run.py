"""A run of `--target muster-on-kafka`: what is played, what is printed of it, and why it fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.coverage import Coverage, ToCover
from tests.conformance.nodes import node_target
from tests.conformance.on_kafka import CELLS_OF_GROUPS, DIFFERENT, LINES_OF_GROUPS, OF_GROUPS, REFUSED
from tests.conformance.refused import Refusal, play_refused
from tests.conformance.registry import Case
from tests.conformance.report import lines_of
from tests.conformance.suite import Outcome, play_all
from tests.conformance.targets import CONFIGURATIONS, MUSTER, Target, new_target, start_all
from tests.conformance.verdict import Played, objections, stale_rows

TO_COVER = ToCover(LINES_OF_GROUPS, CELLS_OF_GROUPS)


@dataclass(frozen=True, slots=True)
class OnKafka:
    """What came of the scenarios that are compared, and of those that are refused."""

    outcomes: list[Outcome]
    refusals: list[Refusal]
    is_complete: bool

    @property
    def shown(self) -> list[Outcome]:
        """All that shows something: what was refused as if it had been played without a fault."""
        return self.outcomes + [Outcome(each.case) for each in self.refusals if each.is_shown]


async def run_on_kafka(cases: Sequence[Case], data_dir: Path, *, is_complete: bool) -> OnKafka:
    """Play `cases` beside Kafka, and then on the nodes alone those that these refuse."""
    refused = [case for case in cases if case.scenario.name in REFUSED]
    compared = [case for case in cases if case.scenario.name not in REFUSED]
    needed = [name for name in CONFIGURATIONS if any(case.scenario.on == name for case in cases)]
    async with AsyncExitStack() as stack:
        nodes: list[Target] = [node_target(name, data_dir) for name in needed]
        kafkas = [new_target("kafka", name, data_dir) for name in needed]
        pairs = [target for pair in zip(kafkas, nodes, strict=True) for target in pair]
        await start_all(pairs, stack)
        for version in sorted({target.version for target in pairs}):
            print(f"against {version}, configurations {', '.join(needed)}", flush=True)
        outcomes = await play_all(compared, pairs, DIFFERENT)
        return OnKafka(outcomes, await play_refused(refused, nodes), is_complete)


def report(run: OnKafka, *, verbose: bool) -> Iterator[str]:
    """All that is to be said of it, as lines for people."""
    yield from lines_of(run.outcomes, verbose=verbose, to_cover=TO_COVER)
    for name, reason in DIFFERENT.items():
        lines = {line for each in run.outcomes if each.case.scenario.name == name for line in each.case.lines}
        if lines:
            yield f"differs: {name} ({', '.join(sorted(lines))}): {reason}"
    yield from _refusals(run)


def _refusals(run: OnKafka) -> Iterator[str]:
    shown = [each for each in run.refusals if each.is_shown]
    names = sorted({each.case.scenario.name for each in shown})
    yield f"refused, as they have to be: {len(names)} scenarios, {len(shown)} x versions: {', '.join(names)}"
    lines = {line for each in shown for line in each.case.lines if line in OF_GROUPS}
    alone = lines - {line for each in run.outcomes for line in each.case.lines}
    yield f"lines and cells that are refused and nothing else: {len(alone)}: {', '.join(sorted(alone))}"
    for each in run.refusals:
        if not each.is_shown:
            yield f"{each.case.name}: {'; '.join(each.wrong) or 'nothing was refused'} ({each.ended})"


def wrong_on_kafka(run: OnKafka) -> Iterator[str]:
    """All that is wrong with the run; of one that is not complete nothing is said about what it leaves out."""
    names = {each.case.scenario.name for each in run.outcomes}
    kinds = ("kafka", MUSTER)
    yield from objections(Played(run.outcomes, [], kinds, is_complete=False))
    if taken := sorted({each.case.name for each in run.refusals if not each.is_shown}):
        yield f"not refused: {', '.join(taken)}"
    if not run.is_complete:
        return
    if missing := Coverage(run.shown, TO_COVER).missing:
        yield f"not covered: {', '.join(missing)}"
    for name in sorted(DIFFERENT.keys() - names):
        yield f"no scenario is called {name}"
    yield from stale_rows(run.outcomes, names)
