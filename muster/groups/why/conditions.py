"""The conditions of rules: questions about a case, by name, that several rows ask."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.groups.causes import NO_OFFSETS_LEFT, CauseKind
from muster.groups.why.cases import Case
from muster.groups.why.client_texts import Said, is_telling


def said(*wanted: Said) -> Callable[[Case], bool]:
    def applies(case: Case) -> bool:
        return case.said in wanted

    return applies


def came_back_after(kind: CauseKind, *wanted: Said | None) -> Callable[[Case], bool]:
    def applies(case: Case) -> bool:
        gone = case.departure
        return gone is not None and gone.cause == kind.slug and (not wanted or Case(gone).said in wanted)

    return applies


def came_back(case: Case) -> bool:
    return case.departure is not None


def is_rolling(case: Case) -> bool:
    return bool(case.rolled)


def is_rolled(case: Case) -> bool:
    """Whether this member itself came back, as others did."""
    return came_back(case) and is_rolling(case)


def was_empty(case: Case) -> bool:
    return case.event.from_state == "Empty"


def is_alone(case: Case) -> bool:
    return case.event.from_state == "Empty" and len(case.joined) < 2


def several_joined(case: Case) -> bool:
    return len(case.joined) > 1


def several_left(case: Case) -> bool:
    return case.event.removed_count > 1 or len(case.left) > 1


def several_removed(case: Case) -> bool:
    return case.event.removed_count > 1


def is_static(case: Case) -> bool:
    return case.is_static


def is_flapping(case: Case) -> bool:
    return case.is_flapping


def gave_reason(case: Case) -> bool:
    return is_telling(case.event.client_reason)


def is_of_consumer_group(case: Case) -> bool:
    return case.is_of_consumer_group


def is_no_rebalance(case: Case) -> bool:
    return case.event.from_state == case.event.to_state


def names_a_member(case: Case) -> bool:
    return case.event.member_id is not None


def names_no_member(case: Case) -> bool:
    return case.event.member_id is None


def is_settled(case: Case) -> bool:
    """Whether the group is in no rebalance after the event."""
    return case.event.to_state in ("Stable", "Empty")


def had_no_offsets(case: Case) -> bool:
    """Whether a group that the sweep removed had nothing committed by then."""
    return case.event.reason.endswith(NO_OFFSETS_LEFT)


def has_particulars(case: Case) -> bool:
    """Whether the event says more than its cause, as those of former versions may not."""
    return case.kind is not None and case.event.reason != case.kind.text
