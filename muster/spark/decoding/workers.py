"""Makes the work that a Python worker of Spark's does between two tasks cheap.

Before each task a worker has Python forget what it knows of the files on its path. For every archive there
(`pyspark.zip`, and packages that were shipped) and every package within it, Python 3.11 then reads the
archive's whole directory again, in Python: half a second of CPU a task, which is more than most tasks take.
What is forgotten before is not read again: an importer is made again when a module is looked for, from the
directory that is still in memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import TypeAlias
from zipimport import zipimporter

import pyarrow as pa

Batches: TypeAlias = Iterable[pa.RecordBatch]


def forget_archives() -> None:
    """Remove the importers of zip archives from Python's cache, so that the next task has none to invalidate."""
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter):
            del sys.path_importer_cache[path]


def task(function: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """`function` for `mapInArrow`, which also prepares its worker for the next task when it ends."""

    @wraps(function)
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        yield from function(batches)
        forget_archives()

    return run
