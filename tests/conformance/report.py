"""What a run prints: each difference field by field with both replies, then the counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tests.conformance.comparison import Difference, Plain
from tests.conformance.coverage import Coverage, ToCover
from tests.conformance.suite import REPLAYS_MAX, Outcome
from tests.conformance.targets import MUSTER


def lines_of(outcomes: list[Outcome], *, verbose: bool, to_cover: ToCover | None = None) -> Iterator[str]:
    """The report. What is the same in several versions is shown for one; `verbose` shows it for each."""
    alike: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if not outcome.is_expected:
            alike.setdefault(outcome.case.name if verbose else _shape(outcome), []).append(outcome)
    for same in alike.values():
        yield from _one(same[0])
        if len(same) > 1:
            yield f"  ... and alike: {', '.join(outcome.case.variant for outcome in same[1:])}"
    if verbose:
        for outcome in outcomes:
            for row, difference in outcome.wanted:
                yield f"wanted: {outcome.case.name}: {row.reason}"
                yield from _difference(difference)
    yield from _counts(outcomes, to_cover)


def _shape(outcome: Outcome) -> str:
    """What an outcome has in common with the same scenario's in other versions."""
    differing = [(difference.what, difference.fields) for difference in outcome.unexpected]
    shape = repr((sorted(outcome.failures), outcome.broken_promises, differing))
    return outcome.case.scenario.name + re.sub(r"\bv\d+", "", shape.replace(outcome.case.name, ""))


def _one(outcome: Outcome) -> Iterator[str]:
    yield f"{outcome.case.name} ({', '.join(outcome.case.lines)})"
    for kind, failure in outcome.failures.items():
        yield f"  {kind}: broke off: {failure}"
    for kind, promise in outcome.broken_promises:
        yield f"  {kind}: {promise}"
    kinds = [kind for kind in outcome.runs if kind != MUSTER]
    for difference in outcome.unexpected:
        yield from _difference(difference, *kinds[:1])


def _difference(difference: Difference, kind: str = "kafka") -> Iterator[str]:
    yield f"  {difference.what}"
    for path, other, muster in difference.fields:
        yield f"    {path}: {kind} {shown(other)}, muster {shown(muster)}"
    yield f"      {kind}: {shown(difference.kafka)}"
    yield f"      muster: {shown(difference.muster)}"


def shown(value: Plain) -> str:
    """A plain reply on one line, as a call: Name(field=value, ...)."""
    if isinstance(value, dict):
        inside = ", ".join(f"{name}={shown(item)}" for name, item in value.items() if name)
        return f"{value['']}({inside})"
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    text = repr(value)
    return text if len(text) < 200 else f"{text[:180]}... ({len(text)} characters)"


def _replays(outcomes: list[Outcome]) -> Iterator[str]:
    """How many cases were played again, and what had differed at first: each has a cause to be found."""
    again = [outcome for outcome in outcomes if outcome.at_first is not None]
    yield f"replays: {len(again)}, of at most {REPLAYS_MAX} scenarios in a run"
    for outcome in again:
        assert outcome.at_first is not None
        yield "played again, alone, because beside others there was:"
        yield from _one(outcome.at_first)


def _how_compared(outcomes: list[Outcome]) -> Iterator[str]:
    as_bytes = sum(outcome.tally.as_bytes for outcome in outcomes)
    decoded = sum(outcome.tally.decoded for outcome in outcomes)
    yield (
        f"answers compared: {as_bytes + decoded}, of them {as_bytes} equal byte for byte but for the "
        f"correlation id, {decoded} strictly decoded with ids, clocks and ports renamed"
    )
    surplus = {each for outcome in outcomes for run in outcome.runs.values() for each in run.surplus}
    yield f"bytes that no message accounts for, on either side: {', '.join(sorted(surplus)) or 'none'}"


def _counts(outcomes: list[Outcome], to_cover: ToCover | None) -> Iterator[str]:
    equal = [outcome for outcome in outcomes if outcome.is_equal]
    scenarios = {outcome.case.scenario.name for outcome in outcomes}
    unequal = {outcome.case.scenario.name for outcome in outcomes if not outcome.is_equal}
    yield (
        f"scenarios: {len(scenarios)}, of them equal in all versions: {len(scenarios - unequal)}; "
        f"scenarios x versions: {len(outcomes)}, of them equal: {len(equal)}"
    )
    if left_out := [outcome for outcome in outcomes if outcome.is_left_out]:
        keys = sorted({key for outcome in left_out for key, _ in outcome.unserved})
        names = sorted({outcome.case.scenario.name for outcome in left_out})
        yield (
            f"left out, as the earlier commit does not serve API keys {', '.join(map(str, keys)) or '(none)'}, or "
            f"was corrected: {len(left_out)} scenarios x versions: {', '.join(names)}"
        )
    yield from Coverage(outcomes, to_cover).counts()
    yield from _replays(outcomes)
    yield from _how_compared(outcomes)
    reasons = Counter(row.reason for outcome in outcomes for row, _ in outcome.wanted)
    for reason, count in reasons.items():
        yield f"wanted difference, {count} times: {reason}"
