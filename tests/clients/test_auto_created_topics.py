"""Stock clients make topics by using them: the first answer says that there is none, and they ask again.

The first example of the README is run as it stands there.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

from harness.observer import unique
from harness.processes import ServerProcess
from tests.clients.conftest import TARGETS

TIMEOUT_S: Final = 90
ROOT: Final = Path(__file__).resolve().parents[2]
EXAMPLE_ADDRESS: Final = "127.0.0.1:9092"
ORDERS: Final = 10


@pytest.fixture(scope="module")
def making_broker(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A broker that makes the topics it is asked for, as it does by default."""
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with TARGETS[target](tmp_path_factory.mktemp("making-broker"), settings) as server:
        yield server


def by_aiokafka(bootstrap: str, topic: str) -> int:
    async def produce() -> int:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            return int((await producer.send_and_wait(topic, b"first")).offset)

    return asyncio.run(produce())


def by_confluent(bootstrap: str, topic: str) -> int:
    offsets: list[int | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.produce(topic, b"first", on_delivery=lambda error, message: offsets.append(message.offset()))
    assert producer.flush(TIMEOUT_S) == 0
    (offset,) = offsets
    assert offset is not None
    return offset


def by_kafka_python(bootstrap: str, topic: str) -> int:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    try:
        return int(producer.send(topic, b"first").get(TIMEOUT_S).offset)
    finally:
        producer.close()


@pytest.mark.parametrize("produce", [by_aiokafka, by_confluent, by_kafka_python])
def test_a_producer_makes_its_topic(produce: Callable[[str, str], int], making_broker: ServerProcess) -> None:
    assert produce(making_broker.bootstrap, unique("made-by-use")) == 0


def test_a_consumer_that_waits_makes_its_topic_and_reads_what_comes(making_broker: ServerProcess) -> None:
    topic = unique("awaited")

    async def consume() -> bytes:
        where = {"bootstrap_servers": making_broker.bootstrap}
        consumer = AIOKafkaConsumer(
            topic, **where, group_id=topic, auto_offset_reset="earliest", metadata_max_age_ms=500
        )
        async with asyncio.timeout(TIMEOUT_S), consumer:
            async with AIOKafkaProducer(**where) as producer:
                await producer.send_and_wait(topic, b"came later")
            value = (await consumer.getone()).value
            assert value is not None
            return bytes(value)

    assert asyncio.run(consume()) == b"came later"


def test_the_first_example_of_the_readme_runs(making_broker: ServerProcess, tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert EXAMPLE_ADDRESS in example
    script = tmp_path / "example.py"
    script.write_text(example.replace(EXAMPLE_ADDRESS, making_broker.bootstrap))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    printed = [line.split(" ", 2) for line in done.stdout.splitlines()]
    assert printed == [["0", str(number), f"order {number}"] for number in range(ORDERS)]
