"""CreateDelegationToken (key 38), RenewDelegationToken (key 39), ExpireDelegationToken (key 40) and
DescribeDelegationToken (key 41): tokens by which a client logs in for their owner (KIP-48).

Version 0 is gone since Kafka 4.0.

| version | what is new |
|---|---|
| 1 | the baseline: an over-quota answer is sent first and the connection muted after (KIP-219) |
| 2 | flexible |
| 3 | Create and Describe alone: an owner who is not the requester, and who that is (KIP-373) |
"""

from dataclasses import field

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import Int16, Int32, Int64


@struct
class CreatableRenewers:
    """A principal that may renew the token."""

    principal_type: str
    principal_name: str


@request(key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenRequest:
    """The token to make; an owner of null is the requester, a lifetime of -1 the broker's."""

    owner_principal_type: str | None = since(3, default="")
    owner_principal_name: str | None = since(3, default="")
    renewers: list[CreatableRenewers]
    max_lifetime_ms: Int64


@response(key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenResponse:
    """The token that was made."""

    error_code: Int16 = 0
    principal_type: str
    principal_name: str
    token_requester_principal_type: str = since(3, default="", ignorable=True)
    token_requester_principal_name: str = since(3, default="", ignorable=True)
    issue_timestamp_ms: Int64
    expiry_timestamp_ms: Int64
    max_timestamp_ms: Int64
    token_id: str
    hmac: bytes = field(repr=False)
    throttle_time_ms: Int32 = 0


@request(key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenRequest:
    """The token to keep for longer."""

    hmac: bytes = field(repr=False)
    renew_period_ms: Int64


@response(key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenResponse:
    """When it expires now."""

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0


@request(key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenRequest:
    """The token that is to expire, and after what time; a negative one: at once."""

    hmac: bytes = field(repr=False)
    expiry_time_period_ms: Int64


@response(key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenResponse:
    """When it expires now."""

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0


@struct
class DescribeDelegationTokenOwner:
    """The owner of tokens."""

    principal_type: str
    principal_name: str


@request(key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenRequest:
    """The owners whose tokens are asked for; null asks for all tokens."""

    owners: list[DescribeDelegationTokenOwner] | None


@struct
class DescribedDelegationTokenRenewer:
    """A principal that may renew the token."""

    principal_type: str
    principal_name: str


@struct
class DescribedDelegationToken:
    """One token."""

    principal_type: str
    principal_name: str
    token_requester_principal_type: str = since(3, default="", ignorable=True)
    token_requester_principal_name: str = since(3, default="", ignorable=True)
    issue_timestamp: Int64
    expiry_timestamp: Int64
    max_timestamp: Int64
    token_id: str
    hmac: bytes = field(repr=False)
    renewers: list[DescribedDelegationTokenRenewer]


@response(key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenResponse:
    """The tokens that the requester may see."""

    error_code: Int16 = 0
    tokens: list[DescribedDelegationToken] = field(default_factory=list)
    throttle_time_ms: Int32 = 0
