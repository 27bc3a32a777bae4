"""What the driver asks before a run: answers that pass are asked for again, refusals are reported."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from muster.spark.clients import new_consumer
from muster.spark.members import checks
from muster.spark.members.checks import ClusterQueries, check_committed
from muster.spark.members.plan import DEFAULTS, OF_CLASSIC_PROTOCOL, MembersError, effective_settings
from protocol.topic_partition import TopicPartition


class Coordinator:
    """Answers with errors, one after the other, and then with a word."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    def __call__(self) -> str:
        if self.codes:
            raise KafkaException(KafkaError(self.codes.pop(0)))
        return "here"


@pytest.fixture
def cluster() -> ClusterQueries:
    """A cluster that is not there, and is not asked anything."""
    return ClusterQueries("127.0.0.1:1", {"log_level": "0"})


def test_a_coordinator_that_is_on_its_way_is_asked_again(cluster: ClusterQueries) -> None:
    """Seen with Kafka 4.3.1: the first group of a new cluster hears NOT_COORDINATOR."""
    ask = Coordinator(KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    assert cluster._of_coordinator("asking", ask) == "here"


def test_a_group_that_is_not_there_has_no_answer(cluster: ClusterQueries) -> None:
    assert cluster._of_coordinator("asking", Coordinator(KafkaError.GROUP_ID_NOT_FOUND)) is None


def test_an_error_that_does_not_pass_is_reported_at_once(cluster: ClusterQueries) -> None:
    ask = Coordinator(KafkaError.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(MembersError, match=r"^asking on 127.0.0.1:1: .*uthorization failed"):
        cluster._of_coordinator("asking", ask)


def test_a_coordinator_that_never_comes_is_given_up(
    cluster: ClusterQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "TIMEOUT_S", 0.0)
    with pytest.raises(MembersError, match=r"asking on 127.0.0.1:1"):
        cluster._of_coordinator("asking", Coordinator(*[KafkaError.COORDINATOR_NOT_AVAILABLE] * 9))


def test_a_group_beyond_the_end_of_logs_names_the_first_and_counts_the_others() -> None:
    first, second, third = (TopicPartition("t", number) for number in range(3))
    ends = {first: 5, second: 5, third: 5}
    check_committed("g", {first: 5, TopicPartition("other", 0): 99}, ends)
    with pytest.raises(MembersError, match=r"t-1 at 6, and the log ends at 5 \(and 1 more\)"):
        check_committed("g", {second: 6, third: 7}, ends)


def test_by_the_consumer_protocol_the_broker_decides_on_what_a_classic_client_sets() -> None:
    effective = effective_settings({"group.protocol": "consumer"}, has_positions=False)
    assert effective.keys() == (DEFAULTS.keys() - set(OF_CLASSIC_PROTOCOL)) | {"group.protocol"}
    given = {"group.protocol": "consumer", "session.timeout.ms": "9000", "heartbeat.interval.ms": "300"}
    with pytest.raises(MembersError, match=r"^heartbeat.interval.ms, session.timeout.ms cannot be given"):
        effective_settings(given, has_positions=False)
    classic = effective_settings(
        {"group.protocol": "classic", "session.timeout.ms": "9000"}, has_positions=False
    )
    assert classic["session.timeout.ms"] == "9000"


@pytest.mark.parametrize("name", OF_CLASSIC_PROTOCOL)
def test_the_client_itself_refuses_each_of_them(name: str) -> None:
    """So that the list is right for the librdkafka of today."""
    settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "group.protocol": "consumer"}
    with pytest.raises(KafkaException, match=f"`{name}` is not supported"):
        new_consumer({**settings, name: DEFAULTS.get(name, "consumer")})


def test_where_a_store_decides_nothing_is_skipped_in_silence() -> None:
    assert effective_settings({}, has_positions=False)["auto.offset.reset"] == "earliest"
    assert effective_settings({}, has_positions=True)["auto.offset.reset"] == "error"
    chosen = effective_settings({"auto.offset.reset": "latest"}, has_positions=True)
    assert chosen["auto.offset.reset"] == "latest"
