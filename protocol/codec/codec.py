"""Encodes and decodes message classes; each (class, version) is compiled when it is first asked for.

A class declares itself with the decorators of `protocol.codec.schema`, which are handed on here, so that a
message module needs only this import. Compiled functions are kept for good: there are as many as
there are classes and versions, whatever a peer sends. The codec knows no frames and no headers.
"""

from typing import Any, Final, TypeVar

from protocol.codec.decoding import Decoder, compile_decoder
from protocol.codec.encoding import Encoder, compile_encoder
from protocol.codec.primitives import Buffer
from protocol.codec.schema import MessageSpec, data, packed, request, response, since, spec, struct
from protocol.errors import DecodeError, EncodeError

__all__ = [
    "MessageSpec",
    "data",
    "decode",
    "decode_prefix",
    "decoder",
    "encode",
    "encode_into",
    "encoder",
    "packed",
    "request",
    "response",
    "since",
    "spec",
    "struct",
]

M = TypeVar("M")

_DECODERS: Final[dict[tuple[type, int], Decoder]] = {}
_ENCODERS: Final[dict[tuple[type, int], Encoder]] = {}


def encode(message: Any, version: int) -> bytes:
    """Write `message` as `version` has it.

    Raises EncodeError, which names class, field and version, where a value does not fit its field, where
    a field is set that the version has not, and where the class has not that version.
    """
    out: list[Any] = []
    encode_into(message, version, out)
    return out[0] if len(out) == 1 and type(out[0]) is bytes else b"".join(out)


def encode_into(message: Any, version: int, out: list[Any]) -> None:
    """Append the chunks of `message` to `out`; record sets are among them as they are, not copied.

    Raises EncodeError as `encode` does; `out` may then have some of the chunks.
    """
    found = _ENCODERS.get((type(message), version)) or encoder(type(message), version)
    found(message, out)


def decode(cls: type[M], version: int, buffer: Buffer, start: int = 0) -> M:
    """Read a `cls` at `start`; bytes after the message are ignored, as Kafka does.

    Record sets are views of `buffer`; everything else is copied. Raises DecodeError, whatever the bytes.
    """
    found = _DECODERS.get((cls, version)) or decoder(cls, version)
    message: M = found(buffer, start)[0]
    return message


def decode_prefix(cls: type[M], version: int, buffer: Buffer, start: int = 0) -> tuple[M, int]:
    """Read a `cls` at `start`; also return the position behind it."""
    found = _DECODERS.get((cls, version)) or decoder(cls, version)
    return found(buffer, start)


def decoder(cls: type, version: int) -> Decoder:
    """Return the compiled function behind `decode_prefix`; DecodeError outside the versions of `cls`."""
    found = _DECODERS.get((cls, version))
    if found is None:
        flexible = _is_flexible(cls, version, DecodeError)
        found = _DECODERS[cls, version] = compile_decoder(cls, version, flexible)
    return found


def encoder(cls: type, version: int) -> Encoder:
    """Return the compiled function behind `encode_into`; EncodeError outside the versions of `cls`."""
    found = _ENCODERS.get((cls, version))
    if found is None:
        flexible = _is_flexible(cls, version, EncodeError)
        found = _ENCODERS[cls, version] = compile_encoder(cls, version, flexible)
    return found


def _is_flexible(cls: type, version: int, error: type[ValueError]) -> bool:
    message = spec(cls)
    if message.kind == "struct":
        raise TypeError(f"{cls.__name__} is a part of messages and has no versions of its own")
    if not message.min_version <= version <= message.max_version:
        known = f"{message.min_version} to {message.max_version}"
        raise error(f"{cls.__name__} has versions {known}, not {version}")
    return message.is_flexible(version)
