"""Readers of the history take observed events as they take the daemon's; the topic takes them, however large."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, LeaderNotAvailableError

from coordinator.history.events import HistoryError, decode_event, encode_event
from muster.cluster import ClusterError
from muster.groups.event_records import read_event
from muster.observe.sinks import RECORD_BYTES, PrintSink, TopicSink
from muster.spark.events.sessions import SessionFold
from tests.observe.offsets_log import OffsetsLog, member, members_of, tombstone
from tests.observe.test_fold import scripted


def whole_log() -> OffsetsLog:
    log = OffsetsLog()
    for records in scripted():
        log.write(*records)
    return log


def test_the_job_of_members_finds_a_session_for_each_that_came_and_went() -> None:
    fold = SessionFold()
    ended = [session for event in whole_log().events for session in fold.add(event)]
    assert [(each.client_id, each.joined_by, each.ended_by) for each in ended] == [
        ("app-3", "member_joined", "member_gone"),
        ("app-2", "group_upgraded", "member_gone"),
        ("app-1", "member_joined", "member_gone"),
        ("app-2", "member_joined", "member_gone"),
    ]
    assert not fold.members


class Broker:
    """Takes the place of a producer: keeps what is sent, or fails, the first `times` events alone if given."""

    def __init__(self, error: KafkaError | None = None, times: int = 1 << 31) -> None:
        self.sent: list[tuple[bytes, bytes, int]] = []
        self._error = error
        self._times = times

    async def send(self, topic: str, value: bytes, key: bytes, *, timestamp_ms: int) -> Any:
        assert topic == "__group_events"
        self.sent.append((key, value, timestamp_ms))
        done = asyncio.get_running_loop().create_future()
        if self._error is None or len(self.sent) > self._times:
            done.set_result(None)
        else:
            done.set_exception(self._error)
        return done


def written(broker: Broker, log: OffsetsLog) -> None:
    asyncio.run(TopicSink(cast(AIOKafkaProducer, broker)).write(log.events))


def test_the_topic_is_given_each_event_at_its_time() -> None:
    broker, log = Broker(), whole_log()
    written(broker, log)
    assert broker.sent == [(*encode_event(event), event.wall_ms) for event in log.events]


def test_a_topic_that_has_no_leader_is_waited_for() -> None:
    """All events of the write come once more, in their order: some of them may not have been there."""
    log = whole_log()
    broker = Broker(LeaderNotAvailableError(), times=1)
    written(broker, log)
    assert broker.sent == 2 * [(*encode_event(event), event.wall_ms) for event in log.events]
    gone = Broker(LeaderNotAvailableError())
    with pytest.raises(ClusterError, match="the cluster answers LEADER_NOT_AVAILABLE"):
        asyncio.run(TopicSink(cast(AIOKafkaProducer, gone), patience_s=0).write(log.events))
    assert len(gone.sent) == len(log.events)


def test_an_event_too_large_for_the_topic_goes_there_without_its_members() -> None:
    broker, log = Broker(), OffsetsLog()
    log.generation(1)
    log.generation(2, *(member(f"app-{number}-{'x' * 90}") for number in range(2_000)))
    written(broker, log)
    assert max(len(value) for _, value, _ in broker.sent) <= RECORD_BYTES
    last = decode_event(broker.sent[-1][1])
    assert members_of(last) is None
    assert last.member_count == 2_000
    assert len(members_of(log.events[-1]) or ()) == 2_000, "the store has them"


def test_a_topic_that_cannot_be_written_is_a_sentence() -> None:
    with pytest.raises(ClusterError, match="writing to __group_events: "):
        written(Broker(KafkaError("no room")), whole_log())


@pytest.mark.parametrize("as_json", [False, True])
def test_each_event_is_printed_on_a_line(capsys: pytest.CaptureFixture[str], *, as_json: bool) -> None:
    log = OffsetsLog()
    log.generation(1, member("app-1"))
    log.write(tombstone())
    asyncio.run(PrintSink(as_json=as_json).write(log.events))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(log.events)
    if as_json:
        assert [decode_event(line.encode()) for line in lines] == log.events
    else:
        assert lines[0].endswith(
            "billing generation 1, Empty -> CompletingRebalance: "
            "member joined: inferred, in the first generation (app-1-id of app-1 at 10.0.0.1)"
        )


@pytest.mark.parametrize(
    "observed",
    [
        b"7",
        b'{"evidence":"record"}',
        b'{"evidence":1,"partition":0,"offset":0}',
        b'{"evidence":"record","partition":0,"offset":"0"}',
        b'{"evidence":"record","partition":0,"offset":0,"members":[7]}',
        b'{"evidence":"record","partition":0,"offset":0,"members":[{"member_id":"m"}]}',
        b'{"evidence":"record","partition":0,"offset":0,"missing_generations":[1]}',
        b'{"evidence":"record","partition":0,"offset":0,"missing_generations":[1,"2"]}',
    ],
)
def test_what_is_observed_in_a_wrong_form_is_no_event(observed: bytes) -> None:
    key, value = encode_event(OffsetsLog().generation(1, member("app-1"))[0])
    begin = value[: value.index(b',"observed":')]
    assert read_event(key, begin + b"}").observed is None
    with pytest.raises(HistoryError):
        read_event(key, begin + b',"observed":' + observed + b"}")
