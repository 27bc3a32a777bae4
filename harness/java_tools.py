"""Java for the tests: finds it, fetches Apache Kafka's jars once, compiles our Java sources.

The jars come by the Ivy that ships inside the pyspark wheel, from Ivy's own default repository, into
`.cache/kafka-<version>/` under the repository root; MUSTER_KAFKA_JARS names a folder that holds them
already. Parallel test workers may all ask at once: one fetches under a file lock, into a folder that gets
its name only when it is whole. Knows nothing of pytest: what is missing raises `JavaUnavailable`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

KAFKA_VERSION = "4.3.1"
MODULES = ("kafka-tools", "kafka_2.13")
STREAMS = ("kafka-streams",)
MINIMUM_JAVA = 17
SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""For JVMs that live for seconds: the simple collector and the quick compiler start with two thirds of the CPU."""
FETCH_TIMEOUT_S = 600  # A first fetch was seen to take over two minutes.
COMPILE_TIMEOUT_S = 120
CACHE = Path(__file__).resolve().parent.parent / ".cache"


class JavaUnavailable(RuntimeError):
    """Java or Kafka's jars are not available here; the message says what is missing."""


@cache
def java() -> str:
    """The path of a `java` of at least version 17: from JAVA_HOME, else from PATH. Raises JavaUnavailable."""
    program = _program("java")
    shown = subprocess.run(
        [program, "-version"], capture_output=True, text=True, timeout=60, check=False
    ).stderr
    version = re.search(r'version "(\d+)', shown)
    if version is None or int(version[1]) < MINIMUM_JAVA:
        raise JavaUnavailable(f"Java {MINIMUM_JAVA} or newer is needed; {program} says: {shown.strip()!r}")
    return program


@cache
def kafka_jars() -> Path:
    """The folder with Apache Kafka's jars and all they need, fetched if need be. Raises JavaUnavailable."""
    if override := os.environ.get("MUSTER_KAFKA_JARS"):
        if not _is_whole(Path(override)):
            raise JavaUnavailable(f"MUSTER_KAFKA_JARS={override}: no Kafka {KAFKA_VERSION} jars there")
        return Path(override)
    return _fetched(CACHE / f"kafka-{KAFKA_VERSION}", MODULES)


@cache
def streams_jars() -> Path:
    """The folder with Kafka Streams' jar and all it needs, fetched if need be. Raises JavaUnavailable.

    A folder apart from Kafka's: it brings RocksDB for every platform, and only the tests of Streams need it.
    MUSTER_KAFKA_JARS may hold it as well; where that folder does not, it is fetched.
    """
    override = os.environ.get("MUSTER_KAFKA_JARS")
    if override and _is_whole(Path(override), STREAMS):
        return Path(override)
    return _fetched(CACHE / f"kafka-streams-{KAFKA_VERSION}", STREAMS)


def classpath(*extra: Path) -> str:
    """The value of `java -cp` for `extra` and all of Kafka's jars."""
    return classpath_of(*extra, kafka_jars())


def classpath_of(*folders: Path) -> str:
    """A class path of these folders, and of the jars in the last of them."""
    return os.pathsep.join([*map(str, folders), f"{folders[-1]}/*"])


def logging_jars() -> list[Path]:
    """The jars of SLF4J and of its log4j binding, out of pyspark: Kafka's published jars have no binding."""
    jars = _pyspark_jars()
    return [_only(jars, pattern) for pattern in ("slf4j-api-*.jar", "log4j-slf4j2-impl-*.jar")]


def compile_java(sources: Path, cache: Path = CACHE, libraries: str = "", against: str | None = None) -> Path:
    """Compile the Java files in `sources` against `libraries` and Kafka's jars, or the class path `against`.

    Compiled once for each content of the sources: safe under parallel test workers. Raises JavaUnavailable
    without a compiler, and subprocess.CalledProcessError (the compiler's words on stderr) on a mistake.
    """
    files = sorted(sources.glob("*.java"))
    target = cache / f"classes-{_digest(files)}"
    with locked(cache / "classes.lock"):
        if not target.exists():
            with made_whole(target) as scratch:
                command = [
                    _program("javac"),
                    "-nowarn",
                    "-d",
                    str(scratch),
                    "-cp",
                    os.pathsep.join(filter(None, [libraries, against or classpath()])),
                    *map(str, files),
                ]
                subprocess.run(command, timeout=COMPILE_TIMEOUT_S, check=True)
    return target


