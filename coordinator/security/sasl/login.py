"""The state machine of a login over SASL (S1 to S9): frames in, answers out. No sockets, no clock.

A client may ask ApiVersions once, names a mechanism by SaslHandshake, and then exchanges its tokens: in
SaslAuthenticate requests, or bare if its handshake was v0. The machine ends in DONE, with the session, or in
FAILED; some failures are answered, and most are held back for a while, which is for the owner of the socket to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple, Protocol

from coordinator.security.sasl.mechanism import (
    Authenticated,
    AuthenticationFailed,
    Exchange,
    Mechanism,
)
from coordinator.security.sasl.out_of_order import out_of_order
from coordinator.security.session import USER, Session
from protocol.codec.codec import decode, spec
from protocol.codec.schema import MessageSpec
from protocol.errors import DecodeError, ErrorCode
from protocol.framing import response_frame, skip_tagged_fields
from protocol.messages import REQUESTS
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

HANDSHAKE_KEY: Final = 17
API_VERSIONS_KEY: Final = 18
AUTHENTICATE_KEY: Final = 36

REFUSED_VERSIONS_MAX: Final = 16
"""ApiVersions requests that are refused on one connection before it is closed: clients ask twice."""

STEPS_MAX: Final = 16
"""Tokens of one exchange: no mechanism has more than three."""

OUT_OF_ORDER_BYTES_MAX: Final = 1024
"""Of a request in place of a token that gets its error response: for an answer it is decoded, 4 us for a byte, and
the answer may be 64 times as long. A client that takes the listener for another one asks for less at first."""

_HEADER: Final = Struct(">hhih")  # API key, version, correlation id, length of the client id.
_SIZE: Final = Struct(">i")


class LoginState(Enum):
    """What may come next."""

    START = auto()  # ApiVersions or SaslHandshake.
    HANDSHAKE = auto()  # SaslHandshake: ApiVersions was answered.
    AUTHENTICATE = auto()  # SaslAuthenticate.
    BARE_TOKENS = auto()  # Tokens with a length, without a header: the handshake was v0.
    OTHER_MECHANISM = (
        auto()
    )  # Anything, which is refused: a login that is repeated cannot change its mechanism.
    DONE = auto()
    FAILED = auto()


class Versions(Protocol):
    """What answers ApiVersions."""

    def answer(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        """Return the table, or an error if the client gives its software's name in a form that is none."""

    def unsupported(self) -> ApiVersionsResponse:
        """Return the answer to a version that is not served, to be sent in v0."""

    def software(self, request: ApiVersionsRequest) -> tuple[str, str]:
        """Return name and version of the client's library."""


@dataclass(frozen=True, slots=True)
class LoginTerms:
    """What one listener asks of a login."""

    mechanisms: Mapping[str, Mechanism]
    max_reauth_ms: Mapping[str, int] = field(default_factory=dict)
    """By mechanism, the longest time between two logins of a connection; 0 or absent: for ever (S27)."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a login has failed, and whether its end is held back (`connection.failed.authentication.delay.ms`)."""

    reason: str
    is_delayed: bool = True
    user: str = field(default="", repr=False)
    """Whose password was tried; blank: none was."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one frame has brought about: an answer, and perhaps the end."""

    answer: bytes = field(default=b"", repr=False)  # Sent at once, or at the end of the delay of a failure.
    session: Session | None = None
    failure: Failure | None = None


class _Header(NamedTuple):
    key: int
    version: int
    correlation_id: int
    body: int
    """Where the client id ends."""


