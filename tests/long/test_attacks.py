"""10,000 strangers: what they cost the daemon, and what those notice who were in before them (F1, F2, F14).

Half of them are at a listener of SASL_PLAINTEXT, half at one of SASL_SSL, as many of each kind of `strangers.py`;
one that is closed comes again. In one run all of them are let in, in the other no more than by default. Clients of
librdkafka and Java that are in before must keep their membership, and heartbeats their pace.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError

from harness.daemon import MusterDaemon
from harness.observer import Observer
from harness.processes import HOST, wait_until
from harness.secured import MODULES, Certificates
from harness.wire import WireClient
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.clients.fleet import Fleet, Worker
from tests.security.scram_requests import add_scram_user

STRANGERS: Final = 10_000
BY_DEFAULT: Final = 1_000
LISTENERS: Final = {"SASL": "SASL_PLAINTEXT", "TLS": "SASL_SSL"}
COST_MAX_BYTES: Final = 100_000_000
SESSION_MS: Final = 10_000
LATE_S: Final = 3.0
"""A heartbeat's time at most: clients send one each three seconds, and wait for it."""
TIMES: Final = 1.5
"""The attack lasts so many times as long as strangers have to log in: all are closed once, and come again."""
PASSWORD: Final = "of-alice"
MOUNTS: Final = 0.9
"""The share of the strangers that has to be there at one time: some are always on their way back."""


class Settings(NamedTuple):
    """Of one run."""

    most: int
    """Strangers that are let in."""
    again_s: float
    """How long one that was closed is away."""
    timeout_ms: int
    """How long it may take until it has logged in."""
    has_large: bool
    """Whether there are those among them that send half a megabyte each time."""


ATTACKS: Final = [
    # Twice the time of the default: a busy machine takes half a minute to open so many.
    pytest.param(Settings(STRANGERS, 0.5, 60_000, has_large=False), id="all"),
    pytest.param(Settings(BY_DEFAULT, 10.0, 30_000, has_large=True), id="few"),
]


class Beats:
    """Members of groups of their own, logged in on both listeners, whose heartbeats follow each other closely."""

    def __init__(self, daemon: MusterDaemon, certificates: Certificates) -> None:
        self.took_s: list[float] = []
        self._stop = threading.Event()
        self._failure: list[BaseException] = []
        self._clients = [
            (client, self._member(client, f"beats-{name}-{number}"))
            for name in LISTENERS
            for number in range(10)
            if (client := self._logged_in(daemon, name, certificates))
        ]
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextmanager
    def running(self) -> Iterator[Beats]:
        """Beat for as long as the block runs. What fails there is raised here."""
        self._thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self._thread.join(60)
            for client, _ in self._clients:
                client.close()
        if self._failure:
            raise AssertionError("a heartbeat failed") from self._failure[0]

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                began_s = time.monotonic()
                for client, beat in self._clients:
                    client.send(beat, 4)
                for client, _ in self._clients:
                    answer = client.receive()
                    self.took_s.append(time.monotonic() - began_s)
                    assert answer.error_code == 0, f"{answer} after {self.took_s[-40:]}"
                self._stop.wait(0.1)
        except BaseException as failure:  # Raised where the test is, once the thread has ended.
            self._failure.append(failure)

    def _logged_in(self, daemon: MusterDaemon, name: str, certificates: Certificates) -> WireClient:
        client = WireClient(daemon.bootstrap_of(name))
        if LISTENERS[name] == "SASL_SSL":
            context = ssl.create_default_context(cafile=str(certificates.authority))
            client.socket = context.wrap_socket(client.socket, server_hostname=HOST)
        client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        token = SaslAuthenticateRequest(auth_bytes=f"\0alice\0{PASSWORD}".encode())
        assert client.ask(token, 2).error_code == 0
        return client

    def _member(self, client: WireClient, group: str) -> HeartbeatRequest:
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
        join = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id="",
            protocol_type="consumer",
            protocols=[protocol],
        )
        joined = client.ask(join, 3)
        named = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id}
        mine = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
        assert client.ask(SyncGroupRequest(**named, assignments=[mine]), 3).error_code == 0
        return HeartbeatRequest(**named)


