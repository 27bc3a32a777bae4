"""The quorum of the cluster's metadata, answered as by a Kafka of one node that is the only, static, voter.

DescribeQuorum (key 55), UnregisterBroker (64), AddRaftVoter (80), RemoveRaftVoter (81). Topics and settings are
kept in files, not in a metadata log: that log is shown as empty, in its first epoch, and without a listener.
"""

from __future__ import annotations

from typing import Final

from coordinator.data.broker import Broker, ClientRequest
from coordinator.topics.names import CLUSTER_METADATA_TOPIC
from coordinator.topics.refusal import Refused
from protocol.codec.primitives import ZERO_UUID
from protocol.errors import ErrorCode
from protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Node,
    QuorumPartition,
    QuorumReplica,
    QuorumTopic,
)
from protocol.messages.raft_voters import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from protocol.messages.shared import ControllerListener
from protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

EPOCH: Final = 0
LOG_END: Final = 0
NOT_HOSTED: Final = "This server does not host this topic-partition."
CONTROLLER_LISTENER: Final = "CONTROLLER"
"""The name of the controllers' listener in Kafka's own configuration; a voter must have a listener so named."""
MAX_WORDS: Final = 1000
"""Most characters of a refusal's message, which may repeat text of the client's."""


def describe_quorum(broker: Broker, request: DescribeQuorumRequest, pending: ClientRequest) -> None:
    """DescribeQuorum (key 55): this node is the only voter, and the leader.

    As in Kafka, the metadata's partition is described only if no other partition is asked for.

    Errors per partition: UNKNOWN_TOPIC_OR_PARTITION.
    """
    asked = [
        (topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.topics
    ]
    if asked != [(CLUSTER_METADATA_TOPIC, [0])]:
        topics = [
            QuorumTopic(topic_name=name, partitions=[_unknown(index) for index in indexes])
            for name, indexes in asked
        ]
        pending.reply(DescribeQuorumResponse(topics=topics))
        return
    described = QuorumTopic(topic_name=CLUSTER_METADATA_TOPIC, partitions=[_metadata_log(broker)])
    response = DescribeQuorumResponse(topics=[described])
    if pending.api_version >= 2:
        response.nodes = [Node(node_id=broker.settings.node_id)]
    pending.reply(response)


def _unknown(index: int) -> QuorumPartition:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return QuorumPartition(partition_index=index, error_code=error, error_message=NOT_HOSTED)


def _metadata_log(broker: Broker) -> QuorumPartition:
    """Return the state of the metadata log: the leader has just fetched, and has the whole log."""
    now_ms, node_id = broker.wall_ms(), broker.settings.node_id
    voter = QuorumReplica(
        replica_id=node_id,
        log_end_offset=LOG_END,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return QuorumPartition(
        partition_index=0,
        leader_id=node_id,
        leader_epoch=EPOCH,
        high_watermark=LOG_END,
        current_voters=[voter],
    )


def unregister_broker(broker: Broker, request: UnregisterBrokerRequest, pending: ClientRequest) -> None:
    """UnregisterBroker (key 64), always refused: no other broker is registered, and this one must stay.

    A broker of Kafka that unregisters itself serves no client until its next start.

    Errors: BROKER_ID_NOT_REGISTERED, INVALID_REQUEST (this node).
    """
    broker_id = request.broker_id
    error, words = ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered"
    if broker_id == broker.settings.node_id:
        error, words = ErrorCode.INVALID_REQUEST, f"Broker ID {broker_id} is the only node of this cluster."
    pending.reply(UnregisterBrokerResponse(error_code=error, error_message=words))


def add_voter(broker: Broker, request: AddRaftVoterRequest, pending: ClientRequest) -> None:
    """AddRaftVoter (key 80), always refused, as by Kafka at `kraft.version` 0: the configuration names the voters.

    Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST, UNSUPPORTED_VERSION.
    """
    try:
        _check_voter(broker, request, "Add")
        if all(listener.name != CONTROLLER_LISTENER for listener in request.listeners):
            words = f"Add voter request didn't include the endpoint ({_endpoints(request.listeners)}) "
            words += f"for the default listener ListenerName({CONTROLLER_LISTENER})"
            raise Refused(ErrorCode.INVALID_REQUEST, words)
        raise Refused(ErrorCode.UNSUPPORTED_VERSION, _unsupported_text("adding"))
    except Refused as refused:
        pending.reply(AddRaftVoterResponse(error_code=refused.error, error_message=_message_of(refused)))


def remove_voter(broker: Broker, request: RemoveRaftVoterRequest, pending: ClientRequest) -> None:
    """RemoveRaftVoter (key 81), always refused, as AddRaftVoter is.

    Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST, UNSUPPORTED_VERSION.
    """
    try:
        _check_voter(broker, request, "Remove")
        raise Refused(ErrorCode.UNSUPPORTED_VERSION, _unsupported_text("removing"))
    except Refused as refused:
        pending.reply(RemoveRaftVoterResponse(error_code=refused.error, error_message=_message_of(refused)))


def _check_voter(broker: Broker, request: AddRaftVoterRequest | RemoveRaftVoterRequest, what: str) -> None:
    """Raise Refused if the request names another cluster or an invalid voter; `what` is for the message."""
    own = broker.settings.cluster_id
    if request.cluster_id not in (None, own):
        words = f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{own}"'
        raise Refused(ErrorCode.INCONSISTENT_CLUSTER_ID, words)
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{what} voter request didn't include a valid voter")


def _endpoints(listeners: list[ControllerListener]) -> str:
    by_name = {each.name: f"{each.host}/<unresolved>:{each.port}" for each in listeners}
    shown = ", ".join(f"ListenerName({name})={address}" for name, address in by_name.items())
    return f"Endpoints(endpoints={{{shown}}})"


def _unsupported_text(doing: str) -> str:
    return f"Cluster doesn't support {doing} voter because the kraft.version feature is 0"


def _message_of(refused: Refused) -> str:
    return (refused.message or "")[:MAX_WORDS]
