"""What happens to the groups, and how often: deployments, crashes, autoscaling, storms, outages, batch jobs.

Each kind of incident is a chain per group: an occurrence plans the next one. The numbers are in `docs/scale.md`.
"""

from __future__ import annotations

from typing import Final

from tools.simulate.clients import GroupPlan
from tools.simulate.population import DEAD, SPARSE
from tools.simulate.production import DAILY_SWING, DAY_MS, daily_level
from tools.simulate.simulated_groups import Action, SimulatedGroups

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000

WARM_UP_MS: Final = HOUR_MS
"""The groups start this long before the history begins, so that it does not open with a wave of joins."""

DEPLOY_EVERY_MS: Final = 4 * DAY_MS  # On average per group; more often in hours of much traffic.
ROLLING_SHARE: Final = 0.25  # The share of a group's processes replaced at once; at least one process.
RESTART_MS: Final = (8 * SECOND_MS, 40 * SECOND_MS)
CRASH_EVERY_MS: Final = 30 * DAY_MS  # On average per process.
REPLACED_MS: Final = (10 * SECOND_MS, 90 * SECOND_MS)
SCALED_BY: Final = 0.5
STORM_EVERY_MS: Final = 2 * DAY_MS
STORM_MS: Final = (20 * MINUTE_MS, 2 * HOUR_MS)
OVERSTAY_EVERY_MS: Final = (15 * SECOND_MS, 60 * SECOND_MS)
OVERSTAYED_MS: Final = (SECOND_MS, 30 * SECOND_MS)
STALL_EVERY_MS: Final = 14 * DAY_MS
STALL_MS: Final = (10 * MINUTE_MS, 4 * HOUR_MS)
JOB_EVERY_MS: Final = 4 * HOUR_MS
JOB_MS: Final = (40 * SECOND_MS, 8 * MINUTE_MS)


