"""APIs of authentication, ACLs and quotas, answered as by a Kafka node that has none of these.

SaslHandshake (key 17), SaslAuthenticate (36), DescribeAcls (29), CreateAcls (30), DeleteAcls (31) and
DescribeClientQuotas (48): true answers, in Kafka's words. The API that would store quotas is not served.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from coordinator.data.broker import Broker, ClientRequest
from coordinator.topics.refusal import Refused
from protocol.errors import ErrorCode
from protocol.messages.acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

NO_AUTHORIZER: Final = "No Authorizer is configured"
EXACT, DEFAULT, ANY = range(3)  # Ways in which a component of a quota's entity is matched.
ENTITY_TYPES: Final = frozenset({"user", "client-id", "ip"})


def sasl_handshake(_broker: Broker, _request: SaslHandshakeRequest, pending: ClientRequest) -> None:
    """SaslHandshake (key 17), refused where clients have logged in or need not: ILLEGAL_SASL_STATE.

    The connection stays open (S10).
    """
    pending.reply(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))


def sasl_authenticate(_broker: Broker, _request: SaslAuthenticateRequest, pending: ClientRequest) -> None:
    """SaslAuthenticate (key 36), likewise refused: ILLEGAL_SASL_STATE."""
    words = "SaslAuthenticate request received after successful authentication"
    pending.reply(SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=words))


def describe_acls(_broker: Broker, _request: DescribeAclsRequest, pending: ClientRequest) -> None:
    """DescribeAcls (key 29), always refused: SECURITY_DISABLED."""
    words = f"{NO_AUTHORIZER} on the broker"
    pending.reply(DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=words))


def create_acls(_broker: Broker, request: CreateAclsRequest, pending: ClientRequest) -> None:
    """CreateAcls (key 30): every creation is refused with SECURITY_DISABLED."""
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=f"{NO_AUTHORIZER}.")
    pending.reply(CreateAclsResponse(results=[refused] * len(request.creations)))


def delete_acls(_broker: Broker, request: DeleteAclsRequest, pending: ClientRequest) -> None:
    """DeleteAcls (key 31): every filter is refused with SECURITY_DISABLED."""
    error, words = ErrorCode.SECURITY_DISABLED, f"{NO_AUTHORIZER}."
    refused = DeleteAclsFilterResult(error_code=error, error_message=words)
    pending.reply(DeleteAclsResponse(filter_results=[refused] * len(request.filters)))


def describe_client_quotas(
    _broker: Broker, request: DescribeClientQuotasRequest, pending: ClientRequest
) -> None:
    """DescribeClientQuotas (key 48): no entity has a quota.

    Errors: INVALID_REQUEST, UNSUPPORTED_VERSION (a kind of entity that Kafka does not know).
    """
    try:
        _check_filter(request.components)
    except Refused as refused:
        pending.reply(
            DescribeClientQuotasResponse(
                error_code=refused.error, error_message=refused.message, entries=None
            )
        )
    else:
        pending.reply(DescribeClientQuotasResponse())


def _check_filter(components: Sequence[ComponentData]) -> None:
    seen: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise Refused(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in seen:
            words = f"Entity type {kind} cannot appear more than once in the filter."
            raise Refused(ErrorCode.INVALID_REQUEST, words)
        if kind not in ENTITY_TYPES:
            raise Refused(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if problem := _match_problem(component.match_type, component.match):
            raise Refused(ErrorCode.INVALID_REQUEST, problem)
        seen.add(kind)
    if "ip" in seen and len(seen) > 1:
        words = "IP filter component should not be used with user or clientId filter component."
        raise Refused(ErrorCode.INVALID_REQUEST, f"Invalid entity filter component combination. {words}")


def _match_problem(match_type: int, match: str | None) -> str | None:
    if match_type not in (EXACT, DEFAULT, ANY):
        return f"Unknown match type {match_type}"
    if match_type == EXACT:
        words = "Request specified MATCH_TYPE_EXACT, but set match string to null."
        return words if match is None else None
    name = "DEFAULT" if match_type == DEFAULT else "SPECIFIED"
    words = f"Request specified MATCH_TYPE_{name}, but also specified a match string."
    return None if match is None else words
