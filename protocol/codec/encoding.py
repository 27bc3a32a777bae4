"""Compiles a message class and a version into one straight-line encoding function.

The function appends chunks to a list. A run of fixed-size values becomes one `struct` call; chunks that
follow each other without a branch are appended at once. Record sets are appended as they are.
When a value does not fit its field the fast code only fails; `protocol.codec.faults` then says which it was.
Which class and version is asked for, and when, is the codec's business.
"""

from collections.abc import Callable
from struct import Struct as StructFormat
from struct import error as StructError
from struct import pack
from typing import Any, Final, TypeAlias

from protocol.codec.faults import explain
from protocol.codec.packed import PackedArray, packing_of
from protocol.codec.primitives import MAX_STRING_BYTES, Buffer, Fixed, encode_uvarint
from protocol.codec.schema import Array, FieldSpec, Struct, Text, WireType, is_packed, layout_of
from protocol.codec.source import Source
from protocol.errors import EncodeError

Encoder: TypeAlias = Callable[[Any, list[Any]], None]
"""Takes a message and a list, to which it appends `Buffer`s. Raises EncodeError."""

_SHORT_UVARINTS: Final = tuple(bytes([value]) for value in range(128))
_NULL_STRUCT: Final = pack(">b", -1)
_NULL_TAGGED_STRUCT: Final = b"\0"  # As Kafka has it: it counts this mark as it counts lengths.


def compile_encoder(cls: type, version: int, flexible: bool) -> Encoder:
    """Write and compile the function that encodes `cls` as `version` has it."""
    encoder: Encoder = _EncodeWriter(cls, version, flexible).write()
    return encoder


def _encode_long_string(prefix: int) -> bytes:
    if prefix > MAX_STRING_BYTES + 1:
        raise ValueError(f"a string of {prefix - 1} bytes")
    return encode_uvarint(prefix)


def _check_uuid(value: Buffer) -> Buffer:
    if len(value) != 16:
        raise ValueError(f"a uuid of {len(value)} bytes")
    return value


