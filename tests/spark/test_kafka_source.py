"""Spark's own Kafka source and sink, unmodified, through the broker."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from harness.messages import headers_of
from tests.spark.topics import FIRST_MS, PARTITIONS, Topic, rows, run_to_end

pytestmark = pytest.mark.xdist_group("spark")


def labels(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def test_a_batch_read_gives_every_record_with_its_place_key_headers_and_time(topic: Topic) -> None:
    written = topic.write(*labels("a", 300))
    table = topic.batch(includeHeaders="true").cache()
    assert rows(table) == written
    first = table.where((F.col("partition") == 1) & (F.col("offset") == 2)).first()
    assert first is not None
    assert bytes(first.value) == b"a-7"
    assert [(header.key, bytes(header.value)) for header in first.headers] == [("number", b"7")]
    assert first.timestamp.timestamp() * 1000 == FIRST_MS + 7
    assert first.topic == topic.name


def test_a_batch_read_keeps_to_the_offsets_it_was_given(topic: Topic) -> None:
    written = topic.write(*labels("a", 300))
    starting = json.dumps({topic.name: {"0": 10, "1": -2, "2": 95}})
    ending = json.dumps({topic.name: {"0": 20, "1": 5, "2": -1}})
    wanted = {0: range(10, 20), 1: range(5), 2: range(95, 100)}
    assert rows(topic.batch(startingOffsets=starting, endingOffsets=ending)) == [
        each for each in written if each.offset in wanted[each.partition]
    ]


def test_a_batch_read_finds_its_offsets_by_time(topic: Topic) -> None:
    written = topic.write(*labels("a", 300))
    since_ms = {str(partition): FIRST_MS + 150 for partition in range(PARTITIONS)}
    until_ms = {str(partition): FIRST_MS + 270 for partition in range(PARTITIONS)}
    found = topic.batch(
        startingOffsetsByTimestamp=json.dumps({topic.name: since_ms}),
        endingOffsetsByTimestamp=json.dumps({topic.name: until_ms}),
    )
    assert rows(found) == [each for each in written if 50 <= each.offset < 90]


def test_a_restarted_stream_reads_only_what_is_new(topic: Topic, tmp_path: Path, spark: SparkSession) -> None:
    def run() -> int:
        writer = topic.stream(maxOffsetsPerTrigger="60").writeStream.format("parquet")
        writer = writer.option("path", str(tmp_path / "out"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        return run_to_end(writer.trigger(availableNow=True).start())

    topic.write(*labels("a", 150))
    assert run() == 150
    topic.write(*labels("b", 60))
    assert run() == 60
    assert run() == 0
    assert rows(spark.read.parquet(str(tmp_path / "out"))) == topic.read()


def test_a_batch_write_arrives_as_written(topic: Topic, spark: SparkSession) -> None:
    table = spark.range(200).select(
        F.concat(F.lit("key-"), "id").alias("key"),
        F.when(F.col("id") != 7, F.concat(F.lit("value-"), "id")).alias("value"),
        F.array(F.struct(F.lit("from").alias("key"), F.lit(b"spark").alias("value"))).alias("headers"),
        (F.col("id") % PARTITIONS).cast("int").alias("partition"),
    )
    table.write.format("kafka").options(**topic.sink(), includeHeaders="true").save()
    messages = topic.messages()
    found = {(message.partition(), message.key(), message.value()) for message in messages}
    assert len(messages) == 200
    assert found == {
        (number % PARTITIONS, f"key-{number}".encode(), None if number == 7 else f"value-{number}".encode())
        for number in range(200)
    }
    assert {tuple(headers_of(message)) for message in messages} == {(("from", b"spark"),)}


def test_a_streaming_write_passes_every_record_on(topic: Topic, other_topic: Topic, tmp_path: Path) -> None:
    written = topic.write(*labels("a", 150))
    loud = topic.stream().select("partition", "key", F.upper(F.col("value").cast("string")).alias("value"))
    writer = loud.writeStream.format("kafka").options(**other_topic.sink())
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert run_to_end(writer.trigger(availableNow=True).start()) == 150
    loudly_written = {each._replace(offset=0, value=each.value and each.value.upper()) for each in written}
    assert {each._replace(offset=0) for each in other_topic.read()} == loudly_written
    assert len(other_topic.read()) == 150


def test_python_workers_run_on_the_interpreter_of_the_driver(topic: Topic) -> None:
    topic.write("a")

    @F.udf("string")
    def interpreter(_: bytes) -> str:
        return sys.executable

    assert topic.batch().select(interpreter("value")).first() == (sys.executable,)
