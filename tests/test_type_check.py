"""What `make check` has mypy read: all of our packages, as strictly, and no module of ours with an exception."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parent.parent
OURS: Final = {"muster", "coordinator", "protocol", "storage", "harness", "tools", "tests", "bench"}
SOURCES: Final = [path for package in sorted(OURS) for path in (ROOT / package).rglob("*.py")]
IGNORED: Final = re.compile(r"#\s*type:\s*ignore(\[[a-z, -]+\])?")
IGNORES_MAX: Final = 54
"""For doubles that stand in for classes, and for what is wrong on purpose. Lower it when some go."""


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        mypy: dict[str, Any] = tomllib.load(file)["tool"]["mypy"]
    return mypy


def test_every_package_is_read_strictly(config: dict[str, Any]) -> None:
    assert config["strict"] is True
    assert set(config["packages"]) == OURS
    assert "exclude" not in config
    assert re.search(
        r"^check:.*\n(?:\t.*\n)*\t\$\(BIN\)/mypy\n", (ROOT / "Makefile").read_text(), re.MULTILINE
    )


def test_exceptions_are_for_packages_of_others(config: dict[str, Any]) -> None:
    for override in config["overrides"]:
        modules = override["module"]
        named = {module.split(".")[0] for module in ([modules] if isinstance(modules, str) else modules)}
        assert not named & (OURS | {"*"}), override


def test_ignores_name_their_error_and_are_few() -> None:
    found: list[str] = []
    for path in SOURCES:
        if path == Path(__file__):
            continue
        text = path.read_text()
        assert "# mypy:" not in text, f"{path} has settings of its own"
        for match in IGNORED.finditer(text):
            assert match[1], f"{path}: {match[0]} names no error"
            found.append(f"{path}: {match[0]}")
    assert 0 < len(found) <= IGNORES_MAX, "\n".join(found)
