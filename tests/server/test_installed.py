"""What these tests import is what they are meant to: this checkout's source, or the compiled wheel, installed.

`make test-compiled` sets MUSTER_INSTALLED, for tests in a folder without the sources. A run that found those after
all, or a wheel without its extension modules, would pass and say nothing about what users install.
"""

from __future__ import annotations

import ast
import os
import sys
import sysconfig
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.daemon import MusterDaemon
from harness.walk import walk

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("coordinator", "muster", "protocol", "storage")
IS_INSTALLED = os.environ.get("MUSTER_INSTALLED") == "compiled"
HOME = Path(sysconfig.get_path("purelib")) if IS_INSTALLED else ROOT


def compiled_modules() -> list[str]:
    """The names of the modules that setup.py has compiled, by its lists."""
    said = {
        target.id: ast.literal_eval(statement.value)
        for statement in ast.parse((ROOT / "setup.py").read_text()).body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    paths = {str(path.relative_to(HOME)) for pattern in said["COMPILED"] for path in HOME.glob(pattern)}
    return sorted(path.removesuffix(".py").replace("/", ".") for path in paths - said["INTERPRETED"])


def origin(module: str) -> Path:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None, module
    return Path(spec.origin)


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_tested_lies_where_it_is_meant_to(package: str) -> None:
    assert origin(package) == HOME / package / "__init__.py"


def test_the_modules_of_the_request_path_are_extensions_where_they_were_compiled_and_only_there() -> None:
    modules = compiled_modules()
    assert {"coordinator.groups.classic.join_group", "protocol.codec.codec", "storage.log.segment"} <= set(
        modules
    )
    extensions = [name for name in modules if origin(name).name.endswith(tuple(EXTENSION_SUFFIXES))]
    assert extensions == (modules if IS_INSTALLED else [])


def test_a_daemon_that_tests_start_runs_the_same(tmp_path: Path) -> None:
    with MusterDaemon(tmp_path) as daemon:
        mapped = Path(f"/proc/{daemon.pid}/maps").read_text()
    segment = str(HOME / "storage" / "log" / "segment.")
    assert (segment in mapped) == IS_INSTALLED


def test_an_installation_serves_commits_lists_and_stops(tmp_path: Path) -> None:
    """Out of the folder that the tests run in. For the pure wheel tests/test_wheel.py has the same."""
    environment = {} if IS_INSTALLED else {"PYTHONPATH": str(ROOT)}
    assert walk(Path(sys.executable), tmp_path, environment) == HOME / "coordinator" / "__init__.py"
