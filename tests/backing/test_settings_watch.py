"""What a start would have refused is said when it comes later, once, and when it is over; and seldom asked for."""

from __future__ import annotations

import asyncio

import pytest
from structlog.typing import EventDict

from coordinator.backing.kafka import settings_watch
from coordinator.backing.kafka.backing_log import BackingLog, OwnNode
from coordinator.backing.kafka.cluster import BackingError
from coordinator.backing.kafka.settings_watch import LOOK_S, PAUSE_S, SettingsWatch
from coordinator.backing.kafka.topic import (
    PRODUCER_EXPIRATION,
    PRODUCER_EXPIRATION_MS_MIN,
    TOPIC_RESOURCE,
    BackingTopic,
    check_brokers,
)
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from tests.backing.kafka_node import until, wall_ms
from tests.backing.played_brokers import PRODUCE, PlayedBroker, PlayedCluster
from tests.backing.test_log_on_kafka import SOUND

pytestmark = pytest.mark.asyncio

ONE_REPLICA = "topic logs has one replica: with its disk all groups are lost"
TOPIC = BackingTopic("logs", b"\x01" * 16, 1, (ONE_REPLICA,))
UNKNOWN_CODE = 3_000


class Kafka:
    """Two brokers, the settings of its topic and of each of them, and a watch."""

    def __init__(self) -> None:
        self.settings = {**SOUND, "min.insync.replicas": "1"}
        self.replicas = [1]
        self.expirations = {1: PRODUCER_EXPIRATION_MS_MIN, 2: PRODUCER_EXPIRATION_MS_MIN, 3: 1_000}
        self.error_code = 0
        self.cluster = PlayedCluster(self.broker(1), self.broker(2))
        self.watch = SettingsWatch(self.cluster, TOPIC)

    def broker(self, node_id: int) -> PlayedBroker:
        made = PlayedBroker(node_id)
        made.answers |= {
            "DescribeConfigsRequest": self._described,
            "MetadataRequest": lambda _: self._topics(),
        }
        return made

    def _topics(self) -> MetadataResponse:
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=1, replica_nodes=self.replicas, isr_nodes=[1]
        )
        topic = MetadataResponseTopic(name="logs", topic_id=TOPIC.topic_id, partitions=[partition])
        return MetadataResponse(brokers=[], topics=[topic])

    def _described(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        (asked,) = request.resources
        if asked.resource_type == TOPIC_RESOURCE:
            found = self.settings
        else:
            found = {PRODUCER_EXPIRATION: str(self.expirations[int(asked.resource_name)])}
        configs = [DescribeConfigsResourceResult(name=name, value=value) for name, value in found.items()]
        result = DescribeConfigsResult(
            error_code=self.error_code,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            configs=configs,
        )
        return DescribeConfigsResponse(results=[result])

    def asked(self) -> int:
        return sum(len(each.asked) for each in self.cluster.played.values())


@pytest.fixture
def kafka_played() -> Kafka:
    return Kafka()


def said(logs: list[EventDict]) -> list[str]:
    """What was said since it was last looked at; what is over begins with a tick."""
    found = [each["reason"] if "reason" in each else f"- {each['formerly']}" for each in logs]
    logs.clear()
    return found


async def test_what_was_said_at_the_start_is_not_said_again(
    kafka_played: Kafka, logs: list[EventDict]
) -> None:
    await kafka_played.watch._look()
    assert said(logs) == []


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        ("cleanup.policy", "delete", "what is deleted by age or size is lost to the groups"),
        (
            "unclean.leader.election.enable",
            "true",
            "a leader that lacks what was acknowledged loses it for all",
        ),
        ("max.message.bytes", "1000000", "what a group writes at once would be refused"),
    ],
)
async def test_a_topic_that_is_set_otherwise_is_said_once_and_when_it_is_over(
    kafka_played: Kafka, logs: list[EventDict], setting: str, value: str, sentence: str
) -> None:
    before = kafka_played.settings[setting]
    kafka_played.settings[setting] = value
    await kafka_played.watch._look()
    (reason,) = said(logs)
    assert reason.startswith(f"topic logs has {setting}={value} and not ")
    assert reason.endswith(sentence)
    await kafka_played.watch._look()
    assert said(logs) == []
    kafka_played.settings[setting] = before
    await kafka_played.watch._look()
    assert said(logs) == [f"- {reason}"]


async def test_fewer_replicas_that_have_to_be_in_sync_are_said(
    kafka_played: Kafka, logs: list[EventDict]
) -> None:
    kafka_played.replicas = [1, 2, 3]
    await kafka_played.watch._look()
    assert said(logs) == [
        "topic logs has min.insync.replicas=1: what one broker alone has may be acknowledged",
        f"- {ONE_REPLICA}",
    ]


