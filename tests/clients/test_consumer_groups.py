"""Groups of the new protocol (KIP-848), of real clients: the broker assigns, and members confirm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.observer import Observer
from harness.processes import ServerProcess
from tests.clients.fleet import Fleet, Worker
from tests.clients.groups import Group, values_seen

NEW = {"protocol": "consumer"}
KILL_AFTER_RECORDS = 50


@pytest.fixture(params=["confluent", "java"])
def family(request: pytest.FixtureRequest) -> str:
    """The client libraries that speak the protocol."""
    if request.param == "java":
        request.getfixturevalue("java")
    return str(request.param)


@pytest.fixture
def group(quick_fleet: Fleet, watcher: Observer) -> Group:
    return Group(quick_fleet, watcher)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_a_group_survives_a_kill_and_a_join(group: Group, family: str, assignor: str) -> None:
    config = {**NEW, "assignor": assignor}
    victim, *survivors = (group.start(family, **config) for _ in range(3))
    group.await_shared(victim, *survivors)
    with group.steady_writer():
        victim.wait_for(lambda: len(values_seen(victim)) >= KILL_AFTER_RECORDS, "the victim is busy")
        victim.kill()
        joiner = group.start(family, **config)
        members = (*survivors, joiner)
        group.await_shared(*members)
        joiner.wait_for(lambda: values_seen(joiner), "the joiner reads")
    seen = group.await_everything_read(victim, *members)
    assert seen.keys() == set(group.written), "records that were never written"
    group.await_everything_committed(*members)
    group.stop(*members)


@pytest.mark.usefixtures("java")
def test_two_libraries_share_a_topic_and_nothing_is_read_twice(group: Group) -> None:
    leaver, *others = (group.start(each, **NEW) for each in ("confluent", "java", "java"))
    group.await_shared(leaver, *others)
    group.write()
    group.await_everything_read(leaver, *others)
    group.await_everything_committed(leaver, *others)
    leaver.stop()
    group.await_shared(*others)
    group.write()
    seen = group.await_everything_read(leaver, *others)
    assert set(seen.values()) == {1}
    group.await_everything_committed(*others)
    group.stop(*others)


def test_a_static_member_comes_back_to_its_partitions(group: Group, family: str, watcher: Observer) -> None:
    """It leaves for now, and nobody else is given what it had (A9)."""
    static, other = (group.start(family, **NEW, instance_id=name) for name in ("one", "two"))
    group.await_shared(static, other)
    before = static.of("owns")[-1]["partitions"]
    static.stop()
    returned = group.start(family, **NEW, instance_id="one")
    group.await_shared(returned, other)
    assert returned.of("owns")[-1]["partitions"] == before
    returned.kill()
    other.kill()


def test_an_expression_is_matched_by_the_broker(group: Group, family: str, watcher: Observer) -> None:
    member = group.start(family, **NEW, pattern=f"{group.topic}.*")
    group.await_shared(member)
    group.write()
    group.await_everything_read(member)
    group.stop(member)


@pytest.fixture
def own_group(own_broker: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    clients = Fleet(own_broker.bootstrap, tmp_path_factory.mktemp("clients"))
    yield Group(clients, Observer(own_broker.bootstrap))
    clients.close()


@pytest.mark.parametrize("ends", ["restart", "kill"])
def test_a_group_goes_on_where_it_was_when_its_coordinator_is_back(
    own_group: Group, own_broker: ServerProcess, family: str, ends: str
) -> None:
    members = [own_group.start(family, **NEW) for _ in range(2)]
    own_group.await_shared(*members)
    owned = [each.of("owns")[-1]["partitions"] for each in members]
    own_group.write()
    own_group.await_everything_read(*members)
    if ends == "restart":
        own_broker.restart()
    else:
        own_broker.kill()
        own_broker.start()
    own_group.reconnect()
    own_group.write()
    own_group.await_everything_read(*members)
    assert [each.of("owns")[-1]["partitions"] for each in members] == owned
    own_group.await_everything_committed(*members)
    own_group.stop(*members)


@pytest.mark.usefixtures("java")
def test_a_living_group_goes_to_the_new_protocol_and_back(group: Group) -> None:
    """Members are replaced one by one, under load: the group changes its kind with the first and the last."""

    def replace(members: list[Worker], **config: object) -> list[Worker]:
        families = ["confluent", "java"]
        replaced = []
        for number, member in enumerate(members):
            member.stop()
            replaced.append(group.start(families[number % 2], **config))
            group.await_shared(*replaced, *members[number + 1 :])
        return replaced

    former: list[Worker] = []
    members = [group.start(each, assignor="range") for each in ("java", "confluent")]
    group.await_shared(*members)
    with group.steady_writer():
        for config in (NEW, {"assignor": "range"}):
            former += members
            members = replace(members, **config)
            members[0].wait_for(lambda: values_seen(members[0]), "it reads")  # noqa: B023 - called at once.
    seen = group.await_everything_read(*former, *members)
    assert set(seen.values()) == {1}, "all closed in good order: no record is read twice"
    group.await_everything_committed(*members)
    group.stop(*members)
