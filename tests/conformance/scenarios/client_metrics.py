"""Client metrics subscriptions (KIP-714) as resources with settings: docs/kafka.md, section 6."""

from __future__ import annotations

from typing import Final

from protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.conformance.admin_lines import ALTER_CONFIGS, CONFIG_RESOURCES, DESCRIBE_CONFIGS, INCREMENTAL
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.scenarios.configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    Operations,
    described,
    incremental,
    replaced,
    until_shown,
)
from tests.conformance.topic_scenes import ask, eventually, quietly

CLIENT_METRICS: Final = 16
INTERVAL: Final = "interval.ms"


async def until_listed(run: Run, name: str, is_listed: bool = True) -> None:
    await eventually(
        run,
        ListConfigResourcesRequest(resource_types=[CLIENT_METRICS]),
        1,
        lambda reply: (name in {each.resource_name for each in reply.config_resources}) is is_listed,
    )


async def remove(run: Run) -> None:
    """Remove the run's subscription, so that no client of another script is matched with it."""
    await quietly(run, replaced(CLIENT_METRICS, run.name), 1)
    await until_listed(run, run.name, is_listed=False)


@scenario("6 DescribeConfigs: of client metrics", versions=DESCRIBE_CONFIGS)
async def a_subscription_is_described(run: Run, version: int) -> None:
    """One that is not there, too."""
    await ask(run, described(CLIENT_METRICS, run.name), version)
    changes: Operations = (
        (
            "metrics",
            SET,
            " org.apache.kafka.consumer. , org.apache.kafka.producer.,org.apache.kafka.consumer.",
        ),
        (INTERVAL, SET, " +50000 "),
        ("match", SET, "client_id=none.*, client_source_port = 1"),
    )
    for change in changes:
        await ask(run, incremental(CLIENT_METRICS, run.name, change), 1, str(change))
        await eventually(
            run,
            described(CLIENT_METRICS, run.name, change[0]),
            4,
            lambda reply: reply.results[0].configs[0].config_source == 7,
        )
        await ask(run, described(CLIENT_METRICS, run.name), version, change[0])
    await ask(run, described(CLIENT_METRICS, run.name, INTERVAL, "foo"), version, "some")
    without = described(CLIENT_METRICS, run.name, INTERVAL)
    without.include_synonyms = False
    await ask(run, without, version, "without synonyms")
    await ask(run, described(CLIENT_METRICS, ""), version, "no name")
    await remove(run)


@scenario("6 AlterConfigs: of client metrics", versions=ALTER_CONFIGS)
async def a_subscription_is_replaced(run: Run, version: int) -> None:
    await ask(run, replaced(CLIENT_METRICS, run.name, interval_ms="1000", match="client_id=x"), version)
    await until_shown(run, run.name, INTERVAL, "1000", CLIENT_METRICS)
    for note, request in {
        "unknown": replaced(CLIENT_METRICS, run.name, foo="1"),
        "bad": replaced(CLIENT_METRICS, run.name, interval_ms="x"),
        "null": replaced(CLIENT_METRICS, run.name, interval_ms=None),
        "no name": replaced(CLIENT_METRICS, ""),
        "no name, but a setting": replaced(CLIENT_METRICS, "", interval_ms="1000"),
    }.items():
        await ask(run, request, version, note)
    checked = replaced(CLIENT_METRICS, run.name, interval_ms="2000")
    checked.validate_only = True
    await ask(run, checked, version, "only checked")
    await ask(run, replaced(CLIENT_METRICS, run.name, interval_ms="3000"), version, "others")
    await until_shown(run, run.name, INTERVAL, "3000", CLIENT_METRICS)
    await ask(run, described(CLIENT_METRICS, run.name), 4)
    await ask(run, replaced(CLIENT_METRICS, run.name), version, "nothing")
    await until_shown(run, run.name, INTERVAL, "300000", CLIENT_METRICS)
    await until_listed(run, run.name, is_listed=False)


