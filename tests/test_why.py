"""What `muster groups why` makes of a history: which rebalance is meant, what is said of it, who is waited for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from coordinator.effects import GroupEvent, Observed
from coordinator.groups.consumer.shard_groups import ConsumerGroupSettings
from muster.groups.descriptions import CLASSIC, CONSUMER, GroupDescription, MemberDescription
from muster.groups.rebalance_views import rebalance_views
from muster.groups.why.answers import Answer, Question, answer
from muster.groups.why.tables import answer_json, lines
from muster.groups.why.waiting import MissingMember, Waiting, sentences, waiting_of
from protocol.topic_partition import TopicPartition
from tests.groups.consumer import Consumer, form_group
from tests.groups.consumer_groups.new_member import NewMember, settle
from tests.groups.driver import Driver
from tests.why_events import (  # noqa: F401
    CLOSED,
    COMPLETING,
    LATE,
    MINUTE_MS,
    NOON_MS,
    POLL_TIMEOUT,
    PREPARING,
    STABLE,
    WITHIN,
    K,
    before,
    event,
    gone,
    joined,
    nobody,
    static,
    utc,
)

pytestmark = pytest.mark.usefixtures("utc")

# Which rebalance is meant, and what else is said of it.


def asked(
    events: Sequence[GroupEvent],
    at_ms: int | None = None,
    group: GroupDescription | None = None,
    **more: Any,
) -> Answer:
    """The answer an hour after noon."""
    return answer(Question("billing", at_ms, NOON_MS + 60 * MINUTE_MS), events, group, **more)


def rebalance(
    begin: GroupEvent, generation: int, *within: GroupEvent, took_ms: int = 4_000
) -> list[GroupEvent]:
    """The events of a rebalance that `begin` began, and that leads to `generation`."""
    begin = replace(begin, generation_id=generation - 1, phase_timeout_ms=300_000)
    joined_ms = begin.wall_ms + took_ms
    last = {"last_member_id": "app-1-6f0c", "last_client_id": "app-1", "last_client_host": "/10.0.0.7"}
    ends = nobody(K.ALL_MEMBERS_JOINED, states=(PREPARING, COMPLETING), wall_ms=joined_ms, **last)
    over = event(K.ASSIGNMENT_STORED, "app-1", states=(COMPLETING, STABLE), wall_ms=joined_ms + 41)
    return [
        begin,
        *(replace(each, generation_id=generation - 1) for each in within),
        replace(ends, generation_id=generation, phase_ms={PREPARING: took_ms}, last_arrival_ms=took_ms),
        replace(
            over,
            generation_id=generation,
            phase_ms={COMPLETING: 41},
            rebalance_cause=begin.cause,
            rebalance_ms={PREPARING: took_ms, COMPLETING: 41},
        ),
    ]


def test_a_rebalance_that_began_again_says_how_often() -> None:
    begin, ends, over = rebalance(slow(5), 8)
    again = replace(
        joined("app-4", states=(COMPLETING, PREPARING), wall_ms=ends.wall_ms + 10), generation_id=8
    )
    once = asked([begin, ends, over])
    assert not [line for line in lines(once) if "It began" in line]
    twice = asked([begin, ends, again, replace(ends, wall_ms=ends.wall_ms + 20, generation_id=9), over])
    told = "  It began 2 times, since the group changed again meanwhile."
    assert told in lines(twice)


def slow(minutes: float) -> GroupEvent:
    return before(minutes, gone(K.MEMBER_LEFT, said=POLL_TIMEOUT, session_left_ms=40_950))


THREE_TIMES = [
    *rebalance(slow(50), 4),
    *rebalance(before(48, joined()), 5),
    *rebalance(slow(40), 6),
    *rebalance(before(38, joined()), 7),
    *rebalance(slow(0), 8),
]
ORDERS = (TopicPartition("orders", 0), TopicPartition("refunds", 1))
MEMBERS = (
    MemberDescription("app-1-6f0c", None, "app-1", "/10.0.0.7", ORDERS),
    MemberDescription("app-3-91d2", None, "app-3", "/10.0.0.9", ()),
)
GROUP = GroupDescription(
    "billing", CLASSIC, STABLE, "consumer", "range", None, None, 1, "10.0.0.1:9092", MEMBERS, ()
)


def test_the_last_rebalance_is_told_with_evidence_repetition_and_advice() -> None:
    assert list(lines(asked(THREE_TIMES, group=GROUP))) == [
        "billing rebalanced at 12:00:00 (generation 7 to 8) because app-3 at 10.0.0.9 left: its poll loop did not "
        "call poll() in time.",
        '  It said so itself: "consumer poll timeout has expired."',
        "  Its session was fine: it was last heard 4.0 s before, with 91% of its session left. So "
        "session.timeout.ms is not the thing to raise.",
        "  Its max.poll.interval.ms is 300000 (what it sends as its rebalance timeout).",
        "  4.0 s joining, 41 ms assigning; app-1 at 10.0.0.7 came last, after 4.0 s.",
        "  Its assignor, range, is eager: members give up all partitions as they join again, and read on until "
        "then.",
        "  This is the third time today for app-3 at 10.0.0.9.",
        "  Advice: fewer records per poll on app-3 at 10.0.0.9 (max.poll.records), or a longer "
        "max.poll.interval.ms there.",
    ]


@pytest.mark.parametrize(
    ("at_ms", "generation", "rule"),
    [
        (NOON_MS - 50 * MINUTE_MS, 4, "left_poll_timeout"),
        (NOON_MS - 48 * MINUTE_MS - 1, 4, "left_poll_timeout"),
        (NOON_MS - 48 * MINUTE_MS, 5, "joined_after_poll_timeout"),
        (NOON_MS - 1, 7, "joined_flapping"),
        (NOON_MS, 8, "left_poll_timeout"),
    ],
)
def test_a_time_means_the_rebalance_that_had_begun_last_by_then(
    at_ms: int, generation: int, rule: str
) -> None:
    """The second return, an hour after no other departure, is of a member that comes and goes."""
    history = [*rebalance(before(55, joined()), 3), *THREE_TIMES]
    found = asked(history, at_ms)
    assert found.rebalance is not None
    assert found.why is not None
    assert (found.rebalance.generation_id, found.why.rule, found.waiting) == (generation, rule, None)


def test_before_the_first_rebalance_there_is_none() -> None:
    found = asked(THREE_TIMES, NOON_MS - 51 * MINUTE_MS)
    assert (found.rebalance, found.since) == (None, ())


def test_it_counts_what_the_history_counts() -> None:
    """One function finds rebalances for both; repeats, restarts and gaps are none."""
    views = [view for view in rebalance_views(THREE_TIMES) if view.is_rebalance]
    found = asked(THREE_TIMES)
    assert found.rebalance == views[-1].rebalance
    assert len([view for view in views if view.first.client_reason == POLL_TIMEOUT]) == 3
    assert found.repetition == "This is the third time today for app-3 at 10.0.0.9."


def test_of_a_history_that_is_cut_the_count_is_the_least() -> None:
    found = asked(THREE_TIMES, is_whole=False)
    assert found.repetition == "This is at least the third time today for app-3 at 10.0.0.9."


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(slow(40), client_id="app-4"), id="another client"),
        pytest.param(before(40, gone(K.MEMBER_LEFT, said=CLOSED)), id="for another reason"),
        pytest.param(before(40, gone(K.SESSION_EXPIRED, said=POLL_TIMEOUT)), id="by another cause"),
        pytest.param(slow(12 * 60 + 1), id="on another day"),
    ],
)
def test_what_is_not_the_same_is_not_counted(other: GroupEvent) -> None:
    assert asked([*rebalance(other, 6), *rebalance(slow(0), 8)]).repetition is None


def test_what_happened_within_and_after_it_is_told_as_well() -> None:
    late = gone(
        K.REBALANCE_TIMEOUT,
        detail="1 member did not rejoin",
        states=(PREPARING, COMPLETING),
        wall_ms=NOON_MS + 300,
    )
    events = rebalance(joined(), 8, event(K.SESSION_EXPIRED, "app-2", states=WITHIN, wall_ms=NOON_MS + 200))
    events[2] = replace(late, generation_id=8, phase_ms={PREPARING: 300})
    restarted = nobody(K.COORDINATOR_RESTARTED, states=("Dead", STABLE), wall_ms=NOON_MS + 9_000)
    assert list(lines(asked([*events, replace(restarted, generation_id=8)])))[2:] == [
        "  Within it, at 12:00:00: the session of app-2 at 10.0.0.9 expired.",
        "    It sent no LeaveGroup. A client whose poll loop is too slow goes on with heartbeats and then leaves, "
        "so this was its process, its machine or its network.",
        "    Advice: look for a crash, a kill, a long pause or a lost network on app-2 at 10.0.0.9; if it only "
        "pauses, a longer session.timeout.ms hides it.",
        "  Within it, at 12:00:00: app-3 at 10.0.0.9 did not join again within the rebalance timeout.",
        "    Its heartbeats went on, the last 3.0 s before: it was alive, but did not do its part.",
        "    Its max.poll.interval.ms is 300000 (what it sends as its rebalance timeout).",
        "    The event says: 1 member did not rejoin.",
        "    Advice: its poll loop is stuck or slow: fewer records per poll there; a shorter max.poll.interval.ms "
        "lets the others go on sooner.",
        "  No rebalance, but at 12:00:09: the coordinator restarted and read the group from its log: members "
        "carry on as they were.",
        "  Advice: none, if that was intended.",
    ]


def test_of_a_rebalance_whose_begin_is_missing_no_cause_is_made_up() -> None:
    assert list(lines(asked(rebalance(joined(), 8)[1:]))) == [
        "billing rebalanced at 12:00:00 (to generation 8); its begin is not in the history. It began with: member "
        "joined.",
        "  4.0 s joining, 41 ms assigning; app-1 at 10.0.0.7 came last, after 4.0 s.",
    ]


def test_a_cause_of_a_later_version_is_shown_as_it_is() -> None:
    later = replace(joined(), cause="moon_rose", reason="the moon rose")
    assert next(lines(asked(rebalance(later, 8)))) == (
        "billing rebalanced at 12:00:00 (generation 7 to 8) because of a cause that this version does not know: "
        "the moon rose."
    )


def test_a_guess_is_called_one() -> None:
    found = rebalance(joined(), 8, replace(joined("app-4", states=WITHIN), wall_ms=NOON_MS + 20))
    assert next(lines(asked(found))) == (
        "billing rebalanced at 12:00:00 (generation 7 to 8) because app-3 at 10.0.0.9 and others joined: "
        "a deployment was scaled out (a guess)."
    )


def test_an_inferred_cause_is_said_to_be_inferred() -> None:
    begin, *others = rebalance(joined(), 8)
    inferred = replace(begin, observed=Observed("members", 0, 7))
    found = list(lines(asked([inferred, *others])))
    assert "  Inferred: the cluster's records hold no causes, so this is what fits them." in found
    assert "  Inferred" not in "".join(lines(asked([begin, *others])))


def test_a_cooperative_group_kept_what_stayed() -> None:
    found = list(lines(asked(THREE_TIMES, group=replace(GROUP, protocol="cooperative-sticky"))))
    assert "  Its assignor, cooperative-sticky, is cooperative: members kept what stayed theirs." in found


@pytest.mark.parametrize(
    ("begin", "assignor"),
    [
        pytest.param(joined(states=("Empty", PREPARING)), "range", id="its first member"),
        pytest.param(joined(states=("Empty", PREPARING)), "cooperative-sticky", id="likewise"),
        pytest.param(joined(), "own", id="an assignor of the application's own"),
    ],
)
def test_nothing_is_said_of_reading_where_nothing_is_known_of_it(begin: GroupEvent, assignor: str) -> None:
    said = asked(rebalance(begin, 8), group=replace(GROUP, protocol=assignor)).course
    assert said == ("4.0 s joining, 41 ms assigning; app-1 at 10.0.0.7 came last, after 4.0 s.",)


def test_names_of_clients_are_shown_without_what_moves_a_terminal() -> None:
    """The group id, the client id, the instance id and the reason are all a client's choice."""
    nasty = "\x1b[2J\u202egnp\n" + "x" * 300
    begin = replace(joined(), client_id=nasty, group_instance_id=nasty, client_reason=nasty, reason=nasty)
    shown = "\n".join(
        lines(answer(Question(nasty, None, NOON_MS), rebalance(replace(begin, cause="new"), 8), None))
    )
    shown += "\n".join(lines(asked(rebalance(begin, 8))))
    assert shown.isprintable() is False  # There are line ends, and these alone.
    assert shown.replace("\n", "").isprintable()
    assert max(map(len, shown.splitlines())) < 1_000


