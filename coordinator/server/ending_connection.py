"""A connection whose session ends: its client has to log in again, and may do so at any time before (KIP-368).

It is a class of its own so that all other connections pay nothing for it: what they look up and compare for a
request stays as it is. A login begins once all requests before its handshake are answered, and nothing behind the
handshake is started until it is done. The end itself closes nothing: the next request does, and what was parked
before is answered (S27 to S32).
"""

from __future__ import annotations

import asyncio
from struct import Struct
from typing import Final, Protocol

import structlog

from coordinator.security.sasl.login import Failure, Step
from coordinator.security.sasl.renewable_session import Admission, RenewableSession
from coordinator.security.session import Session
from coordinator.server.connection import Connection
from coordinator.server.connection_host import ConnectionHost
from coordinator.server.gathering import Frames
from coordinator.server.login import LoginRules
from coordinator.server.strangers import Strangers

_SIZE: Final = Struct(">i")
_KEY: Final = Struct(">h")

log = structlog.get_logger("muster.connection")


class RenewingHost(ConnectionHost, Protocol):
    """The server, as connections see it whose clients log in again."""

    @property
    def strangers(self) -> Strangers: ...


class EndingConnection(Connection):
    """The server's end of a socket whose client's session has an end."""

    __slots__ = ("_end_of_delay", "_is_failing", "_is_login_due", "_renewal", "_rules", "_strangers")

    def __init__(self, host: RenewingHost, rules: LoginRules, session: Session) -> None:
        super().__init__(host, rules.listener)
        self._strangers = host.strangers
        self.session = session
        self._rules = rules
        self._renewal = RenewableSession(session, rules.terms, rules.versions)
        self._is_login_due = False  # Whether the handshake of a login is the next frame, and may begin it.
        self._is_failing = False  # Whether a login has failed: nothing more is looked at.
        self._end_of_delay: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        if self._is_failing:
            return
        self._forget_if_ended()
        super().data_received(data)

    def _resume(self) -> None:
        self._forget_if_ended()
        super()._resume()

    def _on_lost(self) -> None:
        if self._end_of_delay is not None:
            self._end_of_delay.cancel()
        super()._on_lost()

    def _forget_if_ended(self) -> None:
        """Have prepared requests decoded again once the session has ended, which refuses them (A28)."""
        if self._renewal.has_ended(self._clock.elapsed_ms()):
            self._prepared.forget()

    def consume(self, data: Frames) -> None:
        """Start the requests in `data` and have logins take their frames, up to the first that has to wait."""
        rest: Frames | None = data
        while rest is not None and self.is_open and not self._is_failing:
            rest = self._log_in(rest) if self._renewal.is_logging_in else self._serve(rest)

    def _serve(self, data: Frames) -> Frames | None:
        """Start the requests up to a handshake that begins a login; return that with what follows, or None."""
        self._forget_if_ended()
        super().consume(data)
        if not self._is_login_due:
            return None
        self._is_login_due = False
        if not self.is_open:
            return None
        self._prepared.forget()
        self._renewal.begin(self._clock.elapsed_ms())
        assert self._gathering is not None
        return self._gathering.take()

    def _start(self, data: Frames, start: int, stop: int) -> bool:
        (key,) = _KEY.unpack_from(data, start)
        admission = self._renewal.admission(key, self._clock.elapsed_ms())
        if admission is Admission.SERVED:
            return super()._start(data, start, stop)
        if self._is_sending or self._unanswered:  # They were admitted, and are answered first.
            self._hold_back()
        elif admission is Admission.BEGINS_LOGIN:
            self._is_login_due = True
        else:
            log.info(
                "session ended", peer=self.peer, listener=self.listener_name, principal=self.session.principal
            )
            self.close()
        return False

    # A login that is repeated.

    def _log_in(self, data: Frames) -> Frames | None:
        """Have the login take the whole frames in `data`; return what is behind its end, or None."""
        position, end = 0, len(data)
        needed_bytes = _SIZE.size
        while end - position >= _SIZE.size and not self._is_sending:
            (size,) = _SIZE.unpack_from(data, position)
            stop = position + _SIZE.size + size
            if size < 0 or size > self._rules.max_bytes:
                self._fail(self._renewal.refuse_size(size, self._rules.max_bytes))
                return None
            if stop > end:
                needed_bytes += size
                break
            step = self._step(bytes(data[position + _SIZE.size : stop]))
            if step is None or step.failure is not None:
                return None
            position = stop
            if step.session is not None:
                return data[position:] if position < end else None
        if position < end:
            if self._is_sending:
                self._hold_back()
            assert self._gathering is not None
            self._gathering.begin(data[position:] if position else data, needed_bytes)
        return None

    def _step(self, frame: bytes) -> Step | None:
        """Have the login take one frame and do what it says; None if that fails: the connection is closed."""
        self.last_request_ms = self._clock.now_ms()
        try:
            step = self._renewal.receive(frame, self._clock.elapsed_ms(), self._clock.wall_ms())
        except Exception:  # A bug of ours: the client sees its connection close, the log has the trace.
            log.exception("login not handled", peer=self.peer, listener=self.listener_name)
            self.close()
            return None
        if step.failure is not None:
            self._fail(step)
            return step
        self._out.append(step.answer)
        self._send()
        if step.session is not None:
            self.session = step.session
        return step

    def _fail(self, step: Step) -> None:
        """Answer and close, after the delay if there is one; what comes meanwhile is ignored."""
        failure = step.failure
        assert failure is not None
        self._is_failing = True
        ip, first_ms = self.client_host.removeprefix("/"), self._rules.failure_delay_ms
        delay_ms = self._strangers.failure_delay_ms(ip, failure, first_ms)
        if delay_ms:
            assert self._transport is not None
            self._transport.pause_reading()
            loop = asyncio.get_running_loop()
            self._end_of_delay = loop.call_later(delay_ms / 1000, self._say_last_words, step.answer, failure)
        else:
            self._say_last_words(step.answer, failure)

    def _say_last_words(self, answer: bytes, failure: Failure) -> None:
        self._end_of_delay = None
        if not self.is_open:
            return
        if answer:
            self._out.append(answer)
        self.refuse(f"re-authentication: {failure.reason}")


def connection_for(host: RenewingHost, rules: LoginRules, session: Session) -> Connection:
    """Return what serves a client that has logged in by `rules`."""
    if session.ends_at_ms is not None:
        return EndingConnection(host, rules, session)
    return Connection(host, rules.listener)
