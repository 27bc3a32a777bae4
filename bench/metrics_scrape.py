"""What a scrape and a walk over many groups cost, in CPU time of the loop's thread, and their longest slices.

    python -m bench.metrics_scrape [--groups 100000] [--partitions 1]

A daemon is made in this process and given groups as a replay of its log gives them, each with committed offsets; a
tenth of the groups is behind. Then all of them are walked, and the exposition is made, a few times each. The bound
is 200 ms for a scrape; a slice is to take a millisecond.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import thread_time

from coordinator.daemon.daemon import Daemon, open_directory
from coordinator.effects import CommitRun
from coordinator.settings.model import Settings
from coordinator.topics.topic_config import topic_config
from protocol.codec.primitives import ZERO_UUID
from protocol.records.records import Record, encode_batch
from storage.files import Files

ROUNDS = 5
TOPIC = "orders"
RECORDS = 100
SCRAPE_MAX_MS = 200


async def measure(groups: int, partitions: int) -> bool:
    """Print the figures; return whether a scrape keeps to its bound."""
    with TemporaryDirectory() as name:
        settings = Settings(
            log_dirs=(str(Path(name) / "logs"),),
            listeners=("PLAINTEXT://127.0.0.1:0",),
            muster_log_level="error",
        )
        directory = open_directory(settings, Files())
        daemon = Daemon(settings, directory, Files())
        await daemon.start()
        try:
            await make_topic(daemon, partitions)
            fill(daemon, groups, partitions)
            gc.collect()
            gc.disable()  # As the daemon does, whose collector picks its moments.
            return report(daemon)
        finally:
            await daemon.stop()
            directory.close()


async def make_topic(daemon: Daemon, partitions: int) -> None:
    """A topic whose partitions have RECORDS records each."""
    made = asyncio.get_running_loop().create_future()
    config = topic_config({}, daemon.registry.settings)
    daemon.registry.create(TOPIC, partitions, config, bytes(15) + b"\1", made.set_result)
    error = await made
    assert not error, error
    topic = daemon.registry.get(TOPIC)
    assert topic is not None
    for partition in topic.partitions:
        written = asyncio.get_running_loop().create_future()
        records = [Record(None, b"v", timestamp_ms=0)] * RECORDS
        partition.when_ready(partial(partition.append_local, encode_batch(records), written.set_result))
        error = await written
        assert not error, error


def fill(daemon: Daemon, groups: int, partitions: int) -> None:
    for number in range(groups):
        group_id = f"group-{number:06}"
        shard = daemon.runtime.runner_for(group_id).shard
        assert shard is not None
        offset = RECORDS - 1 if number % 10 == 0 else RECORDS
        run = CommitRun(
            group_id, TOPIC, ZERO_UUID, 0, range(partitions), [offset] * partitions, [-1] * partitions
        )
        shard.replay(run, number)


def report(daemon: Daemon) -> bool:
    walks, slices, scrapes, chunks, sizes = [], [], [], [], []
    for _ in range(ROUNDS):
        began_s = thread_time()
        for took_s in slices_of_a_walk(daemon):
            slices.append(took_s)
        walks.append(thread_time() - began_s)
        began_s, size_bytes = thread_time(), 0
        text = daemon.metrics.exposition()
        while True:
            chunk_s = thread_time()
            chunk = next(text, None)
            chunks.append(thread_time() - chunk_s)
            if chunk is None:
                break
            size_bytes += len(chunk)
        scrapes.append(thread_time() - began_s)
        sizes.append(size_bytes)
    print(f"walk: {median(walks) * 1000:.0f} ms of CPU in {len(slices) // ROUNDS} slices, {_ends(slices)}")
    print(
        f"scrape: {median(scrapes) * 1000:.0f} ms of CPU (at most {SCRAPE_MAX_MS}) for {sizes[-1]:,} bytes, ",
        end="",
    )
    print(f"in {len(chunks) // ROUNDS} chunks, {_ends(chunks)}")
    return median(scrapes) * 1000 <= SCRAPE_MAX_MS


def slices_of_a_walk(daemon: Daemon) -> list[float]:
    took = []
    is_over = False
    while not is_over:
        began_s = thread_time()
        daemon.metrics.walk.timer_fired("walk")
        took.append(thread_time() - began_s)
        is_over = daemon.metrics.walk._steps is None
    return took


def _ends(took: list[float]) -> str:
    took = sorted(took)
    return f"99 % within {took[len(took) * 99 // 100] * 1000:.2f} ms, the longest {took[-1] * 1000:.2f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=1)
    arguments = parser.parse_args()
    if not asyncio.run(measure(arguments.groups, arguments.partitions)):
        raise SystemExit("a scrape took longer than it may")


if __name__ == "__main__":
    main()
