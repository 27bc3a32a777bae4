"""The stream of events: its ids are offsets, a client resumes without loss, one that stalls holds up no other."""

from __future__ import annotations

import json
import re
from itertools import count
from typing import Any
from urllib.parse import quote

import pytest

from coordinator.http.connection import UNREAD_MS, UNSENT_BYTES
from coordinator.http.event_log import FRAMES_BYTES, frame_of
from coordinator.http.event_streams import BEAT_MS, CATCHING_UP_MAX, CLIENTS_MAX, RECENT_MAX
from protocol.records.batch import Codec
from protocol.records.records import Record
from tests.http.doubles import answers
from tests.http.event_doubles import Events, event_of, gaps, offsets, sent_to


def test_a_client_is_sent_what_is_appended_from_then_on_and_the_id_is_the_offset() -> None:
    events = Events()
    events.append("a", "b")
    _, transport = events.connect()
    events.append("a")
    events.append("b", "a")
    events.settle()
    assert offsets(transport) == [2, 3, 4]
    assert [each.data["group_id"] for each in sent_to(transport)] == ["a", "b", "a"]
    head = bytes(transport.written).partition(b"\r\n\r\n")[0]
    assert b"Content-Type: text/event-stream; charset=utf-8" in head
    assert b"Cache-Control: no-store" in head
    assert b"Connection: close" in head


def test_a_client_that_asks_for_a_group_is_sent_its_events_and_those_of_dropped_ones() -> None:
    """The event that stands for dropped ones may hide some of any group."""
    events = Events()
    _, transport = events.connect("group=a%2Fb")
    events.append("a/b", "other", "", "a/b")
    events.settle()
    assert [(each.kind, each.event_id) for each in sent_to(transport)] == [
        ("group", 0),
        ("dropped", 2),
        ("group", 3),
    ]


@pytest.mark.parametrize(
    ("query", "first"), [("from=earliest", 0), ("from=1", 1), ("from=latest", 3), ("", 3)]
)
def test_a_stream_begins_where_it_is_asked_to(query: str, first: int) -> None:
    events = Events()
    events.append("a", "b", "c")
    _, transport = events.connect(query)
    events.append("d")
    events.settle()
    assert offsets(transport) == list(range(first, 4))
    assert gaps(transport) == []


@pytest.mark.parametrize("start", ["-1", "x", "", f"{1 << 63}", "\N{ARABIC-INDIC DIGIT ONE}"])
def test_a_start_that_is_no_offset_is_refused(start: str) -> None:
    events = Events()
    _, transport = events.connect(f"from={quote(start)}")
    assert answers(transport.written)[0][0] == 400


@pytest.mark.parametrize(("appended", "query", "event_id"), [(0, "", -1), (3, "", 2), (3, "from=1", 0)])
def test_a_stream_begins_with_an_id_to_come_back_with(appended: int, query: str, event_id: int) -> None:
    """Else a client that had no event yet would come back to `latest`, and lose what happened meanwhile."""
    events = Events()
    if appended:
        events.append(*["a"] * appended)
    _, transport = events.connect(query)
    head, _, body = bytes(transport.written).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert body.startswith(b": beat\nid: %d\n\n" % event_id)


def test_a_client_of_an_empty_topic_comes_back_with_the_id_that_it_was_sent() -> None:
    events = Events()
    connection, transport = events.connect()
    (sent,) = re.findall(rb"^id: (.*)$", transport.written, re.MULTILINE)
    connection.connection_lost(None)
    events.append("a", "b")
    _, again = events.connect(last_id=int(sent))
    assert offsets(again) == [0, 1]
    assert gaps(again) == []


