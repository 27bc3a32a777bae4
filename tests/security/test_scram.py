"""SCRAM on the server's side by plain calls: RFC 7677's vector, scramp as client, Kafka's ways (S17 to S26)."""

from __future__ import annotations

import re
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scramp import ScramClient

from coordinator.security.sasl.mechanism import Authenticated, AuthenticationFailed, Challenge
from coordinator.security.sasl.scram import OTHER_AUTHORIZATION_ID, Scram, ScramExchange
from coordinator.security.scram_credentials import (
    MECHANISMS,
    SCRAM_SHA_256,
    ScramCredential,
    ScramMechanism,
    base_36,
    decoy,
)
from coordinator.security.scram_users import random_letters

NOW_MS = 1_700_000_000_000
SALT = b"a salt of Kafka's size 123"
GENERAL = None
"""The text of failures of which a client learns no more than Kafka's general sentence (S8)."""


def credential(
    mechanism: ScramMechanism, password: str = "pencil", salt: bytes = SALT, iterations: int = 4096
) -> ScramCredential:
    salted = mechanism.salted_password(password.encode(), salt, iterations)
    return ScramCredential.of(mechanism, salted, salt, iterations)


def server(
    users: Mapping[str, ScramCredential],
    mechanism: ScramMechanism = SCRAM_SHA_256,
    new_nonce: Callable[[], bytes] = random_letters,
) -> Scram:
    return Scram(mechanism, users.get, new_nonce)


