"""The handlers of the data plane's APIs by key, for the server's API table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from coordinator.admin import (
    alter_configs,
    create_partitions,
    create_topics,
    delegation_tokens,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    elections,
    list_config_resources,
    metadata,
    quorum,
    reassignments,
    scram_users,
    unsecured,
    update_features,
)
from coordinator.data import (
    delete_records,
    fetch,
    init_producer_id,
    list_offsets,
    offset_for_leader_epoch,
    produce,
    write_txn_markers,
)
from coordinator.data.broker import Broker, ClientRequest

TopicHandler = Callable[[Any, ClientRequest], None]


def topic_handlers(broker: Broker) -> dict[int, TopicHandler]:
    """Return the handlers by API key, each bound to `broker`."""
    handlers: dict[int, Callable[[Broker, Any, ClientRequest], None]] = {
        0: produce.handle,
        1: fetch.handle,
        2: list_offsets.handle,
        3: metadata.handle,
        17: unsecured.sasl_handshake,
        19: create_topics.handle,
        20: delete_topics.handle,
        21: delete_records.handle,
        22: init_producer_id.handle,
        23: offset_for_leader_epoch.handle,
        27: write_txn_markers.handle,
        29: unsecured.describe_acls,
        30: unsecured.create_acls,
        31: unsecured.delete_acls,
        32: describe_configs.handle,
        33: alter_configs.handle,
        34: reassignments.alter_replica_log_dirs,
        35: describe_log_dirs.handle,
        36: unsecured.sasl_authenticate,
        37: create_partitions.handle,
        43: elections.elect_leaders,
        44: alter_configs.handle_incremental,
        45: reassignments.alter_reassignments,
        46: reassignments.list_reassignments,
        **scram_users.HANDLERS,
        55: quorum.describe_quorum,
        57: update_features.update_features,
        60: describe_cluster.handle,
        61: describe_producers.handle,
        64: quorum.unregister_broker,
        74: list_config_resources.handle,
        75: describe_topic_partitions.handle,
        80: quorum.add_voter,
        81: quorum.remove_voter,
    }
    return {key: partial(handle, broker) for key, handle in (handlers | delegation_tokens.HANDLERS).items()}
