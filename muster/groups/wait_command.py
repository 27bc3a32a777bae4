"""`muster groups wait`: for scripts and CI, on any Kafka.

It asks again and again, and takes a cluster that cannot be reached for one that cannot be reached yet.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass
from typing import Annotated, Final

from cyclopts import Parameter

from muster.cluster import ClusterError
from muster.connection import Endpoint
from muster.durations import parse_duration, spoken
from muster.groups import tables
from muster.groups.running import AsJson, run
from muster.groups.selection import STATES, names
from muster.groups.sights import Sight, look
from muster.sentences import counted, say, shown_id
from muster.usage import STATUS_FAILED, UsageError

DEFAULT_TIMEOUT: Final = "60s"
EVERY_S: Final = 0.25


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options that say how a group should be: all that are given have to hold at once."""

    state: Annotated[
        list[str] | None, Parameter(negative="", help="in one of these states; Dead: gone, or never there")
    ] = None
    members: Annotated[int | None, Parameter(help="with exactly so many members")] = None
    lag_below: Annotated[
        int | None, Parameter(help="with less lag than that in all, known of each of its partitions")
    ] = None

    def check(self) -> None:
        """Raises UsageError for a state that there is not, and if nothing is wanted."""
        names("state", self.state, STATES)
        if not self.state and self.members is None and self.lag_below is None:
            raise UsageError("give --state, --members or --lag-below")

    def is_met_by(self, seen: Sight) -> bool:
        states = names("state", self.state, STATES)
        return (
            (not states or seen.state.lower() in states)
            and (self.members is None or len(seen.members) == self.members)
            and (self.lag_below is None or self._is_lag_below(seen))
        )

    def _is_lag_below(self, seen: Sight) -> bool:
        """A partition of which nothing is committed, or that is beyond the log's end, has no lag that is low."""
        assert self.lag_below is not None
        is_known = seen.partitions > 0 and seen.unmeasured == 0 and seen.beyond_end == 0
        return is_known and seen.lag < self.lag_below


def wait(
    group: str,
    *,
    wanted: Wanted = Wanted(),
    timeout: Annotated[str, Parameter(help="give up after so long: 30s, 5m")] = DEFAULT_TIMEOUT,
    endpoint: Endpoint = Endpoint(),
    as_json: AsJson = False,
) -> int:
    """Wait until a group is as it should be. Status 1 when the time is over, with what was seen last."""

    async def command() -> int:
        wanted.check()
        try:
            timeout_ms = parse_duration(timeout)
        except ValueError as error:
            raise UsageError(f"--timeout {error}") from None
        endpoint.settings()  # It complains before anything is waited for.
        watching = _Watching(group, wanted, endpoint)
        began = time.monotonic()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await watching.until_met()
            is_met = True
        except TimeoutError:
            is_met = False
        waited_ms = round((time.monotonic() - began) * 1000)
        if as_json:
            seen = None if watching.seen is None else asdict(watching.seen)
            found = {"met": is_met, "waited_ms": waited_ms, "seen": seen, "problem": watching.problem}
            tables.show_json({"group_id": group, **found})
        elif is_met and watching.seen:
            tables.show_line(f"{tables.id_text(group)} after {spoken(waited_ms)}: {told(watching.seen)}")
        if not is_met:
            say(f"group {shown_id(group)} is not so after {spoken(waited_ms)}: {watching.told()}", as_json)
        return 0 if is_met else STATUS_FAILED

    return run(command(), as_json)


class _Watching:
    """What has been seen of a group so far, and what stood in the way since."""

    def __init__(self, group_id: str, wanted: Wanted, endpoint: Endpoint) -> None:
        self._group_id = group_id
        self._wanted = wanted
        self._endpoint = endpoint
        self.seen: Sight | None = None
        self.problem: str | None = None

    async def until_met(self) -> None:
        while True:
            try:
                async with self._endpoint.connected() as cluster:
                    while True:
                        self.seen = await look(cluster, self._group_id)
                        self.problem = None
                        if self._wanted.is_met_by(self.seen):
                            return
                        await asyncio.sleep(EVERY_S)
            except ClusterError as error:
                self.problem = str(error)
            await asyncio.sleep(EVERY_S)

    def told(self) -> str:
        """What was seen last, for people."""
        parts = [told(self.seen)] if self.seen else []
        parts += [self.problem] if self.problem else []
        return "; then ".join(parts) or "nothing was seen"


def told(seen: Sight) -> str:
    """A sight in words: "Stable, 2 members, lag 10"."""
    parts = [seen.state, counted(len(seen.members), "member"), f"lag {seen.lag:,}"]
    if seen.unmeasured:
        parts.append(f"no lag known of {counted(seen.unmeasured, 'partition')}")
    if seen.beyond_end:
        parts.append(f"{counted(seen.beyond_end, 'partition')} committed beyond the log's end")
    return ", ".join(parts)