def test_a_client_that_begins_beyond_what_was_handed_out_hears_of_no_gap_and_gets_each_event_once() -> None:
    """The log has them, but the reader that is for all has not come to them yet."""
    events = Events()
    events.connect()
    events.log.is_cold = True  # So it waits for a thread.
    events.append("a", "b")
    clients = [events.join(start) for start in ("from=latest", "from=1")]
    events.host.loop.turn_until_idle()
    assert events.host.loop.aside
    events.append("c", "d")
    events.settle()
    assert [offsets(transport) for transport in clients] == [[2, 3], [1, 2, 3]]
    assert [gaps(transport) for transport in clients] == [[], []]


def test_a_client_that_reads_the_log_faster_than_it_is_handed_out_hears_of_no_gap() -> None:
    events = Events()
    events.append(*["a"] * 40)
    _, live = events.connect()
    late = events.join("from=earliest")
    events.append("b", "c")
    events.settle()
    assert offsets(late) == list(range(42))
    assert offsets(live) == [40, 41]
    assert gaps(late) == []


def test_a_client_resumes_behind_its_last_event_without_loss() -> None:
    """Also beyond what is in memory, and whatever is appended meanwhile."""
    events = Events()
    for _ in range(20):
        events.append(*["a"] * 50)
    connection, transport = events.connect(last_id=99)
    events.append("a")
    events.settle()
    assert offsets(transport) == list(range(100, 1_001))
    assert gaps(transport) == []
    assert connection.stream.is_live


def test_an_event_is_never_sent_twice_nor_left_out_however_reads_and_appends_meet() -> None:
    """A client catches up while others are sent what is appended, a step at a time."""
    events = Events()
    for _ in range(6):
        events.append(*["a"] * 40)
    _, live = events.connect()
    late = events.join("from=earliest")
    for number in range(60):
        events.host.loop.now_ns += 600_000  # So that each step is short.
        events.host.loop.turn()
        if number % 3 == 0:
            events.append(*["b"] * (1 + number % 7))
    events.settle()
    assert offsets(late) == list(range(events.log.written_offset))
    assert offsets(live) == list(range(240, events.log.written_offset))


def test_a_client_that_catches_up_while_events_are_handed_out_gets_them_once() -> None:
    """They are handed out to eight clients at a time; the last one reads again between two of these steps."""
    events = Events()
    clients = [events.connect()[1] for _ in range(48)]
    late = clients[-1]
    late.room = late.high = 0
    for _ in range(2):
        events.append("a")
        events.settle()
    ticks = count(step=1_000_000)
    events.host.steps.now_ns = lambda: next(ticks)  # So each step ends with its first pause.
    events.append("b")
    events.host.loop.turn()
    late.read_by_peer()
    events.settle()
    assert [offsets(transport) for transport in clients] == [[0, 1, 2]] * len(clients)


def test_offsets_that_retention_has_deleted_are_marked() -> None:
    events = Events()
    events.append("a", "b")
    events.append("c", "d")
    events.delete_up_to(2)
    _, transport = events.connect(last_id=0)
    assert [(each.kind, each.event_id) for each in sent_to(transport)] == [
        ("gap", 1),
        ("group", 2),
        ("group", 3),
    ]
    assert gaps(transport) == [{"from": 1, "to": 1, "why": "deleted"}]


def test_offsets_that_the_log_does_not_have_yet_are_marked() -> None:
    """The log was lost, or is another one: the client goes on with what there is."""
    events = Events()
    events.append("a")
    _, transport = events.connect(last_id=7)
    events.append("b")
    events.settle()
    assert gaps(transport) == [{"from": 1, "to": 7, "why": "not_there"}]
    assert offsets(transport) == [1]


