"""What is set for single groups on a cluster: what of it is reported, and what becomes of it in a node."""

from __future__ import annotations

from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from coordinator.backing.kafka import group_settings
from coordinator.backing.kafka.cluster import BackingError
from coordinator.backing.kafka.group_settings import GroupSettingsWatch
from coordinator.daemon.node_group_settings import NodeGroupSettings
from coordinator.settings.sources import load
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import (
    ConfigResourceType,
    ConfigSource,
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tests.backing.kafka_node import until

SESSION, BEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


class FakeCluster:
    """Answers from `texts`, by group; `errors` are those of descriptions, `refusal` that of every question."""

    cluster_id = "c"

    def __init__(self) -> None:
        self.texts: dict[str, dict[str, str]] = {}
        self.errors: dict[str, ErrorCode] = {}
        self.refusal = ""
        self.asked: list[tuple[str, int]] = []

    async def ask_any(self, message: Any, *, min_version: int = 0) -> Any:
        self.asked.append((type(message).__name__, min_version))
        if self.refusal:
            raise BackingError(self.refusal)
        if isinstance(message, ListConfigResourcesRequest):
            assert message.resource_types == [ConfigResourceType.GROUP]
            found = [ConfigResource(resource_name=each, resource_type=32) for each in self.texts]
            return ListConfigResourcesResponse(config_resources=found)
        assert isinstance(message, DescribeConfigsRequest)
        return DescribeConfigsResponse(
            results=[self._result(each.resource_name) for each in message.resources]
        )

    def _result(self, name: str) -> DescribeConfigsResult:
        here = [
            DescribeConfigsResourceResult(name=key, value=value, config_source=ConfigSource.GROUP_CONFIG)
            for key, value in self.texts.get(name, {}).items()
        ]
        default = DescribeConfigsResourceResult(
            name="consumer.assignment.interval.ms", value="1000", config_source=ConfigSource.DEFAULT_CONFIG
        )
        return DescribeConfigsResult(
            error_code=self.errors.get(name, ErrorCode.NONE),
            resource_type=32,
            resource_name=name,
            configs=[*here, default],
        )


class Watched:
    """A watch of a cluster that looks all the time, and what it has reported."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.said: list[tuple[str, dict[str, str]]] = []
        self.watch = GroupSettingsWatch(
            cast(Any, cluster),  # It has what the watch uses of one.
            lambda group_id, texts: self.said.append((group_id, dict(texts))),
        )

    async def __aenter__(self) -> Watched:
        await self.watch.start()
        return self

    async def __aexit__(self, *reason: object) -> None:
        await self.watch.close()

    async def until(self, *said: tuple[str, dict[str, str]]) -> None:
        await until(lambda: sorted(self.said, key=str) == list(said), "it is reported")
        self.said.clear()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    monkeypatch.setattr(group_settings, "PAUSE_S", 0)
    monkeypatch.setattr(group_settings, "PAUSE_OF_A_GROUP_S", 0)
    return FakeCluster()


@pytest.mark.asyncio
async def test_what_changes_is_reported_and_no_default_is(cluster: FakeCluster) -> None:
    cluster.texts = {"a": {SESSION: "50000"}, "b": {BEAT: "6000"}}
    async with Watched(cluster) as watched:
        await watched.until(("a", {SESSION: "50000"}), ("b", {BEAT: "6000"}))
        cluster.texts["b"] = {BEAT: "7000"}
        await watched.until(("b", {BEAT: "7000"}))
        del cluster.texts["a"]
        await watched.until(("a", {}))
    assert set(cluster.asked) == {("ListConfigResourcesRequest", 1), ("DescribeConfigsRequest", 0)}


@pytest.mark.asyncio
async def test_many_groups_are_described_in_several_requests(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_settings, "DESCRIBED_AT_ONCE", 2)
    cluster.texts = {name: {BEAT: "6000"} for name in "abcde"}
    async with Watched(cluster) as watched:
        await watched.until(*[(name, {BEAT: "6000"}) for name in "abcde"])
    assert cluster.asked[:4].count(("DescribeConfigsRequest", 0)) == 3


@pytest.mark.asyncio
async def test_who_does_not_answer_changes_nothing_and_is_complained_of_once(cluster: FakeCluster) -> None:
    cluster.texts = {"a": {SESSION: "50000"}}
    async with Watched(cluster) as watched:
        await watched.until(("a", {SESSION: "50000"}))
        with capture_logs() as logs:
            cluster.errors["a"] = ErrorCode.GROUP_AUTHORIZATION_FAILED
            cluster.texts |= {"a": {}, "b": {BEAT: "6000"}}
            await watched.until(("b", {BEAT: "6000"}))
            looks = len(cluster.asked)
            await until(lambda: len(cluster.asked) > looks + 8, "it looks on")
            cluster.refusal = "no version of ListConfigResources that both know"
            looks = len(cluster.asked)
            await until(lambda: len(cluster.asked) > looks + 8, "it looks on")
        assert watched.said == []
        cluster.errors, cluster.refusal = {}, ""
        await watched.until(("a", {}))
    assert [each["reason"] for each in logs] == [
        "DescribeConfigs of group a: GROUP_AUTHORIZATION_FAILED",
        "no version of ListConfigResources that both know",
    ]


@pytest.mark.asyncio
async def test_a_node_goes_by_it_within_its_own_bounds(cluster: FakeCluster) -> None:
    own = {"muster.backing.bootstrap.servers": "a:1", "group.consumer.max.session.timeout.ms": "55000"}
    followed = NodeGroupSettings(cast(Any, cluster), load(own).settings)  # As above.
    cluster.texts = {"a": {SESSION: "60000", BEAT: "6000", "consumer.of.a.later.kafka": "x"}}
    await followed.start()
    set_here, general = followed.in_force.of("a"), followed.in_force.of("b")
    assert (set_here.session_timeout_ms, set_here.heartbeat_interval_ms) == (55_000, 6_000)
    assert (general.session_timeout_ms, general.heartbeat_interval_ms) == (45_000, 5_000)
    await followed.close()
