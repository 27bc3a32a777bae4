"""The rules of `muster groups why`, line by line: each with a case in which it is the one, and what it says then.

`why_rules.txt` has the clause, the evidence and the advice of each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind
from coordinator.groups.group_settings import GroupSettings
from coordinator.telemetry.payload import KEPT
from muster.groups.why.answers import explanation
from muster.groups.why.cases import Case
from muster.groups.why.reported import METRICS, polled_too_slowly
from muster.groups.why.rules import RULES
from tests.groups.consumer import Consumer, form_group
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

FLAPPED = (
    before(30, joined()),
    before(20, gone(K.MEMBER_LEFT)),
    before(15, joined()),
    before(10, gone(K.MEMBER_LEFT)),
)
ROLLED = (
    before(8, event(K.MEMBER_LEFT, "app-1", CLOSED)),
    before(7, joined("app-1")),
    before(6, event(K.MEMBER_LEFT, "app-2", CLOSED)),
    before(5, joined("app-2")),
)
NEW = ("Stable", "Assigning")


def vanished(*others: str) -> GroupEvent:
    """A member, and others, of which records only show that they are there no longer."""
    detail = "inferred, in generation 6 and not in 7"
    return gone(K.MEMBER_GONE, *others, detail=detail, session_timeout_ms=45_000, session_left_ms=None)


FLAPPED_OUT_OF_SIGHT = (
    before(30, joined()),
    before(20, vanished()),
    before(15, joined()),
    before(10, vanished()),
)
ROLLED_OUT_OF_SIGHT = (
    before(8, event(K.MEMBER_GONE, "app-1")),
    before(7, joined("app-1")),
    before(6, event(K.MEMBER_GONE, "app-2")),
    before(5, joined("app-2")),
)
SLOW = {"age_ms": 400, "last_poll_ago_ms": 299_000, "time_between_poll_max_ms": 312_000}
CASES: Final[dict[str, Case]] = {
    "joined_flapping": Case(joined(), FLAPPED),
    "left_reported_slow_polls": Case(gone(K.MEMBER_LEFT, client_metrics=SLOW)),
    "joined_rolling_restart": Case(joined("app-2"), ROLLED[:-1]),
    "joined_after_poll_timeout": Case(joined(), [before(3, gone(K.MEMBER_LEFT, said=POLL_TIMEOUT))]),
    "joined_after_close": Case(joined(), [before(0.1, gone(K.MEMBER_LEFT, said=CLOSED))]),
    "joined_after_expiry": Case(joined(), [before(59, gone(K.SESSION_EXPIRED))]),
    "joined_after_departure": Case(joined(), [before(3, gone(K.MEMBER_LEFT))]),
    "joined_first": Case(joined(states=("Empty", PREPARING), said="hello")),
    "joined_started": Case(joined(states=("Empty", PREPARING)), (), [joined("app-4", states=WITHIN)]),
    "joined_scaled_out": Case(joined(), (), [joined("app-4", states=WITHIN)]),
    "joined": Case(joined(said="need to re-join with the given member-id: app-3-91d2")),
    "left_poll_timeout": Case(gone(K.MEMBER_LEFT, said=POLL_TIMEOUT, session_left_ms=40_950)),
    "left_by_admin": Case(gone(K.MEMBER_LEFT, "app-4-1", said="member was removed by an admin: deploy")),
    "left_rolling_restart": Case(gone(K.MEMBER_LEFT, said=CLOSED), ROLLED),
    "left_flapping": Case(gone(K.MEMBER_LEFT, session_left_ms=1_000), FLAPPED),
    "left_several": Case(gone(K.MEMBER_LEFT, "app-4-1")),
    "left_closed": Case(gone(K.MEMBER_LEFT, said=CLOSED)),
    "left_unsubscribed": Case(gone(K.MEMBER_LEFT, said="the consumer unsubscribed from all topics")),
    "left_for_a_reason": Case(gone(K.MEMBER_LEFT, said="moved \x1b[31m to \u202eelsewhere")),
    "left_without_a_reason": Case(gone(K.MEMBER_LEFT)),
    "expired_flapping": Case(gone(K.SESSION_EXPIRED, session_left_ms=0), FLAPPED),
    "expired_static": Case(gone(K.SESSION_EXPIRED, session_left_ms=0, group_instance_id="i-3")),
    "expired": Case(gone(K.SESSION_EXPIRED, session_left_ms=0), (), [event(K.SESSION_EXPIRED, "app-4")]),
    "removed_by_admin": Case(static(K.REMOVED_BY_ADMIN, said="scale in", detail="tool at /10.0.0.1")),
    "new_member_join_timeout": Case(event(K.NEW_MEMBER_JOIN_TIMEOUT)),
    "pending_member_left": Case(nobody(K.PENDING_MEMBER_LEFT)),
    "pending_member_expired": Case(nobody(K.PENDING_MEMBER_EXPIRED)),
    "static_member_away": Case(static(K.STATIC_MEMBER_AWAY, states=("Stable", "Reconciling"))),
    "group_max_size_reached": Case(event(K.GROUP_MAX_SIZE_REACHED)),
    "group_over_max_size": Case(nobody(K.GROUP_OVER_MAX_SIZE)),
    "changed_revoke_first": Case(
        event(K.MEMBER_METADATA_CHANGED, said="need to revoke partitions and re-join")
    ),
    "changed_metadata": Case(event(K.MEMBER_METADATA_CHANGED, said="cached metadata has changed")),
    "changed_subscription": Case(event(K.MEMBER_METADATA_CHANGED, said="subscription has changed")),
    "changed_enforced": Case(event(K.MEMBER_METADATA_CHANGED, said="rebalance enforced by user")),
    "changed_new_protocol": Case(event(K.MEMBER_METADATA_CHANGED, states=NEW)),
    "changed": Case(event(K.MEMBER_METADATA_CHANGED)),
    "leader_saw_change": Case(event(K.LEADER_REJOINED, said="cached metadata has changed")),
    "leader_enforced": Case(event(K.LEADER_REJOINED, said="rebalance enforced by user")),
    "leader_for_a_reason": Case(event(K.LEADER_REJOINED, said="rebalance failed due to DisconnectException")),
    "leader_rejoined": Case(event(K.LEADER_REJOINED)),
    "partitions_and_said": Case(
        event(K.PARTITION_COUNTS_CHANGED, said="cached metadata has changed", detail="orders from 4 to 6")
    ),
    "partitions_assigned": Case(
        nobody(K.PARTITION_COUNTS_CHANGED, detail="inferred, 6 partitions of orders are assigned, before 4")
    ),
    "partitions_changed": Case(event(K.PARTITION_COUNTS_CHANGED, detail="orders from 4 to 6")),
    "topics_changed": Case(nobody(K.TOPICS_CHANGED, detail="orders has 6 partitions, had 4", states=NEW)),
    "expression_resolved": Case(nobody(K.EXPRESSION_RESOLVED, detail="ord.* gained orders", states=NEW)),
    "static_restart": Case(static(K.STATIC_MEMBER_REPLACED, states=(STABLE, STABLE))),
    "static_member_changed": Case(static(K.STATIC_MEMBER_REPLACED)),
    "static_member_not_stored": Case(static(K.STATIC_MEMBER_NOT_STORED, detail="MESSAGE_TOO_LARGE")),
    "rejoin_late": Case(
        gone(K.REBALANCE_TIMEOUT, detail="1 member did not rejoin", states=(PREPARING, COMPLETING))
    ),
    "pending_id_late": Case(
        nobody(K.REBALANCE_TIMEOUT, detail="1 pending id not used yet", states=(PREPARING, COMPLETING))
    ),
    "never_synced": Case(gone(K.SYNC_TIMEOUT, detail="1 member sent no SyncGroup", session_left_ms=9_000)),
    "revocation_late": Case(gone(K.REVOCATION_TIMEOUT, states=("Reconciling", "Assigning"))),
    "classic_rejoin_late": Case(gone(K.REJOIN_TIMEOUT, states=("Reconciling", "Assigning"))),
    "join_phase_extended": Case(static(K.JOIN_PHASE_EXTENDED, states=WITHIN)),
    "all_members_joined": Case(nobody(K.ALL_MEMBERS_JOINED, states=(PREPARING, COMPLETING))),
    "initial_delay_over": Case(nobody(K.INITIAL_DELAY_OVER, states=(PREPARING, COMPLETING))),
    "assignment_stored": Case(nobody(K.ASSIGNMENT_STORED, states=(COMPLETING, STABLE))),
    "assignment_computed": Case(event(K.ASSIGNMENT_COMPUTED, states=("Assigning", "Reconciling"))),
    "members_reconciled": Case(
        event(K.MEMBERS_RECONCILED, states=("Reconciling", STABLE), detail="orders-2 came from app-1")
    ),
    "group_emptied": Case(nobody(K.GROUP_EMPTIED, states=(PREPARING, "Empty"))),
    "assignment_not_stored": Case(nobody(K.ASSIGNMENT_NOT_STORED, detail="RECORD_LIST_TOO_LARGE")),
    "coordinator_restarted_stable": Case(nobody(K.COORDINATOR_RESTARTED, states=("Dead", STABLE))),
    "coordinator_restarted": Case(nobody(K.COORDINATOR_RESTARTED, states=("Dead", "Reconciling"))),
    "group_deleted": Case(event(K.GROUP_DELETED, "admin-1", states=("Empty", "Dead"))),
    "gone_without_offsets": Case(
        nobody(K.OFFSETS_EXPIRED, detail="there were none left", states=("Empty", "Dead"))
    ),
    "offsets_expired": Case(nobody(K.OFFSETS_EXPIRED, detail="3 offsets", states=("Empty", "Dead"))),
    "gone_empty": Case(nobody(K.OFFSETS_EXPIRED, states=("Empty", "Dead"))),
    "group_not_stored": Case(
        nobody(K.GROUP_NOT_STORED, detail="MESSAGE_TOO_LARGE", states=("Empty", "Dead"))
    ),
    "group_upgraded": Case(event(K.GROUP_UPGRADED, states=(STABLE, "Reconciling"))),
    "group_downgraded": Case(event(K.GROUP_DOWNGRADED, detail="member left", states=(STABLE, PREPARING))),
    "events_dropped": Case(nobody(K.EVENTS_DROPPED, states=("", ""))),
    "gone_rolling_restart": Case(vanished(), ROLLED_OUT_OF_SIGHT),
    "gone_flapping": Case(vanished(), FLAPPED_OUT_OF_SIGHT),
    "gone_several": Case(vanished("app-4-1")),
    "gone_somehow": Case(vanished()),
    "unknown": Case(nobody(K.CAUSE_UNKNOWN, detail="the same members as in generation 6")),
    "removed_somehow": Case(nobody(K.GROUP_REMOVED, states=("Empty", "Dead"))),
    "generations_missing": Case(nobody(K.GENERATIONS_MISSING, detail="from 4 to 6")),
    "record_not_read": Case(nobody(K.RECORD_NOT_READ)),
}
"""A case for every rule, by the rule's name."""


