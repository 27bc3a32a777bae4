"""Nothing in the shipped code hides its size: no giant file, function or class, and few long signatures."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ("muster", "coordinator", "protocol", "storage")
DAEMON = ("coordinator", "protocol", "storage")

FILE_LINES_MAX = 450
FUNCTION_LINES_MAX = 40
METHODS_MAX = 30
PARAMETERS_MAX = 6
LONG_SIGNATURES_MAX = 10
LONG_SIGNATURES = f"functions with more than {PARAMETERS_MAX} parameters"

Function = ast.FunctionDef | ast.AsyncFunctionDef
Record = Callable[[str, object], None]


class Bound(NamedTuple):
    """A measure of each of many things, by the thing's name, and the most that it may be."""

    what: str
    measured: Mapping[str, int]
    most: int

    def broken(self) -> dict[str, int]:
        """What is above the bound."""
        return {name: number for name, number in self.measured.items() if number > self.most}


def trees(packages: tuple[str, ...]) -> Iterator[tuple[str, ast.Module]]:
    """Every module of `packages`, by its path."""
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def functions_of(tree: ast.Module) -> Iterator[tuple[str, Function, bool]]:
    """Each function, those within others too, by its name with its class; whether it is a method."""

    def within(node: ast.AST, prefix: str, is_class: bool) -> Iterator[tuple[str, Function, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function):
                yield f"{prefix}{child.name}", child, is_class
                yield from within(child, f"{prefix}{child.name}.", False)
            elif isinstance(child, ast.ClassDef):
                yield from within(child, f"{prefix}{child.name}.", True)
            else:
                yield from within(child, prefix, is_class)

    return within(tree, "", False)


def function_lines(tree: ast.Module) -> dict[str, int]:
    """Lines of each function: from its signature, without decorators, to its last line."""
    return largest(
        (name, (function.end_lineno or 0) - function.lineno + 1) for name, function, _ in functions_of(tree)
    )


def parameter_counts(tree: ast.Module) -> dict[str, int]:
    """Parameters of each function, without a method's `self` or `cls`."""
    return largest(
        (name, _parameters(function) - (is_method and not _is_static(function)))
        for name, function, is_method in functions_of(tree)
    )


def _parameters(function: Function) -> int:
    given = function.args
    rest = (given.vararg is not None) + (given.kwarg is not None)
    return len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs) + rest


def _is_static(function: Function) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "staticmethod" for each in function.decorator_list)


def method_counts(tree: ast.Module) -> dict[str, int]:
    """Methods of each class, properties among them."""
    return largest(
        (node.name, sum(isinstance(each, Function) for each in node.body))
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )


def largest(measures: Iterable[tuple[str, int]]) -> dict[str, int]:
    """The largest measure under each name: a setter has its property's, an overload that of its function."""
    found: dict[str, int] = {}
    for name, number in measures:
        found[name] = max(number, found.get(name, 0))
    return found


def measured(packages: tuple[str, ...], measure: Callable[[ast.Module], dict[str, int]]) -> dict[str, int]:
    return {
        f"{path} {name}": number for path, tree in trees(packages) for name, number in measure(tree).items()
    }


def file_lines() -> dict[str, int]:
    paths = (path for package in SHIPPED for path in (ROOT / package).rglob("*.py"))
    return {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in paths}


def long_signatures() -> dict[str, int]:
    counts = measured(SHIPPED, parameter_counts)
    return {name: count for name, count in counts.items() if count > PARAMETERS_MAX}


def bounds() -> list[Bound]:
    return [
        Bound("lines of a file", file_lines(), FILE_LINES_MAX),
        Bound("lines of a function", measured(DAEMON, function_lines), FUNCTION_LINES_MAX),
        Bound("methods of a class", measured(SHIPPED, method_counts), METHODS_MAX),
        Bound("long signatures", {LONG_SIGNATURES: len(long_signatures())}, LONG_SIGNATURES_MAX),
    ]


BOUNDS = bounds()


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.what)
def test_nothing_grows_above_its_bound(bound: Bound, record_property: Record) -> None:
    largest = max(bound.measured, key=bound.measured.__getitem__)
    record_property(
        "figure", f"house: {bound.what}: at most {bound.measured[largest]} of {bound.most} ({largest})"
    )
    assert bound.broken() == {}, long_signatures() if bound.what == "long signatures" else ""


def test_what_is_above_its_bound_is_seen() -> None:
    assert Bound("lines", {"short": 3, "long": 5}, 4).broken() == {"long": 5}


def test_functions_are_measured_from_the_signature_to_the_end() -> None:
    text = (
        "@decorated\ndef f(\n    x,\n):\n    '''Promise.'''\n    def g():\n        return x\n    return g\n"
    )
    assert function_lines(ast.parse(text)) == {"f": 7, "f.g": 2}


def test_parameters_are_counted_without_the_object() -> None:
    text = (
        "class A:\n    def f(self, a, /, b, *c, d, **e): ...\n    @staticmethod\n    def g(a): ...\n"
        "    @classmethod\n    async def h(cls, a): ...\n"
        "if True:\n    def f(a, b=1):\n        def self(self): ...\nelse:\n    def f(): ...\n"
    )
    assert parameter_counts(ast.parse(text)) == {"A.f": 5, "A.g": 1, "A.h": 1, "f": 2, "f.self": 1}


def test_methods_are_those_of_the_class_itself() -> None:
    text = (
        "class A:\n    @property\n    def f(self): ...\n"
        "    class B:\n        def g(self): ...\n        def h(self): ...\n"
    )
    assert method_counts(ast.parse(text)) == {"A": 1, "B": 2}