class Login:
    """One login, of a connection that has not shown who its client is, or that has to show it again."""

    def __init__(self, terms: LoginTerms, versions: Versions, previous: Session | None = None) -> None:
        """`previous` is the session of a connection that logs in again: it begins with a handshake."""
        self._terms = terms
        self._versions = versions
        self._previous = previous
        self._exchange: Exchange | None = None
        self._mechanism = ""
        self._steps_left = STEPS_MAX
        self._refusals_left = REFUSED_VERSIONS_MAX
        self.state = LoginState.START if previous is None else LoginState.HANDSHAKE
        self.client_software: tuple[str, str] | None = None
        """Name and version of the client's library, once it has given them."""

    @property
    def held_bytes(self) -> int:
        """What is kept of the client's between two frames."""
        return 0 if self._exchange is None else self._exchange.held_bytes

    def receive(self, frame: bytes, now_ms: int, wall_ms: int) -> Step:
        """Take the next frame, without its length, at a monotonic time and a time of day."""
        assert self.state not in (LoginState.DONE, LoginState.FAILED), self.state
        try:
            step = self._received(frame, now_ms, wall_ms)
        except DecodeError as error:
            step = _closed(f"not understood: {error}")
        if step.failure is not None:
            self.state, self._exchange = LoginState.FAILED, None
        elif step.session is not None:
            self.state, self._exchange = LoginState.DONE, None
        return step

    def give_up(self) -> None:
        """Take nothing more, and forget what the client has sent."""
        self.state, self._exchange = LoginState.FAILED, None

    def refuse_size(self, size_bytes: int, max_bytes: int) -> Step:
        """Fail because of a frame whose length is none, or more than a login may have (S1)."""
        self.state = LoginState.FAILED
        return Step(failure=Failure(f"a frame of {size_bytes} bytes; a login may have up to {max_bytes}"))

    def _received(self, frame: bytes, now_ms: int, wall_ms: int) -> Step:
        if self.state is LoginState.BARE_TOKENS:
            return self._bare_token(frame, now_ms, wall_ms)
        if self.state is LoginState.OTHER_MECHANISM:
            return Step(failure=Failure(f"a login that began with {self._mechanism} goes on with another"))
        header = _header(frame)
        if self.state is LoginState.AUTHENTICATE:
            return self._authenticate(header, frame, now_ms, wall_ms)
        if header.key == HANDSHAKE_KEY:
            return self._handshake(header, frame)
        if header.key == API_VERSIONS_KEY and self.state is LoginState.START:
            return self._api_versions(header, frame)
        return _closed(
            f"a request of API {header.key} before the login: no client of SASL, or a second ApiVersions"
        )

    # ApiVersions and SaslHandshake.

    def _api_versions(self, header: _Header, frame: bytes) -> Step:
        message = spec(ApiVersionsRequest)
        if not message.min_version <= header.version <= message.max_version:
            _body_of(message, header, frame)
            return self._refused_versions(header, self._versions.unsupported(), 0)
        request = _decoded(ApiVersionsRequest, header, frame)
        response = self._versions.answer(request, header.version)
        if response.error_code:
            return self._refused_versions(header, response, header.version)
        self.client_software = self._versions.software(request)
        self.state = LoginState.HANDSHAKE
        return _answered(header, response)

    def _refused_versions(self, header: _Header, response: ApiVersionsResponse, version: int) -> Step:
        if not self._refusals_left:
            return _closed(f"more than {REFUSED_VERSIONS_MAX} ApiVersions requests that cannot be answered")
        self._refusals_left -= 1
        return _answered(header, response, version)

    def _handshake(self, header: _Header, frame: bytes) -> Step:
        request = _decoded(SaslHandshakeRequest, header, frame)
        mechanism = self._terms.mechanisms.get(request.mechanism)
        names = list(self._terms.mechanisms)
        if mechanism is None:
            reason = f"the mechanism {request.mechanism[:64]!r}, which is not enabled"
            if self._previous is not None:  # As in Kafka, which then loses the answer (S29).
                return _closed(reason)
            error = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=names)
            return _answered(header, error, failure=Failure(reason))
        if self._previous is not None and request.mechanism != self._previous.mechanism:
            self._mechanism, self.state = self._previous.mechanism, LoginState.OTHER_MECHANISM
        else:
            self._mechanism, self._exchange = request.mechanism, mechanism.begin()
            self.state = LoginState.AUTHENTICATE if header.version >= 1 else LoginState.BARE_TOKENS
        return _answered(header, SaslHandshakeResponse(mechanisms=names))

    # Tokens.

    def _authenticate(self, header: _Header, frame: bytes, now_ms: int, wall_ms: int) -> Step:
        if header.key != AUTHENTICATE_KEY:
            return _out_of_order(header, frame)
        request = _decoded(SaslAuthenticateRequest, header, frame)
        try:
            outcome, session = self._step(bytes(request.auth_bytes), now_ms, wall_ms)
        except AuthenticationFailed as failed:
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                error_message=failed.text or self._general_text(),
            )
            return _answered(header, response, failure=Failure(self._reason(failed), user=failed.user))
        lifetime_ms = 0 if session is None or session.ends_at_ms is None else session.ends_at_ms - now_ms
        response = SaslAuthenticateResponse(auth_bytes=outcome.token, session_lifetime_ms=lifetime_ms)
        return _answered(header, response, session=session)

    def _bare_token(self, frame: bytes, now_ms: int, wall_ms: int) -> Step:
        try:
            outcome, session = self._step(frame, now_ms, wall_ms)
        except AuthenticationFailed as failed:  # Only a failure with a text is held back (S5).
            is_delayed = failed.text is not None
            return Step(failure=Failure(self._reason(failed), is_delayed, failed.user))
        return Step(_SIZE.pack(len(outcome.token)) + outcome.token, session)

    def _step(self, token: bytes, now_ms: int, wall_ms: int) -> tuple[Any, Session | None]:
        """Return what the mechanism makes of the token, and the session if it was the last."""
        assert self._exchange is not None
        self._steps_left -= 1
        if self._steps_left < 0:
            raise AuthenticationFailed(None, f"more than {STEPS_MAX} tokens")
        outcome = self._exchange.step(token, wall_ms)
        if not isinstance(outcome, Authenticated):
            return outcome, None
        session = Session(USER + outcome.name, self._mechanism, self._ends_at_ms(outcome, now_ms, wall_ms))
        if self._previous is not None and session.principal != self._previous.principal:
            was, now = (each.principal.removeprefix(USER) for each in (self._previous, session))
            raise AuthenticationFailed(
                f"Cannot change principals during re-authentication from User.{was}: User.{now}"
            )
        return outcome, session

    def _ends_at_ms(self, outcome: Authenticated, now_ms: int, wall_ms: int) -> int | None:
        """Return until when the session lasts: as long as the credential and the listener allow."""
        ends = []
        if outcome.expires_at_ms is not None:
            ends.append(outcome.expires_at_ms - wall_ms)
        if (longest_ms := self._terms.max_reauth_ms.get(self._mechanism, 0)) > 0:
            ends.append(longest_ms)
        return now_ms + max(0, min(ends)) if ends else None

    def _general_text(self) -> str:
        name = self._mechanism
        phase = "authentication" if self._previous is None else "re-authentication"
        return f"Authentication failed during {phase} due to invalid credentials with SASL mechanism {name}"

    def _reason(self, failed: AuthenticationFailed) -> str:
        return f"{self._mechanism}: {failed}"


