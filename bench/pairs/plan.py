"""How much is measured: the whole, or little of everything so that CI sees each scenario work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from bench.pairs.rounds import COMPILED, MUSTER
from bench.pairs.servers import WatchedDaemon, kafka, muster
from bench.pairs.singles import PARTITIONS
from bench.pairs.sources import COMPILED_TREE, is_current
from harness.daemon import ROOT, MusterDaemon
from harness.kafka_broker import KafkaBroker

MANY: Final = 9
"""Times the connections: 4,500 to each of four servers, of one process that may have 20,000 descriptors."""

SHORTEST_SESSION_MS: Final = 6_000
CONSUMER_INTERVAL_MS: Final = 5_000
"""Between the heartbeats of a member of a consumer group, as both servers have it by default."""

SHARE: Final = 10
"""Partitions of each member of a consumer group of several."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes and times of a run. `warm_s` is how long Kafka is under its first load before that counts.

    `warm_again_s` is how long it is under a further load of the same kind.
    """

    directory: Path
    rounds: int = 5
    seconds: float = 3.0
    warm_s: float = 60.0
    warm_again_s: float = 20.0
    connections: int = 500
    storm_warm_ups: int = 4
    burst_warm_ups: int = 1  # One of Kafka's takes a minute or two: most clients have to connect again.
    burst_rounds: int = 2
    start_warm_ups: int = 1  # Starts that do not count: the first formats a storage, and fills the caches.
    restart_rounds: int = 3
    herd_rounds: int = 10
    expiry_ms: int = (
        12_000  # The sessions that end beside a herd: long enough that all members join meanwhile.
    )
    consumer_rounds: int = 2  # Of storms and herds of consumer groups.
    consumer_interval_ms: int = CONSUMER_INTERVAL_MS  # Of their heartbeats, in both servers.
    cold_groups: int = 20
    cold_commits: int = 2_000
    cold_records: int = 10_000
    groups: int = 1_000
    group_size: int = 10
    idle_members: int = 20_000
    idle_s: float = 30.0
    idle_rounds: int = 2
    crowds: int = 10  # Of `groups` x `group_size` members, one after the other: what memory is measured with.
    timers: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    growth_rounds: int = 3
    steps: tuple[int, ...] = (1, 10, 100)  # How many times the smallest size: what growth is measured with.
    growth_s: float = 0.6
    growth_warm_ups: int = 1
    growth_delay_ms: int = 500  # Begins once more while members come: enough that all do.
    initial_delay_ms: int = 3_000  # Of rebalances, in both.
    daemons: list[WatchedDaemon] = field(default_factory=list)  # All that were made.
    builds: Mapping[str, Path] = field(default_factory=lambda: {MUSTER: ROOT})
    tree: Path = ROOT  # What `muster` starts where no other is named.
    bulk_megabytes: int = 100  # Of one round of one client that produces.
    acls: int = 1_000
    authorized_rounds: int = 15  # Of a daemon with an authorizer beside one without.
    authorized_heartbeats: int = 300  # On each connection and in each round,
    authorized_commits: int = 48  # and as many of these.
    listeners: Mapping[str, str] = field(default_factory=dict)  # Beside PLAINTEXT: name and protocol.
    security: Mapping[str, str] = field(default_factory=dict)  # Settings of these listeners.
    shared: KafkaBroker | None = (
        None  # One for all scenarios, where figures do not matter: it takes long to start.
    )

    def muster(
        self, name: str = "muster", overrides: Mapping[str, str] | None = None, tree: Path | None = None
    ) -> MusterDaemon:
        """A daemon to be measured, of the scenario's own; of `self.tree`, unless `tree` says else."""
        settings = {**self._settings, **(overrides or {})}
        daemon = muster(self.folder(name), settings, tree or self.tree, self.listeners)
        self.daemons.append(daemon)
        return daemon

    def folder(self, name: str) -> Path:
        """The folder of a server of this name; log.dirs is a list, so there is no comma in it."""
        return self.directory / name.replace(", ", "-")

    @contextmanager
    def kafka(self, overrides: Mapping[str, str] | None = None) -> Iterator[KafkaBroker]:
        """A broker to be measured: one of the scenario's own, unless there is one for all."""
        if self.shared is not None:
            yield self.shared
            return
        with self.new_kafka(overrides) as broker:
            yield broker

    def new_kafka(self, overrides: Mapping[str, str] | None = None, name: str = "kafka") -> KafkaBroker:
        return kafka(self.folder(name), {**self._settings, **(overrides or {})}, self.listeners)

    def of_rounds(self, rounds: int) -> Plan:
        """The same with so many rounds of all that counts."""
        return replace(
            self,
            rounds=rounds,
            restart_rounds=rounds,
            burst_rounds=rounds,
            herd_rounds=rounds,
            consumer_rounds=rounds,
            idle_rounds=rounds,
            growth_rounds=rounds,
            authorized_rounds=rounds,
        )

    @property
    def sizes(self) -> dict[str, int]:
        """What the names of targets have in them."""
        return {
            "connections": self.connections,
            "many": self.connections * MANY,
            "logins": self.connections * 2,
            "acls": self.acls,
            "partitions": PARTITIONS,
            "storm_groups": self.connections * 2,
            "herd": max(1, self.connections // 10) * 40,
            "consumer_herd": self.connections * 2,
            "consumer_partitions": self.connections * 2 * SHARE,
            "members": self.groups * self.group_size,
            "all_members": self.crowds * self.groups * self.group_size,
            "offsets": self.groups * PARTITIONS,
        }

    @property
    def _settings(self) -> dict[str, str]:
        """Where a run is little, sessions and intervals are shorter than servers take by default."""
        settings = {"group.initial.rebalance.delay.ms": str(self.initial_delay_ms), **self.security}
        if self.expiry_ms < SHORTEST_SESSION_MS:
            settings["group.min.session.timeout.ms"] = str(self.expiry_ms)
        if self.consumer_interval_ms < CONSUMER_INTERVAL_MS:
            for name in ("min.heartbeat", "heartbeat"):
                settings[f"group.consumer.{name}.interval.ms"] = str(self.consumer_interval_ms)
        return settings


def builds() -> dict[str, Path]:
    """Pure Python, and the compiled build if there is one of the checkout as it is now."""
    return {MUSTER: ROOT, COMPILED: COMPILED_TREE} if is_current() else {MUSTER: ROOT}


def quick(directory: Path) -> Plan:
    """A plan that shows that each scenario works, and gives no figures."""
    return Plan(
        directory,
        rounds=1,
        seconds=0.5,
        warm_s=0.5,
        warm_again_s=0.5,
        connections=50,
        storm_warm_ups=0,
        burst_warm_ups=0,
        burst_rounds=1,
        start_warm_ups=0,
        restart_rounds=1,
        herd_rounds=1,
        expiry_ms=2_000,
        consumer_rounds=1,
        consumer_interval_ms=500,
        cold_groups=3,
        cold_commits=60,
        cold_records=500,
        groups=10,
        idle_members=500,
        idle_s=3.0,
        idle_rounds=1,
        crowds=1,
        timers=(1_000, 10_000),
        growth_rounds=1,
        steps=(1, 2),
        growth_s=0.05,
        growth_warm_ups=0,
        growth_delay_ms=100,
        initial_delay_ms=50,
        bulk_megabytes=5,
        authorized_rounds=1,
        authorized_heartbeats=120,
        authorized_commits=20,
        builds={MUSTER: ROOT, COMPILED: ROOT},  # Both columns are filled, by what needs no compiler.
    )
