"""Error responses byte for byte as they were before they were derived from the schemas, in every version.

`error_responses.txt` was recorded when each was spelled out by hand. Beside it the errors that a client does not
get as they are: what a log says, and what is younger than the client.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from coordinator.offsets.transactional_commit import TransactionalCommit
from coordinator.runtime.group_shards import group_shards
from coordinator.runtime.transaction_shards import transaction_shards
from protocol.codec.codec import decode, encode, spec
from protocol.error_responses import APPEND_ANSWER, KNOWN_SINCE, SPECIAL_CASES
from protocol.errors import ErrorCode
from protocol.messages import REQUESTS, RESPONSES

RECORDED_ERROR: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
OF_TRANSACTIONS: Final = frozenset({22, 24, 25, 26, 65, 66})
TXN_OFFSET_COMMIT: Final = 28


class Recorded(NamedTuple):
    """One answer that was recorded."""

    key: int
    version: int
    request: bytes
    response: bytes


def recorded() -> list[Recorded]:
    keys = {cls.__name__.removesuffix("Request"): key for key, cls in REQUESTS.items()}
    lines = (Path(__file__).parent / "error_responses.txt").read_text().splitlines()
    rows = (line.split(" ") for line in lines if not line.startswith("#"))
    return [
        Recorded(keys[api], int(version), bytes.fromhex(request), bytes.fromhex(response))
        for api, version, request, response in rows
    ]


RECORDED: Final = recorded()


def answered(row: Recorded, error: ErrorCode) -> bytes:
    """What the shard of the API answers to the request of `row`."""
    request: Any = decode(REQUESTS[row.key], row.version, row.request)
    kind: Any = (transaction_shards if row.key in OF_TRANSACTIONS else group_shards)(_no_shard)
    asked = TransactionalCommit(request) if row.key == TXN_OFFSET_COMMIT else request
    return bytes(encode(kind.error_response(asked, error, row.version), row.version))


def _no_shard(partition: int) -> Any:
    raise AssertionError("an error response needs no shard")


def test_every_version_of_every_api_of_a_coordinator_was_recorded() -> None:
    keys = {8, 9, 11, 12, 13, 14, 15, 16, TXN_OFFSET_COMMIT, 42, 47} | OF_TRANSACTIONS
    assert {(row.key, row.version) for row in RECORDED} == {
        (key, version)
        for key in keys
        for version in range(spec(REQUESTS[key]).min_version, spec(REQUESTS[key]).max_version + 1)
    }


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: f"{REQUESTS[row.key].__name__}-v{row.version}")
def test_an_error_response_is_byte_for_byte_as_recorded(row: Recorded) -> None:
    assert answered(row, RECORDED_ERROR).hex() == row.response.hex()


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: f"{REQUESTS[row.key].__name__}-v{row.version}")
def test_every_error_is_answered_as_clients_of_that_version_know_it(row: Recorded) -> None:
    """The append's errors first; then the few that a version does not know. All others pass as they are."""
    for error in ErrorCode:
        of_append = APPEND_ANSWER.get(error, error)
        assert answered(row, error) == answered(row, expected(row, of_append)), error
        if expected(row, of_append) is error:
            recorded_code, code = (each.to_bytes(2, "big", signed=True) for each in (RECORDED_ERROR, error))
            if row.response.count(recorded_code) == 1:
                assert answered(row, error) == row.response.replace(recorded_code, code), error


def expected(row: Recorded, error: ErrorCode) -> ErrorCode:
    """Kafka's rules, spelled out (docs/kafka.md 2.1; KIP-588)."""
    fenced_since = {22: 4, 24: 2, 25: 2, 26: 2}.get(row.key, 0)
    if error is ErrorCode.PRODUCER_FENCED and row.version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    is_old_producer = row.key == TXN_OFFSET_COMMIT and row.version < 2
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and is_old_producer:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error is ErrorCode.COORDINATOR_NOT_AVAILABLE and row.key == 9:
        return ErrorCode.NOT_COORDINATOR
    return error


def test_the_tables_name_messages_that_are_served() -> None:
    assert {request_class for request_class, _ in KNOWN_SINCE} <= set(REQUESTS.values())
    answered_by_rows = set(SPECIAL_CASES) - set(RESPONSES.values())
    assert {cls.__name__ for cls in answered_by_rows} == {
        *("Coordinator", "DeleteRecordsPartitionResult", "OffsetFetchResponsePartition"),
        *("PartitionProduceResponse", "AlteredEntryData"),
    }