def _header(frame: bytes) -> _Header:
    try:
        key, version, correlation_id, length = _HEADER.unpack_from(frame)
    except StructError:
        raise DecodeError(f"a frame of {len(frame)} bytes has no room for a header") from None
    body = _HEADER.size + max(length, 0)  # Any negative length is null, and any bytes are a client id.
    if body > len(frame):
        raise DecodeError(f"a client id of {length} bytes in a shorter frame")
    return _Header(key, version, correlation_id, body)


def _decoded(cls: type, header: _Header, frame: bytes) -> Any:
    """Return the request behind the header. Raises DecodeError, also for a version that there is not."""
    message = spec(cls)
    if not message.min_version <= header.version <= message.max_version:
        raise DecodeError(f"{cls.__name__} v{header.version}")
    return decode(cls, header.version, frame, _body_of(message, header, frame))


def _body_of(message: MessageSpec, header: _Header, frame: bytes) -> int:
    """Return where the body begins, in a version that there need not be. Raises DecodeError."""
    return skip_tagged_fields(frame, header.body) if message.is_flexible(header.version) else header.body


def _out_of_order(header: _Header, frame: bytes) -> Step:
    """Answer a request other than SaslAuthenticate by its own error response, if it is a small one (S6)."""
    cls = REQUESTS.get(header.key)
    if cls is None:
        raise DecodeError(f"API {header.key}")
    if len(frame) > OUT_OF_ORDER_BYTES_MAX:
        return _closed(f"{cls.__name__} of {len(frame)} bytes in place of SaslAuthenticateRequest")
    message, version = spec(cls), header.version
    if header.key == API_VERSIONS_KEY and not message.min_version <= version <= message.max_version:
        _body_of(message, header, frame)
        request, version = ApiVersionsRequest(), 0  # Every client can read that (KIP-511).
    else:
        request = _decoded(cls, header, frame)
    reason = f"{cls.__name__} in place of SaslAuthenticateRequest"
    response = out_of_order(request, version)
    if response is None:
        return _closed(reason)
    return _answered(header, response, version, failure=Failure(reason))


def _answered(
    header: _Header,
    response: Any,
    version: int | None = None,
    session: Session | None = None,
    failure: Failure | None = None,
) -> Step:
    chunks = response_frame(header.correlation_id, response, header.version if version is None else version)
    return Step(b"".join(chunks), session, failure)


def _closed(reason: str) -> Step:
    """Fail at once, without an answer."""
    return Step(failure=Failure(reason, is_delayed=False))
