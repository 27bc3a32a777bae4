"""Requests and responses as they travel: a length prefix, a header, and the message.

Clients write requests and read responses; the daemon writes responses, and reads the headers of requests where
it cuts frames off a connection. Request headers are version 1 or, where the API's version is flexible, 2; response
headers 0 or 1. The client id keeps its 16-bit length in both, since a reader has to get that far before it knows
the version. Nothing here knows a socket, nor which APIs are served.
"""

from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Any, Final, TypeAlias, TypeVar

from protocol.codec.codec import decode, encode_into, encoder, spec
from protocol.codec.decoding import skip_tags
from protocol.codec.encoding import Encoder
from protocol.codec.primitives import Buffer
from protocol.errors import DecodeError

M = TypeVar("M")

API_VERSIONS_KEY: Final = 18
SIZE_BYTES: Final = 4
_CORRELATION_BYTES: Final = 4

SIZE: Final = Struct(">i")
"""What stands before every frame."""
REQUEST_HEADER: Final = Struct(">hhih")
"""API key, version, correlation id, length of the client id: the first bytes of every request."""
_NO_TAGS: Final = b"\x00"

_ResponseWriter: TypeAlias = tuple[Encoder, Callable[..., bytes], int]
"""The message's encoder, what packs length prefix and header, and the header's size in bytes."""
_RESPONSE_WRITERS: Final[dict[tuple[type, int], _ResponseWriter]] = {}


def skip_tagged_fields(buffer: Buffer, position: int) -> int:
    """Step over the tagged fields of a header, of which Kafka knows none; return where they end."""
    try:
        count = buffer[position]
        return skip_tags(buffer, position + 1, count, len(buffer)) if count else position + 1
    except IndexError:
        raise DecodeError("the header's tagged fields end early") from None


def encode_request(message: Any, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return the frame of the request `message` in `version`, length prefix included. For clients."""
    message_spec = spec(type(message))
    assert message_spec.kind == "request", f"{type(message).__name__} is no request"
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    out: list[Any] = [REQUEST_HEADER.pack(message_spec.api_key, version, correlation_id, length), name]
    if message_spec.is_flexible(version):
        out.append(_NO_TAGS)
    encode_into(message, version, out)
    frame = b"".join(out)
    return SIZE.pack(len(frame)) + frame


def response_frame(correlation_id: int, response: Any, version: int) -> list[Buffer]:
    """Return the frame that answers request `correlation_id`, as chunks with the length prefix first.

    Record sets are among the chunks as they are. Raises EncodeError.
    """
    cls = type(response)
    encode, pack_prefix, header_bytes = _RESPONSE_WRITERS.get((cls, version)) or _response_writer(
        cls, version
    )
    out: list[Buffer] = [b""]
    encode(response, out)
    out[0] = pack_prefix(sum(map(len, out)) + header_bytes, correlation_id)
    return out


class AnswerCount:
    """How often answers of one kind were sent; several `EncodedResponse`s may share it."""

    __slots__ = ("sent",)

    def __init__(self) -> None:
        self.sent = 0


class EncodedResponse:
    """A response that is sent again and again: it is encoded once, only the correlation id is filled in."""

    __slots__ = ("after", "before", "count", "message")

    def __init__(self, message: Any, version: int, count: AnswerCount | None = None) -> None:
        """Encode `message`; who sends it counts it in `count`. Raises EncodeError."""
        self.count = AnswerCount() if count is None else count
        frame = b"".join(response_frame(0, message, version))
        self.message = message
        self.before, self.after = frame[:SIZE_BYTES], frame[SIZE_BYTES + _CORRELATION_BYTES :]

    def frame(self, correlation_id: int) -> bytes:
        """Return the frame that answers request `correlation_id`, length prefix included."""
        return self.before + SIZE.pack(correlation_id) + self.after


def decode_response(cls: type[M], version: int, frame: Buffer) -> tuple[int, M]:
    """Read a response's frame, without its length prefix; return correlation id and response. For clients."""
    try:
        (correlation_id,) = SIZE.unpack_from(frame)
    except StructError:
        raise DecodeError(f"a frame of {len(frame)} bytes has no room for a header") from None
    start = skip_tagged_fields(frame, 4) if _has_tagged_header(cls, version) else 4
    return correlation_id, decode(cls, version, frame, start)


def _has_tagged_header(cls: type, version: int) -> bool:
    """Whether a response has header version 1. ApiVersions never has: no client could read it (KIP-511)."""
    message = spec(cls)
    return message.is_flexible(version) and message.api_key != API_VERSIONS_KEY


def _response_writer(cls: type, version: int) -> _ResponseWriter:
    prefix = Struct(">iix" if _has_tagged_header(cls, version) else ">ii")
    writer = encoder(cls, version), prefix.pack, prefix.size - SIZE_BYTES
    _RESPONSE_WRITERS[cls, version] = writer
    return writer
