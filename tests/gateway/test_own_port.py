"""A node's own port where it is a gateway: what is the coordinator's, and what any broker is asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.gateway.allowed import (
    ADD_OFFSETS_TO_TXN,
    ALLOWED,
    DESCRIBE_LOG_DIRS,
    FETCH,
    LIST_TRANSACTIONS,
    OF_GROUPS,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)
from coordinator.gateway.node_settings import REFUSAL
from coordinator.gateway.own_port import OwnPort
from coordinator.server.api_table import api_table
from coordinator.server.connection import Connection
from coordinator.server.decoding import RawRequest
from coordinator.server.pending import Pending
from protocol.errors import ErrorCode
from protocol.framing import decode_response, encode_request, response_frame
from protocol.messages import RESPONSES
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.incremental_alter_configs import (
    ConfigOperation,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from protocol.messages.produce import ProduceRequest
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.messages.versions import SUPPORTED
from tests.gateway.doubles import Broker, BrokerTransport
from tests.gateway.parts import BROKER, GATEWAY_HOST, NODE, OTHER_NODE, SECRET, SECRET_PORT, front
from tests.gateway.test_connection import turn
from tests.server.test_connection import FakeServer, FakeTransport

OF_BROKERS = SUPPORTED | {19: (2, 6), 78: (0, 1), 75: (5, 6)}
"""They serve CreateTopics up to 6, know ShareFetch, and have a DescribeTopicPartitions that we do not know."""


def transactional_commit(group: str) -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    return TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=group,
        producer_id=1,
        producer_epoch=1,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])],
    )


class OwnBroker(Broker):
    def __init__(self) -> None:
        super().__init__()
        self.broker_ids = [BROKER]


class Way:
    """A client at the node's own port, and the broker that it is given."""

    def __init__(self) -> None:
        self.broker = OwnBroker()
        self.broker.may_connect.set()
        self.coordinated: list[Any] = []
        self.front = front()
        self.server = FakeServer()
        self.own = OwnPort(self.front, self.broker, OF_BROKERS, lambda: self.server.memory_pool)
        of_groups = dict.fromkeys({*OF_GROUPS, 16} - {TXN_OFFSET_COMMIT}, self._coordinate)
        self.table = api_table(self.own.handlers(of_groups))
        self.own.cap(self.table)
        self.server.apis = self.table
        self.client = FakeTransport()
        self.connection = Connection(self.server, "HOST")
        self.connection.connection_made(self.client)

    def _coordinate(self, request: Any, pending: Pending) -> None:
        self.coordinated.append(request)
        pending.reply(HeartbeatResponse())

    async def ask(self, request: Any, version: int) -> None:
        self.connection.data_received(encode_request(request, version, 7, "me"))
        await turn()

    async def answer(self, response: Any, version: int) -> bytes:
        """Have the broker answer; return what the client was sent, without its size."""
        self.broker.answer(7, response, version)
        await turn()
        return self.client.written[4:]

    def answered(self, api_key: int, version: int) -> Any:
        return decode_response(RESPONSES[api_key], version, self.client.written[4:])[1]


@pytest.mark.asyncio
async def test_what_any_broker_answers_passes_both_ways_unchanged() -> None:
    way = Way()
    asked = CreateTopicsRequest(topics=[], timeout_ms=5)
    await way.ask(asked, 6)
    assert way.broker.transport.written == encode_request(asked, 6, 7, "me")
    answer = CreateTopicsResponse(topics=[])
    got = await way.answer(answer, 6)
    assert got == b"".join(bytes(chunk) for chunk in response_frame(7, answer, 6))[4:]


@pytest.mark.asyncio
async def test_a_client_has_one_connection_to_a_broker_as_long_as_it_has_its_own() -> None:
    way = Way()
    for _ in range(2):
        await way.ask(CreateTopicsRequest(topics=[], timeout_ms=5), 6)
        way.client.written = b""
        await way.answer(CreateTopicsResponse(topics=[]), 6)
    assert way.broker.asked_for == [BROKER]
    assert not way.broker.transport.is_closed
    way.own.on_closed(way.connection)
    assert way.broker.transport.is_closed


@pytest.mark.asyncio
async def test_metadata_comes_from_a_broker_and_leads_through_the_gateway() -> None:
    way = Way()
    await way.ask(MetadataRequest(topics=[]), 12)
    theirs = MetadataResponse(brokers=[MetadataResponseBroker(node_id=BROKER, host=SECRET, port=SECRET_PORT)])
    got = await way.answer(theirs, 12)
    assert SECRET.encode() not in got
    assert GATEWAY_HOST.encode() in got