def test_json_has_the_sentences_and_what_they_are_made_of() -> None:
    value = json.loads(json.dumps(answer_json(asked(THREE_TIMES, group=GROUP))))
    assert value["text"] == list(lines(asked(THREE_TIMES, group=GROUP)))
    assert (value["schema"], value["why"]["rule"], value["why"]["is_guess"]) == (
        1,
        "left_poll_timeout",
        False,
    )
    assert value["rebalance"]["cause"] == "member_left"


# A rebalance that is on.


def test_a_classic_group_shows_who_may_be_waited_for_and_until_when() -> None:
    begin = replace(joined("app-4", wall_ms=NOON_MS), phase_timeout_ms=300_000)
    members = (*MEMBERS, MemberDescription("app-4-91d2", None, "app-4", "/10.0.0.9", ()))
    now_ms = NOON_MS + 41_200
    group = replace(GROUP, state=PREPARING, members=members)
    found = answer(Question("billing", None, now_ms), [begin], group)
    assert list(lines(found)) == [
        "billing has been rebalancing since 12:00:00 (generation 7) because app-4 at 10.0.0.9 joined.",
        "  It has been in PreparingRebalance for 41.2 s, until 12:05:00 at the latest, which is in 4 min 18 s.",
        "  Joined: app-4 at 10.0.0.9.",
        "  Waited for, or joined again already: app-1 at 10.0.0.7 and app-3 at 10.0.0.9.",
        "  Not known: which of them have joined again, for Kafka's protocol does not say it.",
        "  Not known: when each was last heard: none has been silent for its whole session.",
        "  Advice: none, if that was intended.",
    ]


