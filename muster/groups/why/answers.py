"""The answer to why a group rebalanced: which rebalance is meant, the rule that explains it, what else is known.

Rebalances are those of `rebalance_views`, so they are counted here by the same function as everywhere. Nothing is
read or shown here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind
from coordinator.history.rebalances import ENDS_OF_A_PHASE, UNKNOWN, Rebalance
from muster.groups.descriptions import CLASSIC, GroupDescription
from muster.groups.rebalance_views import RebalanceView, rebalance_views
from muster.groups.why import hold_ups
from muster.groups.why.cases import Case, identity, is_inferred
from muster.groups.why.client_texts import meaning
from muster.groups.why.evidence import alike
from muster.groups.why.live import LivingGroup, waiting_from
from muster.groups.why.namesakes import Named, Namesakes, namesakes_of
from muster.groups.why.rules import rule_of
from muster.groups.why.waiting import Waiting, waiting_of
from muster.groups.why.words import local, name, names, ordinal, span

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
    advice: tuple[str, ...] = ()  # About members that hold it up, or did.


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: of which group, as of when (None: now), and what the time is now; ms since 1970."""

    group_id: str
    at_ms: int | None
    now_ms: int


def answer(
    question: Question,
    events: Sequence[GroupEvent],
    group: GroupDescription | None,
    *,
    is_whole: bool = True,
    living: LivingGroup | None = None,
) -> Answer:
    """The answer, by the group's events in the order in which they happened, and its description if it is there.

    Without `is_whole` older events are missing, so what is counted is the least it can be. `living` is what its
    coordinator says of it, where that is a Muster with HTTP.
    """
    views = [view for view in rebalance_views(events) if not view.first.dropped_count]
    if question.at_ms is not None:
        views = [view for view in views if _began_ms(view) <= question.at_ms]
    namesakes = _namesakes(views, group)
    position = next((at for at in reversed(range(len(views))) if views[at].is_rebalance), None)
    running: list[GroupEvent] = []
    if position is None:
        since, left_out = _explained([view.first for view in views], [], namesakes)
        said = Answer(question.group_id, question.now_ms, since=since, left_out=left_out)
    else:
        running = [] if views[position].is_over else views[position].events
        said = _of_rebalance(question, views, position, namesakes, group, is_whole=is_whole)
    waiting = waiting_of(group, running, namesakes) if question.at_ms is None else None
    if waiting is not None and living is not None:
        waiting = waiting_from(living.document, waiting, living.at_ms, namesakes)
    return replace(said, waiting=waiting, advice=(*said.advice, *hold_ups.while_it_waits(waiting)))


def _namesakes(views: Sequence[RebalanceView], group: GroupDescription | None) -> Namesakes:
    """The members that look alike, by these events and as they are now."""
    members = () if group is None else group.members
    now = (
        Named(each.member_id, each.client_id, each.client_host)
        for each in members
        if each.group_instance_id is None
    )
    return namesakes_of((event for view in views for event in view.events), now)


def _of_rebalance(
    question: Question,
    views: Sequence[RebalanceView],
    position: int,
    namesakes: Namesakes,
    group: GroupDescription | None,
    *,
    is_whole: bool,
) -> Answer:
    """What is said of the rebalance at `position` and of what came after it, but for who is waited for."""
    view = views[position]
    rebalance = view.rebalance
    assert rebalance is not None, "it is a rebalance"
    earlier = [event for each in views[:position] for event in each.events]
    case = Case(view.first, earlier, view.events[1:], namesakes)
    why = explanation(case) if view.has_begin else None
    meanwhile, left_out = _explained(list(_of_its_own(view, why)), earlier, namesakes)
    after = [each.first for each in views[position + 1 :]]
    since, more = _explained(after, [*earlier, *view.events], namesakes)
    as_of_now = group if question.at_ms is None else None
    repeated = _repetition(views[: position + 1], case, question.now_ms, is_whole=is_whole)
    return Answer(
        question.group_id,
        question.now_ms,
        rebalance,
        view.is_over,
        case.is_of_consumer_group,
        None if case.is_of_consumer_group or not view.has_begin else view.first.generation_id,
        why,
        tuple(_course(rebalance, case, as_of_now, is_over=view.is_over)),
        repeated if view.has_begin else None,
        meanwhile,
        since,
        left_out + more,
        advice=tuple(hold_ups.once_it_is_over(rebalance, case)) if view.is_over else (),
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
    events: list[GroupEvent], earlier: Sequence[GroupEvent], namesakes: Namesakes
) -> tuple[tuple[Explanation, ...], int]:
    """The first few events in words, each that says something new, and the number of the others."""
    found: list[Explanation] = []
    seen = list(earlier)
    for event in events:
        found.append(explanation(Case(event, tuple(seen), namesakes=namesakes)))
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
        last = _last(rebalance, case)
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


def _last(rebalance: Rebalance, case: Case) -> str | None:
    if rebalance.last_member_id is None:
        return None
    last = case.namesakes.last_of(rebalance)
    after = "" if rebalance.last_arrival_ms is None else f", after {span(rebalance.last_arrival_ms)}"
    if not case.is_of_consumer_group:
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


def _repetition(views: Sequence[RebalanceView], case: Case, now_ms: int, *, is_whole: bool) -> str | None:
    """How often the same client has caused the same today, if more than once.

    Where several look like it, that is known of one member alone, which has one id as long as it is there.
    """
    last = views[-1].first
    mine, day = identity(last), local(last.wall_ms).date()
    same = [
        view.first
        for view in views
        if view.is_rebalance
        and view.has_begin
        and view.first.cause == last.cause
        and meaning(view.first.client_reason) == meaning(last.client_reason)
        and identity(view.first) == mine
        and local(view.first.wall_ms).date() == day
    ]
    if case.alike_count > 1 or any(case.namesakes.has(each.member_id) for each in same):
        same = [each for each in same if each.member_id == last.member_id]
    if len(same) < 2:
        return None
    least = "" if is_whole else "at least "
    days = "today" if day == local(now_ms).date() else "that day"
    return f"This is {least}the {ordinal(len(same))} time {days}" + (f" for {case.who}." if mine else ".")
