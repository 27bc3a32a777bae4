"""Keys that are kept fresh (S38): when they are read, with the time as an argument; the thread; the reading."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socket import create_server
from typing import Any

import pytest

from coordinator.security.tokens import fetching
from coordinator.security.tokens.fetching import MAX_BYTES, fetch
from coordinator.security.tokens.key_url import KeyUrl, KeyUrlError, parse_key_url
from coordinator.security.tokens.keys import KeySet, KeysUnusable, parse_key_set
from coordinator.security.tokens.refreshing import (
    ASKED_AGAIN_AFTER_MS,
    KEY_ID_CHARS_MAX,
    UNKNOWN_KEY_IDS_MAX,
    RefreshedKeys,
    RefreshPlan,
)
from harness.processes import wait_until
from tests.security.tokens import KeyServer, key_set, member, rsa_key

REFRESH_MS = 3_600_000
ONE = key_set(member(rsa_key(), kid="one"))
BOTH = key_set(member(rsa_key(), kid="one"), member(rsa_key("two"), kid="two"))


def plan(now_ms: int = 0) -> RefreshPlan:
    """One whose keys were read at `now_ms`."""
    made = RefreshPlan(REFRESH_MS, 100, 1000)
    assert made.next_at_ms <= now_ms
    made.begin(now_ms)
    made.succeeded(parse_key_set(ONE))
    return made


def test_keys_are_read_every_so_often() -> None:
    made = plan(5)
    assert made.next_at_ms == 5 + REFRESH_MS


def test_a_key_that_is_not_known_is_asked_for_once_a_minute() -> None:
    made = plan()
    assert made.ask("two", 1000)
    assert made.next_at_ms == 1000
    made.begin(1000)
    made.succeeded(parse_key_set(ONE))
    for now_ms in (1000, 2000, 1000 + ASKED_AGAIN_AFTER_MS - 1):
        assert not made.ask("two", now_ms)
    assert made.next_at_ms == 1000 + REFRESH_MS
    assert made.ask("two", 1000 + ASKED_AGAIN_AFTER_MS)


def test_a_key_that_came_and_went_is_asked_for_again() -> None:
    made = plan()
    assert made.ask("two", 1000)
    made.succeeded(parse_key_set(BOTH))
    assert made.ask("two", 1001)


def test_sixteen_keys_are_asked_for_in_a_minute_and_no_more_whatever_strangers_name() -> None:
    made = plan()
    asked = [made.ask(f"kid {number}", 1000 + number) for number in range(1000)]
    assert asked == [True] * UNKNOWN_KEY_IDS_MAX + [False] * (1000 - UNKNOWN_KEY_IDS_MAX)
    assert made.ask("kid 16", 1000 + ASKED_AGAIN_AFTER_MS)
    assert not made.ask("kid 17", 1000 + ASKED_AGAIN_AFTER_MS)
    assert made.ask("kid 17", 1001 + ASKED_AGAIN_AFTER_MS)


def test_a_long_name_of_a_key_is_not_asked_for() -> None:
    made = plan()
    assert not made.ask("x" * (KEY_ID_CHARS_MAX + 1), 0)
    assert made.ask("x" * KEY_ID_CHARS_MAX, 0)


def test_what_cannot_be_read_is_tried_again_more_and_more_rarely() -> None:
    made = plan()
    waits = []
    for _ in range(6):
        made.begin(10)
        made.failed(10)
        waits.append(made.next_at_ms - 10)
    assert waits == [100, 200, 400, 800, 1000, 1000]
    made.succeeded(parse_key_set(ONE))
    made.begin(10)
    made.failed(10)
    assert made.next_at_ms == 110
    assert made.ask("two", 50), "and sooner when a key is asked for"
    assert made.next_at_ms == 50


class Source:
    """Keys to be read, one after the other; an exception is raised."""

    def __init__(self, *outcomes: bytes | str) -> None:
        self.outcomes = list(outcomes)
        self.read = 0
        self.may_read = threading.Semaphore(0)

    def __call__(self) -> KeySet:
        self.may_read.acquire()
        outcome = self.outcomes[min(self.read, len(self.outcomes) - 1)]
        self.read += 1
        if isinstance(outcome, str):
            raise KeysUnusable(outcome)
        return parse_key_set(outcome)


def opened(source: Source, now_ms: Callable[[], int] = lambda: 0) -> RefreshedKeys:
    source.may_read.release()
    keys = RefreshedKeys(source, RefreshPlan(REFRESH_MS, 100, 1000), now_ms, "somewhere")
    keys.open(10)
    return keys


def test_a_key_that_is_not_known_yet_is_read_on_another_thread() -> None:
    """The token that asked is refused; one that comes later is not. Reading holds nobody up."""
    source = Source(ONE, BOTH)
    keys = opened(source)
    assert keys.find("one", "RS256") is not None
    assert source.read == 1
    assert keys.find("two", "RS256") is None
    assert keys.find("two", "RS256") is None
    assert keys.find("one", "RS256") is not None, "while the thread reads"
    source.may_read.release()
    wait_until(lambda: keys.find("two", "RS256") is not None, "the second key", 10)
    assert source.read == 2
    keys.close()


def test_keys_that_cannot_be_read_any_more_stay() -> None:
    source = Source(ONE, "gone", BOTH)
    now = [0]
    keys = opened(source, lambda: now[0])
    keys.find("two", "RS256")
    source.may_read.release()
    wait_until(lambda: source.read == 2, "the failure", 10)
    assert keys.find("one", "RS256") is not None
    now[0] = ASKED_AGAIN_AFTER_MS + 1
    keys.find("two", "RS256")
    source.may_read.release()
    wait_until(lambda: keys.find("two", "RS256") is not None, "the second key", 10)
    keys.close()


def test_without_a_first_key_set_there_is_no_start() -> None:
    source = Source("it is gone")
    with pytest.raises(KeysUnusable, match="it is gone"):
        opened(source)
    stuck = RefreshedKeys(Source(ONE), RefreshPlan(REFRESH_MS, 100, 1000), lambda: 0, "somewhere")
    with pytest.raises(KeysUnusable, match=r"no whole answer within 0\.01 s"):
        stuck.open(0.01)


def test_a_closed_source_ends_its_thread() -> None:
    keys = opened(Source(ONE))
    keys.close()
    wait_until(lambda: not keys._thread.is_alive(), "the end of the thread", 10)


# Where keys are.


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://issuer.example/keys", KeyUrl("https", "issuer.example", 443, "/keys")),
        ("https://Issuer.Example:8443?a=b", KeyUrl("https", "issuer.example", 8443, "/?a=b")),
        ("http://127.0.0.1:8080/a/b?c", KeyUrl("http", "127.0.0.1", 8080, "/a/b?c")),
        ("http://localhost/", KeyUrl("http", "localhost", 80, "/")),
        ("http://[::1]:1/", KeyUrl("http", "::1", 1, "/")),
        ("file:///etc/keys.json", KeyUrl("file", "", 0, "/etc/keys.json")),
        ("file:/etc/my%20keys.json", KeyUrl("file", "", 0, "/etc/my keys.json")),
    ],
)
def test_addresses_of_keys(text: str, url: KeyUrl) -> None:
    """S36."""
    assert parse_key_url(text) == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "keys.json",
        "/etc/keys.json",
        "ftp://issuer.example/keys",
        "http://issuer.example/keys",
        "http://127.0.0.1.example/keys",
        "http://10.0.0.1/keys",
        "https://",
        "https://user:password@issuer.example/",
        "https://issuer.example:99999/",
        "https://issuer.example/ keys",
        "https://issuer.example/\r\nHost: other",
        "file://other.host/keys",
        "file:keys.json",
        "https://[::1/",
    ],
)
def test_addresses_of_keys_that_are_refused(text: str) -> None:
    with pytest.raises(KeyUrlError):
        parse_key_url(text)


# Reading them.


def test_a_key_set_is_read_from_a_server_and_from_a_file(tmp_path: Path) -> None:
    with KeyServer(ONE) as server:
        assert fetch(parse_key_url(server.url)) == ONE
    file = tmp_path / "keys.json"
    file.write_bytes(ONE)
    assert fetch(parse_key_url(f"file://{file}")) == ONE


def redirect(request: BaseHTTPRequestHandler) -> None:
    request.send_response(302)
    request.send_header("Location", "file:///etc/passwd")
    request.end_headers()


def missing(request: BaseHTTPRequestHandler) -> None:
    request.send_response(404)
    request.end_headers()
    request.wfile.write(ONE)


def endless(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    with_room = MAX_BYTES // 4
    for _ in range(8):
        try:
            request.wfile.write(b" " * with_room)
        except OSError:
            return


def endless_head(request: BaseHTTPRequestHandler) -> None:
    request.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for _ in range(100):
        try:
            request.wfile.write(b"X: y\r\n" * 400)
        except OSError:
            return


def dripping(request: BaseHTTPRequestHandler) -> None:
    """A byte at a time, each well within the time that is left."""
    request.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    ending = time.monotonic() + 5
    while time.monotonic() < ending:
        try:
            request.wfile.write(b" ")
        except OSError:
            return
        threading.Event().wait(0.02)


def garbage(request: BaseHTTPRequestHandler) -> None:
    request.wfile.write(b"SSH-2.0\r\n\r\n")


def half(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", "100")
    request.end_headers()
    request.wfile.write(b"half")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (redirect, "it answers 302, and redirects are not followed"),
        (missing, "it answers 404"),
        (endless, f"it has more than {MAX_BYTES} bytes"),
        (endless_head, "it does not answer in HTTP"),
        (dripping, "there was no whole answer within 0.5 s"),
        (garbage, "it does not answer in HTTP"),
        (half, "it does not answer in HTTP"),
    ],
)
def test_an_answer_that_is_none_is_one_sentence(answer: Any, reason: str) -> None:
    with KeyServer(ONE) as server:
        server.answer = answer
        with pytest.raises(KeysUnusable) as error:
            fetch(parse_key_url(server.url), 0.5 if answer is dripping else 30)
    assert str(error.value) == reason


def test_a_server_that_says_nothing_is_waited_for_no_longer_than_the_time() -> None:
    with create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        for scheme in ("http", "https"):
            began = time.monotonic()
            with pytest.raises(KeysUnusable, match=r"no whole answer within 0\.2 s"):
                fetch(parse_key_url(f"{scheme}://127.0.0.1:{port}/"), 0.2)
            assert time.monotonic() - began < 5
    with pytest.raises(KeysUnusable, match="it cannot be read: Connection refused"):
        fetch(parse_key_url(f"http://127.0.0.1:{port}/"))


def test_http_is_for_addresses_of_this_machine_whatever_its_name_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elsewhere = [(2, 1, 6, "", ("192.0.2.1", 80))]
    monkeypatch.setattr(fetching, "getaddrinfo", lambda *_, **__: elsewhere)
    with pytest.raises(KeysUnusable, match="not of this machine"):
        fetch(parse_key_url("http://localhost/"))


def test_a_file_that_is_none_or_too_large_is_refused(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(b" " * (MAX_BYTES + 1))
    for path in (large, tmp_path, tmp_path / "absent"):
        with pytest.raises(KeysUnusable):
            fetch(KeyUrl("file", "", 0, str(path)))
