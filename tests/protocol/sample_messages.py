"""Messages that no API has, with everything in them that the codec knows."""

from protocol.codec.codec import data, since, struct
from protocol.codec.primitives import Float64, Int8, Int16, Int32, Int64, Uint16, Uuid


@struct
class Inner:
    number: Int16 = 0


@data(versions="0-1", flexible="1+")
class Everything:
    int8: Int8
    int16: Int16
    int32: Int32
    int64: Int64
    uint16: Uint16
    float64: Float64
    flag: bool
    uuid: Uuid
    text: str
    blob: bytes
    numbers: list[Int16]
    ids: list[Uuid]
    words: list[str]
    inner: Inner
    maybe: Inner | None = since(1, default=None)


@data(versions="1", flexible="1+")
class Tagged:
    before: Int32
    last: Int32 = since(1, tag=7, default=-1)
    middle: Inner = since(1, tag=1, default_factory=Inner)
    first: str = since(1, tag=0, default="")
    maybe: Inner | None = None
