"""What the tests of this folder begin with."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from harness.daemon import MusterDaemon


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A directory with a topic and a record, left by a clean stop."""
    with MusterDaemon(tmp_path) as daemon:
        admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
        for made in admin.create_topics([NewTopic("orders", 1, 1)]).values():
            made.result(30)
        producer = Producer({"bootstrap.servers": daemon.bootstrap})
        producer.produce("orders", "v")
        assert producer.flush(30) == 0
        assert daemon.terminate() == 0
        return daemon.log_dir
