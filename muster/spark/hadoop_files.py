"""Files through the JVM's Hadoop classes: local, hdfs://, s3a://, wherever Spark itself can read and write.

They are opened with the session's own Hadoop settings, as Spark opens them. What was opened outlives
`spark.stop()`, which leaves the JVM running: the last look at a checkpoint may come after it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

FILE_BYTES_MAX: Final = 64 * 1024 * 1024  # The offsets of a million partitions take some 20 MB.
_MISSING: Final = "java.io.FileNotFoundException"
# Py4J's own errors, Java's as Spark translates them, and those of a JVM that has ended.
_FAILURES: Final = (Py4JError, PySparkException, OSError)


class HadoopError(OSError):
    """The files cannot be reached, or the file system refuses an operation; the message is a sentence."""


class TooLargeError(HadoopError):
    """A file has more than FILE_BYTES_MAX bytes."""


class HadoopFiles:
    """The files below `root`, a path or a URL, by relative paths. Every method raises HadoopError."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        try:
            with _as_hadoop_error(f"{root} cannot be reached"):
                jvm: Any = spark._jvm
                settings = spark._jsparkSession.sessionState().newHadoopConf()
        except AttributeError:  # PySpark has a subclass of it for remote sessions.
            raise HadoopError("Spark Connect gives no access to Spark's JVM") from None
        self._root = root
        with _as_hadoop_error(f"{root} cannot be reached"):
            self._path_of = jvm.org.apache.hadoop.fs.Path
            self._checked: Any = self._path_of(root).getFileSystem(settings)
            self._is_local = self._checked.getUri().getScheme() == "file"
            # Writes bypass the layer that keeps a checksum file beside each file: the two would not change in one
            # step. A file that has a checksum file is read through that layer.
            self._plain: Any = self._checked.getRawFileSystem() if self._is_local else self._checked

    def url(self, name: str) -> str:
        return f"{self._root}/{name}"

    def names(self, folder: str, prefix: str = "") -> list[str]:
        """The names in a folder that begin with `prefix`, sorted; empty if the folder does not exist."""
        with _as_hadoop_error(f"{self.url(folder)} cannot be listed"):
            try:
                found = [
                    str(each.getPath().getName()) for each in self._checked.listStatus(self._path(folder))
                ]
            except Py4JJavaError as error:
                if _is_missing(error):
                    return []
                raise
        return sorted(name for name in found if name.startswith(prefix))

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if it does not exist. Raises TooLargeError."""
        with _as_hadoop_error(f"{self.url(name)} cannot be read"):
            try:
                opened = self._checked.open(self._path(name))
            except Py4JJavaError as error:
                if _is_missing(error):
                    return None
                raise
            try:
                data = bytes(opened.readNBytes(FILE_BYTES_MAX + 1))
            finally:
                opened.close()
        if len(data) > FILE_BYTES_MAX:
            raise TooLargeError(f"{self.url(name)} has more than {FILE_BYTES_MAX:,} bytes")
        return data

    def read_json(self, name: str) -> Any:
        """The value that `write_json` wrote; None if the file does not exist."""
        data = self.read(name)
        return None if data is None else json.loads(data)

    def write_json(self, name: str, content: object) -> None:
        """Write a whole file under a name, replacing a file of that name."""
        draft = f"{name}.new"
        with _as_hadoop_error(f"{self.url(draft)} cannot be written"):
            stream = self._plain.create(self._path(draft), True)
            try:
                stream.write(json.dumps(content).encode())
            finally:
                stream.close()
        self.move(draft, name)

    def move(self, source: str, target: str) -> None:
        """Move a file to a name, replacing a file of that name."""
        source_path, target_path = self._path(source), self._path(target)
        with _as_hadoop_error(f"{source} could not be renamed to {target}"):
            self._plain.mkdirs(target_path.getParent())
            if not self._is_local:
                self._plain.delete(target_path, False)
            is_done = self._plain.rename(source_path, target_path)
        if not is_done:
            raise HadoopError(f"{source} could not be renamed to {target}")

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, and folders with their content; names that do not exist are ignored."""
        for name in names:
            with _as_hadoop_error(f"{self.url(name)} cannot be removed"):
                self._plain.delete(self._path(name), True)

    def _path(self, name: str) -> Any:
        return self._path_of(self.url(name))


@contextmanager
def _as_hadoop_error(refused: str) -> Iterator[None]:
    """Turn failures of Java, and of the connection to it, into HadoopError, without Java's stack trace."""
    try:
        yield
    except _FAILURES as error:
        raise HadoopError(f"{refused}: {_java_message(error)}") from error


def _is_missing(error: Py4JJavaError) -> bool:
    return bool(error.java_exception.getClass().getName() == _MISSING)


def _java_message(error: Exception) -> str:
    """The message of Java's exception, without its stack trace."""
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.toString())
    return str(error).partition("\n")[0]
