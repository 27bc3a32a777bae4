"""SaslHandshake (key 17): choose the mechanism by which a client proves who it is.

| version | what is new |
|---|---|
| 1 | what follows are SaslAuthenticate requests, not bare bytes (KIP-152) |
"""

from dataclasses import field

from protocol.codec.codec import request, response
from protocol.codec.primitives import Int16


@request(key=17, versions="0-1", flexible="none")
class SaslHandshakeRequest:
    """The mechanism that the client would use."""

    mechanism: str = ""


@response(key=17, versions="0-1", flexible="none")
class SaslHandshakeResponse:
    """Whether the mechanism is enabled, and all mechanisms that are."""

    error_code: Int16 = 0
    mechanisms: list[str] = field(default_factory=list)