class _EncodeWriter:
    """Writes one encoder.

    `_run` gathers (format letter, expression) pairs of fixed-size values that follow each other,
    `_chunks` expressions that each give bytes; `_flush` turns both into one statement, and has to come
    before every branch. Expressions only read, so that it does not matter how late they are evaluated.
    """

    def __init__(self, cls: type, version: int, flexible: bool) -> None:
        self._cls, self._version, self._flexible = cls, version, flexible
        self._source = Source()
        self._run: list[tuple[str, str]] = []
        self._chunks: list[str] = []
        self._out = "out"
        self._uvarint = self._source.bind("uvarint", encode_uvarint)
        self._short = self._source.bind("short", _SHORT_UVARINTS)

    def write(self) -> Any:
        source = self._source
        refusal = source.bind("refusal", EncodeError)
        faults = source.bind("faults", (AttributeError, TypeError, ValueError, StructError))
        explained = source.bind("explain", explain)
        with source.block("def encode(message, out)"):
            with source.block("try"):
                source.line("pass")  # A message may have no fields in a version.
                self._struct(self._cls, "message")
                self._flush()
            with source.block(f"except {refusal}"):
                source.line("raise")
            with source.block(f"except {faults} as fault"):
                source.line(f"raise {refusal}({explained}(message, {self._version}, fault)) from fault")
        return source.function("encode", f"{self._cls.__name__} v{self._version}")

    def _close_run(self) -> None:
        if self._run:
            self._chunks.append(self._pack_run())

    def _pack_run(self) -> str:
        """Return the expression that packs the values of the present run, and begin a new run."""
        form = StructFormat(">" + "".join(code for code, _ in self._run))
        arguments = ", ".join(expression for _, expression in self._run)
        self._run.clear()
        if all(argument.isdigit() for argument in arguments.split(", ")):
            return repr(form.pack(*map(int, arguments.split(", "))))
        return f"{self._source.bind('pack', form.pack)}({arguments})"

    def _flush(self) -> None:
        self._close_run()
        if len(self._chunks) == 1:
            self._source.line(f"{self._out}.append({self._chunks[0]})")
        elif self._chunks:
            self._source.line(f"{self._out} += ({', '.join(self._chunks)})")
        self._chunks.clear()

    def _struct(self, cls: type, value: str) -> None:
        layout = layout_of(cls, self._version, self._flexible)
        for field in layout.absent:
            if not field.ignorable:
                self._refuse(field, f"{cls.__name__}.{field.name}", f"{value}.{field.name}")
        for field in layout.inline:
            self._value(field.type, f"{value}.{field.name}", self._version in field.nullable)
        if self._flexible:
            self._tags(layout.tagged, value)

    def _refuse(self, field: FieldSpec, where: str, value: str) -> None:
        refusal = self._source.bind("refusal", EncodeError)
        text = f"{self._cls.__name__} v{self._version}: {where} is not in this version and is not its default"
        with self._source.block(f"if {self._differs(value, field.default_value())}"):
            self._source.line(f"raise {refusal}({text!r})")

    def _differs(self, value: str, default: Any) -> str:
        """Return the condition under which `value` is not `default`; structs are compared field by field."""
        if default is None:
            return f"{value} is not None"
        if default == []:
            return f"({value} or {value} is None)"
        if isinstance(default, bool):
            return f"not {value}" if default else f"{value}"
        if isinstance(default, int | float | str | bytes):
            return f"{value} != {self._literal(default)}"
        names = type(default).__slots__
        return (
            f"({value} is None or "
            + " or ".join(self._differs(f"{value}.{name}", getattr(default, name)) for name in names)
            + ")"
        )

    def _literal(self, value: float | str | bytes) -> str:
        return repr(value) if type(value) in (int, str, bytes) else self._source.bind("default", value)

    def _value(self, kind: WireType, value: str, nullable: bool) -> None:
        if isinstance(kind, Fixed):
            checked = f"{self._source.bind('uuid', _check_uuid)}({value})"
            self._run.append((kind.code, checked if kind.code == "16s" else value))
        elif isinstance(kind, Struct):
            self._nested(kind, value, nullable)
        elif isinstance(kind, Array):
            self._array(kind.element, value, nullable)
        else:
            self._sized(kind, value, nullable)

    def _nested(self, kind: Struct, value: str, nullable: bool, null: bytes = _NULL_STRUCT) -> None:
        inner = self._source.fresh("struct")
        self._source.line(f"{inner} = {value}")
        if not nullable:
            self._struct(kind.cls, inner)
            return
        self._flush()
        with self._source.block(f"if {inner} is None"):
            self._source.line(f"{self._out}.append({null!r})")
        with self._source.block("else"):
            self._run.append(("b", "1"))
            self._struct(kind.cls, inner)
            self._flush()

    def _length(self, code: str, length: str, encode_long: str) -> None:
        """Write code for a length or count in the variable `length`, which is one more where flexible."""
        self._run.append(("B" if self._flexible else code, length))
        if not self._flexible:
            return
        before = self._run[:-1]
        short = self._pack_run() if before else f"{self._short}[{length}]"
        self._run = before
        long = f"{self._pack_run()} + {encode_long}({length})" if before else f"{encode_long}({length})"
        self._chunks.append(f"({short} if {length} < 128 else {long})")
        self._run = []

    def _sized(self, kind: WireType, value: str, nullable: bool) -> None:
        content, length = self._source.fresh("bytes"), self._source.fresh("n")
        make = ".encode()" if isinstance(kind, Text) else ""
        self._measure(value, content, length, "b''", nullable, make)
        if isinstance(kind, Text):
            self._length("h", length, self._source.bind("long", _encode_long_string))
        else:
            self._length("i", length, self._uvarint)
        self._close_run()
        self._chunks.append(content)

    def _measure(
        self, value: str, content: str, length: str, empty: str, nullable: bool, make: str = ""
    ) -> None:
        """Write code that sets `content` to the bytes or items of `value`, and `length` to the length to write."""
        if not nullable:
            self._source.line(f"{content} = {value}{make}")
            self._source.line(f"{length} = len({content}){' + 1' if self._flexible else ''}")
            return
        self._source.line(f"{content} = {value}")
        with self._source.block(f"if {content} is None"):
            self._source.line(f"{content}, {length} = {empty}, {0 if self._flexible else -1}")
        with self._source.block("else"):
            if make:
                self._source.line(f"{content} = {content}{make}")
            self._source.line(f"{length} = len({content}){' + 1' if self._flexible else ''}")

    def _array(self, element: WireType, value: str, nullable: bool) -> None:
        items, count = self._source.fresh("items"), self._source.fresh("n")
        self._measure(value, items, count, "()", nullable)
        self._length("i", count, self._uvarint)
        if isinstance(element, Fixed) and len(element.code) == 1:
            self._close_run()
            packed = self._source.bind("pack", pack)
            self._chunks.append(f"{packed}('>%d{element.code}' % len({items}), *{items})")
            return
        self._flush()
        if isinstance(element, Struct) and is_packed(element.cls):
            packing = self._source.bind("packing", packing_of(element.cls, self._version, self._flexible))
            array = self._source.bind("array", PackedArray)
            with self._source.block(f"if type({items}) is {array} and {items}.packing is {packing}"):
                self._source.line(f"{self._out}.append({items}.raw)")
            with self._source.block("else"):
                self._elements(element, items)
        else:
            self._elements(element, items)

    def _elements(self, element: WireType, items: str) -> None:
        item = self._source.fresh("item")
        with self._source.block(f"for {item} in {items}"):
            if isinstance(element, Struct):
                self._struct(element.cls, item)
            else:
                self._value(element, item, False)
            self._flush()

    def _tags(self, known: tuple[FieldSpec, ...], value: str) -> None:
        """Write the tagged section: what differs from its default, in the order of the tags."""
        if not known:
            self._run.append(("B", "0"))
            return
        marks = [self._source.fresh("set") for _ in known]
        count = self._source.fresh("n")
        for mark, field in zip(marks, known, strict=True):
            condition = self._differs(f"{value}.{field.name}", field.default_value())
            self._source.line(f"{mark} = 1 if {condition} else 0")
        self._source.line(f"{count} = {' + '.join(marks)}")
        self._run.append(("B", count))
        self._flush()
        with self._source.block(f"if {count}"):
            for mark, field in zip(marks, known, strict=True):
                with self._source.block(f"if {mark}"):
                    self._tagged_field(field, f"{value}.{field.name}")

    def _tagged_field(self, field: FieldSpec, value: str) -> None:
        outer, self._out = self._out, self._source.fresh("out")
        self._source.line(f"{self._out} = []")
        nullable = self._version in field.nullable
        if isinstance(field.type, Struct):
            self._nested(field.type, value, nullable, _NULL_TAGGED_STRUCT)
        else:
            self._value(field.type, value, nullable)
        self._flush()
        content = self._source.fresh("bytes")
        self._source.line(f"{content} = b''.join({self._out})")
        self._out = outer
        tag = encode_uvarint(field.tag or 0)
        self._chunks += [repr(tag), f"{self._uvarint}(len({content}))", content]
        self._flush()
