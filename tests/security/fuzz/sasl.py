"""Whole logins (S1 to S37): a client that knows its secret, whose frames are then damaged, and those of strangers.

A conversation is led by clients that are not of this repository where there are such: scramp for SCRAM. One that
is left alone has to succeed as its user. One that is damaged may do so only if what arrived still proves the
secret, which is computed anew here, from the bytes that were sent; and it ends in an answer or a failure, never
in an exception.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode
from functools import cache
from struct import Struct
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st
from scramp import ScramClient, ScramException

from coordinator.security.sasl.login import Login, LoginState, LoginTerms, Step
from coordinator.security.sasl.oauthbearer import Oauthbearer
from coordinator.security.sasl.plain import Plain
from coordinator.security.sasl.scram import Scram
from coordinator.security.scram_credentials import MECHANISMS, ScramCredential
from coordinator.security.scram_users import random_letters
from coordinator.security.session import Session
from coordinator.security.tokens.unsecured import UnsecuredTokens
from protocol.framing import decode_response, encode_request
from protocol.messages import REQUESTS, RESPONSES
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.security.fuzz.properties import CANARY, Property, assert_sentence
from tests.security.test_login import Versions
from tests.security.tokens import NOW_MS, claims, unsecured

CLOCK_MS: Final = 5_000
LONGEST_MS: Final = 60_000
"""A session of PLAIN lasts so long; others have no end but their credential's."""
SALT: Final = b"a salt of Kafka's size 123"
USERS: Final = {"alice": CANARY, "bob": f"{CANARY}-2", "a,b=c": f"{CANARY}-3", "=2C": f"{CANARY}-4"}
NAMES: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
HEAD: Final = Struct(">hhih")


class Case(NamedTuple):
    """How a client begins, who it is, and what becomes of its frames on their way."""

    mechanism: str
    user: str
    asks_versions: bool
    handshake: int
    authenticate: int
    renews: str | None
    """The user of the session that the connection has already."""
    damage: tuple[int, int, bytes] | None
    """Of one frame, or of the token in it: which, where, and what takes the place of the bytes there."""
    is_token: bool
    strange: tuple[int, bytes] | None
    """A frame that is put before that number."""


bytes_put = st.binary(max_size=4) | st.sampled_from(
    [b"\0", b",", b"=", b"\x01", b"=2C", b"n=bob", b"\xff\xfe"]
)
frames = st.binary(max_size=40) | st.builds(
    lambda key, version, body: HEAD.pack(key, version, 7, -1) + body,
    st.sampled_from(sorted(REQUESTS)),
    st.integers(-1, 18),
    st.binary(max_size=30),
)
cases = st.builds(
    Case,
    mechanism=st.sampled_from(NAMES),
    user=st.sampled_from(sorted(USERS)),
    asks_versions=st.booleans(),
    handshake=st.integers(0, 1),
    authenticate=st.integers(0, 2),
    renews=st.none() | st.none() | st.sampled_from(sorted(USERS)),
    damage=st.none() | st.tuples(st.integers(0, 3), st.integers(0, 300), bytes_put),
    is_token=st.booleans(),
    strange=st.none() | st.none() | st.tuples(st.integers(0, 3), frames),
)


@cache
def terms() -> LoginTerms:
    mechanisms: dict[str, Any] = {"PLAIN": Plain({f"user_{name}": secret for name, secret in USERS.items()})}
    for each in MECHANISMS:
        credentials = {
            name: ScramCredential.of(each, each.salted_password(secret.encode(), SALT, 4096), SALT, 4096)
            for name, secret in USERS.items()
        }
        mechanisms[each.name] = Scram(each, credentials.get, random_letters)
    mechanisms["OAUTHBEARER"] = Oauthbearer(UnsecuredTokens({}))
    return LoginTerms(mechanisms, {"PLAIN": LONGEST_MS})


class Dialog:
    """One connection: sends what it is given, damaged or not, and holds every step against the rules."""

    def __init__(self, case: Case) -> None:
        previous = (
            None if case.renews is None else Session(f"User:{case.renews}", case.mechanism, CLOCK_MS + 9)
        )
        self.login = Login(terms(), Versions(), previous)
        self.case = case
        self.is_touched = False
        self.tokens: list[bytes] = []
        """Tokens as they arrived, as far as they can be told apart."""
        self.challenges: list[bytes] = []
        self.session: Session | None = None
        self._sent = 0

    @property
    def is_over(self) -> bool:
        return self.login.state in (LoginState.DONE, LoginState.FAILED)

    def request(self, request: Any, version: int) -> Any:
        """The answer, decoded; None if there is none, or nobody listens any more."""
        frame = encode_request(request, version, 7, "fuzz")[4:]
        step = self._deliver(frame)
        if step is None or not step.answer or self.is_touched:
            return None
        key = HEAD.unpack_from(frame)[0]
        correlation_id, answer = decode_response(RESPONSES[key], version, step.answer[4:])
        assert correlation_id == 7
        return answer

    def token(self, token: bytes) -> bytes | None:
        """What the server says to a token of the client; None: nothing, or it is not to be understood."""
        case = self.case
        if case.is_token and case.damage is not None and case.damage[0] == len(self.tokens):
            damaged = self._damaged(token)
            self.is_touched |= damaged != token
            token = damaged
        self.tokens.append(token)
        if case.handshake == 0:
            step = self._deliver(token)
            said = None if step is None else step.answer[4:]
        else:
            request = SaslAuthenticateRequest(auth_bytes=token)
            step = self._deliver(encode_request(request, case.authenticate, 7, "fuzz")[4:])
            if step is None or not step.answer:
                return None
            try:
                answer = decode_response(RESPONSES[36], case.authenticate, step.answer[4:])[1]
            except Exception:
                assert self.is_touched, "an answer that its own request cannot read"
                return None
            said = answer.auth_bytes
            if answer.error_message:
                assert_sentence(answer.error_message, *USERS.values())
        self.challenges.append(bytes(said or b""))
        return said

    def _deliver(self, frame: bytes) -> Step | None:
        case, number = self.case, self._sent
        self._sent += 1
        if case.strange is not None and case.strange[0] == number:
            self.is_touched = True
            self._receive(case.strange[1])
        if case.damage is not None and not case.is_token and case.damage[0] == number:
            damaged = self._damaged(frame)
            self.is_touched |= damaged != frame
            frame = damaged
        return None if self.is_over else self._receive(frame)

    def _damaged(self, data: bytes) -> bytes:
        assert self.case.damage is not None
        _, at, put = self.case.damage
        at = at % (len(data) + 1)
        return data[:at] + put + data[at + len(put) :]

    def _receive(self, frame: bytes) -> Step:
        step = self.login.receive(frame, CLOCK_MS, NOW_MS)
        assert step.answer or step.failure is not None, "neither an answer nor an end"
        assert (step.failure is not None) == (self.login.state is LoginState.FAILED)
        assert (step.session is not None) == (self.login.state is LoginState.DONE)
        assert not any(secret.encode() in step.answer for secret in USERS.values())
        if step.failure is not None:
            assert_sentence(step.failure.reason, *USERS.values())
        if step.session is not None:
            self.session = step.session
        assert CANARY not in repr(step)
        return step


