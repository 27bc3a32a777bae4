"""OAUTHBEARER: the client's message, read to the byte and in linear time, and the exchange of it (S33, S34)."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.security.sasl.mechanism import Authenticated, AuthenticationFailed, Challenge
from coordinator.security.sasl.oauthbearer import (
    ClientMessage,
    NotOauthbearer,
    Oauthbearer,
    OauthbearerExchange,
    parse_client_message,
)
from coordinator.security.tokens.validated import TokenRefused, ValidToken

NOW_MS = 5
KAFKAS = re.compile(
    rb"n,(a=(?P<authzid>(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,\x01"
    rb"(?P<pairs>([A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
KAFKAS_AUTH = re.compile(rb"(\w+)[ ]+([-_~+/.a-zA-Z0-9]+=*)", re.ASCII)


class Names:
    """Takes tokens that begin with "good", whose rest is the name."""

    def validate(self, token: str, now_ms: int) -> ValidToken:
        assert now_ms == NOW_MS
        if token == "narrow":
            raise TokenRefused("narrow", missing_scope="[a, b]")
        if not token.startswith("good"):
            raise TokenRefused("bad")
        return ValidToken(token.removeprefix("good"), 77)


def message(auth: str = "Bearer goodalice", authzid: str = "", rest: str = "") -> bytes:
    return f"n,{authzid},\x01auth={auth}\x01{rest}\x01".encode()


def begun() -> OauthbearerExchange:
    return Oauthbearer(Names()).begin()


@pytest.mark.parametrize(
    ("sent", "authzid"),
    [
        (message(), ""),
        (message("bearer goodalice"), ""),
        (message("BEARER   goodalice"), ""),
        (message(rest="host=h\x01port=9\x01"), ""),
        (message(rest="traceId=a=b =\t\r\n\x01"), ""),
        (b"n,,\x01x=y\x01auth=Bearer goodalice\x01\x01", ""),
        (b"n,,\x01auth=Basic x\x01auth=Bearer goodalice\x01\x01", ""),
        (message(authzid="a=alice"), "alice"),
        (message(authzid="a=a=2Cb=3Dc"), "a=2Cb=3Dc"),
        (message(authzid="a=\x01"), "\x01"),
    ],
)
def test_messages_that_are_taken(sent: bytes, authzid: str) -> None:
    assert parse_client_message(sent) == ClientMessage(authzid, "goodalice")


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"n",
        b"n,,",
        b"n,,\x01",
        b"n,,\x01\x01",
        b"\x01",
        b"y,,\x01auth=Bearer good\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer good\x01\x01",
        b"n,\x01auth=Bearer good\x01\x01",
        b"n,,auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer good\x01",
        b"n,,\x01auth=Bearer good\x01\x01\x01",
        b"n,,\x01auth=Bearer good\x01\x01 ",
        b"n,,\x01\x01auth=Bearer good\x01\x01",
        message(authzid="a="),
        message(authzid="alice"),
        message(authzid="a=a=2cb"),
        message(authzid="a=a=b"),
        message(authzid="a=\u00e9"),
        message(authzid="a=\0"),
        message(rest="1=y\x01"),
        message(rest="x=\x01"),
        message(rest="x\x01"),
        message(rest="=y\x01"),
        message(rest="x=\u00e9\x01"),
        message(rest="auth=Basic good\x01"),
        b"n,,\x01Auth=Bearer good\x01\x01",
        b"n,,\x01x=y\x01\x01",
        message(""),
        message("Bearer"),
        message("Bearer "),
        message("Basic good"),
        message("Bearer go od"),
        message("Bearer good="[:-1] + "=a"),
        message("Bearer\tgood"),
        message(" Bearer good"),
        message("Bearer good "),
    ],
)
def test_messages_that_are_not_taken_fail_with_kafkas_general_text(sent: bytes) -> None:
    with pytest.raises(NotOauthbearer):
        parse_client_message(sent)
    with pytest.raises(AuthenticationFailed) as failed:
        begun().step(sent, NOW_MS)
    assert failed.value.text is None


PIECES = st.sampled_from(
    [
        b"n,",
        b"n",
        b",",
        b"a=",
        b"alice",
        b"=2C",
        b"\x01",
        b"auth=",
        b"Bearer ",
        b"good",
        b"x=y",
        b"=",
        b"\xff",
        b" ",
    ]
)


@settings(max_examples=2000, deadline=None)
@given(st.lists(PIECES, max_size=14).map(b"".join))
def test_the_parser_takes_what_kafkas_expressions_take(sent: bytes) -> None:
    """But for a scheme other than Bearer, at which it hangs up."""
    matched = KAFKAS.fullmatch(sent)
    pairs = [] if matched is None else [each for each in matched["pairs"].split(b"\x01") if each]
    tokens = [each.removeprefix(b"auth=") for each in pairs if each.startswith(b"auth=")]
    auth = KAFKAS_AUTH.fullmatch(tokens[-1]) if tokens else None
    try:
        taken = parse_client_message(sent)
    except NotOauthbearer:
        assert auth is None or auth[1].lower() != b"bearer"
    else:
        assert matched is not None
        assert auth is not None
        assert taken == ClientMessage((matched["authzid"] or b"").decode(), auth[2].decode())


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_fail(sent: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        begun().step(sent, NOW_MS)


@pytest.mark.parametrize(
    "sent",
    [
        b"n,,\x01" + b"x=y\x01" * 130_000,
        b"n,,\x01" + b"x" * 520_000,
        b"n,,\x01auth=" + b" " * 520_000 + b"\x01\x01",
        b"n,,\x01auth=" + b"B " * 260_000 + b"\x01\x01",
        b"n,,\x01auth=Bearer " + b"=" * 520_000 + b"\x01\x01",
        b"n,,\x01auth=Bearer " + b"a=" * 260_000 + b"\x01\x01",
        b"n,a=" + b"=2C" * 170_000 + b",\x01\x01",
        b"n,a=" + b"=" * 520_000,
        b"," * 520_000,
    ],
    ids=["pairs", "name", "blanks", "schemes", "padding", "mixed", "escapes", "equals", "commas"],
)
def test_half_a_megabyte_takes_milliseconds(sent: bytes) -> None:
    """A parser that is not linear would take minutes; Kafka's own expressions overflow the stack."""
    began = time.process_time()
    with pytest.raises(NotOauthbearer):
        parse_client_message(sent)
    assert time.process_time() - began < 0.5


