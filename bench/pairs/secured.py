"""What secured scenarios have in common: a listener with SASL_SSL of both kinds of servers, and loads that log in.

Groups join over the plain listener: who is a member does not depend on the connection. The load itself goes over
connections of TLS 1.3 that have logged in by SCRAM-SHA-256, new ones in each round.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import pbkdf2_hmac, sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.pairs import generator
from bench.pairs.frames import CLIENT_ID, CORRELATION_ID
from bench.pairs.generator import GeneratedLoad, Login
from bench.pairs.lanes import Lane, LoadError, connect_all
from bench.pairs.plan import Plan
from bench.pairs.storms import contending
from harness.processes import ServerProcess
from harness.secured import Certificates
from harness.wire import WireClient
from protocol.framing import encode_request
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest

LISTENER: Final = "TLS"
LISTENERS: Final = {LISTENER: "SASL_SSL"}
MECHANISM: Final = "SCRAM-SHA-256"
SHA_256: Final = 1
"""Number of the mechanism in the API that makes users."""
ITERATIONS: Final = (
    4_096  # The fewest that are allowed: clients derive their keys once, and servers store them.
)
MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
USER: Final = "bench"
LOGIN_VERSION: Final = 1
"""Of both requests of a login: the newest without tagged fields, which `secure.c` can fill in."""
ALTER_VERSION: Final = 0
GS2_HEADER: Final = b"n,,"
SIZE_BYTES: Final = 4

CONDITIONS: Final = (
    "TLS 1.3 with a key on P-256, a login by SCRAM-SHA-256; connections are new in each round, and log in before "
    "the clock starts."
)


@dataclass(frozen=True, slots=True)
class User:
    """One who logs in."""

    salt: bytes
    password: str = field(repr=False)

    @property
    def salted_password(self) -> bytes:
        return pbkdf2_hmac("sha256", self.password.encode(), self.salt, ITERATIONS)

    @property
    def keys(self) -> bytes:
        """The client's key, the stored key and the server's (RFC 5802, 3)."""
        salted = self.salted_password
        client_key = hmac.digest(salted, b"Client Key", sha256)
        server_key = hmac.digest(salted, b"Server Key", sha256)
        return client_key + sha256(client_key).digest() + server_key

    def store(self, server: ServerProcess) -> None:
        """Make the user known to the server, over its plain listener."""
        made = ScramCredentialUpsertion(
            name=USER,
            mechanism=SHA_256,
            iterations=ITERATIONS,
            salt=self.salt,
            salted_password=self.salted_password,
        )
        with WireClient(server.bootstrap) as client:
            request = AlterUserScramCredentialsRequest(upsertions=[made])
            (result,) = client.ask(request, ALTER_VERSION).results
        if result.error_code:
            raise LoadError(f"{server}: the user was refused: {result.error_message}")


@cache
def user() -> User:
    return User(os.urandom(16), os.urandom(16).hex())


@cache
def keys() -> bytes:
    """Those of the user, derived once, as a client keeps them."""
    return user().keys


@cache
def _folder() -> TemporaryDirectory[str]:
    """Goes when the process ends."""
    return TemporaryDirectory(prefix="bench-certificates-")


@cache
def certificates() -> Certificates:
    """Those of all servers of this process."""
    return Certificates(Path(_folder().name))


def secured(plan: Plan) -> Plan:
    """The same with a listener for SASL_SSL on each server."""
    name = f"listener.name.{LISTENER.lower()}"
    settings = {
        f"{name}.ssl.keystore.type": "PEM",
        f"{name}.ssl.keystore.location": str(certificates().server),
        f"{name}.sasl.enabled.mechanisms": MECHANISM,
        f"{name}.{MECHANISM.lower()}.sasl.jaas.config": f"{MODULE} required;",
    }
    return replace(plan, listeners=LISTENERS, security=settings)


@contextmanager
def contending_secured(plan: Plan, overrides: Mapping[str, str]) -> Iterator[dict[str, ServerProcess]]:
    """Every build and Kafka, all up at once, with a listener for SASL_SSL and its user."""
    with contending(secured(plan), overrides) as servers:
        for server in servers.values():
            user().store(server)
        yield servers


def login() -> Login:
    """How the generator's connections log in. Their part of the nonce is the same for all, the server's is not."""
    bare = f"n={USER},r={os.urandom(12).hex()}".encode()
    handshake = SaslHandshakeRequest(mechanism=MECHANISM)
    return Login(
        str(certificates().authority).encode(),
        encode_request(handshake, LOGIN_VERSION, CORRELATION_ID, CLIENT_ID),
        _authenticate(GS2_HEADER + bare),
        _authenticate(b"")[:-SIZE_BYTES],
        bare,
        keys(),
    )


def _authenticate(token: bytes) -> bytes:
    return encode_request(SaslAuthenticateRequest(auth_bytes=token), LOGIN_VERSION, CORRELATION_ID, CLIENT_ID)


def for_librdkafka(server: ServerProcess) -> dict[str, str]:
    """The settings of a client of librdkafka that logs in."""
    return {
        "bootstrap.servers": server.bootstrap_of(LISTENER),
        "security.protocol": LISTENERS[LISTENER],
        "ssl.ca.location": str(certificates().authority),
        "sasl.mechanisms": MECHANISM,
        "sasl.username": USER,
        "sasl.password": user().password,
    }


@dataclass(frozen=True, slots=True)
class SecuredRun:
    """Loads `server` with the frames of lanes over connections to its listener for SASL_SSL: a `rounds.Run`."""

    server: ServerProcess

    def __call__(self, lanes: Sequence[Lane], seconds: float, pid: int, in_flight: int) -> GeneratedLoad:
        with encrypted(self.server, lanes) as fresh:
            return generator.run(fresh, seconds, pid, in_flight, login=login())


def tls_port(server: ServerProcess) -> int:
    """The port of the listener for SASL_SSL."""
    return int(server.bootstrap_of(LISTENER).rpartition(":")[2])


def encrypted(server: ServerProcess, lanes: Sequence[Lane]) -> AbstractContextManager[list[Lane]]:
    """The same lanes on new connections to the listener for SASL_SSL, on which nothing was sent yet."""
    return connected(tls_port(server), lanes)


@contextmanager
def connected(port: int, lanes: Sequence[Lane]) -> Iterator[list[Lane]]:
    """The same lanes on new connections, which are closed at the end."""
    connections = connect_all(port, len(lanes))
    try:
        yield [replace(lane, socket=each) for lane, each in zip(lanes, connections, strict=True)]
    finally:
        for connection in connections:
            connection.close()
