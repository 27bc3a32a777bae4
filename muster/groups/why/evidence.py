"""The pieces of evidence that rules ask for: each a function of a case, which returns a sentence, or None.

A sentence says what the events show, and no more; what they do not show is said to be not known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from coordinator.groups.causes import CauseKind
from coordinator.groups.waited_members import is_silent
from muster.groups.why.cases import Case
from muster.groups.why.client_texts import Said, is_telling
from muster.groups.why.words import clock, name, names, poll_interval_is, quoted, sentence, span

Evidence: TypeAlias = Callable[[Case], str | None]

_OK_SHARE = 0.2
"""A session with more than this share of it left, when its member went, was not close to its end."""


def said(case: Case) -> str | None:
    """What the member itself gave as its reason (KIP-800)."""
    reason = case.event.client_reason
    return f"It said so itself: {quoted(reason)}" if is_telling(reason) and reason else None


def said_otherwise(case: Case) -> str | None:
    """What the client said where that is not what the rule goes by."""
    reason = case.event.client_reason
    return f"The reason given: {quoted(reason)}" if is_telling(reason) and reason else None


def admins_reason(case: Case) -> str | None:
    """What the administrator gave as the reason: the admin client puts it behind a text of its own."""
    reason = (case.event.client_reason or "").removeprefix(Said.REMOVED_BY_ADMIN.value).removeprefix(": ")
    return f"The administrator gave as the reason: {quoted(reason)}" if reason else None


def said_nothing(case: Case) -> str | None:
    """That a member that left gave no reason, and what it therefore may have been."""
    if case.is_of_consumer_group:
        why = "the consumer protocol has no field for one"
    else:
        why = "librdkafka and Python's clients send none"
    return (
        f"It gave no reason ({why}), so it is not known whether it was closed, unsubscribed, "
        "or its poll loop was too slow: all three look the same here."
    )


def said_nothing_of_it(case: Case) -> str | None:
    """That the member said nothing to the coordinator, or what else it said."""
    if case.event.client_reason:
        return said_otherwise(case)
    why = (
        "the consumer protocol has no field for one" if case.is_of_consumer_group else "its client sends none"
    )
    return f"It gave no reason ({why}); it may have polled since it reported, and have been closed."


def session(case: Case) -> str | None:
    """How much of the member's session was left, and what follows for session.timeout.ms."""
    total_ms, left_ms = case.event.session_timeout_ms, case.event.session_left_ms
    if not total_ms or left_ms is None or not left_ms:
        return None
    share = left_ms / total_ms
    heard = f"it was last heard {span(total_ms - left_ms)} before, with {share:.0%} of its session left"
    if share > _OK_SHARE:
        return f"Its session was fine: {heard}. So session.timeout.ms is not the thing to raise."
    return f"Its session was about to end as well: {heard}."


def heartbeats(case: Case) -> str | None:
    """Whether the member went on with heartbeats although it did not do what it was waited for."""
    total_ms, left_ms = case.event.session_timeout_ms, case.event.session_left_ms
    if not total_ms or left_ms is None:
        return None
    silent_ms = total_ms - left_ms
    if not is_silent(silent_ms, total_ms):
        return f"Its heartbeats went on, the last {span(silent_ms)} before: it was alive, but did not do its part."
    return f"It was last heard {span(silent_ms)} before, within its session of {span(total_ms)}."


def session_timeout(case: Case) -> str | None:
    """The session timeout that was over."""
    total_ms = case.event.session_timeout_ms
    setting = "its group's session timeout" if _has_groups_session(case) else "its session.timeout.ms"
    return None if total_ms is None else f"It sent nothing for {span(total_ms)}, {setting} ({total_ms})."


def poll_interval(case: Case) -> str | None:
    """The member's max.poll.interval.ms, which clients send as their rebalance timeout."""
    timeout_ms = case.event.rebalance_timeout_ms
    return None if timeout_ms is None else poll_interval_is(timeout_ms)


def session_setting(case: Case) -> str | None:
    """The member's session.timeout.ms, where nothing says how much of its session was left."""
    total_ms = case.event.session_timeout_ms
    return None if total_ms is None else f"Its session.timeout.ms is {total_ms}."


def no_farewell(case: Case) -> str | None:
    """What tells a crash from a slow poll loop."""
    if case.is_static and case.is_of_consumer_group:
        return "It had not said that it leaves for now." if case.departure is None else None
    if case.is_static:
        return (
            "It sent no LeaveGroup, as static members do not: it is stopped or cut off, or (Java) its poll loop "
            "exceeds max.poll.interval.ms, for it then stops its heartbeats and does not leave."
        )
    return (
        "It sent no LeaveGroup. A client whose poll loop is too slow goes on with heartbeats and then leaves, "
        "so this was its process, its machine or its network."
    )


def away(case: Case) -> str:
    """Why a static member of the consumer protocol may leave for now."""
    return (
        "Whether it restarts or its poll loop was too slow is not known: Java's client leaves alike for both."
    )


def together(case: Case) -> str | None:
    """The members that expired in the same rebalance."""
    others = [case.name_of(event) for event in case.expired[1:]]
    if not others:
        return None
    return f"{names(others)} expired in the same rebalance: what they share may be the reason (a guess)."


def departure(case: Case) -> str | None:
    """How the same client went before it came back."""
    gone = case.departure
    if gone is None:
        return None
    after = span(max(case.event.wall_ms - gone.wall_ms, 0))
    return f"It had gone at {clock(gone.wall_ms, case.event.wall_ms)}, {after} before: {_ended(gone.reason)}"


def removed(case: Case) -> str | None:
    """The ids of the members that went, where there are several."""
    event = case.event
    if event.removed_count < 2:
        return None
    shown = names([name(each) for each in event.removed_member_ids])
    more = event.removed_count - len(event.removed_member_ids)
    return f"Members that are gone with it: {shown}" + (f", and {more} more." if more else ".")


def rolled(case: Case) -> str | None:
    """The members that went and came back one after the other."""
    return f"Went and came back within ten minutes: {names(case.rolled)}."


def comings_and_goings(case: Case) -> str | None:
    """How often a flapping client came within the last hour, and how it went before."""
    return f"It has joined {case.arrival_count} times within the hour."


def alike(case: Case) -> str | None:
    """That what is taken for one client may be several."""
    count = case.alike_count
    if count < 2:
        return None
    return f"{count} members with this client id and host were there at once: they may be different clients."


def joined(case: Case) -> str | None:
    """The members that joined within the rebalance, where there are several."""
    every = [case.name_of(event) for event in case.joined]
    return f"Joined within this rebalance: {names(every)}." if len(every) > 1 else None


def particulars(case: Case) -> str | None:
    """What the event itself says beside its cause."""
    kind = case.kind
    rest = case.event.reason
    if kind is not None:
        rest = rest.removeprefix(kind.text).removeprefix(": ")
    if case.event.client_reason:
        rest = rest.removesuffix(case.event.client_reason).removesuffix(": ")
    return f"The event says: {_ended(rest)}" if rest else None


def _ended(text: str) -> str:
    return sentence(name(text))


def _has_groups_session(case: Case) -> bool:
    return case.is_of_consumer_group and case.kind is CauseKind.SESSION_EXPIRED
