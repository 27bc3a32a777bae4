"""Why a connection to a broker failed, in a sentence: aiokafka raises that it did, and only logs the cause.

What is heard of its log are the exceptions, by the client in whose task they were logged; nothing of it reaches
the terminal. A sentence has the user's name and the broker's own words, and never a password.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import ssl
from asyncio import IncompleteReadError
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import Any, Final

from aiokafka.conn import create_conn
from aiokafka.errors import (
    BrokerResponseError,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.admin import SaslHandShakeRequest

from muster.client_properties import ClientSettings
from muster.client_security import PLAINTEXT, SSL, ClientSecurity

Place = tuple[Any, ...]
"""Where a connection failed: (host, port) of a bootstrap server, or (node id,)."""

PLACES_MAX: Final = 64
"""So many causes are kept, of which each is the newest at its place."""

SAID_MAX: Final = 300
"""Longest text of a broker that is repeated."""

_ERRNO: Final = re.compile(r"\[Errno (\d+)\]")
_TLS_RECORDS: Final = frozenset({0x150303, 0x160303, 0x150301, 0x160301})
"""First bytes of what a TLS listener says, an alert or a handshake, which Kafka's framing reads as a length."""


class Failures:
    """The causes that one client's library has logged."""

    def __init__(self) -> None:
        self._causes: dict[Place, BaseException] = {}

    def add(self, place: Place, cause: BaseException) -> None:
        """Keep the cause, in place of the one before at the same place."""
        self._causes.pop(place, None)
        self._causes[place] = cause
        if len(self._causes) > PLACES_MAX:
            del self._causes[next(iter(self._causes))]

    def listen(self) -> None:
        """From now on hear what this task causes to be logged, and what the tasks do that it makes."""
        _listening.set(self)

    async def heard_during(self, start: Callable[[], Awaitable[object]]) -> None:
        """Await what connects to the bootstrap servers; if it succeeds, the causes of some are void."""
        self.listen()
        self._causes.clear()
        await start()
        self._causes.clear()

    def of_node(self, node_id: int) -> BaseException | None:
        """Why no connection to the node could be opened, as far as is known."""
        return self._causes.get((node_id,))

    def of_bootstrap(self) -> list[tuple[str, int, BaseException]]:
        """Host, port and cause of each bootstrap server that failed."""
        return [(*place, cause) for place, cause in self._causes.items() if len(place) == 2]


_listening: ContextVar[Failures | None] = ContextVar("listening", default=None)


class _Listener(logging.Handler):
    """Hears the records that end in an exception: behind a host and a port, or behind a node's id."""

    def emit(self, record: logging.LogRecord) -> None:
        failures, arguments = _listening.get(), record.args
        if failures is None or not isinstance(arguments, tuple) or len(arguments) not in (2, 3):
            return
        *place, cause = arguments
        if isinstance(cause, BaseException):
            failures.add(tuple(place), cause)


_LISTENER: Final = _Listener()


def hear_aiokafka() -> None:
    """Keep aiokafka's log off the terminal, and hear of it what the library does not raise."""
    logger = logging.getLogger("aiokafka")
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    if _LISTENER not in logger.handlers:
        logger.addHandler(_LISTENER)


async def bootstrap_sentence(bootstrap: str, failures: Failures, settings: ClientSettings) -> str | None:
    """Why none of the bootstrap servers could be used; None if that is not known."""
    causes = failures.of_bootstrap()
    sentences = [
        failure_sentence(f"{host}:{port}", cause, settings, await _offered(host, port, cause, settings))
        for host, port, cause in causes
    ]
    if not sentences:
        return None
    said = "; ".join(dict.fromkeys(sentences))
    is_answered = any(_is_answer(cause) for _, _, cause in causes)
    return said if is_answered else f"no Kafka broker answers on {bootstrap}: {said}"


def failure_sentence(
    address: str, error: BaseException, settings: ClientSettings, offered: tuple[str, ...] = ()
) -> str:
    """What went wrong between us and the broker at `address`; `offered` are its mechanisms, if known."""
    for cause in _chain(error):
        sentence = _of_login(address, cause, settings.security, offered) or _of_network(
            address, cause, settings
        )
        if sentence is not None:
            return sentence
    return f"the connection to {address} failed: {in_words(error)}"


