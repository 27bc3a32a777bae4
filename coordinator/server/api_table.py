"""The API table: what is served, in which versions, by whom. Dispatch and ApiVersions both read it.

An API is advertised if and only if it stands here, so nothing is promised that does not work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from coordinator.server.pending import Pending
from coordinator.topics.feature_levels import HIGHEST_LEVELS, SUPPORTED_FEATURES, FeatureLevels
from protocol.codec.codec import spec
from protocol.errors import ErrorCode
from protocol.messages import REQUESTS
from protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from protocol.messages.versions import SUPPORTED

API_VERSIONS_KEY = 18

Handler = Callable[[Any, Pending], None]

Repeat = Callable[[int], tuple[bytes, bytes]]
"""Handles one remembered request again, at `now_ms`: the answer's bytes before and after its correlation id."""

Repeater = Callable[[Any, int], Repeat]
"""Makes a `Repeat` of a decoded request and its API version."""


class Again(Protocol):
    """A remembered request that differs from the next of its like in some numbers alone."""

    def numbers_in(self, data: bytes | bytearray, start: int, stop: int) -> tuple[int, ...] | None:
        """Those of the frame `data[start:stop]`, which begins with its size; None if it is not the like of it."""
        ...

    def may_come(self, now_ms: int) -> bool:
        """Whether it would be handled as before; if not, it is to be decoded and handled as any other."""
        ...

    def handle(self, numbers: tuple[int, ...], pending: Pending) -> None:
        """Handle it again, with these numbers."""
        ...


Recaller = Callable[[Any, int, bytes], "Again | None"]
"""Makes an `Again` of a decoded request, its API version and its frame, if it lends itself to that."""


@dataclass(frozen=True, slots=True)
class Api:
    """One row: an API, the versions that are served, and how it behaves in its connection's order."""

    key: int
    name: str
    request_class: type
    min_version: int  # Served from here; Produce is *reported* from 0 for librdkafka's sake.
    max_version: int
    flexible_since: int
    handle: Handler
    pipelines: bool
    """Its state applies at once and only its answer waits, so the next such request need not wait for it."""
    repeater: Repeater | None = None
    """For an API that clients send again and again: the same bytes are then not decoded anew."""
    recaller: Recaller | None = None
    """For one that they send again and again with other numbers."""


FEATURES_FROM_0_SINCE = 4
"""Clients of earlier versions cannot read a feature whose lowest version is 0 (KAFKA-17011)."""

PIPELINED = {0, 8, 9, 12}
"""Produce, OffsetCommit, OffsetFetch, Heartbeat. All others wait for the answers before them, as in Kafka."""


def api_table(
    handlers: Mapping[int, Handler],
    repeaters: Mapping[int, Repeater] | None = None,
    recallers: Mapping[int, Recaller] | None = None,
    features: Callable[[], FeatureLevels] = lambda: HIGHEST_LEVELS,
) -> dict[int, Api]:
    """Build the table from handlers by API key; a key without a handler is not served.

    `features` gives the levels as they are now, for ApiVersions.
    """
    table = {
        key: _api(key, handle, (repeaters or {}).get(key), (recallers or {}).get(key))
        for key, handle in handlers.items()
    }
    table[API_VERSIONS_KEY] = _api(API_VERSIONS_KEY, ApiVersionsHandler(table, features))
    return table


def _api(
    key: int, handle: Handler, repeater: Repeater | None = None, recaller: Recaller | None = None
) -> Api:
    request_class = REQUESTS[key]
    message = spec(request_class)
    return Api(
        key=key,
        name=request_class.__name__.removesuffix("Request"),
        request_class=request_class,
        min_version=message.min_version,
        max_version=message.max_version,
        flexible_since=message.flexible_since,
        handle=handle,
        pipelines=key in PIPELINED,
        repeater=repeater,
        recaller=recaller,
    )


class ApiVersionsHandler:
    """ApiVersions (key 18): the table itself, as clients see it (KIP-35, KIP-511)."""

    def __init__(self, table: Mapping[int, Api], features: Callable[[], FeatureLevels]) -> None:
        self._table = table
        self._features = features

    def __call__(self, request: ApiVersionsRequest, pending: Pending) -> None:
        error = ErrorCode.NONE
        if pending.api_version >= 3 and not _is_valid(request):
            error = ErrorCode.INVALID_REQUEST
        pending.reply(self._response(pending.api_version, error))

    def _response(self, api_version: int, error: ErrorCode) -> ApiVersionsResponse:
        if error:
            return ApiVersionsResponse(error_code=error)
        features = self._features()
        return ApiVersionsResponse(
            api_keys=self._rows(),
            supported_features=[
                SupportedFeatureKey(name=name, min_version=levels[0], max_version=levels[-1])
                for name, levels in SUPPORTED_FEATURES.items()
                if levels[0] > 0 or api_version >= FEATURES_FROM_0_SINCE
            ],
            finalized_features_epoch=features.epoch,
            finalized_features=[
                FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in features.levels.items()
                if level > 0  # At 0 a feature is not finalized.
            ],
        )

    def _rows(self) -> list[ApiVersion]:
        return [
            ApiVersion(api_key=key, min_version=SUPPORTED[key][0], max_version=SUPPORTED[key][1])
            for key in sorted(self._table)
        ]

    def unsupported_version(self, pending: Pending) -> None:
        """Answer a version that nobody knows in v0, which everybody reads, with error 35 (KIP-511)."""
        row = self._table[API_VERSIONS_KEY]
        own = ApiVersion(api_key=API_VERSIONS_KEY, min_version=row.min_version, max_version=row.max_version)
        pending.api_version = 0
        pending.reply(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own]))


def _is_valid(request: ApiVersionsRequest) -> bool:
    """KIP-511: the client's software name and version are made of letters, digits, '-' and '.'."""
    return _is_software_word(request.client_software_name) and _is_software_word(
        request.client_software_version
    )


def _is_software_word(word: str) -> bool:
    inner = word.replace("-", "").replace(".", "")
    return inner.isascii() and inner.isalnum() and word[0].isalnum() and word[-1].isalnum()