class Incidents:
    """Plans all incidents of the groups of `simulated`, from `start_ms` on."""

    def __init__(self, simulated: SimulatedGroups, start_ms: int) -> None:
        self._simulated = simulated
        self._chance = simulated.chance
        simulated.now_ms = start_ms - max(WARM_UP_MS, JOB_EVERY_MS)
        for plan in simulated.plans:
            if plan.kind == SPARSE:
                simulated.after(0, JOB_EVERY_MS, self._job, plan)
            elif plan.kind != DEAD:
                self._begin(plan, start_ms)

    def _begin(self, plan: GroupPlan, start_ms: int) -> None:
        simulated, chance = self._simulated, self._chance
        up_ms = start_ms - round(chance.uniform(0.2, 0.9) * WARM_UP_MS)
        for ordinal in range(plan.size):
            simulated.at(up_ms + chance.randrange(20 * SECOND_MS), simulated.start, plan, ordinal)
        simulated.at(start_ms, self._next, DEPLOY_EVERY_MS, self._maybe_deploy, plan)
        simulated.at(start_ms, self._next, CRASH_EVERY_MS / plan.size, self._crash, plan)
        simulated.at(start_ms, self._next, STALL_EVERY_MS, self._stall, plan)
        if plan.is_stormy:
            simulated.at(start_ms, self._next, STORM_EVERY_MS, self._storm, plan)
        if plan.scales:
            self._plan_scaling(plan, start_ms)

    def _next(self, mean_ms: float, action: Action, plan: GroupPlan) -> None:
        """Plan the next `action` after an exponentially distributed interval with this mean."""
        self._simulated.at(
            self._simulated.now_ms + round(self._chance.expovariate(1 / mean_ms)), action, plan
        )

    def _maybe_deploy(self, plan: GroupPlan) -> None:
        likely = daily_level(plan.peak_hour, self._simulated.now_ms) / (1 + DAILY_SWING)
        if self._chance.random() < likely and not plan.is_deploying:
            plan.is_deploying = True
            self._deploy(plan, sorted(plan.clients))
        self._next(DEPLOY_EVERY_MS / 2, self._maybe_deploy, plan)  # Half of the attempts lead to one.

    def _deploy(self, plan: GroupPlan, ordinals: list[int]) -> None:
        """Replace some processes; when they have restarted, replace the next ones."""
        at_once = max(round(len(plan.clients) * ROLLING_SHARE), 1)
        now, later = ordinals[:at_once], ordinals[at_once:]
        back_ms = self._simulated.now_ms
        for ordinal in now:
            client = plan.clients.get(ordinal)
            if client is None or not client.is_up:
                continue  # Removed by scaling meanwhile, or restarting after a crash.
            self._simulated.stop(client)
            up_ms = self._simulated.now_ms + self._chance.randint(*RESTART_MS)
            self._simulated.at(up_ms, self._simulated.start, plan, ordinal)
            back_ms = max(back_ms, up_ms)
        if later:
            self._simulated.at(
                back_ms + self._chance.randint(SECOND_MS, 10 * SECOND_MS), self._deploy, plan, later
            )
        else:
            plan.is_deploying = False

    def _crash(self, plan: GroupPlan) -> None:
        up = [client for client in plan.clients.values() if client.is_up]
        if up:
            client = self._chance.choice(up)
            self._simulated.crash(client)
            self._simulated.after(*REPLACED_MS, self._simulated.start, plan, client.ordinal)
        self._next(CRASH_EVERY_MS / plan.size, self._crash, plan)

    def _plan_scaling(self, plan: GroupPlan, start_ms: int) -> None:
        """Plan for every day to scale out some hours before the peak, and in again some hours after it."""
        day_ms = start_ms - start_ms % DAY_MS
        for hours, action in ((-5.0, self._scale_out), (5.0, self._scale_in)):
            hour_ms = round((plan.peak_hour + hours + self._chance.uniform(-1.0, 1.0)) * HOUR_MS) % DAY_MS
            first_ms = day_ms + hour_ms + (DAY_MS if day_ms + hour_ms < start_ms else 0)
            self._simulated.at(first_ms, self._daily, action, plan)

    def _daily(self, action: Action, plan: GroupPlan) -> None:
        action(plan)
        self._simulated.at(self._simulated.now_ms + DAY_MS, self._daily, action, plan)

    def _extra_ordinals(self, plan: GroupPlan) -> range:
        """Ordinals of the processes that scaling adds to the group, no more than there are partitions to read."""
        lanes = sum(count for _, count in plan.topics)
        return range(plan.size, min(plan.size + max(round(plan.size * SCALED_BY), 1), lanes))

    def _scale_out(self, plan: GroupPlan) -> None:
        for ordinal in self._extra_ordinals(plan):
            self._simulated.after(0, 30 * SECOND_MS, self._simulated.start, plan, ordinal)

    def _scale_in(self, plan: GroupPlan) -> None:
        for ordinal in self._extra_ordinals(plan):
            client = plan.clients.pop(ordinal, None)
            if client is not None:
                self._simulated.after(0, 5 * SECOND_MS, self._simulated.stop, client)

    def _storm(self, plan: GroupPlan) -> None:
        plan.storm_until_ms = self._simulated.now_ms + self._chance.randint(*STORM_MS)
        self._overstay(plan)
        self._next(STORM_EVERY_MS, self._storm, plan)

    def _overstay(self, plan: GroupPlan) -> None:
        """While the storm lasts, let one member after the other exceed max.poll.interval.ms between two polls."""
        if self._simulated.now_ms >= plan.storm_until_ms or not plan.clients:
            return
        client = self._chance.choice(list(plan.clients.values()))
        self._simulated.overstay(client, self._chance.randint(*OVERSTAYED_MS))
        self._simulated.after(*OVERSTAY_EVERY_MS, self._overstay, plan)

    def _stall(self, plan: GroupPlan) -> None:
        plan.is_stalled = True
        self._simulated.after(*STALL_MS, self._recover, plan)

    def _recover(self, plan: GroupPlan) -> None:
        plan.is_stalled = False
        self._next(STALL_EVERY_MS, self._stall, plan)

    def _job(self, plan: GroupPlan) -> None:
        """Run a batch job every few hours: its members join, read and leave."""
        simulated = self._simulated
        end_ms = simulated.now_ms + self._chance.randint(*JOB_MS)
        for ordinal in range(plan.size):
            simulated.after(0, 5 * SECOND_MS, simulated.start, plan, ordinal)
            simulated.at(end_ms + self._chance.randrange(3 * SECOND_MS), self._end_job, plan, ordinal)
        simulated.at(simulated.now_ms + JOB_EVERY_MS, self._job, plan)

    def _end_job(self, plan: GroupPlan, ordinal: int) -> None:
        if client := plan.clients.pop(ordinal, None):
            self._simulated.stop(client)
