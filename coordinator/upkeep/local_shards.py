"""Opens and closes this node's shards as the placement changes, while others serve.

Closing answers NOT_COORDINATOR to all that is parked or waits for the disk, drops the shard's timers, and waits
for what threads still do with its log: a flush under way, a load, the cutting back after a failure. Only then is
the shard reported closed, so that another node may open it. Opening loads the log as a start does. Of several
changes that come while a shard is being closed the last counts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import structlog

from coordinator.runtime.loop import Runtime
from coordinator.runtime.shard_runner import ShardRunner
from coordinator.runtime.shard_states import CLOSED, ELSEWHERE
from coordinator.topics.names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from coordinator.topics.placement import Placement

log = structlog.get_logger("muster.placement")


class LocalShards:
    """The shards that this node leads. All methods run on the event-loop thread."""

    def __init__(self, runtime: Runtime, placement: Placement) -> None:
        self.on_closed: list[Callable[[str, int], None]] = []
        """Called with topic and partition of a shard that was placed elsewhere, each time, once it is closed: no
        flush and no load of this node touches its log any more. Its cleaner and its checkpoints know nothing of
        the placement yet: with a second process they will have to."""
        self._runtime = runtime
        self._placement = placement
        self._closing: set[tuple[str, int]] = set()
        placement.on_moved.append(self._on_moved)

    def open(self, group_runners: list[Any], transaction_runners: list[Any]) -> None:
        """Hand the runners over to the runtime, which loads the shards that this node leads.

        The others are closed, and reported so: of them the journal of a former life may have something yet.
        """
        runners = {GROUP_METADATA_TOPIC: group_runners, TRANSACTION_STATE_TOPIC: transaction_runners}
        for topic, all_runners in runners.items():
            for runner in all_runners:
                if not self._placement.leads(topic, runner.partition):
                    self._close(topic, runner)
        self._runtime.open_shards(group_runners, transaction_runners)

    def _on_moved(self, topic: str, partition: int) -> None:
        runner = self._runner(topic, partition)
        if runner is not None:
            self._follow(topic, runner)

    def _runner(self, topic: str, partition: int) -> ShardRunner[Any] | None:
        """Return the runner of a shard; None before the runners are there, and for other partitions."""
        by_topic: dict[str, list[Any]] = {
            GROUP_METADATA_TOPIC: self._runtime.runners,
            TRANSACTION_STATE_TOPIC: self._runtime.transaction_runners,
        }
        runners = by_topic.get(topic, [])
        return runners[partition] if partition < len(runners) else None

    def _follow(self, topic: str, runner: ShardRunner[Any]) -> None:
        """Open or close the shard, if the placement asks for it."""
        shard = (topic, runner.partition)
        if shard in self._closing or runner.state is CLOSED:
            return  # What the placement asks is looked at again when it is closed; or the daemon stops.
        leads = self._placement.leads(*shard)
        if leads and runner.state is ELSEWHERE:
            log.info("a shard is opened", topic=topic, partition=runner.partition)
            self._runtime.open_shard(runner)
        elif not leads and runner.state is ELSEWHERE:
            self._report(shard)  # It was closed before, or never opened.
        elif not leads:
            log.info("a shard is closed", topic=topic, partition=runner.partition)
            self._close(topic, runner)

    def _close(self, topic: str, runner: ShardRunner[Any]) -> None:
        self._closing.add((topic, runner.partition))
        self._runtime.close_shard(runner, partial(self._finish_closing, topic, runner))

    def _finish_closing(self, topic: str, runner: ShardRunner[Any]) -> None:
        self._closing.remove((topic, runner.partition))
        self._follow(topic, runner)

    def _report(self, shard: tuple[str, int]) -> None:
        for listener in self.on_closed:
            listener(*shard)
