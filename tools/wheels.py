"""The wheels, for `make wheel` and the tests: the pure one is built here, and either is installed to be tried.

    python -m tools.wheels pure dist                       builds the pure wheel into dist
    python -m tools.wheels install FOLDER WHEEL --lend     makes an environment that holds WHEEL

The compiled wheel is what `make compiled` makes, beside the tree that benchmarks run. An environment is always a
new one, and has of the project what is in the wheel, with the versions in constraints.txt; `--lend` puts what
tests need (pytest, Hypothesis, other clients) behind that: the packages of the interpreter that runs this, of
which an editable installation is none, since its hook is not followed from there.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
SHIPPED: Final = ("coordinator", "muster", "protocol", "storage")
BESIDE: Final = ("LICENSE", "README.md", "pyproject.toml", "setup.py")
INSTALL_TIMEOUT_S: Final = 480  # Downloads, and another environment, on a machine with other work to do.
LENT: Final = "lent-to-tests.pth"


class CommandFailed(Exception):
    """A program that was run ended with another status than 0; the text has the end of what it wrote."""


def run(*command: object, cwd: Path = ROOT) -> str:
    """Run a program and return what it wrote to standard output. Raises CommandFailed."""
    words = [str(part) for part in command]
    done = subprocess.run(
        words, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise CommandFailed(f"{words}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


def build_pure(target: Path) -> Path:
    """Build the pure wheel into `target`, in the place of older ones, and return its path.

    From a copy of the sources: setuptools leaves its traces in the folder that it builds, and takes over what
    other builds have left there. Raises CommandFailed.
    """
    for older in target.glob("muster-*-none-any.whl"):
        older.unlink()
    with tempfile.TemporaryDirectory(prefix="wheel-") as folder:
        for name in SHIPPED:
            shutil.copytree(ROOT / name, Path(folder, name), ignore=shutil.ignore_patterns("__pycache__"))
        for name in BESIDE:
            shutil.copy(ROOT / name, folder)
        wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
        run(*wheel, "--wheel-dir", target, folder)
    (built,) = target.glob("muster-*-none-any.whl")
    return built


def install(home: Path, wheel: Path, lend: bool = False) -> Path:
    """Make a new environment in `home` with `wheel` and what it asks for; return its interpreter.

    With `lend` the packages of this interpreter are found there too, after those installed. Raises CommandFailed.
    """
    run(sys.executable, "-m", "venv", "--clear", home)
    python = home / "bin" / "python"
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    run(*pip, "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel)
    if lend:
        packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        Path(packages, LENT).write_text(sysconfig.get_path("purelib") + "\n")
    return python


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.wheels", description=(__doc__ or "").split("\n")[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    pure = commands.add_parser("pure", help="build the pure wheel")
    pure.add_argument("target", type=Path)
    installing = commands.add_parser("install", help="install a wheel into a new environment")
    installing.add_argument("home", type=Path)
    installing.add_argument("wheel", type=Path)
    installing.add_argument("--lend", action="store_true", help="with what tests need, from here")
    given = parser.parse_args(arguments)
    if given.command == "pure":
        print(build_pure(given.target.absolute()))
    else:
        install(given.home.absolute(), given.wheel.absolute(), given.lend)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