class Client:
    """The client's side by hand, to say what no library would."""

    def __init__(self, mechanism: ScramMechanism = SCRAM_SHA_256, password: str = "pencil") -> None:
        self.mechanism = mechanism
        self.password = password.encode()

    def final(
        self,
        signed_first: bytes,
        challenge: bytes,
        channel: bytes = b"biws",
        signed_channel: bytes = b"biws",
        nonce: bytes | None = None,
    ) -> bytes:
        """The last message, without extensions, for `signed_first`, the part of the first that is signed."""
        fields = dict(part.split(b"=", 1) for part in challenge.split(b","))
        nonce = nonce or fields[b"r"]
        salted = self.mechanism.salted_password(self.password, b64decode(fields[b"s"]), int(fields[b"i"]))
        client_key = self.mechanism.hmac(salted, b"Client Key")
        signed = b",".join((signed_first, challenge, b"c=" + signed_channel, b"r=" + nonce))
        signature = self.mechanism.hmac(self.mechanism.hash(client_key), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return b"c=%b,r=%b,p=%b" % (channel, nonce, b64encode(proof))


def challenge_of(exchange: ScramExchange, token: bytes) -> bytes:
    answer = exchange.step(token, NOW_MS)
    assert isinstance(answer, Challenge)
    return answer.token


def failure(exchange: ScramExchange, token: bytes) -> AuthenticationFailed:
    with pytest.raises(AuthenticationFailed) as raised:
        exchange.step(token, NOW_MS)
    return raised.value


def test_the_vector_of_rfc_7677() -> None:
    """Byte for byte, with the nonce of the RFC in the place of chance (S25)."""
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    users = {"user": credential(SCRAM_SHA_256, salt=salt)}
    exchange = server(users, new_nonce=lambda: b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0").begin()
    nonce = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    challenge = exchange.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", NOW_MS)
    assert challenge == Challenge(b"r=" + nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    final = b"c=biws,r=" + nonce + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    verifier = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert exchange.step(final, NOW_MS) == Authenticated("user", verifier)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: each.name)
@pytest.mark.parametrize("name", ["alice", "a,b=c", "=2C", "=3D2C", "User", "a b"])
def test_another_implementation_logs_in(mechanism: ScramMechanism, name: str) -> None:
    """scramp also checks that the server has the keys, by its last answer."""
    exchange = server({name: credential(mechanism, iterations=5000)}, mechanism).begin()
    client = ScramClient([mechanism.name], name, "pencil")
    client.set_server_first(challenge_of(exchange, client.get_client_first().encode()).decode())
    answer = exchange.step(client.get_client_final().encode(), NOW_MS)
    assert isinstance(answer, Authenticated)
    assert (answer.name, answer.expires_at_ms) == (name, None)
    client.set_server_final(answer.token.decode())


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: each.name)
def test_a_wrong_password_fails_at_the_last_token(mechanism: ScramMechanism) -> None:
    exchange = server({"alice": credential(mechanism)}, mechanism).begin()
    client = ScramClient([mechanism.name], "alice", "pencil ")
    client.set_server_first(challenge_of(exchange, client.get_client_first().encode()).decode())
    assert failure(exchange, client.get_client_final().encode()).text is GENERAL


def test_what_a_challenge_keeps_of_the_client_is_counted() -> None:
    """A nonce may have half a megabyte, and is in what was sent, in what is answered, and in what is compared."""
    exchange = server({"alice": credential(SCRAM_SHA_256)}).begin()
    assert exchange.held_bytes == 0
    nonce, more = b"r" * 100_000, b",x=" + b"y" * 50_000
    challenge = challenge_of(exchange, b"n,,n=alice,r=" + nonce + more)
    assert exchange.held_bytes >= 4 * len(nonce) + 2 * len(more)
    failure(exchange, Client().final(b"n=alice,r=" + nonce + more, challenge, nonce=b"another"))
    assert exchange.held_bytes == 0


def test_a_password_is_taken_as_it_is() -> None:
    """No SASLprep (S23): the two ways to write a letter are two passwords."""
    users = {"alice": credential(SCRAM_SHA_256, "p\u00e9ncil")}
    for password, is_right in (("p\u00e9ncil", True), ("pe\u0301ncil", False)):
        exchange = server(users).begin()
        final = Client(password=password).final(b"n=alice,r=abc", challenge_of(exchange, b"n,,n=alice,r=abc"))
        if is_right:
            exchange.step(final, NOW_MS)
        else:
            failure(exchange, final)


def test_a_user_of_the_other_mechanism_or_none_fails_at_the_first_token() -> None:
    """As in Kafka (S18)."""
    exchange = server({"alice": credential(SCRAM_SHA_256)}).begin()
    refused = failure(exchange, b"n,,n=bob,r=abc")
    assert refused.text is GENERAL
    assert "bob" not in str(refused), "a password may be typed where the name belongs"
    assert failure(server({}).begin(), b"n,,n=Alice,r=abc").text is GENERAL


@pytest.mark.parametrize(
    ("authorization_id", "text"),
    [("alice", None), ("bob", OTHER_AUTHORIZATION_ID), ("Alice", OTHER_AUTHORIZATION_ID)],
)
def test_who_is_acted_for_is_the_user(authorization_id: str, text: str | None) -> None:
    """Another authorization id has its own text; an unknown user's does not (S19)."""
    users = {"alice": credential(SCRAM_SHA_256)}
    token = f"n,a={authorization_id},n=alice,r=abc".encode()
    if text is None:
        exchange = server(users).begin()
        assert exchange.step(Client().final(b"n=alice,r=abc", challenge_of(exchange, token)), NOW_MS)
    else:
        assert failure(server(users).begin(), token).text == text
    assert failure(server({}).begin(), token).text is GENERAL


def test_the_servers_part_of_the_nonce_is_random_and_of_kafkas_form() -> None:
    exchanges = [server({"alice": credential(SCRAM_SHA_256)}).begin() for _ in range(100)]
    challenges = {challenge_of(each, b"n,,n=alice,r=abc") for each in exchanges}
    assert len(challenges) == len(exchanges)
    for each in challenges:
        found = re.fullmatch(rb"r=abc([0-9a-z]+),s=([A-Za-z0-9+/=]+),i=4096", each)
        assert found is not None
        assert 20 <= len(found[1]) <= 26, "130 bits in base 36 (S20)"
        assert b64decode(found[2]) == SALT


def test_base_36_is_that_of_python() -> None:
    for number in (0, 1, 35, 36, 2**130 - 1):
        assert int(base_36(number), 36) == number


@pytest.mark.parametrize("iterations", [1, 4095])
def test_a_credential_of_too_few_iterations_lets_nobody_in(iterations: int) -> None:
    users = {"alice": credential(SCRAM_SHA_256, iterations=iterations)}
    assert failure(server(users).begin(), b"n,,n=alice,r=abc").text is GENERAL


@pytest.mark.parametrize(
    ("token", "signed"),
    [
        (b"n,,n=alice,r=abc,tokenauth=false", b"n=alice,r=abc,tokenauth=false"),
        (b"n,,n=alice,r=abc,x=y", b"n=alice,r=abc,x=y"),
        (b"n,,n=alice,r=abc,x=y=z,y=\x01,m=1", b"n=alice,r=abc,x=y=z,y=\x01,m=1"),
        (b"n,a=alice,m=later,n=alice,r=abc", b"n=alice,r=abc"),
        (b"n,,n=alice,r=a=b", b"n=alice,r=a=b"),
    ],
)
def test_extensions_of_the_first_message_are_signed(token: bytes, signed: bytes) -> None:
    """As they came, where Kafka mixes the order of several (S24); what is reserved (`m=`) is not (S22)."""
    exchange = server({"alice": credential(SCRAM_SHA_256)}).begin()
    answer = exchange.step(Client().final(signed, challenge_of(exchange, token)), NOW_MS)
    assert isinstance(answer, Authenticated)


@pytest.mark.parametrize("value", ["true", "True", "TRUE"])
def test_there_are_no_delegation_tokens(value: str) -> None:
    users = {"alice": credential(SCRAM_SHA_256)}
    token = f"n,,n=alice,r=abc,tokenauth={value}".encode()
    assert failure(server(users).begin(), token).text is GENERAL


@pytest.mark.parametrize(
    ("channel", "signed"), [(b"biws", b"biws"), (b"", b""), (b"cD10bHM=", b"cD10bHM="), (b"QR==", b"QQ==")]
)
def test_a_channel_binding_is_signed_and_not_looked_at(channel: bytes, signed: bytes) -> None:
    """Any base64 passes, and what is signed is its canonical form (S21)."""
    exchange = server({"alice": credential(SCRAM_SHA_256)}).begin()
    challenge = challenge_of(exchange, b"n,,n=alice,r=abc")
    final = Client().final(b"n=alice,r=abc", challenge, channel, signed)
    assert isinstance(exchange.step(final, NOW_MS), Authenticated)


def test_extensions_of_the_last_message_are_not_signed() -> None:
    """As in Kafka (S21)."""
    exchange = server({"alice": credential(SCRAM_SHA_256)}).begin()
    final = Client().final(b"n=alice,r=abc", challenge_of(exchange, b"n,,n=alice,r=abc"))
    before, _, proof = final.rpartition(b",p=")
    assert isinstance(exchange.step(before + b",x=y,p=z,p=" + proof, NOW_MS), Authenticated)


def altered_finals(final: bytes) -> dict[str, bytes]:
    before, _, proof = final.rpartition(b",p=")
    nonce = before.partition(b",r=")[2]
    decoded = b64decode(proof)
    return {
        "another exchange's nonce": final.replace(nonce, nonce[:-1] + (b"0" if nonce[-1:] != b"0" else b"1")),
        "the client's part of the nonce": final.replace(nonce, b"abc"),
        "a longer nonce": final.replace(nonce, nonce + b"0"),
        "a proof with a flipped bit": before + b",p=" + b64encode(bytes([decoded[0] ^ 1, *decoded[1:]])),
        "a short proof": before + b",p=" + b64encode(decoded[:-1]),
        "no proof": before + b",p=",
        "a long proof": before + b",p=" + b64encode(decoded + b"\0"),
        "a proof of zeros": before + b",p=" + b64encode(bytes(len(decoded))),
        "no proof field": before,
        "a proof that is not the last": final + b",x=y",
        "no channel": final.replace(b"c=biws", b"c"),
        "a channel that is no base64": final.replace(b"c=biws", b"c=biw"),
        "an extension that is none": before + b",x,p=" + proof,
        "an empty extension": before + b",x=,p=" + proof,
        "a NUL": final + b"\0",
        "an empty message": b"",
        "the first message again": b"n,,n=alice,r=abc",
    }


@pytest.mark.parametrize("what", altered_finals(b"c=biws,r=abc,p=" + b64encode(bytes(32))))
def test_a_last_message_that_is_not_right_fails_for_good(what: str) -> None:
    """Also the right one that comes after it."""
    exchange = server({"alice": credential(SCRAM_SHA_256)}).begin()
    final = Client().final(b"n=alice,r=abc", challenge_of(exchange, b"n,,n=alice,r=abc"))
    refused = failure(exchange, altered_finals(final)[what])
    assert refused.text is GENERAL
    failure(exchange, final)


@pytest.mark.parametrize("nonce", [b"abc", b"abc0", b"xyz"])
def test_the_whole_nonce_comes_back(nonce: bytes) -> None:
    """Also from a client that has the password, and signs what it sends (S21)."""
    exchange = server({"alice": credential(SCRAM_SHA_256)}).begin()
    challenge = challenge_of(exchange, b"n,,n=alice,r=abc")
    failure(exchange, Client().final(b"n=alice,r=abc", challenge, nonce=nonce))


def test_a_proof_is_good_for_one_exchange() -> None:
    """Recorded and sent again, in another exchange or the same, it shows nothing."""
    offered = server({"alice": credential(SCRAM_SHA_256)})
    first, second = offered.begin(), offered.begin()
    final = Client().final(b"n=alice,r=abc", challenge_of(first, b"n,,n=alice,r=abc"))
    challenge_of(second, b"n,,n=alice,r=abc")
    failure(second, final)
    assert isinstance(first.step(final, NOW_MS), Authenticated)
    failure(first, final)


def test_the_last_message_first_is_none() -> None:
    exchange = server({"alice": credential(SCRAM_SHA_256)}).begin()
    failure(exchange, b"c=biws,r=abc,p=" + b64encode(bytes(32)))
    failure(exchange, b"n,,n=alice,r=abc")


ALPHA, VALUE = r"[A-Za-z]+", r"[\x01-\x2b\x2d-\x7f]+"
PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
EXTENSIONS = f"(?:,{ALPHA}={VALUE})*"
OF_KAFKA_FIRST = re.compile(f"n,(?:a={NAME})?,(?:m={VALUE},)?n={NAME},r={PRINTABLE}{EXTENSIONS}".encode())
OF_KAFKA_FINAL = re.compile(f"c={BASE64},r={PRINTABLE}{EXTENSIONS},p={BASE64}".encode())
"""Which messages Kafka 4.3.1 takes for such at all, as the expressions of its ScramMessages say."""

PIECES = st.sampled_from(
    [
        *(b",", b"=", b"n", b"a=", b"m=", b"n=", b"r=", b"c=", b"p=", b"s=", b"n,,", b"y,,", b"p=tls,,"),
        *(b"alice", b"=2C", b"=3D", b"=2c", b"abc", b"biws", b"QQ==", b"QUI=", b"x=y", b"tokenauth=true"),
        *(b"\0", b"\x01", b" ", b"~", b"\x7f", b"\x80", "é".encode(), b"\n"),
    ]
)
MESSAGES = st.lists(PIECES, max_size=12).map(b"".join)
FIRSTS = st.builds(
    lambda header, fields: header + b",".join(fields),
    st.sampled_from([b"n,,", b"n,a=alice,", b"n,a=,", b"y,,", b"n,m=1,", b"n,,m=1,", b"n,,m=,"]),
    st.lists(
        st.sampled_from(
            [b"n=alice", b"n=", b"n=a=2C", b"n==", b"r=abc", b"r=", b"r=a b", b"x=y", b"x=", b"7=x"]
        ),
        max_size=5,
    ),
)


def takes_first(token: bytes) -> bool:
    """Whether the message is one to us: any user is known here, so all else would be answered."""
    try:
        return isinstance(
            Scram(SCRAM_SHA_256, lambda _: ANYBODY, lambda: b"7").begin().step(token, NOW_MS), Challenge
        )
    except AuthenticationFailed as refused:
        return "not a message" not in str(refused)


ANYBODY = credential(SCRAM_SHA_256)


@given(st.one_of(MESSAGES, FIRSTS, st.binary(max_size=40)))
@example(b"n,,n=alice,r=abc")
@example(b"n,a==2C,m=x,n=alice,r=abc,x=y")
@example(b"n,,n=a\n,r=abc")
def test_a_first_message_is_one_where_it_is_one_to_kafka(token: bytes) -> None:
    assert takes_first(token) == (OF_KAFKA_FIRST.fullmatch(token) is not None)


@given(
    st.one_of(
        MESSAGES,
        st.binary(max_size=40),
        st.lists(
            st.sampled_from(
                [b"c=biws", b"c=", b"c=QR==", b"c=a", b"c====", b"r=abc", b"r=", b"x=y", b"p=", b"p=QUI="]
            ),
            max_size=5,
        ).map(b",".join),
    )
)
@example(b"c=,r=a,p=")
def test_a_last_message_is_one_where_it_is_one_to_kafka(token: bytes) -> None:
    exchange = Scram(SCRAM_SHA_256, lambda _: ANYBODY, lambda: b"7").begin()
    challenge_of(exchange, b"n,,n=alice,r=abc")
    refused = failure(exchange, token)
    assert ("not a message" not in str(refused)) == (OF_KAFKA_FINAL.fullmatch(token) is not None)


@pytest.mark.parametrize(
    "token",
    [
        b"n,,n=" + b"=2C" * 170_000 + b",r=abc",
        b"n,,n=alice,r=abc" + b",x=y" * 130_000,
        b"n,,n=alice,r=abc" + b"," * 520_000,
        b"n,,n=alice,r=abc,x=" + b"y" * 520_000 + b"\0",
        b"n,,n=alice,r=abc," + b"y" * 520_000,
        b"," * 524_288,
        b"n,,n=" + b"=" * 524_000,
        b"c=" + b"A" * 524_000,
    ],
    ids=[
        "a name",
        "extensions",
        "no extensions",
        "an extension",
        "its name",
        "commas",
        "equals signs",
        "base64",
    ],
)
def test_half_a_megabyte_is_read_once(token: bytes) -> None:
    """The longest frame before a login (S1); nested expressions would take minutes, or a stack, as Java's do."""
    exchange = Scram(SCRAM_SHA_256, lambda _: None, lambda: b"7").begin()
    began_s = time.thread_time()
    failure(exchange, token)
    assert time.thread_time() - began_s < 0.1, "it was seen to take 6 ms at most"


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: each.name)
def test_a_decoy_looks_like_a_user(mechanism: ScramMechanism) -> None:
    """The same salt each time, another for each name, key and mechanism; no proof fits it."""
    key = b"k" * 32
    made = decoy(mechanism, "bob", key)
    assert made == decoy(mechanism, "bob", key)
    assert re.fullmatch(rb"[0-9a-z]{20,26}", made.salt)
    assert made.iterations == 4096
    assert (len(made.stored_key), len(made.server_key)) == (mechanism.key_bytes, mechanism.key_bytes)
    others = [decoy(mechanism, "bo", key), decoy(mechanism, "bob", b"l" * 32)]
    others += [decoy(each, "bob", key) for each in MECHANISMS if each != mechanism]
    assert len({made.salt, *(each.salt for each in others)}) == len(others) + 1
    exchange = server({"bob": made}, mechanism).begin()
    final = Client(mechanism).final(b"n=bob,r=abc", challenge_of(exchange, b"n,,n=bob,r=abc"))
    failure(exchange, final)


def test_no_secret_is_shown() -> None:
    made = credential(SCRAM_SHA_256)
    assert repr(made) == "ScramCredential(iterations=4096)"
