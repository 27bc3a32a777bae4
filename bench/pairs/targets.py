"""What is asked of Muster beside Kafka, as data: the ratios of `make bench`, for both builds.

A scenario names a target by its key; what stands on the page is made of the sizes of the run. Docs/performance.md
has the same as a table (`python -m bench.pairs.targets`), which `tests/test_bench_targets.py` compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.pairs.plan import Plan
from bench.pairs.rounds import Target


@dataclass(frozen=True, slots=True)
class Asked:
    """One target: `pure` and `compiled` are the bounds of the two builds, `aims` what would be well."""

    key: str
    what: str  # With the sizes of a Plan in braces.
    pure: float
    compiled: float | None = None  # None: as of pure Python.
    at_least: bool = False
    aims: tuple[float, ...] = ()

    def named(self, plan: Plan) -> str:
        return self.what.format(**plan.sizes)

    @property
    def bounds(self) -> tuple[float, ...]:
        return (self.pure,) if self.compiled is None else (self.pure, self.compiled)


FEW, MANY, DEEP = (
    "heartbeats, {connections:,} connections, 1 in flight",
    "heartbeats, {many:,} connections, 1 in flight",
    "heartbeats, {connections:,} connections, 16 in flight",
)
ONE, WHOLE = "commits of one partition", "commits of {partitions:,} partitions"
STORM = "join storm, {storm_groups:,} groups of 10"
HERD = "one group of {herd:,}, delay 0"
CONSUMER_BEATS = "consumer heartbeats, {connections:,} connections, 1 in flight"
CONSUMER_STORM = "{storm_groups:,} consumer groups of 10 joining at once"
CONSUMER_HERD = "one consumer group of {consumer_herd:,} on {consumer_partitions:,} partitions"
SECURED_BEATS = "SASL_SSL, {connections:,} connections: heartbeats"
SECURED_RECORDS = "SASL_SSL, {connections:,} connections: records of 1 KiB"
AUTHORIZED = "with an authorizer and {acls:,} ACLs: user CPU to that without"
RESTART = "restart with {offsets:,} offsets and {members:,} members"

ASKED: Final = (
    # Heartbeats: what docs/performance.md showed on 23 November 2026, when this was asked: as then, or better.
    Asked("heartbeats.few.throughput", f"{FEW}: throughput", 1.05, 1.2, at_least=True),
    Asked("heartbeats.few.cpu", f"{FEW}: server CPU of each", 0.72, 0.56),
    Asked("heartbeats.many.throughput", f"{MANY}: throughput", 1.27, 1.41, at_least=True),
    Asked("heartbeats.many.cpu", f"{MANY}: server CPU of each", 0.43, 0.42),
    Asked("heartbeats.deep.throughput", f"{DEEP}: throughput", 4.83, 6.39, at_least=True),
    Asked(
        "commits.fsync.throughput", f"{ONE}, `fsync`: throughput", 0.5, 0.65, at_least=True, aims=(0.6, 0.75)
    ),
    Asked("commits.fsync.cpu", f"{ONE}, `fsync`: server CPU of each", 1.4, 1.1, aims=(1.25, 1.0)),
    Asked("commits.os.throughput", f"{ONE}, `os`: throughput", 0.6, 0.75, at_least=True),
    Asked("whole.fsync.throughput", f"{WHOLE}, `fsync`: throughput", 0.7, at_least=True),
    Asked("whole.fsync.cpu", f"{WHOLE}, `fsync`: server CPU of each", 0.9),
    Asked("storm.delay.time", f"{STORM}: time beyond the delay", 1.0),
    Asked("storm.delay.cpu", f"{STORM}: server CPU", 1.5),
    Asked("storm.at_once.time", f"{STORM}, delay 0: time", 1.0),
    Asked("storm.at_once.cpu", f"{STORM}, delay 0: server CPU", 1.5),
    Asked("herd.joins", f"{HERD}: JoinGroups", 1.1),
    Asked("herd.time", f"{HERD}: time", 1.1),
    Asked("herd_beside_expiry.joins", f"{HERD}, while {{members:,}} other sessions expire: JoinGroups", 1.1),
    Asked("herd_beside_expiry.time", f"{HERD}, while {{members:,}} other sessions expire: time", 1.1),
    Asked("consumer_heartbeats.throughput", f"{CONSUMER_BEATS}: throughput", 1.4, at_least=True),
    Asked("consumer_heartbeats.cpu", f"{CONSUMER_BEATS}: server CPU of each", 0.6),
    Asked("consumer_storms.time", f"{CONSUMER_STORM}: time until all is reconciled", 1.0),
    Asked("consumer_storms.cpu", f"{CONSUMER_STORM}: server CPU", 1.3),
    Asked("consumer_herd.time", f"{CONSUMER_HERD}: time until all is reconciled", 1.5),
    Asked("consumer_memory", "memory, {all_members:,} members of consumer groups", 0.5),
    Asked("secured_heartbeats.throughput", f"{SECURED_BEATS}, throughput", 1.0, at_least=True),
    Asked("secured_heartbeats.cpu", f"{SECURED_BEATS}, server CPU of each", 0.8),
    Asked("secured_produce.bulk", "SASL_SSL, one busy client: records of 1 KiB, MB/s", 0.8, at_least=True),
    Asked("secured_produce.batches", f"{SECURED_RECORDS}, 15 to a request, throughput", 0.8, at_least=True),
    Asked("secured_produce.singles", f"{SECURED_RECORDS}, 1 to a request, throughput", 0.8, at_least=True),
    Asked("handshakes", "{logins:,} TLS handshakes and logins at once: time", 1.5),
    Asked("tls_memory", "memory of an idle connection: SASL_SSL above a plain one, KiB", 24.0),
    Asked("tls_request", "server CPU of a heartbeat: SASL_SSL above a plain one, us", 12.0),
    Asked("authorized_heartbeats", f"heartbeats {AUTHORIZED}", 1.05),
    Asked("authorized_commits", f"commits {AUTHORIZED}", 1.05),
    Asked("restarts.clean", f"{RESTART}: after a clean stop", 0.2),
    Asked("restarts.killed", f"{RESTART}: after kill -9", 0.3),
    Asked("cold.time", "start, short work, stop: time", 0.1),
    Asked("turn", "longest turn of the event loop, ms of CPU", 20.0),
)
BY_KEY: Final = {each.key: each for each in ASKED}

TABLE: Final = "| ratio to Kafka | pure Python | compiled | aim |\n|---|---|---|---|"


def judged(key: str, plan: Plan, ratios: Sequence[float]) -> Target:
    """The target of this key with the ratios that were measured of each build, pure Python first."""
    asked = BY_KEY[key]
    compiled = ratios[1] if len(ratios) > 1 else None
    return Target(asked.named(plan), ratios[0], asked.pure, asked.at_least, compiled, asked.compiled)


def table(plan: Plan) -> str:
    """All that is asked, as Markdown, in the sizes of `plan`."""
    return "\n".join([TABLE, *(_row(asked, plan) for asked in ASKED)])


def _row(asked: Asked, plan: Plan) -> str:
    side = "at least" if asked.at_least else "at most"
    pure, compiled = asked.bounds[0], asked.bounds[-1]
    aims = " / ".join(f"{aim:g}" for aim in asked.aims)
    return f"| {asked.named(plan)} | {side} {pure:g} | {side} {compiled:g} | {aims} |"


if __name__ == "__main__":
    print(table(Plan(Path())))
