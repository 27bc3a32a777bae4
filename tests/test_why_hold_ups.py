"""What `muster groups why` says of a member that holds a rebalance up, and the bounds that its words go by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coordinator.effects import GroupEvent
from muster.groups.descriptions import CLASSIC, GroupDescription, MemberDescription
from muster.groups.why.answers import Question, answer, explanation
from muster.groups.why.cases import Case
from muster.groups.why.live import LivingGroup
from muster.groups.why.tables import lines
from tests.why_events import (  # noqa: F401
    CLOSED,
    COMPLETING,
    MINUTE_MS,
    NOON_MS,
    POLL_TIMEOUT,
    PREPARING,
    STABLE,
    K,
    before,
    event,
    gone,
    joined,
    nobody,
    utc,
)

pytestmark = pytest.mark.usefixtures("utc")

SLOW = "app-2 at 10.0.0.9"
LATER = (
    f"  Advice: see how long {SLOW} takes between two polls, for a member joins again as it polls, and the others "
    "waited {} for it: fewer records per poll there (max.poll.records) make that shorter."
)
PLANNED = "  Advice: none, if that was intended."


def over(
    begin: GroupEvent, join_ms: int, last_arrival_ms: int | None, last: str = "app-2"
) -> list[GroupEvent]:
    """A rebalance whose last member joined so long after its begin."""
    who: dict[str, Any] = {
        "last_member_id": f"{last}-91d2",
        "last_client_id": last,
        "last_client_host": "/10.0.0.9",
        "last_arrival_ms": last_arrival_ms,
    }
    ends = nobody(K.ALL_MEMBERS_JOINED, states=(PREPARING, COMPLETING), wall_ms=NOON_MS + join_ms, **who)
    stored = nobody(K.ASSIGNMENT_STORED, states=(COMPLETING, STABLE), wall_ms=NOON_MS + join_ms + 41)
    return [
        begin,
        replace(ends, generation_id=8, phase_ms={PREPARING: join_ms}),
        replace(stored, generation_id=8, phase_ms={COMPLETING: 41}),
    ]


def advice(events: list[GroupEvent]) -> list[str]:
    said = lines(answer(Question("billing", None, NOON_MS + MINUTE_MS), events, None))
    return [line for line in said if "Advice" in line]


@pytest.mark.parametrize(
    ("join_ms", "last_arrival_ms", "last", "found"),
    [
        pytest.param(6_200, 6_200, "app-2", [LATER.format("6.2 s")], id="late"),
        pytest.param(5_001, 5_001, "app-2", [LATER.format("5.0 s")], id="just late"),
        pytest.param(5_000, 5_000, "app-2", [PLANNED], id="by its next heartbeat"),
        pytest.param(20_000, 10_000, "app-2", [LATER.format("10.0 s")], id="half of the phase"),
        pytest.param(20_002, 10_000, "app-2", [PLANNED], id="something else took longer"),
        pytest.param(6_200, 6_200, "app-3", [PLANNED], id="the new member itself"),
        pytest.param(6_200, None, "app-2", [PLANNED], id="not known"),
    ],
)
def test_a_member_that_the_others_waited_for_is_to_poll_more_often(
    join_ms: int, last_arrival_ms: int | None, last: str, found: list[str]
) -> None:
    assert advice(over(joined(), join_ms, last_arrival_ms, last)) == found


def test_other_advice_stands_beside_it() -> None:
    left = gone(K.MEMBER_LEFT, said=POLL_TIMEOUT)
    first, second = advice(over(left, 6_200, 6_200))
    assert first == LATER.format("6.2 s")
    assert second.startswith(
        "  Advice: fewer records per poll on app-3 at 10.0.0.9 (max.poll.records), or a longer"
    )


MEMBERS = tuple(MemberDescription(f"{each}-91d2", None, each, "/10.0.0.9", ()) for each in ("app-2", "app-3"))
GROUP = GroupDescription("billing", CLASSIC, PREPARING, "consumer", "", None, None, 1, "", MEMBERS, ())


def living(**says: object) -> LivingGroup:
    """The group while it waits for app-2."""
    members = [
        {"member": f"{each}-91d2", "client": each, "host": "10.0.0.9", "instance": None}
        for each in ("app-2", "app-3")
    ]
    missing = {**members[0], "heard_ms": 900, "ends_in_ms": None, **says}
    waiting = {"joined": ["app-3-91d2"], "missing": [missing], "ends_in_ms": 298_000}
    described = [{**each, "rebalance_timeout_ms": 300_000} for each in members]
    document = {"state": PREPARING, "since_ms": 2_000, "members": described, "waiting": waiting}
    return LivingGroup(document, NOON_MS + 2_000)


def test_a_member_that_heartbeats_and_does_not_poll_is_advised_while_it_is_waited_for() -> None:
    now = living(**{"is": "heartbeats", "says": "heartbeats, but does not poll"})
    found = answer(Question("billing", None, NOON_MS + 2_000), [joined()], GROUP, living=now)
    assert list(lines(found))[2:] == [
        "  Joined: app-3 at 10.0.0.9.",
        f"  Waited for: {SLOW}, which heartbeats, but does not poll, last heard 900 ms ago.",
        "  Its max.poll.interval.ms is 300000 (what it sends as its rebalance timeout).",
        f"  Advice: fewer records per poll on {SLOW} (max.poll.records), or a longer max.poll.interval.ms there; "
        "a shorter one lets the others go on sooner.",
    ]


@pytest.mark.parametrize("says", ["not_heard", "silent", "syncs_not"])
def test_of_others_that_are_waited_for_nothing_is_said_of_their_poll_loop(says: str) -> None:
    now = living(**{"is": says, "says": "is late"})
    found = "\n".join(
        lines(answer(Question("billing", None, NOON_MS + 2_000), [joined()], GROUP, living=now))
    )
    assert "poll" not in found
    assert found.endswith(PLANNED)


# The bounds of what evidence says.


@pytest.mark.parametrize(
    ("left_ms", "begin"),
    [
        pytest.param(9_000, "Its session was about to end as well", id="a fifth"),
        pytest.param(9_001, "Its session was fine", id="more"),
        pytest.param(22_500, "Its session was fine", id="half"),
        pytest.param(4_500, "Its session was about to end as well", id="a tenth"),
    ],
)
def test_a_session_with_more_than_a_fifth_of_it_left_was_fine(left_ms: int, begin: str) -> None:
    left = gone(K.MEMBER_LEFT, said=POLL_TIMEOUT, session_timeout_ms=45_000, session_left_ms=left_ms)
    assert begin in " ".join(explanation(Case(left)).evidence)


@pytest.mark.parametrize(("minutes", "is_rolling"), [(10, True), (10.01, False), (30, False)])
def test_a_rolling_restart_takes_the_next_member_within_ten_minutes(minutes: float, is_rolling: bool) -> None:
    earlier = [
        before(minutes, event(K.MEMBER_LEFT, "app-1", CLOSED)),
        before(9, joined("app-1")),
        before(6, event(K.MEMBER_LEFT, "app-2", CLOSED)),
    ]
    found = explanation(Case(joined("app-2"), earlier))
    assert (found.rule == "joined_rolling_restart") is is_rolling