def texts(name: str) -> dict[str, list[str]]:
    """What is to be said, by section."""
    found: dict[str, list[str]] = {}
    for section in Path(__file__).with_name(name).read_text().split("# ")[1:]:
        title, *lines_of_it = section.strip().splitlines()
        found[title] = lines_of_it
    return found


RULE_TEXTS = texts("why_rules.txt")


@pytest.mark.parametrize("name", [rule.name for rule in RULES])
def test_each_rule_says_what_it_is_to_say_in_its_case(name: str) -> None:
    found = explanation(CASES[name])
    assert found.rule == name
    guess = " (a guess)" if found.is_guess else ""
    assert [found.because + guess, *found.evidence, f"Advice: {found.advice or None}"] == RULE_TEXTS[name]


POLLS = (
    "Its client itself had reported 400 ms before: 4 min 59 s since its last poll() "
    "(org.apache.kafka.consumer.last.poll.seconds.ago), at most 5 min 12 s between two polls "
    "(org.apache.kafka.consumer.time.between.poll.max)."
)


@pytest.mark.parametrize(
    ("case", "rule", "line"),
    [
        (gone(K.MEMBER_LEFT, said=POLL_TIMEOUT, client_metrics=SLOW), "left_poll_timeout", POLLS),
        (
            gone(K.MEMBER_LEFT, client_metrics={"time_between_poll_max_ms": 900}),
            "left_without_a_reason",
            "Its client itself had reported 0 ms before: at most 900 ms between two polls "
            "(org.apache.kafka.consumer.time.between.poll.max).",
        ),
        (
            gone(K.SESSION_EXPIRED, client_metrics={"age_ms": 41_000, "last_heartbeat_ago_ms": 3_000}),
            "expired",
            "Its client itself had reported 41.0 s before: 3.0 s since its last heartbeat "
            "(org.apache.kafka.consumer.coordinator.last.heartbeat.seconds.ago).",
        ),
        (
            gone(K.SYNC_TIMEOUT, client_metrics={"age_ms": 7, "rebalance_latency_max_ms": 1_500}),
            "never_synced",
            "Its client itself had reported 7 ms before: at most 1.5 s for a rebalance "
            "(org.apache.kafka.consumer.coordinator.rebalance.latency.max).",
        ),
    ],
)
def test_what_a_client_reported_itself_is_evidence(case: GroupEvent, rule: str, line: str) -> None:
    found = explanation(Case(case))
    assert (found.rule, line in found.evidence) == (rule, True), found.evidence


