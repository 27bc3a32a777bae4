"""Checks whether Spark can run here: the PySpark that Muster is made for, and a Java for it. Imports neither."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Final

# PySpark, its Kafka source and the jars of both are one release: no other was tested together.
PYSPARK_VERSION: Final = "4.0.0"
MINIMUM_JAVA: Final = 17
# Hadoop's login calls what Java 23 disabled and 24 removed; the newest release that Spark 4.0 is made for is 21.
MAXIMUM_JAVA: Final = 21
_VERSION_TIMEOUT_S: Final = 60  # A JVM's first start on a busy machine was seen to take seconds.
_INSTALL_JAVA: Final = (
    "install Java 17 or 21 (on Debian: apt install openjdk-17-jre-headless) and set JAVA_HOME to it"
)


class SparkUnavailableError(Exception):
    """Spark cannot run, here or on the cluster asked for; the message is a sentence that says what is missing."""


def require_spark() -> str:
    """The `java` that Spark will run on.

    Raises SparkUnavailableError unless PySpark is installed in the one version that Muster is made for, and
    finds a Java from MINIMUM_JAVA to MAXIMUM_JAVA.
    """
    require_pyspark()
    program = _java()
    found = java_version(program)
    if not MINIMUM_JAVA <= found <= MAXIMUM_JAVA:
        raise SparkUnavailableError(
            f"Spark {PYSPARK_VERSION} runs on Java 17 to 21, and {program} is Java {found}: {_INSTALL_JAVA}"
        )
    return program


def require_pyspark() -> None:
    """Raises SparkUnavailableError unless PySpark is installed in the version that Muster is made for."""
    needed = f"pip install 'pyspark=={PYSPARK_VERSION}'"
    if find_spec("pyspark") is None:
        raise SparkUnavailableError("PySpark is not installed: pip install 'muster[spark]'")
    try:
        found = version("pyspark")
    except PackageNotFoundError:  # PySpark from an unpacked Spark, whose folder `python` is on the path.
        from pyspark.version import __version__ as found
    if found != PYSPARK_VERSION:
        raise SparkUnavailableError(
            f"PySpark {PYSPARK_VERSION} is needed, with the Kafka source of the same version, "
            f"and {found} is installed: {needed}"
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
        raise SparkUnavailableError(f"{program} does not show its version: {done.stderr.strip()!r}")
    return int(shown[1])


def _java() -> str:
    """The `java` that PySpark will start: JAVA_HOME's, or the first on PATH."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    if program is None:
        where = f"in JAVA_HOME={home}" if home else "on PATH"
        raise SparkUnavailableError(
            f"Spark {PYSPARK_VERSION} runs on Java 17 to 21, and there is none {where}: {_INSTALL_JAVA}"
        )
    return program