class Librdkafka:
    """A consumer that is polled on a thread, and says what it did not like."""

    def __init__(self, bootstrap: str, group: str, topic: str, **security: str) -> None:
        self.complaints: list[str] = []
        self.assigned = 0
        self.values: list[bytes] = []
        self._stop = threading.Event()
        config: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "session.timeout.ms": SESSION_MS,
            "auto.offset.reset": "earliest",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": PASSWORD,
            "error_cb": self._on_error,
            **{name.replace("_", "."): value for name, value in security.items()},
        }
        self._consumer = Consumer(config)
        self._consumer.subscribe(
            [topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(30)
        self._consumer.close()

    def _poll(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                self.values.append(message.value() or b"")

    def _on_error(self, error: KafkaError) -> None:
        self.complaints.append(str(error))

    def _on_assign(self, *_: object) -> None:
        self.assigned += 1

    def _on_revoke(self, *_: object) -> None:
        self.complaints.append("its partitions were taken away")


class Crowds:
    """A process of strangers at each listener. They are nice: theirs would be other machines."""

    def __init__(self, daemon: MusterDaemon, certificates: Certificates, settings: Settings) -> None:
        self._processes = []
        for name in LISTENERS:
            port = daemon.bootstrap_of(name).rsplit(":", 1)[1]
            command = [sys.executable, "-m", "tests.long.strangers", port, str(STRANGERS // len(LISTENERS))]
            command += ["--again-s", str(settings.again_s), *(["--large"] if settings.has_large else [])]
            if LISTENERS[name] == "SASL_SSL":
                command += ["--tls", str(certificates.authority)]
            self._processes.append(
                subprocess.Popen(["nice", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )

    def end(self) -> dict[str, int]:
        """End them; return their counts together."""
        counts: dict[str, int] = {}
        for process in self._processes:
            said, _ = process.communicate("\n", timeout=60)
            for name, number in json.loads(said).items():
                counts[name] = counts.get(name, 0) + number
        return counts


def resident_bytes(pid: int) -> int:
    """What the process has in memory, by the kernel's own sum over its mappings."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no sum")


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def in_ms(sorted_s: list[float]) -> str:
    """The median, the 99th percentile and the longest of times."""
    shown = (sorted_s[len(sorted_s) // 2], sorted_s[len(sorted_s) * 99 // 100], sorted_s[-1])
    return "p50 {:.1f} p99 {:.1f} max {:.1f} ms".format(*(each * 1000 for each in shown))


def settings_of(certificates: Certificates, given: Settings) -> dict[str, str]:
    settings = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "muster.unauthenticated.connections.max": str(given.most),
        "muster.handshake.timeout.ms": str(given.timeout_ms),
        "group.initial.rebalance.delay.ms": "0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server),
    }
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    for name in LISTENERS:
        prefix = f"listener.name.{name.lower()}"
        settings[f"{prefix}.plain.sasl.jaas.config"] = f'{MODULES["PLAIN"]} required user_alice="{PASSWORD}";'
        settings[f"{prefix}.scram-sha-256.sasl.jaas.config"] = scram
    return settings


def java_consumer(fleet: Fleet, topic: str, certificates: Certificates, file: Path) -> Worker:
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={certificates.authority}\nsession.timeout.ms={SESSION_MS}\n"
        f'sasl.jaas.config={MODULES["PLAIN"]} required username="alice" password="{PASSWORD}";\n'
    )
    return fleet.start_tool(
        "consumer.ConsoleConsumer",
        *("--topic", topic, "--group", "of-java", "--from-beginning", "--command-config", str(file)),
    )


@pytest.mark.usefixtures("java")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("settings", ATTACKS)
def test_strangers_cost_little_and_others_notice_nothing(
    tmp_path: Path, settings: Settings, record_property: Callable[[str, object], None]
) -> None:
    certificates = Certificates(tmp_path / "certificates")
    daemon = MusterDaemon(tmp_path / "broker", settings_of(certificates, settings), listeners=LISTENERS)
    with daemon, ExitStack() as stack:
        add_scram_user(daemon.bootstrap, "alice", PASSWORD)  # Half a login gets a challenge.
        observer = Observer(daemon.bootstrap)
        topic = observer.create_topic("before", 1)
        fleet = Fleet(daemon.bootstrap_of("TLS"), tmp_path)
        java = java_consumer(fleet, topic, certificates, tmp_path / "client.properties")
        plain = Librdkafka(daemon.bootstrap_of("SASL"), "of-plain", topic, security_protocol="SASL_PLAINTEXT")
        encrypted = Librdkafka(
            daemon.bootstrap_of("TLS"),
            "of-tls",
            topic,
            security_protocol="SASL_SSL",
            ssl_ca_location=str(certificates.authority),
        )
        for each in (fleet, plain, encrypted):
            stack.callback(each.close)
        groups = ("of-java", "of-plain", "of-tls")

        def all_read(value: str) -> None:
            """Each of them reads what is written now."""
            observer.write(topic, [value])
            text = value.encode()
            wait_until(lambda: text in plain.values and text in encrypted.values, f"{value} is read", 30)
            java.wait_for(lambda: value in java.text.splitlines(), f"Java reads {value}", 60)

        def members() -> dict[str, set[str]]:
            return {group: {each.member_id for each in observer.describe(group).members} for group in groups}

        all_read("first")
        in_before = members()
        with Beats(daemon, certificates).running() as beats:
            time.sleep(2)  # A measure of heartbeats as they are without strangers.
            quiet_s = sorted(beats.took_s)
            beats.took_s.clear()
            files_before, before = descriptors(daemon.pid), resident_bytes(daemon.pid)
            crowds = Crowds(daemon, certificates, settings)
            until_s = time.monotonic() + settings.timeout_ms / 1000 * TIMES
            most_files, most_bytes, number = 0, before, 0
            while time.monotonic() < until_s:
                most_files = max(most_files, descriptors(daemon.pid) - files_before)
                most_bytes = max(most_bytes, resident_bytes(daemon.pid))
                all_read(f"record {(number := number + 1)}")
                time.sleep(0.5)
            counts = crowds.end()
            took_s = sorted(beats.took_s)
        complaints = plain.complaints + encrypted.complaints
        assert members() == in_before
    cost = most_bytes - before
    figures = (
        f"{most_files} strangers at a time of {counts}: {cost / 1e6:.1f} MB ({before / 1e6:.1f} before), "
        f"{cost / max(1, most_files):.0f} bytes each; {len(took_s)} heartbeats {in_ms(took_s)}; "
        f"without strangers {in_ms(quiet_s)}"
    )
    record_property("attack", figures)
    print(figures)
    assert complaints == []
    assert (plain.assigned, encrypted.assigned) == (1, 1)
    assert cost <= COST_MAX_BYTES, figures
    assert took_s[-1] < LATE_S, figures
    assert most_files <= settings.most + 10, "more strangers than may be"
    assert most_files >= MOUNTS * min(settings.most, STRANGERS), "too few strangers to say anything"
