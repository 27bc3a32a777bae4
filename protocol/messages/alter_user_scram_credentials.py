"""AlterUserScramCredentials (key 51): SCRAM credentials are made, replaced and removed (KIP-554)."""

from dataclasses import field

from protocol.codec.codec import request, response, struct
from protocol.codec.primitives import Int8, Int16, Int32


@struct
class ScramCredentialDeletion:
    """One credential that goes."""

    name: str
    mechanism: Int8


@struct
class ScramCredentialUpsertion:
    """One credential that is made or replaced. The salted password is as good as the password: it is not shown."""

    name: str
    mechanism: Int8
    iterations: Int32
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


@request(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest:
    """At most one change per user."""

    deletions: list[ScramCredentialDeletion] = field(default_factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(default_factory=list)


@struct
class AlterUserScramCredentialsResult:
    """One user."""

    user: str
    error_code: Int16 = 0
    error_message: str | None = ""


@response(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    """One entry per user."""

    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult] = field(default_factory=list)
