"""Logins by OAUTHBEARER by raw frames: which messages and tokens are taken, and what the others are answered."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from typing import Any, Final

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.conformance.connection import Connection
from tests.conformance.logins import AUTHENTICATE_VERSION, HANDSHAKE_VERSION
from tests.conformance.registry import scenario
from tests.conformance.run import CLOSED, Run
from tests.conformance.scenarios.logins import is_closed
from tests.conformance.secured import SASL_LISTENER, SECURED
from tests.conformance.tokens import (
    KEY_ID,
    OAUTHBEARER,
    TOKENS_LISTENER,
    claims,
    encoded,
    private_key,
    signed,
    unsecured,
)

NONE: Final = {"alg": "none"}
INVALID: Final = b'{"status":"invalid_token"}'
FAREWELL: Final = b"\x01"


def message(token: str, authzid: str = "", rest: str = "") -> bytes:
    return f"n,{authzid},\x01auth=Bearer {token}\x01{rest}\x01".encode()


async def begun(run: Run, *, is_unsecured: bool = False) -> Connection:
    """A connection on which OAUTHBEARER was named."""
    connection = await run.stranger(listener=TOKENS_LISTENER if is_unsecured else SASL_LISTENER)
    reply = await connection.send(SaslHandshakeRequest(mechanism=OAUTHBEARER), HANDSHAKE_VERSION)
    assert reply.error_code == ErrorCode.NONE, reply
    return connection


async def answer(connection: Connection, request: Any, version: int) -> Any:
    """The answer, or CLOSED."""
    try:
        return await connection.send(request, version)
    except ConnectionError:
        return CLOSED


async def send(run: Run, connection: Connection, token: bytes, what: str) -> Any:
    """Send a token; enter what comes, of the lifetime only whether there is one."""
    request = SaslAuthenticateRequest(auth_bytes=token)
    reply = await answer(connection, request, AUTHENTICATE_VERSION)
    shown: Any = CLOSED
    if reply != CLOSED:
        has_lifetime = reply.session_lifetime_ms > 0
        shown = [reply.error_code, reply.error_message, bytes(reply.auth_bytes), has_lifetime]
    run.saw(what, shown)
    return reply


async def is_in(run: Run, connection: Connection) -> None:
    reply = await answer(connection, MetadataRequest(topics=[]), 12)
    run.expect(reply != CLOSED and reply.brokers != [], "it is served")
    connection.close()


async def shown(run: Run, token: bytes, what: str, is_taken: bool, *, is_unsecured: bool = False) -> None:
    """Show one token on a connection of its own: it is in, or its refusal is ended by the client's farewell."""
    connection = await begun(run, is_unsecured=is_unsecured)
    reply = await send(run, connection, token, what)
    if is_taken:
        run.expect(reply != CLOSED and not reply.error_code and not reply.auth_bytes, f"{what}: it is in")
        await is_in(run, connection)
        return
    if reply != CLOSED and not reply.error_code:
        run.expect(bytes(reply.auth_bytes).startswith(b"{"), f"{what}: it is refused")
        await send(run, connection, FAREWELL, f"{what}, farewell")
    await is_closed(run, connection)


