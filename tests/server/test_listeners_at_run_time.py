"""What is set for single listeners, at the start and while a daemon runs: limits (Q21), certificates (T35)."""

from __future__ import annotations

import os
import socket
import ssl
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from cryptography import x509

from harness.daemon import MusterDaemon
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.incremental_alter_configs import IncrementalAlterableConfig as Operation
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tests.security.tls.certificates import PASSWORD, authority_pem, client_context, encrypted, issued
from tests.server.asking import is_served, one_more

BROKER, NODE, ALL = 4, "1", ""
SET, DELETE = 0, 1
LISTENERS = {"TLS": "SSL", "EXTRA": "PLAINTEXT", "LOGIN": "SASL_PLAINTEXT"}
MOST = "listener.name.extra.max.connections"
RATE = "listener.name.extra.max.connection.creation.rate"
LOCATION = "listener.name.tls.ssl.keystore.location"
KEY_PASSWORD = "listener.name.tls.ssl.key.password"
SIZE = "listener.name.login.plain.sasl.server.max.receive.size"
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
OK = (ErrorCode.NONE, None)


class Running(MusterDaemon):
    """A daemon with a listener of each kind; its key is in `key.pem`, and others can be put beside it."""

    def __init__(self, folder: Path, **more: str) -> None:
        self.folder = folder
        self.put("key.pem", issued().pem)
        settings = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(folder / "key.pem"),
            "ssl.allow.dn.changes": "true",  # Each certificate made for tests has a subject of its own.
            "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
            SIZE: "400000",
            "listener.name.login.plain.sasl.jaas.config": f'{JAAS} user_alice="alice-secret";',
            **{name.replace("_", "."): value for name, value in more.items()},
        }
        super().__init__(folder / "data", settings, listeners=LISTENERS)

    def put(self, name: str, text: str) -> str:
        path = self.folder / name
        path.with_suffix(".new").write_text(text)
        path.with_suffix(".new").replace(path)
        return str(path)

    def change(
        self, *changes: tuple[str, str | None], scope: str = NODE, validate_only: bool = False
    ) -> tuple[int, str | None]:
        """Error and words of a change of the broker's settings; None takes one back."""
        configs = [
            Operation(name=name, config_operation=DELETE if value is None else SET, value=value)
            for name, value in changes
        ]
        resource = IncrementalAlterConfigsResource(resource_type=BROKER, resource_name=scope, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        with WireClient(self.bootstrap) as client:
            (answer,) = client.ask(request, 1).responses
        return answer.error_code, answer.error_message

    def refused(self, *changes: tuple[str, str | None], scope: str = NODE) -> str:
        """The words of a change that is refused."""
        error, words = self.change(*changes, scope=scope)
        assert error == ErrorCode.INVALID_REQUEST, (error, words)
        assert words is not None
        return words

    def handshake(self) -> ssl.SSLSocket:
        host, port = self.bootstrap_of("TLS").rsplit(":", 1)
        plain = socket.create_connection((host, int(port)), timeout=30)
        return client_context().wrap_socket(plain, server_hostname="localhost")

    def names(self) -> list[str]:
        """The names in the certificate that a new connection is shown."""
        with self.handshake() as connection:
            shown = connection.getpeercert(binary_form=True)
        assert shown is not None
        found = x509.load_der_x509_certificate(shown).extensions
        return found.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(
            x509.DNSName
        )

    def await_name(self, name: str) -> None:
        wait_until(lambda: name in self.names(), f"the certificate for {name}", 20)

    def described(self, name: str) -> list[tuple[str | None, bool, list[tuple[str, str | None, int]]]]:
        resource = DescribeConfigsResource(
            resource_type=BROKER, resource_name=NODE, configuration_keys=[name]
        )
        with WireClient(self.bootstrap) as client:
            request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
            (answer,) = client.ask(request, 4).results
        return [
            (each.value, each.is_sensitive, [(same.name, same.value, same.source) for same in each.synonyms])
            for each in answer.configs
        ]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("listeners"), listener_name_extra_max_connections="2") as daemon:
        yield daemon


# Limits.


def await_served(running: Running, listener: str) -> WireClient:
    """A client that is served, once there is room; one that has just gone may be counted for a moment."""
    return wait_until(lambda: one_more(running.bootstrap_of(listener)), "there is room", 30)


