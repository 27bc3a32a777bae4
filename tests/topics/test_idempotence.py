"""Idempotent producers: duplicates, gaps, epochs, and what a restart remembers (KIP-98, KIP-360)."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.data.producer_ids import BLOCK_SIZE
from harness.doubles.runtime_world import WALL_MS
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.records.records import parse_header
from storage.producers.producer_state import MAX_PRODUCERS, REMEMBERED_BATCHES, ProducerState
from tests.topics.requests import fetch, produce, produce_request
from tests.topics.world import World, batch

OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
LAST_SEQUENCE = 2**31 - 1


@pytest.fixture(autouse=True)
def topic(world: World) -> None:
    world.topic("t")


def numbered(sequence: int, *values: bytes, producer_id: int = 7, epoch: int = 0) -> bytes:
    return batch(*(values or (b"v",)), producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def outcome(world: World, records: bytes) -> tuple[int, int]:
    answer = produce(world, records)
    return answer.error_code, answer.base_offset


def test_a_batch_sent_again_is_answered_with_its_first_offset_and_not_stored_again(world: World) -> None:
    for sequence in range(REMEMBERED_BATCHES):
        assert outcome(world, numbered(sequence)) == (0, sequence)
    for sequence in range(REMEMBERED_BATCHES):
        assert outcome(world, numbered(sequence)) == (0, sequence)
    assert fetch(world).high_watermark == REMEMBERED_BATCHES


def test_a_duplicate_that_overtakes_the_flush_waits_for_it(world: World) -> None:
    world.start(produce_request(numbered(0)), 9)
    again = world.start(produce_request(numbered(0)), 9)
    assert not again.is_answered
    world.settle()
    assert again.answer.responses[0].partition_responses[0].base_offset == 0
    assert fetch(world).high_watermark == 1


def test_older_duplicates_and_gaps_are_out_of_order(world: World) -> None:
    for sequence in range(REMEMBERED_BATCHES + 1):
        outcome(world, numbered(sequence))
    assert outcome(world, numbered(0)) == (OUT_OF_ORDER, -1)
    assert outcome(world, numbered(7)) == (OUT_OF_ORDER, -1)
    assert outcome(world, numbered(6)) == (0, 6)


def test_a_duplicate_must_have_the_same_length(world: World) -> None:
    outcome(world, numbered(0, b"a", b"b"))
    assert outcome(world, numbered(0, b"a")) == (OUT_OF_ORDER, -1)


def test_an_unknown_producer_may_begin_anywhere(world: World) -> None:
    assert outcome(world, numbered(42)) == (0, 0)
    assert outcome(world, numbered(43)) == (0, 1)


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one(world: World) -> None:
    outcome(world, numbered(0))
    assert outcome(world, numbered(1, epoch=1)) == (OUT_OF_ORDER, -1)
    assert outcome(world, numbered(0, epoch=1)) == (0, 1)
    assert outcome(world, numbered(1, epoch=0)) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    assert outcome(world, numbered(0, epoch=0)) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)


def test_sequences_wrap_to_zero(world: World) -> None:
    assert outcome(world, numbered(LAST_SEQUENCE - 1, b"a", b"b")) == (0, 0)
    assert outcome(world, numbered(0)) == (0, 2)
    assert outcome(world, numbered(LAST_SEQUENCE - 1, b"a", b"b")) == (0, 0)


def test_a_batch_may_span_the_wrap(world: World) -> None:
    assert outcome(world, numbered(LAST_SEQUENCE, b"a", b"b", b"c")) == (0, 0)
    assert outcome(world, numbered(2)) == (0, 3)


def test_producers_do_not_disturb_each_other(world: World) -> None:
    assert outcome(world, numbered(0, producer_id=1)) == (0, 0)
    assert outcome(world, numbered(0, producer_id=2)) == (0, 1)
    assert outcome(world, numbered(1, producer_id=1)) == (0, 2)


def test_a_restart_remembers_what_the_log_holds(world: World) -> None:
    for sequence in range(3):
        outcome(world, numbered(sequence))
    outcome(world, batch(b"plain"))
    after = world.restart()
    assert outcome(after, numbered(1)) == (0, 1)
    assert outcome(after, numbered(5)) == (OUT_OF_ORDER, -1)
    assert outcome(after, numbered(3)) == (0, 4)


def test_appends_keep_their_order_while_the_log_is_read_back(world: World) -> None:
    outcome(world, numbered(0))
    after = world.restart()
    waiting = [
        after.start(produce_request(records), 9) for records in (numbered(1), batch(b"plain"), numbered(2))
    ]
    after.settle()
    assert [each.answer.responses[0].partition_responses[0].base_offset for each in waiting] == [1, 2, 3]


def test_silent_producers_expire_and_may_then_begin_anywhere(world: World) -> None:
    outcome(world, numbered(0))
    world.pass_time(world.settings.producer_id_expiration_ms)
    assert world.registry.expire_producers(world.registry.partitions()) == 1
    assert outcome(world, numbered(9)) == (0, 1)


def test_the_number_of_producers_is_bounded_and_the_most_silent_goes() -> None:
    state = ProducerState()

    def append(offset: int, sequence: int, producer_id: int) -> None:
        data = numbered(sequence, producer_id=producer_id)
        state.appended(parse_header(data), data, offset, WALL_MS)

    for producer_id in range(MAX_PRODUCERS):
        append(producer_id, 0, producer_id)
    append(MAX_PRODUCERS, 1, 0)
    append(MAX_PRODUCERS + 1, 0, MAX_PRODUCERS)
    assert len(state) == MAX_PRODUCERS
    assert state.find_duplicate(parse_header(numbered(0, producer_id=0))) is not None
    assert state.find_duplicate(parse_header(numbered(0, producer_id=1))) is None


# InitProducerId.


def give(world: World, **fields: Any) -> tuple[int, int, int]:
    answer = world.ask(InitProducerIdRequest(transaction_timeout_ms=1000, **fields), 5)
    return answer.error_code, answer.producer_id, answer.producer_epoch


def test_ids_are_fresh_also_after_a_restart(world: World) -> None:
    ids = [give(world, transactional_id=None) for _ in range(3)]
    after = world.restart()
    ids += [give(after, transactional_id=None) for _ in range(1500)]
    assert {(error, epoch) for error, _, epoch in ids} == {(0, 0)}
    assert len({producer_id for _, producer_id, _ in ids}) == len(ids)


def test_no_producer_is_given_an_id_before_its_block_is_on_the_disk(world: World) -> None:
    waiting = [
        world.start(InitProducerIdRequest(transaction_timeout_ms=1, transactional_id=None), 4) for _ in "ab"
    ]
    assert not any(each.is_answered for each in waiting)
    world.settle()
    assert [each.answer.producer_id for each in waiting] == [0, 1]


def test_an_idempotent_producer_that_asks_again_gets_a_fresh_id(world: World) -> None:
    give(world, transactional_id=None)
    assert give(world, transactional_id=None, producer_id=0, producer_epoch=0) == (0, 1, 0)


@pytest.mark.parametrize("fields", [{"producer_id": 5}, {"producer_epoch": 5}])
def test_id_and_epoch_come_together(world: World, fields: dict[str, int]) -> None:
    assert give(world, transactional_id=None, **fields) == (ErrorCode.INVALID_REQUEST, -1, -1)


def test_a_request_for_ids_at_once_is_called_when_there_are_some(world: World) -> None:
    ids, given = world.broker.producer_ids, []
    assert ids.take() is None
    ids.when_ready(lambda: given.append(ids.take()))
    assert given == []
    world.settle()
    assert given == [0]
    ids.when_ready(lambda: given.append(ids.take()))
    assert given == [0, 1]
    taken = [ids.take() for _ in range(BLOCK_SIZE)]
    assert taken[-2:] == [None, None]
    world.settle()
    assert ids.take() == BLOCK_SIZE


def test_a_request_for_ids_is_called_as_well_when_the_disk_has_none(world: World) -> None:
    (world.directory / "producer-ids.json").write_text('{"next": "soon"}')
    ids, given = world.broker.producer_ids, []
    ids.when_ready(lambda: given.append(ids.take()))
    world.settle()
    assert given == [None]


def test_a_garbled_file_of_ids_gives_none_rather_than_one_twice(world: World) -> None:
    (world.directory / "producer-ids.json").write_text('{"next": "soon"}')
    assert give(world, transactional_id=None) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)
