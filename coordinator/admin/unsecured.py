"""APIs of authentication and ACLs, answered as by a Kafka node that has neither.

SaslHandshake (key 17), SaslAuthenticate (36), DescribeAcls (29), CreateAcls (30) and DeleteAcls (31): true
answers, in Kafka's words. A code of 0 about ACLs closes the connection all the same (A12).
"""

from __future__ import annotations

from typing import Final

from coordinator.data.broker import Broker, ClientRequest
from coordinator.security.acl_codes import UNREADABLE, is_unreadable
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
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

NO_AUTHORIZER: Final = "No Authorizer is configured"


def sasl_handshake(_broker: Broker, _request: SaslHandshakeRequest, pending: ClientRequest) -> None:
    """SaslHandshake (key 17), refused where clients have logged in or need not: ILLEGAL_SASL_STATE.

    The connection stays open (S10).
    """
    pending.reply(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))


def sasl_authenticate(_broker: Broker, _request: SaslAuthenticateRequest, pending: ClientRequest) -> None:
    """SaslAuthenticate (key 36), likewise refused: ILLEGAL_SASL_STATE."""
    words = "SaslAuthenticate request received after successful authentication"
    pending.reply(SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=words))


def describe_acls(_broker: Broker, request: DescribeAclsRequest, pending: ClientRequest) -> None:
    """DescribeAcls (key 29), always refused: SECURITY_DISABLED."""
    if is_unreadable(request):
        pending.drop(UNREADABLE)
        return
    words = f"{NO_AUTHORIZER} on the broker"
    pending.reply(DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=words))


def create_acls(_broker: Broker, request: CreateAclsRequest, pending: ClientRequest) -> None:
    """CreateAcls (key 30): every creation is refused with SECURITY_DISABLED."""
    if is_unreadable(request):
        pending.drop(UNREADABLE)
        return
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=f"{NO_AUTHORIZER}.")
    pending.reply(CreateAclsResponse(results=[refused] * len(request.creations)))


def delete_acls(_broker: Broker, request: DeleteAclsRequest, pending: ClientRequest) -> None:
    """DeleteAcls (key 31): every filter is refused with SECURITY_DISABLED."""
    if is_unreadable(request):
        pending.drop(UNREADABLE)
        return
    error, words = ErrorCode.SECURITY_DISABLED, f"{NO_AUTHORIZER}."
    refused = DeleteAclsFilterResult(error_code=error, error_message=words)
    pending.reply(DeleteAclsResponse(filter_results=[refused] * len(request.filters)))
