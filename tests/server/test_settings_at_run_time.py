"""Settings that are changed while a daemon runs, over the wire: what follows them at once, and after a kill."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.daemon import MusterDaemon
from harness.daemon_thread import Daemon
from harness.doubles.faulty_files import FaultyFiles
from harness.kafka_groups import await_coordinator
from harness.processes import HOST, wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterableConfig as Operation
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.server.asking import is_served, one_more
from tests.server.joining import joining
from tests.topics.requests import produce_request
from tests.topics.world import batch

BROKER = 4
SET, DELETE = 0, 1
SETTINGS = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
VERIFIED_BY_THE_CLIENT = 11
"""The last version of Produce whose client adds partitions to its transaction itself."""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[MusterDaemon]:
    with MusterDaemon(tmp_path, SETTINGS) as daemon:
        yield daemon


def change(client: WireClient, name: str, value: str | None, scope: str = "") -> None:
    operation = Operation(name=name, config_operation=DELETE if value is None else SET, value=value)
    resource = IncrementalAlterConfigsResource(resource_type=BROKER, resource_name=scope, configs=[operation])
    (answer,) = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert answer.error_code == ErrorCode.NONE, answer.error_message


def test_a_level_of_a_feature_is_shown_at_once_and_after_a_kill(daemon: MusterDaemon) -> None:
    def shown() -> int:
        with WireClient(daemon.bootstrap) as client:
            hello = client.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
        levels = {each.name: each.max_version_level for each in hello.finalized_features}
        return int(levels["transaction.version"])

    assert shown() == 2
    update = FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=2)
    with WireClient(daemon.bootstrap) as client:
        assert client.ask(UpdateFeaturesRequest(feature_updates=[update]), 2).error_code == ErrorCode.NONE
    assert shown() == 1
    daemon.kill()
    daemon.start()
    assert shown() == 1


def errors_of_consumer_groups(client: WireClient) -> tuple[int, int]:
    """The errors of a join and of a description."""
    described = client.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups[0].error_code
    return client.ask(joining(), 1).error_code, described


def test_without_the_feature_there_are_no_consumer_groups(daemon: MusterDaemon) -> None:
    with WireClient(daemon.bootstrap) as client:
        await_coordinator(client, ["g"])
        for level, kind in ((0, 2), (1, 1)):
            update = FeatureUpdateKey(feature="group.version", max_version_level=level, upgrade_type=kind)
            changed = client.ask(UpdateFeaturesRequest(feature_updates=[update]), 2)
            assert changed.error_code == ErrorCode.NONE
            if level == 0:
                assert errors_of_consumer_groups(client) == (ErrorCode.UNSUPPORTED_VERSION,) * 2
        assert errors_of_consumer_groups(client) == (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)


def test_where_their_protocol_is_not_enabled_there_are_no_consumer_groups(tmp_path: Path) -> None:
    """Whatever the level of the feature."""
    only_classic = SETTINGS | {"group.coordinator.rebalance.protocols": "classic,streams"}
    with MusterDaemon(tmp_path, only_classic) as daemon, WireClient(daemon.bootstrap) as client:
        await_coordinator(client, ["g"])
        assert errors_of_consumer_groups(client) == (ErrorCode.UNSUPPORTED_VERSION,) * 2


def test_limits_of_connections_hold_at_once_and_after_a_kill(daemon: MusterDaemon) -> None:
    with WireClient(daemon.bootstrap) as client:
        for name in ("max.connections", "max.connections.per.ip"):
            change(client, name, "1")
            assert not is_served(daemon.bootstrap)
            change(client, name, None)
            wait_until(lambda: is_served(daemon.bootstrap), "there is room again", 30)
        change(client, "max.connections.per.ip", "1")
        change(client, "max.connections.per.ip.overrides", f"{HOST}:2")
        wait_until(lambda: is_served(daemon.bootstrap), "this address may have two", 30)
    daemon.kill()
    daemon.start()
    with WireClient(daemon.bootstrap) as client:
        # The probes that saw it ready may be counted for a moment.
        with wait_until(lambda: one_more(daemon.bootstrap), "there is room for two", 30):
            assert not is_served(daemon.bootstrap)
        change(client, "max.connections.per.ip.overrides", None)
        assert not is_served(daemon.bootstrap)


def test_the_cleaner_follows_its_settings_at_once_and_after_a_restart(tmp_path: Path) -> None:
    """In this process, where threads can be counted."""

    def threads() -> int:
        return sum(thread.name.startswith("cleaner-") for thread in threading.enumerate())

    settings: dict[str, Any] = {name.replace(".", "_"): int(value) for name, value in SETTINGS.items()}
    with (
        Daemon(tmp_path, FaultyFiles(tmp_path), **settings) as daemon,
        WireClient(daemon.bootstrap) as client,
    ):
        assert threads() == 1
        change(client, "log.cleaner.threads", "2")
        wait_until(lambda: threads() == 2, "a second thread cleans", 10)
    assert threads() == 0
    with Daemon(tmp_path, FaultyFiles(tmp_path), **settings):
        assert threads() == 2


def transactional(client: WireClient, name: str) -> int:
    """The error of a batch whose partition was not added to the transaction."""
    asked = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)

    def given_id() -> Any:  # While the coordinator loads there is none.
        given = client.ask(asked, 4)
        return None if given.error_code else given

    given = wait_until(given_id, "there is a producer id", 10)
    records = batch(
        b"x",
        producer_id=given.producer_id,
        producer_epoch=given.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    request = produce_request(records)
    request.transactional_id = name
    (topic,) = client.ask(request, VERIFIED_BY_THE_CLIENT).responses
    return int(topic.partition_responses[0].error_code)


def test_partitions_that_were_not_added_are_let_through_where_that_is_not_verified(
    daemon: MusterDaemon,
) -> None:
    with WireClient(daemon.bootstrap) as client:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        assert client.ask(CreateTopicsRequest(topics=[topic]), 7).topics[0].error_code == 0
        assert transactional(client, "a") == ErrorCode.TRANSACTION_ABORTABLE
        change(client, "transaction.partition.verification.enable", "false")
        assert transactional(client, "b") == ErrorCode.NONE
        change(client, "transaction.partition.verification.enable", None)
        assert transactional(client, "c") == ErrorCode.TRANSACTION_ABORTABLE
