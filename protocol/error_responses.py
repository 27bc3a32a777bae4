"""A response that says one error and nothing else, derived from the schemas of request and response.

Where a version of a response has an error for the whole request, that is set and all else is empty. Where it has
none, each row of the request (a topic and its partitions, a group, a transaction) has its row in the response:
what both call the same is copied, and the error is set in each. SPECIAL_CASES lists what the schemas leave open.
Before that the error is put in words that the client knows: APPEND_ANSWER for what a log says, KNOWN_SINCE for
errors that are younger than the client. Which error a request deserves is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar

from protocol.codec.codec import spec
from protocol.codec.primitives import Fixed
from protocol.codec.schema import NEVER, Array, FieldSpec, Struct, WireType, fields_of
from protocol.errors import ErrorCode
from protocol.messages import RESPONSES
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from protocol.messages.alter_client_quotas import AlteredEntryData
from protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsResponse
from protocol.messages.delegation_tokens import (
    CreateDelegationTokenResponse,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenResponse,
)
from protocol.messages.delete_groups import DeleteGroupsResponse
from protocol.messages.delete_records import DeleteRecordsPartitionResult
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.find_coordinator import Coordinator
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.join_group import NULL_PROTOCOL_SINCE, JoinGroupResponse
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponsePartition
from protocol.messages.produce import PartitionProduceResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

T = TypeVar("T")

APPEND_ANSWER: Final[dict[ErrorCode, ErrorCode]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The error of an append to a coordinator's log, and the one that a client gets for it (docs/kafka.md 2.1)."""

NEVER_KNOWN: Final = 1 << 15
"""Above every version: no client of the API knows the error, whatever its version."""

KNOWN_SINCE: Final[dict[tuple[type, ErrorCode], tuple[int, ErrorCode]]] = {
    (InitProducerIdRequest, ErrorCode.PRODUCER_FENCED): (4, ErrorCode.INVALID_PRODUCER_EPOCH),
    (AddPartitionsToTxnRequest, ErrorCode.PRODUCER_FENCED): (2, ErrorCode.INVALID_PRODUCER_EPOCH),
    (AddOffsetsToTxnRequest, ErrorCode.PRODUCER_FENCED): (2, ErrorCode.INVALID_PRODUCER_EPOCH),
    (EndTxnRequest, ErrorCode.PRODUCER_FENCED): (2, ErrorCode.INVALID_PRODUCER_EPOCH),
    # Old producers stop for good when the answer is that a coordinator is loading.
    (TxnOffsetCommitRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS): (
        2,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ),
    # Clients take COORDINATOR_NOT_AVAILABLE for fatal here; as in Kafka (docs/kafka.md 2.1).
    (OffsetFetchRequest, ErrorCode.COORDINATOR_NOT_AVAILABLE): (NEVER_KNOWN, ErrorCode.NOT_COORDINATOR),
}
"""The version from which the clients of an API know an error, and the error that older clients get instead."""


@dataclass(frozen=True, slots=True)
class SpecialCase:
    """What the schema of a response, or of a row of one, leaves open where there is an error."""

    # Values of fields that differ from their defaults,
    values: Mapping[str, Any] = field(default_factory=dict)
    since: int = 0  # from this API version on.
    is_per_row: bool = False  # The error is set in each row, although there is a field for the whole.
    is_once_per_name: bool = False  # A row that the request repeats is answered once.
    copied: tuple[str, ...] = ()  # Lists in a row of the request that its answer repeats.


ORDINARY: Final = SpecialCase()
SPECIAL_CASES: Final[dict[type, SpecialCase]] = {
    JoinGroupResponse: SpecialCase({"protocol_name": None}, since=NULL_PROTOCOL_SINCE),
    InitProducerIdResponse: SpecialCase({"producer_epoch": -1}),
    OffsetFetchResponsePartition: SpecialCase({"committed_offset": -1}),
    Coordinator: SpecialCase({"node_id": -1, "host": "", "port": -1}),
    PartitionProduceResponse: SpecialCase({"base_offset": -1}),
    DeleteRecordsPartitionResult: SpecialCase({"low_watermark": -1}),
    CreateDelegationTokenResponse: SpecialCase(
        {
            **dict.fromkeys(("principal_type", "token_requester_principal_type"), "User"),
            **dict.fromkeys(("principal_name", "token_requester_principal_name"), "ANONYMOUS"),
            **dict.fromkeys(("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"), -1),
            "token_id": "",
            "hmac": b"",
        }
    ),
    RenewDelegationTokenResponse: SpecialCase({"expiry_timestamp_ms": 0}),
    ExpireDelegationTokenResponse: SpecialCase({"expiry_timestamp_ms": 0}),
    AlteredEntryData: SpecialCase({"error_message": None}, copied=("entity",)),
    AddPartitionsToTxnResponse: SpecialCase(is_per_row=True),
    DeleteGroupsResponse: SpecialCase(is_once_per_name=True),
    AlterUserScramCredentialsResponse: SpecialCase(is_once_per_name=True),
}

Build: TypeAlias = Callable[[Any, ErrorCode], Any]
"""Takes a request, or one row of it, and an error; makes the response, or the row's answer in it."""

Naming: TypeAlias = Callable[[Any], dict[str, Any]]
"""The fields of a row in a response that say which row of the request it answers."""


