"""Packs our packages as a zip for Spark's executors, which Spark's own file server sends.

The zip is made of what the driver itself runs on, be it an installed wheel, an editable install or a source
checkout, so that executors need no Muster of their own, and no path of the driver's machine reaches them.
The same sources make the same bytes, and the name says which: `muster-<digest>.zip`. In local mode it is
sent too: the job that runs on a laptop is the job that runs on a cluster.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from pyspark.core.files import SparkFiles
from pyspark.sql import SparkSession

PACKAGES: Final = ("coordinator", "muster", "protocol", "storage")
_EPOCH: Final = (
    1980,
    1,
    1,
    0,
    0,
    0,
)  # A zip's earliest time; the true one does not matter.
_READABLE: Final = 0o100644 << 16
_DIGEST_CHARACTERS: Final = 16


def ship_packages(spark: SparkSession) -> str:
    """Send our packages to all executors of `spark`, now and later; return the zip's name. A repeat does nothing.

    For a session that `spark_session` did not make. What runs on executors can import `muster` and what it
    is made of from then on; the driver keeps importing its own.
    """
    context = spark.sparkContext
    # Spark's own folder for files of this session: it lasts as long as the session, and is removed with the JVM.
    served = Path(SparkFiles.getRootDirectory()) / "served"
    served.mkdir(exist_ok=True)
    archive = write_zip(served)
    if archive.name not in {Path(added).name for added in context.listFiles}:
        context.addPyFile(str(archive))
        # Spark puts its copy on the driver's path as well, where it would hide ours and be gone at the end.
        sys.path.remove(str(served.parent / archive.name))
    return archive.name


def write_zip(folder: Path) -> Path:
    """Write the sources of PACKAGES into a zip in `folder`, whose name has the digest of its content."""
    sources = dict(_sources())
    digest = hashlib.sha256()
    for name, source in sources.items():
        digest.update(f"{name}\0{len(source)}\0".encode() + source)
    archive = folder / f"muster-{digest.hexdigest()[:_DIGEST_CHARACTERS]}.zip"
    if archive.exists():
        return archive
    with ZipFile(archive, "w") as unfinished:
        for name, source in sources.items():
            entry = ZipInfo(name, _EPOCH)
            entry.compress_type = ZIP_DEFLATED
            entry.external_attr = _READABLE
            unfinished.writestr(entry, source)
    return archive


def _sources() -> Iterator[tuple[str, bytes]]:
    for package in PACKAGES:
        yield from _modules(files(package), package)


def _modules(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    """Yield every module under `folder` with its path in the zip, in the same order everywhere."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        inside = f"{path}/{entry.name}"
        if entry.is_dir():
            yield from _modules(entry, inside)
        elif entry.name.endswith(".py"):
            yield inside, entry.read_bytes()
