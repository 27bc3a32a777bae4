"""Our messages over the connections of another client library: the requests that aiokafka's connections take.

aiokafka finds brokers, shakes hands and keeps sockets; its own message classes stop at old versions. A connection
of it asks a request for the version to use, its header and its body, and gives the answer to what decodes it; it
does not look at either. So it carries any message of `protocol.messages`, each at the newest version that both
sides know. Nothing of aiokafka is imported here.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any, Final

from protocol.codec.codec import spec
from protocol.framing import decode_response, encode_request
from protocol.messages import RESPONSES

_SIZE_BYTES: Final = 4  # A request begins with its length, which aiokafka writes itself.


class NoCommonVersionError(Exception):
    """The broker offers no version of a request that we speak."""

    def __init__(self, name: str, offered: tuple[int, int], wanted: tuple[int, int]) -> None:
        """Lowest and highest version; `offered` is (0, -1) where the broker does not serve it at all."""
        super().__init__(f"the broker offers no version of {name} that we speak")
        self.name = name.removesuffix("Request")
        self.offered = offered
        self.wanted = wanted


class CarriedRequest:
    """One of our messages with the interface that aiokafka's connection expects of a request."""

    def __init__(self, message: Any, max_version: int | None, min_version: int = 0) -> None:
        self._message = message
        self._max_version = max_version
        self._min_version = min_version

    def prepare(self, versions: dict[int, tuple[int, int]]) -> PreparedRequest:
        """Choose the version from those in the broker's ApiVersions response, which are given by API key."""
        ours = spec(type(self._message))
        lowest, highest = versions.get(_api_key(self._message), (0, -1))
        ceiling = ours.max_version if self._max_version is None else self._max_version
        floor = max(ours.min_version, self._min_version)
        version = min(highest, ceiling)
        if version < max(lowest, floor):
            raise NoCommonVersionError(type(self._message).__name__, (lowest, highest), (floor, ceiling))
        return PreparedRequest(self._message, version)


def _api_key(message: Any) -> int:
    api_key = spec(type(message)).api_key
    assert api_key is not None, f"{type(message).__name__} is no request"
    return api_key


class PreparedRequest:
    """A request at a chosen version, with its response's decoder, as aiokafka's RequestStruct has them."""

    def __init__(self, message: Any, version: int) -> None:
        self._message = message
        self._version = version
        self.API_KEY = _api_key(message)
        self.API_VERSION = version
        self.RESPONSE_TYPE = self  # aiokafka calls `decode` on it.

    def build_request_header(self, correlation_id: int, client_id: str) -> _Encoded:
        frame = encode_request(self._message, self._version, correlation_id, client_id)
        return _Encoded(frame[_SIZE_BYTES:])

    def encode(self) -> bytes:
        return b""  # `build_request_header` has encoded the body as well.

    def parse_response_header(self, buffer: BytesIO) -> _ResponseHeader:
        """Decode the whole response here: where its header ends depends on the version."""
        correlation_id, self._answer = decode_response(RESPONSES[self.API_KEY], self._version, buffer.read())
        return _ResponseHeader(correlation_id)

    def decode(self, _buffer: BytesIO) -> Any:
        return self._answer


class _Encoded:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def encode(self) -> bytes:
        return self._content


class _ResponseHeader:
    def __init__(self, correlation_id: int) -> None:
        self.correlation_id = correlation_id
