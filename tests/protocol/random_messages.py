"""Messages with random contents, derived from the message classes, and frames that were damaged on their way.

Everything follows from one `random.Random`, so a seed repeats a run. Names come from short lists: what is asked
for is often there, and a run makes no more groups and topics than there are names.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from protocol.codec.codec import spec
from protocol.codec.primitives import Fixed
from protocol.codec.schema import Array, FieldSpec, Struct, Text, WireType, layout_of
from protocol.framing import encode_request
from protocol.messages import REQUESTS
from protocol.records.records import Record, encode_batch

NAMES: Final = ("g", "h", "t", "u", "consumer", "range", "m-1", "", "x" * 126, "x" * 127, "\u00fc" * 100)
SMALL: Final = (-2, -1, 0, 0, 0, 1, 1, 2, 3, 7, 100, 1000)
BITS: Final = {"b": 8, "h": 16, "i": 32, "q": 64, "H": 16}
SIGNED: Final = "bhiq"
BATCH: Final = encode_batch([Record(b"k", b"v" * 50, 1_700_000_000_000) for _ in range(3)])
SIZE_BYTES: Final = 4
VERSION_AT: Final = 6
HEADER_BYTES: Final = 10

Mutation = Callable[[Random, bytearray], None]


def random_message(random: Random, cls: type, version: int) -> Any:
    """A message of `cls`, or a struct of one, as `version` has it."""
    return _struct(random, cls, version, spec(cls).is_flexible(version))


def _struct(random: Random, cls: type, version: int, flexible: bool) -> Any:
    layout = layout_of(cls, version, flexible)
    return cls(**{f.name: _field(random, f, version, flexible) for f in layout.inline + layout.tagged})


def _field(random: Random, field: FieldSpec, version: int, flexible: bool) -> Any:
    if field.tag is not None and random.random() < 0.5:
        return field.default_value()
    if version in field.nullable and random.random() < 0.2:
        return None
    return _value(random, field.type, version, flexible)


def _value(random: Random, kind: WireType, version: int, flexible: bool) -> Any:
    if isinstance(kind, Fixed):
        return _fixed(random, kind.code)
    if isinstance(kind, Struct):
        return _struct(random, kind.cls, version, flexible)
    if isinstance(kind, Array):
        return [_value(random, kind.element, version, flexible) for _ in range(random.choice((0, 1, 1, 2)))]
    if isinstance(kind, Text):
        return random.choice(NAMES)
    return random.choice((BATCH, b"", random.randbytes(random.randrange(40))))


def _fixed(random: Random, code: str) -> Any:
    if code == "?":
        return random.random() < 0.5
    if code == "d":
        return random.choice((0.0, 1.5, -1.0))
    if code not in BITS:
        return random.choice((bytes(16), random.randbytes(16)))
    bits = BITS[code]
    lowest = -(1 << bits - 1) if code in SIGNED else 0
    highest = lowest + (1 << bits) - 1
    chosen = random.choice(SMALL) if random.random() < 0.8 else random.randint(lowest, highest)
    return min(max(chosen, lowest), highest)


# What becomes of a frame on its way. The header stays: the mutated body is what decoders and handlers meet.


def _as_it_is(random: Random, body: bytearray) -> None:
    return


def _flip_bits(random: Random, body: bytearray) -> None:
    for _ in range(random.choice((1, 1, 2, 8))):
        if body:
            body[random.randrange(len(body))] ^= 1 << random.randrange(8)


def _cut(random: Random, body: bytearray) -> None:
    """Cut the body at any length; the first and the last few are as likely as all the others."""
    ends = (random.randrange(9), len(body) - random.randrange(9), random.randrange(len(body) + 1))
    del body[max(0, random.choice(ends)) :]


def _claim_much(random: Random, body: bytearray) -> None:
    """Overwrite a length, or whatever stands there, with a large one."""
    large = random.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff", b"\x7f\xff"))
    at = random.randrange(len(body) + 1)
    body[at : at + len(large)] = large


def _insert(random: Random, body: bytearray) -> None:
    at = random.randrange(len(body) + 1)
    body[at:at] = random.randbytes(random.choice((1, 4, 30)))


def _append(random: Random, body: bytearray) -> None:
    body += random.randbytes(random.choice((1, 20, 3000)))


MUTATIONS: Final[Sequence[Mutation]] = (_as_it_is, _flip_bits, _cut, _claim_much, _insert, _append)


def random_frame(random: Random, key: int, version: int) -> bytes:
    """A request of this API and version whose body may have been damaged; its size is right."""
    frame = intact_frame(random, key, version)
    body = bytearray(frame[SIZE_BYTES + HEADER_BYTES :])
    random.choice(MUTATIONS)(random, body)
    head = frame[SIZE_BYTES : SIZE_BYTES + HEADER_BYTES]
    return struct.pack(">i", len(head) + len(body)) + head + bytes(body)


def intact_frame(random: Random, key: int, version: int) -> bytes:
    """A request of this API and version; one that is none of the message's has the body of the lowest that is."""
    written = max(version, spec(REQUESTS[key]).min_version)
    message = random_message(random, REQUESTS[key], written)
    frame = bytearray(
        encode_request(message, written, random.getrandbits(31), random.choice((None, "c", "")))
    )
    frame[VERSION_AT : VERSION_AT + 2] = struct.pack(">h", version)
    return bytes(frame)
