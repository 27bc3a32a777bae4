"""Old clients, pinned: Python wheels by pip, jars by the Ivy that fetches Kafka's; unpacked under `.cache`, once.

Nothing of them is installed: a wheel of another Python is unpacked for the library in it, and a pure one comes
first on the path of the process that walks it.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

from harness import java_tools

KAFKA_CLIENTS: Final = ("0.11.0.3", "1.1.1", "2.4.1")
LIBRDKAFKA: Final = {"0.11.6": "cp37", "1.9.2": "cp37"}
"""Versions of confluent-kafka, each with the librdkafka of its time inside, and the Python of the wheel."""

KAFKA_PYTHON: Final = ("1.4.7",)
PLATFORMS: Final = ("manylinux1_x86_64", "manylinux2010_x86_64", "manylinux2014_x86_64")
DOWNLOAD_TIMEOUT_S: Final = 300


def unpacked(project: str, version: str, python: str | None = None) -> Path:
    """The folder with what is in the wheel of `project`, downloaded if need be. Raises CalledProcessError."""
    target = java_tools.CACHE / f"{project}-{version}"
    with java_tools.locked(java_tools.CACHE / "old-clients.lock"):
        if not target.exists():
            with java_tools.made_whole(target) as scratch:
                _download(project, version, python, scratch)
    return target


def _download(project: str, version: str, python: str | None, scratch: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
    ]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(scratch), f"{project}=={version}"]
    if python is not None:
        command += ["--python-version", python.removeprefix("cp")]
        command += [part for platform in PLATFORMS for part in ("--platform", platform)]
    subprocess.run(command, check=True, timeout=DOWNLOAD_TIMEOUT_S)
    (wheel,) = scratch.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(scratch)
    wheel.unlink()


def librdkafka(version: str) -> Path:
    """The shared library of that time. Raises CalledProcessError if its wheel cannot be downloaded."""
    (library,) = unpacked("confluent-kafka", version, LIBRDKAFKA[version]).rglob("librdkafka*.so*")
    return library


def kafka_python(version: str) -> Path:
    return unpacked("kafka-python", version)


def kafka_clients(version: str) -> Path:
    """The folder with that version of Kafka's Java client and what it needs. Raises JavaUnavailable."""
    return java_tools.fetched("kafka-clients", version)


def old_walk(version: str) -> list[str]:
    """The command that walks the Java client of this version, but for its arguments. Raises JavaUnavailable.

    One class file for all: it is compiled against the oldest client.
    """
    oldest = java_tools.classpath_of(kafka_clients(KAFKA_CLIENTS[0]))
    classes = java_tools.compile_java(Path(__file__).parent / "java", against=oldest)
    path = java_tools.classpath_of(classes, kafka_clients(version))
    return [
        java_tools.java(),
        "-Xmx192m",
        *java_tools.SHORT_LIVED,
        "-cp",
        path,
        "OldWalk",
    ]
