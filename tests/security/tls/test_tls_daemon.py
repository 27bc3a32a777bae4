"""A daemon with TLS and the clients there are: SSL, SASL_SSL, client certificates, failures, renewal."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer

from harness import java_tools
from harness.daemon import MusterDaemon
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.messages.api_versions import ApiVersionsRequest
from tests.security.tls import java_stores
from tests.security.tls.certificates import (
    PASSWORD,
    Issued,
    authority_pem,
    client_context,
    encrypted,
    issued,
)

LISTENERS: Final = {"TLS": "SSL", "MUTUAL": "SSL", "LOGIN": "SASL_SSL"}
HANDSHAKE_TIMEOUT_MS: Final = 3000
"""Enough for a handshake where the machine is busy, and a tenth of what it is by default."""
USER, USER_PASSWORD = "alice", "alice-secret"
JAAS: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS: Final = {
    "ssl.truststore.type": "PEM",
    "listener.name.mutual.ssl.client.auth": "required",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.login.plain.sasl.jaas.config": f'{JAAS} user_{USER}="{USER_PASSWORD}";',
    "group.initial.rebalance.delay.ms": "0",
}
ALERT: Final = 0x15
LARGE: Final = 5_000_000
"""Bytes of records in all: long answers, which are read from files piece by piece, and large requests."""


def key_file(folder: Path, made: Issued) -> Path:
    path = folder / "key.pem"
    path.write_text(encrypted(made.key) + made.certificate)
    return path


def started(folder: Path, **more: str) -> MusterDaemon:
    """A daemon whose key is in `folder`."""
    trusted = folder / "trusted.pem"
    trusted.write_text(authority_pem())
    overrides = {
        **SETTINGS,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key_file(folder, issued())),
        "ssl.key.password": PASSWORD,
        "ssl.truststore.location": str(trusted),
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    return MusterDaemon(folder / "data", overrides, listeners=LISTENERS)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterDaemon]:
    with started(tmp_path_factory.mktemp("tls")) as running:
        yield running


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterDaemon]:
    """One that does not wait for strangers."""
    timeout = str(HANDSHAKE_TIMEOUT_MS)
    with started(tmp_path_factory.mktemp("hasty"), muster_handshake_timeout_ms=timeout) as running:
        yield running


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Files for clients: the authority, and a certificate of their own."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "ca.pem").write_text(authority_pem())
    (folder / "own.pem").write_text(issued("client", common_name="alice").pem)
    return {"ca": str(folder / "ca.pem"), "own": str(folder / "own.pem")}


def connected(daemon: MusterDaemon, listener: str, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
    host, port = daemon.bootstrap_of(listener).rsplit(":", 1)
    plain = socket.create_connection((host, int(port)), timeout=30)
    return (context or client_context()).wrap_socket(plain, server_hostname="localhost")


class TlsWire(WireClient):
    """A client that sends our frames through TLS."""

    def __init__(self, daemon: MusterDaemon, listener: str, context: ssl.SSLContext | None = None) -> None:
        super().__init__(daemon.bootstrap_of(listener))
        self.socket = (context or client_context()).wrap_socket(self.socket, server_hostname="localhost")

    def __enter__(self) -> TlsWire:
        return self

    def is_served(self) -> bool:
        return bool(self.ask(ApiVersionsRequest(), 0).api_keys)


# Clients.


def librdkafka(daemon: MusterDaemon, listener: str, pem: dict[str, str]) -> dict[str, Any]:
    own = {"ssl.certificate.location": pem["own"], "ssl.key.location": pem["own"]}
    login = {
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": USER_PASSWORD,
    }
    return {
        "bootstrap.servers": daemon.bootstrap_of(listener),
        "security.protocol": LISTENERS[listener],
        "ssl.ca.location": pem["ca"],
        **(own if listener == "MUTUAL" else {}),
        **(login if listener == "LOGIN" else {}),
    }


@pytest.mark.parametrize("listener", LISTENERS)
def test_librdkafka_sends_and_reads_much(daemon: MusterDaemon, pem: dict[str, str], listener: str) -> None:
    settings, topic = librdkafka(daemon, listener, pem), f"rd-{listener}"
    producer = Producer({**settings, "linger.ms": 50, "batch.size": 900_000})
    values = [b"%06d" % number + os.urandom(9_994) for number in range(LARGE // 10_000)]
    for value in values:
        producer.produce(
            topic, value, on_delivery=lambda error, _: None if error is None else pytest.fail(str(error))
        )
    assert producer.flush(60) == 0
    consumer = Consumer(
        {**settings, "group.id": topic, "auto.offset.reset": "earliest", "fetch.message.max.bytes": LARGE}
    )
    consumer.subscribe([topic])
    read: list[bytes | None] = []
    while len(read) < len(values):
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        read.append(message.value())
    consumer.close()
    assert read == values


@pytest.mark.parametrize("listener", LISTENERS)
def test_kafka_python_sends_and_reads(daemon: MusterDaemon, pem: dict[str, str], listener: str) -> None:
    own = {"ssl_certfile": pem["own"], "ssl_keyfile": pem["own"]} if listener == "MUTUAL" else {}
    login = {
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": USER,
        "sasl_plain_password": USER_PASSWORD,
    }
    settings: dict[str, Any] = {
        "bootstrap_servers": daemon.bootstrap_of(listener),
        "security_protocol": LISTENERS[listener],
        "ssl_cafile": pem["ca"],
        **own,
        **(login if listener == "LOGIN" else {}),
    }
    topic = f"kp-{listener}"
    producer = kafka.KafkaProducer(**settings)
    for number in range(10):
        producer.send(topic, b"%d" % number).get(30)
    producer.close()
    consumer = kafka.KafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **settings)
    assert [next(consumer).value for _ in range(10)] == [b"%d" % number for number in range(10)]
    consumer.close()


@pytest.mark.parametrize("listener", ["TLS", "LOGIN"])
def test_aiokafka_sends_and_reads(daemon: MusterDaemon, listener: str) -> None:
    topic = f"aio-{listener}"
    login = {
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": USER,
        "sasl_plain_password": USER_PASSWORD,
    }
    settings: dict[str, Any] = {
        "bootstrap_servers": daemon.bootstrap_of(listener),
        "security_protocol": LISTENERS[listener],
        **(login if listener == "LOGIN" else {}),
    }

    async def walk() -> list[bytes | None]:
        settings["ssl_context"] = client_context()
        async with AIOKafkaProducer(**settings) as producer:
            for number in range(10):
                await producer.send_and_wait(topic, b"%d" % number)
        consumer = AIOKafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **settings)
        async with consumer:
            return [(await asyncio.wait_for(consumer.getone(), 30)).value for _ in range(10)]

    assert asyncio.run(walk()) == [b"%d" % number for number in range(10)]


def java_client(folder: Path, *lines: str) -> Path:
    path = folder / "client.properties"
    path.write_text("\n".join([*lines, "default.api.timeout.ms=30000", "request.timeout.ms=15000", ""]))
    return path


def run_topics(
    daemon: MusterDaemon, listener: str, client: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    command = [
        java_tools.java(),
        "-Xmx256m",
        "-cp",
        java_tools.classpath(),
        "org.apache.kafka.tools.TopicCommand",
    ]
    bootstrap = ["--bootstrap-server", daemon.bootstrap_of(listener), "--command-config", str(client)]
    return subprocess.run(
        [*command, *bootstrap, *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def test_java_shows_its_certificate_from_a_store_of_keytool(
    java: None, daemon: MusterDaemon, pem: dict[str, str], tmp_path: Path
) -> None:
    trusted = java_stores.trust_store(tmp_path / "trust.jks", "JKS", authority_pem())
    client = java_client(
        tmp_path,
        "security.protocol=SSL",
        f"ssl.truststore.location={trusted}",
        f"ssl.truststore.password={PASSWORD}",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={pem['own']}",
    )
    made = run_topics(daemon, "MUTUAL", client, "--create", "--topic", "java-mutual")
    assert "Created topic java-mutual." in made.stdout, made.stdout + made.stderr


def test_java_without_a_certificate_fails_for_good_because_it_sees_the_alert(
    java: None, daemon: MusterDaemon, pem: dict[str, str], tmp_path: Path
) -> None:
    """T6, T18: at a bare end of the stream it would try again until its time is over."""
    client = java_client(
        tmp_path, "security.protocol=SSL", "ssl.truststore.type=PEM", f"ssl.truststore.location={pem['ca']}"
    )
    refused = run_topics(daemon, "MUTUAL", client, "--list")
    # Which of the two depends on whether the alert comes before its handshake is done.
    assert re.search("Failed to process post-handshake messages|SSL handshake failed", refused.stdout), (
        refused
    )


def test_java_logs_in_through_tls(
    java: None, daemon: MusterDaemon, pem: dict[str, str], tmp_path: Path
) -> None:
    client = java_client(
        tmp_path,
        "security.protocol=SASL_SSL",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={pem['ca']}",
        "sasl.mechanism=PLAIN",
        f'sasl.jaas.config={JAAS} username="{USER}" password="{USER_PASSWORD}";',
    )
    made = run_topics(daemon, "LOGIN", client, "--create", "--topic", "java-login")
    assert "Created topic java-login." in made.stdout, made.stdout + made.stderr


# Who is let in.


def test_a_required_certificate_that_is_missing_or_of_another_authority_is_met_by_an_alert(
    daemon: MusterDaemon, tmp_path: Path
) -> None:
    """T6, T7: in TLS 1.3 the client thinks that it is connected, and meets the alert as it reads."""
    for shown in (None, issued("x", signed_by_another=True)):
        context = client_context(shown, tmp_path)
        with connected(daemon, "MUTUAL", context) as client, pytest.raises(ssl.SSLError, match="ALERT"):
            client.recv(1)
    with TlsWire(daemon, "MUTUAL", client_context(issued("x"), tmp_path)) as client:
        assert client.is_served()


def test_plaintext_to_tls_is_an_alert_and_tls_to_plaintext_an_end(daemon: MusterDaemon) -> None:
    """T16."""
    with WireClient(daemon.bootstrap_of("TLS")) as client:
        client.send(ApiVersionsRequest(), 0)
        answer = client.socket.recv(100)
        assert (answer[0], len(answer)) == (ALERT, 7)
        assert client.socket.recv(100) == b""
    host, port = daemon.bootstrap.rsplit(":", 1)
    with (
        socket.create_connection((host, int(port)), timeout=30) as plain,
        pytest.raises((ssl.SSLError, OSError)),
    ):
        client_context().wrap_socket(plain, server_hostname="localhost")


def silence(sent: socket.socket) -> None:
    """Say nothing."""


def half_a_hello(sent: socket.socket) -> None:
    sent.sendall(b"\x16\x03\x01\x02\x00\x01")


@pytest.mark.parametrize("begin", [silence, half_a_hello])
@pytest.mark.parametrize("listener", ["TLS", "LOGIN"])
def test_a_handshake_that_is_not_done_in_time_ends(
    hasty: MusterDaemon, listener: str, begin: Callable[[socket.socket], None]
) -> None:
    """F2: the clock runs from accept, whatever has come."""
    host, port = hasty.bootstrap_of(listener).rsplit(":", 1)
    began = time.monotonic()
    with socket.create_connection((host, int(port)), timeout=30) as client:
        begin(client)
        assert is_closed(client)
    took_ms = (time.monotonic() - began) * 1000
    assert 0.5 * HANDSHAKE_TIMEOUT_MS < took_ms < 5 * HANDSHAKE_TIMEOUT_MS


def is_closed(client: socket.socket) -> bool:
    """Wait for the end of the connection: a reset, or an end of the stream."""
    try:
        return client.recv(1) == b""
    except (ConnectionError, ssl.SSLError):
        return True


def test_tls_without_a_login_ends_by_the_same_clock(hasty: MusterDaemon) -> None:
    began = time.monotonic()
    with connected(hasty, "LOGIN") as client:
        assert is_closed(client)
    assert (time.monotonic() - began) * 1000 < 5 * HANDSHAKE_TIMEOUT_MS


def test_a_hello_by_the_byte_is_served(daemon: MusterDaemon) -> None:
    host, port = daemon.bootstrap_of("TLS").rsplit(":", 1)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection((host, int(port)), timeout=30) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                client.do_handshake()
            except ssl.SSLWantReadError:
                for byte in outgoing.read():
                    plain.sendall(bytes((byte,)))
                incoming.write(plain.recv(65536))
            else:
                break
    assert client.version() == "TLSv1.3"


# Renewal.


def common_names(client: ssl.SSLSocket) -> list[str]:
    shown: Any = client.getpeercert()
    return sorted(name for _, name in shown["subjectAltName"])


@pytest.mark.parametrize("by_signal", [True, False])
def test_new_connections_get_a_renewed_certificate_and_old_ones_live_on(
    tmp_path: Path, by_signal: bool
) -> None:
    """T35, T37."""
    interval = "0" if by_signal else "50"
    running = started(tmp_path, muster_tls_reload_interval_ms=interval, ssl_allow_dn_changes="true")

    def replace(content: Issued | None) -> None:
        if content is None:
            (tmp_path / "key.pem").write_text("torn")
        else:
            key_file(tmp_path, content)
        if by_signal:
            os.kill(running.pid, signal.SIGHUP)

    def new_names() -> list[str]:
        with connected(running, "TLS") as client:
            return common_names(client)

    with running, TlsWire(running, "TLS") as old:
        assert old.is_served()
        assert new_names() == ["127.0.0.1", "localhost"]
        replace(issued("localhost", "127.0.0.1", "renewed.example"))
        wait_until(lambda: "renewed.example" in new_names(), "the new certificate", 20)
        assert old.is_served()
        replace(None)
        wait_until(lambda: "certificates stay as they were" in running.log_path.read_text(), "a line", 20)
        assert "renewed.example" in new_names()