@pytest.mark.parametrize(
    ("figures", "is_slow"),
    [
        ({"last_poll_ago_ms": 300_000}, True),
        ({"last_poll_ago_ms": 299_000}, False),  # The client counts whole seconds: it is just not over.
        ({"last_poll_ago_ms": 299_000, "age_ms": 1}, True),
        ({"last_poll_ago_ms": 1_000, "age_ms": 60_000}, False),
        ({"time_between_poll_max_ms": 400_000}, False),  # Of any two polls lately, not of these.
        ({}, False),
        (None, False),
    ],
)
def test_a_client_polls_too_slowly_if_its_interval_is_over(
    figures: dict[str, int] | None, is_slow: bool
) -> None:
    assert polled_too_slowly(Case(gone(K.MEMBER_LEFT, client_metrics=figures))) is is_slow
    unknown = gone(K.MEMBER_LEFT, client_metrics=figures, rebalance_timeout_ms=None)
    assert not polled_too_slowly(Case(unknown))


def test_the_metrics_that_are_named_are_those_that_are_kept() -> None:
    kept = {figure: metric for metric, (figure, _) in KEPT.items()}
    assert METRICS.items() <= kept.items()


@pytest.mark.parametrize(
    ("silent_ms", "begin"),
    [(4_000, "Its heartbeats went on, the last 4.0 s before"), (4_001, "It was last heard 4.0 s before")],
)
def test_a_member_with_a_short_session_heartbeats_every_three_seconds(silent_ms: int, begin: str) -> None:
    late = gone(K.SYNC_TIMEOUT, session_timeout_ms=6_000, session_left_ms=6_000 - silent_ms)
    assert explanation(Case(late)).evidence[0].startswith(begin)


