"""Makes the data directories of tests/data/older_directory with the daemon of another checkout.

    python -m tools.older_directory --tree ../muster-at-7e117a8 --out tests/data/older_directory

The packages in the tree run the daemon; stock clients of this environment make topics, records, transactions and
groups that join, leave and expire. One directory is of a daemon that was stopped, the other of one that was killed
while a group had members. Beside each lies what that daemon answered before it ended.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from harness.daemon import MusterDaemon
from harness.directory_answers import KEPT_FOR_EVER, TIMEOUT_S, answers, history_json
from harness.processes import wait_until

OVERRIDES: Final = {
    **KEPT_FOR_EVER,
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
}
LONG_SESSION_MS: Final = 1_800_000
"""The session timeout of members that are still in their group when another daemon opens the directory."""

GROUPS: Final = ("billing", "growing", "crashing", "deleted", "living", "standalone", "exactly-once")
MEMBER_THAT_CRASHES: Final = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "crashing", "client.id": "crashing-1",
                     "session.timeout.ms": 1000, "heartbeat.interval.ms": 200})
consumer.subscribe(["orders"])
while not consumer.assignment():
    consumer.poll(0.1)
print("joined", flush=True)
sys.stdin.read()
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", type=Path, required=True, help="a checkout whose daemon writes")
    parser.add_argument("--out", type=Path, required=True, help="the folder for archives and answers")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as clients:
        daemon = MusterDaemon(Path(folder), OVERRIDES, tree=arguments.tree.resolve())
        with daemon:
            fill_topics(daemon.bootstrap)
            run_groups(daemon.bootstrap)
            clients.enter_context(member(daemon.bootstrap, "living", "living-1", ["orders"], instance="i-1"))
            store_directory(daemon, arguments.tree, arguments.out / "stopped", end=daemon.terminate)
            daemon.start()
            commit_transaction(daemon.bootstrap, offset=9)
            clients.enter_context(member(daemon.bootstrap, "billing", "billing-2", ["orders", "prices"]))
            store_directory(daemon, arguments.tree, arguments.out / "killed", end=daemon.kill)


def store_directory(daemon: MusterDaemon, tree: Path, out: Path, end: Callable[[], object]) -> None:
    """Record the daemon's answers, end the daemon by `end`, and store its directory beside the answers."""
    histories = wait_until(
        lambda: _settled_histories(daemon.bootstrap, tree), "the history is written", TIMEOUT_S
    )
    asked = {**answers(daemon.bootstrap), "histories": histories}
    end()
    lines = (f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in asked.items())
    out.with_suffix(".json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    with tarfile.open(out.with_suffix(".tar.xz"), "w:xz") as archive:
        archive.add(daemon.log_dir, "logs", filter=_without_owner)
    print(f"{out}: {out.with_suffix('.tar.xz').stat().st_size:,} bytes", flush=True)


def _settled_histories(bootstrap: str, tree: Path) -> dict[str, Any] | None:
    """The groups' events once no more come: the daemon writes them after it has answered the requests."""
    before = {group_id: history_json(bootstrap, group_id, tree) for group_id in GROUPS}
    time.sleep(1)
    after = {group_id: history_json(bootstrap, group_id, tree) for group_id in GROUPS}
    return after if before == after else None


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def fill_topics(bootstrap: str) -> None:
    """Make topics with their own settings, delete one, write records in several codecs, set a broker setting."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    small = {"segment.ms": "20"}
    compacted = {"cleanup.policy": "compact", "compression.type": "zstd"}
    topics = [
        NewTopic("orders", 2, config=small),
        NewTopic("prices", 1, config=compacted),
        NewTopic("gone", 1),
    ]
    _wait(admin.create_topics(topics))
    broker = ConfigResource(ResourceType.BROKER, _node(admin))
    broker.add_incremental_config(_setting("log.cleaner.io.max.bytes.per.second", "1000000"))
    _wait(admin.incremental_alter_configs([broker]))
    for codec in ("none", "gzip", "zstd"):
        producer = Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True}
        )
        for number in range(20):
            produce(producer, "orders", number % 2, f"{codec} {number}")
        for number in range(5):
            produce(producer, "prices", 0, f"{codec} {number}")
        producer.flush(TIMEOUT_S)
    _wait(admin.delete_records([TopicPartition("orders", 0, 4)]))
    _wait(admin.delete_topics(["gone"]))
    commit_transaction(bootstrap, offset=3)
    abort_transaction(bootstrap)


def _wait(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(TIMEOUT_S)


def _node(admin: AdminClient) -> str:
    (node,) = admin.list_topics(timeout=TIMEOUT_S).brokers
    return str(node)


def _setting(name: str, value: str) -> ConfigEntry:
    return ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)


def produce(producer: Producer, topic: str, partition: int, text: str) -> None:
    key = text.partition(" ")[2].encode()
    producer.produce(topic, text.encode(), key, partition, headers=[("text", text.encode())])


def _transactional(bootstrap: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "exactly-once-1"})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    return producer


def commit_transaction(bootstrap: str, offset: int) -> None:
    """Commit records and a group's offsets in one transaction."""
    producer = _transactional(bootstrap)
    produce(producer, "orders", 1, f"committed {offset}")
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "exactly-once"})
    where = TopicPartition("orders", 0, offset, "by a transaction")
    producer.send_offsets_to_transaction([where], reader.consumer_group_metadata(), TIMEOUT_S)
    producer.commit_transaction(TIMEOUT_S)
    reader.close()


