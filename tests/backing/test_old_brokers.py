"""A Kafka that is too old is refused at the start, and a broker that is found to be so later is asked seldom."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from coordinator.backing.claims import Writer
from coordinator.backing.events import AppendError
from coordinator.backing.kafka import self_test
from coordinator.backing.kafka.backing_log import prepared_topic
from coordinator.backing.kafka.cluster import SLOW_RETRY_S, BackingError, Lane, TooOldError
from coordinator.backing.kafka.fetched import Fetched
from coordinator.backing.kafka.sender import Appending, Outcome, Sender
from coordinator.backing.kafka.tail import RETRY_S, Tail
from coordinator.backing.kafka.topic import BackingTopic
from coordinator.backing.kafka.versions import NEEDED, check_versions
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from protocol.messages.produce import ProduceRequest as Produce
from tests.backing.kafka_node import until
from tests.backing.played_brokers import FETCH, OF_4_1, PRODUCE, PlayedBroker, PlayedCluster, key_of
from tests.backing.test_fetch_session import Follower

pytestmark = pytest.mark.asyncio

TOPIC = BackingTopic("muster", b"\x01" * 16, 1)
OLD_PRODUCE = {**OF_4_1, PRODUCE: (3, 12)}
SENTENCE = (
    "serves versions 3 to 12 of Produce, and version 13 is needed: the log needs brokers of Apache Kafka 4.1 "
    "or later"
)


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long it was slept; nothing is slept for."""
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr("coordinator.backing.kafka.sender.asyncio.sleep", pause)
    return pauses


async def test_brokers_of_4_1_will_do() -> None:
    await check_versions(PlayedCluster(PlayedBroker(1), PlayedBroker(2)))


@pytest.mark.parametrize(
    ("versions", "serves"),
    [
        ({PRODUCE: (3, 12)}, "versions 3 to 12 of Produce, and version 13"),
        ({FETCH: (4, 12)}, "versions 4 to 12 of Fetch, and version 13"),
        ({key_of(MetadataRequest): (0, 11)}, "versions 0 to 11 of Metadata, and version 12"),
        ({PRODUCE: (0, -1)}, "no Produce, and version 13"),
    ],
    ids=["Produce", "Fetch", "Metadata", "none"],
)
async def test_one_broker_that_is_too_old_is_refused_by_its_name(
    versions: dict[int, tuple[int, int]], serves: str
) -> None:
    """Whichever it is: the first may be new, and the partitions led by the other."""
    cluster = PlayedCluster(PlayedBroker(1), PlayedBroker(2, {**OF_4_1, **versions}))
    with pytest.raises(
        BackingError, match=f"^broker 2, kafka:9002, serves {serves} is needed: the log needs"
    ):
        await check_versions(cluster)


async def test_a_start_looks_at_that_before_anything_is_made() -> None:
    old = PlayedBroker(1, OLD_PRODUCE)
    with pytest.raises(BackingError, match=f"^broker 1, kafka:9001, {SENTENCE}$"):
        await prepared_topic(PlayedCluster(old), "muster", 1, 0)
    assert old.asked == ["ApiVersionsRequest"]


async def test_the_self_test_sends_no_other_version() -> None:
    cluster = PlayedCluster(PlayedBroker(1, OLD_PRODUCE))
    cluster._leaders = {0: 1}
    with pytest.raises(TooOldError, match=f"^the broker at kafka:9001 {SENTENCE}$"):
        await self_test._Probe(cluster, TOPIC, 0).append(Writer(1, 0), 0)