@pytest.mark.asyncio
async def test_a_request_about_our_group_is_the_coordinators_and_about_theirs_is_not() -> None:
    way = Way()
    await way.ask(HeartbeatRequest(group_id="ours", generation_id=1, member_id="m"), 4)
    assert [each.group_id for each in way.coordinated] == ["ours"]
    way.client.written = b""
    await way.ask(HeartbeatRequest(group_id="theirs", generation_id=1, member_id="m"), 4)
    assert way.answered(12, 4).error_code == ErrorCode.NOT_COORDINATOR
    assert len(way.coordinated) == 1


def test_what_clients_repeat_is_prepared_for_our_groups_only() -> None:
    own, prepared = Way().own, object()
    prepares: Any = {12: lambda request, version, frame: prepared}
    prepare = own.prepare(prepares)[12]
    beats = [HeartbeatRequest(group_id=group, generation_id=1, member_id="m") for group in ("ours", "theirs")]
    assert [prepare(beat, 4, b"") for beat in beats] == [prepared, None]


@pytest.mark.asyncio
async def test_transactional_offsets_are_refused_by_the_coordinator_too() -> None:
    way, refused = Way(), []
    way.front.on_refused_transaction = lambda transactional_id, group_id: refused.append(transactional_id)
    await way.ask(transactional_commit("ours"), 4)
    (topic,) = way.answered(TXN_OFFSET_COMMIT, 4).topics
    assert topic.partitions[0].error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert refused == ["t"]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "asked",
    [
        ProduceRequest(acks=1, timeout_ms=1, topic_data=[]),
        ProduceRequest(acks=0, timeout_ms=1, topic_data=[]),
        FetchRequest(max_wait_ms=1, min_bytes=1, topics=[]),
    ],
)
async def test_data_that_comes_here_ends_its_connection_and_reaches_no_broker(asked: Any) -> None:
    way = Way()
    await way.ask(asked, 9)
    assert way.client.is_closed
    assert way.broker.asked_for == []


@pytest.mark.asyncio
async def test_what_is_asked_of_each_broker_a_node_does_not_answer_for_one_of_them() -> None:
    way = Way()
    await way.ask(DescribeLogDirsRequest(topics=None), 4)
    (directory,) = way.answered(DESCRIBE_LOG_DIRS, 4).results
    assert (directory.error_code, directory.topics) == (0, [])
    way.client.written = b""
    await way.ask(ListTransactionsRequest(), 1)
    assert way.answered(LIST_TRANSACTIONS, 1).transaction_states == []
    assert way.broker.asked_for == []


def alteration(*changes: tuple[int, str, ConfigOperation]) -> IncrementalAlterConfigsRequest:
    """Of one setting each: kind and name of the resource, and what is done."""
    resources = [
        IncrementalAlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[IncrementalAlterableConfig(name="x", config_operation=operation, value=None)],
        )
        for kind, name, operation in changes
    ]
    return IncrementalAlterConfigsRequest(resources=resources)


@pytest.mark.asyncio
async def test_settings_of_a_node_are_removed_already_and_no_others_are_made() -> None:
    way = Way()
    removes, sets = (4, str(NODE), ConfigOperation.DELETE), (4, str(OTHER_NODE), ConfigOperation.SET)
    await way.ask(alteration(removes, sets), 1)
    done, refused = way.answered(44, 1).responses
    assert (done.error_code, done.resource_name) == (0, str(NODE))
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REQUEST, REFUSAL)
    assert way.broker.asked_for == []


@pytest.mark.asyncio
@pytest.mark.parametrize("asked", [(4, str(BROKER)), (4, ""), (2, str(NODE))])
async def test_settings_of_brokers_and_topics_are_altered_there(asked: tuple[int, str]) -> None:
    way = Way()
    await way.ask(alteration((*asked, ConfigOperation.DELETE)), 1)
    assert way.broker.transport.written == encode_request(
        alteration((*asked, ConfigOperation.DELETE)), 1, 7, "me"
    )


@pytest.mark.asyncio
async def test_it_offers_what_all_brokers_do_and_the_groups_as_the_coordinator_does() -> None:
    way = Way()
    await way.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
    answer = way.answered(18, 3)
    assert isinstance(answer, ApiVersionsResponse)
    offered = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert offered[19] == (2, 6)
    assert offered[55] == (0, 2)
    assert not {75, 78, 80} & offered.keys()
    for api_key in (*OF_GROUPS, PRODUCE, FETCH, ADD_OFFSETS_TO_TXN, 16):
        assert offered[api_key] == ALLOWED[api_key]


@pytest.mark.asyncio
async def test_a_version_that_not_all_brokers_serve_is_refused() -> None:
    way = Way()
    await way.ask(CreateTopicsRequest(topics=[], timeout_ms=5), 7)
    assert way.client.is_closed
    assert way.broker.transport.written == b""


