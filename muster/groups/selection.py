"""Which groups a command is about: those named, those whose whole id an expression matches, or all.

Expressions are RE2's, as the daemon compiles those of subscriptions: none takes long on any id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Final

from cyclopts import Parameter

from coordinator.groups.consumer.expressions import InvalidExpression, compiled
from muster.cluster import Cluster
from muster.groups.admin import GroupListing, list_groups
from muster.usage import UsageError
from protocol.consumer import PROTOCOL_TYPE

STATES: Final = (
    "Empty",
    "Assigning",
    "Reconciling",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
)
TYPES: Final = ("Classic", "Consumer", "Share", "Streams")


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ListFilter:
    """The options that say which groups are listed."""

    state: Annotated[list[str] | None, Parameter(negative="", help="only in these states: Stable,Empty")] = (
        None
    )
    type: Annotated[
        list[str] | None, Parameter(negative="", help="only of these types: classic,consumer")
    ] = None
    match: Annotated[str | None, Parameter(help="only those whose whole id this expression matches")] = None

    def wanted(self) -> Callable[[GroupListing], bool]:
        """Whether a group is to be listed. Raises UsageError, also for a state or a type that there is not."""
        states = names("state", self.state, STATES)
        types = names("type", self.type, TYPES)
        matches = matcher(self.match) if self.match is not None else None

        def is_wanted(group: GroupListing) -> bool:
            return (
                (not states or group.state.lower() in states)
                and (not types or group.group_type.lower() in types)
                and (matches is None or matches(group.group_id))
            )

        return is_wanted


def names(option: str, given: Iterable[str] | None, known: Iterable[str]) -> frozenset[str]:
    """The names in texts like `a,b`, in small letters. Raises UsageError for one that is not `known`."""
    found = [name.strip() for text in given or () for name in text.split(",")]
    lower = {name.lower() for name in known}
    if wrong := [name for name in found if name.lower() not in lower]:
        raise UsageError(f"--{option} {wrong[0]!r} must be one of {', '.join(known)}")
    return frozenset(name.lower() for name in found)


def matcher(expression: str) -> Callable[[str], bool]:
    """Whether the expression matches the whole of an id. Raises UsageError for one that does not compile."""
    try:
        regex = compiled(expression)
    except InvalidExpression as error:
        raise UsageError(f"--match {expression}: {error}") from None
    return lambda group_id: regex.fullmatch(group_id) is not None


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Several:
    """The options in the place of the names of groups."""

    match: Annotated[
        str | None, Parameter(help="the groups whose whole id this expression (RE2) matches")
    ] = None
    all_groups: Annotated[
        bool, Parameter(name=("--all-groups", "--all"), negative="", help="all groups of consumers")
    ] = False

    @property
    def is_given(self) -> bool:
        return self.match is not None or self.all_groups

    def check(self, named: Iterable[str]) -> None:
        """Raises UsageError unless groups are said in exactly one way."""
        if [bool(tuple(named)), self.match is not None, self.all_groups].count(True) != 1:
            raise UsageError("name groups, or give either --match or --all-groups")

    async def chosen(self, cluster: Cluster, named: Iterable[str]) -> list[str]:
        """The ids of the groups, each once; sorted unless they were named. Raises UsageError and ClusterError."""
        self.check(named)
        if not self.is_given:
            return list(dict.fromkeys(named))
        matches = matcher(self.match) if self.match is not None else None
        return [
            group.group_id
            for group in await list_groups(cluster)
            if is_of_consumers(group) and (matches is None or matches(group.group_id))
        ]


def is_of_consumers(group: GroupListing) -> bool:
    """Whether its members are consumers, or it only holds offsets: so no Connect cluster, no share group."""
    return group.protocol_type in ("", PROTOCOL_TYPE)
