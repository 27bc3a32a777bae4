"""APIs of authentication, ACLs and SCRAM users, answered as by a Kafka node that has none of these.

SaslHandshake (key 17), SaslAuthenticate (36), DescribeAcls (29), CreateAcls (30), DeleteAcls (31) and
DescribeUserScramCredentials (50): true answers, in Kafka's words. APIs that would store users are not served.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from coordinator.data.broker import Broker, ClientRequest
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
from protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

NO_AUTHORIZER: Final = "No Authorizer is configured"


def sasl_handshake(_broker: Broker, _request: SaslHandshakeRequest, pending: ClientRequest) -> None:
    """SaslHandshake (key 17), refused on a plain listener: ILLEGAL_SASL_STATE. The connection stays open."""
    pending.reply(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))


def sasl_authenticate(_broker: Broker, _request: SaslAuthenticateRequest, pending: ClientRequest) -> None:
    """SaslAuthenticate (key 36), refused on a plain listener: ILLEGAL_SASL_STATE."""
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


def describe_scram_credentials(
    _broker: Broker, request: DescribeUserScramCredentialsRequest, pending: ClientRequest
) -> None:
    """DescribeUserScramCredentials (key 50): no user has credentials.

    Errors per user: RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE (named twice).
    """
    named = Counter(user.name for user in request.users or ())
    response = DescribeUserScramCredentialsResponse(error_message="")
    for name, times_named in named.items():
        error = ErrorCode.RESOURCE_NOT_FOUND
        words = f"Attempt to describe a user credential that does not exist: {name}"
        if times_named > 1:
            error = ErrorCode.DUPLICATE_RESOURCE
            words = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        response.results.append(
            DescribeUserScramCredentialsResult(user=name, error_code=error, error_message=words)
        )
    pending.reply(response)
