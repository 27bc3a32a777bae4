"""The zip of our packages: whole, the same everywhere, and all that an executor needs of ours."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from zipfile import ZipFile

import pytest
from pyspark.sql import SparkSession

from muster.spark import packages
from muster.spark.packages import PACKAGES, ship_packages, write_zip

ROOT = Path(__file__).parents[2]
DECODERS_NEED = ("coordinator.groups.record_schemas", "coordinator.history.events", "muster.spark.executors")
JUST_PYTHON = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    assert sys.argv[1] in importlib.import_module(name).__file__
"""


def test_the_zip_holds_every_module_and_nothing_else(tmp_path: Path) -> None:
    with ZipFile(write_zip(tmp_path)) as archive:
        names = archive.namelist()
        assert archive.read("muster/spark/packages.py") == Path(packages.__file__).read_bytes()
    folders = [ROOT / package for package in PACKAGES]
    modules = sorted(str(path.relative_to(ROOT)) for folder in folders for path in folder.rglob("*.py"))
    assert sorted(names) == modules


def test_the_same_sources_make_the_same_bytes_under_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, other = write_zip(tmp_path / "a"), write_zip(tmp_path / "b")
    assert (one.name, one.read_bytes()) == (other.name, other.read_bytes())


def test_other_sources_make_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = write_zip(tmp_path)
    monkeypatch.setattr(packages, "PACKAGES", PACKAGES[:-1])
    assert write_zip(tmp_path).name != one.name


def test_what_decodes_on_executors_needs_python_and_the_zip_alone(tmp_path: Path) -> None:
    """No site-packages, no environment, no current folder: neither codecs nor checksums are needed there."""
    command = [sys.executable, "-I", "-S", "-c", JUST_PYTHON, str(write_zip(tmp_path)), *DECODERS_NEED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.xdist_group("spark")
def test_executors_import_what_was_sent_and_the_driver_its_own(spark: SparkSession) -> None:
    name = ship_packages(spark)
    assert ship_packages(spark) == name, "twice does nothing"

    def homes(_: Iterable[int]) -> Iterable[str]:
        import muster.spark.java

        yield muster.spark.java.__file__

    (home,) = spark.sparkContext.parallelize([1], 1).mapPartitions(homes).collect()
    assert name in home
    assert name not in str(sys.path)
    assert [Path(added).name for added in spark.sparkContext.listFiles].count(name) == 1
