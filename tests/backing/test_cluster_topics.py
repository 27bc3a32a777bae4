"""What is believed of the cluster's topics: what is there at once, what is gone only when it was unknown twice."""

from __future__ import annotations

import pytest

from coordinator.backing.kafka.cluster_topics import WANTED_MAX, ClusterTopics, NamedTopic
from protocol.errors import ErrorCode
from protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

CONFIRM_MS = 30_000
A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))
BROKERS = [
    MetadataResponseBroker(node_id=1, host="h", port=1, rack="r1"),
    MetadataResponseBroker(node_id=2, host="h", port=2, rack="r2"),
    MetadataResponseBroker(node_id=3, host="h", port=3),
]


def topic(name: str, topic_id: bytes, *replicas: list[int]) -> MetadataResponseTopic:
    partitions = [
        MetadataResponsePartition(partition_index=index, leader_id=1, replica_nodes=nodes, isr_nodes=[])
        for index, nodes in enumerate(replicas or ([1],))
    ]
    return MetadataResponseTopic(name=name, topic_id=topic_id, partitions=partitions)


def answer(*topics: MetadataResponseTopic) -> MetadataResponse:
    return MetadataResponse(brokers=BROKERS, topics=list(topics))


def unknown(topic_id: bytes, error: ErrorCode = ErrorCode.UNKNOWN_TOPIC_ID) -> MetadataResponse:
    return answer(MetadataResponseTopic(error_code=error, name=None, topic_id=topic_id))


class Known:
    """Topics, and who was deleted."""

    def __init__(self) -> None:
        self.deleted: list[tuple[str, bytes]] = []
        self.topics = ClusterTopics(lambda name, topic_id: self.deleted.append((name, topic_id)), CONFIRM_MS)


@pytest.fixture
def known() -> Known:
    made = Known()
    made.topics.learn_all(answer(topic("a", A, [2, 1, 3], [3]), topic("b", B)))
    return made


def test_what_is_listed_is_there_with_its_racks(known: Known) -> None:
    topics = known.topics
    assert set(topics.names()) == {"a", "b"}
    assert (topics.partition_count("a"), topics.topic_id("a"), topics.topic_name(B)) == (2, A, "b")
    image = topics.image("a")
    assert image is not None
    assert image.racks_by_partition == (("r1", "r2"), ())


def test_versions_say_what_has_changed(known: Known) -> None:
    topics = known.topics
    version, made = topics.version, topics.version_with_new_topics
    topics.learn_all(answer(topic("a", A, [2, 1, 3], [3]), topic("b", B)))
    assert topics.version == version
    topics.learn(answer(topic("b", B, [1], [1])))
    assert (topics.version, topics.version_with_new_topics) == (version + 1, made)
    topics.learn(answer(topic("c", C)))
    assert topics.version_with_new_topics == topics.version == version + 2


def test_a_broker_that_has_not_heard_of_it_takes_no_partition_away(known: Known) -> None:
    known.topics.learn(answer(topic("a", A, [1])))
    assert known.topics.partition_count("a") == 2


def test_an_id_is_gone_when_it_was_unknown_twice(known: Known) -> None:
    topics = known.topics
    topics.learn_all(answer(topic("b", B)))
    assert topics.doubts(0) == [A]
    topics.judge(unknown(A), 1_000)
    assert topics.partition_count("a") == 2
    assert topics.doubts(1_000 + CONFIRM_MS - 1) == []
    topics.judge(unknown(A), 1_000 + CONFIRM_MS - 1)
    assert known.deleted == []
    assert topics.doubts(1_000 + CONFIRM_MS) == [A]
    version = topics.version
    topics.judge(unknown(A), 1_000 + CONFIRM_MS)
    assert known.deleted == [("a", A)]
    assert topics.was_deleted(A)
    assert topics.version == version + 1
    assert (topics.image("a"), topics.topic_name(A), topics.next_doubt_ms) == (None, None, None)


def test_who_hears_that_a_topic_is_gone_has_it_asked_about(known: Known) -> None:
    topics, asked = known.topics, []
    topics.on_wanted = lambda: asked.append(True)
    topics.doubt(A)
    topics.doubt(A)
    topics.doubt(C)  # It was never here.
    assert (topics.doubts(0), asked) == ([A], [True])
    topics.judge(unknown(A), 0)
    assert topics.doubts(0) == [], "it was asked a moment ago"


