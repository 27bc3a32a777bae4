"""A directory that Muster has left is handed over to Apache Kafka, which goes on with all that was in it."""

from __future__ import annotations

import json
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from harness import kafka_groups as made
from harness.daemon import MusterDaemon
from harness.directory_answers import answers
from harness.kafka_broker import KafkaBroker
from harness.processes import wait_until
from harness.wire import WireClient
from muster.cli import run
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from protocol.messages.describe_configs import (
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from protocol.messages.incremental_alter_configs import (
    ConfigOperation,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.kafka_log.stopped import refused
from tests.quotas.asking import alteration, described, entry, quotas_in

SASL: Final = {"SASL": "SASL_PLAINTEXT"}
SECURITY: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "1000",  # Two members of a group join together.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "2",
    "auto.create.topics.enable": "false",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{SECURITY} required;",
}
ALICE, PASSWORD = "alice", "alice-secret"
TIMEOUT_S: Final = 30.0
MANY: Final = 1_100
"""Quotas: more than one batch of what is carried over."""
OF_KAFKA_ALONE: Final = "min.insync.replicas"
"""Its controller sets it for the whole cluster where replicas may be eligible (KIP-966)."""

pytestmark = [pytest.mark.xdist_group("kafka log"), pytest.mark.timeout(300)]


def _made(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(TIMEOUT_S)


def _set(bootstrap: str, kind: ConfigResourceType, name: str, setting: str, value: str) -> None:
    changed = IncrementalAlterableConfig(name=setting, config_operation=ConfigOperation.SET, value=value)
    resource = IncrementalAlterConfigsResource(resource_type=kind, resource_name=name, configs=[changed])
    with WireClient(bootstrap) as client:
        answer = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert [each.error_code for each in answer.responses] == [0], answer


def fill(bootstrap: str) -> None:
    """Topics with records of every kind of producer, groups of both protocols, and all that can be set."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    _made(admin.create_topics([NewTopic("gone", 2, 1)]))
    _made(admin.delete_topics(["gone"]))
    _made(
        admin.create_topics(
            [
                NewTopic("gone", 1, 1),  # Another one of this name.
                NewTopic("state", 1, 1, config={"cleanup.policy": "compact"}),
                NewTopic("empty", 2, 1),
            ]
        )
    )
    with WireClient(bootstrap) as client:
        made.make_topic(client)
    _set(bootstrap, ConfigResourceType.TOPIC, made.TOPIC, "retention.ms", "123456789")
    plain = {"bootstrap.servers": bootstrap}
    for settings in (plain, plain | {"enable.idempotence": True}):
        producer = Producer(settings)
        for number in range(90):
            producer.produce(made.TOPIC, f"v{number}", key=str(number % 7), partition=number % 3)
        producer.flush(TIMEOUT_S)
    for ends in ("commit", "abort"):
        producer = Producer(plain | {"transactional.id": "mover"})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        producer.produce("state", ends, key="k")
        producer.send_offsets_to_transaction(
            [TopicPartition(made.TOPIC, 0, 7 if ends == "commit" else 9)],
            Consumer(plain | {"group.id": "moved"}).consumer_group_metadata(),
            TIMEOUT_S,
        )
        (producer.commit_transaction if ends == "commit" else producer.abort_transaction)(TIMEOUT_S)
    made.make_classic_groups(bootstrap)
    made.make_consumer_groups(bootstrap)
    _set(bootstrap, ConfigResourceType.BROKER, "", "message.max.bytes", "2000000")
    _set(bootstrap, ConfigResourceType.BROKER, "1", "log.retention.ms", "-1")
    for threads in ("2", "4"):  # Four times what Kafka is started with.
        _set(bootstrap, ConfigResourceType.BROKER, "1", "log.cleaner.threads", threads)
    _set(bootstrap, ConfigResourceType.GROUP, "billing", "consumer.session.timeout.ms", "50000")
    _set(bootstrap, ConfigResourceType.CLIENT_METRICS, "slow", "interval.ms", "12345")
    _made(
        admin.create_acls(
            [
                AclBinding(
                    ResourceType.TOPIC, made.TOPIC, ResourcePatternType.LITERAL, f"User:{ALICE}", "*",
                    AclOperation.READ, AclPermissionType.ALLOW,
                ),
                AclBinding(
                    ResourceType.GROUP, "bill", ResourcePatternType.PREFIXED, f"User:{ALICE}", "127.0.0.1",
                    AclOperation.READ, AclPermissionType.ALLOW,
                ),
                AclBinding(
                    ResourceType.TOPIC, "state", ResourcePatternType.LITERAL, f"User:{ALICE}", "*",
                    AclOperation.READ, AclPermissionType.DENY,
                ),
            ]
        )
    )  # fmt: skip
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    _made(admin.alter_user_scram_credentials([UserScramCredentialUpsertion(ALICE, info, PASSWORD.encode())]))
    limits = (
        entry({"user": ALICE}, producer_byte_rate=1e6),
        entry({"client-id": None}, request_percentage=80.5),
        entry({"user": ALICE, "client-id": "loader"}, consumer_byte_rate=5e5),
        *(entry({"user": f"user-{number}"}, producer_byte_rate=1e6) for number in range(MANY)),
    )
    with WireClient(bootstrap) as client:
        assert {each.error_code for each in client.ask(alteration(*limits), 1).entries} == {0}
        lower = FeatureUpdateKey(
            feature="transaction.version", max_version_level=1, upgrade_type=2
        )  # Safely.
        assert client.ask(UpdateFeaturesRequest(feature_updates=[lower]), 1).error_code == 0


def seen(bootstrap: str) -> dict[str, Any]:
    """All that clients are told of it, by part and name."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = answers(bootstrap, has_offsets=False)  # They are in the report.
    for group in found["groups"].values():
        group["members"].sort(key=itemgetter("member_id"))
    found["listed"] = made.listed(bootstrap)
    found["report"] = made.report(bootstrap, [*made.CLASSIC_GROUPS, made.KIP_848, "moved"])
    with WireClient(bootstrap) as client:
        asked: DescribeClientQuotasRequest = described()
        found["quotas"] = quotas_in(client.ask(asked, 1))
        users = client.ask(DescribeUserScramCredentialsRequest(users=None), 0).results
        found["settings"] = {
            name: configs_of(client, kind, name)
            for kind, name in (
                (ConfigResourceType.GROUP, "billing"),
                (ConfigResourceType.CLIENT_METRICS, "slow"),
            )
        }
        hello = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
        levels = {each.name: each.max_version_level for each in client.ask(hello, 4).finalized_features}
    found["features"] = {"transaction.version": levels["transaction.version"]}
    found["users"] = {each.user: each.credential_infos for each in users}
    every: Any = None  # The stubs of confluent-kafka take no None for a name.
    any_acl = AclBindingFilter(
        ResourceType.ANY,
        every,
        ResourcePatternType.ANY,
        every,
        every,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    found["acls"] = {str(acl): True for acl in admin.describe_acls(any_acl).result(TIMEOUT_S)}
    return found


def configs_of(client: WireClient, kind: ConfigResourceType, name: str) -> dict[str, str | None]:
    """The settings of one resource."""
    asked = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=kind, resource_name=name)]
    )
    (result,) = client.ask(asked, 4).results
    return {each.name: each.value for each in result.configs}


