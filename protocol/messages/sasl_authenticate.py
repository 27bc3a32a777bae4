"""SaslAuthenticate (key 36): one step of the exchange of the mechanism that SaslHandshake chose (KIP-152).

| version | what is new |
|---|---|
| 1 | how long the session lasts (KIP-368) |
| 2 | flexible |
"""

from protocol.codec.codec import request, response, since
from protocol.codec.primitives import Int16, Int64


@request(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    """The client's bytes in one step of the mechanism."""

    auth_bytes: bytes = b""


@response(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    """The server's bytes in one step of the mechanism."""

    error_code: Int16 = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: Int64 = since(1, default=0, ignorable=True)
