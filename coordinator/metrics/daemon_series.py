"""The lines about the daemon as a whole, read from its parts when they are asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from coordinator.history.events import History
from coordinator.metrics.families import DAEMON
from coordinator.metrics.group_walk import GroupWalk
from coordinator.metrics.rebalance_counts import BEGINNINGS, CLASSIC, CONSUMER, EXPIRIES, RebalanceCounts
from coordinator.metrics.text import histogram, sample
from coordinator.runtime.clock import Clock
from coordinator.runtime.loop import Runtime
from coordinator.runtime.turn_watch import LONG_TURN_S, TurnWatch
from coordinator.server.server import Server
from protocol.errors import ErrorCode
from storage.latencies import Latencies
from storage.log.log_states import LogState

GROUPS_AT_ONCE: Final = {CLASSIC: 2000, CONSUMER: 400}
"""Groups whose states are counted between two chunks: the state of a consumer group has to be found out."""

FAILED: Final = frozenset({LogState.OFFLINE, LogState.CORRUPT})


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the daemon that are read."""

    runtime: Runtime
    clock: Clock
    turn_watch: TurnWatch
    flushes: Mapping[str, Latencies]  # By what is flushed.
    server: Callable[[], Server]
    history: Callable[[], History | None]


class DaemonSeries:
    """Makes the lines; `counts` and `walk` are the daemon's."""

    def __init__(self, parts: Parts, counts: RebalanceCounts, walk: GroupWalk) -> None:
        self._parts, self._counts, self._walk = parts, counts, walk
        self.expired = self.deleted = self.committed = 0
        """Offsets, as the records that handlers wrote say."""

    def lines(self) -> Iterator[str]:
        """Yield the head of each metric, and its lines; or "" where there was work."""
        yield from self._group_counts()
        yield from self._offsets()
        yield from self._rebalances()
        yield from self._shards()
        yield from self._loop()
        yield from self._disk()
        yield from self._requests()
        yield from self._connections()

    def _one(self, name: str, value: float) -> Iterator[str]:
        yield DAEMON[name].head
        yield sample(name, (), value)

    def _group_counts(self) -> Iterator[str]:
        states: Counter[tuple[str, str]] = Counter()
        weight = 0
        for runner in self._parts.runtime.runners:
            if (shard := runner.shard) is None:
                continue
            for protocol, groups in ((CLASSIC, shard.groups), (CONSUMER, shard.consumer_groups)):
                of_shard = iter([*groups.values()])
                while some := [*islice(of_shard, GROUPS_AT_ONCE[protocol])]:
                    states.update([(protocol, group.state.value) for group in some])
                    weight += len(some) * GROUPS_AT_ONCE[CLASSIC] // GROUPS_AT_ONCE[protocol]
                    if weight >= GROUPS_AT_ONCE[CLASSIC]:
                        weight = 0
                        yield ""
        yield DAEMON["muster_groups"].head
        for (protocol, state), count in sorted(states.items()):
            yield sample("muster_groups", (("protocol", protocol), ("state", state)), count)

    def _offsets(self) -> Iterator[str]:
        walk = self._walk
        committed = self.committed + walk.committed + sum(self._parts.runtime.commits.values())
        yield from self._one("muster_committed_offsets", walk.found.offsets)
        yield from self._one("muster_offset_commits_total", committed)
        yield from self._one("muster_offsets_expired_total", self.expired)
        yield from self._one("muster_offsets_deleted_total", self.deleted)

    def _rebalances(self) -> Iterator[str]:
        counts = self._counts
        yield DAEMON["muster_rebalances_total"].head
        for protocol, cause in sorted(BEGINNINGS | counts.by_cause.keys()):
            labels = (("protocol", protocol), ("cause", cause))
            yield sample("muster_rebalances_total", labels, counts.by_cause[protocol, cause])
        yield DAEMON["muster_rebalance_seconds"].head
        for phase, latencies in counts.seconds.items():
            yield histogram("muster_rebalance_seconds", (("phase", phase),), latencies)
        yield from self._one("muster_member_joins_total", counts.joins)
        yield from self._one("muster_member_leaves_total", counts.leaves)
        yield DAEMON["muster_member_expiries_total"].head
        for cause in sorted(EXPIRIES | counts.expiries.keys()):
            yield sample("muster_member_expiries_total", (("cause", cause),), counts.expiries[cause])

    def _shards(self) -> Iterator[str]:
        runtime = self._parts.runtime
        yield DAEMON["muster_shards"].head
        for kind, runners in (("groups", runtime.runners), ("transactions", runtime.transaction_runners)):
            states = Counter(runner.state.name.lower() for runner in runners)
            for state, count in sorted(states.items()):
                yield sample("muster_shards", (("kind", kind), ("state", state)), count)
        yield DAEMON["muster_shard_load_seconds"].head
        yield histogram("muster_shard_load_seconds", (), runtime.load_latencies)

    def _loop(self) -> Iterator[str]:
        watch = self._parts.turn_watch
        yield DAEMON["muster_loop_turn_seconds"].head
        yield histogram("muster_loop_turn_seconds", (), _turns(watch))
        yield DAEMON["muster_loop_longest_turn_seconds"].head
        for clock, longest_ms in zip(("cpu", "wall"), watch.longest, strict=True):
            yield sample("muster_loop_longest_turn_seconds", (("clock", clock),), longest_ms / 1000)
        yield from self._one("muster_loop_lag_seconds", self._walk.late_ms / 1000)
        yield from self._one("muster_loop_busy_seconds_total", watch.busy_s)
        yield from self._one("muster_stalls_seconds_total", self._parts.clock.stalled_ms / 1000)

    def _disk(self) -> Iterator[str]:
        runtime, history = self._parts.runtime, self._parts.history()
        yield DAEMON["muster_flush_seconds"].head
        for log, latencies in self._parts.flushes.items():
            yield histogram("muster_flush_seconds", (("log", log),), latencies)
        yield DAEMON["muster_reply_hold_seconds"].head
        yield histogram("muster_reply_hold_seconds", (), runtime.log_host.holds)
        yield from self._one("muster_history_dropped_total", 0 if history is None else history.dropped)
        has_failed = any(
            runner.durable_log.state in FAILED for runner in (*runtime.runners, *runtime.transaction_runners)
        )
        yield from self._one("muster_disk_state", 2 if has_failed else int(runtime.outages.is_full))

    def _requests(self) -> Iterator[str]:
        apis = sorted(self._parts.server().apis.values(), key=lambda api: api.name)
        yield DAEMON["muster_requests_total"].head
        for api in apis:
            yield sample("muster_requests_total", (("api", api.name),), api.counts.requests)
        yield DAEMON["muster_request_errors_total"].head
        for api in apis:
            for error, count in sorted(api.counts.errors.items()):
                labels = (("api", api.name), ("error", ErrorCode(error).name))
                yield sample("muster_request_errors_total", labels, count)
        yield DAEMON["muster_request_seconds"].head
        for api in apis:
            if api.counts.latencies is not None:
                yield histogram("muster_request_seconds", (("api", api.name),), api.counts.latencies)

    def _connections(self) -> Iterator[str]:
        server = self._parts.server()
        yield from self._one("muster_connections", server.connection_count)
        yield from self._one("muster_connections_accepted_total", server.accepted)
        yield from self._one("muster_connections_refused_total", server.refused)


def _turns(watch: TurnWatch) -> Latencies:
    """All turns as a histogram: those shorter than LONG_TURN_S are only counted."""
    longer = watch.long_turns
    turns = Latencies((LONG_TURN_S, *longer.bounds_s))
    turns.counts = [watch.counted - sum(longer.counts), *longer.counts]
    turns.sum_s = watch.busy_s
    return turns
