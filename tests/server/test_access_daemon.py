"""Rights on a daemon, by raw frames: what is prepared ends with the ACL that permitted it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.security.acls import CLUSTER_NAME, Operation, ResourceType
from harness.daemon import MusterDaemon
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.framing import encode_request
from protocol.messages.acls import AclCreation, CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.server.asking import TOPIC, commit, committed, fetch, make_topic
from tests.server.joining import beat, join, joining, sync
from tests.topics.requests import fetch_request, produce_request
from tests.topics.world import batch

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
LITERAL, ALLOW = 3, 3
OFFSETS = "__consumer_offsets"
ADMIN, CLIENT = "127.0.0.2", "127.0.0.1"
"""Users without a login are told apart by their addresses."""
OP = Operation
KINDS = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID)

Given = tuple[Operation, ResourceType, str]
READS_GROUP: Given = (OP.READ, ResourceType.GROUP, "m")
ALTERS: Given = (OP.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterDaemon]:
    """Where one address may do everything, so that no other may do anything that it is not given."""
    made = MusterDaemon(tmp_path_factory.mktemp("access"), SETTINGS)
    made.start()
    try:
        with client_at(made, ADMIN) as admin:
            make_topic(admin)
            created(
                admin, ADMIN, *((OP.ALL, kind, CLUSTER_NAME if kind is KINDS[2] else "*") for kind in KINDS)
            )
        yield made
    finally:
        made.kill()


@pytest.fixture
def admin(daemon: MusterDaemon) -> Iterator[WireClient]:
    with client_at(daemon, ADMIN) as client:
        yield client
        removed = DeleteAclsFilter(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=CLIENT,
            operation=1,
            permission_type=1,
        )
        client.ask(DeleteAclsRequest(filters=[removed]), 3)


@pytest.fixture
def client(daemon: MusterDaemon) -> Iterator[WireClient]:
    with client_at(daemon, CLIENT) as connected:
        yield connected


def client_at(daemon: MusterDaemon, address: str) -> WireClient:
    client = WireClient(daemon.bootstrap)
    host, port = daemon.bootstrap.rsplit(":", 1)
    client.socket.close()
    client.socket = socket.create_connection((host, int(port)), timeout=30, source_address=(address, 0))
    client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def created(admin: WireClient, host: str, *given: Given) -> None:
    creations = [
        AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=LITERAL,
            principal="User:ANONYMOUS",
            host=host,
            operation=operation,
            permission_type=ALLOW,
        )
        for operation, kind, name in given
    ]
    answer = admin.ask(CreateAclsRequest(creations=creations), 3)
    assert [each.error_code for each in answer.results] == [0] * len(given)


def removal(given: Given) -> DeleteAclsRequest:
    operation, kind, name = given
    wanted = DeleteAclsFilter(
        resource_type_filter=kind,
        resource_name_filter=name,
        pattern_type_filter=LITERAL,
        principal_filter=None,
        host_filter=CLIENT,
        operation=operation,
        permission_type=ALLOW,
    )
    return DeleteAclsRequest(filters=[wanted])


def joined_member(client: WireClient) -> Any:
    joined = client.ask(join(), 3)
    assert client.ask(sync(joined), 3).error_code == 0
    return joined


def send_together(client: WireClient, *requests: tuple[Any, int]) -> None:
    """In one segment."""
    frames = b""
    for number, (request, version) in enumerate(requests, start=1000):
        frames += encode_request(request, version, number, client.client_id)
        key = {HeartbeatRequest: 12, DeleteAclsRequest: 31}.get(type(request), 8)
        client._asked.append((number, key, version))
    client.socket.sendall(frames)


def test_a_heartbeat_behind_the_removal_of_its_acl_is_refused(admin: WireClient, client: WireClient) -> None:
    """Also one that is prepared, in the same segment (F10, A28)."""
    created(admin, CLIENT, READS_GROUP, ALTERS)
    joined = joined_member(client)
    for _ in range(4):
        assert client.ask(beat(joined), 4).error_code == 0
    send_together(client, (beat(joined), 4), (removal(READS_GROUP), 3), (beat(joined), 4), (beat(joined), 4))
    found = [client.receive() for _ in range(4)]
    denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert [found[0].error_code, found[2].error_code, found[3].error_code] == [0, denied, denied]
    assert len(found[1].filter_results[0].matching_acls) == 1
    created(admin, CLIENT, READS_GROUP)
    assert client.ask(beat(joined), 4).error_code == 0, "and permitted again once it is given back"


def test_a_commit_behind_the_removal_of_its_acl_is_refused(admin: WireClient, client: WireClient) -> None:
    reads_topic: Given = (OP.READ, ResourceType.TOPIC, TOPIC)
    created(admin, CLIENT, (OP.READ, ResourceType.GROUP, "commits"), reads_topic, ALTERS)
    for offset in range(4):
        assert committed(client.ask(commit(offset, "commits"), 8)) == 0
    send_together(client, (commit(4, "commits"), 8), (removal(reads_topic), 3), (commit(5, "commits"), 8))
    found = [client.receive() for _ in range(3)]
    assert [committed(found[0]), committed(found[2])] == [0, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    (group,) = admin.ask(fetch("commits"), 8).groups
    assert group.topics[0].partitions[0].committed_offset == 4


def test_a_heartbeat_of_a_consumer_group_ends_with_its_acl(admin: WireClient, client: WireClient) -> None:
    given: Given = (OP.READ, ResourceType.GROUP, "g")
    created(admin, CLIENT, given, (OP.DESCRIBE, ResourceType.TOPIC, TOPIC), ALTERS)
    epoch = client.ask(joining("n" * 22), 1).member_epoch
    steady = ConsumerGroupHeartbeatRequest(group_id="g", member_id="n" * 22, member_epoch=epoch)
    for _ in range(6):
        assert client.ask(steady, 1).error_code == 0
    client.ask(removal(given), 3)
    assert client.ask(steady, 1).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_an_expression_leaves_out_what_its_client_may_not_know_of(
    admin: WireClient, client: WireClient
) -> None:
    """Both topics match, and one of them is assigned."""
    hidden = CreatableTopic(name=f"{TOPIC}-hidden", num_partitions=1, replication_factor=1)
    assert admin.ask(CreateTopicsRequest(topics=[hidden]), 5).topics[0].error_code == 0
    created(admin, CLIENT, (OP.READ, ResourceType.GROUP, "e"), (OP.DESCRIBE, ResourceType.TOPIC, TOPIC))
    request = joining("e" * 22, subscribed_topic_regex=f"{TOPIC}.*", subscribed_topic_names=[])
    request.group_id = "e"
    answer = client.ask(request, 1)
    while answer.assignment is None or not answer.assignment.topic_partitions:
        assert answer.error_code == 0
        beat_on = ConsumerGroupHeartbeatRequest(
            group_id="e", member_id="e" * 22, member_epoch=answer.member_epoch
        )
        answer = client.ask(beat_on, 1)
    ids = [bytes(each.topic_id) for each in answer.assignment.topic_partitions]
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    assert ids == [bytes(admin.ask(asked, 12).topics[0].topic_id)]
    client.ask(ConsumerGroupHeartbeatRequest(group_id="e", member_id="e" * 22, member_epoch=-1), 1)
    admin.ask(DeleteTopicsRequest(topic_names=[hidden.name], timeout_ms=10_000), 5)


def test_an_empty_group_id_of_a_client_without_rights_is_refused_as_any_other(client: WireClient) -> None:
    denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert client.ask(JoinGroupRequest(**_join_of("")), 5).error_code == denied
    assert client.ask(JoinGroupRequest(**_join_of("m")), 5).error_code == denied


def _join_of(group_id: str) -> dict[str, Any]:
    request = join(group_id=group_id)
    return {name: getattr(request, name) for name in request.__dataclass_fields__}


def test_no_topic_is_made_for_a_client_that_may_not_make_it(admin: WireClient, client: WireClient) -> None:
    created(admin, CLIENT, (OP.DESCRIBE, ResourceType.TOPIC, "wished"))
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="wished")], allow_auto_topic_creation=True)
    (topic,) = client.ask(asked, 9).topics
    assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert TOPIC in (names := names_of(admin))
    assert "wished" not in names
    created(admin, CLIENT, (OP.CREATE, ResourceType.TOPIC, "wished"))
    while client.ask(asked, 9).topics[0].error_code:
        pass
    assert "wished" in names_of(admin)


def test_the_log_of_groups_is_read_by_who_may_read_it(admin: WireClient, client: WireClient) -> None:
    """A24, as any topic; and A26: what is in it was written by the daemon, which has asked for no right."""
    created(admin, CLIENT, READS_GROUP)
    joined_member(client)
    (topic,) = admin.ask(MetadataRequest(topics=[MetadataRequestTopic(name=OFFSETS)]), 9).topics
    read = fetch_request(*((OFFSETS, each.partition_index, 0) for each in topic.partitions))

    def found() -> tuple[set[int], int]:
        (answer,) = client.ask(read, 12).responses
        errors = {each.error_code for each in answer.partitions}
        return errors, sum(len(each.records or b"") for each in answer.partitions)

    assert found() == ({ErrorCode.TOPIC_AUTHORIZATION_FAILED}, 0)
    created(admin, CLIENT, (OP.READ, ResourceType.TOPIC, OFFSETS))
    errors, size_bytes = found()
    assert errors == {0}
    assert size_bytes > 0


def test_rights_are_those_of_the_name_when_a_topic_is_made_anew(
    admin: WireClient, client: WireClient
) -> None:
    """F10: by ids. The old one is unknown to all, the new one is what the rights to its name make of it."""

    def made(name: str) -> bytes:
        created_ = CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)], timeout_ms=10_000
        )
        (topic,) = admin.ask(created_, 7).topics
        assert topic.error_code == 0
        return bytes(topic.topic_id)

    def seen(topic_id: bytes) -> tuple[int, str | None]:
        asked = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None)])
        (topic,) = client.ask(asked, 12).topics
        return topic.error_code, topic.name

    created(admin, CLIENT, (OP.READ, ResourceType.TOPIC, "anew"))
    denied, unknown = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None), (ErrorCode.UNKNOWN_TOPIC_ID, None)
    old = {name: made(name) for name in ("anew", "hidden")}
    assert (seen(old["anew"]), seen(old["hidden"])) == ((0, "anew"), denied)
    removed = DeleteTopicsRequest(topic_names=list(old), timeout_ms=10_000)
    assert [each.error_code for each in admin.ask(removed, 5).responses] == [0, 0]
    new = {name: made(name) for name in old}
    assert set(new.values()).isdisjoint(old.values())
    assert [seen(each) for each in old.values()] == [unknown, unknown]
    assert (seen(new["anew"]), seen(new["hidden"])) == ((0, "anew"), denied)


def names_of(admin: WireClient) -> set[str]:
    return {topic.name for topic in admin.ask(MetadataRequest(topics=None), 9).topics}


def test_without_an_answer_a_refused_producer_sees_its_connection_close(
    admin: WireClient, client: WireClient
) -> None:
    created(admin, CLIENT, (OP.WRITE, ResourceType.TOPIC, TOPIC))
    client.send(produce_request(batch(b"v"), TOPIC, acks=0), 9)
    client._asked.clear()
    assert client.ask(MetadataRequest(topics=[]), 9).topics == [], "what is stored says nothing"
    client.send(produce_request(batch(b"v"), "another", acks=0), 9)
    with pytest.raises(ConnectionError):
        client.receive_frame()


def test_a_start_without_an_authorizer_asks_for_no_rights(tmp_path: Path) -> None:
    daemon = MusterDaemon(tmp_path)
    daemon.start()
    try:
        with client_at(daemon, CLIENT) as client:
            joined = joined_member(client)
            assert client.ask(beat(joined), 4).error_code == 0
    finally:
        daemon.kill()
