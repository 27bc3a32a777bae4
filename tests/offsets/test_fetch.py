"""OffsetFetch: every client is answered (docs/kafka.md O9 to O13, O26)."""

from __future__ import annotations

import pytest

from harness.doubles.topics import topic_id_of
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from tests.groups.consumer import Consumer, form_group
from tests.groups.driver import Driver

ORDERS = topic_id_of(1)
NOTHING = OffsetFetchResponsePartitions(partition_index=0, committed_offset=-1)


@pytest.fixture
def driver() -> Driver:
    driver = Driver()
    Consumer(driver).commit(5, "orders", 0)
    Consumer(driver).commit(6, "orders", 3)
    Consumer(driver).commit(7, "clicks", 1)
    return driver


def found(index: int, offset: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition_index=index, committed_offset=offset)


def fetch_group(
    driver: Driver, topics: list[OffsetFetchRequestTopics] | None, version: int = 8, group_id: str = "g"
) -> OffsetFetchResponseGroup:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)])
    (group,) = driver.call(request, version).groups
    assert isinstance(group, OffsetFetchResponseGroup)
    return group


@pytest.mark.parametrize("version", [1, 5, 7])
def test_the_flat_form_shows_what_is_there_and_that_the_rest_is_not(driver: Driver, version: int) -> None:
    request = OffsetFetchRequest(
        group_id="g",
        topics=[
            OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 1]),
            OffsetFetchRequestTopic(name="nowhere", partition_indexes=[0]),
        ],
    )
    assert driver.call(request, version) == OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name="orders",
                partitions=[
                    OffsetFetchResponsePartition(partition_index=0, committed_offset=5),
                    OffsetFetchResponsePartition(partition_index=1, committed_offset=-1),
                ],
            ),
            OffsetFetchResponseTopic(
                name="nowhere",
                partitions=[OffsetFetchResponsePartition(partition_index=0, committed_offset=-1)],
            ),
        ]
    )


def test_o9_a_group_with_members_answers_every_client(driver: Driver) -> None:
    consumer = Consumer(driver)
    form_group(driver, consumer)
    topics = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id="g", member_id="unknown", member_epoch=99, topics=topics)]
    )
    (group,) = driver.call(request, 9).groups
    assert group.error_code == ErrorCode.NONE
    assert group.topics[0].partitions == [found(0, 5)]


def test_o10_several_groups_are_answered_each_for_itself(driver: Driver) -> None:
    topics = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=name, topics=topics) for name in ("g", "absent")]
    )
    first, second = driver.call(request, 8).groups
    assert (first.group_id, first.topics[0].partitions) == ("g", [found(0, 5)])
    assert (second.group_id, second.error_code, second.topics[0].partitions) == ("absent", 0, [NOTHING])


def test_o11_null_topics_ask_for_everything(driver: Driver) -> None:
    group = fetch_group(driver, None)
    assert {(t.name, p.partition_index): p.committed_offset for t in group.topics for p in t.partitions} == {
        ("orders", 0): 5,
        ("orders", 3): 6,
        ("clicks", 1): 7,
    }
    flat = driver.call(OffsetFetchRequest(group_id="g", topics=None), 2)
    assert {topic.name for topic in flat.topics} == {"orders", "clicks"}


def test_o11_of_an_unknown_group_everything_is_nothing(driver: Driver) -> None:
    assert fetch_group(driver, None, group_id="absent").topics == []
    assert driver.call(OffsetFetchRequest(group_id="absent", topics=None), 2) == OffsetFetchResponse()


def test_o12_version_10_names_topics_by_id_and_unknown_ones_last(driver: Driver) -> None:
    unknown = topic_id_of(99)
    group = fetch_group(
        driver,
        [
            OffsetFetchRequestTopics(topic_id=unknown, partition_indexes=[0]),
            OffsetFetchRequestTopics(topic_id=ORDERS, partition_indexes=[3]),
        ],
        10,
    )
    lost = OffsetFetchResponsePartitions(
        partition_index=0, committed_offset=-1, error_code=ErrorCode.UNKNOWN_TOPIC_ID
    )
    assert group.topics == [
        OffsetFetchResponseTopics(name="orders", topic_id=ORDERS, partitions=[found(3, 6)]),
        OffsetFetchResponseTopics(topic_id=unknown, partitions=[lost]),
    ]


def test_o12_an_offset_of_a_topic_since_recreated_does_not_count_by_id(driver: Driver) -> None:
    recreated = topic_id_of(77)
    driver.topics.recreate("orders", recreated)
    by_id = fetch_group(driver, [OffsetFetchRequestTopics(topic_id=recreated, partition_indexes=[0])], 10)
    assert by_id.topics[0].partitions == [NOTHING]
    by_name = fetch_group(driver, [OffsetFetchRequestTopics(name="orders", partition_indexes=[0])], 9)
    assert by_name.topics[0].partitions == [found(0, 5)]


def test_o12_an_offset_that_was_stored_without_an_id_fits_any(driver: Driver) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=9)
    topic = OffsetCommitRequestTopic(name="clicks", partitions=[partition])
    driver.call(OffsetCommitRequest(group_id="old", topics=[topic], retention_time_ms=10_000), 2)
    driver.topics.recreate("clicks", topic_id_of(77))
    wanted = [OffsetFetchRequestTopics(topic_id=topic_id_of(77), partition_indexes=[0])]
    assert fetch_group(driver, wanted, 10, "old").topics[0].partitions == [found(0, 9)]


def test_o12_everything_by_id_leaves_out_topics_that_have_none(driver: Driver) -> None:
    driver.topics.forget("clicks")
    group = fetch_group(driver, None, 10)
    assert [topic.topic_id for topic in group.topics] == [ORDERS]


def test_o13_stable_or_not_the_reply_shows_nothing_that_could_be_lost(driver: Driver) -> None:
    driver.hold_disk()
    Consumer(driver).send_commit(50)
    topics = [OffsetFetchRequestTopic(name="orders", partition_indexes=[0])]
    token = driver.send(OffsetFetchRequest(group_id="g", topics=topics, require_stable=True), 7)
    assert not driver.answered(token)
    driver.flush()
    (topic,) = driver.replies.pop(token).topics
    assert topic.partitions[0].committed_offset == 50


def test_o26_the_leader_epoch_is_answered_since_version_5(driver: Driver) -> None:
    (topic,) = fetch_group(driver, [OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]).topics
    assert topic.partitions[0].committed_leader_epoch == -1


def test_everything_is_there_again_after_a_restart(driver: Driver) -> None:
    before = fetch_group(driver, None)
    driver.restart()
    assert fetch_group(driver, None) == before
