"""TLS in front of a connection, by plain calls: a client of OpenSSL's in memory, no socket (T15 to T26)."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest

from coordinator.runtime.turn_share import DIRECT_S, TurnShare
from coordinator.server.large_frame import LargeFrame
from coordinator.server.tls_engine import PIECE_BYTES, RECORD_BYTES
from coordinator.server.tls_sending import SMALL_BYTES, UNREAD_ANSWERS_BYTES
from coordinator.server.tls_transport import CHEAP_OF_A_REQUEST, HUNG_UP
from tests.security.tls.certificates import client_context, server_context
from tests.security.tls.wired import Host, Receiver, Wired

ALERT = 0x15
"""What the first byte of an alert's record is, as long as nothing is encrypted."""

pytestmark = pytest.mark.asyncio

LARGE = bytes(range(256)) * (5 * PIECE_BYTES // 256 + 1)


def limited(version: ssl.TLSVersion) -> ssl.SSLContext:
    context = client_context()
    context.maximum_version = context.minimum_version = version
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_both_versions_carry_bytes_both_ways(version: ssl.TLSVersion) -> None:
    wired = Wired(client=limited(version)).shake_hands()
    wired.send(b"question")
    assert wired.receiver.received == [b"question"]
    wired.receiver.transport.write(b"answer")
    assert wired.to_client() == b"answer"


async def test_the_protocol_behind_hears_of_a_connection_when_its_handshake_is_done() -> None:
    wired = Wired()
    assert wired.host.events == ["stranger"]
    with pytest.raises(ssl.SSLWantReadError):
        wired.client.do_handshake()
    wired.to_server()
    assert wired.receiver.transport is None
    wired.shake_hands()
    assert wired.receiver.transport is wired.transport
    assert wired.host.events == ["stranger", "handshake"]


async def test_a_hello_by_the_byte_is_a_hello() -> None:
    wired = Wired()
    with pytest.raises(ssl.SSLWantReadError):
        wired.client.do_handshake()
    for byte in wired.from_client.read():
        wired.to_server(bytes((byte,)))
    wired.shake_hands()
    wired.send(b"x")
    assert wired.receiver.received == [b"x"]


async def test_what_came_with_the_end_of_the_handshake_is_handed_over() -> None:
    wired = Wired(client=limited(ssl.TLSVersion.TLSv1_3))
    for _ in range(2):
        try:
            wired.client.do_handshake()
        except ssl.SSLWantReadError:
            wired.to_server()
            wired.from_server.write(wired.lower.take())
    wired.client.write(b"at once")  # In one segment with the client's Finished.
    wired.to_server()
    assert wired.receiver.received == [b"at once"]


async def test_plaintext_is_answered_by_an_alert_and_closed() -> None:
    """T16, T20: without the alert a client tries again for ever."""
    wired = Wired()
    wired.to_server(b"\x00\x00\x00\x17\x00\x12\x00\x03\x00\x00\x00\x01\x00\x07console\x00\x00")
    assert wired.lower.is_closed
    assert not wired.lower.is_aborted, "an abort would drop the alert"
    sent = wired.lower.take()
    assert sent[0] == ALERT
    assert len(sent) == 7
    wired.transport.connection_lost(None)
    assert wired.host.events == ["stranger", "gone"]
    assert wired.host.reasons == ["WRONG_VERSION_NUMBER"]
    assert wired.receiver.lost == []


async def test_a_client_that_has_no_version_in_common_is_sent_an_alert() -> None:
    newest = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    newest.minimum_version = ssl.TLSVersion.TLSv1_3
    wired = Wired(context=newest, client=limited(ssl.TLSVersion.TLSv1_2))
    with pytest.raises(ssl.SSLError, match="ALERT_PROTOCOL_VERSION"):
        wired.shake_hands()
    assert wired.lower.is_closed


async def test_a_handshake_is_over_when_the_host_waits_no_longer() -> None:
    wired = Wired()
    wired.transport.end("not known within 30000 ms")
    assert wired.lower.is_aborted
    wired.transport.connection_lost(None)
    assert wired.host.reasons == ["not known within 30000 ms"]


async def test_a_client_that_hangs_up_during_the_handshake_is_gone() -> None:
    wired = Wired()
    assert wired.transport.eof_received()
    assert wired.lower.is_closed
    wired.transport.connection_lost(None)
    assert wired.host.reasons == [HUNG_UP]


async def test_a_client_that_resets_its_connection_during_the_handshake_has_hung_up() -> None:
    wired = Wired()
    wired.transport.connection_lost(ConnectionResetError())
    assert wired.host.reasons == [HUNG_UP]


async def test_a_connection_that_the_host_closes_at_the_handshake_is_hidden_from_the_protocol_behind() -> (
    None
):
    host = Host()
    host.closes_known = True
    wired = Wired(host=host).shake_hands()
    wired.send(b"x")
    wired.transport.connection_lost(None)
    assert wired.receiver.transport is None
    assert wired.receiver.received == []
    assert wired.receiver.lost == []
    assert host.events == ["stranger", "handshake", "gone"]


def beyond_the_share_of_a_turn() -> tuple[Wired, list[Any]]:
    """A client that has said its hello into a turn that is over, and what is to run in later ones."""
    used = [0.0]
    soon: list[Any] = []
    turn = TurnShare(soon.append, cpu_s=lambda: used[0], now_ns=lambda: int(used[0] * 1e9))
    turn.begin(0.0)
    used[0] = DIRECT_S * 2
    wired = Wired(host=Host(turn))
    with pytest.raises(ssl.SSLWantReadError):
        wired.client.do_handshake()
    return wired, soon


async def test_handshakes_beyond_the_share_of_a_turn_wait_for_a_later_one() -> None:
    """A crowd of strangers: half a millisecond for each, and those who are in wait no longer than a turn."""
    wired, soon = beyond_the_share_of_a_turn()
    wired.to_server()
    assert wired.lower.unsent == b""
    assert not wired.lower.reading, "and what else comes waits in the socket"
    assert wired.transport.get_extra_info("ssl_object") is None, "nor is memory taken for it"
    soon.pop()()
    assert wired.lower.unsent
    assert wired.lower.reading


async def test_what_comes_while_a_handshake_is_put_off_is_kept_in_order() -> None:
    """The memory that it was received into is that of all connections."""
    wired, soon = beyond_the_share_of_a_turn()
    hello = wired.from_client.read()
    for piece in (hello[:7], hello[7:100], hello[100:]):
        wired.transport.get_buffer(-1)[: len(piece)] = piece
        wired.transport.buffer_updated(len(piece))
        wired.host.tls_buffers.received[:] = bytes(PIECE_BYTES)
    soon.pop()()
    assert soon == []
    wired.from_server.write(wired.lower.take())
    wired.client.do_handshake()


async def test_a_small_request_takes_more_of_a_turn_than_a_plain_one() -> None:
    """Or the answers that one turn sends at once, 600 by their number, would make it as long again."""
    wired = Wired().shake_hands()
    turn = wired.host.turn
    turn.begin(0.0)
    before = turn.cheap_left
    wired.send(b"request")
    assert wired.receiver.received[-1:] == [b"request"]
    assert before - turn.cheap_left == CHEAP_OF_A_REQUEST > 0


async def test_requests_that_came_together_are_all_handed_over() -> None:
    wired = Wired().shake_hands()
    for number in range(5):
        wired.client.write(b"%d" % number)
    wired.to_server()
    assert b"".join(wired.receiver.received) == b"01234"


async def test_a_small_request_whose_record_comes_in_pieces_is_handed_over_whole() -> None:
    wired = Wired().shake_hands()
    wired.client.write(b"request")
    record = wired.from_client.read()
    for byte in record[:-1]:
        wired.to_server(bytes([byte]))
    assert wired.receiver.received == []
    wired.to_server(record[-1:])
    assert wired.receiver.received == [b"request"]


@pytest.mark.parametrize("size", [1, SMALL_BYTES, RECORD_BYTES, RECORD_BYTES + 1, len(LARGE)])
async def test_what_is_written_arrives_whole_whatever_its_size(size: int) -> None:
    wired = Wired().shake_hands()
    wired.receiver.transport.write(LARGE[:size])
    assert wired.to_client() == LARGE[:size]
    wired.receiver.transport.writelines([b"head", memoryview(LARGE)[:size], b"", bytearray(b"tail"), b"!"])
    assert wired.to_client() == b"head" + LARGE[:size] + b"tail!"


async def test_a_long_answer_is_one_write_below() -> None:
    """So `pause_writing` comes once, behind all of it, whatever the limits (T23)."""
    wired = Wired().shake_hands()
    wired.lower.writes.clear()
    wired.receiver.transport.write(LARGE)
    assert len(wired.lower.writes) == 1


async def test_limits_pauses_and_sizes_are_those_of_the_transport_below() -> None:
    wired = Wired().shake_hands()
    transport = wired.receiver.transport
    transport.set_write_buffer_limits(high=0)
    assert wired.lower.limits == (0, None)
    wired.lower.take()
    transport.write(b"x" * 100)
    assert transport.get_write_buffer_size() == len(wired.lower.unsent) > 100
    wired.transport.pause_writing()
    assert wired.receiver.paused_writing == 1
    wired.transport.resume_writing()
    assert wired.receiver.paused_writing == 0
    assert transport.get_extra_info("peername") == ("10.1.2.3", 4567)
    assert transport.get_extra_info("ssl_object").version() == "TLSv1.3"
    assert transport.get_extra_info("nothing", 5) == 5


async def test_a_paused_protocol_is_handed_nothing_until_it_resumes() -> None:
    wired = Wired().shake_hands()
    wired.receiver.pauses = True
    for number in range(PIECE_BYTES // 1000 * 3):
        wired.client.write(b"%04d" % number + bytes(996))
    wired.to_server()
    assert len(wired.receiver.received) == 1
    assert not wired.lower.reading
    wired.transport.resume_reading()
    assert len(wired.receiver.received) == 1, "nothing comes within the call: its caller is not ready"
    while wired.from_client.pending or not wired.lower.reading:
        before = len(wired.receiver.received)
        wired.transport.resume_reading()
        await asyncio.sleep(0)
        wired.to_server()
        assert len(wired.receiver.received) <= before + 2
    whole = b"".join(wired.receiver.received)
    assert [int(whole[at : at + 4]) for at in range(0, len(whole), 1000)] == list(range(len(whole) // 1000))


async def test_what_openssl_holds_is_handed_over_before_the_socket_is_read_again() -> None:
    """Otherwise bytes would come out of order, or not at all while the socket has nothing more."""

    class RecordByRecord(asyncio.BufferedProtocol):
        """Reads into its own memory, and pauses after each record."""

        def __init__(self) -> None:
            self.room = bytearray(1 << 15)
            self.received = b""

        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def get_buffer(self, sizehint: int) -> bytearray:
            return self.room

        def buffer_updated(self, nbytes: int) -> None:
            self.received += self.room[:nbytes]
            self.transport.pause_reading()

    receiver = RecordByRecord()
    wired = Wired(receiver).shake_hands()
    for letter in b"abc":
        wired.client.write(bytes((letter,)) * 1000)
    wired.to_server()
    assert receiver.received == b"a" * 1000
    for letter in b"bc":
        receiver.transport.resume_reading()
        assert not wired.lower.reading
        await asyncio.sleep(0)
        assert receiver.received.endswith(bytes((letter,)) * 1000)
    receiver.transport.resume_reading()
    assert wired.lower.reading


async def test_a_large_frame_is_decrypted_into_its_own_buffer() -> None:
    whole: list[bytearray] = []

    class Switching(Receiver):
        """Has the rest of what begins with a size received as one frame, as a `Connection` does."""

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if data.startswith(b"large"):
                self.transport.set_protocol(LargeFrame(self, data, len(LARGE) + 5, self.on_whole))

        def on_whole(self, frame: bytearray) -> None:
            whole.append(frame)
            self.transport.set_protocol(self)

    wired = Wired(Switching()).shake_hands()
    wired.client.write(b"large" + LARGE[:1000])
    wired.to_server()
    wired.send(LARGE[1000:] + b"next")
    assert whole == [b"large" + LARGE]
    assert wired.receiver.received == [b"large" + LARGE[:1000], b"next"]


async def test_close_says_goodbye_behind_all_that_was_written() -> None:
    """T19."""
    wired = Wired().shake_hands()
    wired.receiver.transport.write(LARGE)
    wired.receiver.transport.close()
    assert wired.receiver.transport.is_closing()
    assert wired.lower.is_closed
    wired.receiver.transport.write(b"late")
    assert wired.to_client() == LARGE
    assert wired.client.read(10) == b"", "a close_notify: no cut connection"


async def test_abort_drops_and_connection_lost_comes_once() -> None:
    wired = Wired().shake_hands()
    wired.receiver.transport.abort()
    assert wired.lower.is_aborted
    wired.transport.connection_lost(None)
    assert wired.receiver.lost == [None]
    wired.receiver.transport.write(b"x")
    wired.receiver.transport.abort()
    assert wired.receiver.transport.get_write_buffer_size() == 0


@pytest.mark.parametrize("says_so", [True, False])
async def test_the_end_of_the_stream_is_reported_once(says_so: bool) -> None:
    """By a close_notify, and by a peer that just closes its socket (T19); answers may still be sent."""
    wired = Wired().shake_hands()
    wired.receiver.keeps_open = True
    if says_so:
        with pytest.raises(ssl.SSLWantReadError):
            wired.client.unwrap()
        wired.to_server()
    assert wired.transport.eof_received()
    assert wired.receiver.ended == 1
    assert not wired.lower.is_closed
    wired.receiver.transport.write(b"answer")
    assert wired.lower.unsent


async def test_what_comes_behind_a_close_notify_is_dropped() -> None:
    """F9: it would lie in OpenSSL's buffer, however much it is."""
    wired = Wired().shake_hands()
    wired.receiver.keeps_open = True
    with pytest.raises(ssl.SSLWantReadError):
        wired.client.unwrap()
    wired.to_server()
    for _ in range(20):
        wired.to_server(b"\x17\x03\x03" + bytes(PIECE_BYTES))
    assert wired.receiver.received == []
    assert wired.transport.get_extra_info("ssl_object").pending() == 0
    assert wired.transport._engine is not None
    assert wired.transport._engine.unread <= PIECE_BYTES


@pytest.mark.parametrize("before", [(), (b"first",)])
async def test_a_paused_protocol_hears_of_the_end_when_it_resumes(before: tuple[bytes, ...]) -> None:
    """Its requests before the end are still to be answered: a producer may send and hang up.

    Behind another record, the last one and the end are decrypted by one call.
    """

    class Pausing(Receiver):
        def data_received(self, data: bytes) -> None:
            self.pauses = data == b"last"
            super().data_received(data)

    wired = Wired(Pausing()).shake_hands()
    for each in (*before, b"last"):
        wired.client.write(each)
    with pytest.raises(ssl.SSLWantReadError):
        wired.client.unwrap()
    wired.to_server()
    assert wired.receiver.received == [*before, b"last"]
    assert wired.receiver.ended == 0
    wired.transport.resume_reading()
    await asyncio.sleep(0)
    assert wired.receiver.ended == 1
    assert wired.lower.is_closed


async def test_a_record_that_was_altered_ends_the_connection_with_an_alert() -> None:
    wired = Wired().shake_hands()
    wired.client.write(b"good")
    good = wired.from_client.read()
    wired.client.write(b"bad!")
    altered = bytearray(wired.from_client.read())
    altered[-1] ^= 1
    wired.to_server(good + bytes(altered))
    assert wired.receiver.received == [b"good"]
    assert wired.lower.is_closed
    with pytest.raises(ssl.SSLError, match="ALERT_BAD_RECORD_MAC"):
        wired.to_client()
    wired.transport.connection_lost(None)
    assert [str(error) for error in wired.receiver.lost] == ["DECRYPTION_FAILED_OR_BAD_RECORD_MAC"]


async def test_a_peer_that_makes_openssl_answer_and_does_not_read_is_read_no_more() -> None:
    """F8: requests to renegotiate are each refused by a warning, and key updates each answered."""
    wired = Wired().shake_hands()
    wired.lower.unsent += bytes(UNREAD_ANSWERS_BYTES)
    engine = wired.transport._engine
    assert engine is not None
    engine.outgoing.write(b"an answer")
    wired.send(b"x")
    assert not wired.lower.reading
    wired.transport.resume_reading()
    assert not wired.lower.reading, "the protocol behind cannot know, and may resume"
    wired.lower.take()
    wired.transport.resume_writing()
    assert wired.lower.reading


async def test_a_protocol_that_closes_in_the_middle_is_handed_nothing_more() -> None:
    class Closing(Receiver):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.transport.close()

    wired = Wired(Closing()).shake_hands()
    wired.client.write(bytes(PIECE_BYTES))
    wired.client.write(bytes(PIECE_BYTES))
    wired.to_server()
    assert len(wired.receiver.received) == 1


async def test_a_silent_client_costs_none_of_openssls_memory() -> None:
    """F1: there is no SSL object before the first byte."""
    wired = Wired()
    assert wired.transport._engine is None
    assert wired.transport.get_extra_info("ssl_object", "none") == "none"
    assert server_context() is not None
