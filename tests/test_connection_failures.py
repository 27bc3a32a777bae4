"""Why a broker was not reached is said in a sentence, for each way in which a listener can refuse a client."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka.errors import KafkaConnectionError, KafkaTimeoutError, TopicAuthorizationFailedError

from harness.daemon import MusterDaemon
from harness.processes import free_port
from harness.secured import CANARY, SecuredBroker
from muster.client_properties import ClientSettings, client_settings
from muster.cluster import ClusterError, UnreachableError, connected
from muster.connection_failures import PLACES_MAX, SAID_MAX, Failures, failure_sentence, in_words
from protocol.messages.list_groups import ListGroupsRequest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with SecuredBroker(tmp_path_factory.mktemp("failures"), MusterDaemon) as running:
        yield running


async def refusal(bootstrap: str, properties: dict[str, str]) -> str:
    with pytest.raises(ClusterError) as refused:
        async with connected(bootstrap, client_settings(properties)):
            pass
    said = str(refused.value)
    assert not [each for each in (CANARY, "<", "Error", "AddressFamily", "\n") if each in said], said
    return said


@pytest.mark.parametrize(("listener", "mechanism"), [("SASL", "PLAIN"), ("TLS", "SCRAM-SHA-512")])
async def test_a_wrong_password_is_the_brokers_refusal(
    broker: SecuredBroker, listener: str, mechanism: str
) -> None:
    address = broker.bootstrap(listener)
    said = await refusal(address, broker.security(listener, "librdkafka", f"{CANARY}-but-wrong"))
    begin = f"the broker at {address} refused the login of user alice by {mechanism}: Authentication failed"
    assert said.startswith(begin)


@pytest.mark.parametrize(
    ("listener", "mechanism", "offered"),
    [("SASL", "SCRAM-SHA-256", "PLAIN"), ("TLS", "PLAIN", "SCRAM-SHA-512")],
)
async def test_a_mechanism_that_the_listener_lacks(
    broker: SecuredBroker, listener: str, mechanism: str, offered: str
) -> None:
    properties = broker.security(listener, "librdkafka") | {"sasl.mechanisms": mechanism}
    address = broker.bootstrap(listener)
    said = await refusal(address, properties)
    assert said == f"the listener at {address} does not offer {mechanism} (it offers {offered})"


async def test_another_protocol_than_the_listeners(broker: SecuredBroker) -> None:
    plain, sasl, tls = (broker.bootstrap(listener) for listener in ("PLAINTEXT", "SASL", "TLS"))
    login, secured = broker.security("SASL", "java"), broker.security("TLS", "java")
    assert await refusal(tls, {}) == f"the listener at {tls} speaks TLS, and security.protocol is PLAINTEXT"
    assert "speaks TLS, and security.protocol is SASL_PLAINTEXT" in await refusal(tls, login)
    assert await refusal(plain, login) == (
        f"the listener at {plain} takes no login, and security.protocol is SASL_PLAINTEXT"
    )
    for address, properties, ours in ((plain, secured, "SASL_SSL"), (sasl, {}, "PLAINTEXT")):
        assert await refusal(address, properties) == (
            f"no Kafka broker answers on {address}: the listener at {address} closed the connection without an "
            f"answer: it may speak another protocol than {ours}, which is our security.protocol"
        )


async def test_a_server_that_is_not_trusted_and_a_client_without_a_certificate(broker: SecuredBroker) -> None:
    strange = {"ssl.truststore.location": str(broker.certificates.client)}
    tls, mutual = broker.bootstrap("TLS"), broker.bootstrap("MTLS")
    said = await refusal(tls, broker.security("TLS", "java") | strange)
    assert said.startswith(f"TLS failed with {tls}: certificate verify failed: ")
    shown = broker.security("MTLS", "java").items()
    said = await refusal(mutual, {name: value for name, value in shown if "keystore" not in name})
    assert said == f"TLS failed with {mutual}: tlsv13 alert certificate required"


async def test_nothing_listens_and_a_host_without_an_address() -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    assert await refusal(nowhere, {}) == f"no Kafka broker answers on {nowhere}: nothing listens on {nowhere}"
    both = f"{nowhere},nowhere.invalid:1"
    said = await refusal(both, {})
    assert said.startswith(f"no Kafka broker answers on {both}: ")
    assert f"nothing listens on {nowhere}" in said
    assert "the host of nowhere.invalid:1 is not known" in said


async def test_a_listener_that_is_silent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        said = await refusal(address, {"request.timeout.ms": "50"})
    assert said == f"no Kafka broker answers on {address}: {address} gave no answer within 0.05 s"


async def test_one_of_several_brokers_may_fail(broker: SecuredBroker) -> None:
    address = broker.bootstrap("PLAINTEXT")
    async with connected(f"127.0.0.1:{free_port()},{address}") as cluster:
        assert cluster.node_ids


async def test_a_broker_that_is_not_where_the_cluster_says_it_is(tmp_path: Path) -> None:
    elsewhere = f"127.0.0.1:{free_port()}"
    with MusterDaemon(tmp_path, {"advertised.listeners": f"PLAINTEXT://{elsewhere}"}) as daemon:
        async with connected(daemon.bootstrap) as cluster:
            (node,) = cluster.node_ids
            with pytest.raises(ClusterError) as refused:
                await cluster.send(node, ListGroupsRequest())
    assert str(refused.value) == f"ListGroupsRequest: broker {node}: nothing listens on {elsewhere}"


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["groups", "list"], 1),
        (["observe", "--until-end", "--json"], 1),
        (["top", "--times", "1"], 1),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_every_command_says_it_in_one_line(
    broker: SecuredBroker, tmp_path: Path, command: list[str], status: int
) -> None:
    others = broker.security("SASL", "librdkafka", f"{CANARY}-but-wrong")
    config = broker.properties("SASL", "librdkafka", tmp_path / "client.properties", **others)
    done = subprocess.run(
        [sys.executable, "-m", "muster", *command, "--command-config", str(config)],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    (line,) = done.stderr.splitlines()
    assert "refused the login of user alice by PLAIN: Authentication failed: Invalid username" in line
    assert CANARY not in done.stdout + done.stderr
    assert done.returncode == status


def test_a_host_with_several_addresses_on_none_of_which_anything_listens() -> None:
    text = "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1), [Errno 111] Connect call failed"
    assert failure_sentence("here:1", OSError(text), ClientSettings()) == "nothing listens on here:1"
    mixed = OSError("Multiple exceptions: [Errno 111] Connect call failed, [Errno 113] No route")
    assert failure_sentence("here:1", mixed, ClientSettings()).startswith(
        "here:1 cannot be reached: Multiple"
    )


def test_the_cause_is_said_and_not_what_came_of_it() -> None:
    closed = KafkaConnectionError("Connection at here:1 closed")
    assert failure_sentence("here:1", closed, ClientSettings()) == (
        "the connection to here:1 failed: Connection at here:1 closed"
    )
    closed.__cause__ = ssl.SSLError(1, "broken off")
    assert failure_sentence("here:1", closed, ClientSettings()) == "TLS failed with here:1: it was broken off"


def test_an_answer_of_the_cluster_is_called_by_its_name() -> None:
    assert in_words(TopicAuthorizationFailedError({"orders"})) == (
        "the cluster answers TOPIC_AUTHORIZATION_FAILED"
    )
    assert in_words(KafkaTimeoutError()) == "KafkaTimeoutError"


def test_a_long_text_is_repeated_on_one_line_and_cut() -> None:
    said = in_words(KafkaConnectionError("word\n" * SAID_MAX))
    assert said == ("word " * SAID_MAX)[:SAID_MAX]


async def test_an_error_of_another_kind_does_not_read_as_silence(broker: SecuredBroker) -> None:
    """It comes up once the cluster is connected, as when a topic may not be read."""
    address = broker.bootstrap("PLAINTEXT")
    with pytest.raises(ClusterError) as refused:
        async with connected(address):
            raise TopicAuthorizationFailedError({"orders"})
    assert str(refused.value) == f"{address}: the cluster answers TOPIC_AUTHORIZATION_FAILED"


async def test_a_reader_that_is_refused_says_why(tmp_path: Path) -> None:
    """It has connections of its own, so that it may find the cluster gone."""
    with MusterDaemon(tmp_path) as daemon:
        async with connected(daemon.bootstrap) as cluster:
            await asyncio.to_thread(daemon.kill)
            for opened in (cluster.reader(), cluster.writer()):
                with pytest.raises(UnreachableError, match=f"nothing listens on {daemon.bootstrap}$"):
                    await opened.__aenter__()


def test_causes_are_bounded_and_the_newest_stay() -> None:
    failures = Failures()
    for node_id in range(PLACES_MAX + 1):
        failures.add((node_id,), OSError(str(node_id)))
    assert failures.of_node(0) is None
    assert str(failures.of_node(PLACES_MAX)) == str(PLACES_MAX)
    failures.add(("here", 1), TimeoutError())
    assert [place[:2] for place in failures.of_bootstrap()] == [("here", 1)]


async def test_what_failed_before_another_server_answered_is_not_blamed_later() -> None:
    failures = Failures()

    async def start() -> None:
        failures.add(("here", 1), TimeoutError())

    await failures.heard_during(start)
    assert failures.of_bootstrap() == []
