"""Members with one client id on one host: `muster groups why` tells them apart, and does not take them for one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from coordinator.effects import GroupEvent
from muster.groups.descriptions import CLASSIC, CONSUMER, GroupDescription, MemberDescription
from muster.groups.why.answers import Answer, Question, answer
from muster.groups.why.live import LivingGroup
from muster.groups.why.namesakes import Named, namesakes_of
from muster.groups.why.tables import lines
from protocol.topic_partition import TopicPartition
from tests.why_events import (  # noqa: F401
    COMPLETING,
    MINUTE_MS,
    NOON_MS,
    PREPARING,
    STABLE,
    K,
    before,
    event,
    joined,
    nobody,
    static,
    utc,
)

pytestmark = pytest.mark.usefixtures("utc")

FIRST, SECOND, THIRD = "6f0c41d2-aaaa", "6f0c41d2-bbbb", "91d2aaaa-0000"
HOST = "/10.0.0.9"


def worker(member_id: str, kind: Any = K.MEMBER_JOINED, minutes: float = 0, **more: Any) -> GroupEvent:
    return before(minutes, event(kind, "worker", member_id=member_id, **more))


def rebalance(begin: GroupEvent, last_member_id: str) -> list[GroupEvent]:
    """A rebalance in which one of the workers came last."""
    last = {"last_member_id": last_member_id, "last_client_id": "worker", "last_client_host": HOST}
    at_ms, generation = begin.wall_ms, begin.generation_id + 1
    ends = nobody(K.ALL_MEMBERS_JOINED, states=(PREPARING, COMPLETING), wall_ms=at_ms + 1_000, **last)
    over = nobody(K.ASSIGNMENT_STORED, states=(COMPLETING, STABLE), wall_ms=at_ms + 1_041)
    return [
        begin,
        replace(ends, generation_id=generation, phase_ms={PREPARING: 1_000}, last_arrival_ms=1_000),
        replace(over, generation_id=generation, phase_ms={COMPLETING: 41}),
    ]


def history(*begins: GroupEvent, last_member_id: str = FIRST) -> list[GroupEvent]:
    """A rebalance for each of these events, one generation after the other."""
    numbered = [replace(each, generation_id=number) for number, each in enumerate(begins)]
    return [each for begin in numbered for each in rebalance(begin, last_member_id)]


def asked(
    events: Sequence[GroupEvent], group: GroupDescription | None = None, living: LivingGroup | None = None
) -> Answer:
    return answer(Question("billing", None, NOON_MS + MINUTE_MS), events, group, living=living)


THREE = history(worker(FIRST, minutes=3), worker(SECOND, minutes=2), worker(THIRD))
"""Three processes, each of which joined once."""


def test_those_who_were_there_at_once_are_told_apart_wherever_they_are_named() -> None:
    said = list(lines(asked(THREE)))
    assert said[0].endswith(" because worker at 10.0.0.9 (member 91d2aaaa…) joined.")
    assert "worker at 10.0.0.9 (member 6f0c41d2-a…) came last" in said[1]


def test_several_that_join_and_expire_at_once_are_told_apart() -> None:
    begin, *rest = rebalance(worker(FIRST), FIRST)
    within = replace(worker(SECOND), from_state=PREPARING)
    assert "  Joined within this rebalance: worker at 10.0.0.9 (member 6f0c41d2-a…) and " in "\n".join(
        lines(asked([begin, within, *rest]))
    )
    lost = [worker(FIRST, minutes=9), worker(SECOND, minutes=8), worker(FIRST, K.SESSION_EXPIRED)]
    *earlier, begin, ends, over = history(*lost)
    also = replace(worker(SECOND, K.SESSION_EXPIRED), from_state=PREPARING)
    said = "\n".join(lines(asked([*earlier, begin, also, ends, over])))
    assert "the session of worker at 10.0.0.9 (member 6f0c41d2-a…) expired." in said
    assert "  worker at 10.0.0.9 (member 6f0c41d2-b…) expired in the same rebalance" in said


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(
            [worker(FIRST, minutes=9), worker(FIRST, K.MEMBER_LEFT, 8), worker(SECOND)], id="one came back"
        ),
        pytest.param(
            [
                worker(FIRST, minutes=9),
                worker("x", K.SESSION_EXPIRED, 8, removed_member_ids=("x", FIRST)),
                worker(SECOND),
            ],
            id="it was removed with another",
        ),
        pytest.param(
            [worker(FIRST, minutes=9), nobody(K.GROUP_EMPTIED, states=(PREPARING, "Empty")), worker(SECOND)],
            id="the group was empty",
        ),
        pytest.param(
            [joined("worker", client_host="/10.0.0.1", member_id=FIRST), worker(SECOND)], id="another host"
        ),
        pytest.param(
            [static(K.MEMBER_JOINED), static(K.STATIC_MEMBER_REPLACED, member_id="new")], id="static"
        ),
    ],
)
def test_who_has_no_namesake_is_named_as_ever(events: list[GroupEvent]) -> None:
    """Only the one that `x` was may need its id, which went with it."""
    found = namesakes_of(events)
    assert [found.has(each) for each in (SECOND, "new", "i-3-91d2")] == [False, False, False]


@pytest.mark.parametrize(
    ("ids", "shown"),
    [
        pytest.param(("w-1", "w-2"), ("1", "2"), id="short ones are whole, without the client id"),
        pytest.param(("w-123456789abc", "w-2"), ("123456789abc", "2"), id="up to twelve characters"),
        pytest.param(("w-123456789abcd", "w-2"), ("12345678…", "2"), id="a longer one is cut"),
        pytest.param(
            ("w-1234567890abcd", "w-1234567890xbcd"), ("1234567890a…", "1234567890x…"), id="as far as needed"
        ),
        pytest.param(("w-abc", "abc"), ("w-abc", "abc"), id="one is the other with the client id"),
        pytest.param(("abc", "abcd"), ("abc", "abcd"), id="one begins as the other"),
        pytest.param(("w-", "w-2"), ("w-", "2"), id="nothing but the client id"),
        pytest.param(("w-\x1b[2J", "w-2"), ("\\x1b[2J", "2"), id="what a terminal would obey"),
    ],
)
def test_of_an_id_as_much_is_shown_as_tells_it_apart(ids: tuple[str, str], shown: tuple[str, str]) -> None:
    found = namesakes_of((), [Named(each, "w", HOST) for each in ids])
    assert tuple(found.told_apart("w", each) for each in ids) == tuple(f"w (member {each})" for each in shown)


def test_three_that_look_alike_and_joined_once_each_are_no_third_time() -> None:
    assert asked(THREE).repetition is None
    one = history(worker(FIRST, minutes=9), worker(FIRST, K.MEMBER_LEFT, 8), worker(SECOND))
    assert asked(one).repetition == "This is the second time today for worker at 10.0.0.9."


def test_of_one_that_looks_like_others_its_own_times_are_counted() -> None:
    """A member keeps its id as long as it is there; what a namesake does is not counted for it."""
    changed = [
        worker(SECOND, K.MEMBER_METADATA_CHANGED, 3),
        worker(FIRST, K.MEMBER_METADATA_CHANGED, 2),
        worker(FIRST, K.MEMBER_METADATA_CHANGED, 1),
    ]
    told = "This is the second time today for worker at 10.0.0.9 (member 6f0c41d2-a…)."
    assert asked(history(worker(FIRST, minutes=9), worker(SECOND, minutes=8), *changed)).repetition == told


def test_members_that_are_there_now_need_no_event_to_be_told_apart() -> None:
    """A history may begin later than they came."""
    members = [MemberDescription(each, None, "worker", HOST, ()) for each in (FIRST, SECOND)]
    group = GroupDescription(
        "billing", CLASSIC, STABLE, "consumer", "range", None, None, 1, "", (*members,), ()
    )
    changed = history(*(worker(each, K.MEMBER_METADATA_CHANGED) for each in (FIRST, SECOND)))
    assert asked(changed).repetition == "This is the second time today for worker at 10.0.0.9."
    assert asked(changed, group).repetition is None


PARTITIONS = (TopicPartition("t6", 3), TopicPartition("t6", 4))
WAITS = GroupDescription(
    "billing",
    CONSUMER,
    "Reconciling",
    "consumer",
    "uniform",
    3,
    3,
    1,
    "",
    (
        MemberDescription("hangs", None, "worker", HOST, PARTITIONS, 2, PARTITIONS[:1]),
        MemberDescription("waits", None, "worker", HOST, (), 3, PARTITIONS[1:]),
        MemberDescription("done", None, "worker", HOST, (), 3, ()),
    ),
    (),
)


def test_of_two_that_look_alike_the_one_that_hangs_has_to_give_up_and_the_other_waits() -> None:
    said = list(lines(asked((), WAITS)))
    assert said[2:5] == [
        "  Have what they are to have: worker at 10.0.0.9 (member done).",
        "  Waited for: worker at 10.0.0.9 (member hangs), which has to give up t6-4.",
        "  Waited for: worker at 10.0.0.9 (member waits), which is to get t6-4 "
        "(of worker at 10.0.0.9 (member hangs)).",
    ]


def test_the_same_is_said_with_what_the_coordinator_itself_knows() -> None:
    who = {"client": "worker", "host": "10.0.0.9", "instance": None}
    members = [{"member": each, **who} for each in ("hangs", "waits", "done")]
    missing = [
        {**each, "heard_ms": 900, "is": "awaits", "says": "waits for partitions", "ends_in_ms": None}
        for each in members[:2]
    ]
    waiting = {"joined": ["done"], "missing": missing, "ends_in_ms": None}
    document = {"state": "Reconciling", "since_ms": 5_000, "members": members, "waiting": waiting}
    said = list(lines(asked((), WAITS, LivingGroup(document, NOON_MS + MINUTE_MS))))
    assert said[1:] == [
        "  It has been in Reconciling for 5.0 s.",
        "  Have what they are to have: worker at 10.0.0.9 (member done).",
        "  Waited for: worker at 10.0.0.9 (member hangs), last heard 900 ms ago, which has to give up t6-4.",
        "  Waited for: worker at 10.0.0.9 (member waits), last heard 900 ms ago, which is to get t6-4 "
        "(of worker at 10.0.0.9 (member hangs)).",
    ]
