"""Logins beyond the share of a turn: thousands may log in at once, and others wait no longer for that."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.runtime.clock import Clock
from coordinator.runtime.turn_share import DIRECT_S, TurnShare
from coordinator.security.sasl.login import LoginTerms
from coordinator.security.sasl.mechanism import Challenge
from coordinator.security.sasl.plain import Plain
from coordinator.security.session import Session
from coordinator.server.login import LoginConnection, LoginRules
from coordinator.server.strangers import Stranger, Strangers
from coordinator.settings.model import Settings
from protocol.framing import encode_request
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.security.test_login import Versions
from tests.security.tls.wired import Lower

NAMED = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "client")
REFUSED = encode_request(SaslAuthenticateRequest(auth_bytes=b"\0alice\0guess"), 1, 2, "client")
GUESSED = encode_request(SaslAuthenticateRequest(auth_bytes=b"something"), 1, 2, "client")
PROVEN = encode_request(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 1, 2, "client")


class Kept:
    """An exchange that answers with what it was told, and keeps a lot."""

    held_bytes = 1_000_000

    def step(self, token: bytes, now_ms: int) -> Challenge:
        del now_ms
        return Challenge(token)


class Behind:
    """The connection that takes over."""

    def __init__(self) -> None:
        self.session: Any = None
        self.client_software = ("", "")
        self.is_open = True
        self.transport: Any = None
        self.received = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data


class Socket(Lower):
    """The transport, which hands over what protocol it is given."""

    protocol: Any = None

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol


class World:
    """A login on a listener of its own, in a turn that has used up its share; the host of it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.timers: list[int | None] = []
        self.strangers = Strangers(
            Settings(), self.clock, lambda owner, key, deadline_ms: self.timers.append(deadline_ms)
        )
        self.used_s = 0.0
        self.soon: list[Any] = []
        self.turn = TurnShare(
            self.soon.append, cpu_s=lambda: self.used_s, now_ns=lambda: int(self.used_s * 1e9)
        )
        self.turn.begin(0.0)
        self.behind = Behind()
        self.gone = 0
        stranger = self.strangers.admit(0, 10)
        assert stranger is not None
        terms = LoginTerms({"PLAIN": Plain({"user_alice": "secret"})})
        rules = LoginRules("EXT", terms, Versions(), 1_000, 0)
        self.socket = Socket()
        self.login = LoginConnection(self, rules, stranger, self._make)
        self.login.connection_made(self.socket)
        self.used_s = DIRECT_S * 2

    def _make(self, session: Session) -> Behind:
        return self.behind

    def later_turn(self) -> None:
        self.soon.pop()()

    def on_stranger(self, stranger: Stranger, ip: str) -> bool:
        return True

    def on_stranger_known(self, stranger: Stranger) -> None:
        self.strangers.leave(stranger)

    def on_stranger_gone(self, stranger: Stranger) -> None:
        self.gone += 1


@pytest.fixture
def world() -> World:
    return World()


def test_a_login_beyond_the_share_of_a_turn_waits_for_a_later_one(world: World) -> None:
    world.login.data_received(NAMED)
    assert world.socket.unsent == b""
    assert not world.socket.reading, "and what else comes waits in the socket"
    world.later_turn()
    assert world.socket.unsent
    assert world.socket.reading


def test_a_login_within_the_share_is_answered_at_once(world: World) -> None:
    world.turn.begin(world.used_s)
    world.login.data_received(NAMED)
    assert world.socket.unsent
    assert world.soon == []


def test_what_comes_while_a_login_is_put_off_follows_it_once(world: World) -> None:
    """The socket may have been read already when reading is paused. The session has what came behind the login."""
    for piece in (NAMED[:5], NAMED[5:] + PROVEN, b"a request"):
        world.login.data_received(piece)
    assert len(world.soon) == 1
    world.later_turn()
    assert world.behind.session.principal == "User:alice"
    assert world.behind.received == b"a request"
    assert world.socket.protocol is world.behind
    assert world.socket.reading
    assert world.soon == []


def test_a_client_that_has_gone_meanwhile_is_answered_nothing(world: World) -> None:
    world.login.data_received(NAMED)
    world.login.connection_lost(None)
    world.later_turn()
    assert world.socket.unsent == b""
    assert world.gone == 1


def test_a_client_that_does_not_read_its_refusal_is_cut_off(world: World) -> None:
    """Its socket is closed behind the answer, and where that is not taken, without it."""
    (stranger,) = world.strangers
    world.turn.begin(world.used_s)
    timers = len(world.timers)
    world.login.data_received(NAMED + REFUSED)
    assert (world.socket.is_closed, world.socket.is_aborted) == (True, False)
    assert len(world.timers) == timers + 1
    world.strangers.timer_fired(stranger)
    assert world.socket.is_aborted


def test_what_an_exchange_keeps_counts_as_held(world: World) -> None:
    """A client may send much, be challenged, and then wait."""
    (stranger,) = world.strangers
    world.turn.begin(world.used_s)
    world.login.data_received(NAMED)
    world.socket.unsent.clear()
    kept = Kept()
    world.login._login._exchange = kept
    world.login.data_received(GUESSED)
    assert stranger.held_bytes == kept.held_bytes + len(world.socket.unsent)
    world.socket.unsent.clear()
    world.login.data_received(GUESSED[:5])
    assert stranger.held_bytes == kept.held_bytes + 5


def test_one_that_is_ended_holds_nothing_from_that_moment_on(world: World) -> None:
    """Its connection is lost in a later turn: until then many more may come, and the next largest has to go."""
    (stranger,) = world.strangers
    world.turn.begin(world.used_s)
    world.login.data_received(NAMED)
    world.login._login._exchange = kept = Kept()
    world.login.data_received(GUESSED + REFUSED[:-1])
    assert stranger.held_bytes > kept.held_bytes
    assert stranger.end is not None
    stranger.end("others need it")
    assert world.socket.is_aborted
    assert (stranger.held_bytes, len(world.login._received), world.login._login.held_bytes) == (0, 0, 0)


def test_what_came_in_a_turn_that_is_over_counts_as_held(world: World) -> None:
    (stranger,) = world.strangers
    world.login.data_received(NAMED)
    assert stranger.held_bytes == len(NAMED)


def test_a_login_that_failed_holds_its_last_words_alone_while_they_are_waited_for(world: World) -> None:
    """Or, of all that hold too much, the wrong ones would be closed."""
    (stranger,) = world.strangers
    world.turn.begin(world.used_s)
    world.login.data_received(NAMED + REFUSED[:-1])
    sent_bytes = len(world.socket.unsent)
    assert stranger.held_bytes == len(REFUSED) - 1 + sent_bytes
    world.login.data_received(REFUSED[-1:] + b"more")
    assert stranger.held_bytes == len(world.socket.unsent) - sent_bytes > 0