def test_a_client_that_does_not_read_for_a_moment_misses_nothing_and_hears_of_no_gap() -> None:
    events = Events()
    _, transport = events.connect()
    transport.room = 0
    events.append(*["a"] * 200)
    for _ in range(RECENT_MAX // 2):
        events.append("a")
        events.settle()
    transport.read_by_peer()
    events.settle()
    assert offsets(transport) == list(range(events.log.written_offset))
    assert gaps(transport) == []


def test_a_client_that_stalls_gets_a_mark_goes_on_from_the_log_and_holds_up_no_other() -> None:
    events = Events()
    _, well = events.connect()
    connection, stalled = events.connect()
    stalled.room = 0
    for _ in range(100):
        events.append(*["a"] * 100)
        events.settle()
    assert offsets(well) == list(range(10_000))
    held = len(stalled.written)
    assert held <= UNSENT_BYTES + FRAMES_BYTES + (16 << 10)
    stalled.read_by_peer()
    events.settle()
    assert offsets(stalled) == list(range(10_000))
    (mark,) = gaps(stalled)
    assert mark["to"] == 9_999
    assert mark["why"] == "slow"
    assert mark["from"] < 10_000 - RECENT_MAX
    kinds = [each.kind for each in sent_to(stalled)]
    assert kinds.index("gap") == mark["from"]  # It stands where what follows is late.
    assert connection.stream.is_live


def stall(events: Events, transport: Any, at_once: int) -> None:
    """Let a hundred times `at_once` events come that a client does not read, until it is cut off."""
    for _ in range(100):
        events.append(*["a"] * at_once)
        events.settle()
    events.host.clock_ms += UNREAD_MS
    transport.connection.on_time(events.host.clock_ms)
    assert transport.is_aborted


def test_a_client_that_never_reads_is_cut_off() -> None:
    events = Events()
    _, transport = events.connect()
    transport.room = 0
    stall(events, transport, 100)
    assert not transport.lingers, "what it has not read would keep it from hearing of that"


def cut_off(events: Events, query: str = "") -> int:
    """Have a client stall until it is cut off; return the id of the last event that it has read."""
    connection, transport = events.connect(query)
    events.append("a", "a")
    events.settle()
    transport.room = len(transport.written)
    seen = offsets(transport)[-1]
    stall(events, transport, 10)
    connection.connection_lost(None)
    assert seen is not None
    return seen


@pytest.mark.parametrize("others", [0, 1])
def test_a_client_that_was_cut_off_comes_back_to_a_mark_and_then_to_all_that_it_lacks(others: int) -> None:
    events = Events()
    for _ in range(others):
        events.connect()
    seen = cut_off(events)
    _, transport = events.connect(last_id=seen)
    assert gaps(transport) == [{"from": seen + 1, "to": 1_001, "why": "slow"}]
    assert sent_to(transport)[0].kind == "gap"
    assert offsets(transport) == list(range(seen + 1, 1_002))


def test_only_a_client_that_did_not_read_is_told_so() -> None:
    """Not one that begins there, asks for another group, is back before it is far behind, or lost its network."""
    events = Events()
    well, _ = events.connect()
    seen = cut_off(events)
    assert gaps(events.connect(f"from={seen + 1}")[1]) == []
    assert gaps(events.connect("group=a", last_id=seen)[1]) == []
    assert gaps(events.connect(last_id=1_001 - RECENT_MAX)[1]) == []
    events = Events()
    well, _ = events.connect()
    well.connection_lost(None)
    events.append(*["a"] * 1_000)
    assert gaps(events.connect(last_id=0)[1]) == []


def test_a_client_that_reads_is_not_cut_off_however_old_its_stream_is() -> None:
    events = Events()
    connection, transport = events.connect()
    transport.room = 0
    for _ in range(10):
        events.append(*["a"] * 100)
        events.settle()
    transport.read_by_peer()
    events.settle()
    events.host.clock_ms += 10 * UNREAD_MS
    connection.on_time(events.host.clock_ms)
    assert not transport.is_aborted
    assert not transport.is_closed


def test_events_in_memory_are_bounded() -> None:
    events = Events()
    events.connect()
    for _ in range(30):
        events.append(*["a"] * 100)
        events.settle()
    assert len(events.streams._recent) == RECENT_MAX


def test_the_log_is_read_once_for_all_that_are_up_to_date() -> None:
    events = Events()
    transports = [events.connect()[1] for _ in range(CLIENTS_MAX)]
    before = events.log.finds
    events.append("a")
    events.settle()
    assert events.log.finds - before == 1
    assert all(offsets(transport) == [0] for transport in transports)


def test_one_client_too_many_is_refused_until_another_goes() -> None:
    events = Events()
    connections = [events.connect()[0] for _ in range(CLIENTS_MAX)]
    _, refused = events.connect()
    assert answers(refused.written)[0][0] == 503
    connections[0].connection_lost(None)
    _, taken = events.connect()
    events.append("a")
    events.settle()
    assert offsets(taken) == [0]


def test_few_read_the_log_for_themselves_at_a_time_and_all_come_to_it() -> None:
    events = Events()
    for _ in range(10):
        events.append(*["a"] * 100)
    events.connect()
    events.log.is_cold = True
    transports = []
    for _ in range(2 * CATCHING_UP_MAX):
        transports.append(events.join("from=earliest"))
    events.host.loop.turn_until_idle()
    assert len(events.host.loop.aside) == CATCHING_UP_MAX
    events.settle()
    assert all(offsets(transport) == list(range(1_000)) for transport in transports)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_what_is_compressed_or_cold_is_read_on_a_thread(codec: Codec) -> None:
    events = Events()
    _, transport = events.connect()
    events.append("a", "b", codec=codec)
    events.host.loop.turn_until_idle()
    assert offsets(transport) == []
    assert len(events.host.loop.aside) == 1
    events.settle()
    assert offsets(transport) == [0, 1]


def test_records_that_are_no_events_are_passed_over_and_no_line_break_ends_a_frame() -> None:
    events = Events()
    _, transport = events.connect()
    broken = json.dumps({"group_id": "a", "text": "id: 9"}, indent=1).replace("\n", "\r\n").encode()
    values = [
        b"\n\nevent: forged\ndata: {}\n\n",
        b"[1]",
        b"",
        b"\xff",
        b"[" * 100_000,
        broken,
        event_of("a", 6),
    ]
    events.append(*["a"] * 7, values=values)
    events.settle()
    assert [(each.kind, each.event_id) for each in sent_to(transport)] == [("group", 5), ("group", 6)]
    assert sent_to(transport)[0].data == {"group_id": "a", "text": "id: 9"}


def test_a_record_without_a_key_is_no_event() -> None:
    assert frame_of(Record(None, b"{}", 0)) is None


def test_a_silent_stream_shows_that_it_lives_and_how_far_the_log_is() -> None:
    """So a client of a group without events comes back where it was, not where its last event was."""
    events = Events()
    _, transport = events.connect("group=quiet")
    events.append("other", "other")
    events.settle()
    beats = transport.written.count(b": beat")
    events.streams.on_time(events.host.clock_ms + BEAT_MS - 1)
    assert transport.written.count(b": beat") == beats
    events.streams.on_time(events.host.clock_ms + BEAT_MS)
    assert transport.written.endswith(b": beat\nid: 1\n\n")
    before = len(transport.written)
    events.streams.on_time(events.host.clock_ms + BEAT_MS + 1)
    assert len(transport.written) == before


def test_nothing_is_read_without_clients() -> None:
    events = Events()
    connection, _ = events.connect()
    connection.connection_lost(None)
    assert events.durable_log.listeners == []
    before = events.log.finds
    events.append("a")
    events.settle()
    assert events.log.finds == before
    _, transport = events.connect()
    events.append("b")
    events.settle()
    assert offsets(transport) == [1]


def test_clients_that_come_while_the_last_one_goes_are_sent_what_follows() -> None:
    events = Events()
    connection, _ = events.connect()
    events.append("a")
    connection.connection_lost(None)  # While its read is under way.
    _, transport = events.connect()
    events.append("b")
    events.settle()
    assert offsets(transport) == [1]
