"""A group at one moment, in a few figures: what `wait`, `watch` and `top` look at again and again."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from muster.cluster import Cluster
from muster.groups.descriptions import DEAD, GroupDescription, NoSuchGroupError, describe_group
from muster.groups.many import describe_groups


@dataclass(frozen=True, slots=True)
class Sight:
    """What a group was like at `at_ms`. A group that is not there is Dead and has nothing.

    `lag` sums the partitions of which it is known, `unmeasured` counts the others: nothing is committed there, or
    the log's end is not known. `beyond_end` counts those with a commit beyond it; they add nothing to the lag, for
    what they lack would hide what others have to read. `members` are client ids with member ids, sorted.
    """

    group_id: str
    at_ms: int
    state: str = DEAD
    members: tuple[tuple[str, str], ...] = ()
    lag: int = 0
    unmeasured: int = 0
    partitions: int = 0
    group_epoch: int | None = None
    beyond_end: int = 0

    @property
    def changes(self) -> tuple[object, ...]:
        """What is a change of the group if it is another than before."""
        return self.state, self.members, self.group_epoch


def sight_of(group: GroupDescription, at_ms: int) -> Sight:
    """The figures of a description."""
    lags = [row.lag for row in group.progress]
    return Sight(
        group.group_id,
        at_ms,
        group.state,
        tuple(sorted((member.client_id, member.member_id) for member in group.members)),
        sum(lag for lag in lags if lag is not None and lag > 0),
        lags.count(None),
        len(lags),
        group.group_epoch,
        sum(lag is not None and lag < 0 for lag in lags),
    )


async def look(cluster: Cluster, group_id: str) -> Sight:
    """The group as it is now. Raises ClusterError."""
    at_ms = time.time_ns() // 1_000_000
    try:
        return sight_of(await describe_group(cluster, group_id), at_ms)
    except NoSuchGroupError:
        return Sight(group_id, at_ms)


async def look_at(cluster: Cluster, group_ids: Iterable[str]) -> list[Sight]:
    """Each of the groups as it is now. Raises ClusterError."""
    at_ms = time.time_ns() // 1_000_000
    wanted = list(group_ids)
    found = await describe_groups(cluster, wanted)
    return [sight_of(found[name], at_ms) if name in found else Sight(name, at_ms) for name in wanted]
