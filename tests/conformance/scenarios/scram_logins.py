"""Logins by SCRAM by raw frames: which messages are taken, and what the others are answered (S17 to S26)."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, Final

from coordinator.security.scram_credentials import BY_NAME, MECHANISMS, SCRAM_SHA_256, ScramMechanism
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.conformance.connection import Connection
from tests.conformance.logins import AUTHENTICATE_VERSION, HANDSHAKE_VERSION
from tests.conformance.registry import scenario
from tests.conformance.run import CLOSED, Asked, Run
from tests.conformance.scenarios.logins import ask, handshake, is_closed
from tests.conformance.scenarios.scram_users import until_there
from tests.conformance.secured import SECURED
from tests.conformance.topic_scenes import quietly

SALT: Final = b"salt"
NONCE: Final = "fyko"


def upsertion(name: str, mechanism: ScramMechanism, password: str) -> ScramCredentialUpsertion:
    salted = mechanism.salted_password(password.encode(), SALT, 4096)
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism.number, iterations=4096, salt=SALT, salted_password=salted
    )


async def make(
    run: Run, name: str, mechanism: ScramMechanism = SCRAM_SHA_256, password: str = "pencil"
) -> None:
    """Make a user over the plain listener; returns once a login finds it."""
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion(name, mechanism, password)])
    reply = await quietly(run, request, 0)
    assert [each.error_code for each in reply.results] == [0], reply
    await until_there(run, name, 1)


async def remove(run: Run, name: str, mechanism: ScramMechanism = SCRAM_SHA_256) -> None:
    gone = ScramCredentialDeletion(name=name, mechanism=mechanism.number)
    await quietly(run, AlterUserScramCredentialsRequest(deletions=[gone]), 0)


def proof_for(mechanism: ScramMechanism, signed: bytes, password: str = "pencil") -> bytes:
    salted = mechanism.salted_password(password.encode(), SALT, 4096)
    client_key = mechanism.hmac(salted, b"Client Key")
    signature = mechanism.hmac(mechanism.hash(client_key), signed)
    return bytes(a ^ b for a, b in zip(client_key, signature, strict=True))


class ScramLogin:
    """One login on a new connection of the SASL listener, token by token."""

    def __init__(self, run: Run, connection: Connection, mechanism: ScramMechanism) -> None:
        self._run = run
        self.connection = connection
        self._mechanism = mechanism
        self._challenge = b""

    @classmethod
    async def begun(cls, run: Run, mechanism: ScramMechanism = SCRAM_SHA_256) -> ScramLogin:
        connection = await run.stranger()
        reply = await connection.send(handshake(mechanism.name), HANDSHAKE_VERSION)
        assert reply.error_code == ErrorCode.NONE, reply
        return cls(run, connection, mechanism)

    async def send(self, token: bytes, what: str) -> Any:
        """Send a token; enter what comes, with the server's part of the nonce and what depends on it taken out."""
        request = SaslAuthenticateRequest(auth_bytes=token)
        asked = self.connection.send(request, AUTHENTICATE_VERSION)
        reply = await Asked(what, request, asked).reply
        if reply == CLOSED:
            self._run.saw(what, CLOSED)
            return reply
        self._challenge = bytes(reply.auth_bytes)
        shown = re.sub(rb"(r=" + NONCE.encode() + rb")[0-9a-z]{20,26}(?=,)", rb"\1(nonce)", self._challenge)
        shown = re.sub(rb"^v=[A-Za-z0-9+/]+=*$", b"(signature)", shown)
        self._run.saw(what, [reply.error_code, reply.error_message, shown, reply.session_lifetime_ms])
        return reply

    async def first(self, token: str) -> Any:
        return await self.send(token.encode(), f"first: {token[:60]!r}")

    def final(
        self, signed_first: str, channel: bytes = b"biws", signed: bytes = b"biws", password: str = "pencil"
    ) -> bytes:
        nonce = self._challenge.partition(b",")[0]
        to_sign = b",".join((signed_first.encode(), self._challenge, b"c=" + signed, nonce))
        proof = proof_for(self._mechanism, to_sign, password)
        return b"c=%b,%b,p=%b" % (channel, nonce, b64encode(proof))


