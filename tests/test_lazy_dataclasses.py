"""Dataclasses whose methods are compiled on first use, beside the same as Python makes them."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import FrozenInstanceError, InitVar, dataclass, field, replace
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from muster import lazy_dataclasses
from muster.lazy_dataclasses import compile_methods_lazily
from protocol.codec.primitives import Int32
from protocol.codec.schema import fields_of, struct

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.skipif(
    sys.version_info >= (3, 13), reason="there Python compiles all methods of a class at once"
)


@contextmanager
def lazily() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dataclasses, "_create_fn", vars(dataclasses)["_create_fn"])  # Put back at the end.
        assert compile_methods_lazily()
        yield


def plain() -> type:
    @dataclass
    class Point:
        x: int
        y: int = 2
        z: list[int] = field(default_factory=list, compare=False)

    return Point


def frozen() -> type:
    @dataclass(frozen=True, slots=True)
    class Point:
        """A point."""

        x: int
        y: int = 2

    return Point


def ordered() -> type:
    @dataclass(order=True, slots=True, unsafe_hash=True, kw_only=True)
    class Point:
        x: int
        y: int = 2

    return Point


def derived() -> type:
    @dataclass(frozen=True)
    class Place:
        x: int

        def norm(self) -> int:
            return abs(self.x)

    @dataclass(frozen=True)
    class Point(Place):
        y: InitVar[int] = 2
        sum: int = field(init=False, repr=False)

        def __post_init__(self, y: int) -> None:
            object.__setattr__(self, "sum", self.x + y)

    return Point


def inheriting() -> type:
    """Not a dataclass itself: its methods are those of the class that it is derived from."""

    @dataclass(slots=True)
    class Place:
        x: int
        y: int = 2

    class Point(Place):
        def __init__(self, x: int, y: int = 3) -> None:
            super().__init__(x, y)

    return Point


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (AttributeError, FrozenInstanceError, TypeError) as error:
        return type(error), str(error)


def behaviour(cls: Any) -> list[Any]:
    """What can be told of a class from outside, each method used for the first time."""
    one, same, other = cls(x=1), cls(x=1), cls(x=2, y=5)
    return [
        repr(one),
        repr(other),
        one == same,
        one == other,
        one != other,
        one == 1,
        outcome(lambda: one < other),
        outcome(lambda: sorted([other, one]) == [one, other]),
        outcome(lambda: {hash(one) == hash(same)}),
        outcome(lambda: setattr(one, "x", 7)),
        outcome(lambda: delattr(other, "x")),
        repr(one),
        outcome(cls),
        outcome(lambda: cls(1, 2, 3, 4)),
        copy.deepcopy(same) == same,
        outcome(lambda: replace(same, x=9).x),
        cls.__doc__,
        str(inspect.signature(cls)),
        [(name, getattr(cls, name).__qualname__) for name in ("__init__", "__eq__", "__repr__")],
        getattr(cls, "__match_args__", None),
    ]


@pytest.mark.parametrize("make", [plain, frozen, ordered, derived, inheriting])
def test_a_class_behaves_as_python_itself_would_have_made_it(make: Callable[[], type]) -> None:
    usual = behaviour(make())
    with lazily():
        cls = make()
    assert behaviour(cls) == usual


METHODS = ("__init__", "__eq__", "__hash__", "__setattr__", "__delattr__")


def test_a_method_is_compiled_when_it_is_first_used_and_is_then_like_any_other() -> None:
    with lazily():
        cls: Any = frozen()
    assert not any(isinstance(vars(cls)[name], FunctionType) for name in METHODS)
    point = cls(1)
    assert [isinstance(vars(cls)[name], FunctionType) for name in METHODS] == [True, *[False] * 4]
    hash(point)
    assert [isinstance(vars(cls)[name], FunctionType) for name in METHODS] == [
        True,
        False,
        True,
        False,
        False,
    ]


def test_of_a_message_that_is_only_decoded_no_method_is_compiled() -> None:
    """The codec makes it without `__init__`."""
    with lazily():

        @struct
        class Part:
            """A part; without a sentence here, dataclasses would look at the signature to write one."""

            x: Int32

        fields_of(Part)
    made: Any = Part
    assert not isinstance(vars(made)["__init__"], FunctionType)
    assert made(x=3).x == 3
    assert isinstance(vars(made)["__init__"], FunctionType)


def test_a_repr_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python puts a function of its own around it, so that it stays behind that."""
    compiled = []
    compile_method = vars(dataclasses)["_create_fn"]

    def counted(name: str, *what: object, **how: object) -> Any:
        compiled.append(name)
        return compile_method(name, *what, **how)

    with lazily():
        point: Any = frozen()(1)
    monkeypatch.setattr(lazy_dataclasses, "_COMPILE", counted)
    assert repr(point) == repr(point)
    assert compiled == ["__repr__"]


@dataclass(frozen=True, slots=True)
class Kept:
    """One that can be imported, as pickle asks for."""

    x: int


def test_it_can_be_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    with lazily():
        cls: Any = dataclass(frozen=True, slots=True)(
            type("Kept", (), {"__annotations__": {"x": "int"}, "__module__": __name__})
        )
    monkeypatch.setitem(globals(), "Kept", cls)
    assert pickle.loads(pickle.dumps(cls(3))) == cls(3)


def test_where_python_has_no_such_function_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = vars(dataclasses)["_create_fn"]
    for other in (None, lambda name, args, body: None):
        monkeypatch.setattr(lazy_dataclasses, "_COMPILE", other)
        assert not compile_methods_lazily()
        assert vars(dataclasses)["_create_fn"] is before


def test_muster_serve_has_methods_compiled_on_first_use() -> None:
    """Seen at a class that its imports made, and of which a start compares nothing."""
    script = (
        "import sys, types, muster.__main__ as m; sys.argv[1:] = ['serve', '--config', '/nowhere'];"
        "assert m._run() == 2; from coordinator.settings.types import Real;"
        "print(isinstance(vars(Real)['__eq__'], types.FunctionType))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n", done.stderr
