"""HTTPS whose certificate is renewed while the daemon runs, as those of Kafka's listeners are (T35 to T37)."""

from __future__ import annotations

import os
import signal
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPSConnection
from pathlib import Path
from typing import Final

import pytest

from harness.daemon import MusterDaemon
from harness.processes import HOST, free_port, wait_until
from harness.wire import WireClient
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tests.http.test_http_daemon import FEW, PATIENCE_S
from tests.security.tls.certificates import authority_pem, issued

INTERVAL: Final = "muster.tls.reload.interval.ms"
BROKER: Final = 4


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "key.pem").write_text(issued(HOST).pem)
    return tmp_path / "key.pem"


@pytest.fixture
def port() -> int:
    return free_port()


def settings(store: Path, port: int, **more: str) -> dict[str, str]:
    return {
        **FEW,
        "muster.http.listeners": f"https://{HOST}:{port}",
        "muster.http.ssl.keystore.location": str(store),
        "ssl.allow.dn.changes": "true",  # trustme gives each certificate a subject of its own.
        **more,
    }


@pytest.fixture
def running(tmp_path: Path, store: Path, port: int) -> Iterator[MusterDaemon]:
    with MusterDaemon(tmp_path / "daemon", settings(store, port)) as daemon:
        yield daemon


def connected(port: int) -> HTTPSConnection:
    """A connection that was answered once, and is kept open."""
    trusting = ssl.create_default_context(cadata=authority_pem())
    connection = HTTPSConnection(HOST, port, timeout=PATIENCE_S, context=trusting)
    connection.request("GET", "/livez")
    assert connection.getresponse().read() is not None
    return connection


def shown(port: int) -> bytes:
    """The certificate that a new connection is shown."""
    connection = connected(port)
    try:
        certificate = connection.sock.getpeercert(binary_form=True)
        assert certificate is not None
        return bytes(certificate)
    finally:
        connection.close()


def replace(store: Path, text: str) -> None:
    store.with_suffix(".new").write_text(text)
    store.with_suffix(".new").replace(store)


def sighup(daemon: MusterDaemon) -> None:
    os.kill(daemon.pid, signal.SIGHUP)


def alteration(daemon: MusterDaemon) -> None:
    """Change a setting of the broker that has nothing to do with certificates."""
    config = IncrementalAlterableConfig(name="log.cleaner.threads", config_operation=0, value="2")
    resource = IncrementalAlterConfigsResource(resource_type=BROKER, resource_name="1", configs=[config])
    with WireClient(daemon.bootstrap, "setter") as client:
        answer = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert [each.error_code for each in answer.responses] == [0]


@pytest.mark.parametrize("ask", [sighup, alteration])
def test_new_connections_get_the_new_certificate(
    running: MusterDaemon, store: Path, port: int, ask: Callable[[MusterDaemon], None]
) -> None:
    """Those that are there live on with theirs. There is no listener of Kafka's with TLS."""
    old, before = connected(port), shown(port)
    replace(store, issued(HOST, "more.example").pem)
    ask(running)
    wait_until(lambda: shown(port) != before, "the new certificate is shown", PATIENCE_S)
    old.request("GET", "/livez")
    assert old.getresponse().status == 200
    old.close()


def refusals(daemon: MusterDaemon) -> int:
    return daemon.log_path.read_text().count("certificates stay as they were")


def has_refused(daemon: MusterDaemon, before: int) -> bool:
    return refusals(daemon) > before


def test_what_cannot_be_taken_leaves_the_old_certificate(
    running: MusterDaemon, store: Path, port: int
) -> None:
    """A name that the old one had is missing; then the file is torn; then all is well again."""
    before = shown(port)
    for text, sentence in (
        (issued("elsewhere.example").pem, "ssl.allow.san.changes"),
        ("torn", "certificates stay as they were"),
    ):
        seen = refusals(running)
        replace(store, text)
        sighup(running)
        wait_until(partial(has_refused, running, seen), "the refusal is logged", PATIENCE_S)
        assert sentence in running.log_path.read_text()
        assert shown(port) == before
    replace(store, issued(HOST, "later.example").pem)
    sighup(running)
    wait_until(lambda: shown(port) != before, "the new certificate is shown", PATIENCE_S)


def test_the_file_is_looked_at_every_so_often(tmp_path: Path, store: Path, port: int) -> None:
    with MusterDaemon(tmp_path / "daemon", settings(store, port, **{INTERVAL: "100"})):
        before = shown(port)
        replace(store, issued(HOST, "later.example").pem)
        wait_until(lambda: shown(port) != before, "the new certificate is shown", PATIENCE_S)
