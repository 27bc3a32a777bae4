"""What our clients of a cluster have in common: settings, how long they wait, what they say of a failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError
from confluent_kafka.admin import OffsetSpec

TIMEOUT_S: Final = 15.0
EARLIEST: Final = OffsetSpec.earliest()
LATEST: Final = OffsetSpec.latest()


def client_settings(bootstrap: str, kafka: Mapping[str, str]) -> dict[str, str | int | float | bool]:
    """Of a confluent-kafka client: silent, since what goes wrong is told by whoever uses it."""
    return {"bootstrap.servers": bootstrap, "client.id": "muster-spark", "log_level": 0, **kafka}


def in_words(error: Exception) -> str:
    """What the client says of its failure, in its own words and without its codes."""
    first = error.args[0] if error.args else error
    return str(first.str()) if isinstance(first, KafkaError) else str(first)
