"""The settings of the daemon, under Kafka's own option names, with Kafka's defaults and ranges.

One field of `Settings` is one option: `group_max_size` is `group.max.size`. `load` gathers them from the
flags, the environment and a properties file, in this order of precedence, checks everything before
anything starts, and reports all that is wrong at once. Settings of our own begin with `muster.`.
Options of a Kafka broker that mean nothing here have no effect and are named in `LoadedSettings.ignored`. Nothing
here knows groups, topics or the log, which read the attributes they need.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import ConfigDict, Field, PrivateAttr, ValidationInfo, model_validator

from coordinator.settings import group_kinds
from coordinator.settings.backing import BackingSettings
from coordinator.settings.encryption import EncryptionSettings
from coordinator.settings.listeners import ListenerConfig, parse_listeners
from coordinator.settings.log_times import MS_PER_HOUR, LogTimes
from coordinator.settings.logins import LoginSettings
from coordinator.settings.operators import OperatorSettings
from coordinator.settings.permissions import PermissionSettings
from coordinator.settings.plugins import without_plugins
from coordinator.settings.prefixed import ListenerSettings, OwnValues, Place
from coordinator.settings.quotas import QuotaSettings
from coordinator.settings.rules import ConflictsError, conflicts
from coordinator.settings.types import (
    AddressCounts,
    Choice,
    Count,
    CountOrNone,
    CountOrZero,
    FreeText,
    LongCount,
    LongCountOrNone,
    LongCountOrZero,
    NonBlank,
    Real,
    Switch,
    Whole,
    WordList,
    Words,
)
from coordinator.topics.config_values import INT32_MAX, INT64_MAX
from coordinator.topics.dynamic_kinds import MAX_CLEANER_THREADS

DEFAULT_NODE_ID: Final = 1  # What Kafka's own quick start uses.
FLOAT_MAX: Final = sys.float_info.max


class Settings(
    LogTimes,
    OperatorSettings,
    LoginSettings,
    EncryptionSettings,
    PermissionSettings,
    QuotaSettings,
    BackingSettings,
):
    """All settings, checked and immutable. The constructor reads no file and no environment.

    Raises pydantic's ValidationError, whose messages say what is allowed; `settings_sources.load` turns
    them into sentences.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    _own: OwnValues = PrivateAttr(default_factory=dict)
    """Of single listeners."""

    # The node, and its listeners.
    listeners: WordList = Field(
        ("PLAINTEXT://127.0.0.1:9092",), description="Addresses to bind, as NAME://host:port."
    )
    advertised_listeners: WordList = Field(
        (), description="What clients connect to, by listener; else as bound."
    )
    listener_security_protocol_map: WordList = Field(
        ("SASL_SSL:SASL_SSL", "PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT"),
        description="The security protocol of each listener name: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
    )
    controller_listener_names: WordList = Field(
        (), description="Listeners of a broker's file that Muster leaves out."
    )
    node_id: Annotated[int, Whole(0)] = Field(DEFAULT_NODE_ID, description="The broker id that clients see.")
    broker_id: Annotated[int, Whole(0, also=(-1,))] = Field(-1, description="The older name of node.id.")
    broker_rack: Annotated[str | None, FreeText(optional=True)] = Field(
        None, description="Where the node stands, as Metadata shows it."
    )

    # The log.
    log_dirs: WordList = Field((), description="Where the log is kept; one directory. Overrides log.dir.")
    log_dir: NonBlank = Field("muster-data", description="Where the log is kept, if log.dirs is not given.")
    cordoned_log_dirs: WordList = Field(
        (), description="The log directory, or *, if no new topic is to be placed in it."
    )
    log_segment_bytes: Annotated[int, Whole(1 << 20)] = Field(
        1 << 30, description="Size at which a new segment begins."
    )
    log_roll_ms: Annotated[int | None, Whole(1, INT64_MAX, optional=True)] = Field(
        None, description="Age at which a new segment begins; overrides log.roll.hours."
    )
    log_roll_hours: Count = Field(168, description="Age at which a new segment begins.")
    log_roll_jitter_ms: Annotated[int | None, Whole(0, INT64_MAX, optional=True)] = Field(
        None,
        description="The most, at random, by which a new segment begins earlier; overrides log.roll.jitter.hours.",
    )
    log_roll_jitter_hours: CountOrZero = Field(
        0, description="The most, at random, by which a new segment begins earlier."
    )
    log_retention_ms: Annotated[int | None, Whole(1, INT64_MAX, also=(-1,), optional=True)] = Field(
        None, description="How long records are kept; -1 for ever. Overrides log.retention.minutes."
    )
    log_retention_minutes: Annotated[int | None, Whole(1, also=(-1,), optional=True)] = Field(
        None, description="How long records are kept; -1 for ever. Overrides log.retention.hours."
    )
    log_retention_hours: Annotated[int, Whole(1, also=(-1,))] = Field(
        168, description="How long records are kept; -1 for ever."
    )
    log_retention_bytes: LongCountOrNone = Field(
        -1, description="Size at which a partition's oldest segments go; -1: never."
    )
    log_retention_check_interval_ms: LongCount = Field(300_000, description="How often retention is applied.")
    log_flush_offset_checkpoint_interval_ms: Count = Field(
        60_000, description="How often recovery points are written: how far a start after a crash looks back."
    )
    log_flush_interval_messages: LongCount = Field(
        INT64_MAX, description="A topic's log is synced when so many records came since it last was."
    )
    log_flush_interval_ms: Annotated[int | None, Whole(0, INT64_MAX, also=(-1,), optional=True)] = Field(
        None,
        description="A topic's log that was not synced for so long is, when that is looked at; -1: never. If not "
        "given, log.flush.scheduler.interval.ms.",
    )
    log_flush_scheduler_interval_ms: LongCount = Field(
        INT64_MAX, description="How often it is looked for such logs; by default never."
    )
    log_segment_delete_delay_ms: LongCountOrZero = Field(
        60_000, description="Shown; a deleted file lasts until its last reader is done."
    )
    log_index_size_max_bytes: Annotated[int, Whole(4)] = Field(
        10_485_760, description="Size of an index at which a new segment begins."
    )
    log_index_interval_bytes: CountOrZero = Field(4096, description="Log bytes between two index entries.")

    log_cleanup_policy: Annotated[tuple[str, ...], Words(("compact", "delete"))] = Field(
        ("delete",), description="What becomes of old records in topics that do not say."
    )
    log_message_timestamp_type: Annotated[str, Choice(("CreateTime", "LogAppendTime"), is_exact=True)] = (
        Field("CreateTime", description="Whose time records bear: the producer's, or ours when they come.")
    )
    log_message_timestamp_before_max_ms: LongCountOrZero = Field(
        INT64_MAX, description="Records that claim to be older than this are refused."
    )
    log_message_timestamp_after_max_ms: LongCountOrZero = Field(
        MS_PER_HOUR, description="Records that claim to come from further in the future are refused."
    )

    # Compaction.
    log_cleaner_enable: Switch = Field(
        True, description="Whether topics with cleanup.policy=compact are cleaned."
    )
    log_cleaner_threads: Annotated[int, Whole(1, MAX_CLEANER_THREADS)] = Field(
        1, description="Logs that are cleaned side by side."
    )
    log_cleaner_backoff_ms: LongCountOrZero = Field(
        15_000, description="How often the cleaner looks for logs, if there are none to clean."
    )
    log_cleaner_min_cleanable_ratio: Annotated[float, Real(0, 1)] = Field(
        0.5, description="Share of a log that must be dirty for a cleaning."
    )
    log_cleaner_delete_retention_ms: LongCountOrZero = Field(
        86_400_000, description="How long a tombstone stays, from the first cleaning that meets it."
    )
    log_cleaner_min_compaction_lag_ms: LongCountOrZero = Field(
        0, description="Records younger than this are not cleaned."
    )
    log_cleaner_max_compaction_lag_ms: LongCount = Field(
        INT64_MAX, description="Records older than this are cleaned, whatever the ratio."
    )
    log_cleaner_dedupe_buffer_size: LongCount = Field(
        134_217_728, description="Memory for keys, of all cleaner threads together."
    )
    log_cleaner_io_max_bytes_per_second: Annotated[float, Real()] = Field(
        FLOAT_MAX, description="Most bytes that one cleaner thread reads and writes in a second."
    )

    # Topics.
    num_partitions: Count = Field(1, description="Partitions of a topic made without saying how many.")
    auto_create_topics_enable: Switch = Field(
        True, description="Whether asking for a topic makes it, behind the answer."
    )
    delete_topic_enable: Switch = Field(True, description="Whether topics may be deleted.")
    default_replication_factor: Count = Field(
        1,
        description="Replicas of a topic made without saying how many. There is one node: above 1, such a "
        "topic is refused, and none is made by being asked for.",
    )
    compression_type: Annotated[
        str, Choice(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), is_exact=True)
    ] = Field("producer", description="How batches are stored; producer: as they come.")
    compression_gzip_level: Annotated[int, Whole(1, 9, also=(-1,))] = Field(
        -1, description="Level of gzip, where batches are stored so and come otherwise; -1: 6."
    )
    compression_lz4_level: Annotated[int, Whole(1, 17)] = Field(
        9, description="Level of lz4, likewise; 9 stands for the fast compressor."
    )
    compression_zstd_level: Annotated[int, Whole(-131_072, 22)] = Field(
        3, description="Level of zstd, likewise."
    )
    message_max_bytes: CountOrZero = Field(
        1_048_588, description="Largest record batch, as it lies in the log."
    )

    # The offsets topic.
    offsets_topic_num_partitions: Count = Field(
        50, description="Partitions of __consumer_offsets; fixed once data exists."
    )
    offsets_topic_segment_bytes: Annotated[int, Whole(1 << 20)] = Field(
        104_857_600, description="Segment size of __consumer_offsets, from when it is made on."
    )
    offsets_topic_compression_codec: Annotated[int, Whole(0, 4)] = Field(
        0, description="Compression of its batches: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."
    )
    offsets_topic_replication_factor: Annotated[int, Whole(1, 2**15 - 1)] = Field(
        3, description="Accepted; there is one node, so one replica."
    )
    offsets_retention_minutes: Count = Field(
        10_080, description="How long offsets of a group without members are kept."
    )
    offsets_retention_check_interval_ms: LongCount = Field(
        600_000, description="How often old offsets are looked for."
    )
    offset_metadata_max_bytes: CountOrZero = Field(
        4096,
        description="Longest metadata of one committed offset, in characters as Java counts them (UTF-16 "
        "units), not in bytes.",
    )
    offsets_commit_timeout_ms: Count = Field(
        5000, description="How long a write of the coordinator may take."
    )
    offsets_load_buffer_size: Count = Field(
        5_242_880, description="Bytes read at a time when the offsets log is loaded."
    )

    # Transactions.
    transaction_state_log_num_partitions: Count = Field(
        50, description="Partitions of __transaction_state; fixed once data exists."
    )
    transaction_state_log_segment_bytes: Annotated[int, Whole(1 << 20)] = Field(
        104_857_600, description="Segment size of __transaction_state, from when it is made on."
    )
    transaction_state_log_replication_factor: Annotated[int, Whole(1, 2**15 - 1)] = Field(
        3, description="Accepted; there is one node, so one replica."
    )
    transaction_state_log_min_isr: Count = Field(
        2, description="Accepted; there is one node, so one replica."
    )
    transaction_max_timeout_ms: Count = Field(
        900_000, description="Longest transaction timeout a producer may ask for."
    )
    transaction_partition_verification_enable: Switch = Field(
        True, description="Whether a partition asks if it belongs to a producer's transaction (KIP-890)."
    )
    transactional_id_expiration_ms: Count = Field(
        604_800_000, description="How long a transactional id is known after its last use."
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: Count = Field(
        3_600_000, description="How often expired transactional ids are looked for."
    )

    producer_id_expiration_ms: Count = Field(
        86_400_000, description="How long a producer is known after its last batch or marker."
    )
    producer_id_expiration_check_interval_ms: Count = Field(
        600_000, description="How often producers that were silent for so long are looked for."
    )

    # Groups.
    group_coordinator_rebalance_protocols: group_kinds.Protocols = Field(
        group_kinds.DEFAULT_KINDS,
        description="Kinds of groups that are served; without consumer, no consumer groups.",
    )
    group_min_session_timeout_ms: CountOrZero = Field(
        6000, description="Shortest session timeout a member may ask for."
    )
    group_max_session_timeout_ms: CountOrZero = Field(
        1_800_000, description="Longest session timeout a member may ask for."
    )
    group_initial_rebalance_delay_ms: CountOrZero = Field(
        3000, description="Wait for more members before the first rebalance."
    )
    group_max_size: Count = Field(INT32_MAX, description="Most members of one classic group.")
    group_consumer_max_size: Count = Field(INT32_MAX, description="Most members of one consumer group.")
    group_consumer_min_heartbeat_interval_ms: Count = Field(5000, description="The shortest that may be set.")
    group_consumer_heartbeat_interval_ms: Count = Field(
        5000, description="How often members of consumer groups send heartbeats."
    )
    group_consumer_max_heartbeat_interval_ms: Count = Field(
        15_000, description="The longest that may be set."
    )
    group_consumer_min_session_timeout_ms: Count = Field(45_000, description="The shortest that may be set.")
    group_consumer_session_timeout_ms: Count = Field(
        45_000, description="Session of members of consumer groups."
    )
    group_consumer_max_session_timeout_ms: Count = Field(60_000, description="The longest that may be set.")
    group_consumer_min_assignment_interval_ms: CountOrZero = Field(
        0, description="The least that may be set."
    )
    group_consumer_assignment_interval_ms: CountOrZero = Field(
        1000, description="Least time between two assignments of one consumer group."
    )
    group_consumer_max_assignment_interval_ms: CountOrZero = Field(
        15_000, description="The most that may be set."
    )
    group_consumer_regex_refresh_interval_ms: Annotated[int, Whole(10_000)] = Field(
        600_000, description="How often expressions are matched again, whatever happens to topics."
    )
    group_consumer_assignors: group_kinds.Assignors = Field(
        group_kinds.ASSIGNORS,
        description="What members of consumer groups may name; the first is the default.",
    )
    group_consumer_migration_policy: group_kinds.MigrationPolicyName = Field(
        "bidirectional", description="Which way a group with members may change its protocol."
    )

    # Connections.
    socket_request_max_bytes: Count = Field(104_857_600, description="Largest request.")
    queued_max_request_bytes: LongCountOrNone = Field(
        268_435_456,
        description="Memory for the requests of all connections; -1 or 0: without a limit. While others "
        "wait for it, a connection is closed whose unfinished request brings no byte for 2 seconds or is not "
        "whole after 30.",
    )
    socket_listen_backlog_size: Count = Field(
        65_535, description="Connections that may wait to be accepted; the system has a limit of its own."
    )
    socket_send_buffer_bytes: CountOrNone = Field(
        102_400, description="Send buffer of a socket; -1: the system's."
    )
    socket_receive_buffer_bytes: CountOrNone = Field(
        102_400, description="Receive buffer of a socket; -1: the system's."
    )
    max_connections: CountOrZero = Field(INT32_MAX, description="Most connections of one listener set.")
    max_connections_per_ip: CountOrZero = Field(INT32_MAX, description="Most connections from one address.")
    max_connection_creation_rate: Count = Field(
        INT32_MAX, description="Connections that are accepted in a second; more wait in the system's queue."
    )
    max_connections_per_ip_overrides: Annotated[str, AddressCounts()] = Field(
        "", description="Most connections from single addresses; names are not looked up."
    )
    connections_max_idle_ms: LongCountOrNone = Field(
        600_000, description="A connection silent for longer is closed; -1: never."
    )
    max_incremental_fetch_session_cache_slots: CountOrZero = Field(1000, description="Most fetch sessions.")
    fetch_max_bytes: Annotated[int, Whole(1024)] = Field(
        57_671_680, description="Most bytes in one Fetch answer."
    )

    # Clients' metrics (KIP-714).
    telemetry_max_bytes: Count = Field(
        1_048_576, description="Most bytes of metrics in one push of a client, compressed and not."
    )

    # Ours.
    muster_client_metrics: Switch = Field(
        False,
        description="Whether clients may push metrics of their own (KIP-714), as Kafka lets them if it has a "
        "receiver. Needs `pip install opentelemetry-proto`, which the extra `client-metrics` names.",
    )
    muster_flush_policy: Annotated[str, Choice(("fsync", "os"))] = Field(
        "fsync",
        description="Whether the journal is synced before a commit is answered: fsync survives power loss, os "
        "survives kill -9. Topics are as with os, but for what log.flush.interval.* ask for.",
    )
    muster_flush_threads: Annotated[int, Whole(1, 64)] = Field(
        4, description="Threads that write and sync the logs of topics; the journal has its own."
    )
    muster_history_events_per_group: Annotated[int, Whole(0, 10_000)] = Field(
        200, description="Newest events of each group held in memory."
    )
    muster_history_topic_retention_ms: LongCountOrNone = Field(
        604_800_000, description="How long __group_events keeps events; -1: for ever."
    )
    muster_history_topic_retention_bytes: LongCountOrNone = Field(
        104_857_600, description="Size of a partition of __group_events; -1: without a limit."
    )

    @model_validator(mode="before")
    @classmethod
    def _accept_older_name(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "node_id" in given:
            return given
        try:
            return {**given, "node_id": Whole(0).parse(given.get("broker_id"))}
        except ValueError:
            return given  # Not given, -1, or wrong, which is reported as a problem of broker.id itself.

    @model_validator(mode="after")
    def _check_related_settings(self, info: ValidationInfo) -> Self:
        if info.context:
            self._own = info.context
        if found := tuple(conflicts(self)):
            raise ConflictsError(found)
        return self

    @property
    def endpoints(self) -> tuple[ListenerConfig, ...]:
        """The listeners to bind, each with its advertised address."""
        return parse_listeners(
            self.listeners,
            self.advertised_listeners,
            self.listener_security_protocol_map,
            self.controller_listener_names,
        )

    def of_listener(self, name: str) -> ListenerSettings:
        """Return the settings as the listener of that name, in capitals, has them."""
        return ListenerSettings(name, lambda option: getattr(self, attribute_name(option), None), self._own)

    def shown_of_listeners(self) -> list[tuple[Place, str]]:
        """Return each setting of a single listener with its text."""
        return [(place, own.text) for place, own in self._own.items()]

    @property
    def data_directory(self) -> Path:
        """The directory of the logs: log.dirs if it is given, otherwise log.dir."""
        return Path(self.log_dirs[0] if self.log_dirs else self.log_dir)


with without_plugins():
    Settings.model_rebuild()


def option_name(attribute: str) -> str:
    """Return the name of the option that the attribute `attribute` of Settings holds."""
    return attribute.replace("_", ".")


def attribute_name(option: str) -> str:
    """Return the name of the attribute of Settings that holds the option `option`."""
    return option.replace(".", "_")


OPTIONS: Final = frozenset(option_name(attribute) for attribute in Settings.model_fields)
"""The option names of all settings."""
