"""What is read of a handshake ahead of OpenSSL, by plain calls: a client in memory, no socket (F1, F8)."""

from __future__ import annotations

import ssl

import pytest

from coordinator.runtime.turn_share import TurnShare
from tests.security.tls.certificates import client_context, server_context
from tests.security.tls.wired import Host, Wired

pytestmark = pytest.mark.asyncio


def limited(version: ssl.TLSVersion) -> ssl.SSLContext:
    context = client_context()
    context.maximum_version = context.minimum_version = version
    return context


def at_leisure() -> Host:
    """A host that puts nothing off, however long it takes."""
    turn = TurnShare(lambda action: action(), cpu_s=lambda: 0.0, now_ns=lambda: 0)
    turn.begin(0.0)
    return Host(turn)


async def test_half_a_hello_costs_what_it_holds_and_none_of_openssls_memory() -> None:
    """F1, F8: it is kept aside, and counted, until it is whole; and then the handshake goes on as ever."""
    wired = Wired()
    with pytest.raises(ssl.SSLWantReadError):
        wired.client.do_handshake()
    hello = wired.from_client.read()
    for at in range(len(hello) - 1):
        wired.to_server(hello[at : at + 1])
        assert wired.transport._engine is None
        assert wired.host.held_bytes == at + 1
    wired.to_server(hello[-1:])
    assert wired.transport._engine is not None
    assert wired.host.held_bytes == 0
    wired.from_server.write(wired.lower.take())
    assert wired.shake_hands().host.events == ["stranger", "handshake"]


@pytest.mark.parametrize(
    "beginning",
    [b"GET / HTTP/1.1\r\n", b"\x16\x02\x01\x00\x10", b"\x16\x03\x01\x40\x01"],
    ids=["text", "version", "size"],
)
async def test_what_will_never_be_a_hello_is_not_waited_for(beginning: bytes) -> None:
    wired = Wired()
    wired.to_server(beginning)
    assert wired.transport._engine is not None


def record(payload: bytes, kind: int = 0x16) -> bytes:
    return bytes((kind, 3, 3)) + len(payload).to_bytes(2, "big") + payload


def claim(kind: int, size: int) -> bytes:
    """The beginning of a message that claims so many bytes, in a record of its own."""
    return record(bytes((kind,)) + size.to_bytes(3, "big") + bytes(60))


CHANGE = record(b"\x01", 0x14)


def expect_refused(wired: Wired, reason: str, number: int) -> None:
    assert wired.lower.is_closed
    assert not wired.lower.is_aborted, "an abort would drop the alert"
    assert wired.lower.take()[-7:] == b"\x15\x03\x03\x00\x02\x02" + bytes((number,))
    wired.transport.connection_lost(None)
    assert wired.host.reasons == [reason]


@pytest.mark.parametrize(
    ("beginning", "reason", "number"),
    [
        (claim(1, 131_000), "EXCESSIVE_MESSAGE_SIZE", 47),
        (claim(1, (1 << 14) + 1), "EXCESSIVE_MESSAGE_SIZE", 47),
        (record(b"\x01\x00") + record(b"\xff\x00"), "EXCESSIVE_MESSAGE_SIZE", 47),
        (claim(11, 100), "UNEXPECTED_MESSAGE", 10),
        (record(b"\x01\x00\x10\x00") + record(b"\x01\x5a", 0x15), "UNEXPECTED_MESSAGE", 10),
        (record(b""), "UNEXPECTED_MESSAGE", 10),
        (record(b"\x01\x5a", 0x15) + claim(1, 131_000), "UNEXPECTED_MESSAGE", 10),
        (CHANGE + claim(1, 131_000), "UNEXPECTED_MESSAGE", 10),
        (b"\x80\x2e\x01\x03\x03", "WRONG_VERSION_NUMBER", 10),
    ],
    ids=["bomb", "16 KiB", "two records", "kind", "between", "empty", "alert ahead", "change ahead", "ssl2"],
)
async def test_a_hello_that_claims_too_much_never_reaches_openssl(
    beginning: bytes, reason: str, number: int
) -> None:
    """F8: OpenSSL takes as much memory as is claimed: 200 KiB for the 69 bytes of one hello."""
    wired = Wired()
    wired.to_server(beginning)
    assert wired.transport._engine is None
    expect_refused(wired, reason, number)


async def test_a_hello_of_16_kib_is_waited_for_without_openssl() -> None:
    wired = Wired()
    wired.to_server(beginning := claim(1, 1 << 14))
    assert wired.transport._engine is None
    assert wired.host.held_bytes == len(beginning)
    assert not wired.lower.is_closed


async def test_a_hello_in_many_records_is_a_hello() -> None:
    wired = Wired()
    with pytest.raises(ssl.SSLWantReadError):
        wired.client.do_handshake()
    message = wired.from_client.read()[5:]
    pieces = [record(message[at : at + 3]) for at in range(0, len(message), 3)]
    wired.to_server(b"".join(pieces[:-1]))
    assert wired.transport._engine is None
    wired.to_server(pieces[-1])
    wired.from_server.write(wired.lower.take())
    assert wired.shake_hands().host.events == ["stranger", "handshake"]


def asks_again() -> Wired:
    """A server that has no key share of what its clients send first."""
    context = server_context.__wrapped__()  # Its own, as it is altered: the others share one.
    context.set_ecdh_curve("secp384r1")
    wired = Wired(context=context, client=limited(ssl.TLSVersion.TLSv1_3), host=at_leisure())
    with pytest.raises(ssl.SSLWantReadError):
        wired.client.do_handshake()
    return wired


async def test_a_second_hello_that_was_asked_for_is_served() -> None:
    wired = asks_again()
    assert wired.shake_hands().host.events == ["stranger", "handshake"]
    wired.send(b"x")
    assert wired.receiver.received == [b"x"]


@pytest.mark.parametrize("between", [b"", CHANGE], ids=["at once", "behind a change of ciphers"])
async def test_a_second_hello_that_claims_too_much_never_reaches_openssl(between: bytes) -> None:
    """It is not encrypted either; and a client may send it without waiting to be asked."""
    wired = asks_again()
    wired.to_server(wired.from_client.read() + between + claim(1, 131_000))
    expect_refused(wired, "EXCESSIVE_MESSAGE_SIZE", 47)


@pytest.mark.parametrize("ahead", [b"", record(b"\x01\x5a", 0x15)], ids=["at once", "behind a warning"])
async def test_a_certificate_that_claims_too_much_never_reaches_openssl(ahead: bytes) -> None:
    """With TLS 1.2 it is not encrypted. Java takes no more than 32 KiB either."""
    wired = Wired(client=limited(ssl.TLSVersion.TLSv1_2), host=at_leisure())
    with pytest.raises(ssl.SSLWantReadError):
        wired.client.do_handshake()
    wired.to_server()
    held = claim(11, 1 << 15)
    wired.to_server(ahead + held)
    assert wired.host.held_bytes == len(held)
    assert not wired.lower.is_closed
    other = Wired(client=limited(ssl.TLSVersion.TLSv1_2), host=at_leisure())
    with pytest.raises(ssl.SSLWantReadError):
        other.client.do_handshake()
    other.to_server()
    other.to_server(ahead + claim(11, (1 << 15) + 1))
    expect_refused(other, "EXCESSIVE_MESSAGE_SIZE", 47)
