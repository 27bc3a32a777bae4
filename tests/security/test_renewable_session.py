"""A session that ends and is renewed, by plain calls with the time as an argument (S27 to S31)."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.security.sasl.login import AUTHENTICATE_KEY, HANDSHAKE_KEY, LoginTerms, Step
from coordinator.security.sasl.plain import Plain
from coordinator.security.sasl.renewable_session import LOGINS_APART_MS, Admission, RenewableSession
from coordinator.security.session import Session
from protocol.framing import encode_request
from protocol.messages import REQUESTS
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.security.test_login import WALL_MS, Versions

NOW_MS, LASTS_MS = 50_000, 5_000
ALICE = Session("User:alice", "PLAIN", NOW_MS + LASTS_MS)
TERMS = LoginTerms({"PLAIN": Plain({"user_alice": "secret", "user_bob": "secret"})}, {"PLAIN": LASTS_MS})
HANDSHAKE = SaslHandshakeRequest(mechanism="PLAIN")


def new_session(session: Session = ALICE) -> RenewableSession:
    return RenewableSession(session, TERMS, Versions())


def send(renewable: RenewableSession, request: Any, version: int, now_ms: int) -> Step:
    return renewable.receive(encode_request(request, version, 7, "tests")[4:], now_ms, WALL_MS)


def log_in(renewable: RenewableSession, now_ms: int, user: str = "alice") -> Step:
    renewable.begin(now_ms)
    assert send(renewable, HANDSHAKE, 1, now_ms).failure is None
    return send(renewable, SaslAuthenticateRequest(auth_bytes=f"\0{user}\0secret".encode()), 1, now_ms)


@pytest.mark.parametrize("key", sorted(set(REQUESTS) - {HANDSHAKE_KEY}))
def test_a_request_is_served_until_the_end_and_closes_from_it_on(key: int) -> None:
    """SaslAuthenticate and ApiVersions are no exceptions (S31)."""
    session, end_ms = new_session(), NOW_MS + LASTS_MS
    assert session.admission(key, end_ms - 1) is Admission.SERVED
    assert session.admission(key, end_ms) is Admission.CLOSES
    assert session.admission(key, end_ms + 10 * LASTS_MS) is Admission.CLOSES


@pytest.mark.parametrize("at_ms", [NOW_MS, NOW_MS + 1, NOW_MS + LASTS_MS, NOW_MS + 100 * LASTS_MS])
def test_a_handshake_begins_a_login_at_any_time(at_ms: int) -> None:
    """At once after the first login as well: the second between two is of those that are repeated."""
    assert new_session().admission(HANDSHAKE_KEY, at_ms) is Admission.BEGINS_LOGIN


def test_a_session_without_an_end_is_not_renewed() -> None:
    session = new_session(Session("User:alice", "PLAIN"))
    for key in (HANDSHAKE_KEY, AUTHENTICATE_KEY):
        assert session.admission(key, NOW_MS + 100 * LASTS_MS) is Admission.SERVED


def test_within_a_second_of_the_last_one_no_login_begins() -> None:
    """Counted from its beginning; the handshake is a request like any other then (S28)."""
    session = new_session()
    assert log_in(session, NOW_MS).session is not None
    assert session.admission(HANDSHAKE_KEY, NOW_MS + LOGINS_APART_MS - 1) is Admission.SERVED
    assert session.admission(HANDSHAKE_KEY, NOW_MS + LOGINS_APART_MS) is Admission.BEGINS_LOGIN


def test_such_a_handshake_closes_if_the_session_has_ended_meanwhile() -> None:
    terms = LoginTerms(TERMS.mechanisms, {"PLAIN": LOGINS_APART_MS // 2})
    session = RenewableSession(ALICE, terms, Versions())
    log_in(session, NOW_MS)
    assert session.admission(HANDSHAKE_KEY, NOW_MS + LOGINS_APART_MS // 2) is Admission.CLOSES
    assert session.admission(HANDSHAKE_KEY, NOW_MS + LOGINS_APART_MS) is Admission.BEGINS_LOGIN


def test_a_login_renews_the_session_from_when_it_is_done() -> None:
    session, late_ms = new_session(), NOW_MS + 3 * LASTS_MS
    step = log_in(session, late_ms)
    assert step.session == session.session == Session("User:alice", "PLAIN", late_ms + LASTS_MS)
    assert not session.is_logging_in
    assert not session.has_ended(late_ms + LASTS_MS - 1)
    assert session.has_ended(late_ms + LASTS_MS)


def test_another_principal_renews_nothing() -> None:
    session = new_session()
    step = log_in(session, NOW_MS, "bob")
    assert step.failure is not None
    assert session.session is ALICE
    assert session.is_logging_in


def test_a_login_that_is_under_way_says_so() -> None:
    session = new_session()
    assert not session.is_logging_in
    session.begin(NOW_MS)
    assert session.is_logging_in
    step = session.refuse_size(-1, 10)
    assert step.failure is not None
    assert step.failure.is_delayed
