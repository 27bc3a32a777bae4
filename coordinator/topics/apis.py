"""The APIs of the data plane, by key: what the server puts into its table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from coordinator.topics import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_producers,
    describe_topic_partitions,
    fetch,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
    write_txn_markers,
)
from coordinator.topics.broker import Broker, Pending

Handler = Callable[[Any, Pending], None]


def topic_handlers(broker: Broker) -> dict[int, Handler]:
    """The handlers by API key, each bound to `broker`."""
    handlers: dict[int, Callable[[Broker, Any, Pending], None]] = {
        0: produce.handle,
        1: fetch.handle,
        2: list_offsets.handle,
        3: metadata.handle,
        19: create_topics.handle,
        20: delete_topics.handle,
        22: init_producer_id.handle,
        23: offset_for_leader_epoch.handle,
        27: write_txn_markers.handle,
        32: describe_configs.handle,
        37: create_partitions.handle,
        60: describe_cluster.handle,
        61: describe_producers.handle,
        75: describe_topic_partitions.handle,
    }
    return {key: partial(handle, broker) for key, handle in handlers.items()}
