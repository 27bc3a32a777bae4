"""Every setting of a daemon arrives, as it was given, at the part that works by it.

A daemon is put together with every setting at a value of its own, so that a default in the place of a
setting, or one setting in the place of another, does not go unseen. What a part then makes of its value is
the matter of that part's own tests.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from coordinator.daemon.daemon import Daemon, open_directory
from coordinator.groups.consumer.classic_checks import MigrationPolicy
from coordinator.groups.group_settings import GroupSettings
from coordinator.history.events import TOPIC as HISTORY_TOPIC
from coordinator.part_settings import transaction_settings
from coordinator.runtime.shard_runner import ShardRunner
from coordinator.security.authorizer import StandardAuthorizer
from coordinator.server.creation_rate import CreationRate
from coordinator.server.find_coordinator import FindCoordinator
from coordinator.settings.kinds import kind_of
from coordinator.settings.model import Settings
from coordinator.settings.permissions import STANDARD_AUTHORIZER
from coordinator.settings.types import Whole
from coordinator.topics.names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from coordinator.topics.settings import TopicSettings
from coordinator.transactions.shard import TransactionShard
from storage.files import Files
from storage.log.config import LogConfig

ROOT: Final = Path(__file__).resolve().parents[2]

FIRST_NUMBER: Final = 5_000_000
"""Settings that may be any number get this and those that follow, in their order: no two are alike."""

GIVEN: Final[dict[str, Any]] = {
    "listeners": ("PLAINTEXT://127.0.0.1:0",),
    "broker_rack": "west",
    "log_cleanup_policy": ("compact", "delete"),
    "log_message_timestamp_type": "LogAppendTime",
    "log_cleaner_enable": False,
    "log_cleaner_threads": 3,
    "log_cleaner_min_cleanable_ratio": 0.25,
    "log_cleaner_io_max_bytes_per_second": 1_234_567.5,
    "auto_create_topics_enable": False,
    "delete_topic_enable": False,
    "compression_type": "zstd",
    "compression_gzip_level": 7,
    "compression_lz4_level": 8,
    "compression_zstd_level": 5,
    "offsets_topic_num_partitions": 3,
    "offsets_topic_compression_codec": 4,
    "offsets_topic_replication_factor": 5,
    "transaction_state_log_num_partitions": 2,
    "transaction_state_log_replication_factor": 4,
    "transaction_partition_verification_enable": False,
    "socket_send_buffer_bytes": 20_000,
    "socket_receive_buffer_bytes": 30_000,
    "max_connections_per_ip_overrides": "127.0.0.9:17",
    "group_coordinator_rebalance_protocols": ("classic",),
    "group_consumer_assignors": ("range",),
    "group_consumer_migration_policy": "upgrade",
    "authorizer_class_name": STANDARD_AUTHORIZER,
    "super_users": "User:admin",
    "allow_everyone_if_no_acl_found": True,
    "muster_flush_policy": "os",
    "muster_flush_threads": 6,
    "muster_history_events_per_group": 77,
    "muster_log_level": "warning",
    "muster_offsets_topic": "logs",
    "muster_lease_ms": 4_321,
    "muster_topic_deletion_confirm_ms": 999,
    "muster_clients": "gateway",
    "muster_gateway_first_port": 9_100,
    "muster_groups_include": "ours.*",
    "muster_group_authorization": "none",
    "muster_metrics_groups_max": 55,
    "muster_metrics_groups_include": "in.*",
    "muster_metrics_groups_exclude": ".*out",
    "muster_metrics_partitions": "lagging",
    "muster_metrics_partitions_max": 66,
    "muster_metrics_compatible": ("kminion",),
}

HELD_OTHERWISE: Final = {
    "muster_offsets_topic": "tests/backing/test_nodes_on_kafka.py::test_a_claim_says_what_the_settings_say",
    "muster_lease_ms": "tests/backing/test_nodes_on_kafka.py::test_a_claim_says_what_the_settings_say",
    "muster_topic_deletion_confirm_ms": "tests/gateway/test_topics_on_kafka.py::"
    "test_offsets_go_when_their_topic_was_unknown_for_as_long_as_the_setting_says",
    "muster_clients": "tests/gateway/test_gateway_on_kafka.py::"
    "test_clients_are_led_to_ports_of_the_gateway_and_nowhere_else",
    "muster_gateway_first_port": "tests/gateway/test_gateway_on_kafka.py::"
    "test_clients_are_led_to_ports_of_the_gateway_and_nowhere_else",
    "muster_groups_include": "tests/gateway/test_gateway_on_kafka.py::"
    "test_each_group_is_on_its_side_and_both_read_what_was_written_through_the_gateway",
    "muster_group_authorization": "tests/gateway/test_gateway_on_kafka.py::"
    "test_a_cluster_with_an_authorizer_is_refused_until_its_owner_says_so",
    "muster_node_id_base": "tests/backing/test_nodes_on_kafka.py::test_a_claim_says_what_the_settings_say",
    "muster_http_token": "tests/http/test_http_secured.py::test_all_but_probes_ask_for_the_token",
    "muster_http_token_file": "tests/http/test_http_secured.py::test_https_answers_as_http_does",
    "muster_http_ssl_keystore_type": "tests/http/test_http_secured.py::"
    "test_what_cannot_be_used_keeps_the_daemon_from_starting",
    "muster_http_ssl_keystore_location": "tests/http/test_http_secured.py::test_https_answers_as_http_does",
    "muster_http_ssl_keystore_password": "tests/http/test_http_secured.py::"
    "test_what_cannot_be_used_keeps_the_daemon_from_starting",
    "muster_http_ssl_key_password": "tests/http/test_http_secured.py::test_https_answers_as_http_does",
    "ssl_keystore_type": "tests/security/tls/test_stores.py::"
    "test_a_key_store_of_keytool_is_read_whatever_its_type_is_said_to_be",
    "ssl_keystore_location": "tests/security/tls/test_stores.py::"
    "test_a_key_store_of_keytool_is_read_whatever_its_type_is_said_to_be",
    "ssl_keystore_password": "tests/security/tls/test_stores.py::"
    "test_a_key_store_of_keytool_is_read_whatever_its_type_is_said_to_be",
    "ssl_key_password": "tests/security/tls/test_tls_start.py::"
    "test_a_store_that_cannot_be_used_is_one_sentence_and_exit_status_2",
    "ssl_keystore_key": "tests/security/tls/test_stores.py::test_a_key_and_its_chain_may_stand_in_the_settings",
    "ssl_keystore_certificate_chain": "tests/security/tls/test_stores.py::"
    "test_a_key_and_its_chain_may_stand_in_the_settings",
    "ssl_truststore_type": "tests/security/tls/test_stores.py::test_a_key_and_its_chain_may_stand_in_the_settings",
    "ssl_truststore_location": "tests/security/tls/test_tls_daemon.py::"
    "test_a_required_certificate_that_is_missing_or_of_another_authority_is_met_by_an_alert",
    "ssl_truststore_password": "tests/security/tls/test_stores.py::"
    "test_what_does_not_fit_together_is_refused_with_its_sentence",
    "ssl_truststore_certificates": "tests/security/tls/test_tls_listener.py::"
    "test_for_sasl_ssl_only_a_prefixed_client_auth_counts",
    "ssl_client_auth": "tests/security/tls/test_tls_listener.py::"
    "test_for_sasl_ssl_only_a_prefixed_client_auth_counts",
    "ssl_enabled_protocols": "tests/security/tls/test_stores.py::test_versions_and_suites_are_kept",
    "ssl_protocol": "tests/security/tls/test_stores.py::"
    "test_what_does_not_fit_together_is_refused_with_its_sentence",
    "ssl_cipher_suites": "tests/security/tls/test_stores.py::test_versions_and_suites_are_kept",
    "ssl_principal_mapping_rules": "tests/security/tls/test_tls_listener.py::test_rules_make_the_name",
    "ssl_allow_dn_changes": "tests/security/tls/test_tls_listener.py::test_a_certificate_for_others_is_refused",
    "ssl_allow_san_changes": "tests/security/tls/test_tls_listener.py::test_a_certificate_for_others_is_refused",
    "muster_tls_reload_interval_ms": "tests/security/tls/test_tls_daemon.py::"
    "test_new_connections_get_a_renewed_certificate_and_old_ones_live_on",
    "muster_metrics_groups_include": "tests/metrics/test_group_walk.py::"
    "test_expressions_say_which_groups_have_series",
    "muster_metrics_groups_exclude": "tests/metrics/test_group_walk.py::"
    "test_expressions_say_which_groups_have_series",
    "muster_http_listeners": "tests/http/test_http_daemon.py::test_a_port_that_the_system_chose_is_shown",
    "sasl_enabled_mechanisms": "tests/server/test_logins.py::"
    "test_a_user_logs_in_and_is_served_and_a_wrong_password_is_refused",
    "sasl_server_max_receive_size": "tests/server/test_logins.py::test_a_frame_over_the_bound_ends_the_login",
    "connection_failed_authentication_delay_ms": "tests/server/test_logins.py::"
    "test_a_failure_is_answered_late",
    "connections_max_reauth_ms": "tests/server/test_logins.py::test_the_lifetime_of_a_session_is_told",
    "muster_scram_hide_unknown_users": "tests/security/test_scram_logins.py::test_who_is_known_can_be_hidden",
    "sasl_oauthbearer_scope_claim_name": "tests/security/test_oauthbearer_logins.py::"
    "test_the_settings_of_tokens_arrive",
    "sasl_oauthbearer_sub_claim_name": "tests/security/test_oauthbearer_logins.py::"
    "test_the_settings_of_tokens_arrive",
    "sasl_oauthbearer_expected_issuer": "tests/security/test_oauthbearer_logins.py::"
    "test_the_settings_of_tokens_arrive",
    "sasl_oauthbearer_expected_audience": "tests/security/test_oauthbearer_logins.py::"
    "test_the_settings_of_tokens_arrive",
    "sasl_oauthbearer_clock_skew_seconds": "tests/security/test_oauthbearer_logins.py::"
    "test_the_settings_of_tokens_arrive",
    "sasl_oauthbearer_jwks_endpoint_refresh_ms": "tests/security/test_oauthbearer_logins.py::"
    "test_the_settings_of_tokens_arrive",
    "sasl_oauthbearer_jwks_endpoint_retry_backoff_ms": "tests/security/test_oauthbearer_logins.py::"
    "test_the_settings_of_tokens_arrive",
    "sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms": "tests/security/test_oauthbearer_logins.py::"
    "test_the_settings_of_tokens_arrive",
    "sasl_oauthbearer_jwks_endpoint_url": "tests/security/test_oauthbearer_logins.py::"
    "test_the_settings_of_tokens_arrive",
    "sasl_server_callback_handler_class": "tests/security/test_oauthbearer_logins.py::"
    "test_tokens_without_a_signature_are_taken_only_if_they_are_asked_for",
    "muster_allow_unsecured_jws": "tests/security/test_oauthbearer_logins.py::"
    "test_tokens_without_a_signature_are_taken_only_if_they_are_asked_for",
    "sasl_oauthbearer_jwt_validator_class": "tests/security/test_oauthbearer_logins.py::"
    "test_only_kafkas_own_classes_are_taken",
    "sasl_oauthbearer_jwt_retriever_class": "tests/security/test_oauthbearer_logins.py::"
    "test_only_kafkas_own_classes_are_taken",
    "sasl_client_callback_handler_class": "tests/security/test_oauthbearer_logins.py::"
    "test_only_kafkas_own_classes_are_taken",
    "sasl_login_callback_handler_class": "tests/security/test_oauthbearer_logins.py::"
    "test_only_kafkas_own_classes_are_taken",
    "sasl_login_class": "tests/security/test_oauthbearer_logins.py::test_only_kafkas_own_classes_are_taken",
    "principal_builder_class": "tests/security/test_oauthbearer_logins.py::"
    "test_only_kafkas_own_classes_are_taken",
    "ssl_engine_factory_class": "tests/security/test_oauthbearer_logins.py::"
    "test_only_kafkas_own_classes_are_taken",
    "security_providers": "tests/security/test_oauthbearer_logins.py::test_only_kafkas_own_classes_are_taken",
    "muster_handshake_timeout_ms": "tests/server/test_logins.py::test_a_stranger_is_closed_in_time",
    "muster_unauthenticated_connections_max": "tests/server/test_logins.py::"
    "test_strangers_beyond_the_bound_are_closed_at_once",
    "config_providers": "tests/test_prefixed_settings.py::test_a_password_comes_from_the_environment",
    "listeners": "tests/server/test_listeners.py::test_each_listener_names_its_own_endpoint",
    "advertised_listeners": "tests/server/test_listeners.py::test_each_listener_names_its_own_endpoint",
    "listener_security_protocol_map": "tests/server/test_listeners.py::test_each_listener_names_its_own_endpoint",
    "controller_listener_names": "tests/test_settings.py::"
    "test_a_stock_brokers_file_works_and_what_means_nothing_is_listed",
    "broker_id": "tests/test_settings.py::test_a_file_of_the_zookeeper_days_works",
    "log_dirs": "tests/test_settings.py::test_a_stock_brokers_file_works_and_what_means_nothing_is_listed",
    "cordoned_log_dirs": "tests/test_settings.py::test_only_the_log_directory_can_be_cordoned",
    "log_roll_hours": "tests/test_settings.py::test_the_finer_unit_of_rolling_wins",
    "log_roll_jitter_hours": "tests/test_settings.py::test_the_finer_unit_of_rolling_wins",
    "log_retention_minutes": "tests/test_settings.py::test_the_finest_unit_of_retention_wins",
    "log_retention_hours": "tests/test_settings.py::test_the_finest_unit_of_retention_wins",
    "telemetry_max_bytes": "tests/telemetry/test_daemon.py::"
    "test_with_it_they_are_and_a_closed_connection_ends_what_is_known_of_its_client",
    "muster_client_metrics": "tests/telemetry/test_daemon.py::"
    "test_without_the_setting_they_are_neither_advertised_nor_served",
    "muster_log_level": "tests/test_serve.py::test_lines_below_the_level_of_the_log_are_left_out",
}
"""Settings that say where the daemon is, or are read before it is built; with a test that notices."""

ONLY_SHOWN: Final = {
    "offsets_topic_replication_factor",
    "transaction_state_log_replication_factor",
    "transaction_state_log_min_isr",
}
"""Settings that are accepted, and change nothing where there is one node."""

Arrival: TypeAlias = tuple[str, Callable[[Daemon], object]]
"""A setting, and what a daemon has in the place where it is to arrive."""


def own_values(directory: Path) -> dict[str, Any]:
    """Every setting at a value of its own, but for those that would take the daemon elsewhere."""
    values: dict[str, Any] = {"log_dir": str(directory)}
    for number, attribute in enumerate(Settings.model_fields, FIRST_NUMBER):
        if attribute in GIVEN:
            values[attribute] = GIVEN[attribute]
        elif isinstance(kind_of(attribute), Whole) and attribute != "broker_id":
            values[attribute] = number
    return values


def log_config(daemon: Daemon, topic: str) -> LogConfig:
    found = daemon.registry.get(topic)
    assert found is not None
    return found.partitions[-1].log.config


def of_topics(name: str) -> Arrival:
    return name, lambda daemon: getattr(daemon.broker.registry.settings, name)


def of_groups(name: str) -> Arrival:
    def arrived(daemon: Daemon) -> object:
        shard = daemon.runtime.runners[-1].shard
        assert shard is not None
        return getattr(shard.settings, name)

    return name, arrived


def of_consumer_groups(name: str) -> Arrival:
    """A setting that the core knows without `group.consumer`."""

    def arrived(daemon: Daemon) -> object:
        shard = daemon.runtime.runners[-1].shard
        assert shard is not None
        found = getattr(shard._state.consumers.settings, name)
        return found.value if isinstance(found, MigrationPolicy) else found

    return f"group_consumer_{name}", arrived


def classic_max_size(daemon: Daemon) -> object:
    """Of the groups that a downgrade makes."""
    shard = daemon.runtime.runners[-1].shard
    assert shard is not None
    return shard._state.consumers.settings.classic_max_size


def served_protocols(daemon: Daemon) -> object:
    return ("classic", "consumer") if daemon._has_consumer_groups() else ("classic",)


def of_transactions(name: str) -> Arrival:
    def arrived(daemon: Daemon) -> object:
        shard = daemon.runtime.transaction_runners[-1].shard
        assert isinstance(shard, TransactionShard)
        return getattr(shard.settings, name)

    return name, arrived


def of_cleaner(name: str) -> Arrival:
    return name, lambda daemon: getattr(daemon._cleaner._settings, name)


def partitions_of_groups(daemon: Daemon) -> object:
    """Those that transactions spread the groups over whose offsets they commit."""
    shard = daemon.runtime.transaction_runners[-1].shard
    assert isinstance(shard, TransactionShard)
    return len({shard._state.deps.offsets_partition(f"group {number}") for number in range(100)})


def commit_timeout_ms(runner: ShardRunner[Any]) -> int | None:
    return runner.durable_log._queue._timeout_ms


def largest_transaction_record(daemon: Daemon) -> object:
    shard = daemon.runtime.transaction_runners[-1].shard
    assert isinstance(shard, TransactionShard)
    return shard.settings.max_record_bytes


def found_coordinator(daemon: Daemon) -> object:
    guarded = daemon.server.apis[10].handle
    assert isinstance(guarded, partial), "there is an authorizer"
    (find,) = guarded.args
    assert isinstance(find, FindCoordinator)
    return find._placement.leader_of(GROUP_METADATA_TOPIC, 0)


def shown_node_id(daemon: Daemon) -> object:
    (shown,) = [config.value for config in daemon.broker.broker_configs if config.name == "node.id"]
    assert shown is not None
    return int(shown)


def creation_rate(daemon: Daemon) -> object:
    rate = daemon.server._acceptor._rate
    assert isinstance(rate, CreationRate)
    return rate.per_second


def buffer_bytes(daemon: Daemon, option: int) -> int:
    (listening,) = daemon.server._acceptor._listening
    size_bytes = listening.socket.getsockopt(socket.SOL_SOCKET, option)
    return size_bytes // 2 if sys.platform == "linux" else size_bytes  # Linux doubles what it is given.


def events_per_group(daemon: Daemon) -> object:
    assert daemon._history is not None
    return daemon._history.history._events_per_group


def compatible_names(daemon: Daemon) -> object:
    series = daemon.metrics._partitions
    return tuple(
        name
        for name, is_on in (("kafka_exporter", series._kafka_exporter), ("kminion", series._kminion))
        if is_on
    )


def authorizer(daemon: Daemon) -> StandardAuthorizer:
    assert isinstance(daemon.server.rights, StandardAuthorizer)
    return daemon.server.rights


ARRIVALS: Final[tuple[Arrival, ...]] = (
    # What the data plane has in the form it is given in, and what it knows in another.
    *map(
        of_topics,
        sorted(
            {field.name for field in fields(TopicSettings)}
            & Settings.model_fields.keys() - {"cordoned_log_dirs", "log_cleanup_policy"}
        ),
    ),
    ("broker_rack", lambda daemon: daemon.registry.settings.rack),
    ("node_id", found_coordinator),
    ("node_id", shown_node_id),
    ("node_id", lambda daemon: daemon._maintenance._directory.properties.node_id),
    ("log_cleanup_policy", lambda daemon: tuple(daemon.registry.settings.log_cleanup_policy.split(","))),
    ("max_incremental_fetch_session_cache_slots", lambda daemon: daemon.broker.fetch_sessions._slots),
    # The coordinators, each with the settings of its own core.
    *(of_groups(field.name) for field in fields(GroupSettings)),
    *map(
        of_consumer_groups,
        (
            "session_timeout_ms",
            "heartbeat_interval_ms",
            "assignment_interval_ms",
            "max_size",
            "regex_refresh_interval_ms",
            "assignors",
            "migration_policy",
        ),
    ),
    ("group_max_size", classic_max_size),
    ("group_coordinator_rebalance_protocols", served_protocols),
    of_transactions("transaction_max_timeout_ms"),
    of_transactions("transactional_id_expiration_ms"),
    of_transactions("transaction_remove_expired_transaction_cleanup_interval_ms"),
    ("transaction_partition_verification_enable", lambda daemon: daemon._verifier.is_enabled),
    # Their topics.
    ("offsets_topic_num_partitions", lambda daemon: len(daemon.runtime.runners)),
    ("offsets_topic_num_partitions", partitions_of_groups),
    ("transaction_state_log_num_partitions", lambda daemon: len(daemon.runtime.transaction_runners)),
    ("offsets_topic_segment_bytes", lambda daemon: log_config(daemon, GROUP_METADATA_TOPIC).segment_bytes),
    (
        "transaction_state_log_segment_bytes",
        lambda daemon: log_config(daemon, TRANSACTION_STATE_TOPIC).segment_bytes,
    ),
    ("message_max_bytes", lambda daemon: daemon.runtime.runners[-1]._open_batch._max_batch_bytes),
    ("message_max_bytes", lambda daemon: daemon.runtime.transaction_runners[-1]._open_batch._max_batch_bytes),
    ("message_max_bytes", largest_transaction_record),
    ("muster_flush_policy", lambda daemon: "fsync" if daemon._journal._journal.files.is_synced else "os"),
    ("offsets_topic_compression_codec", lambda daemon: daemon.runtime.runners[-1]._open_batch._codec.value),
    ("offsets_commit_timeout_ms", lambda daemon: commit_timeout_ms(daemon.runtime.runners[-1])),
    ("offsets_commit_timeout_ms", lambda daemon: commit_timeout_ms(daemon.runtime.transaction_runners[-1])),
    ("offsets_load_buffer_size", lambda daemon: daemon.runtime._loader._buffer_bytes),
    # The log, and what is done to it now and then.
    ("log_dir", lambda daemon: daemon.broker.registry.log_directory),
    ("log_dir", lambda daemon: str(daemon.broker.producer_ids._path.parent)),
    ("muster_turn_log_ms", lambda daemon: round(daemon.turn_watch._limit_s * 1000)),
    ("muster_flush_threads", lambda daemon: len(daemon._flusher._threads)),
    # Metrics.
    ("muster_metrics_groups_max", lambda daemon: daemon.metrics.walk._groups_max),
    ("muster_metrics_partitions", lambda daemon: daemon.metrics._partitions._partitions),
    ("muster_metrics_partitions_max", lambda daemon: daemon.metrics._partitions._most),
    ("muster_metrics_compatible", compatible_names),
    (
        "log_retention_check_interval_ms",
        lambda daemon: interval_ms(daemon, daemon._maintenance._apply_retention),
    ),
    (
        "log_flush_offset_checkpoint_interval_ms",
        lambda daemon: interval_ms(daemon, daemon._maintenance._checkpoint),
    ),
    (
        "producer_id_expiration_check_interval_ms",
        lambda daemon: interval_ms(daemon, daemon._maintenance._forget_producers),
    ),
    ("log_flush_scheduler_interval_ms", lambda daemon: interval_ms(daemon, daemon._maintenance._sync)),
    ("log_cleaner_enable", lambda daemon: daemon._cleaner.threads > 0),
    of_cleaner("log_cleaner_threads"),
    of_cleaner("log_cleaner_backoff_ms"),
    of_cleaner("log_cleaner_dedupe_buffer_size"),
    of_cleaner("log_cleaner_io_max_bytes_per_second"),
    of_cleaner("producer_id_expiration_ms"),
    # The history of groups.
    ("muster_history_events_per_group", events_per_group),
    ("muster_history_topic_retention_ms", lambda daemon: log_config(daemon, HISTORY_TOPIC).retention_ms),
    (
        "muster_history_topic_retention_bytes",
        lambda daemon: log_config(daemon, HISTORY_TOPIC).retention_bytes,
    ),
    # Quotas.
    ("quota_window_num", lambda daemon: daemon._protection.quotas.clients.windows.samples),
    (
        "quota_window_size_seconds",
        lambda daemon: daemon._protection.quotas.clients.windows.sample_ms // 1_000,
    ),
    (
        "controller_quota_window_num",
        lambda daemon: daemon._protection.quotas.clients.controller_windows.samples,
    ),
    (
        "controller_quota_window_size_seconds",
        lambda daemon: daemon._protection.quotas.clients.controller_windows.sample_ms // 1_000,
    ),
    # Connections.
    ("socket_request_max_bytes", lambda daemon: daemon.server.max_request_bytes),
    ("queued_max_request_bytes", lambda daemon: daemon.server.memory_pool.capacity_bytes),
    ("socket_listen_backlog_size", lambda daemon: daemon.server._settings.socket_listen_backlog_size),
    ("socket_send_buffer_bytes", lambda daemon: buffer_bytes(daemon, socket.SO_SNDBUF)),
    ("socket_receive_buffer_bytes", lambda daemon: buffer_bytes(daemon, socket.SO_RCVBUF)),
    ("connections_max_idle_ms", lambda daemon: daemon.server._settings.connections_max_idle_ms),
    ("max_connections", lambda daemon: daemon.server.max_connections),
    ("max_connections_per_ip", lambda daemon: daemon.server.max_connections_per_ip),
    (
        "max_connections_per_ip_overrides",
        lambda daemon: ",".join(f"{ip}:{most}" for ip, most in daemon.server.max_connections_of_ip.items()),
    ),
    ("max_connection_creation_rate", creation_rate),
    # Rights.
    ("authorizer_class_name", lambda daemon: STANDARD_AUTHORIZER if authorizer(daemon) else ""),
    ("super_users", lambda daemon: ";".join(authorizer(daemon)._super_users)),
    ("allow_everyone_if_no_acl_found", lambda daemon: authorizer(daemon)._allow_everyone),
)


def interval_ms(daemon: Daemon, task: Callable[[], None]) -> int:
    return daemon._maintenance._intervals_ms[task]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(**own_values(tmp_path / "logs"))


@asynccontextmanager
async def started(settings: Settings) -> AsyncIterator[Daemon]:
    directory = open_directory(settings, Files())
    daemon = Daemon(settings, directory, Files())
    try:
        await daemon.start()
        yield daemon
    finally:
        await daemon.stop()
        assert directory.close() == []


def astray(daemon: Daemon, settings: Settings) -> list[str]:
    return [
        f"{name}: {arrived(daemon)} instead of {getattr(settings, name)}"
        for name, arrived in ARRIVALS
        if arrived(daemon) != getattr(settings, name)
    ]


async def test_every_setting_arrives_where_it_counts(settings: Settings) -> None:
    """In a new directory, and in one whose topics are there already."""
    for _ in range(2):
        async with started(settings) as daemon:
            assert astray(daemon, settings) == []


def test_a_transactions_record_fits_into_a_segment_of_its_topic() -> None:
    """Also where batches may be larger than that."""
    given = Settings(message_max_bytes=2 << 20, transaction_state_log_segment_bytes=1 << 20)
    assert transaction_settings(given).max_record_bytes == 1 << 20


def test_no_setting_that_is_looked_for_is_at_its_default(settings: Settings) -> None:
    """There, a default in its place would not be noticed."""
    defaults = Settings()
    assert [name for name, _ in ARRIVALS if getattr(settings, name) == getattr(defaults, name)] == []


def test_every_setting_is_looked_for_or_held_by_a_test_of_its_own() -> None:
    looked_for = {name for name, _ in ARRIVALS}
    assert looked_for | HELD_OTHERWISE.keys() | ONLY_SHOWN == Settings.model_fields.keys()
    assert not looked_for & (HELD_OTHERWISE.keys() | ONLY_SHOWN)


@pytest.mark.parametrize("test", sorted(set(HELD_OTHERWISE.values())))
def test_the_tests_that_hold_the_others_are_there(test: str) -> None:
    path, name = test.split("::")
    assert f"def {name}(" in (ROOT / path).read_text()