def append_answer(error: ErrorCode) -> ErrorCode:
    """Return the error that a client gets for an append's `error`; other errors pass unchanged."""
    return APPEND_ANSWER.get(error, error)


def known_error(request_class: type, error: ErrorCode, api_version: int) -> ErrorCode:
    """Return `error`, or the one that clients of `request_class` in this version know in its place."""
    since, instead = KNOWN_SINCE.get((request_class, error), (0, error))
    return error if api_version >= since else instead


def error_response(request: Any, error: ErrorCode, api_version: int) -> Any:
    """Return the response to `request`, of any request class, that has `error` and nothing else."""
    request_class: type = type(request)
    known = known_error(request_class, append_answer(error), api_version)
    return _response(request_class, api_version)(request, known)


def response_with_error(response_class: type[T], error: ErrorCode, api_version: int) -> T:
    """Return a response with `error`, without its request; this version must have an error for the whole."""
    cls: type = response_class
    response: T = _without_request(cls, api_version)(None, error)
    return response


@cache
def _response(request_class: type, api_version: int) -> Build:
    key = spec(request_class).api_key
    assert key is not None, f"{request_class.__name__} is no request"
    return _build(RESPONSES[key], Struct(request_class), _unnamed, api_version)


@cache
def _without_request(response_class: type, api_version: int) -> Build:
    return _build(response_class, None, _unnamed, api_version)


def _build(cls: type, asked: WireType | None, naming: Naming, api_version: int) -> Build:
    """Return what makes a `cls` of a request or row of type `asked`: with an error of its own, or one per row."""
    case = SPECIAL_CASES.get(cls, ORDINARY)
    values = case.values if api_version >= case.since else {}
    error_name = next((each.name for each in _present_fields(cls, api_version) if _is_error(each)), None)
    if error_name is not None and not case.is_per_row:
        return lambda row, error: cls(**naming(row), **values, **{error_name: error})
    assert isinstance(asked, Struct), f"{cls.__name__} has no error for the whole"
    name, row_class = _error_rows(cls, api_version)
    lists = _lists_of_rows(asked.cls, api_version)
    assert len(lists) == 1 or case.is_once_per_name, (
        f"{asked.cls.__name__} v{api_version} has rows in {lists}"
    )
    parts = [
        (asked_name, _naming(row_class, row), _build(row_class, row, _naming(row_class, row), api_version))
        for asked_name, row in lists
    ]

    def build(whole: Any, error: ErrorCode) -> Any:
        made: dict[object, Any] = {}
        for asked_name, name_of, build_row in parts:
            for row in getattr(whole, asked_name) or ():  # Null, which stands for all, names none.
                key = tuple(name_of(row).values()) if case.is_once_per_name else len(made)
                made.setdefault(key, build_row(row, error))
        return cls(**naming(whole), **values, **{name: list(made.values())})

    return build


def _unnamed(request: Any) -> dict[str, Any]:
    """Return no fields: a response copies none of its request, not even of the same name: an id may be refused."""
    return {}


def _naming(row_class: type, asked: WireType) -> Naming:
    """Return what copies the fields that a `row_class` shares with `asked`; of a plain value, that of its type."""
    copied = SPECIAL_CASES.get(row_class, ORDINARY).copied
    own = [
        each
        for each in fields_of(row_class)
        if not _is_error(each) and (not isinstance(each.type, Array) or each.name in copied)
    ]
    if isinstance(asked, Struct):
        theirs = {each.name for each in fields_of(asked.cls)}
        shared = [each.name for each in own if each.name in theirs]
        first = fields_of(asked.cls)[0]
        renamed = [each.name for each in own if each.type == first.type and each.nullable == NEVER]
        if renamed and not shared:  # A user's `name` is `user` in the response.
            return lambda row: {renamed[0]: getattr(row, first.name)}
        return lambda row: {name: getattr(row, name) for name in shared}
    alike = [each for each in own if each.type == asked]
    name = next((each for each in alike if each.nullable == NEVER), alike[0]).name
    return lambda value: {name: value}


def _error_rows(cls: type, api_version: int) -> tuple[str, type]:
    """Return name and row class of the one array of `cls` whose rows have errors, or rows with errors."""
    found = [
        (each.name, each.type.element.cls)
        for each in _present_fields(cls, api_version)
        if isinstance(each.type, Array)
        and isinstance(each.type.element, Struct)
        and _has_error(each.type.element.cls, api_version)
    ]
    assert len(found) == 1, f"{cls.__name__} v{api_version} has errors in {found}"
    return found[0]


def _lists_of_rows(cls: type, api_version: int) -> list[tuple[str, WireType]]:
    """Return names and element types of the arrays of a request, or of a row of it."""
    return [
        (each.name, each.type.element)
        for each in _present_fields(cls, api_version)
        if isinstance(each.type, Array)
    ]


def _has_error(cls: type, api_version: int) -> bool:
    """Whether `cls`, or any row in it, has an error field in this version."""
    return any(
        _is_error(each)
        or (
            isinstance(each.type, Array)
            and isinstance(each.type.element, Struct)
            and _has_error(each.type.element.cls, api_version)
        )
        for each in _present_fields(cls, api_version)
    )


def _is_error(each: FieldSpec) -> bool:
    return isinstance(each.type, Fixed) and each.name.endswith("error_code")


def _present_fields(cls: type, api_version: int) -> list[FieldSpec]:
    return [each for each in fields_of(cls) if api_version in each.present]
