"""What the members of a consumer group subscribe to, counted: by name, and by regular expression (A36, A37).

Counts follow the members one by one, so that no question costs a walk over all of them. `supposing` answers for
a group in which one member is another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import ne
from typing import Final, NamedTuple

from coordinator.groups.consumer.java_order import (
    JavaTable,
    TimelineTable,
    copied_table,
    count_computed,
    count_names,
    string_hash,
)
from coordinator.groups.consumer.member import ConsumerMember

MANY: Final = 100
"""Names that are counted one by one; for more of them `Counter.update` is quicker, by half."""


class ResolvedRegex(NamedTuple):
    """The topics that matched a regular expression: in which version of the metadata, and when."""

    topics: tuple[str, ...]
    version: int
    wall_ms: int


@dataclass(slots=True)
class Subscriptions:
    """Number of members that subscribe to each topic by its name, and by each expression; what those match."""

    by_name: Counter[str] = field(default_factory=Counter)
    by_regex: Counter[str] = field(default_factory=Counter)
    resolved: dict[str, ResolvedRegex] = field(default_factory=dict)
    by_match: Counter[str] = field(default_factory=Counter)  # How many resolved expressions match each topic.
    regex_table: TimelineTable = field(default_factory=TimelineTable)  # The order of the expressions.
    size: int = 0  # `size_of` all members, added up.

    def change(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        """Count a member as it is now, and no longer as it was; None for none."""
        self.size += self.size_of(after) - self.size_of(before)
        self._count_names(before, after)
        count_names(self.by_regex, self.regex_table, _regex(before), _regex(after))

    def size_of(self, member: ConsumerMember | None) -> int:
        """Number of topics that a member names, and of those that its expression matches; 0 for no member."""
        if member is None:
            return 0
        resolved = self.resolved.get(member.topic_regex) if member.topic_regex else None
        return len(member.topic_names) + (0 if resolved is None else len(resolved.topics))

    def _count_names(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        old = () if before is None else before.topic_names
        new = () if after is None else after.topic_names
        if old is not new:
            _subtract(self.by_name, old)
            _add(self.by_name, new)

    @contextmanager
    def supposing(self, before: ConsumerMember | None, after: ConsumerMember | None) -> Iterator[None]:
        """Count a change as long as the block runs, and not what an expression without members matched."""
        old, new = _regexes(before), _regexes(after)
        self._count_names(before, after)
        _subtract(self.by_regex, old)
        _add(self.by_regex, new)
        unused = "" if not old or old[0] in self.by_regex else old[0]
        matched = self.resolved.get(unused)
        self.resolve(unused, None)
        try:
            yield
        finally:
            self.resolve(unused, matched)  # While no member has it, as above: so `size` stays as it is.
            self._count_names(after, before)
            _subtract(self.by_regex, new)
            _add(self.by_regex, old)

    def regexes_with(self, before: ConsumerMember, after: ConsumerMember) -> list[str]:
        """The expressions that members have once one of them is another, in the order of their table."""
        counts = dict(self.by_regex)
        table = copied_table(self.regex_table, len(counts))
        count_computed(counts, table, before.topic_regex or None, after.topic_regex or None)
        return list(table)

    def resolve(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """Keep what an expression matches; None to forget it."""
        before, member_count = self.resolved.pop(regex, None), self.by_regex[regex]
        old = () if before is None else before.topics
        new = () if resolved is None else resolved.topics
        if resolved is not None:
            self.resolved[regex] = resolved
        self.size += member_count * (len(new) - len(old))
        lost, gained = _trimmed(old, new)
        _subtract(self.by_match, lost)
        _add(self.by_match, gained)

    def topics(self) -> set[str]:
        """The names of all topics that members subscribe to, whether they exist or not."""
        return self.by_name.keys() | self.by_match.keys()

    def topics_of(self, member: ConsumerMember, names: Iterable[str]) -> list[str]:
        """All topics that `member` subscribes to, in the order in which a broker walks them.

        `names` are those that it names itself, in the order of their set.
        """
        names = list(names)
        resolved = self.resolved.get(member.topic_regex) if member.topic_regex else None
        if resolved is None or not resolved.topics:
            return names
        matches = list(JavaTable.of_list(string_hash, resolved.topics))
        first, second = (names, matches) if len(names) > len(matches) else (matches, names)
        return list(dict.fromkeys((*first, *second)))

    def are_homogeneous(self, member_count: int) -> bool:
        """Whether all members subscribe to the same, as far as a broker looks (A37).

        What an expression matched counts until the expression is forgotten, even if no member has it any more.
        """
        if not self.by_regex:
            are_by_all = set(self.by_name.values()) <= {member_count}
            return are_by_all and (member_count == 0 or self.by_match.keys() <= self.by_name.keys())
        if [*self.by_regex.values()] != [member_count]:
            return False
        return not self.by_name and all(count == 1 for count in self.by_match.values())


def _regex(member: ConsumerMember | None) -> str | None:
    return None if member is None else member.topic_regex or None


def _regexes(member: ConsumerMember | None) -> tuple[str, ...]:
    regex = _regex(member)
    return () if regex is None else (regex,)


def _trimmed(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Both without the names that they begin with alike, and end with alike.

    Of 10,000 that are in order, with a new one among them, this leaves that one, in a tenth of the time that it
    takes to count them all anew.
    """
    begin = _common(old, new)
    old, new = old[begin:], new[begin:]
    end = _common(old[::-1], new[::-1])
    return old[: len(old) - end], new[: len(new) - end]


def _common(old: tuple[str, ...], new: tuple[str, ...]) -> int:
    return next(
        (number for number, is_other in enumerate(map(ne, old, new)) if is_other), min(len(old), len(new))
    )


def _add(counts: Counter[str], names: Collection[str]) -> None:
    if len(names) > MANY:
        counts.update(names)
        return
    for name in names:  # `Counter.update` takes longer to begin.
        counts[name] += 1


def _subtract(counts: Counter[str], names: Iterable[str]) -> None:
    for name in names:
        counts[name] -= 1
        if not counts[name]:
            del counts[name]
