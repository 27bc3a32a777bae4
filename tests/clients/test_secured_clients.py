"""Client libraries on secured listeners, by one table of cells on Muster and on a running Kafka.

Each library logs in by each mechanism and with a certificate: right, wrong, expired and again while it stays, and
is refused a topic (29) and a group (30). Each cell (secured/cells.py) is asserted by the same expectation on both
brokers (secured/expected.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients.fleet import Event, Fleet
from tests.clients.secured.cells import World, group_of, named_cells
from tests.clients.secured.expected import cannot, expected, waits_s
from tests.clients.secured.issuer import Issuer
from tests.clients.secured.world import (
    LIBRARIES,
    PASSWORD,
    WRONG_PASSWORD,
    Certificates,
    furnish,
    start_server,
)

DEADLINE_S = 480.0

pytestmark = pytest.mark.xdist_group("secured clients")


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What each library reported of each cell, by names, and what the broker logged meanwhile."""

    reported: dict[str, dict[str, Event]]
    log: list[str]

    def logged_of(self, group: str) -> str:
        """What the broker said of a group: the reason if it rebalanced."""
        return "".join(f"\n    {line}" for line in self.log if group in line)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer() as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", running.java_options())
        yield running


@pytest.fixture(scope="module", params=["muster", "kafka"])
def outcomes(
    request: pytest.FixtureRequest,
    java: None,
    tmp_path_factory: pytest.TempPathFactory,
    certificates: Certificates,
    issuer: Issuer,
) -> Outcomes:
    """All libraries on a broker of this kind, all at once, each in one process."""
    return _walked(request.param, tmp_path_factory.mktemp(request.param), certificates, issuer)


def _walked(kind: str, folder: Path, certificates: Certificates, issuer: Issuer) -> Outcomes:
    with start_server(kind, folder, certificates) as server:
        furnish(server)
        world, fleet = World(server, certificates, issuer), Fleet(server.bootstrap, folder)
        try:
            workers = {}
            for library in LIBRARIES:
                cells = [
                    world.cell(library, way, column, waits_s(library, way, column))
                    for _, way, column in named_cells()
                    if cannot(library, way, column) is None
                ]
                workers[library] = fleet.start(library, "secured", cells=cells)
            for worker in workers.values():
                worker.finish(DEADLINE_S)
        finally:
            fleet.close()
        if kind == "muster":
            assert server.terminate() == 0
            log = server.log_path.read_text()
            assert not [secret for secret in (PASSWORD, WRONG_PASSWORD, "eyJ") if secret in log]
    reported = {
        library: {event["cell"]: event for event in worker.of("outcome")}
        for library, worker in workers.items()
    }
    return Outcomes(reported, server.log_path.read_text().splitlines())


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_shows_what_is_expected_in_each_cell(outcomes: Outcomes, library: str) -> None:
    seen, problems, played = outcomes.reported[library], {}, set()
    for name, way, column in named_cells():
        if cannot(library, way, column) is None:
            played.add(name)
            if problem := expected(library, way, column).problem(seen[name]):
                problems[name] = problem + outcomes.logged_of(group_of(library, name, column))
    assert problems == {}
    assert seen.keys() == played


def test_what_a_library_cannot_do_has_its_reason() -> None:
    """Every cell is played or has one: there is no third."""
    absent = {
        (library, name): cannot(library, way, column)
        for library in LIBRARIES
        for name, way, column in named_cells()
        if cannot(library, way, column) is not None
    }
    assert len(absent) == 2 * 2 * 5 + 3 * len(LIBRARIES)
    assert all(absent.values())
