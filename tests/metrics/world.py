"""A daemon on the test's own loop, whose figures are read; and the parser that Prometheus' own client has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client.parser import text_string_to_metric_families

from coordinator.daemon.daemon import Daemon, open_directory
from coordinator.metrics.metrics import Metrics
from coordinator.settings.model import Settings
from harness.wire import WireClient
from storage.files import Files

T = TypeVar("T")

Sample = tuple[str, tuple[tuple[str, str], ...]]
"""A sample's name and its labels, in the order of their names."""


@asynccontextmanager
async def running(directory: Path, **settings: Any) -> AsyncIterator[Daemon]:
    """A daemon with a few shards, from start to stop."""
    few = {"offsets_topic_num_partitions": 4, "transaction_state_log_num_partitions": 2}
    given = (
        {
            "group_initial_rebalance_delay_ms": 0,
            "listeners": ("PLAINTEXT://127.0.0.1:0",),
            "muster_http_listeners": (),
        }
        | few
        | settings
    )
    known = Settings(log_dirs=(str(directory),), **given)
    opened = open_directory(known, Files())
    daemon = Daemon(known, opened, Files())
    try:
        await daemon.start()
        yield daemon
    finally:
        await daemon.stop()
        assert opened.close() == []


async def asked(daemon: Daemon, talk: Callable[[WireClient], T]) -> T:
    """What `talk` returns, on a thread, of what it does with a connection to the daemon."""

    def on_a_thread() -> T:
        with WireClient(daemon.server.addresses) as client:
            return talk(client)

    return await asyncio.to_thread(on_a_thread)


def walk(metrics: Metrics) -> None:
    """Do a whole walk at once."""
    for _ in metrics.walk.steps():
        pass


def text_of(metrics: Metrics) -> str:
    return b"".join(metrics.exposition()).decode()


def samples(text: str) -> dict[Sample, float]:
    """All samples of the text as a parser reads it, none of them twice."""
    found: dict[Sample, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found, f"twice: {key}"
            found[key] = sample.value
    return found


def value(found: dict[Sample, float], name: str, **labels: str) -> float | None:
    """The value of one sample; None if there is none."""
    return found.get((name, tuple(sorted(labels.items()))))