def test_a_listener_has_a_maximum_of_its_own_from_the_start_on_and_at_run_time(running: Running) -> None:
    """Q21; others are served meanwhile, and who is in stays in."""
    extra = running.bootstrap_of("EXTRA")
    with await_served(running, "EXTRA") as first:
        with await_served(running, "EXTRA") as second:
            assert not is_served(extra)
            assert running.change((MOST, "1")) == OK
            assert first.ask(DescribeClusterRequest(), 0).brokers
            assert second.ask(DescribeClusterRequest(), 0).brokers
        wait_until(lambda: not is_served(extra), "one is enough now", 30)
        assert running.change((MOST, "3"), scope=ALL) == OK
        assert not is_served(extra), "what is set for the node is above"
        assert running.change((MOST, None)) == OK
        await_served(running, "EXTRA").close()
    ((value, _, synonyms),) = running.described(MOST)
    assert value == "3"
    assert (MOST, "3", 3) in synonyms
    assert ("max.connections", "2147483647", 5) in synonyms
    assert running.change((MOST, None), scope=ALL) == OK


def test_behind_a_listeners_setting_the_general_ones_are_described(running: Running) -> None:
    """By source, the listener's own first; with a mechanism's prefix Kafka knows a few alone (F12)."""
    key, general, most = str(running.folder / "key.pem"), "ssl.keystore.location", "max.connections"
    assert running.change((LOCATION, key), (MOST, "9"), (most, "4000")) == OK
    assert running.described(LOCATION) == [(key, False, [(LOCATION, key, 2), (general, key, 4)])]
    values = [(MOST, "9", 2), (most, "4000", 2), (MOST, "2", 4), (most, "2147483647", 5)]
    assert running.described(MOST) == [("9", False, values)]
    assert running.change((LOCATION, None), (MOST, None), (most, None)) == OK
    assert running.described(MOST) == [("2", False, [(MOST, "2", 4), (most, "2147483647", 5)])]
    name, words = "listener.name.login.sasl.enabled.mechanisms", "sasl.enabled.mechanisms"
    assert running.described(name) == [("PLAIN", False, [(name, "PLAIN", 4), (words, "GSSAPI", 5)])]
    assert running.described(SIZE) == [(None, True, [(SIZE, None, 4)])]


def test_strangers_count_as_connections_of_their_listener(running: Running) -> None:
    name = "listener.name.login.max.connections"
    assert running.change((name, "1")) == OK
    host, port = running.bootstrap_of("LOGIN").rsplit(":", 1)

    def is_closed_at_once() -> bool:
        with socket.create_connection((host, int(port)), timeout=0.2) as probe:
            try:
                return probe.recv(1) == b""
            except ConnectionResetError:
                return True
            except TimeoutError:
                return False

    with socket.create_connection((host, int(port))):
        wait_until(is_closed_at_once, "a second is one too many", 30)
    wait_until(lambda: not is_closed_at_once(), "there is room for one", 30)
    assert running.change((name, None)) == OK


def test_connections_of_one_listener_come_no_faster_than_its_rate(running: Running) -> None:
    """Those of others do, and with the limit gone all do."""
    assert running.change((RATE, "1"), (MOST, "100")) == OK

    def took_s(listener: str) -> float:
        began_s = time.monotonic()
        with ExitStack() as stack:
            for _ in range(9):
                client = stack.enter_context(WireClient(running.bootstrap_of(listener)))
                assert client.ask(DescribeClusterRequest(), 0).brokers
        return time.monotonic() - began_s

    slow_s = took_s("EXTRA")
    assert slow_s > 7.9
    assert took_s("PLAINTEXT") < slow_s / 2
    assert running.change((RATE, None)) == OK
    assert took_s("EXTRA") < slow_s / 2
    assert running.change((MOST, None)) == OK


@pytest.mark.parametrize("value", ["0", "-1", "x", ""])
@pytest.mark.parametrize("name", [MOST, RATE])
def test_a_limit_that_lets_nobody_in_is_refused(running: Running, name: str, value: str) -> None:
    """Q21."""
    running.refused((name, value))
    running.refused((name, value), scope=ALL)


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.other.max.connections",
        "listener.name.EXTRA.max.connections",
        "listener.name.extra.num.network.threads",
        "listener.name.extra.ssl.keystore.location",
        "listener.name.tls.ssl.client.auth",
        "listener.name.login.plain.sasl.jaas.config",
    ],
)
def test_what_is_for_no_listener_or_cannot_change_is_refused(running: Running, name: str) -> None:
    """L10: Kafka takes some of these, and keeps them without effect."""
    running.refused((name, "5"))


# Keys and certificates.


def test_a_renewed_file_is_taken_when_settings_of_the_node_are_altered(running: Running) -> None:
    """T35: whatever is altered, also to what it was; connections that are there live on."""
    with running.handshake() as old:
        names = ["localhost", "127.0.0.1"]
        for name in ("renewed.example", "again.example"):
            names.append(name)
            running.put("key.pem", issued(*names).pem)
            assert running.change(("log.cleaner.backoff.ms", "14000")) == OK
            running.await_name(name)
            old.settimeout(0.05)
            with pytest.raises(TimeoutError):
                old.recv(1)
    assert running.change(("log.cleaner.backoff.ms", None)) == OK