def in_words(error: BaseException) -> str:
    """What the library's error says, as a part of a sentence: the cluster's answer, or else the error's text."""
    if isinstance(error, BrokerResponseError):
        return f"the cluster answers {error.message}"
    said = error.args[0] if error.args else None
    return _one_line(said) if isinstance(said, str) and said else type(error).__name__


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The cause first, as the errors around it say less."""
    cause = error.__cause__ or error.__context__
    if cause is not None:
        yield from _chain(cause)
    yield error


def _is_answer(error: BaseException) -> bool:
    """Whether there is a broker, as far as can be seen: it refused a login or TLS, or speaks TLS alone."""
    return any(
        isinstance(cause, BrokerResponseError | ssl.SSLError) or _is_tls(cause) for cause in _chain(error)
    )


def _is_tls(cause: BaseException) -> bool:
    return isinstance(cause, IncompleteReadError) and (cause.expected or 0) >> 8 in _TLS_RECORDS


def _of_login(
    address: str, cause: BaseException, security: ClientSecurity, offered: tuple[str, ...]
) -> str | None:
    login = security.login
    if login is None:
        return None
    if isinstance(cause, SaslAuthenticationFailed):
        said = _one_line(cause.args[0]) if cause.args and cause.args[0] else "without a reason"
        return (
            f"the broker at {address} refused the login of user {login.username} by {login.mechanism}: {said}"
        )
    if isinstance(cause, UnsupportedSaslMechanismError):
        instead = f" (it offers {_one_line(', '.join(offered))})" if offered else ""
        return f"the listener at {address} does not offer {login.mechanism}{instead}"
    if isinstance(cause, IllegalSaslStateError):
        return f"the listener at {address} takes no login, and security.protocol is {security.protocol}"
    return None


def _of_network(address: str, cause: BaseException, settings: ClientSettings) -> str | None:
    protocol = settings.security.protocol
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"TLS failed with {address}: certificate verify failed: {_one_line(cause.verify_message)}"
    if isinstance(cause, ssl.SSLError):
        reason = (getattr(cause, "reason", None) or "it was broken off").replace("_", " ").lower()
        return f"TLS failed with {address}: {reason}"
    if _is_tls(cause):
        return f"the listener at {address} speaks TLS, and security.protocol is {protocol}"
    if isinstance(cause, EOFError | ConnectionResetError | BrokenPipeError):
        return (
            f"the listener at {address} closed the connection without an answer: it may speak another protocol "
            f"than {protocol}, which is our security.protocol"
        )
    if isinstance(cause, TimeoutError):
        return (
            f"{address} gave no answer within {settings.client_arguments()['request_timeout_ms'] / 1_000:g} s"
        )
    if isinstance(cause, socket.gaierror):
        return f"the host of {address} is not known: {cause.strerror}"
    if isinstance(cause, ConnectionRefusedError) or _numbers(cause) == {ConnectionRefusedError}:
        return f"nothing listens on {address}"
    if isinstance(cause, OSError):
        return f"{address} cannot be reached: {os.strerror(cause.errno) if cause.errno else _one_line(str(cause))}"
    return None


def _numbers(cause: BaseException) -> set[type[OSError]]:
    """The errors that are in one, as asyncio joins those of a host with several addresses into a text."""
    if not isinstance(cause, OSError) or cause.errno:
        return set()
    return {type(OSError(int(number), "")) for number in _ERRNO.findall(str(cause))}


def _one_line(text: str) -> str:
    """The words of a broker, or of a library, without line ends and cut."""
    return " ".join(text.split()).rstrip(".")[:SAID_MAX]


async def _offered(host: str, port: int, cause: BaseException, settings: ClientSettings) -> tuple[str, ...]:
    """The mechanisms of the listener, if it lacks ours: it is asked once more, as the library drops its answer."""
    login = settings.security.login
    if login is None or not isinstance(cause, UnsupportedSaslMechanismError):
        return ()
    arguments = settings.client_arguments()
    context = arguments.get("ssl_context")
    try:
        connection = await create_conn(
            host,
            port,
            client_id=arguments["client_id"],
            request_timeout_ms=arguments["request_timeout_ms"],
            ssl_context=context,
            security_protocol=PLAINTEXT if context is None else SSL,
        )
        try:
            answer = await connection.send(SaslHandShakeRequest(login.mechanism))
        finally:
            connection.close()
    except (OSError, KafkaError, TimeoutError):
        return ()  # That it lacks ours is known; what it has is one word more.
    return tuple(answer.enabled_mechanisms)
