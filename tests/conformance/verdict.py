"""Why a run fails: all that came of it and should not have, as lines for people. Without any it is a success."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tests.conformance.coverage import Coverage, proofs_elsewhere
from tests.conformance.lines import PROOFS
from tests.conformance.suite import REPLAYS_MAX, Outcome
from tests.conformance.wanted import stale


@dataclass(frozen=True, slots=True)
class Played:
    """What a run has come to, on targets of all `kinds`; `unlike` is what differs in their ApiVersions tables."""

    outcomes: list[Outcome]
    unlike: list[str]
    kinds: tuple[str, ...]
    is_complete: bool


def objections(played: Played) -> Iterator[str]:
    """All that is wrong with a run; of one that is not complete nothing is said about what it leaves out."""
    if different := [each.case.name for each in played.outcomes if not each.is_expected]:
        yield f"not as expected: {', '.join(different)}"
    if halves := [each.case.name for each in played.outcomes if each.runs.keys() != set(played.kinds)]:
        yield f"not played on all of {', '.join(played.kinds)}: {', '.join(halves)}"
    replayed = {each.case.scenario.name for each in played.outcomes if each.at_first is not None}
    if len(replayed) > REPLAYS_MAX:
        yield f"{len(replayed)} scenarios were played again, more than {REPLAYS_MAX}"
    if played.unlike:
        yield f"the tables of ApiVersions differ: {len(played.unlike)} times"
    if played.is_complete:
        yield from _left_out(played)


def stale_rows(outcomes: list[Outcome], names: Collection[str] | None = None) -> Iterator[str]:
    """The wanted differences that none of the outcomes had: of all scenarios, or of those with these names."""
    seen = ((each.case.name, row, difference) for each in outcomes for row, difference in each.wanted)
    for field in stale(seen, names):
        yield f"no such difference any more: {field}"


def _left_out(played: Played) -> Iterator[str]:
    """What a complete run should have shown, and did not."""
    if missing := Coverage(played.outcomes).missing:
        yield f"not covered: {', '.join(missing)}"
    if len(played.kinds) > 1:
        yield from stale_rows(played.outcomes)
    for line, tests in proofs_elsewhere().items():
        if not tests:
            yield f"{line} is shown nowhere: there is no test {PROOFS[line]}..."
