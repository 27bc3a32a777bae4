"""The gateway of one node, composed: what it has to know of the cluster behind it, its ports and its handlers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from coordinator.backing.kafka.cluster import BackingCluster, BackingError
from coordinator.backing.kafka.node_group import GROUP_PREFIX
from coordinator.backing.kafka.versions import api_versions
from coordinator.gateway.addresses import Addresses, Place
from coordinator.gateway.allowed import HIDDEN_FEATURES
from coordinator.gateway.connection import BrokerPortConnection
from coordinator.gateway.front import Front
from coordinator.gateway.own_port import OwnPort
from coordinator.gateway.ports import Ports
from coordinator.server.api_table import Api, Handler, api_table
from coordinator.server.find_coordinator import FindCoordinator
from coordinator.server.group_apis import GroupApis
from coordinator.server.server import Server, listen_for
from coordinator.settings.backing import GATEWAY
from coordinator.settings.listeners import ListenerConfig, SecurityProtocol
from coordinator.settings.model import Settings
from coordinator.settings.unusable import UnusableSettings
from coordinator.topics.feature_levels import GROUP_VERSION, HIGHEST_LEVELS, FeatureLevels
from coordinator.topics.placement import Placement
from protocol.errors import ErrorCode
from protocol.messages.acls import DescribeAclsRequest, DescribeAclsResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.metadata import MetadataResponse

_ANY: Final = 1
"""The kind of resource, pattern, operation and permission that stands for all."""

SHOWN_GROUPS: Final = 5
_COORDINATED: Final = ("", "classic", "consumer")
"""The types of groups that are coordinated here; brokers before 3.8 name none."""
REFUSED_REMEMBERED: Final = 1_000
"""Groups whose transactions were refused are logged once."""

log = structlog.get_logger("muster.gateway")


@dataclass(frozen=True, slots=True)
class Behind:
    """The cluster behind a gateway."""

    brokers: tuple[Place, ...]
    versions: Mapping[int, tuple[int, int]]
    """Of the APIs that all brokers serve, by key."""
    features: FeatureLevels


def refuse_as_gateway(settings: Settings, security_protocol: str) -> None:
    """Raises UnusableSettings for what a gateway cannot do yet."""
    if settings.muster_clients != GATEWAY:
        return
    begin = "with muster.clients=gateway"
    if len(settings.endpoints) != 1 or settings.endpoints[0].protocol is not SecurityProtocol.PLAINTEXT:
        raise UnusableSettings(f"{begin} there is one listener, of the protocol PLAINTEXT, yet")
    if security_protocol != "PLAINTEXT":
        raise UnusableSettings(
            f"{begin} muster.backing.security.protocol={security_protocol} is not served yet: clients would "
            "come to the brokers under the name of this node"
        )


async def look_behind(cluster: BackingCluster, settings: Settings) -> Behind:
    """What the gateway goes by. Raises BackingError, also for a cluster whose rights it would undermine."""
    await _check_authorizer(cluster, settings)
    await _check_groups(cluster, settings)
    answers = [await api_versions(cluster, broker_id) for broker_id in cluster.node_ids]
    versions = _common(
        [{row.api_key: (row.min_version, row.max_version) for row in each.api_keys} for each in answers]
    )
    newest = max(answers, key=lambda each: each.finalized_features_epoch)
    levels = {
        each.name: each.max_version_level
        for each in newest.finalized_features
        if each.name not in HIDDEN_FEATURES
    }
    levels[GROUP_VERSION] = HIGHEST_LEVELS.levels[GROUP_VERSION]
    brokers = tuple(
        Place(broker_id, address.host, address.port) for broker_id, address in cluster.brokers.items()
    )
    return Behind(brokers, versions, FeatureLevels(levels, max(newest.finalized_features_epoch, 0)))


def _common(of_brokers: list[dict[int, tuple[int, int]]]) -> dict[int, tuple[int, int]]:
    keys = set.intersection(*map(set, of_brokers))
    return {
        key: (max(each[key][0] for each in of_brokers), min(each[key][1] for each in of_brokers))
        for key in keys
    }


async def _check_authorizer(cluster: BackingCluster, settings: Settings) -> None:
    asked = DescribeAclsRequest(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    answer: DescribeAclsResponse = await cluster.ask_any(asked)
    if answer.error_code == ErrorCode.SECURITY_DISABLED or settings.muster_group_authorization:
        return
    raise BackingError(
        "the cluster has an authorizer, and its ACLs of groups would not hold behind this gateway: "
        "muster.group.authorization=none says that they need not"
    )


def included(settings: Settings) -> Callable[[str], bool]:
    """Whether a group has its coordinator here."""
    matches = re.compile(settings.muster_groups_include, re.DOTALL).fullmatch
    return lambda group_id: matches(group_id) is not None


async def _check_groups(cluster: BackingCluster, settings: Settings) -> None:
    """Groups that the brokers have would begin anew here, and skip or repeat what they have read."""
    is_ours, found = included(settings), set()
    for broker_id in cluster.node_ids:
        answer: ListGroupsResponse = await cluster.ask(broker_id, ListGroupsRequest())
        found |= {group.group_id for group in answer.groups if group.group_type in _COORDINATED}
    theirs = sorted(each for each in found if is_ours(each) and not each.startswith(GROUP_PREFIX))
    if theirs:
        more = f" and {len(theirs) - SHOWN_GROUPS} more" if len(theirs) > SHOWN_GROUPS else ""
        raise BackingError(
            f"the brokers have groups that muster.groups.include={settings.muster_groups_include} would have "
            f"here, without their offsets: {', '.join(theirs[:SHOWN_GROUPS])}{more}; leave them out, or delete "
            "them there"
        )


class Gateway:
    """The front door of one node; `server` is asked once it is there."""

    def __init__(
        self,
        settings: Settings,
        behind: Behind,
        find: FindCoordinator,
        placement: Placement,
        server: Callable[[], Server],
    ) -> None:
        self._listener = settings.endpoints[0]
        self._behind = behind
        self._server = server
        self.ports = Ports(self._open_port, settings.muster_gateway_first_port, behind.brokers)
        addresses = Addresses(self.ports, placement, self._listener.name)
        self._front = Front(find, included(settings), addresses, self._listener.name)
        self._front.on_refused_transaction = self._on_refused
        self._own = OwnPort(self._front, self.ports, behind.versions, lambda: server().memory_pool)
        self._refused: dict[str, None] = {}

    def on_metadata(self, hear: Callable[[MetadataResponse], None]) -> None:
        """Have `hear` called with the answers to Metadata that clients get from brokers."""
        self._front.on_metadata = hear

    def table(self, of_groups: Mapping[int, Handler], groups: GroupApis) -> dict[int, Api]:
        """The API table of the node's own port; `of_groups` are the handlers of `groups`, by API key."""
        table = api_table(
            self._own.handlers(of_groups),
            self._own.prepare(groups.prepare()),
            lambda: self._behind.features,
            groups.counts,
        )
        self._own.cap(table)
        return table

    async def open(self) -> None:
        """Open the ports of all brokers. Raises BindError."""
        self._server().on_closed.append(self._own.on_closed)
        await self.ports.open()

    async def _open_port(self, broker_id: int, port: int) -> tuple[str, int]:
        own = self._listener
        listener = ListenerConfig(f"{own.name}-{broker_id}", own.host, port, own.advertised_host, port)
        door = partial(
            BrokerPortConnection, self._server(), listener.name, broker_id, self._front, self.ports
        )
        return await listen_for(self._server(), listener, door)

    def _on_refused(self, transactional_id: str, group_id: str) -> None:
        if group_id in self._refused:
            return
        if len(self._refused) >= REFUSED_REMEMBERED:
            self._refused.clear()
        self._refused[group_id] = None
        log.warning(
            "transactions do not reach the offsets of groups that are coordinated here yet: refused",
            group_id=group_id,
            transactional_id=transactional_id,
        )
