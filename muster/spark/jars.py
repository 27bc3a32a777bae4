"""The jars of Spark's Kafka source: resolved once, by the Ivy inside PySpark, and kept in a folder of the user's.

The connector is part of Spark's release and comes in PySpark's own version. What PySpark ships already is
left out, so that executors are not sent it again. A folder gets its name only when it is whole, and lists
what it holds: later starts touch no network, and a damaged one is resolved again. MUSTER_SPARK_JARS names a
folder that holds the jars on a machine without network. Knows nothing of sessions.

`python -m muster.spark.jars` resolves them ahead of time and prints the list, as `pyspark --jars` takes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from muster.sentences import say
from muster.spark.java import PYSPARK_VERSION, SparkUnavailableError, require_spark

CONNECTOR: Final = "spark-sql-kafka-0-10_2.13"
OVERRIDE: Final = "MUSTER_SPARK_JARS"
NEEDED: Final = (
    f"{CONNECTOR}-{PYSPARK_VERSION}.jar",
    f"spark-token-provider-kafka-0-10_2.13-{PYSPARK_VERSION}.jar",
    "kafka-clients-*.jar",
    "commons-pool2-*.jar",
)
"""The jars that the Kafka source does not load without; everything else it needs is in PySpark."""

_MARKER: Final = "complete"
_RESOLVE_TIMEOUT_S: Final = 600  # Ten megabytes; a slow network was seen to take two minutes.
_SHOWN_CHARACTERS: Final = 300
# Hadoop's two jars are fifty megabytes, and PySpark has them.
_IVY_MODULE: Final = f"""\
<ivy-module version="2.0">
  <info organisation="muster" module="spark-jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.spark" name="{CONNECTOR}" rev="{PYSPARK_VERSION}" conf="default->default"/>
    <exclude org="org.apache.hadoop"/>
  </dependencies>
</ivy-module>
"""

Resolver = Callable[[Path], None]
"""A function that puts the jars into an empty folder. It raises SparkUnavailableError."""


def kafka_source_jars(
    environment: Mapping[str, str] = os.environ, resolve: Resolver | None = None
) -> list[Path]:
    """The jars of Spark's Kafka source, from MUSTER_SPARK_JARS or from the cache, which is filled if need be.

    Any number of processes may ask at once: one resolves, the others wait for it. Raises SparkUnavailableError.
    """
    if override := environment.get(OVERRIDE):
        return _require_needed(Path(override), f"{OVERRIDE}={override}")
    target = cache_folder(environment) / f"{CONNECTOR}-{PYSPARK_VERSION}"
    if not _is_whole(target):
        try:
            _fill(target, resolve or resolve_by_ivy)
        except OSError as error:
            raise SparkUnavailableError(
                f"the jars of Spark's Kafka source cannot be kept in {target.parent} ({error.strerror}): set "
                f"XDG_CACHE_HOME to a folder that can be written, or {OVERRIDE} to one that has the jars"
            ) from None
    return _require_needed(target, str(target))


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Muster's folder in the user's cache folder."""
    caches = environment.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "muster"


def resolve_by_ivy(folder: Path) -> None:
    """Put the jars into `folder`, from Ivy's default repository; a proxy is set in the JVM's own way."""
    jars = _pyspark_jars()
    (ivy,) = jars.glob("ivy-*.jar")
    say("fetching the jars of Spark's Kafka source, this once")
    with TemporaryDirectory(prefix="ivy-", dir=folder.parent) as scratch:
        module = Path(scratch, "ivy.xml")
        module.write_text(_IVY_MODULE)
        command = [require_spark(), "-jar", str(ivy), "-warn", "-cache", scratch, "-ivy", str(module)]
        command += ["-confs", "default", "-types", "jar", "bundle"]
        command += ["-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]"]
        _run(command)
    shipped = {jar.name for jar in jars.iterdir()}
    for jar in folder.iterdir():
        if jar.name in shipped:
            jar.unlink()


def _run(command: list[str]) -> None:
    failed = f"the jars of Spark's Kafka source {PYSPARK_VERSION} could not be fetched"
    remedy = f"is there a network? Or set {OVERRIDE} to a folder that has the jars"
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_RESOLVE_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise SparkUnavailableError(f"{failed} in {_RESOLVE_TIMEOUT_S} s: {remedy}") from None
    if done.returncode != 0:
        said = _reason_in(f"{done.stdout}\n{done.stderr}")[:_SHOWN_CHARACTERS]
        raise SparkUnavailableError(f"{failed} ({said}): {remedy}")


def _reason_in(output: str) -> str:
    """The line of Ivy's long output with the reason of its failure: a network error, or what was not found."""
    lines = [line.strip(" :\t") for line in output.splitlines()]
    for words in ("error at url", "not found", "UNRESOLVED", "rror"):
        for line in lines:
            if words in line:
                return line
    return " ".join(filter(None, lines)) or "Ivy said nothing"


def _fill(target: Path, resolve: Resolver) -> None:
    """Resolve the jars into a folder beside `target`, and rename it to `target` when it is complete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.with_name(f"{target.name}.lock")):
        if _is_whole(target):
            return  # Another process has filled it meanwhile.
        with TemporaryDirectory(prefix=f"{target.name}.", dir=target.parent) as scratch:
            folder = Path(scratch, "jars")
            folder.mkdir()
            resolve(folder)
            jars = _require_needed(folder, "what Ivy fetched")
            (folder / _MARKER).write_text("".join(f"{jar.stat().st_size} {jar.name}\n" for jar in jars))
            shutil.rmtree(target, ignore_errors=True)
            folder.rename(target)


def _is_whole(folder: Path) -> bool:
    """Whether `folder` was completed and still has every jar that is needed, each in its full size."""
    try:
        entries = [line.split(" ", 1) for line in (folder / _MARKER).read_text().splitlines()]
        return not _missing(folder) and all(
            (folder / name).stat().st_size == int(size) for size, name in entries
        )
    except (OSError, ValueError):
        return False


def _missing(folder: Path) -> list[str]:
    return [pattern for pattern in NEEDED if not any(folder.glob(pattern))]


def _require_needed(folder: Path, what: str) -> list[Path]:
    """The jars in `folder`. Raises SparkUnavailableError, naming `what`, if one of NEEDED is not there."""
    if missing := _missing(folder):
        raise SparkUnavailableError(f"{what} lacks jars of Spark's Kafka source: {', '.join(missing)}")
    return sorted(folder.glob("*.jar"))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path`. Its holder has a deadline, and the kernel releases a dead one's lock."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _pyspark_jars() -> Path:
    import pyspark  # Slow to import, and needed only to resolve jars.

    return Path(pyspark.__file__).parent / "jars"


if __name__ == "__main__":
    try:
        print(",".join(map(str, kafka_source_jars())))
    except SparkUnavailableError as missing:
        sys.exit(f"muster: {missing}")
