"""What becomes of the requests that the gateway reads: answered here, or passed on with a rewritten answer.

The groups that are ours have their coordinator among the nodes; those that are not stay with the brokers, and what
is asked about them passes. Knows no sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from coordinator.gateway import answers, node_settings
from coordinator.gateway.addresses import Addresses
from coordinator.server.find_coordinator import BATCHED_SINCE, FindCoordinator
from protocol.error_responses import error_response
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_quorum import DescribeQuorumRequest
from protocol.messages.find_coordinator import (
    CoordinatorType,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.messages.offset_fetch import OffsetFetchRequest

BATCHED_OFFSET_FETCH_SINCE: Final = 8


@dataclass(frozen=True, slots=True)
class Answered:
    """The request has its answer."""

    response: Any


@dataclass(frozen=True, slots=True)
class PassedOn:
    """The request goes to a broker, whose answer is changed."""

    request: Any
    rewrite: Callable[[Any], Any]


def unchanged(response: Any) -> Any:
    return response


class Front:
    """Treats requests of clients that come through one listener."""

    def __init__(
        self, find: FindCoordinator, is_ours: Callable[[str], bool], addresses: Addresses, listener: str
    ) -> None:
        self.is_ours = is_ours
        self._find = find
        self._addresses = addresses
        self._listener = listener
        self.on_refused_transaction: Callable[[str, str], None] = lambda transactional_id, group_id: None
        """Called with the transactional id and the group of what is refused."""
        self.on_metadata: Callable[[MetadataResponse], None] = lambda response: None
        """Called with what brokers say of topics, before a client is shown it: it may name them to us at once."""

    def treat(self, request: Any, version: int) -> Answered | PassedOn:
        """What becomes of a request that is read on its way to a broker."""
        if isinstance(request, MetadataRequest):
            return PassedOn(request, self._metadata)
        if isinstance(request, DescribeClusterRequest):
            return PassedOn(request, partial(answers.describe_cluster, addresses=self._addresses))
        if isinstance(request, DescribeQuorumRequest):
            return PassedOn(request, answers.describe_quorum)
        if isinstance(request, IncrementalAlterConfigsRequest):
            answer = node_settings.altered(request, [node.node_id for node in self._addresses.nodes()])
            return PassedOn(request, unchanged) if answer is None else Answered(answer)
        if isinstance(request, ApiVersionsRequest):
            return PassedOn(request, answers.api_versions)
        if isinstance(request, FindCoordinatorRequest):
            return self._find_coordinator(request, version)
        if isinstance(request, AddOffsetsToTxnRequest):
            return self._add_offsets(request, version)
        if any(map(self.is_ours, groups_of(request, version))):
            return Answered(error_response(request, ErrorCode.NOT_COORDINATOR, version))
        return PassedOn(request, unchanged)

    def _metadata(self, response: MetadataResponse) -> MetadataResponse:
        self.on_metadata(response)
        return answers.metadata(response, self._addresses)

    def _add_offsets(self, request: Any, version: int) -> Answered | PassedOn:
        """Transactions do not reach the offsets of our groups: who begins one is told before anything is lost."""
        if not self.is_ours(request.group_id):
            return PassedOn(request, unchanged)
        self.on_refused_transaction(request.transactional_id, request.group_id)
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return Answered(error_response(request, refused, version))

    def _find_coordinator(self, request: FindCoordinatorRequest, version: int) -> Answered | PassedOn:
        pass_on = PassedOn(request, partial(self._rewritten, version))
        if request.key_type != CoordinatorType.GROUP:
            return pass_on
        keys = request.coordinator_keys if version >= BATCHED_SINCE else [request.key]
        theirs = [key for key in keys if not self.is_ours(key)]
        if not theirs:
            return Answered(self._find.answer(request, version, self._listener))
        if len(theirs) == len(keys):
            return pass_on
        return PassedOn(replace(request, coordinator_keys=theirs), partial(self._merged, request, version))

    def _rewritten(self, version: int, response: FindCoordinatorResponse) -> FindCoordinatorResponse:
        return answers.find_coordinator(response, version, self._addresses)

    def _merged(
        self, request: FindCoordinatorRequest, version: int, response: FindCoordinatorResponse
    ) -> FindCoordinatorResponse:
        """The brokers' answers and ours, in the order in which they were asked for."""
        ours = [key for key in request.coordinator_keys if self.is_ours(key)]
        own = self._find.answer(replace(request, coordinator_keys=ours), version, self._listener)
        theirs = self._rewritten(version, response)
        found = {each.key: each for each in (*theirs.coordinators, *own.coordinators)}
        theirs.coordinators = [found[key] for key in request.coordinator_keys if key in found]
        return theirs


def groups_of(request: Any, version: int) -> list[str]:
    """The groups that a request is about."""
    if isinstance(request, OffsetFetchRequest) and version >= BATCHED_OFFSET_FETCH_SINCE:
        return [group.group_id for group in request.groups]
    if isinstance(request, DescribeGroupsRequest):
        return list(request.groups)
    if isinstance(request, DeleteGroupsRequest):
        return list(request.groups_names)
    if isinstance(request, ConsumerGroupDescribeRequest):
        return list(request.group_ids)
    return [request.group_id]
