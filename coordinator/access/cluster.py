"""The checks of the APIs that ask for one right to the cluster, and what each answers without it.

Kafka's error messages repeat the whole request here (A10), where there is any; ours are the text of the error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from coordinator.access.asker import Asker
from coordinator.access.refusals import words_of
from coordinator.access.verdict import Check, Verdict, passes, refused
from coordinator.security.acls import Operation
from protocol.error_responses import error_response
from protocol.errors import ErrorCode
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntryData,
)
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from protocol.messages.describe_client_quotas import DescribeClientQuotasResponse
from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from protocol.messages.describe_log_dirs import DescribeLogDirsResponse
from protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
WORDS: Final = words_of(DENIED)
ERRORS_SINCE: Final = 1
"""Version of ElectLeaders from which on there is an error of the whole."""

Refuse = Callable[[Any, int], Any]
"""Makes the refusal of a request in an API version."""


def cluster(operation: Operation, refuse: Refuse | None = None) -> Check:
    """Return the check that asks for `operation` on the cluster; `refuse` makes the answer to who may not do it.

    Without `refuse` it is derived from the schemas.
    """
    make = refuse or _error_alone

    def check(request: Any, asker: Asker) -> Verdict:
        return passes(request) if asker.may_cluster(operation) else refused(make(request, asker.version))

    return check


def check_describe_cluster(request: DescribeClusterRequest, asker: Asker) -> Verdict:
    """DescribeCluster: everybody may ask; the operations that the client may do are its own."""
    if not request.include_cluster_authorized_operations:
        return passes(request)

    def complete(response: DescribeClusterResponse) -> DescribeClusterResponse:
        if not response.error_code:
            response.cluster_authorized_operations = asker.cluster_operations()
        return response

    return Verdict(request, complete_part=complete)


def _error_alone(request: Any, version: int) -> Any:
    response = error_response(request, DENIED, version)
    if hasattr(response, "error_message"):
        response.error_message = WORDS
    return response


def rows_refused(rows: str) -> Refuse:
    """Return what refuses each row of a response, which is in its field `rows`."""

    def refuse(request: Any, version: int) -> Any:
        response = error_response(request, DENIED, version)
        for row in getattr(response, rows):
            row.error_message = WORDS
        return response

    return refuse


def refuse_log_dirs(request: AlterReplicaLogDirsRequest, _version: int) -> AlterReplicaLogDirsResponse:
    """AlterReplicaLogDirs (key 34): the error for each partition, by directory and topic."""
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=DENIED)
                    for index in topic.partitions
                ],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


def refuse_describe_log_dirs(_request: Any, _version: int) -> DescribeLogDirsResponse:
    """DescribeLogDirs (key 35): no results, and the error where the version has one."""
    return DescribeLogDirsResponse(error_code=DENIED)


def refuse_elections(request: ElectLeadersRequest, version: int) -> ElectLeadersResponse:
    """ElectLeaders (key 43): the error of the whole, and of each partition that is named."""
    return ElectLeadersResponse(
        error_code=DENIED if version >= ERRORS_SINCE else ErrorCode.NONE,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=DENIED, error_message=WORDS)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def refuse_reassignments(
    request: AlterPartitionReassignmentsRequest, _version: int
) -> AlterPartitionReassignmentsResponse:
    """AlterPartitionReassignments (key 45): the error of the whole, and of each partition."""
    return AlterPartitionReassignmentsResponse(
        error_code=DENIED,
        error_message=WORDS,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=each.partition_index, error_code=DENIED, error_message=WORDS
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def refuse_listed_reassignments(
    request: ListPartitionReassignmentsRequest, _version: int
) -> ListPartitionReassignmentsResponse:
    """ListPartitionReassignments (key 46): the error, and what was named, with nothing about it."""
    return ListPartitionReassignmentsResponse(
        error_code=DENIED,
        error_message=WORDS,
        topics=[
            OngoingTopicReassignment(
                name=topic.name,
                partitions=[
                    OngoingPartitionReassignment(partition_index=index) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ],
    )


def refuse_described_quotas(_request: Any, _version: int) -> DescribeClientQuotasResponse:
    """DescribeClientQuotas (key 48): the error, and null in place of entries."""
    return DescribeClientQuotasResponse(error_code=DENIED, error_message=None, entries=None)


def refuse_described_scram(
    request: DescribeUserScramCredentialsRequest, _version: int
) -> DescribeUserScramCredentialsResponse:
    """DescribeUserScramCredentials (key 50): the error, and once more for each user, without a name."""
    row = DescribeUserScramCredentialsResult(user="", error_code=DENIED, error_message=None)
    return DescribeUserScramCredentialsResponse(
        error_code=DENIED, error_message=None, results=[row] * len(request.users or ())
    )


def refuse_altered_quotas(request: AlterClientQuotasRequest, _version: int) -> AlterClientQuotasResponse:
    """AlterClientQuotas (key 49): the error for each entity."""
    return AlterClientQuotasResponse(
        entries=[
            AlteredEntryData(error_code=DENIED, error_message=WORDS, entity=entry.entity)
            for entry in request.entries
        ]
    )


def refuse_altered_scram(
    request: AlterUserScramCredentialsRequest, _version: int
) -> AlterUserScramCredentialsResponse:
    """AlterUserScramCredentials (key 51): the error for each user, once and by name."""
    users = {deletion.name for deletion in request.deletions} | {each.name for each in request.upsertions}
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=DENIED, error_message=WORDS)
            for user in sorted(users)
        ]
    )
