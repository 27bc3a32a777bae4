"""The jars of Spark's Kafka source are resolved once, whole or not at all; a failure is a sentence."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from muster.spark import jars
from muster.spark.jars import NEEDED, kafka_source_jars, resolve_by_ivy
from muster.spark.java import SparkUnavailableError

FILES = [pattern.replace("*", "1.2.3") for pattern in NEEDED]


class FakeResolver:
    """Puts the jars there, as Ivy would, and counts; `wrong` leaves one out."""

    def __init__(self, wrong: bool = False) -> None:
        self.calls = 0
        self._wrong = wrong

    def __call__(self, folder: Path) -> None:
        self.calls += 1
        for name in FILES[self._wrong :]:
            (folder / name).write_text(f"the content of {name}")


@pytest.fixture
def cache(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path)}


def test_the_jars_are_resolved_once(cache: dict[str, str]) -> None:
    resolver = FakeResolver()
    first, second = kafka_source_jars(cache, resolver), kafka_source_jars(cache, resolver)
    assert first == second
    assert sorted(jar.name for jar in first) == sorted(FILES)
    assert resolver.calls == 1


@pytest.mark.parametrize("damage", ["one jar is cut", "one jar is gone", "no marker", "the marker is cut"])
def test_what_is_damaged_is_resolved_again(cache: dict[str, str], damage: str) -> None:
    resolver = FakeResolver()
    (jar, *_) = kafka_source_jars(cache, resolver)
    marker = jar.parent / "complete"
    if damage == "one jar is cut":
        jar.write_text("the")
    elif damage == "one jar is gone":
        jar.unlink()
    elif damage == "no marker":
        marker.unlink()
    else:
        marker.write_text(marker.read_text()[:3])
    assert [path.read_text() for path in kafka_source_jars(cache, resolver)]
    assert jar.read_text() == f"the content of {jar.name}"
    assert resolver.calls == 2


def test_of_many_that_ask_at_once_one_resolves(cache: dict[str, str]) -> None:
    begun, go_on = threading.Event(), threading.Event()
    resolver = FakeResolver()

    def slow(folder: Path) -> None:
        begun.set()
        assert go_on.wait(30)
        resolver(folder)

    threads = [threading.Thread(target=kafka_source_jars, args=(cache, slow)) for _ in range(4)]
    threads[0].start()
    assert begun.wait(30)
    for thread in threads[1:]:
        thread.start()
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert resolver.calls == 1


def test_an_attempt_that_fails_leaves_nothing_that_looks_whole(cache: dict[str, str]) -> None:
    with pytest.raises(SparkUnavailableError, match=f"lacks jars of Spark's Kafka source: {NEEDED[0]}"):
        kafka_source_jars(cache, FakeResolver(wrong=True))
    (left,) = Path(cache["XDG_CACHE_HOME"], "muster").iterdir()
    assert left.suffix == ".lock"
    assert kafka_source_jars(cache, FakeResolver())


def test_a_folder_that_holds_them_is_taken_as_it_is(tmp_path: Path) -> None:
    FakeResolver()(tmp_path)
    (tmp_path / "another.jar").touch()
    found = kafka_source_jars(
        {"MUSTER_SPARK_JARS": str(tmp_path)}, lambda _: pytest.fail("nothing to resolve")
    )
    assert sorted(jar.name for jar in found) == sorted([*FILES, "another.jar"])


def test_a_folder_that_lacks_one_is_refused(tmp_path: Path) -> None:
    FakeResolver()(tmp_path)
    (tmp_path / FILES[0]).rename(tmp_path / "spark-sql-kafka-0-10_2.13-3.5.6.jar")
    with pytest.raises(SparkUnavailableError) as refused:
        kafka_source_jars({"MUSTER_SPARK_JARS": str(tmp_path)})
    assert str(refused.value) == (
        f"MUSTER_SPARK_JARS={tmp_path} lacks jars of Spark's Kafka source: spark-sql-kafka-0-10_2.13-4.0.0.jar"
    )


def test_a_cache_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SparkUnavailableError, match=r"cannot be kept in .*Not a directory.*XDG_CACHE_HOME"):
        kafka_source_jars({"XDG_CACHE_HOME": str(tmp_path / "file")}, FakeResolver())


def test_without_a_network_the_sentence_says_so(
    spark_java: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways_out = [f"-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort=9" for scheme in ("http", "https")]
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", " ".join(ways_out))
    with pytest.raises(SparkUnavailableError) as failed:
        kafka_source_jars({"XDG_CACHE_HOME": str(tmp_path)})
    said = str(failed.value)
    assert said.startswith("the jars of Spark's Kafka source 4.0.0 could not be fetched (Server access error")
    assert said.endswith("Or set MUSTER_SPARK_JARS to a folder that has the jars")
    assert "\n" not in said


def test_a_resolver_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(*_: object, timeout: float, **__: object) -> None:
        raise subprocess.TimeoutExpired("java", timeout)

    monkeypatch.setattr(jars, "require_spark", lambda: "java")
    monkeypatch.setattr(subprocess, "run", hangs)
    with pytest.raises(SparkUnavailableError, match="could not be fetched in 600 s: is there a network"):
        resolve_by_ivy(tmp_path)


@pytest.mark.xdist_group("spark")
def test_a_session_starts_and_has_the_kafka_source_without_a_network(spark: SparkSession) -> None:
    """The fixture's JVM has no way out (tests/spark/conftest.py): its jars can only come from the cache."""
    options = spark.conf.get("spark.driver.extraJavaOptions")
    assert options is not None
    assert "https.proxyPort=9" in options
    assert spark.conf.get("spark.jars.packages", "none") == "none"
    listed = (spark.conf.get("spark.jars") or "").split(",")
    assert listed == [str(jar) for jar in kafka_source_jars()]
    source = spark.readStream.format("kafka").option("subscribe", "t")
    assert "offset" in source.option("kafka.bootstrap.servers", "127.0.0.1:9").load().columns
