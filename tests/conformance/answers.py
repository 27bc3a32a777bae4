"""An answer as it arrived: the decoded message, its bytes, and whatever of them the message does not account for.

The codec passes over tagged fields it does not know and over bytes behind a message, as clients do. A
comparison must not: an answer is read strictly if writing the decoded message again yields the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

from protocol.codec.codec import decode_prefix, spec
from protocol.errors import EncodeError
from protocol.framing import API_VERSIONS_KEY, response_frame, skip_tagged_fields
from protocol.messages import RESPONSES

CORRELATION_ID: Final = Struct(">i")
SIZE_BYTES: Final = 4
SHOWN_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. `body` is the frame behind the correlation id, the rest of the header included."""

    name: str  # The API and its version.
    message: Any
    body: bytes
    surplus: str  # What is in `body` and not in `message`; empty if there is nothing.


def read_answer(key: int, version: int, frame: bytes) -> tuple[int, Answer]:
    """The correlation id of a response's frame (without its length prefix), and the answer. Raises DecodeError."""
    cls = RESPONSES[key]
    (correlation_id,) = CORRELATION_ID.unpack_from(frame)
    start = CORRELATION_ID.size
    if spec(cls).is_flexible(version) and key != API_VERSIONS_KEY:
        start = skip_tagged_fields(frame, start)
    message, end = decode_prefix(cls, version, frame, start)
    body = frame[CORRELATION_ID.size :]
    name = f"{cls.__name__.removesuffix('Response')} v{version}"
    surplus = _surplus(message, version, body, end - CORRELATION_ID.size)
    return correlation_id, Answer(name, message, body, surplus)


def _surplus(message: Any, version: int, body: bytes, end: int) -> str:
    """What distinguishes `body`, of which the codec has read `end` bytes, from `message` written again."""
    if end < len(body):
        return f"{len(body) - end} bytes behind the message, {_shown(body[end:])}"
    try:
        frame = b"".join(response_frame(0, message, version))
    except EncodeError as error:
        return f"cannot be written again: {error}"
    written = frame[SIZE_BYTES + CORRELATION_ID.size :]
    if written == body:
        return ""
    pairs = enumerate(zip(body, written, strict=False))
    at = next((index for index, (one, other) in pairs if one != other), min(len(body), len(written)))
    return f"{len(body) - len(written):+} bytes, from byte {at} on {_shown(body[at:])}, not {_shown(written[at:])}"


def _shown(data: bytes) -> str:
    return data[:SHOWN_BYTES].hex() + ("..." if len(data) > SHOWN_BYTES else "")
