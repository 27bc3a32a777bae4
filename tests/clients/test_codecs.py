"""What every client library writes, with every codec and acks setting, every other reads back whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.observer import Observer, codecs_on_disk
from harness.processes import ServerProcess, wait_until
from tests.clients.fleet import DEADLINE_S, PYTHON_FAMILIES, Fleet
from tests.clients.workers.payloads import CODECS, RECORDS_PER_LABEL, labels

RECORDS_PER_FAMILY = len(labels("any")) * RECORDS_PER_LABEL
# One worker writes for all tests of this file.
pytestmark = pytest.mark.xdist_group("codecs")

Written = dict[str, str]  # The topic of each client library.


@pytest.fixture(scope="module")
def writers(broker: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(broker.bootstrap, tmp_path_factory.mktemp("writers"))
    yield fleet
    fleet.close()


@pytest.fixture(scope="module")
def by_python(writers: Fleet, observer: Observer) -> Written:
    """What each Python library wrote."""
    return write(PYTHON_FAMILIES, writers, observer)


@pytest.fixture(scope="module")
def by_java(java: None, writers: Fleet, observer: Observer) -> Written:
    """What the Java client wrote."""
    return write(("java",), writers, observer)


@pytest.mark.parametrize("reader", PYTHON_FAMILIES)
def test_a_python_library_reads_what_every_python_library_wrote(
    reader: str, by_python: Written, fleet: Fleet
) -> None:
    read_everything(reader, by_python, fleet)


@pytest.mark.parametrize("reader", PYTHON_FAMILIES)
def test_a_python_library_reads_what_java_wrote(reader: str, by_java: Written, fleet: Fleet) -> None:
    read_everything(reader, by_java, fleet)


def test_java_reads_what_every_family_wrote(by_python: Written, by_java: Written, fleet: Fleet) -> None:
    read_everything("java", {**by_python, **by_java}, fleet)


@pytest.mark.parametrize("family", PYTHON_FAMILIES)
def test_batches_stay_on_disk_as_a_python_library_compressed_them(
    family: str, by_python: Written, broker: ServerProcess
) -> None:
    assert codecs_on_disk(broker.log_dir, by_python[family]) == set(CODECS)


def test_batches_stay_on_disk_as_java_compressed_them(by_java: Written, broker: ServerProcess) -> None:
    assert codecs_on_disk(broker.log_dir, by_java["java"]) == set(CODECS)


def write(families: tuple[str, ...], writers: Fleet, observer: Observer) -> Written:
    """Have each library write all its labels; wait until the log has them all, acks=0 too."""
    topics = {family: observer.create_topic(f"codecs-{family}", 1) for family in families}
    workers = [writers.start(family, "produce", topic=topic) for family, topic in topics.items()]
    for worker in workers:
        worker.finish()
    for topic in topics.values():
        await_written(topic, observer)
    return topics


def await_written(topic: str, observer: Observer) -> None:
    wait_until(
        lambda: observer.log_ends(topic, 1)[0] == RECORDS_PER_FAMILY, f"{topic} is written", DEADLINE_S
    )


def read_everything(reader: str, written: Written, fleet: Fleet) -> None:
    expected = {label: RECORDS_PER_LABEL for family in written for label in labels(family)}
    worker = fleet.start(
        reader, "read", topics=list(written.values()), count=RECORDS_PER_LABEL * len(expected)
    )
    worker.finish()
    assert worker.of("read")[0]["counts"] == expected