@scenario("6 IncrementalAlterConfigs: of client metrics", versions=INCREMENTAL)
async def settings_of_a_subscription_that_are_taken_or_refused(run: Run, version: int) -> None:
    """The changes are only validated, but for the first."""
    await ask(run, incremental(CLIENT_METRICS, run.name, (INTERVAL, SET, "1000")), version)
    await until_shown(run, run.name, INTERVAL, "1000", CLIENT_METRICS)
    values = {
        INTERVAL: ("99", "100", "3600000", "3600001", "-1", "0", "x", "", "1.5", "2147483648"),
        "metrics": ("", "*", " a , b ", "a,a", "a, a", "a,,b", ",", "a,", "a b", "not a metric"),
        "match": (
            *("", "client_id=a", "client_instance_id=.*", "client_software_name=a,client_software_version=b"),
            *("client_source_address=10\\..*", "client_source_port=9[0-9]+", " client_id = a "),
            *("client_id", "client_id=", "=a", "client_id=a=b", "client_id=a=", "client_id==a", "foo=a"),
            *("CLIENT_ID=a", "client_id=(", "client_id=[a", "client_id=*", "client_id=a|b"),
            *("client_id=a,client_id=b", "client_id=a,client_id=a", "client_id=a,,", "=", ",", "client_id= "),
        ),
        "foo": ("1",),
    }
    changes: list[Operations] = [((name, SET, value),) for name in values for value in values[name]]
    changes += [
        ((INTERVAL, SET, "1"), ("metrics", SET, "a,a")),
        ((INTERVAL, SET, "1"), ("match", SET, "foo")),
        ((INTERVAL, SET, "x"), ("metrics", SET, "a,a")),
        ((INTERVAL, SET, "1"), ("foo", SET, "1")),
        (("metrics", APPEND, "a"),),
        (("metrics", SUBTRACT, "a"),),
        ((INTERVAL, APPEND, "1"),),
        (("foo", APPEND, "1"),),
        (("foo", DELETE, None),),
        ((INTERVAL, SET, None),),
        ((INTERVAL, SET, "1000"), (INTERVAL, SET, "2000")),
    ]
    for operations in changes:
        request = incremental(CLIENT_METRICS, run.name, *operations, validate_only=True)
        await ask(run, request, version, str(operations))
    await ask(run, incremental(CLIENT_METRICS, "", (INTERVAL, SET, "1000")), version, "no name")
    twice = incremental(CLIENT_METRICS, run.name)
    twice.resources *= 2
    await ask(run, twice, version, "named twice")
    await ask(run, described(CLIENT_METRICS, run.name), 4)
    await ask(run, incremental(CLIENT_METRICS, run.name, (INTERVAL, DELETE, None)), version)
    await until_listed(run, run.name, is_listed=False)


@scenario("6 ListConfigResources: client metrics", versions=CONFIG_RESOURCES)
async def subscriptions_are_listed(run: Run, version: int) -> None:
    for is_there in (False, True):
        if is_there:
            await quietly(run, incremental(CLIENT_METRICS, run.name, (INTERVAL, SET, "1000")), 1)
            await until_listed(run, run.name)
        for kinds in ([], [CLIENT_METRICS], [CLIENT_METRICS, 32]) if version else ([],):
            reply = await quietly(run, ListConfigResourcesRequest(resource_types=kinds), version)
            listed = [(each.resource_name, each.resource_type) for each in reply.config_resources]
            mine = [each for each in listed if each[0] == run.name]
            run.saw(f"{kinds} {is_there}", [reply.error_code, mine, listed == sorted(listed, key=_place)])
    await remove(run)


def _place(listed: tuple[str, int]) -> int:
    """Kafka's order of kinds: groups, client metrics, loggers, brokers, topics."""
    return (32, CLIENT_METRICS, 8, 4, 2).index(listed[1])
