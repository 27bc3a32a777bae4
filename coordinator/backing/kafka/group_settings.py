"""Follows what is set for single groups on the cluster (KIP-848): tools set it there, groups have it here.

The groups that have settings are listed, and described, about once a second. Of a cluster that cannot list them
nothing is followed, and the log says so; so it does of a group that the cluster does not describe to this node.
Knows no groups, and not what a setting means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from coordinator.backing.kafka.cluster import BackingCluster, BackingError, error_of
from coordinator.backing.kafka.complaints import Complaints
from coordinator.runtime.tasks import end, spawn
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import (
    ConfigResourceType,
    ConfigSource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

PAUSE_S: Final = 1.0
"""Between two looks, at the least."""
PAUSE_OF_A_GROUP_S: Final = 0.002
"""And for each group with settings: a thousand of them are described every three seconds."""
DESCRIBED_AT_ONCE: Final = 500
OF_KINDS_SINCE: Final = 1
"""The first version of ListConfigResources that lists groups."""

Texts = Mapping[str, str]
"""What is set for one group, by name."""
OnSet = Callable[[str, Texts], None]
"""Called with a group's id and all that is set for it now; nothing once nothing is."""

log = structlog.get_logger(__name__)


class GroupSettingsWatch:
    """Asks for one node. `start` once the cluster has started, `close` at the end."""

    def __init__(self, cluster: BackingCluster, on_set: OnSet) -> None:
        self._cluster = cluster
        self._on_set = on_set
        self._texts: dict[str, Texts] = {}
        self._task: asyncio.Task[None] | None = None
        self._complaints = Complaints(log, "what is set for single groups is as it was known")

    async def start(self) -> None:
        """Know what is set, if the cluster says it, and go on looking."""
        await self._look_once()
        self._task = spawn(self._look_on())

    async def close(self) -> None:
        """Ask nothing more."""
        await end(self._task)

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(PAUSE_S + PAUSE_OF_A_GROUP_S * len(self._texts))
            try:
                await self._look_once()
            except Exception as error:  # A bug of ours, or what no answer should hold; the next look may do.
                self._complaints.bug(error)

    async def _look_once(self) -> None:
        try:
            self._take(await self._described())
        except BackingError as error:
            self._complaints.say(str(error))

    async def _described(self) -> list[DescribeConfigsResult]:
        """All groups with settings. Raises BackingError."""
        kinds = ListConfigResourcesRequest(resource_types=[ConfigResourceType.GROUP])
        listed: ListConfigResourcesResponse = await self._cluster.ask_any(kinds, min_version=OF_KINDS_SINCE)
        if listed.error_code != ErrorCode.NONE:
            raise BackingError(f"ListConfigResources: {error_of(listed.error_code).name}")
        found: list[DescribeConfigsResult] = []
        for names in _slices([each.resource_name for each in listed.config_resources]):
            resources = [
                DescribeConfigsResource(
                    resource_type=ConfigResourceType.GROUP, resource_name=name, configuration_keys=None
                )
                for name in names
            ]
            answer: DescribeConfigsResponse = await self._cluster.ask_any(
                DescribeConfigsRequest(resources=resources)
            )
            found += answer.results
        return found

    def _take(self, described: list[DescribeConfigsResult]) -> None:
        refused = ""
        found: dict[str, Texts] = {}
        for result in described:
            group_id = result.resource_name
            if result.error_code == ErrorCode.NONE:
                found[group_id] = _texts(result)
            else:
                refused = f"DescribeConfigs of group {group_id}: {error_of(result.error_code).name}"
                found[group_id] = self._texts.get(group_id, {})
        for group_id in sorted(self._texts.keys() | found.keys()):
            if (texts := found.get(group_id, {})) != self._texts.get(group_id, {}):
                self._report(group_id, texts)
        if refused:
            self._complaints.say(refused)
        else:
            self._complaints.over()

    def _report(self, group_id: str, texts: Texts) -> None:
        """What one group cannot take is reported again with the next look, and keeps no other from its own."""
        about = f"group {group_id}"
        try:
            self._on_set(group_id, texts)
        except Exception as error:  # A bug of ours.
            self._complaints.bug(error, about)
            return
        self._complaints.over(about)
        self._texts[group_id] = texts
        if not texts:
            del self._texts[group_id]


def _slices(names: list[str]) -> list[list[str]]:
    return [names[start : start + DESCRIBED_AT_ONCE] for start in range(0, len(names), DESCRIBED_AT_ONCE)]


def _texts(result: DescribeConfigsResult) -> Texts:
    return {
        each.name: each.value
        for each in result.configs
        if each.config_source == ConfigSource.GROUP_CONFIG and each.value is not None
    }
