"""DescribeUserScramCredentials (key 50): which users have SCRAM credentials (KIP-554)."""

from dataclasses import field

from protocol.codec.codec import request, response, struct
from protocol.codec.primitives import Int8, Int16, Int32


@struct
class UserName:
    """One user."""

    name: str


@request(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest:
    """The users asked about; null and empty ask for all."""

    users: list[UserName] | None


@struct
class CredentialInfo:
    """One credential, without its secret."""

    mechanism: Int8
    iterations: Int32


@struct
class DescribeUserScramCredentialsResult:
    """One user."""

    user: str
    error_code: Int16 = 0
    error_message: str | None = ""
    credential_infos: list[CredentialInfo] = field(default_factory=list)


@response(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse:
    """One entry per user."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
    results: list[DescribeUserScramCredentialsResult] = field(default_factory=list)
