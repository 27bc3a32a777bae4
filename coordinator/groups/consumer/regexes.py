"""Subscriptions by regular expression: their changes, and the runs that find out what they match (A45 to A49).

A run reads the names of all topics, so it is no part of a heartbeat: a heartbeat asks for it, another thread
does it, and its result is an event of its own. The rebalance that it may lead to is driven by heartbeats again.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass
from enum import Enum, unique
from typing import Final

from coordinator.effects import Effects, Moment, outcome_of
from coordinator.groups.causes import Cause, CauseKind
from coordinator.groups.consumer.events import Standing
from coordinator.groups.consumer.expressions import TOO_LARGE, InvalidExpression, compiled
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.java_order import JavaTable, string_hash
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.records import new_epoch_record, new_regex_record, new_regex_tombstone
from coordinator.groups.consumer.refusal import Refused
from coordinator.groups.consumer.shard_groups import ConsumerGroups
from coordinator.groups.consumer.states import GroupState
from coordinator.groups.consumer.subscriptions import ResolvedRegex
from coordinator.groups.consumer.waited_for import listed
from coordinator.groups.consumer.watched_topics import CHANGES_MAX
from protocol.errors import ErrorCode

BETWEEN_RUNS_MS: Final = 10_000
"""The least time between two runs of one group (A47)."""

SHOWN_CHARS: Final = 64
"""Characters of an expression that a reason shows, so that there is room for topics."""

LOGGED_CHARS: Final = 100
"""Of an expression and of a group that the daemon's log names."""


@unique
class RegexChange(Enum):
    """What a heartbeat does to its member's expression."""

    NONE = "none"
    UNRESOLVED = "changed, and what it matches is not known yet"
    RESOLVED = "changed, and what it matches is known"


@dataclass(frozen=True, slots=True)
class ResolveRegexes:
    """A run: which of the topics, as they were in `version` at `wall_ms`, match each of `regexes`."""

    group_id: str
    regexes: tuple[str, ...]
    topics: tuple[str, ...]
    version: int
    wall_ms: int
    before: Mapping[str, tuple[str, ...]]  # What each matched when it was last found out.

    def run(self) -> RegexesResolved:
        """Return what each expression matches, however long that takes."""
        resolved: RegexesResolved = outcome_of(self.steps())
        return resolved

    def steps(self) -> Generator[str, bool, RegexesResolved]:
        """Find out what each expression matches, a name at a time: each is a step (`SlicedWork`).

        One that is given up, or is too large for Muster, matches what it did before.
        """
        found = {}
        for regex in self.regexes:
            topics = yield from self._matching(regex)
            found[regex] = ResolvedRegex(topics, self.version, self.wall_ms)
        return RegexesResolved(self.group_id, found)

    def _matching(self, regex: str) -> Generator[str, bool, tuple[str, ...]]:
        step = f"expression {regex[:LOGGED_CHARS]} of group {self.group_id[:LOGGED_CHARS]}"
        if (yield step):
            return self.before.get(regex, ())
        try:
            pattern = compiled(regex)
        except InvalidExpression as wrong:  # It came with another broker's log, whose library took it.
            return self.before.get(regex, ()) if str(wrong) == TOO_LARGE else ()  # () as in Kafka.
        matches = []
        for topic in self.topics:
            if pattern.fullmatch(topic):
                matches.append(topic)
            if (yield step):
                return self.before.get(regex, ())
        return tuple(matches)


@dataclass(frozen=True, slots=True)
class RegexesResolved:
    """The result of a run, which began at `wall_ms` with the topics of `version`; in the order of `regexes`."""

    group_id: str
    resolved: Mapping[str, ResolvedRegex]


def change_regex(
    group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, effects: Effects
) -> RegexChange:
    """Say what a member's new expression, if it has one, does. Raises Refused: INVALID_REGULAR_EXPRESSION."""
    old, new, subscribers = before.topic_regex, after.topic_regex, group.subscriptions.by_regex
    if old == new:
        return RegexChange.NONE
    if old and subscribers[old] == 1:
        effects.records.append(new_regex_tombstone(group.group_id, old))
    if not new:
        return RegexChange.RESOLVED
    if not subscribers[new]:
        _check(new)
        return RegexChange.UNRESOLVED
    return RegexChange.RESOLVED if new in group.subscriptions.resolved else RegexChange.UNRESOLVED


def _check(regex: str) -> None:
    try:
        compiled(regex)
    except InvalidExpression as wrong:
        message = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {wrong}."
        raise Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None


