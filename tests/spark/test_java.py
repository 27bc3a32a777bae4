"""Where Spark cannot run, a sentence says what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.spark import java
from muster.spark.commands import flights
from muster.spark.java import SparkUnavailableError, java_version, require_spark


def fake_java(home: Path, says: str) -> Path:
    """A JAVA_HOME whose `java` writes `says` to stderr, where a real one shows its version."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_401"', 8),
        ('openjdk version "25"', 25),
    ],
)
def test_the_version_of_java_is_its_feature_release(tmp_path: Path, says: str, version: int) -> None:
    assert java_version(str(fake_java(tmp_path, says))) == version


def test_a_java_without_a_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SparkUnavailableError, match="does not show its version: 'hello'"):
        java_version(str(fake_java(tmp_path, "hello")))


def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, 'openjdk version "11.0.2" 2019-01-15')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(
        SparkUnavailableError, match=r"runs on Java 17 to 21, and .*bin/java is Java 11: install Java 17"
    ):
        require_spark()


def test_a_java_that_spark_was_not_made_for_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Java 25 Spark 4.0.0 ends with "getSubject is not supported", in a stack trace of Hadoop's."""
    fake_java(tmp_path, 'openjdk version "25.0.3" 2026-04-21 LTS')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkUnavailableError, match=r"17 to 21, and .*bin/java is Java 25: install .* 17"):
        require_spark()


@pytest.mark.parametrize("release", [17, 21])
def test_a_java_that_spark_is_made_for_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: int
) -> None:
    program = fake_java(tmp_path, f'openjdk version "{release}.0.1" 2025-04-15')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert require_spark() == str(program)


def test_another_pyspark_is_refused_with_the_version_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "version", lambda _: "3.5.6")
    with pytest.raises(SparkUnavailableError) as refused:
        require_spark()
    assert "PySpark 4.0.0 is needed" in str(refused.value)
    assert "3.5.6 is installed: pip install 'pyspark==4.0.0'" in str(refused.value)


def test_the_pyspark_that_is_needed_is_the_one_that_is_declared() -> None:
    declared = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert f'"pyspark=={java.PYSPARK_VERSION}"' in declared


def test_no_java_at_all_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkUnavailableError, match="runs on Java 17 to 21, and there is none on PATH"):
        require_spark()


def test_a_missing_pyspark_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda _: None)
    with pytest.raises(SparkUnavailableError, match="pip install"):
        require_spark()


def test_the_command_fails_in_a_sentence_without_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert flights(output=tmp_path / "out", checkpoint=tmp_path / "checkpoint") == 1
    assert capsys.readouterr().err.startswith(
        "muster: Spark 4.0.0 runs on Java 17 to 21, and there is none in JAVA_HOME="
    )