async def is_in(run: Run, connection: Connection) -> None:
    """A client that is in is served: its next handshake is refused, and nothing closes (S10)."""
    reply = await ask(run, connection, handshake(), HANDSHAKE_VERSION, "when it is in")
    run.expect(reply != CLOSED, "it is served")
    connection.close()


@scenario("security S17", "security S20", "security S22", on=SECURED)
async def a_user_logs_in_by_each_mechanism(run: Run) -> None:
    for mechanism in MECHANISMS:
        name = f"user of {run.name} {mechanism.name}"
        await make(run, name, mechanism)
        login = await ScramLogin.begun(run, mechanism)
        await login.first(f"n,,n={name},r={NONCE}")
        reply = await login.send(login.final(f"n={name},r={NONCE}"), "final")
        run.expect(reply.error_code == ErrorCode.NONE, "it is in")
        await is_in(run, login.connection)
        other = next(each for each in BY_NAME.values() if each != mechanism)
        refused = await ScramLogin.begun(run, other)
        await refused.first(f"n,,n={name},r={NONCE}")
        await is_closed(run, refused.connection)
        await remove(run, name, mechanism)


FIRSTS: Final = {
    "n,,n={name},r=fyko": "n={name},r=fyko",
    "n,a={name},n={name},r=fyko": "n={name},r=fyko",
    "n,,m=later,n={name},r=fyko": "n={name},r=fyko",
    "n,,n={name},r=fyko,x=y": "n={name},r=fyko,x=y",
    "n,,n={name},r=fyko,tokenauth=false": "n={name},r=fyko,tokenauth=false",
    "n,,n={name},r=fyko,tokenauth=true": None,
    "n,,n={name},r=fyko,tokenauth=false,tokenauth=True": None,
    "n,a=other,n={name},r=fyko": None,
    "n,a=other,n=nobody,r=fyko": None,
    "n,,n=nobody,r=fyko": None,
    "n,,n=,r=fyko": None,
    "n,a=,n={name},r=fyko": None,
    "y,,n={name},r=fyko": None,
    "p=tls-unique,,n={name},r=fyko": None,
    "n,n={name},r=fyko": None,
    "n,,n={name}": None,
    "n,,n={name},r=": None,
    "n,,n={name},r=fyko,": None,
    "n,,n={name},r=fyko,x": None,
    "n,,n={name},r=fyko,x=": None,
    "n,,n={name},r=fyko,1=y": None,
    "n,,n=a=b,r=fyko": None,
    "n,,n=a=2c,r=fyko": None,
    "n,,n={name},r=fy ko": None,
    "n,,n=\u00e9,r=fyko": None,
    "n,,r=fyko,n={name}": None,
    "N,,n={name},r=fyko": None,
    "c=biws,r=fyko,p=": None,
    "": None,
}
"""First messages, and of those that are taken what is signed of them."""


@scenario("security S17", "security S18", "security S19", "security S24", on=SECURED)
async def first_messages_are_taken_or_not(run: Run) -> None:
    """Those that are taken lead to a login; the last of two extensions of one name counts."""
    name = f"user-of-{run.name}"
    await make(run, name)
    for first, signed in FIRSTS.items():
        login = await ScramLogin.begun(run)
        await login.first(first.format(name=name))
        if signed is None:
            await is_closed(run, login.connection)
        else:
            await login.send(login.final(signed.format(name=name)), "final")
            await is_in(run, login.connection)
    await remove(run, name)


@scenario("security S17", "security S19", on=SECURED)
async def names_are_escaped(run: Run) -> None:
    """Commas and equals signs; an authorization id is compared as it is written, so one with these never fits."""
    name = f"a,b=c of {run.name}"
    written = name.replace("=", "=3D").replace(",", "=2C")
    await make(run, name)
    for authzid, is_taken in (("", True), (f"a={written}", False)):
        login = await ScramLogin.begun(run)
        await login.first(f"n,{authzid},n={written},r={NONCE}")
        if is_taken:
            await login.send(login.final(f"n={written},r={NONCE}"), "final")
            await is_in(run, login.connection)
        else:
            await is_closed(run, login.connection)
    await remove(run, name)