def maybe_resolve(
    shard: ConsumerGroups,
    group: ConsumerGroup,
    before: ConsumerMember,
    after: ConsumerMember,
    at: Moment,
    effects: Effects,
) -> None:
    """Ask for a run, if one is due and none is under way (A47)."""
    subscriptions, soft = group.subscriptions, shard.soft(group.group_id)
    is_new = bool(after.topic_regex) and not subscriptions.by_regex[after.topic_regex]
    if soft.is_resolving or not (is_new or subscriptions.by_regex):
        return
    last = next(iter(subscriptions.resolved.values()), None)
    if last is not None and 0 <= at.wall_ms - last.wall_ms <= BETWEEN_RUNS_MS:  # Else the clock was set back.
        return
    regexes = subscriptions.regexes_with(before, after)
    is_due = is_new or len(regexes) != len(subscriptions.resolved)
    is_due = is_due or (0 if last is None else last.version) < shard.topics.version_with_new_topics
    if last is not None:
        is_due = is_due or at.wall_ms > last.wall_ms + shard.settings.regex_refresh_interval_ms
    if is_due and regexes:
        soft.is_resolving = True
        topics, order = shard.topics, in_run_order(regexes)
        before_run = {regex: resolved.topics for regex, resolved in subscriptions.resolved.items()}
        run = ResolveRegexes(
            group.group_id, order, tuple(topics.names()), topics.version, at.wall_ms, before_run
        )
        effects.background.append(run)


def in_run_order(regexes: Collection[str]) -> tuple[str, ...]:
    """The order in which the result of a run is written: that of two tables which are made for as many."""
    for _ in range(2):
        table = JavaTable(string_hash, len(regexes))
        for regex in regexes:
            table.put(regex)
        regexes = list(table)
    return tuple(regexes)


def on_regexes_resolved(shard: ConsumerGroups, event: RegexesResolved, at: Moment, effects: Effects) -> None:
    """Write what a run found for expressions that members still have; raise the epoch if it is new (A46)."""
    soft, group = shard.known_soft(event.group_id), shard.groups.get(event.group_id)
    if soft is not None:
        soft.is_resolving = False
    if soft is None or group is None:
        return
    subscriptions, is_changed = group.subscriptions, False
    topics = subscriptions.by_match.copy()
    for regex, resolved in event.resolved.items():
        if not subscriptions.by_regex[regex]:
            continue
        before = subscriptions.resolved.get(regex)
        is_changed = is_changed or set(resolved.topics) != set(() if before is None else before.topics)
        topics.subtract(() if before is None else before.topics)
        topics.update(resolved.topics)
        effects.records.append(new_regex_record(group.group_id, regex, resolved))
    names = subscriptions.by_name.keys() | {topic for topic, count in topics.items() if count > 0}
    metadata_hash, changes = shard.hash_of(names), matched_otherwise(subscriptions.resolved, event.resolved)
    if metadata_hash != soft.topics.metadata_hash:
        images = shard.images(sorted(names))
        changes = changes or soft.topics.changes(group.metadata_hash, images)
        soft.topics.watch(metadata_hash, images)
    if is_changed or metadata_hash != group.metadata_hash:
        effects.records.append(new_epoch_record(group.group_id, group.epoch + 1, metadata_hash))
        soft.refreshed(at.now_ms, group.epoch + 1, shard.topics.version)
        after = Standing(group.epoch + 1, GroupState.ASSIGNING, len(group.members))
        soft.course.releases.begin_anew(group.epoch + 1)
        soft.course.record(group, after, Cause(CauseKind.EXPRESSION_RESOLVED, changes), at, effects)


def matched_otherwise(before: Mapping[str, ResolvedRegex], after: Mapping[str, ResolvedRegex]) -> str | None:
    """Say which topics each expression gained and lost, in words; None if it is none."""
    told = []
    for regex, resolved in after.items():
        former = before[regex].topics if regex in before else ()
        gained, lost = sorted({*resolved.topics} - {*former}), sorted({*former} - {*resolved.topics})
        shown = regex if len(regex) <= SHOWN_CHARS else regex[: SHOWN_CHARS - 1] + "…"
        told += [f"{shown} gained {listed(gained, CHANGES_MAX)}"] if gained else []
        told += [f"{shown} lost {listed(lost, CHANGES_MAX)}"] if lost else []
    return listed(told, CHANGES_MAX) if told else None
