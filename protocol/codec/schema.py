"""How a message class says what it looks like on the wire, in all versions at once.

The decorators turn a class into a slotted, keyword-only dataclass and remember its versions; `since`
describes a field that is not the same in all of them. `fields_of` and `spec` give that knowledge to
the compiler and to tests. Annotations are resolved on first use, so that importing a message is cheap.
Nothing here knows how a value is read or written.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass
from functools import cache
from threading import Lock
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from protocol.codec.primitives import BOOLEAN, Fixed, RecordSet

T = TypeVar("T")
Kind: TypeAlias = Literal["request", "response", "data", "struct"]

NO_VERSION: Final = 1 << 15
"""Above every version there can be: an API version is an int16."""


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The versions from `first` to `last`, both included; empty if `first` is greater."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    @classmethod
    def parse(cls, text: str) -> "VersionRange":
        """Read Kafka's notation: "3", "0-4", "2+" or "none"."""
        if text == "none":
            return NEVER
        first, dash, last = text.rstrip("+").partition("-")
        if text.endswith("+"):
            return cls(int(first), NO_VERSION - 1)
        return cls(int(first), int(last) if dash else int(first))


NEVER: Final = VersionRange(NO_VERSION, -1)


@dataclass(frozen=True, slots=True)
class Text:
    """UTF-8 with a length before it."""


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes with a length before them."""


@dataclass(frozen=True, slots=True)
class Array:
    """A count, and that many elements."""

    element: "WireType"


@dataclass(frozen=True, slots=True)
class Struct:
    """The fields of another class, in line."""

    cls: type


WireType: TypeAlias = Fixed | Text | Blob | RecordSet | Array | Struct


@dataclass(frozen=True, slots=True)
class MessageSpec:
    """The API key, kind and versions of a message class. A `struct` has the versions of the message around it."""

    api_key: int | None
    kind: Kind
    min_version: int
    max_version: int
    flexible_since: int  # NO_VERSION where no version is flexible.

    def is_flexible(self, version: int) -> bool:
        """Whether `version` has compact lengths and tagged fields (KIP-482)."""
        return version >= self.flexible_since


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field: its type, where it is present, nullable and tagged, and what it is when it is not sent."""

    name: str
    type: WireType
    present: VersionRange
    nullable: VersionRange
    tagged: VersionRange
    tag: int | None
    ignorable: bool
    default: Callable[[], Any] | None

    def default_value(self) -> Any:
        """Make the value that this field has in versions without it; a required field has none."""
        if self.default is None:
            raise TypeError(f"{self.name} has no default")
        return self.default()


@overload
def since(
    version: int,
    *,
    default: T,
    until: int | None = None,
    nullable: str | None = None,
    tag: int | None = None,
    tagged: str | None = None,
    ignorable: bool = False,
) -> T: ...


@overload
def since(
    version: int,
    *,
    default_factory: Callable[[], T],
    until: int | None = None,
    nullable: str | None = None,
    tag: int | None = None,
    tagged: str | None = None,
    ignorable: bool = False,
) -> T: ...