async def test_a_broker_that_comes_is_looked_at(kafka_played: Kafka, logs: list[EventDict]) -> None:
    """One forgets whom it fences; then it is another, which is too old."""
    cluster = kafka_played.cluster
    cluster.played[3] = kafka_played.broker(3)
    cluster._show()
    await kafka_played.watch._look()
    (reason,) = said(logs)
    assert reason.startswith(f"broker 3 has {PRODUCER_EXPIRATION}=1000 and not at least ")
    cluster.played[3].versions[PRODUCE] = (3, 12)
    await kafka_played.watch._look()
    too_old, over = said(logs)
    assert too_old.startswith(
        "broker 3, kafka:9003, serves versions 3 to 12 of Produce, and version 13 is needed"
    )
    assert over == f"- {reason}"
    del cluster.played[3]
    cluster._show()
    await kafka_played.watch._look()
    assert said(logs) == [], "it is gone"
    assert set(kafka_played.watch._said) == {"topic", "broker 1", "broker 2"}


async def test_what_cannot_be_looked_at_is_not_over(kafka_played: Kafka, logs: list[EventDict]) -> None:
    """A broker that is away is complained of by who reads there."""
    kafka_played.expirations[2] = 1_000
    await kafka_played.watch._look()
    assert len(said(logs)) == 1
    kafka_played.cluster.played[2].is_away = True
    await kafka_played.watch._look()
    assert said(logs) == []
    kafka_played.cluster.played[2].is_away = False
    kafka_played.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    for _ in range(2):
        await kafka_played.watch._look()
    assert said(logs) == [
        "reading the settings of topic logs: CLUSTER_AUTHORIZATION_FAILED",
        "reading the settings of broker 1: CLUSTER_AUTHORIZATION_FAILED",
        "reading the settings of broker 2: CLUSTER_AUTHORIZATION_FAILED",
    ]
    kafka_played.error_code = 0
    await kafka_played.watch._look()
    assert said(logs) == [], "it is as it was"


async def test_an_error_of_a_later_kafka_is_a_sentence(kafka_played: Kafka) -> None:
    kafka_played.error_code = UNKNOWN_CODE
    with pytest.raises(BackingError, match=r"^reading the settings of broker 1: UNKNOWN_SERVER_ERROR$"):
        await check_brokers(kafka_played.cluster)


class Looks:
    """A watch whose looks are counted, and the time that it waits."""

    def __init__(self, kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks = 0
        self.slept: list[float] = []
        self.waited: list[float] = []
        self.go_on = asyncio.Event()
        self.refreshed = 0
        self.watch = kafka.watch
        timeout = asyncio.timeout

        async def sleep(seconds: float) -> None:
            self.slept.append(seconds)
            await self.go_on.wait()
            self.go_on.clear()

        def timed(seconds: float) -> asyncio.Timeout:
            self.waited.append(seconds)
            return timeout(0 if len(self.waited) == 1 else 1_000)

        async def look() -> None:
            self.looks += 1
            self.watch._is_wanted.clear()
            self.watch._seen = kafka.cluster.node_ids
            if self.looks == 2:
                raise ValueError("of a later version")

        def refresh() -> None:
            self.refreshed += 1

        monkeypatch.setattr(kafka.cluster, "refresh_soon", refresh)
        monkeypatch.setattr(self.watch, "_look", look)
        monkeypatch.setattr(asyncio, "sleep", sleep)
        monkeypatch.setattr(asyncio, "timeout", timed)


async def turns(count: int) -> None:
    for _ in range(count):
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(done.set_result, None)
        await done


async def test_it_looks_every_few_minutes_and_when_there_are_other_brokers(
    kafka_played: Kafka, logs: list[EventDict], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often these come and go; and a bug does not end it."""
    world = Looks(kafka_played, monkeypatch)
    watch, cluster = kafka_played.watch, kafka_played.cluster
    watch.on_refreshed()
    watch.start()
    await turns(5)
    assert (world.looks, world.waited, world.slept, world.refreshed) == (1, [LOOK_S], [PAUSE_S], 1)
    for number in range(3, 8):
        cluster.played[number] = kafka_played.broker(number)
        cluster._show()
        watch.on_refreshed()
    await turns(5)
    assert world.looks == 1
    world.go_on.set()
    await turns(5)
    assert (world.looks, said(logs)) == (2, ["ValueError: of a later version"])
    world.go_on.set()
    watch.on_refreshed()
    await turns(5)
    assert (world.looks, len(world.waited)) == (2, 3), "the brokers are those that it has looked at"
    await watch.close()


async def test_a_node_watches_the_settings_of_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = Kafka()
    monkeypatch.setattr(settings_watch, "LOOK_S", 0)
    monkeypatch.setattr(settings_watch, "PAUSE_S", 0)
    log = BackingLog(kafka.cluster, TOPIC, OwnNode(1), {}, wall_ms)
    await log.start()
    await until(lambda: kafka.cluster.played[2].asked.count("DescribeConfigsRequest") > 1, "it has looked")
    heard: list[bool] = []
    monkeypatch.setattr(log._settings_watch, "on_refreshed", lambda: heard.append(True))
    kafka.cluster.on_refreshed()
    assert heard == [True]
    await log.close()
    await kafka.cluster.close()
    looked = kafka.asked()
    await turns(20)
    assert kafka.asked() == looked
