"""Fetch sessions (KIP-227): as seen by a client, and the cache's choice of whom to push out."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.data.fetch_sessions import (
    EVICTABLE_AFTER_MS,
    LAST_EPOCH,
    MAX_PARTITIONS,
    FetchContext,
    FetchSessions,
    WantedPartition,
    next_epoch,
)
from protocol.codec.primitives import ZERO_UUID
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchResponse, ForgottenTopic, PartitionData
from tests.topics.requests import fetch_request, partitions_of, produce
from tests.topics.world import World, batch


@pytest.fixture(autouse=True)
def topic(world: World) -> None:
    world.topic("t", partitions=3)


ALL = [("t", partition, 0) for partition in range(3)]


def open_session(world: World, *wanted: tuple[str, int, int]) -> int:
    answer = world.ask(fetch_request(*(wanted or ALL), session_epoch=0), 12)
    assert answer.error_code == 0
    assert answer.session_id > 0
    return int(answer.session_id)


def go_on(
    world: World, session_id: int, epoch: int, *changed: tuple[str, int, int], **fields: Any
) -> FetchResponse:
    request = fetch_request(*changed, session_id=session_id, session_epoch=epoch, **fields)
    answer: FetchResponse = world.ask(request, 12)
    return answer


def indexes(answer: FetchResponse) -> list[int]:
    return [partition.partition_index for partition in partitions_of(answer)]


def test_only_partitions_with_news_are_answered(world: World) -> None:
    session = open_session(world)
    assert indexes(go_on(world, session, 1)) == []
    produce(world, batch(b"a"), partition=1)
    assert indexes(go_on(world, session, 2)) == [1]
    assert indexes(go_on(world, session, 3)) == [1]  # It has not moved on: the records are still news.
    assert indexes(go_on(world, session, 4, ("t", 1, 1))) == []


def test_partitions_join_change_and_leave(world: World) -> None:
    session = open_session(world, ("t", 0, 0))
    produce(world, batch(b"a"), partition=2)
    assert indexes(go_on(world, session, 1, ("t", 2, 0))) == [2]
    gone = [ForgottenTopic(topic="t", partitions=[2])]
    assert indexes(go_on(world, session, 2, forgotten_topics_data=gone)) == []


def test_errors_are_answered_until_they_are_gone_and_then_the_partition_in_full(world: World) -> None:
    session = open_session(world, ("later", 0, 0), ("t", 0, 0))
    for epoch in (1, 2):
        (answer,) = partitions_of(go_on(world, session, epoch))
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    world.topic("later")
    (answer,) = partitions_of(go_on(world, session, 3))
    assert (answer.error_code, answer.high_watermark) == (0, 0)
    assert partitions_of(go_on(world, session, 4)) == []


def test_who_gave_records_goes_to_the_end(world: World) -> None:
    for partition in range(3):
        produce(world, batch(b"a"), partition=partition)
    answer = world.ask(fetch_request(*ALL, session_epoch=0, max_bytes=1), 12)
    session = answer.session_id
    served = []
    for epoch in range(1, 4):
        answer = go_on(world, session, epoch, max_bytes=1)
        served += [each.partition_index for each in partitions_of(answer) if each.records]
    assert sorted(served) == [0, 1, 2]


def test_a_wrong_epoch_or_session_is_refused(world: World) -> None:
    session = open_session(world)
    assert go_on(world, session, 2).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert go_on(world, session + 1, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert go_on(world, session, 1).error_code == 0


def test_a_session_stays_with_names_or_with_ids(world: World) -> None:
    session = open_session(world)
    request = fetch_request(session_id=session, session_epoch=1)
    assert world.ask(request, 13).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_session_without_partitions_ends(world: World) -> None:
    session = open_session(world, ("t", 0, 0))
    answer = go_on(world, session, 1, forgotten_topics_data=[ForgottenTopic(topic="t", partitions=[0])])
    assert (answer.error_code, answer.session_id) == (0, 0)
    assert go_on(world, session, 2).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize(("epoch", "opens"), [(-1, False), (0, True)])
def test_a_full_fetch_closes_the_session_it_names(world: World, epoch: int, opens: bool) -> None:
    session = open_session(world)
    answer = go_on(world, session, epoch, ("t", 0, 0))
    assert bool(answer.session_id) == opens
    assert indexes(answer) == [0]
    assert go_on(world, session, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_epochs_wrap_past_zero() -> None:
    assert next_epoch(LAST_EPOCH) == 1


# The cache.


def wanted(count: int) -> list[WantedPartition]:
    return [WantedPartition(ZERO_UUID, "t", index, 0, 1, -1, -1) for index in range(count)]


def answered(context: FetchContext) -> int:
    answers = [
        (each, PartitionData(partition_index=each.index, high_watermark=0)) for each in context.partitions
    ]
    return int(context.respond(answers).session_id)


def opened(cache: FetchSessions, partitions: int, now_ms: int) -> int:
    return answered(cache.full_fetch(0, 0, wanted(partitions), False, now_ms))


def is_there(cache: FetchSessions, session: int, now_ms: int, epoch: int = 1) -> bool:
    return cache.incremental_fetch(session, epoch, [], [], False, now_ms).error is ErrorCode.NONE


def test_a_full_cache_gives_no_session_to_newcomers() -> None:
    cache = FetchSessions(2)
    assert all(opened(cache, 1, 0) for _ in range(2))
    assert opened(cache, 100, EVICTABLE_AFTER_MS) == 0
    assert len(cache) == 2


def test_a_silent_session_makes_room() -> None:
    cache = FetchSessions(2)
    silent, busy = opened(cache, 5, 0), opened(cache, 5, 0)
    assert is_there(cache, busy, EVICTABLE_AFTER_MS)
    assert opened(cache, 1, EVICTABLE_AFTER_MS + 1)
    assert not is_there(cache, silent, EVICTABLE_AFTER_MS + 1)
    assert is_there(cache, busy, EVICTABLE_AFTER_MS + 1, epoch=2)


def test_a_larger_session_pushes_out_a_smaller_one_that_is_not_new() -> None:
    cache = FetchSessions(2)
    small, large = opened(cache, 2, 0), opened(cache, 9, 0)
    now_ms = EVICTABLE_AFTER_MS + 1
    assert is_there(cache, large, now_ms)
    assert is_there(cache, small, now_ms - 1)
    assert opened(cache, 3, now_ms) == 0  # The small one was not used since it is old enough.
    assert is_there(cache, small, now_ms, epoch=2)
    assert opened(cache, 2, now_ms) == 0
    assert opened(cache, 3, now_ms)
    assert not is_there(cache, small, now_ms, epoch=3)
    assert is_there(cache, large, now_ms, epoch=2)


def test_the_partitions_of_all_sessions_are_bounded() -> None:
    cache = FetchSessions(10)
    assert opened(cache, MAX_PARTITIONS - 1, 0)
    assert opened(cache, 2, 0) == 0
    small = opened(cache, 1, 0)
    assert small
    more = cache.incremental_fetch(small, 1, wanted(2), [], False, 0)
    assert more.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.total_partitions == MAX_PARTITIONS - 1


def test_the_count_of_all_partitions_follows_every_change() -> None:
    cache = FetchSessions(2)
    first, second = opened(cache, 3, 0), opened(cache, 5, 0)
    cache.incremental_fetch(first, 1, wanted(4), [], False, 0)
    assert cache.total_partitions == 4 + 5
    cache.incremental_fetch(first, 2, [], [each.key for each in wanted(2)], False, 0)
    assert cache.total_partitions == 2 + 5
    cache.full_fetch(second, -1, [], False, 0)
    assert cache.total_partitions == 2
    cache.incremental_fetch(first, 3, [], [each.key for each in wanted(4)], False, 0)
    assert (cache.total_partitions, len(cache)) == (0, 0)
    opened(cache, 7, 0)
    opened(cache, 7, 0)
    assert opened(cache, 1, EVICTABLE_AFTER_MS + 1)
    assert cache.total_partitions == 7 + 1


def test_no_slots_mean_no_sessions() -> None:
    assert opened(FetchSessions(0), 1, 0) == 0
