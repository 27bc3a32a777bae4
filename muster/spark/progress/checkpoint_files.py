"""The files of a checkpoint through Hadoop, with the errors of following a query."""

from __future__ import annotations

from pyspark.sql import SparkSession

from muster.spark.errors import PassingError
from muster.spark.hadoop_files import FILE_BYTES_MAX, HadoopError, HadoopFiles, TooLargeError
from muster.spark.progress.positions import CheckpointError, ProgressError


class CheckpointFiles:
    """The files below `root`, a path or URI as `checkpointLocation` takes it. Raises ProgressError."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        try:
            self._files = HadoopFiles(spark, root)
        except HadoopError as error:
            raise ProgressError(f"the checkpoint {root!r} is out of reach: {error}") from None

    def names(self, folder: str) -> list[str]:
        """The names in a folder; empty if the folder does not exist. Raises PassingError."""
        try:
            return self._files.names(folder)
        except HadoopError as error:
            raise PassingError(str(error)) from error

    def read(self, path: str) -> bytes | None:
        """The content of a file; None if it does not exist. Raises PassingError and CheckpointError."""
        try:
            return self._files.read(path)
        except TooLargeError:
            raise CheckpointError(f"the checkpoint's {path} has more than {FILE_BYTES_MAX:,} bytes") from None
        except HadoopError as error:
            raise PassingError(str(error)) from error