def abort_transaction(bootstrap: str) -> None:
    producer = _transactional(bootstrap)
    produce(producer, "orders", 1, "aborted 1")
    producer.flush(TIMEOUT_S)
    producer.abort_transaction(TIMEOUT_S)


@contextlib.contextmanager
def member(
    bootstrap: str, group_id: str, client_id: str, topics: list[str], instance: str | None = None
) -> Iterator[Consumer]:
    """Yield a consumer that is in its group; at the end it leaves, unless it is a static member."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "client.id": client_id,
            "session.timeout.ms": LONG_SESSION_MS,
            "max.poll.interval.ms": LONG_SESSION_MS,
            "topic.metadata.refresh.interval.ms": 500,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **({"group.instance.id": instance} if instance else {}),
        }
    )
    consumer.subscribe(topics)
    try:
        poll_until(consumer, lambda: bool(consumer.assignment()), f"{client_id} joins")
        yield consumer
    finally:
        consumer.close()


def poll_until(consumer: Consumer, condition: Callable[[], bool], what: str) -> None:
    def is_so() -> bool:
        consumer.poll(0.05)
        return condition()

    wait_until(is_so, what, TIMEOUT_S)


def run_groups(bootstrap: str) -> None:
    """Let members join, change subscriptions, see new partitions, leave and crash; all kinds of members commit."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    with member(bootstrap, "billing", "billing-1", ["orders"]) as consumer:
        consumer.commit(
            offsets=[TopicPartition("orders", 0, 7, "half of it"), TopicPartition("orders", 1, 8)]
        )
        consumer.subscribe(["orders", "prices"])
        poll_until(consumer, lambda: len(consumer.assignment()) == 3, "another subscription is assigned")
    _wait(admin.create_topics([NewTopic("wide", 1)]))
    with member(bootstrap, "growing", "growing-1", ["wide"]) as consumer:
        _wait(admin.create_partitions([NewPartitions("wide", 3)]))
        poll_until(consumer, lambda: len(consumer.assignment()) == 3, "new partitions are assigned")
        consumer.commit(offsets=[TopicPartition("wide", 2, 0)])
    crash_a_member(bootstrap)
    with member(bootstrap, "deleted", "deleted-1", ["orders"]) as consumer:
        consumer.commit(offsets=[TopicPartition("orders", 0, 5)])
    _wait(admin.delete_consumer_groups(["deleted"]))
    standalone = Consumer({"bootstrap.servers": bootstrap, "group.id": "standalone"})
    standalone.commit(offsets=[TopicPartition("prices", 0, 11, "without members")], asynchronous=False)
    standalone.close()


def crash_a_member(bootstrap: str) -> None:
    """Kill a member's process and wait until its session has expired."""
    command = [sys.executable, "-c", MEMBER_THAT_CRASHES, bootstrap]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"joined\n"
        process.kill()
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def is_empty() -> bool:
        found = admin.describe_consumer_groups(["crashing"])["crashing"].result(TIMEOUT_S)
        return not found.members

    wait_until(is_empty, "the session expires", TIMEOUT_S)


if __name__ == "__main__":
    main()