@pytest.mark.parametrize(
    "said",
    [
        answer(topic("a", A, [2, 1, 3], [3])),
        unknown(A, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        unknown(A, ErrorCode.LEADER_NOT_AVAILABLE),
    ],
    ids=["it is there", "it is not shown", "it has no leader"],
)
def test_whatever_else_is_said_of_it_it_stays(known: Known, said: MetadataResponse) -> None:
    topics = known.topics
    topics.learn_all(answer(topic("b", B)))
    topics.judge(unknown(A), 0)
    topics.judge(said, CONFIRM_MS)
    topics.learn_all(answer(topic("b", B)))
    assert known.deleted == []
    assert topics.topic_id("a") == A


def test_what_came_back_is_looked_for_twice_again(known: Known) -> None:
    topics = known.topics
    topics.learn_all(answer(topic("b", B)))
    topics.judge(unknown(A), 0)
    topics.learn_all(answer(topic("a", A), topic("b", B)))
    topics.learn_all(answer(topic("b", B)))
    topics.judge(unknown(A), CONFIRM_MS)
    assert known.deleted == []


def test_a_topic_that_was_made_again_is_another(known: Known) -> None:
    topics = known.topics
    topics.learn_all(answer(topic("a", C), topic("b", B)))
    assert (topics.topic_id("a"), topics.doubts(0)) == (C, [A])
    assert topics.version_with_new_topics == topics.version
    topics.judge(unknown(A), 0)
    topics.judge(unknown(A), CONFIRM_MS)
    assert known.deleted == [("a", A)]
    assert topics.topic_id("a") == C
    topics.learn(answer(topic("a", A)))
    assert topics.topic_id("a") == C, "what is gone does not come back, whoever has not heard of it"


def test_both_of_two_that_had_a_name_may_go(known: Known) -> None:
    topics = known.topics
    topics.learn_all(answer(topic("a", C), topic("b", B)))
    topics.learn_all(answer(topic("b", B)))
    for now_ms in (0, CONFIRM_MS):
        topics.judge(unknown(C), now_ms)
        topics.judge(unknown(A), now_ms)
    assert sorted(known.deleted) == [("a", A), ("a", C)]
    assert topics.image("a") is None


def test_a_name_that_nobody_knows_is_asked_about_once(known: Known) -> None:
    topics = known.topics
    calls: list[None] = []
    topics.on_wanted = lambda: calls.append(None)
    assert topics.partition_count("c") is None
    assert topics.topic_id("c") is None
    assert topics.partition_count("a") == 2
    assert (topics.wanted(), topics.wanted(), len(calls)) == (["c"], [], 1)
    assert topics.image("c") is None
    assert (topics.wanted(), len(calls)) == (["c"], 2)


def test_what_clients_name_takes_no_more_than_so_much_room(known: Known) -> None:
    for number in range(WANTED_MAX + 5):
        known.topics.partition_count(f"x{number}")
        known.topics.ask_first([NamedTopic("", number.to_bytes(16, "little") + C, 1)], lambda: None)
    assert len(known.topics.wanted()) == WANTED_MAX
    assert len(known.topics.wanted_ids()) == WANTED_MAX


def test_who_waits_for_an_answer_is_called_with_the_next_one_that_was_asked_for(known: Known) -> None:
    topics = known.topics
    first, second, calls = NamedTopic("c", C, 1), NamedTopic("", C, 1), []
    topics.on_wanted = lambda: calls.append("wanted")
    assert topics.ask_first([first], lambda: calls.append("first"))
    (go_on,) = topics.waiting()
    assert topics.ask_first([second], lambda: calls.append("second")), (
        "behind the question that is on its way"
    )
    go_on()
    assert calls == ["wanted", "wanted", "first"]
    assert len(topics.waiting()) == 1
    topics.learn(answer(topic("c", C)))
    assert not topics.ask_first([first, second, NamedTopic("a", A, 2)], lambda: None)
    assert topics.waiting() == []


def test_a_topic_with_an_error_is_not_learned(known: Known) -> None:
    refused = MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name="c")
    known.topics.learn(answer(refused))
    assert known.topics.image("c") is None


def test_an_id_of_stored_offsets_that_nobody_knows_is_asked_about_and_gone_when_it_was_unknown_twice(
    known: Known,
) -> None:
    """Its topic was deleted while no node was there to see it."""
    topics, asked = known.topics, []
    topics.on_wanted = lambda: asked.append(True)
    assert not any(topics.was_deleted(each) for each in (A, C, C, bytes(16)))
    assert (topics.doubts(0), asked) == ([C], [True])
    for now_ms in (0, CONFIRM_MS):
        assert known.deleted == []
        topics.judge(unknown(C), now_ms)
    assert known.deleted == [("", C)]
    assert topics.was_deleted(C)


def test_an_id_of_stored_offsets_whose_topic_is_found_is_not_in_doubt(known: Known) -> None:
    topics = known.topics
    assert not topics.was_deleted(C)
    topics.judge(answer(topic("c", C)), 0)
    assert (topics.doubts(CONFIRM_MS), topics.topic_name(C), known.deleted) == ([], "c", [])


def test_a_name_that_a_broker_does_not_know_is_looked_into_and_nothing_more(known: Known) -> None:
    topics, asked = known.topics, []
    topics.on_wanted = lambda: asked.append(True)
    gone = MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name="a")
    never = MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name="never")
    topics.learn(answer(gone, never))
    assert (topics.doubts(0), asked) == ([A], [True])
    assert topics.partition_count("a") == 2
