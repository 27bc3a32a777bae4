"""One Apache Kafka for all tests of logs on it, and a topic of its own for each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from structlog.testing import capture_logs
from structlog.typing import EventDict

from coordinator.backing.kafka.backing_log import prepared_topic
from coordinator.backing.kafka.topic import BackingTopic
from harness.kafka_broker import KafkaBroker
from harness.observer import unique
from tests.backing.kafka_node import PARTITIONS, running_cluster, wall_ms


@pytest.fixture
def logs() -> Iterator[list[EventDict]]:
    with capture_logs() as logged:
        yield logged


@pytest.fixture(scope="package")
def kafka(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest_asyncio.fixture
async def topic(kafka: KafkaBroker) -> AsyncIterator[BackingTopic]:
    async with running_cluster(kafka.bootstrap) as cluster:
        yield await prepared_topic(cluster, unique("muster"), PARTITIONS, wall_ms())