@scenario("security S33", "security S34", on=SECURED)
async def messages_are_taken_or_not(run: Run) -> None:
    """Not compared: a scheme other than Bearer, at which Kafka hangs up."""
    good = unsecured(claims(), NONE)
    messages: dict[str, tuple[bytes, bool]] = {
        "as it is": (message(good), True),
        "another case": (message(good).replace(b"Bearer", b"bEARER"), True),
        "many blanks": (message(good).replace(b"Bearer", b"Bearer    "), True),
        "extensions": (message(good, rest="host=h=1\x01port=9\x01"), True),
        "extensions ahead": (message(good).replace(b"\x01auth", b"\x01traceId=1\x01auth"), True),
        "its own authzid": (message(good, "a=alice"), True),
        "another authzid": (message(good, "a=bob"), False),
        "an authzid in other letters": (message(good, "a=Alice"), False),
        "an escaped authzid": (message(good, "a=a=2Cb"), False),
        "a stray escape": (message(good, "a=a=2c"), False),
        "an empty authzid": (message(good, "a="), False),
        "no header": (message(good)[3:], False),
        "channel binding": (message(good).replace(b"n,", b"y,", 1), False),
        "no token": (b"n,,\x01host=h\x01\x01", False),
        "no separator at the end": (message(good)[:-1], False),
        "more behind the end": (message(good) + b"\x01", False),
        "a name with a digit": (message(good, rest="x1=y\x01"), False),
        "an empty value": (message(good, rest="x=\x01"), False),
        "no value": (message(good, rest="x\x01"), False),
        "no ASCII": (message(good, rest="x=\u00e9\x01"), False),
        "a token with a blank": (message(f"{good} x"), False),
        "two tokens": (message("a.b.c", rest=f"auth=Bearer {good}\x01"), True),
        "two tokens, the first good": (message(good, rest="auth=Bearer a.b.c\x01"), False),
        "nothing": (b"", False),
        "the farewell first": (FAREWELL, False),
    }
    for what, (sent, is_taken) in messages.items():
        await shown(run, sent, what, is_taken, is_unsecured=True)


@scenario("security S34", on=SECURED)
async def after_a_refusal_another_token_counts(run: Run) -> None:
    connection = await begun(run, is_unsecured=True)
    await send(run, connection, message("a.b.c"), "a bad token")
    await send(run, connection, message(unsecured(claims(), NONE)), "a good one")
    await is_in(run, connection)
    connection = await begun(run, is_unsecured=True)
    await send(run, connection, message("a.b.c"), "a bad token")
    await send(run, connection, b"garbage", "garbage")
    await is_closed(run, connection)


@scenario("security S35", on=SECURED)
async def unsecured_tokens_are_taken_or_not(run: Run) -> None:
    """Those that end in an exception of Kafka's own, as without any alg, are not compared."""
    now_s = int(time.time())
    tokens: dict[str, tuple[str, bool]] = {
        "good": (unsecured(claims(), NONE), True),
        "without iat": (unsecured(claims(iat=None), NONE), True),
        "a fraction": (unsecured(claims(exp=now_s + 600.5), NONE), True),
        "scopes in another order": (unsecured(claims(scope=["b", "a", "c"]), NONE), True),
        "one scope of two": (unsecured(claims(scope=["a"]), NONE), False),
        "scopes as a text": (unsecured(claims(scope="a b"), NONE), False),
        "no scope": (unsecured(claims(scope=None), NONE), False),
        "without exp": (unsecured(claims(exp=None), NONE), False),
        "without sub": (unsecured(claims(sub=None), NONE), False),
        "a blank sub": (unsecured(claims(sub=" "), NONE), False),
        "a sub that is a number": (unsecured(claims(sub=5), NONE), False),
        "expired": (unsecured(claims(exp=now_s - 1), NONE), False),
        "issued in the future": (unsecured(claims(iat=now_s + 60), NONE), False),
        "an exp that is a text": (unsecured(claims(exp=str(now_s + 600)), NONE), False),
        "signed": (unsecured(claims(), NONE, "AAAA"), False),
        "with an algorithm": (unsecured(claims(), {"alg": "HS256"}), False),
        "None": (unsecured(claims(), {"alg": "None"}), False),
        "a signed one": (signed(claims()), False),
        "two parts": ("e30.e30", False),
        "four parts": ("e30.e30.e30.e30", False),
        "no base64": ("e30=.e30", False),
        "no JSON": (unsecured(b"{", NONE), False),
    }
    for what, (token, is_taken) in tokens.items():
        await shown(run, message(token), what, is_taken, is_unsecured=True)