def test_a_phase_that_was_extended_ends_a_timeout_after_that() -> None:
    begin = replace(gone(K.MEMBER_LEFT), phase_timeout_ms=20_000)
    extended = static(K.JOIN_PHASE_EXTENDED, states=WITHIN, wall_ms=NOON_MS + 20_000, phase_timeout_ms=20_000)
    found = waiting_of(replace(GROUP, state=PREPARING), [begin, extended])
    assert found is not None
    assert (found.since_ms, found.until_ms) == (NOON_MS, NOON_MS + 40_000)


def test_the_present_phase_counts_and_no_former_one() -> None:
    """A new member that was in a former phase has to join again in this one."""
    events = rebalance(joined(), 8)[:2]
    again = event(K.MEMBER_LEFT, "app-2", states=(COMPLETING, PREPARING), wall_ms=NOON_MS + 5_000)
    found = waiting_of(replace(GROUP, state=PREPARING), [*events, again])
    assert found is not None
    assert (found.since_ms, found.joined) == (NOON_MS + 5_000, ())


def test_events_that_do_not_lead_to_the_present_state_say_nothing_of_its_phase() -> None:
    """They are written a moment later than the group is described."""
    begin = replace(joined(), member_id="app-3-91d2", phase_timeout_ms=300_000)
    found = waiting_of(replace(GROUP, state=PREPARING), rebalance(begin, 8))
    assert found is not None
    assert (found.since_ms, found.until_ms, found.joined) == (None, None, ())


