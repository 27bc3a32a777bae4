"""`--command-config` against a broker that asks who is there: each listener, in the names of either client.

The broker is Apache Kafka (MUSTER_TEST_TARGET=muster asks ours instead), so what is a login here is one there.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient

from harness.daemon import MusterDaemon
from harness.kafka_broker import KafkaBroker
from harness.observer import Observer
from harness.processes import wait_until
from harness.secured import CANARY, MECHANISMS, PROTOCOLS, USER, SecuredBroker
from muster.client_properties import client_settings
from tests.test_group_commands import ROOT, fill_topic

pytestmark = pytest.mark.xdist_group("command config")

KIND = MusterDaemon if os.environ.get("MUSTER_TEST_TARGET") == "muster" else KafkaBroker
DIALECTS = ("java", "librdkafka")
GROUP = "moved"
WANTED = {0: 3, 1: 4}


@pytest.fixture(scope="module")
def broker(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with SecuredBroker(tmp_path_factory.mktemp("secured"), KIND) as running:
        asyncio.run(fill_topic(running.bootstrap("PLAINTEXT"), "orders"))
        yield running


def muster(*arguments: object, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "muster", *map(str, arguments)],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert CANARY not in done.stdout + done.stderr, "no output has a password"
    return done


def rows(file: Path, group: str) -> Path:
    lines = [
        {"group": group, "topic": "orders", "partition": partition, "offset": offset}
        for partition, offset in WANTED.items()
    ]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return file


@pytest.mark.parametrize("listener", PROTOCOLS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_offsets_are_imported_and_listed_over_every_listener(
    broker: SecuredBroker, tmp_path: Path, listener: str, dialect: str
) -> None:
    """The address comes from the file as well: the command line has nothing but its name."""
    group = f"{GROUP}-{listener}-{dialect}".lower()
    config = broker.properties(listener, dialect, tmp_path / "client.properties")
    muster("log", "import", rows(tmp_path / "rows.jsonl", group), "--command-config", config)
    found = muster("groups", "describe", group, "--json", "--command-config", config)
    (described,) = json.loads(found.stdout)
    committed = {each["partition"]: each["committed_offset"] for each in described["progress"]}
    assert committed == WANTED


def join_and_leave(bootstrap: str, group: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.subscribe(["orders"])
    wait_until(lambda: consumer.poll(0.1) or consumer.assignment(), "the group", 60)
    consumer.close()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_groups_are_observed_and_exported_over_tls(
    broker: SecuredBroker, tmp_path: Path, dialect: str
) -> None:
    group, topic = f"seen-{dialect}", f"events-{dialect}"
    join_and_leave(broker.bootstrap("PLAINTEXT"), group)
    config = broker.properties("TLS", dialect, tmp_path / "client.properties")
    done = muster("observe", "--until-end", "--json", "--command-config", config)
    assert group in {json.loads(line)["group_id"] for line in done.stdout.splitlines()}
    store = tmp_path / "store"
    muster("observe", "--until-end", "--store", store, "--command-config", config)
    muster("observe", "export", store, "--topic", topic, "--command-config", config)
    observer = Observer(broker.bootstrap("PLAINTEXT"))
    assert sum(observer.log_ends(topic, observer.partition_count(topic)).values()) > 0


@pytest.mark.parametrize("listener", ["SASL", "TLS"])
def test_a_wrong_password_is_a_sentence(broker: SecuredBroker, tmp_path: Path, listener: str) -> None:
    wrong = broker.security(listener, "librdkafka", f"{CANARY}-but-wrong")
    config = broker.properties(listener, "librdkafka", tmp_path / "client.properties", **wrong)
    done = muster("log", "import", rows(tmp_path / "rows.jsonl", GROUP), "--command-config", config, status=2)
    mechanism = MECHANISMS[listener]
    sentence = (
        f"muster: the broker at {broker.bootstrap(listener)} refused the login of user {USER} by {mechanism}: "
        "Authentication failed"
    )
    assert done.stderr.splitlines()[-1].startswith(sentence)


def test_a_server_of_another_authority_is_not_trusted(broker: SecuredBroker, tmp_path: Path) -> None:
    """Nor is one whose certificate has another name, unless names are not to be compared."""
    config = broker.properties("TLS", "java", tmp_path / "client.properties")
    other = {"ssl.truststore.location": str(broker.certificates.client)}
    strange = broker.properties("TLS", "java", tmp_path / "strange.properties", **other)
    done = muster("groups", "list", "--command-config", strange, status=1)
    said = f"muster: TLS failed with {broker.bootstrap('TLS')}: certificate verify failed: "
    assert done.stderr.startswith(said)
    elsewhere = broker.bootstrap("TLS").replace("127.0.0.1", "127.0.0.2")
    assert muster("groups", "list", "--command-config", config).returncode == 0
    muster("groups", "list", "--bootstrap", elsewhere, "--command-config", config, status=1)


def test_a_client_without_its_certificate_is_refused(broker: SecuredBroker, tmp_path: Path) -> None:
    config = broker.properties("MTLS", "java", tmp_path / "client.properties")
    lines = [line for line in config.read_text().splitlines() if not line.startswith("ssl.keystore")]
    config.write_text("\n".join(lines))
    done = muster("groups", "list", "--command-config", config, status=1)
    assert done.stderr.startswith(f"muster: TLS failed with {broker.bootstrap('MTLS')}: ")


def test_a_mechanism_that_the_listener_lacks_is_named(broker: SecuredBroker, tmp_path: Path) -> None:
    other = {"sasl.mechanisms": "SCRAM-SHA-256"}
    config = broker.properties("TLS", "librdkafka", tmp_path / "client.properties", **other)
    done = muster("groups", "list", "--command-config", config, status=1)
    listener = f"the listener at {broker.bootstrap('TLS')}"
    assert done.stderr == f"muster: {listener} does not offer SCRAM-SHA-256 (it offers SCRAM-SHA-512)\n"


@pytest.mark.parametrize("listener", PROTOCOLS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_librdkafka_logs_in_with_what_it_is_given(broker: SecuredBroker, listener: str, dialect: str) -> None:
    settings = client_settings(broker.security(listener, dialect)).for_librdkafka()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap(listener), "log_level": 0, **settings})
    assert "orders" in admin.list_topics(timeout=30).topics


def test_librdkafka_is_refused_a_wrong_password(broker: SecuredBroker) -> None:
    settings = client_settings(broker.security("SASL", "java", "wrong")).for_librdkafka()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap("SASL"), "log_level": 0, **settings})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)
