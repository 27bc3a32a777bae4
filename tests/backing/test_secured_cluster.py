"""A node on a Kafka that encrypts, asks who it is, and lets it do no more than docs/cluster.md says it needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from harness.daemon import MusterDaemon
from harness.kafka_broker import KafkaBroker
from harness.observer import Observer
from harness.processes import wait_until
from harness.secured import CANARY, USER, SecuredBroker
from harness.wire import WireClient
from protocol.errors import ErrorCode
from tests.backing.node_processes import (
    FIRST_NODE_ID,
    PATIENCE_S,
    commit,
    commit_at_its_coordinator,
    ended,
    fetch_at_its_coordinator,
    node,
    wait_for_owners,
)
from tests.backing.test_nodes_on_kafka import Member

pytestmark = pytest.mark.xdist_group("secured backing")

OFFSETS = "__muster_offsets"
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
O = AclOperation  # noqa: E741 - the table is read by columns.
RIGHTS = [
    *(
        (ResourceType.TOPIC, name, LITERAL, operation)
        for name in (OFFSETS, f"{OFFSETS}-probe", "__group_events")
        for operation in (O.CREATE, O.DESCRIBE, O.DESCRIBE_CONFIGS, O.READ, O.WRITE)
    ),
    *((ResourceType.TRANSACTIONAL_ID, "muster.", PREFIXED, operation) for operation in (O.WRITE, O.DESCRIBE)),
    (ResourceType.GROUP, f"muster-nodes-{OFFSETS}", LITERAL, O.READ),
    (ResourceType.TOPIC, "*", LITERAL, O.DESCRIBE),
    *(
        (ResourceType.BROKER, "kafka-cluster", LITERAL, operation)
        for operation in (O.DESCRIBE_CONFIGS, O.IDEMPOTENT_WRITE)
    ),
]
"""What the page says that a node needs."""
FIELDS = (*("restype", "name", "resource_pattern_type", "principal", "host", "operation", "permission_type"),)
TIMEOUT_S = 30


@pytest.fixture(scope="module")
def secured(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    broker = SecuredBroker(tmp_path_factory.mktemp("secured"), KafkaBroker)
    assert isinstance(broker.server, KafkaBroker)
    broker.server.config |= {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with broker:
        Observer(broker.bootstrap("PLAINTEXT")).create_named_topic("orders", 1)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap("PLAINTEXT")})
        bindings = [
            AclBinding(kind, name, pattern, f"User:{USER}", "*", operation, AclPermissionType.ALLOW)
            for kind, name, pattern, operation in RIGHTS
        ]
        for made in admin.create_acls(bindings).values():
            made.result(TIMEOUT_S)
        wait_until(lambda: len(rights(admin)) == len(RIGHTS), "the broker has heard of them", TIMEOUT_S)
        yield broker


def rights(admin: AdminClient) -> list[AclBinding]:
    """What there is: a broker hears of a change after it was answered."""
    every: Any = None  # The stubs of confluent-kafka take no None for a name.
    everything = AclBindingFilter(
        ResourceType.ANY, every, ResourcePatternType.ANY, every, every, O.ANY, AclPermissionType.ANY
    )
    found: list[AclBinding] = admin.describe_acls(everything).result(TIMEOUT_S)
    return found


def secured_node(secured: SecuredBroker, folder: Path, **security: str) -> MusterDaemon:
    properties = secured.security("TLS", "java", **security)
    settings = {f"muster.backing.{name}": value for name, value in properties.items()}
    return node(folder, secured.bootstrap("TLS"), OFFSETS, 1, settings)


def test_a_node_with_the_rights_of_the_page_serves(secured: SecuredBroker, tmp_path: Path) -> None:
    with secured_node(secured, tmp_path) as running:
        wait_for_owners([running], {FIRST_NODE_ID + 1})
        commit_at_its_coordinator([running], "g", 7)
        assert fetch_at_its_coordinator([running], "g") == {0: 7}
        Member([running], "told")
        observer = Observer(secured.bootstrap("PLAINTEXT"))
        wait_until(lambda: observer.read("__group_events", 0), "events are written", PATIENCE_S)
        assert running.terminate() == 0
    log = running.log_path.read_text()
    assert CANARY not in log
    # aiokafka calls it an error that a fresh cluster has no coordinator for a moment.
    errors = [line for line in log.splitlines() if '"level": "error"' in line]
    assert all("CoordinatorNotAvailable" in line for line in errors), errors


def test_a_login_that_is_refused_is_a_sentence(secured: SecuredBroker, tmp_path: Path) -> None:
    refused = secured_node(secured, tmp_path, password="a guess")
    done = ended(refused)
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert said.startswith(f"muster: no Kafka broker answers on {secured.bootstrap('TLS')}: ")
    assert "guess" not in done.stderr


def test_a_right_that_is_taken_away_stops_writes_and_loses_nothing(
    secured: SecuredBroker, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": secured.bootstrap("PLAINTEXT")})
    right = AclBinding(
        ResourceType.TOPIC, OFFSETS, LITERAL, f"User:{USER}", "*", O.WRITE, AclPermissionType.DENY
    )
    with secured_node(secured, tmp_path) as running:
        wait_for_owners([running], {FIRST_NODE_ID + 1})
        commit_at_its_coordinator([running], "kept", 1)
        admin.create_acls([right])[right].result(TIMEOUT_S)
        try:
            with WireClient(running.bootstrap) as client:
                # The broker hears of it after it was answered: until then commits are taken.
                wait_until(
                    lambda: commit(client, "kept", 2) is not ErrorCode.NONE, "a write is refused", PATIENCE_S
                )
        finally:
            gone = AclBindingFilter(*(getattr(right, name) for name in FIELDS))
            admin.delete_acls([gone])[gone].result(TIMEOUT_S)
        wait_until(lambda: fetch_at_its_coordinator([running], "kept"), "it is read", PATIENCE_S)
        commit_at_its_coordinator([running], "kept", 3)
        assert fetch_at_its_coordinator([running], "kept") == {0: 3}
