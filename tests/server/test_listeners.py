"""Several listeners: a client that asks on one gets that one's endpoint. And the bounds on connections."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.daemon import MusterDaemon
from harness.processes import HOST, free_port, wait_until
from harness.wire import WireClient
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.metadata import MetadataRequest
from tests.server.asking import one_more

HELLO = ApiVersionsRequest(client_software_name="tests", client_software_version="1")


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return {"INSIDE": free_port(), "OUTSIDE": free_port()}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, ports: dict[str, int]) -> Iterator[MusterDaemon]:
    """Two more listeners beside the harness' own; one is advertised elsewhere, as behind a port mapping."""
    daemon = MusterDaemon(tmp_path_factory.mktemp("daemon"))
    daemon.overrides |= {
        "listeners": f"PLAINTEXT://{HOST}:{daemon.port},"
        f"INSIDE://{HOST}:{ports['INSIDE']},OUTSIDE://{HOST}:{ports['OUTSIDE']}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{daemon.port},"
        "INSIDE://muster:19092,OUTSIDE://broker.example.org:443",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    }
    with daemon:
        yield daemon


ADVERTISED = {"INSIDE": ("muster", 19092), "OUTSIDE": ("broker.example.org", 443)}


@pytest.mark.parametrize("listener", ADVERTISED)
@pytest.mark.usefixtures("daemon")
def test_each_listener_names_its_own_endpoint(ports: dict[str, int], listener: str) -> None:
    expected = ADVERTISED[listener]
    with WireClient(f"{HOST}:{ports[listener]}") as client:
        node = client.ask(MetadataRequest(topics=[]), 12).brokers[0]
        assert (node.host, node.port) == expected
        found = client.ask(FindCoordinatorRequest(coordinator_keys=["group"]), 4).coordinators[0]
        assert (found.host, found.port) == expected
        old = client.ask(FindCoordinatorRequest(key="group"), 0)
        assert (old.host, old.port) == expected
        cluster = client.ask(DescribeClusterRequest(), 1).brokers[0]
        assert (cluster.host, cluster.port) == expected


def is_closed(peer: socket.socket) -> bool:
    peer.settimeout(10)
    try:
        return peer.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("setting", ["max.connections", "max.connections.per.ip"])
def test_connections_over_the_maximum_are_closed_and_the_others_stay(tmp_path: Path, setting: str) -> None:
    with MusterDaemon(tmp_path, {setting: "3"}) as daemon:

        def three_connections() -> list[WireClient] | None:
            """The harness' own probes may still be counted for a moment after they were closed."""
            clients = [WireClient(daemon.bootstrap) for _ in range(3)]
            try:
                for client in clients:
                    client.ask(HELLO, 3)
            except ConnectionError:
                for client in clients:
                    client.close()
                return None
            return clients

        clients = wait_until(three_connections, "three connections", 10)
        with socket.create_connection((HOST, daemon.port)) as surplus:
            assert is_closed(surplus)
        for client in clients:
            assert client.ask(HELLO, 3).error_code == 0
        clients.pop().close()
        with wait_until(lambda: one_more(daemon.bootstrap), "a place is free again", 10):
            pass
        for client in clients:
            client.close()
