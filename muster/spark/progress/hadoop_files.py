"""The files of a checkpoint through the JVM's Hadoop file systems: local, hdfs://, s3a://, whatever Spark can use.

They are opened with the session's own Hadoop settings, as Spark opens them. This outlives `spark.stop()`, which
leaves the JVM running: the last look at a checkpoint may come after it.
"""

from __future__ import annotations

from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from muster.spark.errors import PassingError
from muster.spark.progress.positions import CheckpointError, ProgressError

FILE_BYTES_MAX: Final = 64 * 1024 * 1024  # Offsets of a million partitions have some 20 MB.
_MISSING: Final = "java.io.FileNotFoundException"
# Py4J's own, Spark's translations of Java's, and what a JVM that is gone gives.
_FAILURES: Final = (Py4JError, PySparkException, OSError)


class HadoopFiles:
    """The files below `root`, a path or URI as `checkpointLocation` takes it. Raises ProgressError."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        try:
            self._jvm: Any = spark._jvm
            settings = spark._jsparkSession.sessionState().newHadoopConf()
        except AttributeError:  # PySpark's own subclass of it, where the session is a remote one.
            raise ProgressError(
                "a checkpoint is read through Spark's JVM, and Spark Connect gives no access to it"
            ) from None
        self._root = root
        try:
            path = self._path()
            self._file_system: Any = path.getFileSystem(settings)
        except (Py4JError, PySparkException) as error:
            raise ProgressError(f"the checkpoint {root!r} is not to be had: {_said(error)}") from None

    def names(self, folder: str) -> list[str]:
        """What is in a folder; nothing if there is no such folder. Raises PassingError."""
        try:
            return [
                str(found.getPath().getName()) for found in self._file_system.listStatus(self._path(folder))
            ]
        except _FAILURES as error:
            if _is_missing(error):
                return []
            raise PassingError(f"{self._root}/{folder} cannot be listed: {_said(error)}") from error

    def read(self, path: str) -> bytes | None:
        """A file's content; None if there is no such file. Raises PassingError and CheckpointError."""
        try:
            opened = self._file_system.open(self._path(path))
            try:
                data = bytes(opened.readNBytes(FILE_BYTES_MAX + 1))
            finally:
                opened.close()
        except _FAILURES as error:
            if _is_missing(error):
                return None
            raise PassingError(f"{self._root}/{path} cannot be read: {_said(error)}") from error
        if len(data) > FILE_BYTES_MAX:
            raise CheckpointError(f"the checkpoint's {path} has more than {FILE_BYTES_MAX:,} bytes")
        return data

    def _path(self, relative: str = "") -> Any:
        root = self._jvm.org.apache.hadoop.fs.Path(self._root)
        return self._jvm.org.apache.hadoop.fs.Path(root, relative) if relative else root


def _is_missing(error: Exception) -> bool:
    return isinstance(error, Py4JJavaError) and error.java_exception.getClass().getName() == _MISSING


def _said(error: Exception) -> str:
    """What Java said, without its stack trace."""
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.toString())
    return str(error).partition("\n")[0]