class Sending:
    """A sender whose partition is read to its end, at a broker that takes all."""

    def __init__(self, versions: dict[int, tuple[int, int]]) -> None:
        self.broker = PlayedBroker(1, versions)
        self.broker.answers["ProduceRequest"] = _taken
        self.cluster = PlayedCluster(self.broker)
        self.cluster._leaders = {0: 1}
        cast(Any, self.cluster).refresh_soon = lambda: None
        self.sender = Sender(self.cluster, TOPIC, cast(Any, None))
        self.sender.on_fetched(0, Fetched(0, 0, 0, (), 1, 1, 0))

    async def send(self) -> Outcome:
        """Send a batch once, and return its outcome."""
        heard: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.sender.send(0, Appending(b"", heard.set_result, lambda: True))
        async with asyncio.timeout(30):
            return await heard


def _taken(_: Produce) -> ProduceResponse:
    done = PartitionProduceResponse(index=0, base_offset=7)
    return ProduceResponse(responses=[TopicProduceResponse(partition_responses=[done])])


async def test_what_a_start_looks_for_is_what_is_sent(slept: list[float]) -> None:
    """Else a node would start on a cluster where it can own nothing, or refuse one where it could."""
    needed = NEEDED[Produce]
    assert await Sending({**OF_4_1, PRODUCE: (3, needed)}).send() == 7
    assert await Sending({**OF_4_1, PRODUCE: (3, needed - 1)}).send() is AppendError.RETRIABLE
    for highest, is_asked in ((NEEDED[FetchRequest], True), (NEEDED[FetchRequest] - 1, False)):
        broker = PlayedBroker(1, {**OF_4_1, FETCH: (4, highest)})
        broker.answers["FetchRequest"] = lambda _: FetchResponse(responses=[])
        cluster = PlayedCluster(broker)
        reader = Tail(cluster, TOPIC, {0: Follower()})
        try:
            await reader.catch_up(await cluster.open(1, Lane.TAIL), 1, [0])
        except TooOldError:
            assert not is_asked
        assert broker.asked == ["FetchRequest"] * is_asked


async def test_a_broker_that_is_downgraded_is_complained_of_once_and_tried_seldom(slept: list[float]) -> None:
    world = Sending(OLD_PRODUCE)
    with capture_logs() as logs:
        assert [await world.send() for _ in range(3)] == [AppendError.RETRIABLE] * 3
        assert [each for each in slept if each] == [SLOW_RETRY_S] * 3
        world.broker.versions[PRODUCE] = (3, 13)
        assert await world.send() == 7
        world.broker.versions[PRODUCE] = (3, 12)
        assert await world.send() is AppendError.RETRIABLE
    about = {
        "about": "broker 1",
        "topic": "muster",
        "log_level": "warning",
        "event": "appends to Kafka failed",
    }
    assert logs == [{**about, "reason": f"the broker at kafka:9001 {SENTENCE}", "exc_info": None}] * 2


async def test_a_reader_of_such_a_broker_asks_it_seldom(slept: list[float]) -> None:
    cluster = PlayedCluster(PlayedBroker(1, {**OF_4_1, FETCH: (4, 12)}))
    cast(Any, cluster).refresh_soon = lambda: None
    reader = Tail(cluster, TOPIC, {0: Follower()})
    reader._led = {1: [0]}
    with capture_logs() as logs:
        reading = asyncio.ensure_future(reader._read(1))
        await until(lambda: slept.count(SLOW_RETRY_S) == 3, "it is asked again")
        reading.cancel()
    assert max(slept) == SLOW_RETRY_S
    assert RETRY_S not in slept
    assert [each["about"] for each in logs] == ["broker 1"]


async def test_any_other_broker_is_asked_where_one_is_too_old() -> None:
    old, new = PlayedBroker(1, {**OF_4_1, key_of(MetadataRequest): (0, 8)}), PlayedBroker(2)
    new.answers["MetadataRequest"] = lambda _: MetadataResponse(controller_id=2)
    cluster = PlayedCluster(old, new)
    assert (await cluster.ask_any(MetadataRequest(topics=None), min_version=12)).controller_id == 2
    del cluster.played[2]
    cluster._show()
    with pytest.raises(TooOldError, match="version 12 is needed"):
        await cluster.ask_any(MetadataRequest(topics=None), min_version=12)