def _digest(files: list[Path]) -> str:
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]


def _program(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    program = shutil.which(name, path=f"{home}/bin" if home else None)
    if program is None:
        raise JavaUnavailable(f"no `{name}` found ({f'JAVA_HOME={home}' if home else 'PATH'})")
    return program


def _is_whole(folder: Path, modules: tuple[str, ...] = MODULES) -> bool:
    """Whether every module is there; a fetched folder only gets its name when it is complete."""
    return all((folder / f"{module}-{KAFKA_VERSION}.jar").exists() for module in modules)


def fetched(module: str, version: str) -> Path:
    """The folder with a module of Apache Kafka in any version, fetched if need be. Raises JavaUnavailable."""
    java()
    target = CACHE / f"{module}-{version}"
    with locked(CACHE / f"kafka-{KAFKA_VERSION}.lock"):
        if not target.exists():
            with made_whole(target) as scratch:
                _run_ivy(_only(_pyspark_jars(), "ivy-*.jar"), module, scratch, version)
    return target


def _fetched(target: Path, modules: tuple[str, ...]) -> Path:
    """Fill `target` if it is not complete, and return it; a lock keeps processes out of Ivy's cache meanwhile."""
    with locked(CACHE / f"kafka-{KAFKA_VERSION}.lock"):
        if not _is_whole(target, modules):
            _fetch(target, modules)
    return target


def _fetch(target: Path, modules: tuple[str, ...]) -> None:
    ivy = _only(_pyspark_jars(), "ivy-*.jar")
    with made_whole(target) as scratch:
        for module in modules:
            _run_ivy(ivy, module, scratch)
        if not _is_whole(scratch, modules):
            raise JavaUnavailable(f"Ivy ended well, yet Kafka {KAFKA_VERSION} jars are missing")


def _run_ivy(ivy: Path, module: str, scratch: Path, version: str = KAFKA_VERSION) -> None:
    """Resolve one module with its runtime dependencies; `-types` leaves sources and documentation out."""
    command = [java(), "-jar", str(ivy), "-warn", "-cache", str(CACHE / "ivy")]
    command += ["-confs", "default", "-types", "jar", "bundle"]
    command += ["-dependency", "org.apache.kafka", module, version]
    command += ["-retrieve", f"{scratch}/[artifact]-[revision](-[classifier]).[ext]"]
    what = f"fetching Apache Kafka's {module} {version} by Ivy"
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        output, _ = process.communicate(timeout=FETCH_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        raise JavaUnavailable(f"{what}: not done in {FETCH_TIMEOUT_S} s\n{output[-2000:]}") from None
    if process.returncode != 0:
        raise JavaUnavailable(f"{what}: status {process.returncode}\n{output[-2000:]}")


def _pyspark_jars() -> Path:
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise JavaUnavailable("pyspark is not installed: the Ivy inside it fetches Kafka's jars")
    return Path(pyspark.origin).parent / "jars"


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise JavaUnavailable(f"{folder}: expected one {pattern}, found {len(found)}")
    return found[0]


@contextlib.contextmanager
def made_whole(target: Path) -> Iterator[Path]:
    """Yield a scratch folder beside `target`, which is renamed to `target` on success and removed on failure."""
    scratch = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    try:
        yield scratch
        shutil.rmtree(target, ignore_errors=True)
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path`; the kernel releases it if this process dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + len(MODULES) * FETCH_TIMEOUT_S + COMPILE_TIMEOUT_S
    with path.open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise JavaUnavailable(f"another process has held {path} for too long") from None
                time.sleep(0.1)
        yield


if __name__ == "__main__":  # `python -m harness.java_tools` fetches ahead of the tests.
    from muster.spark.jars import kafka_source_jars
    from muster.spark.java import SparkUnavailableError

    try:
        java()
        print(f"Apache Kafka {KAFKA_VERSION}: {kafka_jars()}, {streams_jars()}")
        print(f"Spark's Kafka source: {kafka_source_jars()[0].parent}")
    except (JavaUnavailable, SparkUnavailableError) as missing:
        # The tests that need it will say so again, or fail where it is required.
        print(f"without Java: {missing}")