def test_a_token_that_is_good_is_a_name_for_as_long_as_it_lasts() -> None:
    assert begun().step(message(), NOW_MS) == Authenticated("alice", b"", 77)
    assert begun().step(message(authzid="a=alice"), NOW_MS) == Authenticated("alice", b"", 77)


@pytest.mark.parametrize(
    ("token", "answer"),
    [
        ("bad", '{"status":"invalid_token"}'),
        ("narrow", '{"status":"insufficient_scope", "scope":"[a, b]"}'),
    ],
)
def test_a_token_that_is_refused_is_answered_and_fails_at_the_clients_farewell(
    token: str, answer: str
) -> None:
    exchange = begun()
    assert exchange.step(message(f"Bearer {token}"), NOW_MS) == Challenge(answer.encode())
    with pytest.raises(AuthenticationFailed) as failed:
        exchange.step(b"\x01", NOW_MS)
    assert failed.value.text == answer
    assert token in str(failed.value), "the reason, which is the validator's"


def test_after_a_refusal_another_token_counts_and_the_farewell_no_more() -> None:
    exchange = begun()
    exchange.step(message("Bearer bad"), NOW_MS)
    assert exchange.step(message(), NOW_MS) == Authenticated("alice", b"", 77)
    exchange = begun()
    exchange.step(message("Bearer bad"), NOW_MS)
    with pytest.raises(AuthenticationFailed):
        exchange.step(b"garbage", NOW_MS)
    with pytest.raises(AuthenticationFailed) as failed:
        exchange.step(b"\x01", NOW_MS)
    assert failed.value.text is None


def test_another_authorization_id_is_refused_with_kafkas_text() -> None:
    with pytest.raises(AuthenticationFailed) as failed:
        begun().step(message(authzid="a=bob"), NOW_MS)
    assert failed.value.text == (
        "Authentication failed: Client requested an authorization id (bob) that is different from the token's "
        "principal name (alice)"
    )
    with pytest.raises(AuthenticationFailed) as failed:
        begun().step(message(authzid="a=" + "b" * 40_000), NOW_MS)
    assert failed.value.text is None, "no answer of old versions could hold it"
