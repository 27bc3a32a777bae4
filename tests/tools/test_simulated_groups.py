"""Simulated events are such as the coordinator records: they are held against its tables and its readers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import pytest

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind
from coordinator.groups.classic.states import EMPTY, STABLE, TRANSITIONS
from coordinator.groups.partitioning import partition_for
from muster.groups.rebalance_views import rebalance_views
from tools.simulate import incidents
from tools.simulate.clients import GroupPlan, Phase, new_plan
from tools.simulate.incidents import Incidents
from tools.simulate.population import BATCH, new_groups, new_topics
from tools.simulate.production import DAY_MS
from tools.simulate.simulated_groups import SimulatedGroups

START_MS = 1_767_225_600_000
SHARDS = 5
STEPS = {(before.value, after.value) for (before, _), after in TRANSITIONS.items()}


def new_simulated(groups: int, seed: int) -> SimulatedGroups:
    topics = new_topics(seed, groups)
    population = new_groups(seed, groups, topics)
    plans = [
        new_plan(population, topics, number, partition_for(population.names[number], SHARDS))
        for number in range(groups)
    ]
    return SimulatedGroups(plans, SHARDS, seed)


@pytest.fixture(scope="module")
def simulated() -> SimulatedGroups:
    """Two days of 200 groups, of which a few are made to suffer."""
    simulated = new_simulated(200, seed=3)
    for plan in [plan for plan in simulated.plans if plan.kind <= BATCH and plan.size > 2][:4]:
        plan.is_stormy = True
        plan.poll_ms = 90_000  # Now and then a member is later than the rebalance timeout.
    Incidents(simulated, START_MS)
    simulated.run_until(START_MS + 2 * DAY_MS)
    return simulated


def test_a_deployment_goes_on_past_members_that_are_scaled_in_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(incidents, "DEPLOY_EVERY_MS", DAY_MS // 100)
    monkeypatch.setattr(incidents, "RESTART_MS", (600_000, 1_200_000))  # So some deployments take hours.
    simulated = new_simulated(30, seed=3)
    for plan in simulated.plans:
        plan.scales = True
    Incidents(simulated, START_MS)
    simulated.run_until(START_MS + DAY_MS)
    assert all(event.member_count > 0 for event in simulated.events if event.to_state == STABLE.value)


def by_group(events: Iterable[GroupEvent]) -> dict[str, list[GroupEvent]]:
    found: dict[str, list[GroupEvent]] = defaultdict(list)
    for event in events:
        found[event.group_id].append(event)
    return found


def test_each_event_goes_on_where_the_one_before_left_off(simulated: SimulatedGroups) -> None:
    assert len(simulated.events) > 3_000
    for events in by_group(simulated.events).values():
        assert events[0].from_state == EMPTY.value
        for event in events:
            assert event.from_state == event.to_state or (event.from_state, event.to_state) in STEPS
        for before, after in pairwise(events):
            assert before.to_state == after.from_state
            assert before.wall_ms <= after.wall_ms
            assert after.generation_id - before.generation_id in (0, 1)
        assert all(event.member_count > 0 for event in events if event.to_state == STABLE.value)


def test_the_phases_add_up_to_the_time_that_passed(simulated: SimulatedGroups) -> None:
    for events in by_group(simulated.events).values():
        since_ms = None
        for event in events:
            if event.phase_ms:
                if since_ms is not None:
                    assert event.phase_ms == {event.from_state: event.wall_ms - since_ms}
                since_ms = event.wall_ms


def test_readers_of_the_history_find_every_rebalance_with_its_cause(simulated: SimulatedGroups) -> None:
    rebalances = [
        view
        for events in by_group(simulated.events).values()
        for view in rebalance_views(events)
        if view.is_rebalance and view.is_over
    ]
    assert len(rebalances) == sum(event.rebalance_cause is not None for event in simulated.events)
    for view in rebalances:
        assert view.last.rebalance_cause == view.first.cause
        assert sum(view.last.rebalance_ms.values()) == view.last.wall_ms - view.first.wall_ms
        if view.last.to_state == STABLE.value:
            assert view.rebalance is not None
            assert view.rebalance.last_member_id is not None


def test_what_is_to_happen_does(simulated: SimulatedGroups) -> None:
    """Deployments, crashes, jobs, storms, slow members: each is in the history under its cause."""
    causes = Counter(event.cause for event in simulated.events)
    expected = {
        CauseKind.MEMBER_JOINED,
        CauseKind.MEMBER_LEFT,
        CauseKind.SESSION_EXPIRED,
        CauseKind.STATIC_MEMBER_REPLACED,
        CauseKind.REBALANCE_TIMEOUT,
        CauseKind.GROUP_EMPTIED,
        CauseKind.ALL_MEMBERS_JOINED,
        CauseKind.INITIAL_DELAY_OVER,
        CauseKind.ASSIGNMENT_STORED,
    }
    assert {kind.slug for kind in expected} <= causes.keys() <= {kind.slug for kind in CauseKind}
    reasons = {event.client_reason for event in simulated.events}
    assert "consumer poll timeout has expired." in reasons


def test_in_the_end_the_members_are_the_clients_that_settled(simulated: SimulatedGroups) -> None:
    for plan in simulated.plans:
        group = simulated.shards[plan.partition].groups.get(plan.group_id)
        if group is not None and group.state is STABLE:
            settled = {client.member_id for client in plan.clients.values() if client.phase is Phase.SETTLED}
            assert settled <= group.members.keys()
            assert plan.is_consuming
            assert plan.member_count == len(group.members)


def test_a_crash_is_recorded_a_session_timeout_later_with_the_client_behind_it() -> None:
    simulated = new_simulated(40, seed=1)
    plan = next(
        plan for plan in simulated.plans if plan.kind <= BATCH and plan.size >= 3 and not plan.is_static
    )
    assert _settle(simulated, plan)
    victim = plan.clients[1]
    simulated.crash(victim)
    crashed_ms = simulated.now_ms
    simulated.events.clear()
    simulated.run_until(crashed_ms + 120_000)
    first, *_, last = by_group(simulated.events)[plan.group_id]
    assert (first.cause, first.member_id) == ("session_expired", victim.member_id)
    assert (first.client_id, first.client_host) == (victim.client_id, victim.client_host)
    assert 42_000 <= first.wall_ms - crashed_ms <= 45_000
    assert (last.to_state, last.rebalance_cause) == ("Stable", "session_expired")
    assert last.member_count == plan.size - 1


def _settle(simulated: SimulatedGroups, plan: GroupPlan) -> bool:
    simulated.now_ms = START_MS
    for ordinal in range(plan.size):
        simulated.start(plan, ordinal)
    simulated.run_until(START_MS + 60_000)
    return plan.is_consuming and plan.member_count == plan.size


def test_the_same_seed_gives_the_same_history() -> None:
    histories = [new_simulated(60, seed) for seed in (4, 4, 5)]
    for each in histories:
        Incidents(each, START_MS)
        each.run_until(START_MS + DAY_MS // 4)
    first, second, other = histories
    assert first.events == second.events
    assert first.records == second.records
    assert first.events != other.events
    assert np.all(np.diff([event.wall_ms for event in first.events]) >= 0)
