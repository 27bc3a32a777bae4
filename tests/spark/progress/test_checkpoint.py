"""A checkpoint in Spark 4.0's format, written here by hand, says how far its query has come."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.spark.errors import PassingError
from muster.spark.progress.checkpoint import LOOKS_MAX, Checkpoint
from muster.spark.progress.positions import CheckpointError, Positions, Standing
from protocol.topic_partition import TopicPartition

ABOUT_BATCH = (
    '{"batchWatermarkMs":0,"batchTimestampMs":1795313904488,"conf":{"spark.sql.shuffle.partitions":"2"}}'
)
COMMITTED = 'v1\n{"nextBatchWatermarkMs":0}'
# Version 2 names the state store's files as well.
COMMITTED_2 = 'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["a1"],["b2"]]}}'


class Folder:
    """A folder with a checkpoint in it, and what is done to it while it is read."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.deleted: list[str] = []

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())

    def batch(
        self, batch_id: int, *sources: str, commit: str | None = COMMITTED, version: str = "v1"
    ) -> None:
        self.write(f"offsets/{batch_id}", "\n".join([version, ABOUT_BATCH, *sources]))
        if commit is not None:
            self.write(f"commits/{batch_id}", commit)

    def names(self, folder: str) -> list[str]:
        path = self.root / folder
        return [file.name for file in path.iterdir()] if path.exists() else []

    def read(self, path: str) -> bytes | None:
        file = self.root / path
        return file.read_bytes() if file.exists() and path not in self.deleted else None


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "checkpoint")


def standing(folder: Folder) -> Standing:
    return Checkpoint(folder).standing()


def at(**partitions: int) -> Positions:
    """at(flights_0=5): partition 0 of flights at 5."""
    names = ((name.rpartition("_"), offset) for name, offset in partitions.items())
    return {TopicPartition(topic, int(partition)): offset for (topic, _, partition), offset in names}


def test_a_checkpoint_that_is_not_there_knows_nothing(folder: Folder) -> None:
    assert standing(folder) == Standing(None, {})
    assert standing(folder).is_fresh
    assert Checkpoint(folder).query_id() is None


def test_the_newest_finished_batch_counts_and_not_the_one_that_is_running(folder: Folder) -> None:
    folder.batch(8, '{"flights":{"0":5,"1":0}}')
    folder.batch(9, '{"flights":{"0":7,"1":3}}')
    folder.batch(10, '{"flights":{"0":9,"1":4}}', commit=None)
    assert standing(folder) == Standing(9, at(flights_0=7, flights_1=3))


def test_batches_are_numbers_and_not_words(folder: Folder) -> None:
    folder.batch(9, '{"flights":{"0":7}}')
    folder.batch(10, '{"flights":{"0":9}}')
    assert standing(folder).batch_id == 10


def test_only_the_lines_of_kafka_sources_count(folder: Folder) -> None:
    others = [
        '{"logOffset":3}',
        "15",
        "-",
        '{"sourceVersion":1,"reservoirId":"x","index":4}',
        '{"a":{"shard":1}}',
    ]
    folder.batch(0, '{"flights":{"0":7}}', *others, '{"delays":{"2":1},"airports":{"0":4}}', "{}")
    assert standing(folder).offsets == at(flights_0=7, delays_2=1, airports_0=4)


def test_of_two_sources_of_one_topic_the_one_behind_counts(folder: Folder) -> None:
    folder.batch(0, '{"flights":{"0":7,"1":2}}', '{"flights":{"0":4,"1":9}}', '{"flights":{"2":1}}')
    assert standing(folder).offsets == at(flights_0=4, flights_1=2, flights_2=1)


def test_a_query_without_kafka_sources_has_a_batch_and_no_offsets(folder: Folder) -> None:
    folder.batch(3, "15")
    assert standing(folder) == Standing(3, {})


def test_files_in_the_making_are_ignored(folder: Folder) -> None:
    folder.batch(1, '{"flights":{"0":7}}')
    for name in (".2.34ae8d36-9eea-4272-9174-20f8afee8907.tmp", ".2.crc", "2.tmp", "_SUCCESS", "٣"):
        folder.write(f"commits/{name}", COMMITTED)
    assert standing(folder).batch_id == 1


@pytest.mark.parametrize("text", ["", "v", "v1", "v1\n", 'v1\n{"nextBatchWater'])
def test_a_commit_that_was_cut_short_counts_as_not_written(folder: Folder, text: str) -> None:
    folder.batch(1, '{"flights":{"0":7}}')
    folder.batch(2, '{"flights":{"0":9}}', commit=text)
    assert standing(folder).batch_id == 1


def test_commits_of_version_2_are_read(folder: Folder) -> None:
    folder.batch(1, '{"flights":{"0":7}}', commit=COMMITTED_2)
    assert standing(folder).batch_id == 1


