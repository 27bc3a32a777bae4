"""Reads a key set from a file or from a server, within bounds (S38); for a thread that may wait.

One request, one answer of at most a mebibyte, in ten seconds from the first name looked up to the last byte,
however slowly they come; no redirects, no proxies, no compression. A server of https is verified by the
certificates that this system trusts.
"""

from __future__ import annotations

import ssl
from ipaddress import ip_address
from pathlib import Path
from socket import IPPROTO_TCP, SOCK_STREAM, AddressFamily, getaddrinfo, socket
from time import monotonic
from typing import Final

import h11

from coordinator.security.regular_file import UnusableFile, read_regular
from coordinator.security.tokens.key_url import KeyUrl
from coordinator.security.tokens.keys import KeysUnusable

MAX_BYTES: Final = 1 << 20
"""Of a key set: some thousand keys."""
TIMEOUT_S: Final = 10.0
"""For all of it."""
MAX_HEAD_BYTES: Final = 64 * 1024
"""Of the answer's head."""

_READ_BYTES: Final = 64 * 1024
_OK: Final = 200
_REDIRECTS: Final = range(300, 400)


class _Deadline:
    def __init__(self, timeout_s: float) -> None:
        self._at_s = monotonic() + timeout_s

    def left_s(self) -> float:
        """Return the time that is left. Raises TimeoutError if there is none."""
        left_s = self._at_s - monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        return left_s


def fetch(url: KeyUrl, timeout_s: float = TIMEOUT_S) -> bytes:
    """Return what is there. Raises KeysUnusable with the reason, which says nothing of what was read."""
    try:
        return _read_file(Path(url.target)) if url.is_file else _ask(url, _Deadline(timeout_s))
    except TimeoutError:
        raise KeysUnusable(f"there was no whole answer within {timeout_s:g} s") from None
    except ssl.SSLCertVerificationError as error:
        raise KeysUnusable(f"its certificate is not trusted: {error.verify_message}") from None
    except OSError as error:
        raise KeysUnusable(f"it cannot be read: {error.strerror or type(error).__name__}") from None
    except h11.ProtocolError:
        raise KeysUnusable("it does not answer in HTTP") from None


def _read_file(path: Path) -> bytes:
    try:
        return read_regular(path, MAX_BYTES)
    except UnusableFile as error:
        raise KeysUnusable(error.strerror) from None


def _ask(url: KeyUrl, deadline: _Deadline) -> bytes:
    with _connected(url, deadline) as connection:
        exchange = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        host = f"[{url.host}]" if ":" in url.host else url.host
        headers = [
            ("Host", f"{host}:{url.port}"),
            ("Accept", "application/json"),
            ("User-Agent", "muster"),
            ("Connection", "close"),
        ]
        request = exchange.send(h11.Request(method="GET", target=url.target, headers=headers))
        end = exchange.send(h11.EndOfMessage())
        connection.settimeout(deadline.left_s())
        connection.sendall((request or b"") + (end or b""))
        return _answer(exchange, connection, deadline)


def _answer(exchange: h11.Connection, connection: socket, deadline: _Deadline) -> bytes:
    body = bytearray()
    while True:
        event = exchange.next_event()
        if event is h11.NEED_DATA:
            connection.settimeout(deadline.left_s())
            exchange.receive_data(connection.recv(_READ_BYTES))
        elif isinstance(event, h11.Response):
            _check_status(event.status_code)
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > MAX_BYTES:
                raise _too_large()
        elif isinstance(event, h11.EndOfMessage):
            return bytes(body)
        elif not isinstance(event, h11.InformationalResponse):
            raise KeysUnusable("it hangs up without an answer")


def _check_status(status: int) -> None:
    if status in _REDIRECTS:
        raise KeysUnusable(f"it answers {status}, and redirects are not followed")
    if status != _OK:
        raise KeysUnusable(f"it answers {status}")


def _connected(url: KeyUrl, deadline: _Deadline) -> socket:
    """Return a connection to the first address of the host that takes it, encrypted for https."""
    plain = _dialed(url, deadline)
    if url.scheme == "http":
        return plain
    try:
        plain.settimeout(deadline.left_s())
        return ssl.create_default_context().wrap_socket(plain, server_hostname=url.host)
    except BaseException:
        plain.close()
        raise


def _dialed(url: KeyUrl, deadline: _Deadline) -> socket:
    failure: OSError | None = None
    for family, kind, protocol, _, address in getaddrinfo(
        url.host, url.port, type=SOCK_STREAM, proto=IPPROTO_TCP
    ):
        if url.scheme == "http" and not ip_address(address[0]).is_loopback:
            raise KeysUnusable("its name is not of this machine, and http is for this machine alone")
        dialing = socket(AddressFamily(family), kind, protocol)
        try:
            dialing.settimeout(deadline.left_s())
            dialing.connect(address)
        except OSError as error:
            dialing.close()
            failure = error
        else:
            return dialing
    raise failure or OSError("no address")


def _too_large() -> KeysUnusable:
    return KeysUnusable(f"it has more than {MAX_BYTES} bytes")