def test_an_administrator_who_gives_no_reason_is_not_said_to_have_one() -> None:
    found = explanation(Case(gone(K.MEMBER_LEFT, said="member was removed by an admin")))
    assert (found.rule, found.evidence) == ("left_by_admin", ())


def test_there_is_a_rule_for_every_cause_and_the_last_of_each_has_no_condition() -> None:
    last = {rule.kind: rule for rule in RULES}
    assert last.keys() == set(CauseKind)
    assert [rule.name for rule in last.values() if rule.when is not None] == []


def test_no_rule_stands_behind_one_of_its_cause_that_always_applies() -> None:
    closed: set[CauseKind] = set()
    for rule in RULES:
        assert rule.kind not in closed, rule.name
        if rule.when is None:
            closed.add(rule.kind)


def test_each_rule_has_a_name_and_a_text_of_its_own() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert set(names) == CASES.keys() == RULE_TEXTS.keys()


SCALED_IN = (
    before(4, joined("app-2")),
    before(3, joined("app-3")),
    before(2, event(K.MEMBER_LEFT, "app-2", CLOSED)),
)
WENT_TWICE = (
    before(9, event(K.MEMBER_LEFT, "app-1", CLOSED)),
    before(8, joined("app-1")),
    before(7, event(K.MEMBER_LEFT, "app-1", CLOSED)),
    before(6, joined("app-1")),
    before(5, event(K.MEMBER_LEFT, "app-2", CLOSED)),
    before(4, joined("app-2")),
)


