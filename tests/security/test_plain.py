"""PLAIN: users of JAAS, Kafka's texts for each refusal, and nothing secret in what is said (S12, S13)."""

from __future__ import annotations

import pytest

from coordinator.security.sasl.mechanism import Authenticated, AuthenticationFailed
from coordinator.security.sasl.plain import Plain

OPTIONS = {
    "user_alice": "alice-secret",
    "user_": "of-nobody",
    "user_ümit": "gärten",
    "username": "broker",
    "password": "broker-secret",
}


def step(token: bytes) -> Authenticated:
    return Plain(OPTIONS).begin().step(token, 0)


@pytest.mark.parametrize(
    ("token", "name"),
    [
        (b"\0alice\0alice-secret", "alice"),
        (b"alice\0alice\0alice-secret", "alice"),
        ("\0ümit\0gärten".encode(), "ümit"),
    ],
)
def test_a_user_with_its_password_is_let_in(token: bytes, name: str) -> None:
    assert step(token) == Authenticated(name)


WRONG = "Authentication failed: Invalid username or password"


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"\0alice\0wrong", WRONG),
        (b"\0alice\0alice-secre", WRONG),
        (b"\0bob\0alice-secret", WRONG),
        (b"\0Alice\0alice-secret", WRONG),
        (b"\0broker\0broker-secret", WRONG),  # `username` and `password` admit nobody.
        (b"\0username\0broker", WRONG),
        (b"bob\0alice\0wrong", WRONG),  # Before the authzid is looked at.
        (b"\0\0alice-secret", "Authentication failed: username not specified"),
        (b"\0\0of-nobody", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice\0alice-secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0alice-secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0alice\0alice-secret\0\0\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (
            b"bob\0alice\0alice-secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
def test_whoever_is_refused_gets_kafkas_text(token: bytes, text: str) -> None:
    with pytest.raises(AuthenticationFailed) as refused:
        step(token)
    assert refused.value.text == text
    assert "secret" not in str(refused.value)


def test_a_user_with_no_digest_is_let_in_by_no_password() -> None:
    """The digest of a user who is not known is none that a password could have."""
    with pytest.raises(AuthenticationFailed, match=WRONG):
        step(b"\0carol\0" + b"\0".replace(b"\0", b"x") * 32)


def test_passwords_are_not_kept() -> None:
    mechanism = Plain(OPTIONS)
    assert not any(b"alice-secret" in digest for digest in mechanism._digests.values())
