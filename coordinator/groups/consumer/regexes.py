"""Subscriptions by regular expression: their changes, and the runs that find out what they match (A45 to A49).

A run reads the names of all topics, so it is no part of a heartbeat: a heartbeat asks for it, another thread
does it, and its result is an event of its own. The rebalance that it may lead to is driven by heartbeats again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass, field
from enum import Enum, unique
from typing import Final, NamedTuple

from coordinator.effects import Effects, Moment, outcome_of
from coordinator.groups.causes import Cause, CauseKind, cut, listed
from coordinator.groups.consumer.events import Standing
from coordinator.groups.consumer.expressions import TOO_LARGE, InvalidExpression, compiled
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.java_order import JavaTable, java_sorted, string_hash
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.records import new_epoch_record, new_regex_record, new_regex_tombstone
from coordinator.groups.consumer.refusal import Refused
from coordinator.groups.consumer.shard_groups import ConsumerGroups
from coordinator.groups.consumer.states import GroupState
from coordinator.groups.consumer.subscriptions import ResolvedRegex, Subscriptions
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


class MatchChange(NamedTuple):
    """How the topics that an expression matches differ from those that it matched, `former`; in order."""

    former: tuple[str, ...]
    gained: list[str]
    lost: list[str]


def match_change(former: tuple[str, ...], topics: tuple[str, ...]) -> MatchChange:
    """Compare what an expression matched with what it matches."""
    if former == topics:  # As a rule, and a hundred times as quick: both are in the same order.
        return MatchChange(former, [], [])
    before, now = set(former), set(topics)
    gained = sorted([each for each in topics if each not in before])
    return MatchChange(former, gained, sorted([each for each in former if each not in now]))


@dataclass(frozen=True, slots=True)
class ResolveRegexes:
    """A run: which of the topics, as they were in `version` at `wall_ms`, match each of `regexes`.

    What the loop is to do with the result is prepared here, as far as it takes long with many topics.
    """

    group_id: str
    regexes: tuple[str, ...]
    topics: tuple[str, ...]
    version: int
    wall_ms: int
    before: Mapping[str, tuple[str, ...]]  # What each matched when it was last found out.
    keep_hash: Callable[[str], None]  # Has the hash of a topic ready for that of the group.

    def run(self) -> RegexesResolved:
        """Return what each expression matches, however long that takes."""
        resolved: RegexesResolved = outcome_of(self.steps())
        return resolved

    def steps(self) -> Generator[str, bool, RegexesResolved]:
        """Find out what each expression matches, a name at a time: each is a step (`SlicedWork`).

        One that is given up, or is too large for Muster, matches what it did before.
        """
        found, changes = {}, {}
        names = java_sorted(self.topics)  # So are the matches, then, as their records have them.
        for regex in self.regexes:
            topics = yield from self._matching(regex, names)
            found[regex] = ResolvedRegex(topics, self.version, self.wall_ms)
            changes[regex] = match_change(self.before.get(regex, ()), topics)
        yield from self._keep_hashes({topic for change in changes.values() for topic in change.gained})
        return RegexesResolved(self.group_id, found, changes)

    def _keep_hashes(self, topics: Collection[str]) -> Generator[str, bool, None]:
        step = f"hashes of topics of group {self.group_id[:LOGGED_CHARS]}"
        for topic in topics:
            self.keep_hash(topic)
            if (yield step):
                return  # Those that are missing are computed when the group's is.

    def _matching(self, regex: str, names: list[str]) -> Generator[str, bool, tuple[str, ...]]:
        step = f"expression {regex[:LOGGED_CHARS]} of group {self.group_id[:LOGGED_CHARS]}"
        if (yield step):
            return self.before.get(regex, ())
        try:
            pattern = compiled(regex)
        except InvalidExpression as wrong:  # It came with another broker's log, whose library took it.
            return self.before.get(regex, ()) if str(wrong) == TOO_LARGE else ()  # () as in Kafka.
        matches = []
        for topic in names:
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
    changes: Mapping[str, MatchChange] = field(default_factory=dict)  # From what the run knew before.


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
    change: tuple[ConsumerMember, ConsumerMember],
    at: Moment,
    effects: Effects,
    describes: Callable[[str], bool] | None = None,
) -> None:
    """Ask for a run, if one is due and none is under way (A47); `change` is the member before and after.

    What is found is the group's. As in Kafka, topics are left out that the client whose request asks for the run
    may not know of (`describes`).
    """
    before, after = change
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
            group.group_id,
            order,
            tuple(topics.names() if describes is None else filter(describes, topics.names())),
            topics.version,
            at.wall_ms,
            before_run,
            shard.keep_hash,
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
    changes = _write(group, event, effects)
    images = shard.images(java_sorted(_names_with(group.subscriptions, changes.values())))
    metadata_hash, words = shard.hash_of_images(images), matched_otherwise(changes)
    if metadata_hash != soft.topics.metadata_hash:
        words = words or soft.topics.changes(group.metadata_hash, images)
        soft.topics.watch(metadata_hash, images)
    is_changed = any(change.gained or change.lost for change in changes.values())
    if is_changed or metadata_hash != group.metadata_hash:
        effects.records.append(new_epoch_record(group.group_id, group.epoch + 1, metadata_hash))
        soft.refreshed(at.now_ms, group.epoch + 1, shard.topics.version)
        after = Standing(group.epoch + 1, GroupState.ASSIGNING, len(group.members))
        soft.course.begin_event(group)
        soft.course.releases.begin_anew(group.epoch + 1)
        soft.course.record(group, after, Cause(CauseKind.EXPRESSION_RESOLVED, words), at, effects)


def _write(group: ConsumerGroup, event: RegexesResolved, effects: Effects) -> dict[str, MatchChange]:
    """Record what was found for each expression that a member still has; return how that differs from before."""
    subscriptions, changes = group.subscriptions, {}
    for regex, resolved in event.resolved.items():
        if not subscriptions.by_regex[regex]:
            continue
        before, change = subscriptions.resolved.get(regex), event.changes.get(regex)
        former = () if before is None else before.topics
        if change is None or change.former != former:  # It was forgotten, while the run was on.
            change = match_change(former, resolved.topics)
        changes[regex] = change
        effects.records.append(new_regex_record(group.group_id, regex, resolved))
    return changes


def _names_with(subscriptions: Subscriptions, changes: Collection[MatchChange]) -> set[str]:
    """The topics that members subscribe to, once their expressions match what they do by now."""
    names = subscriptions.topics()
    lost: Counter[str] = Counter()
    for change in changes:
        lost.update(change.lost)
    names -= {
        topic
        for topic, count in lost.items()
        if count >= subscriptions.by_match[topic] and topic not in subscriptions.by_name
    }
    return names.union(*(change.gained for change in changes))


def matched_otherwise(changes: Mapping[str, MatchChange]) -> str | None:
    """Say which topics each expression gained and lost, in words; None if it is none."""
    found: list[str] = []
    for regex, (_, gained, lost) in changes.items():
        shown = cut(regex, SHOWN_CHARS)
        found += [f"{shown} gained {listed(gained[:CHANGES_MAX], len(gained))}"] if gained else []
        found += [f"{shown} lost {listed(lost[:CHANGES_MAX], len(lost))}"] if lost else []
    return listed(found[:CHANGES_MAX], len(found)) if found else None
