"""The wheel: it holds the four shipped packages and nothing else, and runs in a bare environment."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.walk import walk
from tools.wheels import build_pure, install, run

ROOT = Path(__file__).parent.parent
SHIPPED = {"muster", "coordinator", "protocol", "storage"}

pytestmark = pytest.mark.xdist_group("wheel")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_pure(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def bare_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The interpreter of an environment that holds the wheel and what it asks for, and nothing more."""
    home = tmp_path_factory.mktemp("environment")
    yield install(home, wheel)
    run("rm", "-r", home)


def test_the_wheel_holds_the_shipped_packages_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == SHIPPED
    assert {f"{package}/py.typed" for package in SHIPPED} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_every_module_of_the_sources_is_in_the_wheel(wheel: Path) -> None:
    sources = {str(path.relative_to(ROOT)) for name in SHIPPED for path in (ROOT / name).rglob("*.py")}
    assert sources <= set(zipfile.ZipFile(wheel).namelist())


def test_the_console_script_knows_its_version(bare_python: Path, tmp_path: Path) -> None:
    assert run(bare_python.parent / "muster", "--version", cwd=tmp_path).strip() == "0.1.0"


def test_the_daemon_serves_commits_and_stops_from_the_wheel(bare_python: Path, tmp_path: Path) -> None:
    found = walk(bare_python, tmp_path, {})
    assert found.is_relative_to(bare_python.parent.parent)