def since(
    version: int,
    *,
    default: Any = MISSING,
    default_factory: Any = MISSING,
    until: int | None = None,
    nullable: str | None = None,
    tag: int | None = None,
    tagged: str | None = None,
    ignorable: bool = False,
) -> Any:
    """Describe a field that is present from `version` to `until`, both included.

    `nullable` narrows the versions in which a field typed `X | None` may be null (all, if not given).
    `tag` is its number in the tagged section, `tagged` the versions in which it goes there (all, if
    not given). Where the field is absent it is read as its default; writing anything else raises
    EncodeError, unless the field is `ignorable`.
    """
    if default is MISSING and default_factory is MISSING:
        raise TypeError("a field with a version needs a default for the versions without it")
    if tagged is not None and tag is None:
        raise TypeError("a tagged field needs its tag")
    present = VersionRange(version, NO_VERSION - 1 if until is None else until)
    wire = _Since(present, nullable, tag, tagged, ignorable)
    field: Any = dataclasses.field
    return field(default=default, default_factory=default_factory, metadata={_SINCE: wire})


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the fields of a class go in one version."""

    absent: tuple[FieldSpec, ...]
    inline: tuple[FieldSpec, ...]
    tagged: tuple[FieldSpec, ...]  # In the order of their tags, as they are written.


@dataclass(frozen=True, slots=True)
class _Since:
    present: VersionRange
    nullable: str | None
    tag: int | None
    tagged: str | None
    ignorable: bool


_SINCE: Final = "since"
_ALWAYS: Final = _Since(VersionRange(0, NO_VERSION - 1), None, None, None, False)
_SPECS: Final[dict[type, MessageSpec]] = {}
_PACKED: Final[set[type]] = set()
_DECLARED: Final[dict[type, type]] = {}
_COMPLETING: Final = Lock()
"""By message class with slots: the class as it was declared, without slots."""


@dataclass_transform(kw_only_default=True, field_specifiers=(since, dataclasses.field))
def request(*, key: int, versions: str, flexible: str) -> Callable[[type[T]], type[T]]:
    """Make the class the request of API `key`, in `versions`, compact and tagged in `flexible`."""
    return _message("request", key, versions, flexible)


@dataclass_transform(kw_only_default=True, field_specifiers=(since, dataclasses.field))
def response(*, key: int, versions: str, flexible: str) -> Callable[[type[T]], type[T]]:
    """Make the class the response of API `key`."""
    return _message("response", key, versions, flexible)


@dataclass_transform(kw_only_default=True, field_specifiers=(since, dataclasses.field))
def data(*, versions: str, flexible: str) -> Callable[[type[T]], type[T]]:
    """Make the class a schema that belongs to no API: what is inside records and opaque fields."""
    return _message("data", None, versions, flexible)


@dataclass_transform(kw_only_default=True, field_specifiers=(since, dataclasses.field))
def struct(cls: type[T]) -> type[T]:
    """Make the class a part of messages: its versions and flexibility come from the message around it."""
    return _register(cls, MessageSpec(None, "struct", 0, NO_VERSION - 1, NO_VERSION))


def packed(cls: type[T]) -> type[T]:
    """Let long arrays of this struct be read as `packed.PackedArray`s: the code that uses them takes both."""
    _PACKED.add(cls)
    return cls


def is_packed(cls: type) -> bool:
    """Whether arrays of `cls` may be read as `packed.PackedArray`s."""
    return cls in _PACKED


def spec(cls: type) -> MessageSpec:
    """Return the API key, kind and versions of `cls`; TypeError if `cls` is not a message class."""
    try:
        return _SPECS[cls]
    except KeyError:
        raise TypeError(f"{cls.__name__} is not declared as a message or a struct") from None


@cache
def fields_of(cls: type) -> tuple[FieldSpec, ...]:
    """Return the fields of `cls` in the order in which they go over the wire."""
    spec(cls)
    hints = get_type_hints(cls, include_extras=True)
    return tuple(
        _field_spec(f"{cls.__name__}.{field.name}", field, hints[field.name])
        for field in dataclasses.fields(cast(Any, cls))
    )


def layout_of(cls: type, version: int, flexible: bool) -> Layout:
    """Return the fields of `cls` by where `version` has them: absent, inline or tagged."""
    fields = fields_of(cls)
    present = [field for field in fields if version in field.present]
    tagged = [field for field in present if version in field.tagged]
    if tagged and not flexible:
        raise TypeError(
            f"{cls.__name__}.{tagged[0].name} is tagged in version {version}, which is not flexible"
        )
    return Layout(
        absent=tuple(field for field in fields if version not in field.present),
        inline=tuple(field for field in present if version not in field.tagged),
        tagged=tuple(sorted(tagged, key=lambda field: field.tag or 0)),
    )


def _message(kind: Kind, key: int | None, versions: str, flexible: str) -> Callable[[type[T]], type[T]]:
    valid, compact = VersionRange.parse(versions), VersionRange.parse(flexible)
    message = MessageSpec(key, kind, valid.first, valid.last, compact.first)
    return lambda cls: _register(cls, message)


def _register(cls: type[T], message: MessageSpec) -> type[T]:
    """Return `cls` with slots; it is made a dataclass on first use, as a daemon imports hundreds, and uses few.

    To make them all dataclasses at once took a tenth of the daemon's start.
    """
    names = tuple(cls.__annotations__)
    members = {
        name: member
        for name, member in vars(cls).items()
        if name not in names and name not in ("__dict__", "__weakref__")
    }
    shared = {
        "__slots__": names,
        "__init__": _first_init,
        "__dataclass_fields__": _Fields(),
        "__eq__": _equal,
        "__repr__": _repr_of,
        "__hash__": None,  # A message can be changed.
    }
    made: Any = type(cls.__name__, cls.__bases__, {**members, **shared})
    made.__qualname__ = cls.__qualname__
    _SPECS[made] = message
    _DECLARED[made] = cls
    return cast(type[T], made)


def _complete(cls: type) -> None:
    """Make `cls` the dataclass that was declared, once: at a second time its fields lose what `since` says.

    Requests are decoded on several threads, and two may come to a class at the same time.
    """
    with _COMPLETING:
        if cls not in _DECLARED:
            return
        declared: Any = dataclass(kw_only=True, eq=False, repr=False, match_args=False)(_DECLARED[cls])
        cls.__init__ = vars(declared)["__init__"]  # type: ignore[misc]  # As it is: it may not be compiled yet.
        cls.__dataclass_fields__ = declared.__dataclass_fields__  # type: ignore[attr-defined]
        del _DECLARED[cls]


def _first_init(message: Any, **values: Any) -> None:
    _complete(type(message))
    message.__init__(**values)


class _Fields:
    """A descriptor in the place of a dataclass's fields that makes the class a dataclass on first access."""

    def __get__(self, instance: object, owner: type) -> Any:
        _complete(owner)
        return owner.__dataclass_fields__  # type: ignore[attr-defined]


