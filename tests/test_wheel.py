"""The wheel: it holds the four shipped packages and nothing else, and runs in a bare environment."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.daemon import MusterDaemon
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest

ROOT = Path(__file__).parent.parent
SHIPPED = {"muster", "coordinator", "protocol", "storage"}
INSTALL_TIMEOUT_S = 480  # Two downloads and two environments, on a machine with other work to do.

pytestmark = pytest.mark.xdist_group("wheel")


def run(*command: object, cwd: Path = ROOT) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=INSTALL_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: setuptools leaves its traces in the folder that it builds."""
    source = tmp_path_factory.mktemp("source")
    for name in [*SHIPPED, "pyproject.toml", "README.md", "LICENSE"]:
        run("cp", "-r", ROOT / name, source / name)
    run("find", source, "-name", "__pycache__", "-prune", "-exec", "rm", "-r", "{}", "+")
    target = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", target, source)
    (built,) = target.glob("muster-*.whl")
    return built


@pytest.fixture(scope="module")
def bare_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The interpreter of an environment that holds the wheel and what it asks for, and nothing more."""
    home = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", home)
    python = home / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel)
    yield python
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


def test_the_daemon_runs_from_the_wheel_and_answers_api_versions(bare_python: Path, tmp_path: Path) -> None:
    """PYTHONSAFEPATH keeps the checkout, which is the working directory, off the path."""
    environment = {"PYTHONPATH": "", "PYTHONSAFEPATH": "1"}
    with MusterDaemon(tmp_path, environment=environment, python=str(bare_python)) as daemon:
        with WireClient(daemon.bootstrap) as client:
            answer = client.ask(ApiVersionsRequest(), 0)
        assert answer.error_code == ErrorCode.NONE
        assert {10, 11, 12, 14} <= {api.api_key for api in answer.api_keys}
        assert daemon.terminate() == 0
    where = [str(bare_python), "-c", "import coordinator; print(coordinator.__file__)"]
    found = subprocess.run(
        where, env=environment, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert found.startswith(str(bare_python.parent.parent))
