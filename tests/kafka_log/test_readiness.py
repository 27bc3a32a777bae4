"""What Kafka would not start on is not handed over to it, and what stops half-way is still Muster's."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.quotas.registry import QUOTAS_FILE
from harness.daemon import MusterDaemon
from muster.cli import run
from storage.files import Files
from tests.kafka_log.stopped import content, refused

pytestmark = [pytest.mark.xdist_group("kafka log"), pytest.mark.timeout(120)]


def test_a_directory_that_is_no_partitions_is_refused(
    stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (stopped / "lost+found").mkdir()
    assert "lost+found is no partition's: Kafka does not start beside it" in refused(stopped, capsys)
    (stopped / "lost+found").rmdir()
    (stopped / "orders-7.0123456789abcdef0123456789abcdef-delete").mkdir()
    assert run(["log", "to-kafka", str(stopped)]) == 0


def test_a_partition_with_the_id_of_another_topic_is_refused(
    stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kafka would call it a stray, and set it aside."""
    (stopped / "orders-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    assert "orders-0 is not a partition of a topic that Muster has" in refused(stopped, capsys)


@pytest.mark.parametrize("marker", ["", "{", '{"version":1}'])
def test_a_damaged_marker_is_no_clean_stop(
    stopped: Path, capsys: pytest.CaptureFixture[str], marker: str
) -> None:
    (stopped / ".kafka_cleanshutdown").write_text(marker)
    assert "was not left by a clean stop" in refused(stopped, capsys)


def test_what_a_start_and_a_stop_do_not_mend_is_named(
    stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A partition that cannot be opened keeps Muster from ever stopping cleanly."""
    (stopped / "orders-0" / "partition.metadata").write_text("nonsense")
    (stopped / ".kafka_cleanshutdown").unlink()
    told = refused(stopped, capsys)
    assert "orders-0/partition.metadata" in told
    assert "`muster log repair`" in told


def test_more_than_kafka_appends_at_once_is_refused(
    stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = (json.dumps({"user": "x" * 1_500 + str(number)}) for number in range(6_000))
    QUOTAS_FILE.write(Files(), stopped, {name: {"producer_byte_rate": "1000"} for name in names})
    assert "Kafka takes 8388608 at once and would not start" in refused(stopped, capsys)


def test_a_write_that_fails_leaves_the_directory_musters(stopped: Path) -> None:
    """Not a double of the disk: the process may write no file of more than 512 bytes."""
    before = content(stopped)
    done = subprocess.run(
        [sys.executable, "-m", "muster", "log", "to-kafka", str(stopped)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512)),
        env={"PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("muster: cannot write ")
    assert {name: text for name, text in content(stopped).items() if not name.endswith(".tmp")} == before
    with MusterDaemon(stopped.parent) as daemon:
        assert daemon.terminate() == 0


def test_what_was_not_finished_says_so(stopped: Path) -> None:
    (stopped / "topics.json").rename(stopped / "topics-handed-over.json")
    with pytest.raises(RuntimeError, match="`muster log to-kafka` was not finished"):
        MusterDaemon(stopped.parent).start()


def test_where_kafka_has_run_muster_does_not(stopped: Path) -> None:
    """Whatever the catalogue is called: topics that Kafka has made would be removed as remains."""
    (stopped / "__cluster_metadata-0").mkdir()
    with pytest.raises(RuntimeError, match="Apache Kafka has run on it"):
        MusterDaemon(stopped.parent).start()
    assert (stopped / "orders-0").is_dir()


def test_a_refusal_makes_no_file_of_acls(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (stopped / "client-quotas.json").write_text("{")
    assert "muster: cannot read" in refused(stopped, capsys)
    assert not (stopped / "acls-expected.json").exists()