def test_a_consumer_group_shows_who_gives_up_what() -> None:
    has, target = ORDERS, ORDERS[:1]
    members = (
        MemberDescription("a", None, "app-1", "/10.0.0.7", has, 4, target),
        MemberDescription("b", None, "app-3", "/10.0.0.9", (), 5, ORDERS[1:]),
        MemberDescription("c", "i-5", "app-5", "/10.0.0.5", (), -2, ()),
        MemberDescription("d", None, "app-6", "/10.0.0.6", (), 5, ()),
    )
    group = replace(GROUP, group_type=CONSUMER, state="Reconciling", group_epoch=5, members=members)
    found = waiting_of(group, [])
    assert found is not None
    assert list(sentences(found, NOON_MS)) == [
        "It is in Reconciling, since when is not known.",
        "Have what they are to have: app-6 at 10.0.0.6.",
        "Waited for: app-1 at 10.0.0.7, which has to give up refunds-1.",
        "Waited for: app-3 at 10.0.0.9, which is to get refunds-1 (of app-1 at 10.0.0.7).",
        "Waited for: i-5 (app-5 at 10.0.0.5), which has left for now.",
        "Not known: when each was last heard: none has been silent for its whole session.",
    ]


def test_what_the_coordinator_itself_knows_has_its_place() -> None:
    missing = MissingMember("app-3 at 10.0.0.9", heard_ms=900)
    known = Waiting(PREPARING, NOON_MS, NOON_MS + 60_000, ("app-1 at 10.0.0.7",), (missing,), True)
    assert list(sentences(known, NOON_MS + 1_000)) == [
        "It has been in PreparingRebalance for 1.0 s, until 12:01:00 at the latest, which is in 59.0 s.",
        "Joined: app-1 at 10.0.0.7.",
        "Waited for: app-3 at 10.0.0.9, last heard 900 ms ago.",
    ]