@pytest.fixture(scope="module")
def handed_over(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, dict[str, Any], int]:
    """The directory of a stopped Muster that was handed over; what was seen of it; the producer id given last."""
    folder = tmp_path_factory.mktemp("muster")
    with MusterDaemon(folder, SETTINGS, listeners=SASL) as daemon:
        fill(daemon.bootstrap)
        before, last = seen(daemon.bootstrap), producer_id(daemon.bootstrap)
        assert daemon.terminate() == 0
    return folder, before, last


def producer_id(bootstrap: str) -> int:
    """A new one."""
    asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)

    def given() -> int | None:
        answer = client.ask(asked, 4)
        return int(answer.producer_id) if answer.error_code == 0 else None

    with WireClient(bootstrap) as client:
        return wait_until(given, "a producer id", TIMEOUT_S)


def test_kafka_goes_on_with_all_of_it(
    java: None, handed_over: tuple[Path, dict[str, Any], int], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, before, last = handed_over
    directory = folder / "logs"
    assert run(["log", "to-kafka", str(directory), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    counts, start_with = told["carried_over"], told["start_with"]
    # A number of threads is a setting to start with now, and no longer one that was set at run time.
    assert (
        start_with["log.cleaner.threads"] == before["configs"]["BROKER 1"].pop("log.cleaner.threads") == "4"
    )
    assert (counts["SCRAM credentials"], counts["ACLs"], counts["quotas"]) == (1, 3, 3 + MANY)
    assert (directory / "bootstrap.checkpoint").stat().st_mode & 0o777 == 0o600
    broker = KafkaBroker(folder, SETTINGS | start_with, listeners=SASL)
    with broker:
        assert different(seen(broker.bootstrap), before) == {}
        assert producer_id(broker.bootstrap) > last
        log_in(broker.bootstrap_of("SASL"))
        broker.restart()
        assert different(seen(broker.bootstrap), before) == {}
        assert broker.terminate() in (0, 143)
    assert run(["log", "to-kafka", str(directory)]) == 2
    assert "is Kafka's: there is a metadata log in it" in capsys.readouterr().err
    with pytest.raises(RuntimeError, match="Apache Kafka has run on it"):
        MusterDaemon(folder, SETTINGS, listeners=SASL).start()


def different(found: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """What Kafka says otherwise, beside what Muster said, by part and name."""
    for configs in found["configs"].values():
        assert configs.pop(OF_KAFKA_ALONE) == "1"  # The broker's, and each topic's after it.
    pairs = {
        f"{part} {name}": (found[part].get(name), before[part].get(name))
        for part in found.keys() | before.keys()
        for name in found[part].keys() | before[part].keys()
    }
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def log_in(bootstrap: str) -> None:
    """As alice, who may read what her ACLs say; another password is refused."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": ALICE,
        "group.id": "billing",
        "log_level": 0,
    }
    consumer = Consumer(settings | {"sasl.password": PASSWORD})
    assert consumer.get_watermark_offsets(TopicPartition(made.TOPIC, 0), timeout=TIMEOUT_S) == (0, 60)
    consumer.close()
    stranger = AdminClient(settings | {"sasl.password": "alice-guess"})
    with pytest.raises(KafkaException):
        stranger.list_topics(timeout=5)


def test_a_directory_in_use_or_after_a_crash_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with MusterDaemon(tmp_path) as daemon:
        assert "a server uses" in refused(daemon.log_dir, capsys)
        daemon.kill()
        assert "was not left by a clean stop: start and stop Muster on it once" in refused(
            daemon.log_dir, capsys
        )


def test_what_is_no_directory_of_musters_is_refused(
    tmp_path: Path, stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "it is no log directory" in refused(tmp_path / "none", capsys)
    assert "it is no log directory" in refused(stopped / "__consumer_offsets-0", capsys)
    (stopped / "topics.json").rename(stopped / "elsewhere.json")
    assert "there is no topics.json in" in refused(stopped, capsys)


@pytest.mark.parametrize(
    "name",
    [
        *("topics.json", "acls.json", "scram-users.json", "dynamic-settings.json", "client-quotas.json"),
        *("log-start-offset-checkpoint", "cleaner-offset-checkpoint", "orders-0/partition.metadata"),
    ],
)
def test_a_file_that_is_torn_is_refused(stopped: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (stopped / name).write_text("{")
    assert name in refused(stopped, capsys)


def test_until_kafka_has_run_it_can_be_taken_back(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the file's old name; what was written for Kafka is stale then, and goes."""
    assert run(["log", "to-kafka", str(stopped)]) == 0
    assert "log.dirs=" in capsys.readouterr().out
    with pytest.raises(RuntimeError, match="it was handed over to Apache Kafka"):
        MusterDaemon(stopped.parent).start()
    (stopped / "topics-handed-over.json").rename(stopped / "topics.json")
    with MusterDaemon(stopped.parent) as daemon:
        assert "orders" in AdminClient({"bootstrap.servers": daemon.bootstrap}).list_topics(timeout=10).topics
        assert not (stopped / "bootstrap.checkpoint").exists()


def test_an_attempt_that_was_ended_is_taken_up(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (stopped / "topics.json").rename(stopped / "topics-handed-over.json")
    assert run(["log", "to-kafka", str(stopped), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["carried_over"]["topics"] == 4