@pytest.mark.parametrize(
    ("commit", "version", "words"),
    [
        ('v3\n{"nextBatchWatermarkMs":0}', "v1", "commits/4 has version 3, known are those up to 2"),
        ("v0\n{}", "v1", "commits/4 has version 0"),
        (COMMITTED, "v2", "offsets/4 has version 2, known are those up to 1"),
        ("hello\n{}", "v1", "commits/4 is not Spark's: it begins with 'hello'"),
        (COMMITTED, "", "offsets/4 is not Spark's: it begins with ''"),
    ],
)
def test_what_is_not_understood_is_refused(folder: Folder, commit: str, version: str, words: str) -> None:
    folder.batch(3, '{"flights":{"0":7}}')
    folder.batch(4, '{"flights":{"0":9}}', commit=commit, version=version)
    with pytest.raises(CheckpointError, match=words):
        standing(folder)


def test_offsets_that_were_cut_short_are_refused(folder: Folder) -> None:
    folder.batch(4, '{"flights":{"0":')
    with pytest.raises(CheckpointError, match="offsets/4 was cut short"):
        standing(folder)
    folder.write("offsets/4", "v1")
    with pytest.raises(CheckpointError, match="offsets/4 was cut short"):
        standing(folder)


def test_bytes_that_are_no_text_are_refused(folder: Folder) -> None:
    folder.batch(4, '{"flights":{"0":1}}')
    (folder.root / "offsets/4").write_bytes(b"v1\n\xff\xfe")
    with pytest.raises(CheckpointError, match="no UTF-8"):
        standing(folder)


def test_a_finished_batch_without_its_offsets_is_damage(folder: Folder) -> None:
    folder.batch(3, '{"flights":{"0":7}}')
    folder.write("commits/4", COMMITTED)
    with pytest.raises(CheckpointError, match="commits/4 without its offsets"):
        standing(folder)


def test_entries_that_spark_deletes_meanwhile_are_looked_for_again(folder: Folder) -> None:
    class Purging(Folder):
        """Twice Spark goes on by a batch, and deletes the one before, when the folder has just been looked at."""

        newest = 100

        def names(self, name: str) -> list[str]:
            found = super().names(name)
            if self.newest < 102:
                self.newest += 1
                self.batch(self.newest, f'{{"flights":{{"0":{self.newest}}}}}')
                for log in ("offsets", "commits"):
                    (self.root / f"{log}/{self.newest - 1}").unlink()
            return found

    folder.batch(100, '{"flights":{"0":100}}')
    assert standing(Purging(folder.root)) == Standing(102, at(flights_0=102))


def test_a_checkpoint_that_never_holds_still_is_a_passing_trouble(folder: Folder) -> None:
    class Vanishing(Folder):
        """The commit is there when its folder is listed, and when it is read first, and then gone."""

        reads = 0

        def read(self, path: str) -> bytes | None:
            self.reads += 1
            return COMMITTED.encode() if self.reads % 3 == 1 else None

    folder.batch(0, '{"flights":{"0":7}}')
    vanishing = Vanishing(folder.root)
    with pytest.raises(PassingError, match=f"{LOOKS_MAX} looks"):
        standing(vanishing)
    assert vanishing.reads == 3 * LOOKS_MAX


def test_before_the_first_batch_has_ended_the_sources_say_where_they_begin(folder: Folder) -> None:
    folder.batch(0, '{"flights":{"0":9}}', "15", commit=None)
    folder.write("sources/0/0", '\0v1\n{"flights":{"0":3}}')
    folder.write("sources/1/0", "v1\n1795313902865")  # A rate source's.
    folder.write("sources/2/0", '\0v1\n{"delays":{"0":0}}')
    folder.write("sources/3/0", "\0v1")  # Cut short.
    assert standing(folder) == Standing(None, at(flights_0=3, delays_0=0))
    assert not standing(folder).is_fresh


def test_a_beginning_of_an_unknown_version_is_refused(folder: Folder) -> None:
    folder.write("sources/0/0", '\0v2\n{"flights":{"0":3}}')
    with pytest.raises(CheckpointError, match="sources/0/0 has version 2"):
        standing(folder)


def test_the_id_of_the_query_is_in_its_metadata(folder: Folder) -> None:
    folder.write("metadata", '{"id":"7fb03acf-1c6c-4675-9538-2fb0e2426c2d"}')
    assert Checkpoint(folder).query_id() == "7fb03acf-1c6c-4675-9538-2fb0e2426c2d"
    for other in ("{}", "[]", "hello"):
        folder.write("metadata", other)
        with pytest.raises(CheckpointError, match="metadata is not Spark's"):
            Checkpoint(folder).query_id()