@pytest.mark.parametrize("state", ["Stable", "Empty"])
def test_a_group_that_does_not_rebalance_waits_for_nothing(state: str) -> None:
    assert waiting_of(replace(GROUP, state=state), []) is None


def test_a_rebalance_that_the_coordinator_made_says_how_long_it_may_last() -> None:
    """What the events of a real group carry: the timeout of the phase, and of the member behind it."""
    driver = Driver()
    first, second = Consumer(driver, "app-1"), Consumer(driver, "app-2")
    form_group(driver, first, second)
    second.leave(CLOSED)
    (left,) = [each for each in driver.history if each.cause == "member_left"]
    assert (left.phase_timeout_ms, left.rebalance_timeout_ms) == (60_000, 60_000)
    assert left.session_timeout_ms == 10_000


def test_a_consumer_group_is_told_in_its_own_words_from_its_first_member_on() -> None:
    """The rebalance of an only member is one event, out of an empty group or into one."""
    driver = Driver(consumer_settings=ConsumerGroupSettings(assignment_interval_ms=0))
    heads: list[tuple[str, str, str]] = []

    def ask() -> None:
        found = asked(driver.history)
        head = next(lines(found)).partition(" (")[2].split(" at ")[0]
        heads.append((head, found.course[0].split(";")[0], found.course[-1].split("; ")[-1]))

    for member_id in ("one", "two"):
        member = NewMember(driver, member_id)
        settle(member)
        ask()
        member.beat(member_epoch=-1)
        ask()
    spent = "0 ms assigning, 0 ms reconciling"
    assert heads == [
        ("epoch 2) because one", spent, "one at 10.0.0.1 was waited for, after 0 ms."),
        ("epoch 3) because one", f"{spent}.", "The group had no members afterwards."),
        ("epoch 4) because two", spent, "two at 10.0.0.1 was waited for, after 0 ms."),
        ("epoch 5) because two", f"{spent}.", "The group had no members afterwards."),
    ]
