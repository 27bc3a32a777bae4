"""A broker for each test worker, and client processes for each test.

`--target kafka` (or MUSTER_TEST_TARGET=kafka) runs the same tests against a real Apache Kafka: the judge of
the tests themselves.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from harness.gateway import Gateway
from harness.kafka_broker import KafkaBroker
from harness.observer import Observer
from harness.processes import ServerProcess
from harness.recording_daemon import RecordingDaemon
from tests.clients import through_gateway
from tests.clients.fleet import FAMILIES, Fleet

# The delay lets members that start together join together, yet a test with one member does not wait seconds.
SETTINGS = {"group.initial.rebalance.delay.ms": "500", "auto.create.topics.enable": "false"}
# For tests that kill members: a dead member expires soon, and so does a transaction that no producer will end.
QUICK = {
    **SETTINGS,
    "group.initial.rebalance.delay.ms": "200",
    "group.min.session.timeout.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "500",
}
TEST_TIMEOUT_S = 300  # Several waits of up to 90 s each, all late, would be a failure anyway.
TARGETS = {"muster": RecordingDaemon, "kafka": KafkaBroker, "gateway": Gateway}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Bound the tests alone: the fixture that fetches jars takes minutes at first, and has deadlines."""
    here = Path(__file__).parent
    ours = [item for item in items if here in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.timeout(TEST_TIMEOUT_S, func_only=True))
    if config.getoption("--target") == "gateway":
        through_gateway.mark(ours)


@pytest.fixture(scope="session")
def target(pytestconfig: pytest.Config) -> str:
    """The name of the broker under test: "muster", "kafka" or "gateway"."""
    return str(pytestconfig.getoption("--target"))


@pytest.fixture(scope="session")
def shown_nodes(target: str) -> int:
    """How many brokers clients are shown: a gateway names itself beside its Kafka's."""
    return 2 if target == "gateway" else 1


@pytest.fixture(scope="session")
def broker(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One broker for all tests of this worker; tests keep apart by names of their own."""
    with TARGETS[target](tmp_path_factory.mktemp("broker"), SETTINGS) as server:
        yield server


@pytest.fixture(scope="session")
def quick_broker(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A broker that allows short sessions, for all tests of this worker that kill members."""
    with TARGETS[target](tmp_path_factory.mktemp("quick-broker"), QUICK) as server:
        yield server


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    """The client library that runs the test's scenario: each of them in turn."""
    if request.param == "java":
        request.getfixturevalue("java")
    return str(request.param)


@pytest.fixture
def own_broker(target: str, tmp_path: Path) -> Iterator[ServerProcess]:
    """A broker of the test's own, to kill or to stop."""
    with TARGETS[target](tmp_path / "broker", SETTINGS) as server:
        yield server


@pytest.fixture
def own_quick_broker(target: str, tmp_path: Path) -> Iterator[ServerProcess]:
    """Another, with the short times of `quick_broker`."""
    with TARGETS[target](tmp_path / "broker", QUICK) as server:
        yield server


@pytest.fixture(scope="session")
def observer(broker: ServerProcess) -> Observer:
    return Observer(broker.bootstrap)


@pytest.fixture
def fleet(broker: ServerProcess, tmp_path: Path) -> Iterator[Fleet]:
    """Starts this test's client processes, and ends what is left of them."""
    clients = Fleet(broker.bootstrap, tmp_path)
    yield clients
    clients.close()


@pytest.fixture
def watcher(quick_broker: ServerProcess) -> Observer:
    return Observer(quick_broker.bootstrap)


@pytest.fixture
def quick_fleet(quick_broker: ServerProcess, tmp_path: Path) -> Iterator[Fleet]:
    clients = Fleet(quick_broker.bootstrap, tmp_path)
    yield clients
    clients.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test also shows the end of the broker's log."""
    report = yield
    if report.when == "call" and report.failed:
        for server in getattr(item, "funcargs", {}).values():
            if isinstance(server, ServerProcess):
                report.sections.append(("broker log", server.log_tail()))
    return report
