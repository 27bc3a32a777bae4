"""Delegation tokens as a broker without a secret for them refuses them (A18 to A20)."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.admin import delegation_tokens
from coordinator.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from coordinator.security.authorizer import StandardAuthorizer
from coordinator.security.session import NO_SESSION, Session
from harness.doubles.fake_pending import FakePending
from protocol.codec.codec import decode, encode
from protocol.errors import ErrorCode
from protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)

ALICE = Session("User:alice", "PLAIN")
BY_CERTIFICATE = Session("User:CN=alice")
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
DENIED = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
DISABLED = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
NO_TOKENS: Any = None  # The broker, which the handlers do not look at.

HANDLERS: dict[type, Any] = {
    CreateDelegationTokenRequest: delegation_tokens.create,
    RenewDelegationTokenRequest: delegation_tokens.renew,
    ExpireDelegationTokenRequest: delegation_tokens.expire,
    DescribeDelegationTokenRequest: delegation_tokens.describe,
}


def ask(request: Any, version: int, session: Session, *acls: Acl) -> Any:
    pending = FakePending(version)
    pending.session = session
    authorizer = StandardAuthorizer()
    authorizer.change(acls)
    pending.rights = authorizer
    kind = type(request)
    HANDLERS[kind](NO_TOKENS, decode(kind, version, encode(request, version)), pending)
    return pending.answer


def creation(
    owner: tuple[str | None, str | None] = (None, None), *renewers: str
) -> CreateDelegationTokenRequest:
    return CreateDelegationTokenRequest(
        owner_principal_type=owner[0],
        owner_principal_name=owner[1],
        renewers=[CreatableRenewers(principal_type=kind, principal_name="r") for kind in renewers],
        max_lifetime_ms=-1,
    )


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("session", "error", "time_ms"),
    [(NO_SESSION, NOT_ALLOWED, -1), (ALICE, DISABLED, 0), (BY_CERTIFICATE, DISABLED, 0)],
)
def test_tokens_are_refused_by_who_asks(
    version: int, session: Session, error: ErrorCode, time_ms: int
) -> None:
    """A18, A20: who has not said who it is, and who has."""
    made = ask(creation(("", ""), "User"), version, session)
    times = (made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms)
    assert (made.error_code, *times) == (error, time_ms, time_ms, time_ms)
    assert (made.token_id, made.hmac) == ("", b"")
    assert (made.principal_type, made.principal_name) == ("User", session.principal.removeprefix("User:"))
    for request in (
        RenewDelegationTokenRequest(hmac=b"h", renew_period_ms=1),
        ExpireDelegationTokenRequest(hmac=b"h", expiry_time_period_ms=-1),
    ):
        changed = ask(request, version, session)
        assert (changed.error_code, changed.expiry_timestamp_ms) == (error, time_ms)
    described = ask(DescribeDelegationTokenRequest(owners=None), version, session)
    assert (described.error_code, described.tokens) == (error, [])


def test_another_owner_needs_a_right_and_renewers_are_users() -> None:
    """A19, in this order; the answer names owner and requester."""
    right = Acl(
        ResourceType.USER,
        "User:bob",
        PatternType.LITERAL,
        "User:alice",
        "*",
        Operation.CREATE_TOKENS,
        Permission.ALLOW,
    )
    bob = ("User", "bob")
    for request, acls, error, time_ms in (
        (creation(bob, "Group"), (), DENIED, -1),
        (creation(bob, "User", "Group"), (right,), ErrorCode.INVALID_PRINCIPAL_TYPE, -1),
        (creation(bob, "User"), (right,), DISABLED, 0),
        (creation(("User", "alice")), (), DISABLED, 0),
        (creation(("Other", "bob")), (right,), DENIED, -1),
    ):
        made = ask(request, 3, ALICE, *acls)
        assert (made.error_code, made.issue_timestamp_ms) == (error, time_ms), request
        assert (made.token_requester_principal_type, made.token_requester_principal_name) == ("User", "alice")
        owner = (request.owner_principal_type, request.owner_principal_name)
        assert (made.principal_type, made.principal_name) == owner


def test_an_owner_without_a_name_is_the_requester() -> None:
    for owner in ((None, None), ("User", None), ("User", ""), (None, "")):
        made = ask(creation(owner), 3, ALICE)
        assert (made.error_code, made.principal_name) == (DISABLED, "alice")


def test_an_owner_without_a_type_is_an_unknown_error_as_in_kafka() -> None:
    for session in (NO_SESSION, ALICE):
        made = ask(creation((None, "bob")), 3, session)
        names = (made.principal_name, made.token_requester_principal_name)
        assert (made.error_code, made.issue_timestamp_ms, names) == (-1, -1, ("ANONYMOUS", "ANONYMOUS"))


def test_what_a_token_is_made_of_is_not_shown() -> None:
    secret = b"a canary"
    request = RenewDelegationTokenRequest(hmac=secret, renew_period_ms=1)
    assert "canary" not in repr(request)
