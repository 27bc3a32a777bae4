"""Commits against compaction: small segments, an eager cleaner, a kill now and then; held against a model.

    python -m tests.soak_log --minutes 30

A daemon with two offsets partitions and segments of a MiB; a cleaner that hardly waits; tombstones that are to go
at once. Clients commit to many partitions of a few groups, delete offsets, and delete whole groups. At random
moments the daemon is killed (SIGKILL) and started again: then every offset must be the one that was
acknowledged last, or one that was on its way. At the end the log must have shrunk. Exits with 1, and says why,
where anything is otherwise.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.daemon import MusterDaemon
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)

TOPIC = "soaked"
PARTITIONS = 40
GROUPS = [f"soak-{number}" for number in range(12)]
CONNECTIONS = 6
KILL_AFTER_S = (2.0, 12.0)
LOADING_S = 60.0
NONE_STORED = -1
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.segment.bytes": str(1 << 20),
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.delete.retention.ms": "200",
    "log.cleaner.dedupe.buffer.size": "100000",  # Less than the keys need: rounds end early, too.
    "muster.flush.policy": "os",
}


@dataclass
class Soak:
    """What was acknowledged, and what is on its way, by group and partition."""

    daemon: MusterDaemon
    chance: random.Random
    acknowledged: dict[tuple[str, int], int] = field(default_factory=dict)
    on_its_way: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    commits: int = 0
    kills: int = 0
    next_offset: int = 0

    def run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        self.make_topic()
        while time.monotonic() < until:
            self.work(min(until, time.monotonic() + self.chance.uniform(*KILL_AFTER_S)))
            self.daemon.kill()
            self.kills += 1
            self.daemon.start()
            self.compare()

    def make_topic(self) -> None:
        topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        with WireClient(self.daemon.bootstrap) as client:
            answer = client.ask(CreateTopicsRequest(topics=[topic]), 5).topics[0]
            assert answer.error_code == ErrorCode.NONE, answer

    def work(self, until: float) -> None:
        """Several requests on their way at once; the last of them are left without an answer."""
        clients = [WireClient(self.daemon.bootstrap) for _ in range(CONNECTIONS)]
        steps: list[Iterator[None]] = [self.lane(client, number) for number, client in enumerate(clients)]
        while time.monotonic() < until:
            for step in steps:
                next(step)
        for client in clients:
            client.close()

    def lane(self, client: WireClient, number: int) -> Iterator[None]:
        """One connection, which has its groups for itself: sends at each step what the next one needs."""
        groups = GROUPS[number::CONNECTIONS]
        while True:
            group, dice = self.chance.choice(groups), self.chance.random()
            if dice < 0.96:
                yield from self.commit(client, group)
            elif dice < 0.995:
                yield from self.delete_offset(client, group)
            else:
                yield from self.delete_group(client, group)

    def commit(self, client: WireClient, group: str) -> Iterator[None]:
        partitions = self.chance.sample(range(PARTITIONS), self.chance.choice((1, 1, 8, PARTITIONS)))
        self.next_offset += 1
        offset = self.next_offset
        sent = [
            OffsetCommitRequestPartition(
                partition_index=each, committed_offset=offset, committed_metadata="m" * (offset % 200)
            )
            for each in partitions
        ]
        self.expect(group, partitions, offset)
        topic = OffsetCommitRequestTopic(name=TOPIC, partitions=sent)
        client.send(OffsetCommitRequest(group_id=group, topics=[topic]), 8)
        yield
        answer = client.receive()
        assert not any(each.error_code for each in answer.topics[0].partitions), answer
        self.settle(group, partitions, offset)
        self.commits += 1

    def delete_offset(self, client: WireClient, group: str) -> Iterator[None]:
        partition = self.chance.randrange(PARTITIONS)
        topic = OffsetDeleteRequestTopic(
            name=TOPIC, partitions=[OffsetDeleteRequestPartition(partition_index=partition)]
        )
        self.expect(group, [partition], NONE_STORED)
        client.send(OffsetDeleteRequest(group_id=group, topics=[topic]), 0)
        yield
        answer = client.receive()
        assert answer.error_code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND), answer
        self.settle(group, [partition], NONE_STORED)

    def delete_group(self, client: WireClient, group: str) -> Iterator[None]:
        self.expect(group, range(PARTITIONS), NONE_STORED)
        client.send(DeleteGroupsRequest(groups_names=[group]), 2)
        yield
        answer = client.receive().results[0]
        assert answer.error_code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND), answer
        self.settle(group, range(PARTITIONS), NONE_STORED)

    def expect(self, group: str, partitions: list[int] | range, offset: int) -> None:
        for partition in partitions:
            self.on_its_way.setdefault((group, partition), set()).add(offset)

    def settle(self, group: str, partitions: list[int] | range, offset: int) -> None:
        for partition in partitions:
            self.acknowledged[group, partition] = offset
            self.on_its_way.pop((group, partition), None)

    def compare(self) -> None:
        with WireClient(self.daemon.bootstrap) as client:
            for group in GROUPS:
                for partition, offset in self.stored(client, group).items():
                    key = (group, partition)
                    allowed = {self.acknowledged.get(key, NONE_STORED)} | self.on_its_way.pop(key, set())
                    if offset not in allowed:
                        raise AssertionError(f"{group}, partition {partition}: {offset} is not in {allowed}")
                    self.acknowledged[key] = offset

    def stored(self, client: WireClient, group: str) -> dict[int, int]:
        topic = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=list(range(PARTITIONS)))
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[topic])])

        def fetched() -> list[OffsetFetchResponseTopics] | None:
            answer: OffsetFetchResponseGroup = client.ask(request, 8).groups[0]
            assert answer.error_code in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), answer
            return answer.topics if answer.error_code == ErrorCode.NONE else None

        (found,) = wait_until(fetched, f"{group} is loaded", LOADING_S)
        return {each.partition_index: each.committed_offset for each in found.partitions}

    # The log.

    def sealed_bytes(self) -> int:
        """What the offsets topic has on the disk but for its active segments."""
        total = 0
        for directory in self.daemon.log_dir.glob("__consumer_offsets-*"):
            total += sum(path.stat().st_size for path in sorted(directory.glob("*.log"))[:-1])
        return total

    def freed_bytes(self) -> int:
        """What cleanings took away, by the daemon's own account."""
        lines = self.daemon.log_path.read_text().splitlines()
        cleanings = [json.loads(line) for line in lines if '"log cleaned"' in line]
        return sum(each["bytes_before"] - each["bytes_after"] for each in cleanings)


def soak(folder: Path, seconds: float, seed: int) -> str:
    """Run it; a sentence of figures. Raises AssertionError where the daemon and the model differ."""
    with MusterDaemon(folder, SETTINGS) as daemon:
        run = Soak(daemon, random.Random(seed))
        run.run(seconds)
        # Of each partition: what is clean fits into a segment; two may wait their turn.
        bound = 2 * (3 << 20)
        wait_until(lambda: run.sealed_bytes() < bound, "the log has shrunk", LOADING_S)
        freed, left = run.freed_bytes(), run.sealed_bytes()
        run.compare()
        text = daemon.log_path.read_text()
    assert "not cleaned until" not in text, text
    assert freed > left
    return (
        f"{run.commits} commits, {run.kills} kills, no difference; "
        f"{freed / 2**20:.1f} MiB compacted away, {left / 2**20:.1f} MiB left in sealed segments"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        try:
            print(soak(Path(folder), chosen.minutes * 60, chosen.seed))
        except (AssertionError, TimeoutError) as error:
            print(f"{error}\nrepeat with --seed {chosen.seed}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
