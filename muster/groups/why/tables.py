"""Formats an answer: lines for people, plain values for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from muster.groups.why.answers import Answer, Explanation
from muster.groups.why.membership_rules import AS_PLANNED
from muster.groups.why.waiting import sentences
from muster.groups.why.words import clock, name

SCHEMA: Final = 1
_INFERRED: Final = "Inferred: the cluster's records hold no causes, so this is what fits them."


def lines(answer: Answer) -> Iterator[str]:
    """The answer as a headline, and lines under it that are set in by two spaces."""
    yield headline(answer)
    for line in _body(answer):
        yield f"  {line}"


def headline(answer: Answer) -> str:
    """What happened when, and why, in one sentence."""
    group, rebalance = name(answer.group_id), answer.rebalance
    if rebalance is None and answer.waiting is not None:
        return f"{group} is rebalancing; why is not known, for there is no history of it."
    if rebalance is None:
        return f"{group} has not rebalanced, as far as its history goes."
    at = clock(rebalance.started_at, answer.now_ms)
    verb = f"rebalanced at {at}" if answer.is_over else f"has been rebalancing since {at}"
    if answer.why is None:
        cause = f" It began with: {name(rebalance.reason)}." if rebalance.reason else ""
        return f"{group} {verb} {_generations(answer)}; its begin is not in the history.{cause}"
    return f"{group} {verb} {_generations(answer)} because {_clause(answer.why)}."


def answer_json(answer: Answer) -> dict[str, Any]:
    """All of the answer as plain values, with the sentences as they are shown."""
    value = asdict(answer)
    rebalance = answer.rebalance
    value["rebalance"] = None if rebalance is None else rebalance._asdict()
    return {"schema": SCHEMA, "text": list(lines(answer)), **value}


def _body(answer: Answer) -> Iterator[str]:
    why = answer.why
    if why is not None:
        yield from why.evidence
        if why.is_inferred:
            yield _INFERRED
    yield from answer.course
    if answer.repetition:
        yield answer.repetition
    if answer.waiting is not None:
        if answer.rebalance is not None and answer.is_over:
            yield "Now it rebalances again; the events of that are not in its history yet."
        yield from sentences(answer.waiting, answer.now_ms)
    for each in answer.meanwhile:
        yield from _beside("Within it, at", each, answer)
    for each in answer.since:
        yield from _beside("No rebalance, but at", each, answer)
    if answer.left_out:
        yield f"{answer.left_out} more events: see `muster groups history`."
    advice = [*answer.advice]
    if why is not None and why.advice and not (advice and why.advice == AS_PLANNED):
        advice.append(why.advice)
    for clause in advice:
        yield f"Advice: {clause}."


def _beside(begin: str, each: Explanation, answer: Answer) -> Iterator[str]:
    """One event beside the one that is asked about, with its evidence if that is more than its name."""
    yield f"{begin} {clock(each.wall_ms, answer.now_ms)}: {_clause(each)}."
    for line in each.evidence:
        yield f"  {line}"
    if each.is_inferred:
        yield f"  {_INFERRED}"
    if each.advice and not each.advice.startswith("none"):
        yield f"  Advice: {each.advice}."


def _clause(why: Explanation) -> str:
    return why.because + (" (a guess)" if why.is_guess else "")


def _generations(answer: Answer) -> str:
    rebalance = answer.rebalance
    assert rebalance is not None, "there is a rebalance"
    if answer.is_of_consumer_group:
        return f"(epoch {rebalance.generation_id})"
    if answer.from_generation is None:
        return f"(to generation {rebalance.generation_id})"
    if answer.from_generation == rebalance.generation_id:
        return f"(generation {rebalance.generation_id})"
    return f"(generation {answer.from_generation} to {rebalance.generation_id})"
