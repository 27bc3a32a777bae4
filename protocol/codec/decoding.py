"""Compiles a message class and a version into one straight-line decoding function.

The function walks the buffer with a single local `pos`. Runs of fixed-size fields, and the length or
count that follows them, become one `struct` call; nested structs and arrays are written in line. Every
length is checked against what is left before anything is made from it, and a count against the
smallest its elements can be, so that what is allocated stays proportional to the input.
Text that is not UTF-8 is read as Kafka reads it: a second function, made when it is needed, replaces it.
Which class and version is asked for, and when, is the codec's business.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from struct import Struct as StructFormat
from struct import error as StructError
from struct import unpack_from
from typing import Any, TypeAlias

from protocol.codec.packed import PACKED_FROM, packing_of
from protocol.codec.primitives import (
    MAX_STRING_BYTES,
    MAX_TAGGED_FIELDS,
    Buffer,
    Fixed,
    RecordSet,
    read_uvarint,
    replaced_text,
)
from protocol.codec.schema import Array, Blob, FieldSpec, Struct, Text, WireType, is_packed, layout_of
from protocol.codec.source import Source
from protocol.errors import DecodeError

Decoder: TypeAlias = Callable[[Buffer, int], tuple[Any, int]]
"""Takes a buffer and a position; returns the message and the position behind it. Raises DecodeError."""


def compile_decoder(cls: type, version: int, flexible: bool) -> Decoder:
    """Write and compile the function that decodes `cls` as `version` has it."""
    lenient: list[Decoder] = []  # Compiled when it is needed, which is next to never.

    def read_leniently(buffer: Buffer, pos: int) -> tuple[Any, int]:
        if not lenient:
            lenient.append(_DecodeWriter(cls, version, flexible, None).write())
        return lenient[0](buffer, pos)

    decoder: Decoder = _DecodeWriter(cls, version, flexible, read_leniently).write()
    return decoder


def minimum_bytes(kind: WireType, version: int, flexible: bool, nullable: bool = False) -> int:
    """Return the fewest bytes that a value can take: an array's count is checked against it."""
    if isinstance(kind, Fixed):
        return kind.size_bytes
    if isinstance(kind, Text):
        return 1 if flexible else 2
    if isinstance(kind, Struct):
        return 1 if nullable else _minimum_struct_bytes(kind.cls, version, flexible)
    return 1 if flexible else 4


def _minimum_struct_bytes(cls: type, version: int, flexible: bool) -> int:
    inline = layout_of(cls, version, flexible).inline
    fields = sum(minimum_bytes(f.type, version, flexible, version in f.nullable) for f in inline)
    return fields + (1 if flexible else 0)


def carries_records(cls: type, version: int, flexible: bool) -> bool:
    """Whether a message holds record sets, which are handed out as views and not copied."""
    layout = layout_of(cls, version, flexible)
    return any(_holds_records(field.type, version, flexible) for field in layout.inline + layout.tagged)


def _holds_records(kind: WireType, version: int, flexible: bool) -> bool:
    if isinstance(kind, Array):
        kind = kind.element
    if isinstance(kind, Struct):
        return carries_records(kind.cls, version, flexible)
    return isinstance(kind, RecordSet)


def skip_tags(buffer: Buffer, pos: int, count: int, size: int) -> int:
    """Return the position after a section of unknown tagged fields; `count` is the section's first byte."""
    if count > 127:
        count, pos = read_uvarint(buffer, pos - 1)
        if count > MAX_TAGGED_FIELDS:
            raise DecodeError(f"{count} tagged fields; {MAX_TAGGED_FIELDS} are the most")
    for _ in range(count):
        _, pos = read_uvarint(buffer, pos)
        length, pos = read_uvarint(buffer, pos)
        pos += length
        if pos > size:
            raise DecodeError("a tagged field runs past the end")
    return pos


def _long_string(buffer: Buffer, pos: int) -> tuple[int, int]:
    length, pos = read_uvarint(buffer, pos)
    if length > MAX_STRING_BYTES + 1:
        raise DecodeError(f"a string of {length - 1} bytes; {MAX_STRING_BYTES} is the most")
    return length, pos


