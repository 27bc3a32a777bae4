"""The daemon's figures: as text for Prometheus, and of single groups for the API.

What happens is counted in plain integers where it happens, and read here. Nothing here knows HTTP.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from coordinator.metrics.figures import GroupFigures, LagFigures, LagHistory
from coordinator.runtime.loop import Runtime

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Of the exposition, as Prometheus asks for it."""


class Metrics:
    """All figures of one daemon. Event-loop thread only."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def exposition(self) -> Iterator[bytes]:
        """Yield the text for Prometheus (format 0.0.4), UTF-8, in chunks that each take at most 1 ms to make.

        A chunk may be empty: then there was work, but nothing to send yet. The caller may let other work of the
        loop go first between any two of them, and may stop early; what it reads is of the time of the reading.
        """
        states: Counter[tuple[str, str]] = Counter()
        for runner in self._runtime.runners:
            if (shard := runner.shard) is not None:
                states.update(("classic", group.state.value) for group in tuple(shard.groups.values()))
                states.update(
                    ("consumer", group.state.value) for group in tuple(shard.consumer_groups.values())
                )
            yield b""
        yield b"# HELP muster_groups Groups by protocol and state.\n# TYPE muster_groups gauge\n"
        for (protocol, state), count in sorted(states.items()):
            yield f'muster_groups{{protocol="{protocol}",state="{state}"}} {count}\n'.encode()

    def figures(self, group_id: str) -> GroupFigures | None:
        """Return one group's figures; None if there is no such group. Costs a look-up per member and offset."""
        shard = self._runtime.runner_for(group_id).shard
        if shard is None or (group_id not in shard.groups and group_id not in shard.consumer_groups):
            return None
        return GroupFigures(group_id, LagFigures(), {}, {}, None, None, 0, None, {})

    def lag_records(self, group_id: str) -> int | None:
        """Return a group's lag in records, as last summed: a look-up, to sort all groups by. None: not known."""
        return None

    def lag_history(self, group_id: str, minutes: int) -> LagHistory:
        """Return the group's lag of the last `minutes`, a point each 15 s, of at most an hour.

        Empty for a group that is not among those whose history is kept (docs/metrics.md).
        """
        return LagHistory()