def parts(final: bytes) -> tuple[bytes, bytes]:
    before, _, proof = final.rpartition(b",p=")
    return before, b64decode(proof)


@scenario("security S21", "security S22", "security S23", on=SECURED)
async def final_messages_are_taken_or_not(run: Run) -> None:
    """Of the right length: what Kafka does with other proofs is to hang up (a slip)."""
    name = f"user-of-{run.name}"
    signed = f"n={name},r={NONCE}"
    await make(run, name)
    altered: dict[str, tuple[Callable[[ScramLogin], bytes], bool]] = {
        "as it is": (lambda login: login.final(signed), True),
        "another channel": (lambda login: login.final(signed, b"eSws", b"eSws"), True),
        "no channel": (lambda login: login.final(signed, b"", b""), True),
        "a channel with bits that do not count": (lambda login: login.final(signed, b"QR==", b"QQ=="), True),
        "a channel with bits that do not count, signed": (
            lambda login: login.final(signed, b"QR==", b"QR=="),
            False,
        ),
        "an extension": (lambda login: login.final(signed).replace(b",p=", b",x=y,p="), True),
        "an extension called p": (lambda login: login.final(signed).replace(b",p=", b",p=y,p="), True),
        "an empty extension": (lambda login: login.final(signed).replace(b",p=", b",x=,p="), False),
        "a wrong password": (lambda login: login.final(signed, password="pen"), False),
        "a password in other letters": (lambda login: login.final(signed, password="Pencil"), False),
        "a channel that is no base64": (lambda login: login.final(signed, b"biw"), False),
        "half of the nonce": (lambda login: re.sub(rb",r=fyko\w+", b",r=fyko", login.final(signed)), False),
        "zeros": (lambda login: parts(login.final(signed))[0] + b",p=" + b64encode(bytes(32)), False),
        "nothing": (lambda _: b"", False),
        "the first again": (lambda _: f"n,,{signed}".encode(), False),
        "no proof field": (lambda login: parts(login.final(signed))[0], False),
    }
    for what, (final, is_taken) in altered.items():
        login = await ScramLogin.begun(run)
        await login.first(f"n,,{signed}")
        await login.send(final(login), what)
        await (is_in if is_taken else is_closed)(run, login.connection)
    await remove(run, name)


@scenario("security S26", on=SECURED)
async def a_changed_password_counts_from_the_next_login_on(run: Run) -> None:
    """And ends no session, nor does the end of the user."""
    name = f"user-of-{run.name}"
    signed = f"n={name},r={NONCE}"
    await make(run, name)
    login = await ScramLogin.begun(run)
    await login.first(f"n,,{signed}")
    await login.send(login.final(signed), "final")
    await make(run, name, password="another")
    await logged_in_with(run, name, "another")
    for password in ("another", "pencil"):
        next_login = await ScramLogin.begun(run)
        await next_login.first(f"n,,{signed}")
        await next_login.send(next_login.final(signed, password=password), f"with {password}")
    await remove(run, name)
    await is_in(run, login.connection)


async def logged_in_with(run: Run, name: str, password: str) -> None:
    """Wait until the broker knows the password: Kafka's learns of it after the answer."""
    signed = f"n={name},r={NONCE}"
    for _ in range(100):
        connection = await run.stranger()
        await connection.send(handshake(SCRAM_SHA_256.name), HANDSHAKE_VERSION)
        request = SaslAuthenticateRequest(auth_bytes=f"n,,{signed}".encode())
        challenge = bytes((await connection.send(request, AUTHENTICATE_VERSION)).auth_bytes)
        nonce = challenge.partition(b",")[0]
        to_sign = b",".join((signed.encode(), challenge, b"c=biws", nonce))
        proof = b64encode(proof_for(SCRAM_SHA_256, to_sign, password))
        request = SaslAuthenticateRequest(auth_bytes=b"c=biws,%b,p=%b" % (nonce, proof))
        reply = await connection.send(request, AUTHENTICATE_VERSION)
        connection.close()
        if reply != CLOSED and reply.error_code == ErrorCode.NONE:
            return
    raise TimeoutError(f"{name} cannot log in with the new password")