def forged() -> dict[str, str]:
    """Tokens that are not the issuer's."""
    good = signed(claims())
    header, _, signature = good.split(".")
    key = private_key().public_key()
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    text = f"{encoded({'alg': 'HS256', 'kid': KEY_ID})}.{encoded(claims())}"
    double = json.dumps(claims()).replace('"sub"', '"sub": "admin", "sub"').encode()
    return {
        "none": unsecured(claims(), NONE),
        "none with the key's id": unsecured(claims(), {**NONE, "kid": KEY_ID}, "AAAA"),
        "HS256 with the public key": f"{text}.{encoded(hmac.digest(pem, text.encode(), 'sha256'))}",
        "other claims": f"{header}.{encoded(claims(sub='admin'))}.{signature}",
        "no signature": f"{header}.{encoded(claims())}.",
        "half a signature": good[:-100],
        "a critical header": signed(claims(), crit=["exp"]),
        "a key that is not known": signed(claims(), kid="other"),
        "a path": signed(claims(), kid="../../../../etc/passwd"),
        "double claims": signed(double),
        "claims that are said to be a token": signed(claims(), cty="JWT"),
        "nested JSON": signed(b"[" * 10_000),
    }


@scenario("security S37", "security S38", "security F7", on=SECURED)
async def forged_tokens_are_refused(run: Run) -> None:
    for what, token in forged().items():
        await shown(run, message(token), what, False)


@scenario("security S37", on=SECURED)
async def signed_tokens_are_taken_or_not(run: Run) -> None:
    now_s = int(time.time())
    tokens: dict[str, tuple[str, bool]] = {
        "good": (signed(claims()), True),
        "RS512": (signed(claims(), "RS512"), True),
        "PS256": (signed(claims(), "PS256"), True),
        "with a key that it brings": (
            signed(claims(), jku="http://127.0.0.1:1/", x5u="http://127.0.0.1:1/"),
            True,
        ),
        "without kid": (signed(claims(), kid=None), True),
        "audiences": (signed(claims(aud=["x", "brokers"])), True),
        "blanks about the name": (signed(claims(sub=" alice ")), True),
        "in its grace": (signed(claims(exp=now_s - 10)), True),
        "nbf in its grace": (signed(claims(nbf=now_s + 15)), True),
        "issued in the future": (signed(claims(iat=now_s + 100)), True),
        "an empty list of scopes": (signed(claims(scope=[])), True),
        "exp at iat": (signed(claims(iat=now_s + 600, exp=now_s + 600)), True),
        "expired": (signed(claims(exp=now_s - 90)), False),
        "expired before it was issued": (signed(claims(iat=now_s + 700)), False),
        "not yet valid": (signed(claims(nbf=now_s + 100)), False),
        "without exp": (signed(claims(exp=None)), False),
        "without iat": (signed(claims(iat=None)), False),
        "without sub": (signed(claims(sub=None)), False),
        "a blank sub": (signed(claims(sub=" ")), False),
        "a sub that is a number": (signed(claims(sub=5)), False),
        "an exp that is a text": (signed(claims(exp="2000000000")), False),
        "another issuer": (signed(claims(iss="https://other.example")), False),
        "no issuer": (signed(claims(iss=None)), False),
        "another audience": (signed(claims(aud="others")), False),
        "no audience": (signed(claims(aud=None)), False),
        "a scope twice": (signed(claims(scope=["a", "a"])), False),
        "an empty scope": (signed(claims(scope="")), False),
    }
    for what, (token, is_taken) in tokens.items():
        connection = await begun(run)
        reply = await send(run, connection, message(token), what)
        run.expect(reply != CLOSED and bool(reply.auth_bytes) != is_taken, what)
        connection.close()


@scenario("security S37", "security S39", on=SECURED)
async def a_session_ends_with_its_token(run: Run) -> None:
    """At once if the token is in its grace, of which the client is not told."""
    over = await begun(run)
    await send(run, over, message(signed(claims(exp=int(time.time()) - 5))), "in its grace")
    await is_closed_by_a_request(run, over)
    connection = await begun(run)
    await send(run, connection, message(signed(claims(exp=int(time.time()) + 3))), "three seconds")
    await is_closed_by_a_request(run, connection)


async def is_closed_by_a_request(run: Run, connection: Connection) -> None:
    ending = time.monotonic() + 30
    while (reply := await answer(connection, MetadataRequest(topics=[]), 12)) != CLOSED:
        if time.monotonic() > ending:
            break
        await asyncio.sleep(0.05)
    run.expect(reply == CLOSED, "a request after the end is closed")
    connection.close()
