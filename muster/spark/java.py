"""Whether Spark can run here: PySpark installed, and a Java that is new enough. Imports neither."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from typing import Final

MINIMUM_JAVA: Final = 17  # Spark 4.0 runs on 17 and 21.
_VERSION_TIMEOUT_S: Final = 60  # A JVM's first start on a busy machine was seen to take seconds.


class SparkUnavailableError(Exception):
    """PySpark or Java is missing; the message is a sentence that says which."""


def require_spark() -> None:
    """Raises SparkUnavailableError unless PySpark is installed and finds Java 17 or newer."""
    if find_spec("pyspark") is None:
        raise SparkUnavailableError("PySpark is not installed: pip install 'muster[spark]'")
    program = _java()
    found = java_version(program)
    if found < MINIMUM_JAVA:
        raise SparkUnavailableError(
            f"Spark needs Java {MINIMUM_JAVA} or newer, and {program} is Java {found}"
        )


def java_version(program: str) -> int:
    """The release of a `java` program: 17 of "17.0.15", 8 of "1.8.0". Raises SparkUnavailableError."""
    try:
        done = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SparkUnavailableError(f"{program} does not run: {error}") from None
    shown = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    if shown is None:
        raise SparkUnavailableError(f"{program} does not tell its version: {done.stderr.strip()!r}")
    return int(shown[1])


def _java() -> str:
    """The `java` that PySpark will start: JAVA_HOME's, or the first on PATH."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    if program is None:
        where = f"in JAVA_HOME={home}" if home else "on PATH"
        raise SparkUnavailableError(f"Spark needs Java {MINIMUM_JAVA} or newer, and there is none {where}")
    return program