@pytest.mark.asyncio
@pytest.mark.parametrize("said", [b"", b"\x00\x00\x00\x00", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x09abc"])
async def test_where_no_broker_answers_the_client_sees_its_connection_close(said: bytes) -> None:
    way = Way()
    await way.ask(MetadataRequest(topics=[]), 12)
    assert way.broker.end is not None
    if said:
        way.broker.say(said)
    way.broker.end.eof_received()
    await turn()
    assert way.client.is_closed
    assert way.client.written == b""


@pytest.mark.asyncio
async def test_an_answer_that_makes_no_sense_is_not_passed_on() -> None:
    way = Way()
    await way.ask(MetadataRequest(topics=[]), 12)
    way.broker.say(b"\x00\x00\x00\x06\x00\x00\x00\x07\x00\xff")
    await turn()
    assert way.client.is_closed
    assert way.client.written == b""


@pytest.mark.asyncio
async def test_brokers_that_are_away_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    way = Way()
    tried: list[int] = []
    way.broker.broker_ids = [1, 2, 3]
    reach = way.broker.connect

    async def connect(broker_id: int, protocol: Any) -> asyncio.Transport:
        tried.append(broker_id)
        if len(tried) < 3:
            raise OSError("refused")
        return await reach(broker_id, protocol)

    monkeypatch.setattr(way.broker, "connect", connect)
    await way.ask(CreateTopicsRequest(topics=[], timeout_ms=5), 6)
    assert sorted(tried) == [1, 2, 3]
    assert way.broker.transport.written


@pytest.mark.asyncio
async def test_a_client_that_goes_while_it_is_connected_leaves_no_connection() -> None:
    way = Way()
    way.broker.may_connect.clear()
    await way.ask(CreateTopicsRequest(topics=[], timeout_ms=5), 6)
    way.connection.connection_lost(None)
    way.own.on_closed(way.connection)
    way.broker.may_connect.set()
    await turn()
    assert way.broker.end is None


@pytest.mark.asyncio
async def test_offsets_in_a_transaction_of_a_group_that_is_theirs_are_looked_for_again() -> None:
    way = Way()
    await way.ask(transactional_commit("theirs"), 4)
    (topic,) = way.answered(TXN_OFFSET_COMMIT, 4).topics
    assert topic.partitions[0].error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.asyncio
async def test_a_broker_that_has_closed_the_connection_is_connected_to_again() -> None:
    """As it does when it is restarted, or when nothing was asked for ten minutes."""
    way = Way()
    await way.ask(CreateTopicsRequest(topics=[], timeout_ms=5), 6)
    await way.answer(CreateTopicsResponse(topics=[]), 6)
    assert way.broker.end is not None
    way.broker.end.eof_received()
    way.client.written, way.broker.transport = b"", BrokerTransport()
    await way.ask(CreateTopicsRequest(topics=[], timeout_ms=5), 6)
    assert way.broker.asked_for == [BROKER, BROKER]
    await way.answer(CreateTopicsResponse(topics=[]), 6)
    assert way.client.answered() == [7]


@pytest.mark.asyncio
async def test_what_cannot_be_written_any_more_closes_the_clients_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """uvloop says so by a RuntimeError."""
    way = Way()

    def write(_: Any) -> None:
        raise RuntimeError("the handler is closed")

    monkeypatch.setattr(way.broker.transport, "write", write)
    monkeypatch.setattr(way.broker.transport, "writelines", write)
    await way.ask(CreateTopicsRequest(topics=[], timeout_ms=5), 6)
    assert way.client.is_closed


@pytest.mark.asyncio
async def test_request_and_answer_count_in_the_memory_of_all_until_the_answer_is_sent() -> None:
    way = Way()
    pool = way.server.memory_pool
    asked = encode_request(CreateTopicsRequest(topics=[], timeout_ms=5), 6, 7, "me")
    await way.ask(CreateTopicsRequest(topics=[], timeout_ms=5), 6)
    assert pool.used_bytes == len(asked) - 4
    way.broker.say((1_000).to_bytes(4, "big"))
    await turn()
    assert pool.used_bytes == len(asked) - 4 + 1_000
    way.own.on_closed(way.connection)
    await turn()
    assert pool.used_bytes == 0


@pytest.mark.asyncio
async def test_where_the_memory_is_full_nothing_more_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    way = Way()
    monkeypatch.setattr(way.server.memory_pool, "capacity_bytes", 0)
    await way.ask(CreateTopicsRequest(topics=[], timeout_ms=5), 6)
    assert way.client.is_closed
    assert way.broker.asked_for == []


@pytest.mark.asyncio
async def test_for_a_client_that_has_gone_nothing_is_asked() -> None:
    way = Way()
    way.connection.is_open = False
    pending = Pending(way.connection, way.table[19], 6, 1, "me")
    way.own.pass_on(RawRequest(19, b""), pending)
    await turn()
    assert way.broker.asked_for == []
