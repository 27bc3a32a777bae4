"""The daemon's settings that the data plane reads, those that stand above or below what a client may set for a
topic or a group, and all that may change at run time: plain values.

`coordinator/settings/model.py` checks them where they are read; nothing here parses or looks anything up.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from coordinator.topics.config_values import INT32_MAX, INT64_MAX

FLOAT_MAX = sys.float_info.max


@dataclass(frozen=True, slots=True)
class DynamicSettings:
    """Settings that were changed at run time, as texts by Kafka's names: for this node, and for all nodes."""

    of_node: Mapping[str, str]
    of_all: Mapping[str, str]


NOTHING_DYNAMIC = DynamicSettings({}, {})


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The daemon's settings that concern topics, or the settings of single groups, with Kafka's defaults.

    `dynamic` has the values that were changed at run time, and `static` the settings without these changes.
    """

    node_id: int = 1
    cluster_id: str = ""
    rack: str | None = None
    num_partitions: int = 1
    default_replication_factor: int = 1
    auto_create_topics_enable: bool = True
    delete_topic_enable: bool = True
    message_max_bytes: int = 1_048_588
    min_insync_replicas: int = 1
    log_cleanup_policy: str = "delete"
    log_retention_ms: int = 604_800_000
    log_retention_bytes: int = -1
    log_segment_bytes: int = 1 << 30
    log_roll_ms: int = 604_800_000
    log_roll_jitter_ms: int = 0
    log_index_size_max_bytes: int = 10_485_760
    log_index_interval_bytes: int = 4096
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    log_flush_interval_messages: int = INT64_MAX
    log_flush_interval_ms: int = INT64_MAX
    log_cleaner_min_cleanable_ratio: float = 0.5
    log_cleaner_delete_retention_ms: int = 86_400_000
    log_cleaner_min_compaction_lag_ms: int = 0
    log_cleaner_max_compaction_lag_ms: int = INT64_MAX
    log_segment_delete_delay_ms: int = 60_000
    log_message_timestamp_type: str = "CreateTime"
    log_message_timestamp_before_max_ms: int = INT64_MAX
    log_message_timestamp_after_max_ms: int = 3_600_000
    fetch_max_bytes: int = 57_671_680
    max_incremental_fetch_session_cache_slots: int = 1000
    producer_id_expiration_ms: int = 86_400_000
    max_partitions: int = 20_000
    """Most partitions of all topics together, a bound of Muster's own: each holds open files and some KiB."""
    log_cleaner_threads: int = 1
    log_cleaner_backoff_ms: int = 15_000
    log_cleaner_dedupe_buffer_size: int = 134_217_728
    log_cleaner_io_max_bytes_per_second: float = FLOAT_MAX
    transaction_partition_verification_enable: bool = True
    max_connections: int = INT32_MAX
    max_connections_per_ip: int = INT32_MAX
    max_connections_per_ip_overrides: str = ""
    max_connection_creation_rate: int = INT32_MAX
    cordoned_log_dirs: str = ""
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_max_assignment_interval_ms: int = 15_000
    dynamic: DynamicSettings = NOTHING_DYNAMIC
    static: TopicSettings | None = None

    def dynamic_text(self, name: str) -> str | None:
        """Return the text set at run time under Kafka's `name`, for this node or else for all; None if not set."""
        of_node = self.dynamic.of_node.get(name)
        return self.dynamic.of_all.get(name) if of_node is None else of_node
