"""The one way to files through Spark's JVM: what is put in a place is there whole, and a refusal is a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from muster.spark import hadoop_files
from muster.spark.errors import PassingError
from muster.spark.hadoop_files import HadoopError, HadoopFiles
from muster.spark.progress.checkpoint_files import CheckpointFiles
from muster.spark.progress.positions import CheckpointError

pytestmark = pytest.mark.xdist_group("spark")


def damage(file: Path) -> None:
    """Give it a checksum file, as Spark's checkpoints have them, that is not of its content."""
    file.write_text("as it was not")
    file.with_name(f".{file.name}.crc").write_bytes(b"crc\0" + (512).to_bytes(4, "big") + bytes(4))


def test_what_is_written_is_read_again_and_nothing_lies_beside_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = HadoopFiles(spark, str(tmp_path))
    files.write_json("state/a.json", {"n": 1})
    files.write_json("state/a.json", {"n": 2})
    files.write_json("state/b.json", {"n": 3})
    assert files.read_json("state/a.json") == {"n": 2}
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == ["a.json", "b.json"]
    files.move("state/b.json", "state/a.json")
    assert (files.read_json("state/a.json"), files.read_json("state/b.json")) == ({"n": 3}, None)
    assert files.names("state") == files.names("state", "a") == ["a.json"]
    assert files.names("state", "b") == files.names("nowhere") == []
    files.remove(["state", "nowhere"])
    assert list(tmp_path.iterdir()) == []


def test_what_the_files_refuse_is_said_in_a_sentence(spark: SparkSession, tmp_path: Path) -> None:
    files = HadoopFiles(spark, str(tmp_path))
    damage(tmp_path / "plain")
    with pytest.raises(HadoopError, match=r"^gone could not be renamed to there"):
        files.move("gone", "there")
    with pytest.raises(HadoopError, match=r"plain/draft\.new cannot be written: .*\w$"):
        files.write_json("plain/draft", 1)
    with pytest.raises(HadoopError, match=r"plain cannot be read: .*Checksum error"):
        files.read("plain")
    with pytest.raises(HadoopError, match=r"^nowhere://there cannot be reached: .*No FileSystem for scheme"):
        HadoopFiles(spark, "nowhere://there")


def test_a_checkpoints_files_pass_or_do_not(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(tmp_path / "state")
    (tmp_path / "metadata").write_text("{}")
    files = CheckpointFiles(spark, str(tmp_path))
    assert (files.read("metadata"), files.read("commits/0"), files.names("commits")) == (b"{}", None, [])
    with pytest.raises(PassingError, match="state cannot be read: "):
        files.read("state")
    monkeypatch.setattr(hadoop_files, "FILE_BYTES_MAX", 1)
    with pytest.raises(CheckpointError, match="metadata has more than"):
        files.read("metadata")