class _DecodeWriter:
    """Writes one decoder.

    `_run` gathers (format letter, target) pairs of fixed-size values that follow each other; `_flush`
    turns them into one statement, and has to come before anything that moves `pos` by itself.
    """

    def __init__(self, cls: type, version: int, flexible: bool, lenient: Decoder | None) -> None:
        self._cls, self._version, self._flexible = cls, version, flexible
        self._lenient = lenient  # Decodes messages with text that is not UTF-8; None: this one does.
        self._title = f"{cls.__name__} v{version}"
        self._views = carries_records(cls, version, flexible)
        self._source = Source()
        self._run: list[tuple[str, str]] = []
        self._new = self._source.bind("new", object.__new__)
        self._error = self._source.bind("error", DecodeError)
        self._uvarint = self._source.bind("uvarint", read_uvarint)

    def write(self) -> Any:
        source = self._source
        early = source.bind("early", (IndexError, StructError))
        wanted = "memoryview" if self._views else "bytes"
        with source.block("def decode(buf, pos)"):
            with source.block(f"if type(buf) is not {wanted}"):
                source.line(f"buf = {wanted}(buf)")
            source.line("size = len(buf)")
            if self._lenient is not None:
                source.line("start = pos")
            with source.block("try"):
                self._struct(self._cls, "message")
                self._flush()
            with source.block(f"except {early}"):
                source.line(f"raise {self._error}({f'{self._title}: ends early'!r}) from None")
            if self._lenient is not None:
                with source.block("except UnicodeDecodeError"):
                    source.line(f"return {source.bind('lenient', self._lenient)}(buf, start)")
            source.line("return message, pos")
        return source.function("decode", self._title)

    def _fail_if(self, condition: str, where: str, what: str) -> None:
        with self._source.block(f"if {condition}"):
            self._source.line(f"raise {self._error}({f'{self._title}: {where} {what}'!r})")

    def _flush(self) -> None:
        if not self._run:
            return
        form = StructFormat(">" + "".join(code for code, _ in self._run))
        targets = ", ".join(target for _, target in self._run)
        if form.format == ">B":
            self._source.line(f"{targets} = buf[pos]")
        else:
            unpack = self._source.bind("unpack", form.unpack_from)
            self._source.line(f"{targets}{',' if len(self._run) == 1 else ''} = {unpack}(buf, pos)")
        self._source.line(f"pos += {form.size}")
        self._run.clear()

    def _struct(self, cls: type, target: str) -> None:
        layout = layout_of(cls, self._version, self._flexible)
        self._source.line(f"{target} = {self._new}({self._source.bind('cls', cls)})")
        for field in layout.absent + layout.tagged:
            self._default(field, f"{target}.{field.name}")
        for field in layout.inline:
            nullable = self._version in field.nullable
            self._value(field.type, f"{target}.{field.name}", nullable, f"{cls.__name__}.{field.name}")
        if self._flexible:
            self._tags(layout.tagged, cls, target)

    def _default(self, field: FieldSpec, target: str) -> None:
        value = field.default_value()
        if value is None or type(value) in (bool, int, float, str, bytes):
            text = repr(value)
        else:
            text = "[]" if value == [] else self._source.bind("default", field.default) + "()"
        self._source.line(f"{target} = {text}")

    def _value(self, kind: WireType, target: str, nullable: bool, where: str) -> None:
        if isinstance(kind, Fixed):
            self._run.append((kind.code, target))
        elif isinstance(kind, Struct):
            self._nested(kind, target, nullable)
        elif isinstance(kind, Array):
            self._array(kind.element, target, nullable, where)
        else:
            self._sized(kind, target, nullable, where)

    def _nested(self, kind: Struct, target: str, nullable: bool, null: str = "< 0") -> None:
        inner = self._source.fresh("struct")
        if not nullable:
            self._struct(kind.cls, inner)
            self._source.line(f"{target} = {inner}")
            return
        mark = self._source.fresh("mark")
        self._run.append(("b", mark))
        self._flush()
        with self._source.block(f"if {mark} {null}"):
            self._source.line(f"{target} = None")
        with self._source.block("else"):
            self._struct(kind.cls, inner)
            self._flush()
            self._source.line(f"{target} = {inner}")

    def _length(self, code: str, read_long: str) -> tuple[str, str]:
        """Write code that reads a length or count; return the variable, and the condition under which it is null.

        Where versions are flexible the value read is one more than the length.
        """
        name = self._source.fresh("n")
        self._run.append(("B" if self._flexible else code, name))
        self._flush()
        if not self._flexible:
            return name, f"{name} < 0"
        with self._source.block(f"if {name} > 127"):
            self._source.line(f"{name}, pos = {read_long}(buf, pos - 1)")
        return name, f"not {name}"

    def _unless_null(
        self, null: str, target: str, nullable: bool, where: str
    ) -> AbstractContextManager[None]:
        """Write code for a null value; return the block for code for all other values."""
        if not nullable:
            self._fail_if(null, where, "is null")
            return nullcontext()
        with self._source.block(f"if {null}"):
            self._source.line(f"{target} = None")
        return self._source.block("else")

    def _sized(self, kind: WireType, target: str, nullable: bool, where: str) -> None:
        is_text = isinstance(kind, Text)
        read_long = self._source.bind("long", _long_string) if is_text else self._uvarint
        length, null = self._length("h" if is_text else "i", read_long)
        with self._unless_null(null, target, nullable, where):
            self._source.line(f"end = pos + {length}{' - 1' if self._flexible else ''}")
            self._fail_if("end > size", where, "runs past the end")
            self._source.line(f"{target} = {self._slice(kind)}")
            self._source.line("pos = end")

    def _slice(self, kind: WireType) -> str:
        if isinstance(kind, Text):
            if self._lenient is None:
                return f"{self._source.bind('text', replaced_text)}(buf[pos:end])"
            return "str(buf[pos:end], 'utf-8')" if self._views else "buf[pos:end].decode()"
        return "bytes(buf[pos:end])" if self._views and isinstance(kind, Blob) else "buf[pos:end]"

    def _array(self, element: WireType, target: str, nullable: bool, where: str) -> None:
        count, null = self._length("i", self._uvarint)
        with self._unless_null(null, target, nullable, where):
            if self._flexible:
                self._source.line(f"{count} -= 1")
            smallest = minimum_bytes(element, self._version, self._flexible)
            if not smallest:
                raise TypeError(f"{self._title}: an element of {where} takes no bytes")
            self._fail_if(f"{count} * {smallest} > size - pos", where, "counts more than there is")
            if isinstance(element, Fixed) and len(element.code) == 1:
                self._fixed_elements(element, target, count)
            else:
                self._elements(element, target, count, where)

    def _fixed_elements(self, element: Fixed, target: str, count: str) -> None:
        unpack = self._source.bind("unpack", unpack_from)
        self._source.line(f"{target} = list({unpack}('>%d{element.code}' % {count}, buf, pos))")
        self._source.line(f"pos += {count} * {element.size_bytes}")

    def _elements(self, element: WireType, target: str, count: str, where: str) -> None:
        if isinstance(element, Struct) and is_packed(element.cls):
            self._packed_elements(element, target, count, where)
        else:
            self._elements_one_by_one(element, target, count, where)

    def _packed_elements(self, element: Struct, target: str, count: str, where: str) -> None:
        """Write code that reads elements as a PackedArray if they are many and lie so, else one by one."""
        packing, items = packing_of(element.cls, self._version, self._flexible), self._source.fresh("items")
        take = self._source.bind("take", packing.take)
        self._source.line(f"{items} = {take}(buf, pos, {count}) if {count} >= {PACKED_FROM} else None")
        with self._source.block(f"if {items} is None"):
            self._elements_one_by_one(element, target, count, where)
        with self._source.block("else"):
            self._source.line(f"{target} = {items}")
            self._source.line(f"pos += {count} * {packing.form.size}")

    def _elements_one_by_one(self, element: WireType, target: str, count: str, where: str) -> None:
        items, item = self._source.fresh("items"), self._source.fresh("item")
        self._source.line(f"{target} = {items} = []")
        with self._source.block(f"for _ in range({count})"):
            if isinstance(element, Struct):
                self._struct(element.cls, item)
            else:
                self._value(element, item, False, where)
            self._flush()
            self._source.line(f"{items}.append({item})")

    def _tags(self, known: tuple[FieldSpec, ...], cls: type, target: str) -> None:
        count = self._source.fresh("n")
        self._run.append(("B", count))
        self._flush()
        with self._source.block(f"if {count}"):
            if not known:
                skip = self._source.bind("skip", skip_tags)
                self._source.line(f"pos = {skip}(buf, pos, {count}, size)")
                return
            with self._source.block(f"if {count} > 127"):
                self._source.line(f"{count}, pos = {self._uvarint}(buf, pos - 1)")
                self._fail_if(f"{count} > {MAX_TAGGED_FIELDS}", cls.__name__, "has too many tagged fields")
            with self._source.block(f"for _ in range({count})"):
                self._tagged_field(known, cls, target)

    def _tagged_field(self, known: tuple[FieldSpec, ...], cls: type, target: str) -> None:
        tag, length = self._source.fresh("tag"), self._source.fresh("n")
        end = self._source.fresh("end")
        self._source.line(f"{tag}, pos = {self._uvarint}(buf, pos)")
        self._source.line(f"{length}, pos = {self._uvarint}(buf, pos)")
        self._source.line(f"{end} = pos + {length}")
        self._fail_if(f"{end} > size", f"a tagged field of {cls.__name__}", "runs past the end")
        for index, field in enumerate(known):
            where = f"{cls.__name__}.{field.name}"
            with self._source.block(f"{'el' if index else ''}if {tag} == {field.tag}"):
                nullable, place = self._version in field.nullable, f"{target}.{field.name}"
                if isinstance(field.type, Struct):  # Kafka marks a null tagged struct by 0, others by -1.
                    self._nested(field.type, place, nullable, null="<= 0")
                else:
                    self._value(field.type, place, nullable, where)
                self._flush()
                self._fail_if(f"pos != {end}", where, "does not fill its tagged field")
        with self._source.block("else"):
            self._source.line(f"pos = {end}")
