"""CreateDelegationToken (key 38), RenewDelegationToken (39), ExpireDelegationToken (40) and
DescribeDelegationToken (41), as a broker without a secret for tokens answers them (A18 to A20). There are none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from coordinator.data.broker import Broker, ClientRequest
from coordinator.security.acls import Operation, ResourceType
from coordinator.security.session import ANONYMOUS, USER
from protocol.errors import ErrorCode
from protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

NO_TIME: Final = -1
"""The time of a token in a refusal by the broker itself;"""
UNSET_TIME: Final = 0
"""and by its controller, which knows that there is no secret."""
USER_TYPE: Final = USER.removesuffix(":")


class Principal(NamedTuple):
    """A principal in its two parts: a colon may stand in either."""

    type: str
    name: str

    @classmethod
    def of(cls, pending: ClientRequest) -> Principal:
        """Return that of the client."""
        return cls(USER_TYPE, pending.session.principal.removeprefix(USER))

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


def create(_broker: Broker, request: CreateDelegationTokenRequest, pending: ClientRequest) -> None:
    """CreateDelegationToken (key 38).

    Errors: UNKNOWN_SERVER_ERROR (an owner's name without a type), DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    DELEGATION_TOKEN_AUTHORIZATION_FAILED, INVALID_PRINCIPAL_TYPE; else DELEGATION_TOKEN_AUTH_DISABLED.
    """
    requester = owner = Principal.of(pending)
    error, time_ms = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, UNSET_TIME
    if request.owner_principal_name and request.owner_principal_type is not None:
        owner = Principal(request.owner_principal_type, request.owner_principal_name)
    if request.owner_principal_name and request.owner_principal_type is None:
        # A bug of Kafka's, which answers as if to a client that has not said who it is.
        requester = owner = Principal(USER_TYPE, ANONYMOUS.removeprefix(USER))
        error, time_ms = ErrorCode.UNKNOWN_SERVER_ERROR, NO_TIME
    elif not _is_allowed(pending):
        error, time_ms = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME
    elif owner != requester and not pending.may(Operation.CREATE_TOKENS, ResourceType.USER, str(owner)):
        error, time_ms = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, NO_TIME
    elif any(renewer.principal_type != USER_TYPE for renewer in request.renewers):
        error, time_ms = ErrorCode.INVALID_PRINCIPAL_TYPE, NO_TIME
    pending.reply(
        CreateDelegationTokenResponse(
            error_code=error,
            principal_type=owner.type,
            principal_name=owner.name,
            token_requester_principal_type=requester.type,
            token_requester_principal_name=requester.name,
            issue_timestamp_ms=time_ms,
            expiry_timestamp_ms=time_ms,
            max_timestamp_ms=time_ms,
            token_id="",
            hmac=b"",
        )
    )


def renew(_broker: Broker, _request: RenewDelegationTokenRequest, pending: ClientRequest) -> None:
    """RenewDelegationToken (key 39): DELEGATION_TOKEN_REQUEST_NOT_ALLOWED or DELEGATION_TOKEN_AUTH_DISABLED."""
    error, time_ms = _refusal(pending)
    pending.reply(RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=time_ms))


def expire(_broker: Broker, _request: ExpireDelegationTokenRequest, pending: ClientRequest) -> None:
    """ExpireDelegationToken (key 40): DELEGATION_TOKEN_REQUEST_NOT_ALLOWED or DELEGATION_TOKEN_AUTH_DISABLED."""
    error, time_ms = _refusal(pending)
    pending.reply(ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=time_ms))


def describe(_broker: Broker, _request: DescribeDelegationTokenRequest, pending: ClientRequest) -> None:
    """DescribeDelegationToken (key 41): DELEGATION_TOKEN_REQUEST_NOT_ALLOWED or DELEGATION_TOKEN_AUTH_DISABLED."""
    error, _ = _refusal(pending)
    pending.reply(DescribeDelegationTokenResponse(error_code=error))


def _is_allowed(pending: ClientRequest) -> bool:
    """Whether the client has said who it is: by a login, or a certificate that has a name (A18)."""
    return bool(pending.session.mechanism) or pending.session.principal != ANONYMOUS


def _refusal(pending: ClientRequest) -> tuple[ErrorCode, int]:
    if _is_allowed(pending):
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, UNSET_TIME
    return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME


HANDLERS: Final[dict[int, Callable[[Broker, Any, ClientRequest], None]]] = {
    38: create,
    39: renew,
    40: expire,
    41: describe,
}
"""The handlers by API key."""
