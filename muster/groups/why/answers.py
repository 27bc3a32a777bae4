"""The answer to why a group rebalanced: which rebalance is meant, the rule that explains it, what else is known.

Rebalances are those of `rebalance_views`, so they are counted here by the same function as everywhere. Nothing is
read or shown here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind
from coordinator.history.rebalances import ENDS_OF_A_PHASE, UNKNOWN, Rebalance
from muster.groups.descriptions import CLASSIC, GroupDescription
from muster.groups.rebalance_views import RebalanceView, rebalance_views
from muster.groups.why.cases import Case, identity, is_inferred, who
from muster.groups.why.client_texts import meaning
from muster.groups.why.evidence import alike
from muster.groups.why.rules import rule_of
from muster.groups.why.waiting import Waiting, waiting_of
from muster.groups.why.words import local, member_name, name, names, ordinal, span

OTHERS_MAX = 5
"""The most events within a rebalance, and the most after it, that are explained; the others are counted."""

EAGER: Final = frozenset(("range", "roundrobin", "sticky"))
"""The assignors of Java and librdkafka that are eager; of one that is not theirs it is not known."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One event in words. `because` is a clause; evidence are sentences, advice a clause or empty."""

    wall_ms: int
    cause: str
    rule: str | None  # None for a cause that this version does not know.
    because: str
    evidence: tuple[str, ...] = ()
    advice: str = ""
    is_guess: bool = False
    is_inferred: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """All that is said of one group at one time. `rebalance` is None where the history has none up to then."""

    group_id: str
    now_ms: int
    rebalance: Rebalance | None = None
    is_over: bool = True
    is_of_consumer_group: bool = False
    from_generation: int | None = None
    why: Explanation | None = None  # None where the rebalance's begin is missing.
    course: tuple[str, ...] = ()
    repetition: str | None = None
    meanwhile: tuple[Explanation, ...] = ()
    since: tuple[Explanation, ...] = ()
    left_out: int = 0  # Events of `meanwhile` and `since` that are not among them.
    waiting: Waiting | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: of which group, as of when (None: now), and what the time is now; ms since 1970."""

    group_id: str
    at_ms: int | None
    now_ms: int


def answer(
    question: Question, events: Sequence[GroupEvent], group: GroupDescription | None, *, is_whole: bool = True
) -> Answer:
    """The answer, by the group's events in the order in which they happened, and its description if it is there.

    Without `is_whole` older events are missing, so what is counted is the least it can be.
    """
    views = [view for view in rebalance_views(events) if not view.first.dropped_count]
    if question.at_ms is not None:
        views = [view for view in views if _began_ms(view) <= question.at_ms]
    position = next((at for at in reversed(range(len(views))) if views[at].is_rebalance), None)
    is_now = question.at_ms is None
    after = views if position is None else views[position + 1 :]
    earlier = [event for view in views[: position or 0] for event in view.events]
    if position is None:
        since, left_out = _explained([view.first for view in after], [])
        live = waiting_of(group, []) if is_now else None
        return Answer(question.group_id, question.now_ms, since=since, left_out=left_out, waiting=live)
    view = views[position]
    rebalance = view.rebalance
    assert rebalance is not None, "it is a rebalance"
    case = Case(view.first, earlier, view.events[1:])
    why = explanation(case) if view.has_begin else None
    meanwhile, left_out = _explained(list(_of_its_own(view, why)), earlier)
    since, more = _explained([each.first for each in after], [*earlier, *view.events])
    is_live = is_now and not view.is_over
    return Answer(
        question.group_id,
        question.now_ms,
        rebalance,
        view.is_over,
        case.is_of_consumer_group,
        None if case.is_of_consumer_group or not view.has_begin else view.first.generation_id,
        why,
        tuple(_course(rebalance, case, group if is_now else None, is_over=view.is_over)),
        _repetition(views[: position + 1], question.now_ms, is_whole=is_whole) if view.has_begin else None,
        meanwhile,
        since,
        left_out + more,
        waiting_of(group, view.events if is_live else []) if is_now else None,
    )


def explanation(case: Case) -> Explanation:
    """The event of a case in words, by the rule that fits it."""
    event, rule = case.event, rule_of(case)
    if rule is None:
        clause = f"of a cause that this version does not know: {name(event.reason or event.cause)}"
        return Explanation(event.wall_ms, event.cause, None, clause, is_inferred=is_inferred(event))
    evidence = (*rule.evidence, alike) if rule.same_client else rule.evidence
    return Explanation(
        event.wall_ms,
        event.cause,
        rule.name,
        rule.because.format(who=case.who),
        tuple(line for each in evidence if (line := each(case)) is not None),
        rule.advice.format(who=case.who),
        rule.is_guess or (rule.same_client and case.alike_count > 1),
        is_inferred(event),
    )


def _explained(
    events: list[GroupEvent], earlier: Sequence[GroupEvent]
) -> tuple[tuple[Explanation, ...], int]:
    """The first few events in words, each that says something new, and the number of the others."""
    found: list[Explanation] = []
    seen = list(earlier)
    for event in events:
        found.append(explanation(Case(event, tuple(seen))))
        seen.append(event)
    return tuple(found[:OTHERS_MAX]), max(len(found) - OTHERS_MAX, 0)


def _of_its_own(view: RebalanceView, why: Explanation | None) -> Iterator[GroupEvent]:
    """The events within a rebalance that are to be explained beside the one that began it."""
    are_joins_named = len(Case(view.first, (), view.events[1:]).joined) > 1 and _names_joins(why)
    for event in view.events[1:] if view.has_begin else view.events:
        is_named = are_joins_named and event.cause == CauseKind.MEMBER_JOINED.slug
        if event.cause not in ENDS_OF_A_PHASE and not is_named:
            yield event


def _names_joins(why: Explanation | None) -> bool:
    return why is not None and why.rule in ("joined_started", "joined_scaled_out")


def _began_ms(view: RebalanceView) -> int:
    return view.first.wall_ms if view.rebalance is None else view.rebalance.started_at


def _course(
    rebalance: Rebalance, case: Case, group: GroupDescription | None, *, is_over: bool
) -> Iterator[str]:
    """How long it took, who came last, and what members kept meanwhile."""
    if is_over:
        last = _last(rebalance, is_of_consumer_group=case.is_of_consumer_group)
        yield _spent(rebalance, case) + (f"; {last}" if last else "") + "."
    if rebalance.attempts > 1:
        yield f"It began {rebalance.attempts} times, since the group changed again meanwhile."
    if rebalance.outcome == "Dead":
        yield "It has no end of its own: the coordinator restarted, or the group is gone."
    elif rebalance.outcome == UNKNOWN:
        yield "No event shows its end."
    elif rebalance.outcome == "Empty":
        yield "The group had no members afterwards."
    elif is_over:
        yield from _kept(group, case)


def _spent(rebalance: Rebalance, case: Case) -> str:
    """How long its phases took, as far as that is known."""
    words = ("assigning", "reconciling") if case.is_of_consumer_group else ("joining", "assigning")
    phases = list(zip((rebalance.join_ms, rebalance.sync_ms), words, strict=True))
    known = ", ".join(f"{span(ms)} {word}" for ms, word in phases if ms is not None)
    unknown = " and ".join(word for ms, word in phases if ms is None)
    if not known:
        return f"How long {unknown} took is not known"
    return known + (f"; how long {unknown} took is not known" if unknown else "")


def _last(rebalance: Rebalance, *, is_of_consumer_group: bool) -> str | None:
    if rebalance.last_member_id is None:
        return None
    client = (rebalance.last_client_id, rebalance.last_client_host)
    last = member_name(rebalance.last_group_instance_id, *client, rebalance.last_member_id)
    after = "" if rebalance.last_arrival_ms is None else f", after {span(rebalance.last_arrival_ms)}"
    if not is_of_consumer_group:
        return f"{last} came last{after}"
    more = [f"{each}" for each in map(name, rebalance.last_given_up)]
    hidden = rebalance.last_given_up_count - len(more)
    gave = f": it gave up {names(more)}" + (f" and {hidden} more" if hidden > 0 else "") if more else ""
    return f"{last} was waited for{after}{gave}"


def _kept(group: GroupDescription | None, case: Case) -> Iterator[str]:
    """What members went on reading, as far as it follows from the group's protocol and its assignor of now."""
    if case.event.from_state == "Empty":
        return
    if case.is_of_consumer_group:
        yield "Members kept what stayed theirs."
        return
    if group is None or group.group_type != CLASSIC:
        return
    if "cooperative" in group.protocol:
        yield f"Its assignor, {name(group.protocol)}, is cooperative: members kept what stayed theirs."
    elif group.protocol in EAGER:
        give_up = "members give up all partitions as they join again, and read on until then"
        yield f"Its assignor, {group.protocol}, is eager: {give_up}."


def _repetition(views: Sequence[RebalanceView], now_ms: int, *, is_whole: bool) -> str | None:
    """How often the same client has caused the same today, if more than once."""
    last = views[-1].first
    mine, day = identity(last), local(last.wall_ms).date()
    same = [
        view
        for view in views
        if view.is_rebalance
        and view.has_begin
        and view.first.cause == last.cause
        and meaning(view.first.client_reason) == meaning(last.client_reason)
        and identity(view.first) == mine
        and local(view.first.wall_ms).date() == day
    ]
    if len(same) < 2:
        return None
    least = "" if is_whole else "at least "
    days = "today" if day == local(now_ms).date() else "that day"
    return f"This is {least}the {ordinal(len(same))} time {days}" + (f" for {who(last)}." if mine else ".")
