"""Writes a history for given options: slice by slice of time, first the events and then the commits."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import numpy as np

from coordinator.effects import CoordinatorRecord
from coordinator.groups.partitioning import partition_for
from coordinator.groups.record_schemas import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coordinator.topics.catalogue import CatalogueEntry
from protocol.consumer import PROTOCOL_TYPE
from tools.simulate.clients import GroupPlan, new_plan
from tools.simulate.commit_batches import CommitKey, Templates, encode_commits, new_templates
from tools.simulate.consumption import Consumption, new_lanes
from tools.simulate.incidents import Incidents
from tools.simulate.log_files import SimulatedLogs
from tools.simulate.population import DEAD, Groups, Ints, Topics, new_groups, new_topics
from tools.simulate.production import DAY_MS, log_ends, partition_rates
from tools.simulate.sample import (
    Estimate,
    commits_per_second,
    estimate,
    evenly,
    evenly_within,
    events_per_day,
)
from tools.simulate.simulated_groups import SimulatedGroups

SLICE_MS: Final = 60_000
SLICE_MIN_MS: Final = 1_000
RECORDS_PER_SLICE: Final = 400_000  # More make a slice shorter: it is in memory at once.
TURN_MS: Final = 10  # A daemon with all of these groups would gather this much time into a batch.
TURN_MS_MAX: Final = 5_000
DEAD_SINCE_DAYS_MAX: Final = 6  # Days before the history in which dead groups may have ended.
SPARE: Final = 1.15  # Factor on the estimate of bytes, which includes indexes.
SPARE_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Options:
    """What to simulate; `end_ms` is where the history ends, in ms since 1970."""

    groups: int
    days: float
    end_ms: int
    seed: int = 0
    partitions: int = 50
    sample: float | None = None  # Share of groups with events; None: as `events_max` allows.
    events_max: int = 1_000_000
    commits_max: int = 20_000_000  # Offset records; groups beyond it have no commits.
    commit_days: float | None = None  # Days before the end with commits; None: all.
    log_ends_every_ms: int = 0  # 0: user topics have no log.

    @property
    def start_ms(self) -> int:
        return self.end_ms - round(self.days * DAY_MS)


@dataclass(frozen=True, slots=True)
class Choice:
    """The drawn population, and the numbers of the groups that are written."""

    topics: Topics
    groups: Groups
    with_events: Ints
    committing: Ints  # The groups of `with_events` that have commits as well.
    whole: Estimate  # The estimate if all groups were written.
    chosen: Estimate


@dataclass(slots=True)
class Simulated:
    """Counts of what was written."""

    commits: int = 0
    group_records: int = 0
    events: int = 0
    bytes: int = 0
    batches: int = 0


class NoRoom(Exception):
    """The disk has too little space; the message says how much is missing."""


def choose(options: Options) -> Choice:
    """Draw the population and choose the groups to write."""
    topics = new_topics(options.seed, options.groups)
    groups = new_groups(options.seed, options.groups, topics)
    commit_days = min(options.commit_days or options.days, options.days)
    everyone = np.arange(len(groups))
    events, commits = events_per_day(groups) * options.days, commits_per_second(groups, topics)
    if options.sample is None:
        with_events = evenly_within(events, options.events_max)
    else:
        with_events = evenly(events, max(round(options.sample * len(groups)), 1))
    committing = with_events[
        evenly_within(commits[with_events] * commit_days * DAY_MS / 1_000.0, options.commits_max)
    ]
    return Choice(
        topics,
        groups,
        with_events,
        committing,
        estimate(groups, topics, everyone, everyone, options.days, options.days),
        estimate(groups, topics, with_events, committing, options.days, commit_days),
    )


def refuse_without_room(choice: Choice, out: Path) -> None:
    """Raises NoRoom if the disk under `out` has less space left than the history will take."""
    folder = next(each for each in (out, *out.parents) if each.exists())
    free, wanted = shutil.disk_usage(folder).free, choice.chosen.bytes * SPARE + SPARE_BYTES
    if free < wanted:
        raise NoRoom(f"{out} would take about {wanted / 1e9:,.1f} GB, the disk has {free / 1e9:,.1f} GB left")


class Simulation:
    """Writes the history of `choice` into an empty folder; `run` does it all."""

    def __init__(self, options: Options, choice: Choice, out: Path) -> None:
        self.options = options
        self.choice = choice
        self.done = Simulated()
        self._commits_from_ms = options.end_ms - round((options.commit_days or options.days) * DAY_MS)
        groups, topics = choice.groups, choice.topics
        plans = {
            number: new_plan(groups, topics, number, partition_for(groups.names[number], options.partitions))
            for number in choice.with_events.tolist()
        }
        self.plans = list(plans.values())
        chosen = [plans[number] for number in choice.committing.tolist()]
        self._dead = [plan for plan in chosen if plan.kind == DEAD]
        committing = [plan for plan in chosen if plan.kind != DEAD]
        self.lanes = new_lanes(committing, groups, topics, options.start_ms)
        self._templates = self._new_templates()
        self._shards = np.array([plan.partition for plan in committing], np.int64)[self.lanes.plan]
        self.simulated = SimulatedGroups(self.plans, options.partitions, options.seed)
        self._logs = SimulatedLogs(out, options.partitions, options.seed, self._topic_entries())
        self._turn_ms = self._batch_turn_ms()

    def slices(self) -> list[tuple[int, int]]:
        """The slices of time as pairs of begin and end, in ms."""
        options = self.options
        expected = self.choice.chosen.commits / ((options.commit_days or options.days) * DAY_MS)  # Per ms.
        length = round(min(max(RECORDS_PER_SLICE / max(expected, 1e-9), SLICE_MIN_MS), SLICE_MS))
        begins = range(options.start_ms, options.end_ms, length)
        return [(begin, min(begin + length, options.end_ms)) for begin in begins]

    def run(self, advance: Callable[[int], None]) -> Simulated:
        """Write the whole history; `advance` is called with 1 after each slice. Raises StorageError."""
        simulated, logs = self.simulated, self._logs
        Incidents(simulated, self.options.start_ms)
        simulated.run_until(self.options.start_ms)
        self._write_beginning()
        consumption = Consumption(self.lanes)
        for begin_ms, end_ms in self.slices():
            simulated.run_until(end_ms)
            commits = consumption.commits(begin_ms, end_ms)
            self._write_slice(commits.lanes, commits.times_ms, commits.offsets, begin_ms)
            advance(1)
        self._write_log_ends()
        logs.close()
        self.done.bytes, self.done.batches = logs.bytes, logs.batches
        return self.done

    def _write_slice(self, lanes: Ints, times_ms: Ints, offsets: Ints, begin_ms: int) -> None:
        simulated = self.simulated
        if begin_ms < self._commits_from_ms:
            lanes, times_ms, offsets = lanes[:0], times_ms[:0], offsets[:0]
        shards = self._shards[lanes]
        batches = encode_commits(self._templates, shards, lanes, times_ms, offsets, self._turn_ms)
        self._logs.add_offsets(simulated.records, batches)
        self._logs.add_events(simulated.events, self._turn_ms)
        self.done.commits += len(lanes)
        self.done.group_records += len(simulated.records)
        self.done.events += len(simulated.events)
        simulated.records, simulated.events = [], []

    def _write_beginning(self) -> None:
        """Write what compaction has kept of earlier times: each group's newest record, dead groups' commits."""
        newest = {record.key.group: (when, part, record) for when, part, record in self.simulated.records}
        self.simulated.records, self.simulated.events = [], []
        chance = Random(f"dead {self.options.seed}")
        left = list(newest.values())
        ago_ms = min(DEAD_SINCE_DAYS_MAX, self.options.days) * DAY_MS
        for plan in self._dead:
            since_ms = self.options.start_ms - round(chance.random() * ago_ms)
            left += [
                (since_ms, plan.partition, record) for record in self._dead_group_records(plan, since_ms)
            ]
            self.done.commits += sum(count for _, count in plan.topics)
        left.sort(key=lambda each: each[0])
        self._logs.add_offsets(left, ())
        self.done.group_records += len(newest) + len(self._dead)

    def _dead_group_records(self, plan: GroupPlan, since_ms: int) -> Iterator[CoordinatorRecord]:
        """The records of a group whose last member left at `since_ms`: its offsets, then its Empty metadata."""
        topics = self.choice.topics
        for number in self.choice.groups.topics[plan.number]:
            for partition in range(int(topics.partitions[number])):
                (end,) = self._log_ends(number, partition, np.array([since_ms]))
                key = OffsetCommitKey(group=plan.group_id, topic=topics.names[number], partition=partition)
                yield CoordinatorRecord(
                    key,
                    OffsetCommitValue(
                        offset=int(end),
                        leader_epoch=0,
                        metadata="",
                        commit_timestamp=since_ms,
                        topic_id=topics.ids[number],
                    ),
                )
        value = GroupMetadataValue(
            protocol_type=PROTOCOL_TYPE,
            generation=plan.number % 50 + 1,
            protocol=None,
            leader=None,
            current_state_timestamp=since_ms,
            members=[],
        )
        yield CoordinatorRecord(GroupMetadataKey(group=plan.group_id), value)

    def _new_templates(self) -> Templates:
        lanes, topics = self.lanes, self.choice.topics
        columns = (lanes.plan.tolist(), lanes.topic.tolist(), lanes.partition.tolist())
        return new_templates(
            [
                CommitKey(lanes.plans[plan].group_id, topics.names[topic], partition, topics.ids[topic])
                for plan, topic, partition in zip(*columns, strict=True)
            ]
        )

    def _batch_turn_ms(self) -> int:
        """The span of a batch in ms; longer for a sample, so that its batches are about as full as all groups'."""
        share = self.choice.chosen.commits / max(self.choice.whole.commits, 1.0)
        return round(min(max(TURN_MS / max(share, 1e-9), TURN_MS), TURN_MS_MAX))

    def _topic_entries(self) -> list[CatalogueEntry]:
        """Catalogue entries of the topics read by groups with commits; none if no log ends are wanted."""
        if not self.options.log_ends_every_ms:
            return []
        topics = self.choice.topics
        numbers = sorted(
            {number for group in self.choice.committing for number in self.choice.groups.topics[group]}
        )
        forever = {"cleanup.policy": "compact"}  # Only a compacted topic may have gaps between offsets.
        return [
            CatalogueEntry(topics.names[n], topics.ids[n], int(topics.partitions[n]), forever)
            for n in numbers
        ]

    def _write_log_ends(self) -> None:
        options = self.options
        by_name = {name: number for number, name in enumerate(self.choice.topics.names)}
        times_ms = np.arange(options.start_ms, options.end_ms, options.log_ends_every_ms or DAY_MS)
        times_ms = np.append(times_ms, options.end_ms)
        for entry in self._topic_entries():
            for partition in range(entry.partitions):
                ends = self._log_ends(by_name[entry.name], partition, times_ms)
                self._logs.add_log_ends(entry, partition, zip(times_ms.tolist(), ends.tolist(), strict=True))

    def _log_ends(self, topic: int, partition: int, times_ms: Ints) -> Ints:
        topics = self.choice.topics
        rates = partition_rates(topics, np.array([topic]), np.array([partition]))
        return log_ends(rates, topics.peak_hours[[topic]], times_ms, self.options.start_ms)