def test_a_file_that_cannot_be_taken_leaves_the_old_certificate_and_the_answer_is_good(
    running: Running,
) -> None:
    """T36: the listener's settings are as they were."""
    before = running.names()
    running.put("key.pem", issued("localhost").pem)
    assert running.change(("log.cleaner.backoff.ms", "13000")) == OK
    wait_until(lambda: "certificates stay as they were" in running.log_path.read_text(), "it is said", 20)
    assert running.names() == before
    running.put("key.pem", issued(*before, "127.0.0.1").pem)
    assert running.change(("log.cleaner.backoff.ms", None)) == OK


@pytest.fixture
def of_its_own(tmp_path: Path) -> Iterator[Running]:
    """A daemon for a test that moves its store: others renew the file where it is at the start."""
    with Running(tmp_path) as daemon:
        yield daemon


def another_store(running: Running, *more: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """What sets a store with the names of the one in use and `more`: its place, and the password of its key."""
    names = [name for name in running.names() if name != "localhost"]
    new = issued("localhost", "127.0.0.1", *names, *more)
    path = running.put("moved.pem", encrypted(new.key) + new.certificate)
    return (LOCATION, path), (KEY_PASSWORD, PASSWORD)


def test_another_store_is_checked_and_taken(of_its_own: Running) -> None:
    """T35, T36."""
    running = of_its_own
    before = running.names()
    whole = another_store(running, "moved.example")
    (place, _) = whole
    assert "moved.pem" in running.refused(place), "its key has a password"
    assert PASSWORD[:-1] not in running.refused(place, (KEY_PASSWORD, PASSWORD[:-1]))
    assert "nowhere.pem" in running.refused((LOCATION, str(running.folder / "nowhere.pem")))
    assert "no file can have that name" in running.refused((LOCATION, "/tmp/a\0b"))
    other = running.put("other.pem", issued("elsewhere.example").pem)
    assert "alternative name" in running.refused((LOCATION, other))
    trust = (
        ("listener.name.tls.ssl.truststore.type", "PEM"),
        ("listener.name.tls.ssl.truststore.certificates", authority_pem()),
    )
    assert "trust store" in running.refused(*trust)
    assert running.change(*whole, validate_only=True) == OK
    assert running.names() == before
    assert not running.described(LOCATION)
    assert "per-listener" in running.refused(("ssl.keystore.location", place[1]))
    assert "default cluster level" in running.refused(*whole, scope=ALL)
    assert running.change(*whole) == OK
    running.await_name("moved.example")


def test_what_was_set_is_kept_and_its_secrets_are_not_shown(of_its_own: Running) -> None:
    """F12, F13."""
    running = of_its_own
    whole = another_store(running, "moved.example")
    assert running.change(*whole) == OK
    running.await_name("moved.example")
    ((value, _, synonyms),) = running.described(LOCATION)
    assert value == str(running.folder / "moved.pem")
    assert synonyms[0] == (LOCATION, value, 2)
    ((value, is_sensitive, synonyms),) = running.described(KEY_PASSWORD)
    assert (value, is_sensitive, {text for _, text, _ in synonyms}) == (None, True, {None})
    kept = running.log_dir / "dynamic-settings.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert PASSWORD not in running.log_path.read_text()
    running.kill()
    kept.chmod(0o640)
    with pytest.raises(RuntimeError, match="it holds secrets, and others may use it"):
        running.start()
    kept.chmod(0o600)
    running.start()
    assert "moved.example" in running.names()
    assert "alternative name" in running.refused((LOCATION, None), (KEY_PASSWORD, None))


@pytest.mark.parametrize("name", ["pipe", "device"])
def test_a_store_that_is_no_file_is_refused_and_holds_up_nothing(tmp_path: Path, name: str) -> None:
    """A pipe is waited for until another writes to it: with it all later changes, new topics and the stop."""
    with Running(tmp_path) as running:
        path = tmp_path / name
        make = os.mkfifo if name == "pipe" else lambda path: path.symlink_to("/dev/zero")
        make(path)
        assert f"{path} cannot be read: it is no file" in running.refused((LOCATION, str(path)))
        key = tmp_path / "key.pem"
        key.unlink()
        make(key)
        assert running.change((MOST, "100")) == OK
        wait_until(
            lambda: f"{key} cannot be read: it is no file" in running.log_path.read_text(), "it is said", 20
        )
        assert running.names()
        assert running.terminate() == 0