def check(case: Case) -> str:
    """Lead the conversation, and look at how it has ended."""
    dialog = Dialog(case)
    if case.asks_versions and case.renews is None:
        dialog.request(ApiVersionsRequest(client_software_name="fuzz", client_software_version="1"), 3)
    if not dialog.is_over:
        dialog.request(SaslHandshakeRequest(mechanism=case.mechanism), case.handshake)
    if not dialog.is_over:
        LEAD[case.mechanism](dialog)
    session = dialog.session
    if session is not None:
        assert session.mechanism == case.mechanism or dialog.is_touched
        assert case.renews is None or session.principal == f"User:{case.renews}"
        _assert_proven(dialog, session)
        return "damaged and let in" if dialog.is_touched else "let in"
    is_other_user = case.renews is not None and case.renews != case.user
    if not dialog.is_touched:
        assert is_other_user, "a client that knows its secret was refused"
        return "another principal"
    return "refused" if dialog.login.state is LoginState.FAILED else "unfinished"


# Clients.


def _lead_plain(dialog: Dialog) -> None:
    user = dialog.case.user
    dialog.token(b"\0".join((b"", user.encode(), USERS[user].encode())))


def _lead_scram(dialog: Dialog) -> None:
    user = dialog.case.user
    client = ScramClient([dialog.case.mechanism], user, USERS[user])
    said = dialog.token(client.get_client_first().encode())
    if said is None or dialog.is_over:
        return
    try:
        client.set_server_first(said.decode())
        final = client.get_client_final()
    except (ScramException, UnicodeDecodeError):
        assert dialog.is_touched
        return
    said = dialog.token(final.encode())
    if dialog.session is not None and not dialog.is_touched:
        assert said is not None
        client.set_server_final(said.decode())  # scramp refuses a server without the key.


def _lead_bearer(dialog: Dialog) -> None:
    token = unsecured(claims(sub=dialog.case.user))
    said = dialog.token(b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01")
    if said and not dialog.is_over:
        dialog.token(b"\x01")


LEAD: Final = {
    "PLAIN": _lead_plain,
    "SCRAM-SHA-256": _lead_scram,
    "SCRAM-SHA-512": _lead_scram,
    "OAUTHBEARER": _lead_bearer,
}

# What proves a secret, from the bytes that arrived.


def _assert_proven(dialog: Dialog, session: Session) -> None:
    assert dialog.tokens, "let in without a token"
    user = session.principal.removeprefix("User:")
    if session.mechanism == "PLAIN":
        authorized, name, secret = dialog.tokens[-1].split(b"\0")
        assert name.decode() == user
        assert hmac.compare_digest(secret.decode(), USERS[user])
        assert authorized.decode() in ("", user)
        assert session.ends_at_ms == CLOCK_MS + LONGEST_MS
    elif session.mechanism.startswith("SCRAM"):
        _assert_scram(dialog, user, "sha256" if session.mechanism.endswith("256") else "sha512")
    else:
        assert session.ends_at_ms is not None, "a token has an end"


def _assert_scram(dialog: Dialog, user: str, hash_name: str) -> None:
    """RFC 5802, by hashlib alone: the proof is that of the user's password over what was said."""
    first, final = dialog.tokens[-2:]
    bare = first.split(b",", 2)[2]
    bare = bare[bare.index(b"n=") :]
    name = bare[2 : bare.index(b",")].replace(b"=2C", b",").replace(b"=3D", b"=").decode()
    assert name == user
    without_proof, _, proof = final.rpartition(b",p=")
    signed = b",".join((bare, dialog.challenges[-2], without_proof))
    salted = _salted(hash_name, USERS[user])
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    signature = hmac.digest(hashlib.new(hash_name, client_key).digest(), signed, hash_name)
    wanted = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    assert hmac.compare_digest(b64decode(proof), wanted)


@cache
def _salted(hash_name: str, secret: str) -> bytes:
    return hashlib.pbkdf2_hmac(hash_name, secret.encode(), SALT, 4096)


SASL: Final = Property(
    "sasl",
    cases,
    check,
    frozenset({"let in", "damaged and let in", "refused", "unfinished", "another principal"}),
)
