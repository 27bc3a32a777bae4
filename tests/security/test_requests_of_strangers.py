"""Strangers who ask for much in the middle of their login: those who are in go on, and little is held (F1, F2)."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from pathlib import Path

from bench.pairs.servers import resident_mb
from harness.daemon import MusterDaemon
from harness.processes import HOST
from harness.wire import WireClient
from protocol.framing import encode_request
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest

STRANGERS = 30
HANDSHAKE = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 7, "s")
NAMES = encode_request(FindCoordinatorRequest(key_type=0, coordinator_keys=["k"] * 250_000), 4, 8, "s")
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret";'
SETTINGS = {
    "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.login.plain.sasl.jaas.config": JAAS,
}
LATE_S = 10.0
"""Of all of them together; where each was decoded and answered, it took more than 30."""
COST_MAX_MB = 100.0


def test_half_a_mib_of_names_costs_the_one_who_asks_its_connection_and_nobody_else_anything(
    tmp_path: Path,
) -> None:
    assert 500_000 < len(NAMES) < 512 << 10
    with (
        MusterDaemon(tmp_path, SETTINGS, listeners={"LOGIN": "SASL_PLAINTEXT"}) as daemon,
        ExitStack() as stack,
    ):
        client = stack.enter_context(WireClient(daemon.bootstrap))
        client.ask(ApiVersionsRequest(), 3)
        before_mb = resident_mb(daemon.pid)
        port = int(daemon.bootstrap_of("LOGIN").rpartition(":")[2])
        strangers = [
            stack.enter_context(socket.create_connection((HOST, port), timeout=LATE_S))
            for _ in range(STRANGERS)
        ]
        began_s = time.monotonic()
        for stranger in strangers:
            stranger.sendall(HANDSHAKE + NAMES)
        client.ask(ApiVersionsRequest(), 3)
        for stranger in strangers:
            answered = b""
            while piece := stranger.recv(1 << 16):
                answered += piece
            assert len(answered) < 100, "the handshake alone"
        client.ask(ApiVersionsRequest(), 3)
        assert time.monotonic() - began_s < LATE_S
        assert resident_mb(daemon.pid) - before_mb < COST_MAX_MB
