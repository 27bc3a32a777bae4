"""Brokers that are played, behind the real `BackingCluster`: what each serves, and what it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

from aiokafka.conn import AIOKafkaConnection

from coordinator.backing.kafka.cluster import BackingCluster, BrokerAddress, OpenConnection, UnavailableError
from protocol.carried import CarriedRequest
from protocol.codec.codec import spec
from protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from protocol.messages.describe_configs import DescribeConfigsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import ProduceRequest

Answer = Callable[[Any], Any]


def key_of(message: type) -> int:
    key = spec(message).api_key
    assert key is not None
    return key


API_VERSIONS, PRODUCE, FETCH = 18, key_of(ProduceRequest), key_of(FetchRequest)
OF_4_1 = {
    PRODUCE: (3, 13),
    FETCH: (4, 18),
    key_of(MetadataRequest): (0, 13),
    key_of(DescribeConfigsRequest): (1, 4),
    API_VERSIONS: (0, 4),
}


class PlayedBroker:
    """One broker: a connection to it answers at once. It is away while `is_away`."""

    host = "kafka"

    def __init__(self, node_id: int, versions: Mapping[int, tuple[int, int]] = OF_4_1) -> None:
        self.port = 9_000 + node_id
        self.versions = dict(versions)
        self.answers: dict[str, Answer] = {"ApiVersionsRequest": lambda _: self._api_versions()}
        self.asked: list[str] = []
        self.is_away = False

    def _api_versions(self) -> ApiVersionsResponse:
        rows = [
            ApiVersion(api_key=key, min_version=lowest, max_version=highest)
            for key, (lowest, highest) in self.versions.items()
        ]
        return ApiVersionsResponse(api_keys=rows)

    def connected(self) -> bool:
        return not self.is_away

    def close(self, reason: object = None) -> None:
        """It is opened again when it is needed."""

    async def send(self, request: CarriedRequest) -> Any:
        request.prepare(self.versions)
        name = type(request._message).__name__
        self.asked.append(name)
        await asyncio.sleep(0)
        return self.answers[name](request._message)


class PlayedCluster(BackingCluster):
    """The real one, but for bootstrap and sockets."""

    def __init__(self, *brokers: PlayedBroker) -> None:
        super().__init__("played:1")
        self.played = {broker.port - 9_000: broker for broker in brokers}
        self._show()

    def _show(self) -> None:
        self._brokers = {
            each: BrokerAddress(broker.host, broker.port) for each, broker in self.played.items()
        }

    async def start(self) -> None:
        self._show()

    async def _connected(self, node_id: int) -> OpenConnection:
        broker = self.played[node_id]
        if broker.is_away:
            raise UnavailableError(f"broker {node_id} is away")
        return OpenConnection(cast(AIOKafkaConnection, broker), 0)
