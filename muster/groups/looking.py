"""Looks at groups again and again, also over a restart of the cluster: what `watch` and `top` ask.

The first look has to succeed: a cluster that is not there at the start is more likely a wrong address. Later ones
that fail are said once, and a new connection is made for the next.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final

from muster.cluster import Cluster, ClusterError, UnreachableError
from muster.connection import Endpoint
from muster.groups.descriptions import DEAD
from muster.groups.selection import Several
from muster.groups.sights import Sight, look_at
from muster.sentences import remark

BACK: Final = "the cluster answers again"


class Looking:
    """A connection to a cluster, made anew after it was lost; `say` is given what stands in the way, once."""

    def __init__(
        self,
        endpoint: Endpoint,
        chosen: Several,
        named: tuple[str, ...],
        say: Callable[[str], None] = remark,
    ) -> None:
        self._endpoint = endpoint
        self._chosen = chosen
        self._named = named
        self._say = say
        self._open = AsyncExitStack()
        self._has_looked = False
        self.cluster: Cluster | None = None
        self.problem: str | None = None

    async def __aenter__(self) -> Looking:
        await self._connected()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.aclose()

    async def look(self, before: dict[str, Sight]) -> dict[str, Sight] | None:
        """Each group as it is, with those that were there `before` and are gone; None while nobody answers.

        Raises ClusterError if not even the first look succeeds.
        """
        try:
            cluster = await self._connected()
            there_before = [group_id for group_id, sight in before.items() if sight.state != DEAD]
            group_ids = dict.fromkeys([*await self._chosen.chosen(cluster, self._named), *there_before])
            seen = {sight.group_id: sight for sight in await look_at(cluster, group_ids)}
        except ClusterError as error:
            if not self._has_looked:
                raise
            await self._lost(error)
            return None
        if self.problem is not None:
            self._say(BACK)
        self._has_looked, self.problem = True, None
        return seen

    async def _connected(self) -> Cluster:
        if self.cluster is None:
            self.cluster = await self._open.enter_async_context(self._endpoint.connected())
        return self.cluster

    async def _lost(self, error: ClusterError) -> None:
        self.cluster = None
        await self._open.aclose()
        if self.problem is None:
            what = "the cluster does not answer" if isinstance(error, UnreachableError) else str(error)
            self._say(f"{what}; it is asked again")
        self.problem = str(error)