# `_equal` and `_repr_of`, too, are shared by all message classes.


def _equal(message: Any, other: Any) -> bool:
    if other.__class__ is not message.__class__:
        return False
    return all(getattr(message, name) == getattr(other, name) for name in message.__slots__)


def _repr_of(message: Any) -> str:
    shown = [field.name for field in dataclasses.fields(message) if field.repr]  # Secrets are not.
    fields = ", ".join(f"{name}={getattr(message, name)!r}" for name in shown)
    return f"{type(message).__qualname__}({fields})"


def _field_spec(where: str, field: dataclasses.Field[Any], hint: Any) -> FieldSpec:
    wire: _Since = field.metadata.get(_SINCE, _ALWAYS)
    kind, may_be_null = _wire_type(where, hint)
    if wire.nullable is not None and not may_be_null:
        raise TypeError(f"{where} says where it is nullable, but its type has no None")
    nullable = wire.present if wire.nullable is None else VersionRange.parse(wire.nullable)
    tagged = wire.present if wire.tagged is None else VersionRange.parse(wire.tagged)
    return FieldSpec(
        name=field.name,
        type=kind,
        present=wire.present,
        nullable=nullable if may_be_null else NEVER,
        tagged=tagged if wire.tag is not None else NEVER,
        tag=wire.tag,
        ignorable=wire.ignorable,
        default=_default(field),
    )


def _default(field: dataclasses.Field[Any]) -> Callable[[], Any] | None:
    if field.default_factory is not MISSING:
        return field.default_factory
    if field.default is MISSING:
        return None
    value = field.default
    return lambda: value


def _wire_type(where: str, hint: Any) -> tuple[WireType, bool]:
    """Read an annotation: what it is on the wire, and whether it may be None."""
    if get_origin(hint) is Annotated:
        for marker in get_args(hint)[1:]:
            if isinstance(marker, RecordSet):
                return marker, True
            if isinstance(marker, Fixed):
                return marker, False
    if get_origin(hint) in (Union, UnionType):
        return _optional_type(where, hint)
    if get_origin(hint) in (list, Sequence):
        return Array(_element_type(where, get_args(hint)[0])), False
    if hint in _PLAIN:
        return _PLAIN[hint], False
    if hint in _SPECS:
        return Struct(hint), False
    raise TypeError(f"{where}: no wire type for {hint!r}")


def _optional_type(where: str, hint: Any) -> tuple[WireType, bool]:
    inner = [argument for argument in get_args(hint) if argument is not NoneType]
    if len(inner) != 1 or len(get_args(hint)) != 2:
        raise TypeError(f"{where}: only `X | None` has a wire type, not {hint!r}")
    kind, _ = _wire_type(where, inner[0])
    if isinstance(kind, Fixed):
        raise TypeError(f"{where}: a value of fixed size cannot be null")
    return kind, True


def _element_type(where: str, hint: Any) -> WireType:
    kind, may_be_null = _wire_type(where, hint)
    if may_be_null or isinstance(kind, Array | RecordSet):
        raise TypeError(f"{where}: an element is a plain value or a struct, never null or an array")
    return kind


_PLAIN: Final[dict[Any, WireType]] = {str: Text(), bytes: Blob(), bool: BOOLEAN}