@pytest.mark.parametrize(
    ("case", "rule"),
    [
        pytest.param(Case(gone(K.MEMBER_LEFT, said=CLOSED), SCALED_IN), "left_closed", id="scaled in"),
        pytest.param(
            Case(
                joined(),
                [before(2, joined("app-1"))],
                [gone(K.SESSION_EXPIRED), event(K.SESSION_EXPIRED, "app-1")],
            ),
            "joined",
            id="new, and both expire later",
        ),
        pytest.param(Case(joined("app-9"), ROLLED), "joined", id="new, while others are restarted"),
        pytest.param(Case(gone(K.MEMBER_LEFT, said=CLOSED), WENT_TWICE), "left_closed", id="one went twice"),
    ],
)
def test_who_did_not_go_and_then_come_back_was_not_restarted(case: Case, rule: str) -> None:
    found = explanation(case)
    assert (found.rule, "back" in " ".join([found.because, *found.evidence])) == (rule, False)


def alike(number: int, minutes: float, kind: CauseKind = K.MEMBER_JOINED) -> GroupEvent:
    """One of several members whose clients have the same id on the same host, as librdkafka's default is."""
    return before(minutes, event(kind, "rdkafka", member_id=f"rdkafka-{number}"))


THREE_ALIKE = (
    alike(1, 20),
    alike(2, 19),
    alike(3, 18),
    alike(1, 3, K.MEMBER_LEFT),
    alike(2, 2, K.MEMBER_LEFT),
)
ALIKE = "3 members with this client id and host were there at once: they may be different clients."


@pytest.mark.parametrize(
    ("case", "rule", "is_guess"),
    [
        pytest.param(Case(alike(4, 0), THREE_ALIKE), "joined_flapping", True, id="scaled out"),
        pytest.param(Case(alike(3, 0, K.MEMBER_LEFT), THREE_ALIKE), "left_flapping", True, id="scaled in"),
        pytest.param(
            Case(alike(4, 0), [*THREE_ALIKE[2:4], before(70, alike(5, 0)), alike(5, 1, K.MEMBER_LEFT)]),
            "joined_after_departure",
            True,
            id="two of them",
        ),
        pytest.param(Case(joined(), FLAPPED), "joined_flapping", False, id="one at a time"),
        pytest.param(
            Case(alike(4, 0), [*THREE_ALIKE[:1], alike(1, 15, K.MEMBER_LEFT), alike(2, 10)]),
            "joined",
            False,
            id="no departure lately",
        ),
    ],
)
def test_what_clients_that_look_alike_did_is_a_guess(case: Case, rule: str, is_guess: bool) -> None:
    found = explanation(case)
    said = any(line.endswith("they may be different clients.") for line in found.evidence)
    assert (found.rule, found.is_guess, said) == (rule, is_guess, is_guess)


def test_how_many_members_look_alike_is_said() -> None:
    assert explanation(Case(alike(4, 0), THREE_ALIKE)).evidence[-1] == ALIKE


def test_a_group_that_was_empty_had_nobody_who_looks_alike() -> None:
    """Who had gone without an event, as one that was removed with others, is there no longer."""
    emptied = before(12, nobody(K.GROUP_EMPTIED, states=(PREPARING, "Empty")))
    assert Case(alike(4, 0), [*THREE_ALIKE[:1], emptied]).alike_count == 1
    assert Case(alike(4, 0), THREE_ALIKE[:1]).alike_count == 2
    assert Case(static(K.MEMBER_LEFT), [static(K.MEMBER_JOINED, member_id="i-3-1")]).alike_count == 0


@pytest.mark.parametrize("has_committed", [False, True])
def test_a_group_that_the_sweep_removed_had_offsets_or_had_none(has_committed: bool) -> None:
    """By the events of a real group: one that never committed has none that could expire."""
    driver = Driver(settings=GroupSettings(offsets_retention_minutes=1))
    consumer = Consumer(driver, "app-1")
    form_group(driver, consumer)
    if has_committed:
        consumer.commit(1)
    consumer.leave()
    driver.advance(2 * driver.settings.offsets_retention_check_interval_ms)
    removed = driver.history[-1]
    assert removed.to_state == "Dead"
    assert explanation(Case(removed)).rule == ("offsets_expired" if has_committed else "gone_without_offsets")
