"""The shipped code stays a house one can find one's way in: short functions, files of one idea, no giant."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ("muster", "coordinator", "protocol", "storage")
MEDIAN_FUNCTION_LINES = (7, 13)
MEDIAN_FILE_LINES = (90, 230)
FILE_LINES_MAX = 450

Record = Callable[[str, object], None]


def shipped_files() -> dict[Path, str]:
    """Every module that is shipped; the empty `__init__` of a package is none."""
    paths = (path for package in SHIPPED for path in sorted((ROOT / package).rglob("*.py")))
    return {path: text for path in paths if (text := path.read_text())}


def function_lines(text: str) -> list[int]:
    """The length of each function: from its signature, without decorators, to its last line."""
    functions = (
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return [(node.end_lineno or 0) - node.lineno + 1 for node in functions]


def is_within(value: float, bounds: tuple[int, int]) -> bool:
    return bounds[0] <= value <= bounds[1]


def test_the_median_function_has_7_to_13_lines(record_property: Record) -> None:
    lengths = [length for text in shipped_files().values() for length in function_lines(text)]
    found = median(lengths)
    record_property(
        "figure",
        f"house: median function {found:g} lines, longest {max(lengths)}, of {len(lengths):,} functions",
    )
    assert is_within(found, MEDIAN_FUNCTION_LINES)


def test_the_median_file_has_90_to_230_lines_and_none_over_450(record_property: Record) -> None:
    lengths = {path.relative_to(ROOT): len(text.splitlines()) for path, text in shipped_files().items()}
    longest = max(lengths, key=lengths.__getitem__)
    found = median(lengths.values())
    record_property(
        "figure",
        f"house: median file {found:g} lines, longest {lengths[longest]} ({longest}), of {len(lengths)} files",
    )
    assert is_within(found, MEDIAN_FILE_LINES)
    assert {str(path): length for path, length in lengths.items() if length > FILE_LINES_MAX} == {}


def test_functions_are_measured_from_the_signature_to_the_end() -> None:
    text = (
        "@decorated\ndef f(\n    x,\n):\n    '''Promise.'''\n    def g():\n        return x\n    return g\n"
    )
    assert sorted(function_lines(text)) == [2, 7]
